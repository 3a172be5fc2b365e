//! The facts that could not be read, each reason once, with the things it holds for.

use super::branch::Branch;
use super::devices::has_bytes;
use crate::fact::Fact;
use crate::probe::machine::Machine;

/// More names than these are counted.
const NAMED: usize = 4;
/// How `Sysroot` ends the reason of a file that is missing.
const NOT_THERE: &str = ": not there";

/// One line per kind of fact and reason, in the order of the tree. `functions` are the PCI functions that the tree shows.
pub(super) fn lines(machine: &Machine, functions: &[String]) -> Vec<Branch> {
    let mut found = Found::default();
    found.one("host name", &machine.host);
    found.one("virtualisation", &machine.virtualisation);
    cpu_and_memory(machine, &mut found);
    kernel(machine, &mut found);
    for device in machine.pci.iter().filter(|device| functions.contains(&device.address)) {
        // A device whose maximum is known and that runs on no link now says so in its line.
        if device.link_max.known().is_none() {
            found.of("PCIe link", &device.address, &device.link);
        }
        found.of("node", &device.address, &device.node);
    }
    for nic in machine.nics.iter().filter(|nic| !nic.loopback) {
        found.of("link rate", &nic.name, &nic.speed_bits_per_second);
        found.of("MTU", &nic.name, &nic.mtu);
        found.of("driver", &nic.name, &nic.driver);
    }
    for disk in machine.disks.iter().filter(|disk| has_bytes(disk)) {
        found.of("size", &disk.name, &disk.size_bytes);
    }
    found.lines()
}

fn cpu_and_memory(machine: &Machine, found: &mut Found) {
    let (cpu, memory) = (&machine.cpu, &machine.memory);
    found.one("CPU model", &cpu.model);
    found.one("packages", &cpu.packages);
    found.one("cores", &cpu.physical_cores);
    found.one("SMT", &cpu.smt);
    found.one("governor", &cpu.governor);
    found.one("CPUs allowed", &cpu.allowed);
    found.one("CPU quota", &cpu.quota_cores);
    for one in cpu.logical.iter().filter(|one| one.online && !machine.memory.nodes.is_empty()) {
        found.of("node", &format!("cpu{}", one.id), &one.node);
    }
    found.one("memory", &memory.total_bytes);
    found.one("memory available", &memory.available_bytes);
    found.one("memory's rated bandwidth", &memory.rated_bytes_per_second);
    for node in &memory.nodes {
        found.of("memory", &format!("node {}", node.id), &node.total_bytes);
    }
}

fn kernel(machine: &Machine, found: &mut Found) {
    let kernel = &machine.kernel;
    found.one("kernel version", &kernel.release);
    found.one("io_uring's switch", &kernel.io_uring_disabled);
    found.one("memlock limit", &kernel.memlock_bytes);
    found.one("rmem_max", &kernel.rmem_max_bytes);
    found.one("wmem_max", &kernel.wmem_max_bytes);
    found.one("tcp_rmem", &kernel.tcp_rmem_max_bytes);
    found.one("tcp_wmem", &kernel.tcp_wmem_max_bytes);
    found.one("TCP congestion control", &kernel.tcp_congestion_control);
}

/// Facts that could not be read.
#[derive(Default)]
struct Found {
    /// Facts of the machine as a whole whose file is missing: a recording lacks many, which are one line.
    missing: Vec<String>,
    /// Kind of fact, reason, and the things it holds for.
    others: Vec<(String, String, Vec<String>)>,
}

impl Found {
    /// A fact of the machine as a whole.
    fn one<T>(&mut self, what: &str, fact: &Fact<T>) {
        match fact.why() {
            Some(why) if why.ends_with(NOT_THERE) => self.missing.push(what.into()),
            Some(why) => self.others.push((what.into(), why.into(), Vec::new())),
            None => {}
        }
    }

    /// A fact of one of many.
    fn of<T>(&mut self, what: &str, name: &str, fact: &Fact<T>) {
        let Some(why) = fact.why() else { return };
        // A path of the thing itself must not make each reason a new one.
        let why = why.replace(&format!("/{name}/"), "/…/");
        match self
            .others
            .iter_mut()
            .find(|(kind, reason, names)| kind == what && *reason == why && !names.is_empty())
        {
            Some((_, _, names)) => names.push(name.into()),
            None => self.others.push((what.into(), why, vec![name.into()])),
        }
    }

    fn lines(self) -> Vec<Branch> {
        let line = |(what, why, names): (String, String, Vec<String>)| match names.len() {
            0 => format!("{what}: {why}"),
            count if count <= NAMED => format!("{what} of {}: {why}", names.join(", ")),
            count => format!("{what} of {count} ({}, …): {why}", names[..NAMED / 2].join(", ")),
        };
        let missing = (!self.missing.is_empty()).then(|| {
            let mut branch = Branch::new("not there to be read:");
            for names in self.missing.chunks(NAMED * 2) {
                branch.more(format!("  {}", names.join(", ")));
            }
            branch
        });
        missing.into_iter().chain(self.others.into_iter().map(|found| Branch::new(line(found)))).collect()
    }
}
