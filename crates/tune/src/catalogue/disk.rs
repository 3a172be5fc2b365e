//! Queues of block devices, and arrays.

use super::{Advice, CatalogueContext, Risk, Setting, SettingGroup, SettingStage, Where};
use crate::setting_place::Shape;
use linerate_facts::units::{bytes_per_second, show_size};
use linerate_machine::probe::{Disk, DiskKind, cpu_list};
use linerate_measure::run::again::FigureKind;
use std::path::Path;

const QUEUE: &str = "https://docs.kernel.org/block/queue-sysfs.html";
const MD: &str = "https://docs.kernel.org/admin-guide/md.html";
/// What buffered readers of a disk of unknown rate get ahead, KiB.
const READ_AHEAD_KIB: u64 = 4096;
/// A reader that is late for its turn by this much still finds its bytes, seconds.
const LATE_SECONDS: f64 = 2e-3;

const fn entry(
    id: &'static str,
    what: &'static str,
    at: Where,
    shape: Shape,
    advice: fn(&CatalogueContext<'_>) -> Advice,
    harm: &'static str,
) -> Setting {
    let group = SettingGroup { stage: SettingStage::Disk, figure: FigureKind::DirectReads };
    Setting { shape, ..group.entry(id, what, at, advice, QUEUE, harm) }
}

/// What only a measurement can tell.
const fn left(
    id: &'static str,
    what: &'static str,
    at: Where,
    why: &'static str,
    harm: &'static str,
) -> Setting {
    Setting { left: Some(why), ..entry(id, what, at, Shape::Words, |_| Advice::Right, harm) }
}

pub(crate) const ENTRIES: &[Setting] = &[
    Setting {
        findings: &["scheduler"],
        ..entry(
            "scheduler",
            "order of requests",
            Where::Disk("queue/scheduler"),
            Shape::Choice,
            scheduler,
            "a disk with moving heads needs one",
        )
    },
    Setting {
        findings: &["rotational-claim"],
        range: Some((0, 1)),
        ..left(
            "rotational",
            "the kernel takes the disk for one with moving heads",
            Where::Disk("queue/rotational"),
            "0 for a disk that answers at random as fast as in sequence, whatever it claims",
            "seeks that a real head then makes",
        )
    },
    Setting {
        findings: &["read-ahead"],
        figure: FigureKind::BufferedReads,
        ..entry(
            "read-ahead",
            "KiB that the kernel reads ahead of a buffered sequential reader",
            Where::Disk("queue/read_ahead_kb"),
            Shape::Words,
            read_ahead,
            "memory, and bytes read in vain by random readers",
        )
    },
    left(
        "nr-requests",
        "requests that may wait in each queue",
        Where::Disk("queue/nr_requests"),
        "more queueing is more latency; measure with linerate disk --depth",
        "latency of other requests",
    ),
    entry(
        "max-sectors",
        "largest request, KiB",
        Where::Disk("queue/max_sectors_kb"),
        Shape::Words,
        largest_request,
        "latency of other requests",
    ),
    entry(
        "nomerges",
        "neighbouring requests are not joined: 0 joined, 1 simple ones, 2 never",
        Where::Disk("queue/nomerges"),
        Shape::Words,
        |look| match look.now {
            "0" => Advice::Right,
            _ => Advice::leave(
                "somebody switched the joining of requests off: right for large direct reads only",
            ),
        },
        "a little CPU",
    ),
    left(
        "rq-affinity",
        "who completes a request: 1 a core near the one that asked, 2 that core",
        Where::Disk("queue/rq_affinity"),
        "an interrupt more for each completion, for a warmer cache: measure",
        "an interrupt more for each request",
    ),
    Setting {
        figure: FigureKind::Writes,
        ..left(
            "write-back-throttle",
            "microseconds of read latency that writes may cost, 0: any",
            Where::Disk("queue/wbt_lat_usec"),
            "0 only for a disk that does nothing but take a stream",
            "reads wait behind writes",
        )
    },
    Setting {
        source: "https://docs.kernel.org/core-api/irq/irq-affinity.html",
        findings: &["interrupts-one-core"],
        ..entry(
            "disk-irq-affinity",
            "cores that take the interrupt of a disk's queue",
            Where::DiskInterrupt,
            Shape::List,
            affinity,
            "irqbalance changes it back, unless it is configured not to",
        )
    },
    Setting {
        source: MD,
        figure: FigureKind::Writes,
        ..left(
            "stripe-threads",
            "threads that compute the parity of RAID 5 and 6",
            Where::Md("md/group_thread_cnt"),
            "where one core is full of raid5: half of the cores; measure",
            "CPU",
        )
    },
    Setting {
        source: MD,
        risk: Risk::Medium,
        figure: FigureKind::Writes,
        ..entry(
            "stripe-cache",
            "stripes that RAID 5 and 6 keep in memory",
            Where::Md("md/stripe_cache_size"),
            Shape::Words,
            stripe_cache,
            "memory: a page for each disk and stripe",
        )
    },
];

/// The cores whose requests go through the queue. Drivers that ask the kernel for an interrupt a queue (NVMe and
/// virtio since Linux 4.9) have that already, and the kernel lets nobody change it.
fn affinity(look: &CatalogueContext<'_>) -> Advice {
    let queue = look.queue.unwrap_or(0);
    let list = Path::new("/sys/block").join(look.device).join(format!("mq/{queue}/cpu_list"));
    let online = look.facts.local_cpus(None);
    let cores = look.facts.sysroot.text(list).ok().and_then(|list| cpu_list::parse_list(&list));
    let mut cores = cores.unwrap_or_default();
    cores.retain(|core| online.contains(core));
    if cores.is_empty() {
        return Advice::Unknown("the kernel does not report which cores use this queue".into());
    }
    let now = cpu_list::parse_list(look.now).unwrap_or_default();
    if !now.is_empty() && now.iter().all(|core| cores.contains(core)) {
        return Advice::Right;
    }
    Advice::change(
        cpu_list::show(&cores),
        "a read completes on a core that asked for it, not on one far from it",
    )
}

fn disk<'a>(look: &CatalogueContext<'a>) -> Option<&'a Disk> {
    look.facts.machine.disk(look.device)
}

/// What loops, RAM disks and the like do, those below them decide.
fn decides_itself(look: &CatalogueContext<'_>) -> bool {
    disk(look).is_some_and(|disk| !matches!(disk.kind, DiskKind::Loop | DiskKind::Other))
}

fn scheduler(look: &CatalogueContext<'_>) -> Advice {
    let Some(disk) = disk(look).filter(|_| decides_itself(look)) else {
        return Advice::leave("what is below decides the order");
    };
    let moves = disk.rotational.known().copied();
    match (disk.kind, moves, look.now) {
        (DiskKind::Nvme, _, now) if now != "none" => {
            Advice::change("none", "NVMe orders by itself; a scheduler costs CPU and a lock for each request")
        }
        (DiskKind::Scsi, Some(false), now) if now != "none" && now != "mq-deadline" => {
            Advice::change("none", "flash has no heads to save ways")
        }
        (DiskKind::Scsi, Some(true), "none") => {
            Advice::change("mq-deadline", "heads that move: requests in order of place, none waits for ever")
        }
        _ => Advice::Right,
    }
}

fn read_ahead(look: &CatalogueContext<'_>) -> Advice {
    let Some(disk) = disk(look).filter(|_| decides_itself(look)) else {
        return Advice::leave("what is below reads ahead");
    };
    let facts = look.facts;
    let controller = facts
        .machine
        .controllers
        .iter()
        .find(|controller| Some(&controller.name) == disk.controller.as_ref());
    let link = disk
        .link_bits_per_second
        .known()
        .or(controller.and_then(|controller| controller.link_bits_per_second.known()));
    let stripe = disk.array.as_ref().and_then(|array| array.stripe_bytes.known().copied());
    let (kibibytes, why) = match (link, stripe) {
        (_, Some(stripe)) => (
            stripe.saturating_mul(4) >> 10,
            format!("four stripes of {}, so that all members work", show_size(stripe)),
        ),
        (Some(bits), None) => {
            let ahead = (bytes_per_second(*bits) * LATE_SECONDS) as u64 >> 10;
            (ahead, "2 ms of the disk's link, so that a buffered reader never waits for it".to_string())
        }
        (None, None) => {
            (READ_AHEAD_KIB, "a buffered reader keeps the disk busy; direct reads do not use it".to_string())
        }
    };
    // The kernel rounds to pages; 16 MiB ahead of a thousand readers is a machine's memory.
    look.at_least(kibibytes.next_multiple_of(64).clamp(1024, 16_384), why)
}

fn largest_request(look: &CatalogueContext<'_>) -> Advice {
    if !decides_itself(look) {
        return Advice::leave("what is below decides");
    }
    let most = look.facts.sysroot.parse::<u64>(format!("/sys/block/{}/queue/max_hw_sectors_kb", look.device));
    match most.known() {
        None => Advice::Unknown(most.why().unwrap_or_default().to_string()),
        Some(most) => look.at_least(1024.min(*most), "a request of 1 MiB stays one"),
    }
}

fn stripe_cache(look: &CatalogueContext<'_>) -> Advice {
    const WANTED: u64 = 4096;
    let members = disk(look).map_or(0, |disk| disk.members.len() as u64);
    let memory = look.facts.machine.memory.total_bytes.known().copied().unwrap_or(0);
    if WANTED * members * 4096 > memory / 50 {
        return Advice::leave("it would take more than a fiftieth of the memory");
    }
    look.at_least(WANTED, "writes that arrive piece by piece fill whole stripes, which need no reading first")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal::{GoalFacts, TuneGoal};
    use crate::setting_place::SettingPlace;
    use linerate_facts::fact::Fact;
    use linerate_machine::probe::{Interrupt, LogicalCpu, Machine};
    use linerate_testing::Tree;

    /// An NVMe of two queues and four cores: the first queue is that of cores 0 and 1.
    fn facts(tree: &Tree) -> GoalFacts {
        let mut machine = Machine::default();
        let disk = Disk {
            name: "nvme0n1".into(),
            kind: DiskKind::Nvme,
            pci: Some("0000:01:00.0".into()),
            ..Disk::default()
        };
        machine.disks = vec![disk.clone(), Disk { name: "nvme0n2".into(), ..disk }];
        machine.cpu.logical =
            (0..4).map(|id| LogicalCpu { id, online: true, ..LogicalCpu::default() }).collect();
        let interrupt = |(number, name): (u32, &str)| Interrupt {
            number,
            name: name.into(),
            pci: Some("0000:01:00.0".into()),
            allowed: Fact::unknown("not read"),
            effective: Fact::unknown("not read"),
        };
        machine.interrupts = [(40, "nvme0q0"), (41, "nvme0q1"), (42, "nvme0q2")].map(interrupt).into();
        GoalFacts { sysroot: tree.sysroot(), machine, goal: TuneGoal::default() }
    }

    #[test]
    fn the_interrupt_of_a_queue_goes_to_cores_that_use_it() {
        let tree = Tree::new(&[
            ("sys/block/nvme0n1/mq/0/cpu_list", "0, 1\n"),
            ("sys/block/nvme0n1/mq/1/cpu_list", "2, 3\n"),
        ]);
        let facts = facts(&tree);
        let spots = Where::DiskInterrupt.spots(&facts);
        let named: Vec<(&str, Option<u32>)> =
            spots.iter().map(|spot| (spot.name.as_str(), spot.queue)).collect();
        assert_eq!(named, [("nvme0n1/41", Some(0)), ("nvme0n1/42", Some(1))]);
        let advised = |queue: u32, now: &str| {
            let spot = &spots[queue as usize];
            let SettingPlace::Attribute(at) = &spot.place else { panic!("a file") };
            affinity(&CatalogueContext { facts: &facts, device: &spot.of, queue: spot.queue, now, at })
        };
        assert_eq!(advised(0, "0-1"), Advice::Right);
        assert_eq!(advised(0, "1"), Advice::Right, "one of them is enough");
        assert!(matches!(advised(1, "0"), Advice::Change { value, .. } if value == "2-3"));
        assert!(matches!(advised(1, "0-3"), Advice::Change { value, .. } if value == "2-3"));
        let bare = Tree::new(&[]);
        let unknown =
            GoalFacts { sysroot: bare.sysroot(), machine: facts.machine.clone(), goal: TuneGoal::default() };
        let context = CatalogueContext {
            facts: &unknown,
            device: "nvme0n1",
            queue: Some(0),
            now: "0",
            at: Path::new("/"),
        };
        assert!(matches!(affinity(&context), Advice::Unknown(why) if why.contains("which cores")));
    }
}
