//! Memory, and limits of the kernel.

use super::super::shape::Shape;
use super::{Advice, Entry, Risk, Stage, Where};

const KERNEL: &str = "https://docs.kernel.org/admin-guide/sysctl/kernel.html";
const VM: &str = "https://docs.kernel.org/admin-guide/sysctl/vm.html";

pub const ENTRIES: &[Entry] = &[
    Entry {
        id: "numa-balancing",
        what: "the kernel moves pages to the node that uses them",
        stage: Stage::Memory,
        at: Where::Sysctl("kernel.numa_balancing"),
        shape: Shape::Words,
        advice: |look| {
            match look.seen.machine.memory.nodes.len() {
            0 | 1 => Advice::Right,
            _ => look.exactly("0", "lanes are pinned and their pages placed: to find that out, the kernel takes faults on them again and again"),
        }
        },
        source: KERNEL,
        risk: Risk::Medium,
        harm: "programs that are not pinned keep their pages on the wrong node",
        findings: &[],
        range: None,
    },
    Entry {
        id: "zone-reclaim-mode",
        what: "drop cached pages of a node before memory of another is taken",
        stage: Stage::Memory,
        at: Where::Sysctl("vm.zone_reclaim_mode"),
        shape: Shape::Words,
        advice: |look| {
            look.never_else("0", "a file server wants its cache more than it wants memory to be local")
        },
        source: VM,
        risk: Risk::Low,
        harm: "some memory lies on the other node",
        findings: &[],
        range: Some((0, 7)),
    },
    Entry {
        id: "swappiness",
        what: "how readily programs are swapped out for the page cache",
        stage: Stage::Memory,
        at: Where::Sysctl("vm.swappiness"),
        shape: Shape::Words,
        advice: |look| match look.number() {
            Some(0..=10) => Advice::Right,
            Some(_) => Advice::change(10, "bulk that is read once should not push programs out of memory"),
            None => Advice::Unknown(format!("“{}” is no number", look.now)),
        },
        source: VM,
        risk: Risk::Low,
        harm: "less page cache under pressure",
        findings: &[],
        range: Some((0, 200)),
    },
    Entry {
        id: "transparent-huge-pages",
        what: "pages of 2 MiB without being asked",
        stage: Stage::Memory,
        at: Where::File("/sys/kernel/mm/transparent_hugepage/enabled"),
        shape: Shape::Choice,
        advice: |look| match look.now {
            "never" => {
                Advice::change("madvise", "programs that ask for them (linerate's buffers do) then get them")
            }
            _ => Advice::Right,
        },
        source: "https://docs.kernel.org/admin-guide/mm/transhuge.html",
        risk: Risk::Low,
        harm: "memory is compacted for programs that ask",
        findings: &[],
        range: None,
    },
    Entry {
        id: "io-uring-disabled",
        what: "io_uring is switched off: 0 allowed, 1 for all but one group, 2 for all",
        stage: Stage::Disk,
        at: Where::Sysctl("kernel.io_uring_disabled"),
        shape: Shape::Words,
        advice: |look| look.exactly("0", "each read in flight takes a thread and a system call of its own"),
        source: KERNEL,
        risk: Risk::High,
        harm: "somebody switched it off for security: ask first",
        findings: &["io-uring-off"],
        range: Some((0, 2)),
    },
    Entry {
        id: "aio-max-nr",
        what: "requests of libaio that may be open, whole machine",
        stage: Stage::Disk,
        at: Where::Sysctl("fs.aio-max-nr"),
        shape: Shape::Words,
        advice: |look| match look.seen.sysroot.parse::<u64>("/proc/sys/fs/aio-nr").known() {
            None => Advice::Unknown("/proc/sys/fs/aio-nr cannot be read".into()),
            Some(used)
                if look.number().is_some_and(|most| used.saturating_mul(5) < most.saturating_mul(4)) =>
            {
                Advice::Right
            }
            Some(used) => look
                .at_least(1 << 20, format!("{used} are in use: io_setup fails with EAGAIN beyond the limit")),
        },
        source: "https://docs.kernel.org/admin-guide/sysctl/fs.html",
        risk: Risk::Low,
        harm: "memory of the kernel",
        findings: &[],
        range: Some((1, i32::MAX as u64)),
    },
];
