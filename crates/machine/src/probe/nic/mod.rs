//! Network interfaces: `/sys/class/net`, and what the drivers themselves tell.

pub(super) mod by_class;
mod details;
pub mod route;

use crate::probe::machine::{Nic, PciDevice};
use crate::probe::{in_order, pci};
use crate::topology::DRIVERS_WITHOUT_WIRE;
pub use details::DriversUnasked;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_system::ethtool::Ethtool;
pub use route::network_contains;
use std::path::Path;

const CLASS: &str = "/sys/class/net";
/// ARPHRD_LOOPBACK of `include/uapi/linux/if_arp.h`.
const TYPE_LOOPBACK: u32 = 772;

/// Reads the interfaces in name order.
pub(crate) fn read(sysroot: &Sysroot, devices: &[PciDevice]) -> Vec<Nic> {
    let addresses = route::read_addresses(sysroot);
    let ethtool = drivers(sysroot);
    let mut names = sysroot.list(CLASS);
    // Files such as `bonding_masters` lie among the interfaces.
    names.retain(|name| sysroot.is_directory(Path::new(CLASS).join(name)));
    names.sort_by(|a, b| in_order(a, b));
    names
        .into_iter()
        .map(|name| {
            let own =
                addresses.iter().filter(|a| a.interface == name).map(|a| (a.address, a.prefix)).collect();
            Nic { addresses: own, ..read_nic(sysroot, &ethtool, name, devices) }
        })
        .collect()
}

/// What of an interface changes while one looks on, and what it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NicLink {
    /// Bits per second.
    pub speed_bits_per_second: Fact<u64>,
    pub driver: Fact<String>,
    /// `operstate`.
    pub state: Fact<String>,
    pub carrier: Option<bool>,
    /// Address of its PCI function.
    pub pci: Option<String>,
    /// Name of its device on its bus (`0000:17:00.0`, `virtio2`); none of a virtual interface.
    pub bus_name: Option<String>,
    /// The bond, team or bridge that it is a member of.
    pub master: Option<String>,
    /// What it is built on, by its own links: members, or what a VLAN or macvlan lies on.
    pub lower: Vec<String>,
}

/// The same for one interface, in a few reads. The kernel may keep a reader of the speed waiting (rtnl).
pub fn link(sysroot: &Sysroot, ethtool: &Result<Ethtool, DriversUnasked>, name: &str) -> NicLink {
    let directory = Path::new(CLASS).join(name);
    let state = sysroot.fact(directory.join("operstate"));
    let driver = driver(sysroot, ethtool, name, &directory, name == "lo");
    NicLink {
        speed_bits_per_second: speed(sysroot, &directory, &driver, &state, name == "lo"),
        carrier: sysroot.parse::<u8>(directory.join("carrier")).known().map(|carrier| *carrier == 1),
        pci: sysroot.follow(&directory).and_then(|path| pci::nearest(&path)),
        bus_name: sysroot.link_name(directory.join("device")),
        master: sysroot.link_name(directory.join("master")),
        lower: lower(sysroot, &directory),
        driver,
        state,
    }
}

/// `lower_eth0` is a link to `eth0` (Documentation/ABI/testing/sysfs-class-net).
fn lower(sysroot: &Sysroot, directory: &Path) -> Vec<String> {
    let names = sysroot.list(directory);
    names.iter().filter_map(|name| name.strip_prefix("lower_")).map(str::to_string).collect()
}

/// Those below an interface by which packets can go now: with a carrier, and no reserve of a bond.
pub(crate) fn active_below(sysroot: &Sysroot, name: &str) -> Vec<String> {
    let is_active = |lower: &String| {
        let directory = Path::new(CLASS).join(lower);
        let is_down = sysroot.parse::<u8>(directory.join("carrier")).known() == Some(&0);
        let state = sysroot.text(directory.join("bonding_slave/state"));
        !is_down && !state.is_ok_and(|state| state.trim() == "backup")
    };
    let mut active = lower(sysroot, &Path::new(CLASS).join(name));
    active.retain(is_active);
    active.sort_by(|a, b| in_order(a, b));
    active
}

/// The bond that keeps a member in reserve: https://docs.kernel.org/networking/bonding.html, mode active-backup.
fn standby_of(sysroot: &Sysroot, directory: &Path) -> Option<String> {
    let bond = sysroot.link_name(directory.join("master"))?;
    let mode = sysroot.text(Path::new(CLASS).join(&bond).join("bonding/mode")).ok()?;
    let state = sysroot.text(directory.join("bonding_slave/state")).ok()?;
    (mode.starts_with("active-backup") && state.trim() == "backup").then_some(bond)
}

/// A socket to ask the drivers over, of the live machine.
pub fn drivers(sysroot: &Sysroot) -> Result<Ethtool, DriversUnasked> {
    match sysroot.is_live() {
        true => Ethtool::new().map_err(DriversUnasked::NoSocket),
        false => Err(DriversUnasked::Recorded),
    }
}

fn read_nic(
    sysroot: &Sysroot,
    ethtool: &Result<Ethtool, DriversUnasked>,
    name: String,
    devices: &[PciDevice],
) -> Nic {
    let directory = Path::new(CLASS).join(&name);
    let kind = sysroot.parse::<u32>(directory.join("type"));
    let loopback = kind.known().map_or(name == "lo", |kind| *kind == TYPE_LOOPBACK);
    let pci = sysroot.follow(&directory).and_then(|path| pci::nearest(&path));
    let state = sysroot.fact(directory.join("operstate"));
    let driver = driver(sysroot, ethtool, &name, &directory, loopback);
    Nic {
        speed_bits_per_second: speed(sysroot, &directory, &driver, &state, loopback),
        mtu: sysroot.parse(directory.join("mtu")),
        rx_queues: queues(sysroot, &directory, "rx-"),
        tx_queues: queues(sysroot, &directory, "tx-"),
        node: match sysroot.exists(directory.join("device")) {
            true => pci::node(sysroot, &directory.join("device"), pci.as_deref(), devices),
            false => Fact::unknown("a virtual interface is on no node"),
        },
        addresses: Vec::new(),
        details: details::read(ethtool, &name),
        standby_of: standby_of(sysroot, &directory),
        name,
        state,
        driver,
        pci,
        loopback,
        by_class: false,
    }
}

fn driver(
    sysroot: &Sysroot,
    ethtool: &Result<Ethtool, DriversUnasked>,
    name: &str,
    directory: &Path,
    loopback: bool,
) -> Fact<String> {
    if loopback {
        return Fact::Known("loopback".into());
    }
    if let Some(driver) = sysroot.link_name(directory.join("device/driver")) {
        return Fact::Known(driver);
    }
    let uevent = sysroot.text(directory.join("uevent")).unwrap_or_default();
    if let Some(kind) = uevent.lines().find_map(|line| line.strip_prefix("DEVTYPE=")) {
        return Fact::Known(kind.to_string());
    }
    if sysroot.exists(directory.join("device")) {
        return Fact::unknown("no driver is bound");
    }
    let answer = match ethtool {
        Ok(ethtool) => ethtool.driver(name),
        Err(why) => return Fact::unknown(why),
    };
    match answer {
        Ok(driver) if !driver.name.is_empty() => Fact::Known(driver.name),
        Ok(_) => Fact::unknown("the driver does not name itself"),
        Err(error) => Fact::unknown(format!("the driver does not name itself ({error})")),
    }
}

/// Link rate. The kernel shows Mb/s; −1 (or its unsigned form on old kernels) is unknown, and reading fails
/// on a link that is down.
fn speed(
    sysroot: &Sysroot,
    directory: &Path,
    driver: &Fact<String>,
    state: &Fact<String>,
    loopback: bool,
) -> Fact<u64> {
    if loopback {
        return Fact::unknown("loopback has no line rate");
    }
    if let Some(driver) = driver.known().filter(|name| DRIVERS_WITHOUT_WIRE.contains(&name.as_str())) {
        return Fact::unknown(format!("a {driver} interface has no line rate"));
    }
    match sysroot.parse::<i64>(directory.join("speed")) {
        Fact::Known(megabits) if megabits > 0 && megabits < i64::from(u32::MAX) => {
            Fact::Known(megabits as u64 * 1_000_000)
        }
        Fact::Known(_) => Fact::unknown("the driver reports no link rate"),
        Fact::Unknown { .. } if state.known().is_some_and(|state| state == "down") => {
            Fact::unknown("the link is down")
        }
        Fact::Unknown { .. } => Fact::unknown("the driver reports no link rate"),
    }
}

fn queues(sysroot: &Sysroot, directory: &Path, prefix: &str) -> Fact<u32> {
    let names = sysroot.list(directory.join("queues"));
    let count = names.iter().filter(|name| name.starts_with(prefix)).count() as u32;
    Fact::from_option((count > 0).then_some(count), "sysfs shows no queues")
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;

    const CARD: &str = "sys/devices/pci0000:00/0000:00:03.0";

    fn tree() -> Tree {
        let port = format!("{CARD}/net/eth2");
        let mut tree = Tree::new(&[
            (&format!("{CARD}/numa_node"), "1\n"),
            (&format!("{port}/type"), "1\n"),
            (&format!("{port}/mtu"), "9000\n"),
            (&format!("{port}/speed"), "100000\n"),
            (&format!("{port}/operstate"), "up\n"),
            (&format!("{port}/queues/rx-0/x"), ""),
            (&format!("{port}/queues/rx-1/x"), ""),
            (&format!("{port}/queues/tx-0/x"), ""),
            ("sys/devices/virtual/net/eth10/speed", "4294967295\n"),
            ("sys/devices/virtual/net/eth10/operstate", "unknown\n"),
            ("sys/devices/virtual/net/eth10/uevent", "DEVTYPE=bond\nINTERFACE=eth10\n"),
            ("sys/devices/virtual/net/lo/type", "772\n"),
            ("sys/devices/virtual/net/lo/mtu", "65536\n"),
            ("sys/devices/virtual/net/v0/operstate", "down\n"),
            ("sys/class/net/bonding_masters", "eth10\n"),
        ]);
        tree.link(&format!("{port}/device"), "../../../0000:00:03.0");
        tree.link(&format!("{CARD}/driver"), "../../../bus/pci/drivers/mlx5_core");
        tree.link("sys/bus/pci/devices/0000:00:03.0", "../../../devices/pci0000:00/0000:00:03.0");
        tree.link("sys/class/net/eth2", "../../devices/pci0000:00/0000:00:03.0/net/eth2");
        for name in ["eth10", "lo", "v0"] {
            tree.link(&format!("sys/class/net/{name}"), &format!("../../devices/virtual/net/{name}"));
        }
        tree
    }

    #[test]
    fn a_card_a_bond_a_virtual_one_and_loopback() {
        let tree = tree();
        let devices = pci::read(&tree.sysroot(), false);
        let nics = read(&tree.sysroot(), &devices);
        let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
        assert_eq!(names, ["eth2", "eth10", "lo", "v0"]);
        let card = &nics[0];
        assert_eq!(card.speed_bits_per_second, Fact::Known(100_000_000_000));
        assert_eq!(card.driver, Fact::Known("mlx5_core".into()));
        assert_eq!(card.pci.as_deref(), Some("0000:00:03.0"));
        assert_eq!((card.node.known(), card.mtu.known()), (Some(&1), Some(&9000)));
        assert_eq!((card.rx_queues.known(), card.tx_queues.known()), (Some(&2), Some(&1)));
        assert_eq!(nics[1].driver, Fact::Known("bond".into()));
        assert_eq!(nics[1].speed_bits_per_second.why(), Some("the driver reports no link rate"));
        assert!(nics[2].loopback && nics[2].driver == Fact::Known("loopback".into()));
        assert_eq!(nics[3].speed_bits_per_second.why(), Some("the link is down"));
        assert_eq!(nics[3].node.why(), Some("a virtual interface is on no node"));
        assert!(nics[3].driver.why().is_some() && nics[3].mtu.why().is_some() && !nics[3].loopback);
    }

    #[test]
    fn a_bond_keeps_one_member_in_reserve() {
        let of = |mode: &str, state: &str| {
            let mut tree = Tree::new(&[
                ("sys/class/net/bond0/bonding/mode", mode),
                ("sys/class/net/eth0/bonding_slave/state", state),
            ]);
            tree.link("sys/class/net/eth0/master", "../bond0");
            standby_of(&tree.sysroot(), Path::new("/sys/class/net/eth0"))
        };
        assert_eq!(of("active-backup 1\n", "backup\n").as_deref(), Some("bond0"));
        assert_eq!(of("active-backup 1\n", "active\n"), None);
        assert_eq!(of("802.3ad 4\n", "backup\n"), None, "an aggregator that is not chosen, for a moment");
    }

    #[test]
    fn the_constant_of_veth_is_no_rate() {
        let tree = Tree::new(&[("sys/class/net/v1/speed", "10000\n")]);
        let veth = Fact::Known("veth".to_string());
        let up = Fact::Known("up".to_string());
        let speed = speed(&tree.sysroot(), Path::new("/sys/class/net/v1"), &veth, &up, false);
        assert_eq!(speed.why(), Some("a veth interface has no line rate"));
    }

    #[test]
    fn the_live_loopback_is_found() {
        let nics = read(&Sysroot::live(), &[]);
        if let Some(lo) = nics.iter().find(|nic| nic.name == "lo") {
            assert!(lo.loopback && lo.pci.is_none());
        }
    }
}
