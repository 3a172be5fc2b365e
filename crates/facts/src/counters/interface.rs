//! What an interface counts: `/proc/net/dev` and `/sys/class/net/NAME/statistics`, and of the live system what
//! its driver and its queueing disciplines tell.
//!
//! `/proc/net/dev` is one read for all interfaces, where sysfs would be some twenty files for each.

use super::Counters;
use super::protocols::{self, count, named};
use crate::fact::Fact;
use crate::sysroot::Sysroot;
use linerate_system::ethtool::Ethtool;
use linerate_system::qdisc;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use thiserror::Error;

/// Interfaces of one reading: each costs some dozen files.
const MOST_INTERFACES: usize = 256;

const CLASS: &str = "/sys/class/net";
/// Parent of an interface's outermost discipline, as tc writes it.
const ROOT: &str = "root";
/// Counters of a driver that are kept: a card with 128 queues has some 5,000, nearly all of them 0.
const MOST_DRIVER_COUNTERS: usize = 4096;

/// Why the drivers' counters or the queueing disciplines are not read.
#[derive(Debug, Error)]
enum NotRead {
    #[error("a recorded tree does not hold what the driver counts")]
    DriversRecorded,
    #[error("no socket to ask the drivers over: {0}")]
    NoSocket(io::Error),
    #[error("a recorded tree does not hold them")]
    QdiscsRecorded,
    #[error("the kernel does not report: {0}")]
    Kernel(io::Error),
}

/// One interface's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InterfaceCounters {
    pub name: String,
    /// Name of the driver (`veth`, `mlx5_core`).
    pub kind: Fact<String>,
    /// Bytes.
    pub mtu: Fact<u64>,
    /// Packets that its queueing discipline holds at most, where that takes this limit (`txqueuelen`).
    pub tx_queue_length: Fact<u64>,
    /// By the names of sysfs: `rx_bytes`, `rx_packets`, `rx_dropped`, `rx_missed_errors`, … A virtual
    /// interface (veth) counts a train of segments as one packet, with one header.
    pub statistics: Fact<Counters>,
    /// What the driver counts by names of its own (`ethtool -S`); those that are 0 are left out.
    pub driver: Fact<Counters>,
    /// Its queueing disciplines, the root's first.
    pub qdiscs: Fact<Vec<QdiscCounters>>,
}

/// One queueing discipline's (`tc -s qdisc`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QdiscCounters {
    /// `tbf`, `pfifo_fast`, `clsact`.
    pub kind: String,
    /// As tc writes it: `8001:`.
    pub handle: String,
    /// `root`, `ingress`, or the class above: `1:2`.
    pub parent: String,
    /// Bytes that passed, with the headers of each segment.
    pub bytes: Fact<u64>,
    /// Packets that passed: segments of trains, not trains.
    pub packets: Fact<u64>,
    /// Packets dropped: trains where it was given trains and did not cut them.
    pub drops: Fact<u64>,
    pub overlimits: Fact<u64>,
    pub requeues: Fact<u64>,
    /// Waiting now: a state.
    pub backlog_packets: u64,
    /// Waiting now, bytes.
    pub backlog_bytes: u64,
}

impl InterfaceCounters {
    /// One counter by the name of sysfs.
    pub fn count(&self, name: &str) -> Option<u64> {
        self.statistics.known()?.get(name)?.known().copied()
    }
}

/// The interfaces of these names, or every one but `lo`.
pub fn read(sysroot: &Sysroot, names: &[String]) -> Vec<InterfaceCounters> {
    let table = net_dev(sysroot);
    let drivers = match sysroot.is_live() {
        true => Ethtool::new().map_err(NotRead::NoSocket),
        false => Err(NotRead::DriversRecorded),
    };
    let qdiscs = qdiscs(sysroot);
    let listed;
    let names = match names.is_empty() {
        true => {
            listed = names_in_table(table.known().map_or(&[], Vec::as_slice));
            &listed
        }
        false => names,
    };
    let one = |name: &String| {
        let folder = Path::new(CLASS).join(name);
        InterfaceCounters {
            kind: driver_name(&drivers, name),
            mtu: sysroot.parse(folder.join("mtu")),
            tx_queue_length: sysroot.parse(folder.join("tx_queue_len")),
            statistics: statistics(sysroot, &table, name),
            driver: driver_counters(&drivers, name),
            qdiscs: of_interface(sysroot, &qdiscs, name),
            name: name.clone(),
        }
    };
    // A name from outside must not lead out of the folder.
    let mut wanted: Vec<&String> =
        names.iter().filter(|name| named(name).is_some() && !name.starts_with('.')).collect();
    // A list from outside may name one a thousand times.
    let mut known = std::collections::BTreeSet::new();
    wanted.retain(|name| known.insert(name.as_str()));
    wanted.into_iter().take(MOST_INTERFACES).map(one).collect()
}

/// What all interfaces count, in one read.
pub fn net_dev(sysroot: &Sysroot) -> Fact<Vec<NicCounters>> {
    let table =
        |text: String| Fact::from_option(parse_net_dev(&text), "/proc/net/dev: not in the kernel's form");
    sysroot.fact("/proc/net/dev").and_then(table)
}

/// Packets dropped on their way out of each of these interfaces: at the outermost discipline, which counts
/// those of all below. Of the live system alone; one whose disciplines cannot be read is left out.
pub fn root_drops(sysroot: &Sysroot, names: &[&str]) -> BTreeMap<String, u64> {
    let all = qdiscs(sysroot);
    let dropped = |name: &&str| {
        let own = of_interface(sysroot, &all, name).known().cloned()?;
        let root = own.iter().filter(|one| one.parent == ROOT).filter_map(|one| one.drops.known());
        Some((name.to_string(), root.sum()))
    };
    names.iter().filter_map(dropped).collect()
}

/// The outermost discipline of each of these interfaces. Of the live system alone; one whose disciplines cannot be
/// read is left out.
pub fn root_disciplines(sysroot: &Sysroot, names: &[&str]) -> BTreeMap<String, QdiscCounters> {
    let all = qdiscs(sysroot);
    let root = |name: &&str| {
        let own = of_interface(sysroot, &all, name).known().cloned()?;
        Some((name.to_string(), own.into_iter().find(|one| one.parent == ROOT)?))
    };
    names.iter().filter_map(root).collect()
}

/// The disciplines of all interfaces.
fn qdiscs(sysroot: &Sysroot) -> Result<Vec<qdisc::Qdisc>, NotRead> {
    match sysroot.is_live() {
        true => qdisc::read().map_err(NotRead::Kernel),
        false => Err(NotRead::QdiscsRecorded),
    }
}

/// Every interface of the table but `lo`, as far as their names are usual ones.
fn names_in_table(table: &[NicCounters]) -> Vec<String> {
    let names = table.iter().map(|nic| nic.name.clone());
    names.filter(|name| name != "lo" && named(name).is_some()).take(MOST_INTERFACES).collect()
}

/// What `/proc/net/dev` says; where sysfs has the interface, its finer counters instead (`drop` of the table
/// is `rx_dropped` + `rx_missed_errors`).
fn statistics(sysroot: &Sysroot, table: &Fact<Vec<NicCounters>>, name: &str) -> Fact<Counters> {
    let folder = Path::new(CLASS).join(name).join("statistics");
    let fine: Counters = sysroot
        .list(&folder)
        .into_iter()
        .filter_map(|file| Some((named(&file)?, sysroot.text(folder.join(&file)).ok()?)))
        .map(|(file, text)| (file, count(text.trim())))
        .take(64)
        .collect();
    if !fine.is_empty() {
        return Fact::Known(fine);
    }
    match table {
        Fact::Known(table) => {
            let line = table.iter().find(|nic| nic.name == name);
            Fact::from_option(line.map(NicCounters::by_name), format!("/proc/net/dev has no {name}"))
        }
        Fact::Unknown { why } => Fact::unknown(why),
    }
}

fn driver_name(drivers: &Result<Ethtool, NotRead>, name: &str) -> Fact<String> {
    let drivers = match drivers {
        Ok(drivers) => drivers,
        Err(why) => return Fact::unknown(why),
    };
    match drivers.driver(name) {
        Ok(driver) => Fact::from_option(named(&driver.name), "the driver does not name itself"),
        Err(error) => Fact::unknown(format!("the driver does not name itself ({error})")),
    }
}

fn driver_counters(drivers: &Result<Ethtool, NotRead>, name: &str) -> Fact<Counters> {
    let drivers = match drivers {
        Ok(drivers) => drivers,
        Err(why) => return Fact::unknown(why),
    };
    match drivers.statistics(name) {
        Ok(found) => {
            let counted = found.into_iter().filter(|(name, value)| *value > 0 && !name.is_empty());
            let kept = counted.map(|(name, value)| (name, Fact::Known(value)));
            Fact::Known(kept.take(MOST_DRIVER_COUNTERS).collect())
        }
        Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
            Fact::unknown("the driver counts nothing by names of its own")
        }
        Err(error) => Fact::unknown(format!("the driver does not report ({error})")),
    }
}

fn of_interface(
    sysroot: &Sysroot,
    qdiscs: &Result<Vec<qdisc::Qdisc>, NotRead>,
    name: &str,
) -> Fact<Vec<QdiscCounters>> {
    let all = match qdiscs {
        Ok(all) => all,
        Err(why) => return Fact::unknown(why),
    };
    let index = match sysroot.parse::<i32>(Path::new(CLASS).join(name).join("ifindex")) {
        Fact::Known(index) => index,
        Fact::Unknown { why } => return Fact::unknown(why),
    };
    let mut own: Vec<QdiscCounters> =
        all.iter().filter(|qdisc| qdisc.interface == index).map(of_kernel).collect();
    own.sort_by_key(|qdisc| qdisc.parent != ROOT);
    Fact::Known(own)
}

fn of_kernel(qdisc: &qdisc::Qdisc) -> QdiscCounters {
    let reported = |value: Option<u64>| Fact::from_option(value, "the kernel does not report");
    QdiscCounters {
        kind: protocols::named(&qdisc.kind).unwrap_or_else(|| "?".into()),
        handle: format!("{:x}:", qdisc.handle >> 16),
        parent: match qdisc.parent {
            qdisc::ROOT => ROOT.into(),
            qdisc::INGRESS => "ingress".into(),
            class => format!("{:x}:{:x}", class >> 16, class & 0xffff),
        },
        bytes: reported(qdisc.bytes),
        packets: reported(qdisc.packets),
        drops: reported(qdisc.queue.map(|queue| u64::from(queue.drops))),
        overlimits: reported(qdisc.queue.map(|queue| u64::from(queue.overlimits))),
        requeues: reported(qdisc.queue.map(|queue| u64::from(queue.requeues))),
        backlog_packets: qdisc.queue.map_or(0, |queue| u64::from(queue.packets)),
        backlog_bytes: qdisc.queue.map_or(0, |queue| u64::from(queue.bytes)),
    }
}

/// More than any machine has.
const MOST_NICS: usize = 4096;

/// One interface.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NicCounters {
    pub name: String,
    /// The kernel's index; a name that went to another interface has another. 0 where it is not known.
    pub index: u32,
    pub rx_bytes: u64,
    pub rx_packets: u64,
    pub rx_errors: u64,
    /// `rx_dropped` and `rx_missed_errors` together.
    pub rx_dropped: u64,
    pub rx_fifo: u64,
    pub rx_frame: u64,
    pub multicast: u64,
    pub tx_bytes: u64,
    pub tx_packets: u64,
    pub tx_errors: u64,
    pub tx_dropped: u64,
    pub tx_fifo: u64,
    pub collisions: u64,
    pub tx_carrier: u64,
}

impl NicCounters {
    /// The counters by the names that sysfs has for them; those of the ends of a line are left out.
    fn by_name(&self) -> Counters {
        let counters = [
            ("rx_bytes", self.rx_bytes),
            ("rx_packets", self.rx_packets),
            ("rx_errors", self.rx_errors),
            ("rx_dropped", self.rx_dropped),
            ("rx_fifo_errors", self.rx_fifo),
            ("rx_frame_errors", self.rx_frame),
            ("multicast", self.multicast),
            ("tx_bytes", self.tx_bytes),
            ("tx_packets", self.tx_packets),
            ("tx_errors", self.tx_errors),
            ("tx_dropped", self.tx_dropped),
        ];
        counters.into_iter().map(|(name, count)| (name.to_string(), Fact::Known(count))).collect()
    }
}

/// Reads the table in its order; none where it is not such a table.
pub fn parse_net_dev(text: &str) -> Option<Vec<NicCounters>> {
    // A namespace may have no interface that is up: its table is the two lines of the head.
    text.starts_with("Inter-|").then(|| text.lines().skip(2).filter_map(parse_line).take(MOST_NICS).collect())
}

fn parse_line(line: &str) -> Option<NicCounters> {
    let (name, rest) = line.rsplit_once(':')?;
    let name = name.trim();
    let mut counts = [0u64; 16];
    let mut words = rest.split_ascii_whitespace();
    for count in &mut counts {
        *count = words.next()?.parse().ok()?;
    }
    super::plain(name).then(|| NicCounters {
        name: name.to_string(),
        index: 0,
        rx_bytes: counts[0],
        rx_packets: counts[1],
        rx_errors: counts[2],
        rx_dropped: counts[3],
        rx_fifo: counts[4],
        rx_frame: counts[5],
        multicast: counts[7],
        tx_bytes: counts[8],
        tx_packets: counts[9],
        tx_errors: counts[10],
        tx_dropped: counts[11],
        tx_fifo: counts[12],
        collisions: counts[13],
        tx_carrier: counts[14],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    const TABLE: &str = "Inter-|   Receive |  Transmit\n face |bytes    packets errs drop fifo frame \
                         compressed multicast|bytes    packets\n    lo: 5 5 0 0 0 0 0 0 5 5 0 0 0 0 0 0\n  \
                         eth0:307744965   11161    1    2    3     4          0         6   666588    \
                         7033    7    8    0     0       0          0\n";

    #[test]
    fn a_line_of_the_table() {
        let tree = Tree::new(&[("proc/net/dev", TABLE)]);
        let found = read(&Sysroot::recorded(tree.path()), &[]);
        assert_eq!(found.len(), 1, "lo only where it is asked for");
        let eth0 = &found[0];
        assert_eq!((eth0.count("rx_bytes"), eth0.count("rx_dropped")), (Some(307_744_965), Some(2)));
        assert_eq!((eth0.count("tx_packets"), eth0.count("tx_dropped")), (Some(7033), Some(8)));
        assert!(eth0.driver.why().is_some() && eth0.qdiscs.why().is_some() && eth0.mtu.why().is_some());
        let asked = read(&Sysroot::recorded(tree.path()), &["lo".into(), "eth1".into(), "../x".into()]);
        assert_eq!(asked[0].count("rx_packets"), Some(5));
        assert_eq!(asked[1].statistics.why(), Some("/proc/net/dev has no eth1"));
        assert_eq!(asked.len(), 2, "no name leads out of the folder");
    }

    #[test]
    fn one_read_of_the_table_holds_all() {
        let tree = Tree::new(&[("proc/net/dev", TABLE)]);
        let sysroot = Sysroot::recorded(tree.path());
        let sent: Vec<u64> =
            net_dev(&sysroot).known().expect("a table").iter().map(|nic| nic.tx_bytes).collect();
        assert_eq!(sent, [5, 666_588]);
        assert_eq!(root_drops(&sysroot, &["eth0"]), BTreeMap::new(), "a recorded tree holds none");
        let odd = Tree::new(&[("proc/net/dev", "no table\n")]);
        let why = net_dev(&Sysroot::recorded(odd.path()));
        assert_eq!(why.why(), Some("/proc/net/dev: not in the kernel's form"));
    }

    #[test]
    fn sysfs_reports_more() {
        let tree = Tree::new(&[
            ("proc/net/dev", TABLE),
            ("sys/class/net/eth0/statistics/rx_missed_errors", "17\n"),
            ("sys/class/net/eth0/statistics/rx_dropped", "x\n"),
            ("sys/class/net/eth0/mtu", "9000\n"),
        ]);
        let found = read(&Sysroot::recorded(tree.path()), &["eth0".into()]);
        assert_eq!(found[0].count("rx_missed_errors"), Some(17));
        assert_eq!(found[0].count("rx_dropped"), None);
        assert_eq!(found[0].mtu, Fact::Known(9000));
    }

    const HEAD: &str = "Inter-|   Receive  |  Transmit\n face |bytes packets\n";

    #[test]
    fn lines_with_and_without_a_blank() {
        let text = format!(
            "{HEAD}    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  eth0:307744965 1 0 0 0 0 0 0 2 3 0 0 0 \
             0 0 0\nv:1:5 1\n"
        );
        let nics = parse_net_dev(&text).expect("a table");
        assert_eq!(nics.len(), 2);
        assert_eq!((nics[0].multicast, nics[0].tx_bytes, nics[0].tx_carrier), (8, 9, 15));
        assert_eq!((nics[1].name.as_str(), nics[1].rx_bytes), ("eth0", 307_744_965));
        assert_eq!(parse_net_dev(HEAD), Some(Vec::new()));
        assert_eq!(parse_net_dev("eth0: 1"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(( ?eth[0-9é]: ?)?([0-9]{1,22} ){0,17}\n){0,8}") {
            let read = parse_net_dev(&format!("{HEAD}{text}")).expect("the head is there");
            prop_assert!(read.iter().all(|nic| !nic.name.is_empty()));
        }
    }
}
