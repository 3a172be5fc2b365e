//! The first step: what is there. `probe(&Sysroot) -> Machine`.
//!
//! Readers go through `Sysroot` only; what cannot be read is `Fact::Unknown` with its reason.

pub mod counters;
mod cpu;
mod file_system;
mod fill;
pub mod foreign;
mod kernel;
pub mod lspci;
mod machine;
mod memory;
pub mod meters;
mod nic;
pub mod pci;
mod power;
pub mod smbios;
mod storage;
pub mod tree;
pub mod usage;

use crate::sysroot::Sysroot;
pub use cpu::cpu_list;
pub use file_system::source;
pub use fill::{ASKED, lacking};
pub use kernel::boot;
use kernel::{host, interrupt};
pub use machine::*;
pub use nic::{NicLink, drivers as nic_drivers, link as nic_link, route};
use std::cmp::Ordering;

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
        cpu: cpu::read(sysroot, &memory.nodes),
        nics: nic::read(sysroot, &pci),
        file_systems: file_system::read(sysroot, &disks),
        kernel: kernel::read(sysroot),
        interrupts: interrupt::read(sysroot, &pci),
        power: power::read(sysroot),
        container: host::container(sysroot),
        virtualisation,
        memory,
        pci,
        disks,
        controllers,
    };
    let firmware = smbios::read(sysroot, &machine.virtualisation);
    smbios::apply(firmware, &mut machine);
    machine
}

/// Device names as people order them: `eth2` before `eth10`.
pub fn in_order(a: &str, b: &str) -> Ordering {
    let key = |name: &str| {
        let letters = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
        let digits =
            name[letters..].find(|c: char| !c.is_ascii_digit()).map_or(name.len(), |at| letters + at);
        (
            name[..letters].to_string(),
            name[letters..digits].parse::<u64>().unwrap_or(0),
            name[digits..].to_string(),
        )
    };
    let ((a_letters, a_number, a_rest), (b_letters, b_number, b_rest)) = (key(a), key(b));
    let first = a_letters.cmp(&b_letters).then(a_number.cmp(&b_number));
    if first != Ordering::Equal {
        return first;
    }
    // Both rests are shorter, or both are empty: the comparison ends.
    match (a_rest.is_empty(), b_rest.is_empty()) {
        (false, false) => in_order(&a_rest, &b_rest).then_with(|| a.cmp(b)),
        _ => a_rest.cmp(&b_rest).then_with(|| a.cmp(b)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::PathBuf;

    /// A small tree of `/proc` and `/sys` made by hand, in a temporary directory.
    pub(crate) struct Tree(tempfile::TempDir);

    impl Tree {
        /// Files by path (without a leading slash) and text.
        pub(crate) fn new(files: &[(&str, &str)]) -> Self {
            let mut tree = Tree(tempfile::tempdir().expect("a temporary directory"));
            for (path, text) in files {
                tree.put(path, text);
            }
            tree
        }

        /// One more file.
        pub(crate) fn put(&mut self, path: &str, text: &str) {
            std::fs::write(self.place(path), text).expect("a file");
        }

        /// One more file, of any bytes.
        pub(crate) fn put_bytes(&mut self, path: &str, bytes: &[u8]) {
            std::fs::write(self.place(path), bytes).expect("a file");
        }

        /// A symbolic link.
        pub(crate) fn link(&mut self, path: &str, target: &str) {
            std::os::unix::fs::symlink(target, self.place(path)).expect("a link");
        }

        pub(crate) fn sysroot(&self) -> Sysroot {
            Sysroot::recorded(self.0.path())
        }

        fn place(&self, path: &str) -> PathBuf {
            let place = self.0.path().join(path);
            std::fs::create_dir_all(place.parent().expect("a parent")).expect("directories");
            place
        }
    }

    #[test]
    fn an_empty_tree_is_all_unknown() {
        let machine = probe(&Tree::new(&[]).sysroot());
        assert_eq!(machine.host.why(), Some("/proc/sys/kernel/hostname: not there"));
        assert!(machine.pci.is_empty() && machine.nics.is_empty() && machine.disks.is_empty());
        assert!(!tree::show_tree(&machine).is_empty());
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

    #[test]
    fn names_in_the_order_of_people() {
        let mut names = ["eth10", "eth2", "nvme0n1p10", "lo", "nvme0n1p2", "nvme0n1", "eth02"];
        names.sort_by(|a, b| in_order(a, b));
        assert_eq!(names, ["eth02", "eth2", "eth10", "lo", "nvme0n1", "nvme0n1p2", "nvme0n1p10"]);
    }

    proptest! {
        #[test]
        fn any_names_have_an_order(names in proptest::collection::vec("[a-c0-9é]{0,8}", 0..30)) {
            let mut sorted = names.clone();
            sorted.sort_by(|a, b| in_order(a, b));
            for pair in sorted.windows(2) {
                prop_assert!(in_order(&pair[0], &pair[1]) != Ordering::Greater);
            }
        }
    }
}
