//! What the kernel counts: the one reader of each of its counters, text into numbers without judgement, and
//! the differences of two readings. Of the network protocols, softirq, interfaces, queueing disciplines and
//! what the drivers count; CPUs, interrupts, memory, disks, pressure and power. Who keeps files open hands in
//! their text.
//!
//! The files of `/proc/net` are those of the network namespace of the process; softnet and drop reasons are
//! the whole host's.

mod interface;
mod interrupts;
mod kernel;
pub mod listed;
pub mod meters;
pub mod power;
mod process;
mod processes;
mod protocols;
pub mod rates;

use crate::fact::Fact;
use crate::sysroot::Sysroot;
pub use interface::{
    InterfaceCounters, NicCounters, QdiscCounters, net_dev, parse_net_dev, read as interfaces,
    root_disciplines, root_drops,
};
pub use interrupts::{Interrupts, IrqCounts, irq_name, parse_interrupts, parse_softirqs};
pub use kernel::{
    DiskCounters, PressureCounters, PressureLine, Stat, of_meminfo, parse_device_stat, parse_diskstats,
    parse_meminfo, parse_pressure, parse_stat,
};
pub use process::{
    ProcessCalls, ProcessIdentity, ProcessIo, parse_process_calls, parse_process_io, parse_process_stat,
};
pub use processes::{AgentProcess, HiddenProcesses, ProcessReading, ProcessTable, ProcessUse, ProcessesUse};
pub use protocols::{DropReasons, MISSED_BY_TRACE, SoftnetCounters, parse_flat, parse_groups, parse_softnet};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counters by the kernel's name.
pub type Counters = BTreeMap<String, Fact<u64>>;

/// Counters by group (`Ip`, `Udp`, `TcpExt`).
pub type Groups = BTreeMap<String, Counters>;

/// Everything that counts packets on the way through this host. Since boot, or since an earlier reading
/// ([`NetworkCounters::since`]).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkCounters {
    /// `/proc/net/snmp`: Ip, Icmp, Tcp, Udp, UdpLite. TCP of both IP versions; the others of IPv4.
    pub snmp: Fact<Groups>,
    /// `/proc/net/snmp6`: one flat list (`Ip6InReceives`, `Udp6InDatagrams`).
    pub snmp6: Fact<Counters>,
    /// `/proc/net/netstat`: TcpExt, IpExt, MPTcpExt.
    pub netstat: Fact<Groups>,
    /// `/proc/net/softnet_stat`, one for each CPU, of the whole host.
    pub softnet: Fact<Vec<SoftnetCounters>>,
    /// The interfaces that were asked for.
    pub interfaces: Vec<InterfaceCounters>,
    /// Packets that the kernel dropped by its own reasons (`SOCKET_RCVBUFF`), of the whole host, where they
    /// were traced.
    pub drop_reasons: Fact<BTreeMap<String, u64>>,
}

/// Reads now. Of a recorded tree only what its files hold; no interface named: every one but `lo`.
pub fn read(sysroot: &Sysroot, interfaces: &[String]) -> NetworkCounters {
    NetworkCounters {
        snmp: protocols::groups(sysroot, "/proc/net/snmp"),
        snmp6: protocols::flat(sysroot, "/proc/net/snmp6"),
        netstat: protocols::groups(sysroot, "/proc/net/netstat"),
        softnet: protocols::read_softnet(sysroot),
        interfaces: interface::read(sysroot, interfaces),
        drop_reasons: Fact::unknown("not traced"),
    }
}

/// The same with what a trace of drops holds.
pub fn read_with(sysroot: &Sysroot, interfaces: &[String], reasons: &DropReasons) -> NetworkCounters {
    NetworkCounters { drop_reasons: reasons.read(), ..read(sysroot, interfaces) }
}

impl NetworkCounters {
    /// One counter of `/proc/net/snmp` or `/proc/net/netstat`; none where it is not known.
    pub fn count(&self, group: &str, name: &str) -> Option<u64> {
        let files = [&self.snmp, &self.netstat];
        let mut groups = files.into_iter().filter_map(|file| file.known()?.get(group));
        groups.find_map(|counters| counters.get(name)?.known().copied())
    }

    /// One counter of `/proc/net/snmp6`.
    pub fn count6(&self, name: &str) -> Option<u64> {
        self.snmp6.known()?.get(name)?.known().copied()
    }

    /// The same counter of IPv4 (`Udp`, `InErrors`) and of IPv6 (`Udp6InErrors`) together; a host without
    /// IPv6 has the first alone.
    pub fn both(&self, group: &str, name: &str) -> Option<u64> {
        let six = self.count6(&format!("{group}6{name}")).unwrap_or(0);
        self.count(group, name).map(|four| four.saturating_add(six))
    }

    /// The counters of an interface.
    pub fn interface(&self, name: &str) -> Option<&InterfaceCounters> {
        self.interfaces.iter().find(|interface| interface.name == name)
    }

    /// What was counted since an earlier reading of the same host. A counter that went back (it wrapped, or
    /// the driver was loaded again) is unknown; what is a state and no counter (MTU, backlog) is as it is
    /// now.
    pub fn since(&self, earlier: &NetworkCounters) -> NetworkCounters {
        rates::all_since(self, earlier)
    }
}

/// A name from a file of the kernel's, as far as it may be printed.
fn plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= 64 && !name.contains(|c: char| c.is_control() || c.is_whitespace())
}
