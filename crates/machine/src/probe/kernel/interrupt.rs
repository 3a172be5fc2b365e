//! Interrupts of devices, and the CPUs that take them: `/sys/kernel/irq` or `/proc/interrupts`,
//! `/proc/irq`, `msi_irqs` of PCI functions (`Documentation/core-api/irq/irq-affinity.rst`).

use crate::probe::machine::{Interrupt, PciDevice};
use crate::probe::{cpu_list, pci};
use linerate_facts::counters::{IrqCounts, irq_name, parse_interrupts};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::collections::BTreeMap;
use std::path::Path;

/// Each since Linux 4.9.
const KERNEL_IRQ: &str = "/sys/kernel/irq";
/// A server of 512 CPUs with a queue for each on eight cards has some 5,000.
const MOST: usize = 16_384;
/// CPUs in all lists together: 64 MiB of a hostile recorded tree, and no machine has as many.
const MOST_LISTED: usize = 16 << 20;

/// Reads the interrupts that a driver has asked for, by number.
pub(crate) fn read(sysroot: &Sysroot, devices: &[PciDevice]) -> Vec<Interrupt> {
    let owners = owners(sysroot, devices);
    let mut listed = 0;
    let mut affinity = |number: u32, which: &str| {
        let directory = Path::new("/proc/irq").join(number.to_string());
        let (list, mask) = (directory.join(format!("{which}_list")), directory.join(which));
        let cpus = match listed < MOST_LISTED {
            true => cpu_list::read(sysroot, list, mask),
            false => Fact::unknown("too many CPUs in the lists of the others"),
        };
        listed += cpus.known().map_or(0, Vec::len);
        cpus
    };
    names(sysroot)
        .into_iter()
        .map(|(number, (name, hint))| Interrupt {
            number,
            allowed: affinity(number, "smp_affinity"),
            effective: affinity(number, "effective_affinity"),
            pci: owners.get(&number).cloned().or_else(|| address_in(&hint)).or_else(|| address_in(&name)),
            name,
        })
        .collect()
}

/// Name, and what else may hold a PCI address, by number.
///
/// Where sysfs reports the names, the table is not read: it has a count for each CPU, and is tens of
/// megabytes long on the largest servers, more than `Sysroot` reads of one file.
fn names(sysroot: &Sysroot) -> BTreeMap<u32, (String, String)> {
    let directory = Path::new(KERNEL_IRQ);
    let numbers = sysroot.list(directory);
    let mut numbers: Vec<u32> = numbers.iter().filter_map(|number| number.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.truncate(MOST);
    let named = |number: u32| {
        let name = sysroot.text(directory.join(number.to_string()).join("actions")).ok()?;
        // The kernel separates them by a comma, its table by a comma and a blank.
        let name = irq_name(&name.replace(',', ", "));
        (!name.is_empty()).then_some((number, (name, String::new())))
    };
    let found: BTreeMap<u32, (String, String)> = numbers.into_iter().filter_map(named).collect();
    if !found.is_empty() {
        return found;
    }
    let table = sysroot.text("/proc/interrupts").unwrap_or_default();
    let lines = parse_interrupts(&table).unwrap_or_default().lines.into_iter();
    let named = lines.filter(|line| !line.name.is_empty());
    let hint = |line: &IrqCounts| of_message(line).unwrap_or(line.controller.clone());
    named.filter_map(|line| Some((line.of_device()?, (line.name.clone(), hint(&line))))).collect()
}

/// The PCI function of a message-signalled interrupt, of which the number at its controller is made (Linux 4.2 and newer):
/// domain, bus, slot and function, and the number of the message below (`pci_msi_domain_calc_hwirq` of
/// drivers/pci/msi/irqdomain.c). Kernels that print the address itself have the message's number alone there.
fn of_message(line: &IrqCounts) -> Option<String> {
    let number = line
        .at_controller
        .filter(|_| matches!(line.controller.as_str(), "PCI-MSI" | "IR-PCI-MSI" | "PCI-MSIX"))?;
    let (domain, function) = (number >> 27, (number >> 11) & 0xffff);
    let address =
        format!("{domain:04x}:{:02x}:{:02x}.{:x}", function >> 8, (function >> 3) & 0x1f, function & 7);
    (number >> 11 > 0 && domain <= 0xffff).then_some(address)
}

/// The PCI function that an interrupt belongs to, by number: message-signalled ones by their own list, and
/// the line of a function without such if no other has the same.
fn owners(sysroot: &Sysroot, devices: &[PciDevice]) -> BTreeMap<u32, String> {
    let mut owners = BTreeMap::new();
    let mut lines: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for device in devices {
        let directory = Path::new("/sys/bus/pci/devices").join(&device.address);
        let messages = sysroot.list(directory.join("msi_irqs"));
        if messages.is_empty() && device.driver.known().is_some() {
            let line = sysroot.parse::<u32>(directory.join("irq")).known().copied();
            // 0 and 255 are "no line".
            if let Some(line) = line.filter(|line| !matches!(line, 0 | 255)) {
                lines.entry(line).or_default().push(&device.address);
            }
        }
        let numbers = messages.iter().filter_map(|number| number.parse::<u32>().ok()).take(MOST);
        owners.extend(numbers.map(|number| (number, device.address.clone())));
    }
    for (line, sharers) in lines {
        if let ([only], false) = (sharers.as_slice(), owners.contains_key(&line)) {
            owners.insert(line, (*only).to_string());
        }
    }
    owners
}

/// The PCI address in a name (`ahci[0000:00:1f.2]`, `mlx5_comp3@pci:0000:b1:00.0`) or a controller
/// (`PCI-MSIX-0000:00:02.0`).
fn address_in(text: &str) -> Option<String> {
    text.split(|c: char| !c.is_ascii_hexdigit() && c != ':' && c != '.')
        .find_map(|word| pci::nearest(Path::new(word.trim_matches(':'))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;

    fn function(address: &str, driver: Option<&str>) -> PciDevice {
        let driver = Fact::from_option(driver.map(str::to_string), "no driver is bound");
        PciDevice { address: address.into(), driver, ..Default::default() }
    }

    fn tree(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::new(files);
        for (path, text) in [
            ("sys/bus/pci/devices/0000:01:00.0/msi_irqs/30", "msix\n"),
            ("sys/bus/pci/devices/0000:01:00.0/irq", "16\n"),
            ("sys/bus/pci/devices/0000:02:00.0/irq", "17\n"),
            ("sys/bus/pci/devices/0000:03:00.0/irq", "18\n"),
            ("sys/bus/pci/devices/0000:03:00.1/irq", "18\n"),
            ("proc/irq/30/smp_affinity_list", "0-3,8\n"),
            ("proc/irq/30/effective_affinity_list", "2\n"),
            ("proc/irq/17/smp_affinity", "00000000,00000003\n"),
        ] {
            tree.put(path, text);
        }
        tree
    }

    fn read_all(tree: &Tree) -> Vec<Interrupt> {
        let devices = [
            function("0000:01:00.0", Some("mlx5_core")),
            function("0000:02:00.0", Some("megaraid_sas")),
            function("0000:03:00.0", Some("uhci_hcd")),
            function("0000:03:00.1", Some("ehci_hcd")),
        ];
        read(&tree.sysroot(), &devices)
    }

    #[test]
    fn names_from_sysfs_functions_and_cpus() {
        let tree = tree(&[
            ("sys/kernel/irq/30/actions", "mlx5_comp0\n"),
            ("sys/kernel/irq/17/actions", "megasas\n"),
            ("sys/kernel/irq/18/actions", "uhci_hcd:usb1,ehci_hcd:usb2\n"),
            ("sys/kernel/irq/31/actions", "\n"),
            ("proc/interrupts", "CPU0\n 1: 0 X  not-read\n"),
        ]);
        let found = read_all(&tree);
        let numbers: Vec<u32> = found.iter().map(|one| one.number).collect();
        assert_eq!(numbers, [17, 18, 30], "nobody has asked for 31");
        assert_eq!(found[2].name, "mlx5_comp0");
        assert_eq!(found[2].pci.as_deref(), Some("0000:01:00.0"));
        assert_eq!(found[2].allowed, Fact::Known(vec![0, 1, 2, 3, 8]));
        assert_eq!(found[2].effective, Fact::Known(vec![2]));
        assert_eq!(
            (found[0].pci.as_deref(), found[0].allowed.known()),
            (Some("0000:02:00.0"), Some(&vec![0, 1]))
        );
        assert!(found[0].effective.why().is_some_and(|why| why.contains("not there")));
        assert_eq!((found[1].pci.as_deref(), found[1].name.as_str()), (None, "uhci_hcd:usb1, ehci_hcd:usb2"));
    }

    #[test]
    fn the_table_where_sysfs_has_no_names() {
        let tree = tree(&[(
            "proc/interrupts",
            "     CPU0\n 30:  1  PCI-MSI 524288-edge      mlx5_comp0\n 40:  0  PCI-MSIX-0000:05:00.0   \
             1-edge      nvme0q1\n\
             41:  0  PCI-MSI 4-edge      ahci[0000:06:00.0]\n 42:  5  IO-APIC   9-fasteoi\nNMI: 0  \
             Non-maskable interrupts\n",
        )]);
        let found = read_all(&tree);
        let owners: Vec<_> =
            found.iter().map(|one| (one.number, one.pci.as_deref().unwrap_or("none"))).collect();
        assert_eq!(owners, [(30, "0000:01:00.0"), (40, "0000:05:00.0"), (41, "0000:06:00.0")]);
        assert!(read_all(&Tree::new(&[])).is_empty());
    }

    /// Recorded: drives of a server with Linux 6.1.
    #[test]
    fn numbers_of_messages_hold_their_function() {
        let at = |controller: &str, number: u64| {
            let line = IrqCounts {
                controller: controller.into(),
                at_controller: Some(number),
                ..IrqCounts::default()
            };
            of_message(&line)
        };
        assert_eq!(at("PCI-MSI", 13_107_200).as_deref(), Some("0000:19:00.0"));
        assert_eq!(at("IR-PCI-MSI", 512_000).as_deref(), Some("0000:00:1f.2"));
        assert_eq!(at("PCI-MSI", (1 << 27) | (0x0108 << 11) | 3).as_deref(), Some("0001:01:01.0"));
        assert_eq!(
            (at("PCI-MSI", 1), at("IO-APIC", 13_107_200), at("PCI-MSI", u64::MAX)),
            (None, None, None)
        );
        let text = "      CPU0\n 46:  0  PCI-MSI 13107200-edge      nvme0q0\n";
        let found = read(&Tree::new(&[("proc/interrupts", text)]).sysroot(), &[]);
        assert_eq!(found[0].pci.as_deref(), Some("0000:19:00.0"));
    }

    #[test]
    fn addresses_in_names() {
        assert_eq!(address_in("mlx5_comp3@pci:0000:b1:00.0").as_deref(), Some("0000:b1:00.0"));
        assert_eq!(address_in("IR-PCI-MSIX-10000:01:00.0").as_deref(), Some("10000:01:00.0"));
        assert_eq!(address_in("virtio1-req.0"), None);
        assert_eq!(address_in("ena-mgmnt@pci:0000:00"), None);
    }

    #[test]
    fn lists_of_cpus_are_text_in_a_file() {
        let one = Interrupt {
            number: 7,
            allowed: Fact::Known(vec![0, 1, 2, 9]),
            effective: Fact::unknown("not there"),
            ..Default::default()
        };
        let json = serde_json::to_string(&one).expect("JSON");
        assert!(json.contains(r#""allowed":"0-2,9","effective":{"unknown":"not there"}"#), "{json}");
        assert_eq!(serde_json::from_str::<Interrupt>(&json).expect("the same"), one);
        assert!(serde_json::from_str::<Interrupt>(&json.replace("0-2,9", "0-x")).is_err());
    }
}
