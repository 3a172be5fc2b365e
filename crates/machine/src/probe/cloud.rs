//! A cloud's instance: its type by the firmware, what its provider promises of its interfaces, and which NVMe
//! controllers have volumes behind them, which come over the provider's network.

use crate::probe::machine::{Machine, Nic, PciDevice};
use crate::rates::published::instance_named;
use crate::topology::DRIVERS_WITHOUT_WIRE;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::{bits_per_second, show_bits_rate};

/// The transport of a cloud's volume: a controller on PCIe, a disk behind the provider's network.
pub const VOLUME: &str = "volume";

/// How the model of a controller that has volumes begins, or is: EBS (docs.aws.amazon.com/ebs/latest/userguide/
/// nvme-ebs-volumes.html), Google's Persistent Disk (`nvme_card` alone is a local SSD), Azure's remote disks
/// (github.com/Azure/azure-vm-utils; `Microsoft NVMe Direct Disk` is local).
const VOLUMES: [&str; 3] = ["Amazon Elastic Block Store", "nvme_card-pd", "MSFT NVMe Accelerator"];

/// The number of Amazon among the vendors of PCI.
const AMAZON: u32 = 0x1d0f;

/// Type of the instance, as the firmware's maker and product (SMBIOS type 1) have it.
pub(super) fn instance(sysroot: &Sysroot) -> Fact<String> {
    let text = |name: &str| sysroot.text(format!("/sys/class/dmi/id/{name}")).unwrap_or_default();
    by_firmware(text("sys_vendor").trim(), text("product_name").trim())
}

/// The same of the maker and the product themselves.
pub(super) fn by_firmware(maker: &str, product: &str) -> Fact<String> {
    match (maker, product) {
        ("Amazon EC2", product) if product.contains('.') => Fact::Known(product.into()),
        ("Google", "Google Compute Engine") => {
            Fact::unknown("the firmware of Google's cloud does not name it")
        }
        ("Microsoft Corporation", "Virtual Machine") => {
            Fact::unknown("the firmware of Azure does not name it")
        }
        _ => Fact::unknown("the firmware names none"),
    }
}

/// A disk or a controller of this model is a volume of a cloud.
pub fn is_volume(model: &str) -> bool {
    VOLUMES.iter().any(|begin| model.starts_with(begin))
}

/// Gives interfaces without a rate what is promised, and controllers of volumes their transport.
pub(super) fn apply(machine: &mut Machine) {
    for controller in &mut machine.controllers {
        if controller.model.known().is_some_and(|model| is_volume(model)) {
            let why = "a volume comes over the provider's network: there is no link of its own";
            controller.transport = Fact::Known(VOLUME.into());
            controller.link_bits_per_second = Fact::unknown(why);
            controller.link_max_bits_per_second = Fact::unknown(why);
        }
    }
    let Some(instance) = machine.instance.known().cloned() else { return };
    let is_amazons = |address: &str| {
        let of = |one: &&PciDevice| one.address == address && one.vendor.known() == Some(&AMAZON);
        machine.pci.iter().any(|one| of(&one))
    };
    let is_own = |nic: &Nic| {
        let driver = nic.driver.known().map(String::as_str);
        !nic.loopback
            && driver.is_none_or(|driver| !DRIVERS_WITHOUT_WIRE.contains(&driver))
            && (driver == Some("ena") || nic.pci.as_deref().is_some_and(is_amazons))
    };
    let own: Vec<usize> = (0..machine.nics.len()).filter(|at| is_own(&machine.nics[*at])).collect();
    let speed = promised(&instance, own.len());
    for at in own {
        let known = &mut machine.nics[at].speed_bits_per_second;
        if known.known().is_none() {
            known.clone_from(&speed);
        }
    }
}

/// The rate of an interface, bits per second, where the instance has one, and the same rate at all times.
fn promised(instance: &str, interfaces: usize) -> Fact<u64> {
    let Some(row) = instance_named(instance) else {
        return Fact::unknown(format!("what is promised of {instance} is not known here"));
    };
    let words = row.network.words(show_bits_rate);
    match row.network.steady() {
        Some(rate) if interfaces == 1 => Fact::Known(bits_per_second(rate).round() as u64),
        Some(_) => Fact::unknown(format!("{instance} is promised {words} of all its interfaces together")),
        None => Fact::unknown(format!("{instance} is promised {words}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::probe;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    /// An instance with this many interfaces, a volume and a local drive.
    fn machine(maker: &str, product: &str, interfaces: usize) -> Machine {
        let mut tree = Tree::new(&[
            ("sys/class/dmi/id/sys_vendor", maker),
            ("sys/class/dmi/id/product_name", product),
            ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor\n"),
        ]);
        for (number, model) in
            ["Amazon Elastic Block Store", "Amazon EC2 NVMe Instance Storage"].iter().enumerate()
        {
            let drive = format!("sys/devices/pci0000:00/0000:00:0{number}.0/nvme/nvme{number}");
            tree.put(&format!("{drive}/model"), &format!("{model:40}\n"));
            tree.put(&format!("{drive}/transport"), "pcie\n");
            tree.put(&format!("{drive}/nvme{number}n1/size"), "8\n");
            tree.link(&format!("sys/class/nvme/nvme{number}"), &format!("../../../{drive}"));
            tree.link(&format!("sys/block/nvme{number}n1"), &format!("../../{drive}/nvme{number}n1"));
        }
        for number in 0..interfaces {
            let function = format!("sys/devices/pci0000:00/0000:00:1{number}.0");
            tree.put(&format!("{function}/net/ens{number}/operstate"), "up\n");
            tree.put(&format!("{function}/net/ens{number}/mtu"), "9001\n");
            tree.link(&format!("{function}/net/ens{number}/device"), "../..");
            tree.link(&format!("{function}/driver"), "../../../bus/pci/drivers/ena");
            tree.link(&format!("sys/class/net/ens{number}"), &format!("../../../{function}/net/ens{number}"));
        }
        probe(&tree.sysroot())
    }

    #[test]
    fn an_instance_has_what_is_promised_of_it() {
        let speed = |machine: &Machine| machine.nics[0].speed_bits_per_second.clone();
        let whole = machine("Amazon EC2\n", "m5.24xlarge\n", 1);
        assert_eq!(whole.instance, Fact::Known("m5.24xlarge".into()));
        assert_eq!(speed(&whole), Fact::Known(25_000_000_000));
        let why = |product: &str, interfaces: usize| {
            speed(&machine("Amazon EC2\n", product, interfaces)).why().expect("unknown").to_string()
        };
        let burst = why("m5.large\n", 1);
        assert!(burst.contains("750 Mb/s always, up to 10.0 Gb/s while credits last"), "{burst}");
        assert!(why("m5.24xlarge\n", 2).contains("25.0 Gb/s of all its interfaces together"));
        assert!(why("x99.large\n", 1).contains("x99.large is not known here"));
        for (maker, product, word) in [
            ("Google\n", "Google Compute Engine\n", "Google"),
            ("Microsoft Corporation\n", "Virtual Machine\n", "Azure"),
            ("Supermicro\n", "SYS-1.2\n", "none"),
        ] {
            let other = machine(maker, product, 1);
            assert!(other.instance.why().is_some_and(|why| why.contains(word)), "{:?}", other.instance);
            assert!(speed(&other).known().is_none());
        }
    }

    #[test]
    fn a_volume_is_no_local_drive() {
        let machine = machine("Amazon EC2\n", "m5d.24xlarge\n", 1);
        let transports: Vec<_> =
            machine.controllers.iter().map(|one| one.transport.known().cloned()).collect();
        assert_eq!(transports, [Some(VOLUME.to_string()), Some("pcie".to_string())]);
        assert!(is_volume("MSFT NVMe Accelerator v1.0") && is_volume("nvme_card-pd"));
        assert!(!is_volume("nvme_card0") && !is_volume("Microsoft NVMe Direct Disk v2") && !is_volume(""));
    }

    proptest! {
        #[test]
        fn any_firmware_names_a_type_or_none(maker in "Amazon EC2|.{0,12}", product in ".{0,20}") {
            let found = by_firmware(&maker, &product);
            prop_assert!(found.known().is_none_or(|name| *name == product));
            let _ = promised(&product, 1);
        }
    }
}
