//! Memory, and limits of the kernel.

use super::{Advice, CatalogueContext, PATH, Risk, Setting, SettingGroup, SettingStage, Where};
use crate::setting_place::Shape;
use linerate_measure::run::again::FigureKind;

const KERNEL: &str = "https://docs.kernel.org/admin-guide/sysctl/kernel.html";
const FS: &str = "https://docs.kernel.org/admin-guide/sysctl/fs.html";
const VM: &str = "https://docs.kernel.org/admin-guide/sysctl/vm.html";

const MEMORY: SettingGroup = SettingGroup { stage: SettingStage::Memory, figure: PATH };

pub(crate) const ENTRIES: &[Setting] = &[
    Setting {
        risk: Risk::Medium,
        ..MEMORY.entry(
            "numa-balancing",
            "the kernel moves pages to the node that uses them",
            Where::Sysctl("kernel.numa_balancing"),
            |look| match look.facts.machine.memory.nodes.len() {
                0 | 1 => Advice::Right,
                _ => look.exactly(
                    "0",
                    "workers are pinned and their pages placed: to find that out, the kernel takes faults on \
                     them again and again",
                ),
            },
            KERNEL,
            "programs that are not pinned keep their pages on the wrong node",
        )
    },
    Setting {
        range: Some((0, 7)),
        ..MEMORY.entry(
            "zone-reclaim-mode",
            "drop cached pages of a node before memory of another is taken",
            Where::Sysctl("vm.zone_reclaim_mode"),
            |look| {
                look.never_else("0", "a file server wants its cache more than it wants memory to be local")
            },
            VM,
            "some memory lies on the other node",
        )
    },
    Setting {
        range: Some((0, 200)),
        ..MEMORY.entry(
            "swappiness",
            "how readily programs are swapped out for the page cache",
            Where::Sysctl("vm.swappiness"),
            |look| match look.number() {
                Some(0..=10) => Advice::Right,
                Some(_) => {
                    Advice::change(10, "bulk that is read once should not push programs out of memory")
                }
                None => Advice::Unknown(format!("“{}” is not a number", look.now)),
            },
            VM,
            "less page cache under pressure",
        )
    },
    Setting {
        shape: Shape::Choice,
        findings: &["no-huge-pages"],
        ..MEMORY.entry(
            "transparent-huge-pages",
            "pages of 2 MiB without being asked",
            Where::File("/sys/kernel/mm/transparent_hugepage/enabled"),
            |look| match look.now {
                "never" => Advice::change(
                    "madvise",
                    "programs that ask for them (linerate's buffers do) then get them",
                ),
                _ => Advice::Right,
            },
            "https://docs.kernel.org/admin-guide/mm/transhuge.html",
            "memory is compacted for programs that ask",
        )
    },
    Setting {
        left: Some("for programs with MAP_HUGETLB, DPDK and databases; linerate asks for none"),
        risk: Risk::Medium,
        ..MEMORY.entry(
            "huge-pages",
            "pages of 2 MiB that are kept for programs that ask for them",
            Where::Sysctl("vm.nr_hugepages"),
            |_| Advice::Right,
            "https://docs.kernel.org/admin-guide/mm/hugetlbpage.html",
            "the memory is taken from everybody else",
        )
    },
    Setting {
        risk: Risk::Medium,
        ..MEMORY.entry(
            "min-free-kbytes",
            "KiB that are kept free for the kernel's own needs",
            Where::Sysctl("vm.min_free_kbytes"),
            free_for_frames,
            VM,
            "memory that programs do not get; too much ends them",
        )
    },
    Setting {
        stage: SettingStage::Disk,
        figure: FigureKind::DirectReads,
        risk: Risk::High,
        findings: &["io-uring-off"],
        range: Some((0, 2)),
        ..MEMORY.entry(
            "io-uring-disabled",
            "io_uring is switched off: 0 allowed, 1 for all but one group, 2 for all",
            Where::Sysctl("kernel.io_uring_disabled"),
            |look| look.exactly("0", "each read in flight takes a thread and a system call of its own"),
            KERNEL,
            "somebody switched it off for security: ask first",
        )
    },
    Setting {
        stage: SettingStage::Disk,
        figure: FigureKind::DirectReads,
        range: Some((1, i32::MAX as u64)),
        ..MEMORY.entry(
            "aio-max-nr",
            "requests of libaio that may be open, whole machine",
            Where::Sysctl("fs.aio-max-nr"),
            open_requests,
            FS,
            "memory of the kernel",
        )
    },
    Setting {
        range: Some((4096, i32::MAX as u64)),
        ..MEMORY.entry(
            "pipe-max-size",
            "largest pipe that a program without privilege may ask for, bytes",
            Where::Sysctl("fs.pipe-max-size"),
            |look| {
                look.at_least(
                    1 << 20,
                    "the kernel's own value; splice moves no more at a time than the pipe holds",
                )
            },
            FS,
            "memory of the kernel",
        )
    },
];

/// Receive rings of jumbo frames want runs of pages, which must be there when an interrupt asks.
fn free_for_frames(look: &CatalogueContext<'_>) -> Advice {
    const WANTED_KIB: u64 = 262_144;
    let memory = look.facts.machine.memory.total_bytes.known().copied().unwrap_or(0) >> 10;
    match look.has_mtu_above(4096) && WANTED_KIB < memory / 50 {
        true => look.at_least(
            WANTED_KIB,
            "an interface here has jumbo frames, whose buffers are runs of \
                                           pages: an interrupt cannot wait for them",
        ),
        false => Advice::Right,
    }
}

fn open_requests(look: &CatalogueContext<'_>) -> Advice {
    match look.facts.sysroot.parse::<u64>("/proc/sys/fs/aio-nr").known() {
        None => Advice::Unknown("/proc/sys/fs/aio-nr cannot be read".into()),
        Some(used) if look.number().is_some_and(|most| used.saturating_mul(5) < most.saturating_mul(4)) => {
            Advice::Right
        }
        Some(used) => {
            look.at_least(1 << 20, format!("{used} are in use: io_setup fails with EAGAIN beyond the limit"))
        }
    }
}
