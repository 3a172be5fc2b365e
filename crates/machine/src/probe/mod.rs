//! The first step: what is there. `probe(&Sysroot) -> Machine`.
//!
//! Readers go through `Sysroot` only; what cannot be read is `Fact::Unknown` with its reason.

pub mod cloud;
mod cpu;
mod file_system;
mod fill;
pub mod foreign;
mod kernel;
pub mod lspci;
mod machine;
mod memory;
mod nic;
pub mod pci;
mod power;
pub mod smbios;
mod storage;

pub use cpu::{cpu_list, cpu_speeds};
pub use file_system::source;
pub(crate) use fill::SYSCALL_FACTS_FILE;
pub use fill::lacking;
pub use kernel::host::virtualisation;
pub(crate) use kernel::host::{chosen_options, container_of};
use kernel::{host, interrupt};
use linerate_facts::sysroot::Sysroot;
pub(crate) use linerate_facts::wording::in_order;
pub use machine::*;
pub(crate) use nic::active_below;
pub use nic::{DriversUnasked, NicLink, drivers as nic_drivers, link as nic_link, network_contains, route};

/// Reads what the server is.
pub fn probe(sysroot: &Sysroot) -> Machine {
    fill::with_asked(sysroot, read(sysroot))
}

fn read(sysroot: &Sysroot) -> Machine {
    let virtualisation = host::virtualisation(sysroot);
    let memory = memory::read(sysroot);
    let pci = pci::read(sysroot, virtualisation.known().is_some_and(|name| name != "none"));
    let mut disks = storage::disk::read(sysroot, &pci);
    let controllers = storage::controllers(sysroot, &mut disks, &pci);
    let disks: Vec<Disk> = disks.into_iter().map(|(disk, _)| disk).collect();
    let mut machine = Machine {
        host: host::name(sysroot),
        cpu: cpu::read(sysroot, &memory.nodes, &virtualisation),
        nics: nic::read(sysroot, &pci),
        file_systems: file_system::read(sysroot, &disks),
        kernel: kernel::read(sysroot),
        interrupts: interrupt::read(sysroot, &pci),
        power: power::read(sysroot, &virtualisation),
        container: host::container(sysroot),
        instance: cloud::instance(sysroot),
        virtualisation,
        memory,
        pci,
        disks,
        controllers,
        slots: Vec::new(),
    };
    let firmware = smbios::read(sysroot, &machine.virtualisation);
    smbios::apply(firmware, &mut machine);
    cloud::apply(&mut machine);
    machine
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;

    #[test]
    fn an_empty_tree_is_all_unknown() {
        let machine = probe(&Tree::new(&[]).sysroot());
        assert_eq!(machine.host.why(), Some("/proc/sys/kernel/hostname: not there"));
        assert!(machine.pci.is_empty() && machine.nics.is_empty() && machine.disks.is_empty());
    }

    #[test]
    fn the_live_machine_survives_json_and_is_quick() {
        let started = std::time::Instant::now();
        let machine = probe(&Sysroot::live());
        let took = started.elapsed();
        assert!(took.as_millis() < 2000, "a probe takes some 10 ms, this one took {took:?}");
        let json = serde_json::to_string(&machine).expect("JSON");
        let back: Machine = serde_json::from_str(&json).expect("the machine again");
        assert_eq!(back, machine);
        assert!(machine.cpu.logical.iter().any(|cpu| cpu.online));
        assert!(machine.kernel.memlock_bytes.known().is_some());
    }
}
