//! The facts that could not be read, each reason once, with the things it holds for.

use super::branch::Branch;
use super::disks::has_bytes;
use linerate_facts::fact::{Fact, NOT_RECORDED};
use linerate_facts::sysroot::Unreadable;
use linerate_machine::probe::Machine;
use std::collections::BTreeSet;

/// More names than these are counted.
const NAMED: usize = 4;

/// One line per kind of fact and reason, in the order of the tree. `functions` are the PCI functions that the
/// tree shows.
pub(super) fn lines(machine: &Machine, functions: &[String]) -> Vec<Branch> {
    let mut found = UnknownFacts::default();
    found.one("host name", &machine.host);
    found.one("virtualisation", &machine.virtualisation);
    cpu_and_memory(machine, &mut found);
    kernel(machine, &mut found);
    added(machine, &mut found);
    let functions: BTreeSet<&str> = functions.iter().map(String::as_str).collect();
    for device in machine.pci.iter().filter(|device| functions.contains(device.address.as_str())) {
        // A device whose maximum is known and that runs on no link now says so in its line.
        if device.link_max.known().is_none() {
            found.of("PCIe link", &device.address, &device.link);
        }
        found.of("node", &device.address, &device.node);
        if device.link.known().is_some() {
            found.added("packet sizes", &device.address, &device.express.max_payload_bytes);
        }
    }
    for nic in machine.nics.iter().filter(|nic| !nic.loopback) {
        found.of("link rate", &nic.name, &nic.speed_bits_per_second);
        if nic.by_class {
            continue;
        }
        found.of("MTU", &nic.name, &nic.mtu);
        found.of("driver", &nic.name, &nic.driver);
        let details = &nic.details;
        found.added("channels", &nic.name, &details.channels);
        found.added("rings", &nic.name, &details.rx_ring);
        found.added("offloads", &nic.name, &details.offloads);
        found.added("coalescing", &nic.name, &details.rx_coalesce_us);
        found.added("FEC", &nic.name, &details.fec);
        found.added("firmware", &nic.name, &details.firmware);
    }
    for controller in machine.controllers.iter().filter(|controller| !controller.disks.is_empty()) {
        found.added("port rate", &controller.name, &controller.link_bits_per_second);
    }
    for irq in &machine.interrupts {
        found.added("CPUs of interrupt", &irq.number.to_string(), &irq.effective);
    }
    for disk in machine.disks.iter().filter(|disk| has_bytes(disk)) {
        found.of("size", &disk.name, &disk.size_bytes);
    }
    found.lines()
}

fn cpu_and_memory(machine: &Machine, facts: &mut UnknownFacts) {
    let (cpu, memory) = (&machine.cpu, &machine.memory);
    facts.one("CPU model", &cpu.model);
    facts.one("packages", &cpu.packages);
    facts.one("cores", &cpu.physical_cores);
    facts.one("SMT", &cpu.smt);
    facts.one("governor", &cpu.governor);
    facts.one("CPUs allowed", &cpu.allowed);
    facts.one("CPU quota", &cpu.quota_cores);
    for one in cpu.logical.iter().filter(|one| one.online && !machine.memory.nodes.is_empty()) {
        facts.of("node", &format!("cpu{}", one.id), &one.node);
    }
    facts.one("memory", &memory.total_bytes);
    facts.one("memory available", &memory.available_bytes);
    facts.one("memory's rated bandwidth", &memory.rated_bytes_per_second);
    for node in &memory.nodes {
        facts.of("memory", &format!("node {}", node.id), &node.total_bytes);
    }
}

/// Facts that older files lack: a reason is shown, an absence is not.
fn added(machine: &Machine, facts: &mut UnknownFacts) {
    let (cpu, memory) = (&machine.cpu, &machine.memory);
    facts.whole("clock", &cpu.frequency_hertz);
    facts.whole("CRC-32C speed", &cpu.crc32c_bytes_per_second);
    facts.whole("memory channels", &memory.channels);
    for node in memory.nodes.iter().filter(|_| memory.nodes.len() > 1) {
        facts.added("distances", &format!("node {}", node.id), &node.distances);
    }
    facts.whole("RAPL", &machine.power.rapl);
    facts.whole("hwmon power", &machine.power.hwmon);
    facts.whole("IPMI", &machine.power.ipmi);
}

fn kernel(machine: &Machine, facts: &mut UnknownFacts) {
    let kernel = &machine.kernel;
    facts.one("kernel version", &kernel.release);
    facts.one("io_uring's switch", &kernel.io_uring_disabled);
    facts.one("memlock limit", &kernel.memlock_bytes);
    facts.one("rmem_max", &kernel.rmem_max_bytes);
    facts.one("wmem_max", &kernel.wmem_max_bytes);
    facts.one("tcp_rmem", &kernel.tcp_rmem_max_bytes);
    facts.one("tcp_wmem", &kernel.tcp_wmem_max_bytes);
    facts.one("TCP congestion control", &kernel.tcp_congestion_control);
}

/// Facts that could not be read.
#[derive(Default)]
struct UnknownFacts {
    /// Facts of the machine as a whole whose file is missing: a recording lacks many, which are one line.
    missing: Vec<String>,
    /// Kind of fact, reason, and the things it holds for.
    others: Vec<(String, String, Vec<String>)>,
}

impl UnknownFacts {
    /// A fact of the machine as a whole.
    fn one<T>(&mut self, what: &str, fact: &Fact<T>) {
        match fact.why() {
            Some(why) if Unreadable::is_absent(why) => self.missing.push(what.into()),
            Some(why) => self.others.push((what.into(), why.into(), Vec::new())),
            None => {}
        }
    }

    /// A fact of the machine as a whole that older files lack.
    fn whole<T>(&mut self, what: &str, fact: &Fact<T>) {
        if fact.why() != Some(NOT_RECORDED) {
            self.one(what, fact);
        }
    }

    /// A fact of one of many that older files lack.
    fn added<T>(&mut self, what: &str, name: &str, fact: &Fact<T>) {
        if fact.why() != Some(NOT_RECORDED) {
            self.of(what, name, fact);
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
        let mut merged: Vec<(Vec<String>, String, Vec<String>)> = Vec::new();
        for (what, why, names) in self.others {
            // Kinds of facts that are unknown of the same things for the same reason are one line.
            match merged.iter_mut().find(|(_, reason, others)| *reason == why && *others == names) {
                Some((kinds, ..)) => kinds.push(what),
                None => merged.push((vec![what], why, names)),
            }
        }
        let line = |(kinds, why, names): (Vec<String>, String, Vec<String>)| {
            let what = kinds.join(", ");
            match names.len() {
                0 => format!("{what}: {why}"),
                count if count <= NAMED => format!("{what} of {}: {why}", names.join(", ")),
                count => format!("{what} of {count} ({}, …): {why}", names[..NAMED / 2].join(", ")),
            }
        };
        let missing = (!self.missing.is_empty()).then(|| {
            let mut branch = Branch::new("not there to be read:");
            branch.more(format!("  {}", self.missing.join(", ")));
            branch
        });
        missing.into_iter().chain(merged.into_iter().map(|found| Branch::new(line(found)))).collect()
    }
}
