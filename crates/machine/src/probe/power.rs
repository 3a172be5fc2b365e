//! What reports the power drawn: RAPL counters (`Documentation/power/powercap/powercap.rst`), hwmon chips with
//! a power sensor (`Documentation/hwmon/sysfs-interface.rst`), IPMI.

use super::kernel::host::usual_in_a_guest;
use super::machine::{Power, RaplDomain};
use linerate_facts::counters::meters::{HWMON, Meter, POWERCAP, energy_counters, power_sensors};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::{Sysroot, Unreadable};

const IPMI: &str = "/sys/class/ipmi";

/// Reads which sources of power readings there are.
pub(crate) fn read(sysroot: &Sysroot, virtualisation: &Fact<String>) -> Power {
    let usual = usual_in_a_guest(virtualisation);
    let domains = domains(sysroot);
    let names: Vec<String> = domains.iter().map(|domain| domain.name.clone()).collect();
    let rapl = match (names.is_empty(), sysroot.is_directory(POWERCAP)) {
        (false, _) => Fact::Known(names),
        (true, true) => Fact::unknown(
            "the kernel shows no RAPL domain: no such counters, or intel_rapl_msr is not loaded",
        ),
        (true, false) => Fact::unknown(format!("the kernel shows no power counters{usual}")),
    };
    Power { rapl, rapl_domains: domains, hwmon: hwmon(sysroot, usual), ipmi: ipmi(sysroot) }
}

fn domains(sysroot: &Sysroot) -> Vec<RaplDomain> {
    let domain = |meter: Meter| RaplDomain {
        energy_microjoules: meter.read(sysroot).into(),
        wraps_at_microjoules: sysroot.parse(meter.file.with_file_name("max_energy_range_uj")),
        name: meter.name,
    };
    energy_counters(sysroot).into_iter().map(domain).collect()
}

/// Names of the chips with a power sensor, one for each chip: two power supplies are two of the same name.
fn hwmon(sysroot: &Sysroot, usual: &str) -> Fact<Vec<String>> {
    if !sysroot.is_directory(HWMON) {
        return Fact::unknown(format!("the kernel shows no sensors{usual}"));
    }
    let mut sensors = power_sensors(sysroot);
    sensors.dedup_by(|one, other| one.file.parent() == other.file.parent());
    let chip = |sensor: Meter| sensor.name.rsplit_once(' ').map(|(chip, _)| chip.to_string());
    Fact::Known(sensors.into_iter().filter_map(chip).collect())
}

fn ipmi(sysroot: &Sysroot) -> Fact<bool> {
    if !sysroot.list(IPMI).is_empty() {
        return Fact::Known(true);
    }
    // SMBIOS type 38 is the management controller's interface; the kernel lists it where dmi-sysfs is loaded.
    if sysroot.exists("/sys/firmware/dmi/entries/38-0") {
        return Fact::unknown(
            "the firmware reports an IPMI interface, but no driver is loaded for it (`modprobe ipmi_si \
             ipmi_devintf`)",
        );
    }
    match sysroot.is_directory("/sys/class") {
        true => Fact::Known(false),
        false => Fact::unknown(Unreadable::absent("/sys/class")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;

    fn metal() -> Fact<String> {
        Fact::Known("none".into())
    }

    #[test]
    fn packages_parts_and_a_counter_that_is_not_there() {
        let tree = Tree::new(&[
            ("sys/class/powercap/intel-rapl/enabled", "1\n"),
            ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
            ("sys/class/powercap/intel-rapl:0/energy_uj", "240422366267\n"),
            ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n"),
            ("sys/class/powercap/intel-rapl:0:0/name", "dram\n"),
            ("sys/class/powercap/intel-rapl:10/name", "package-10\n"),
            ("sys/class/powercap/intel-rapl:2/name", "package-2\n"),
            ("sys/class/powercap/intel-rapl-mmio:0/name", "package-0\n"),
            ("sys/class/powercap/dtpm/x", ""),
        ]);
        let power = read(&tree.sysroot(), &metal());
        let names = ["package-0", "package-0/dram", "package-2", "package-10"].map(str::to_string);
        assert_eq!(power.rapl, Fact::Known(names.to_vec()));
        assert_eq!(power.rapl_domains[0].energy_microjoules, Fact::Known(240_422_366_267));
        assert_eq!(power.rapl_domains[0].wraps_at_microjoules, Fact::Known(262_143_328_850));
        assert!(power.rapl_domains[1].energy_microjoules.why().is_some());
    }

    #[test]
    fn chips_with_a_power_sensor() {
        let tree = Tree::new(&[
            ("sys/class/hwmon/hwmon0/name", "coretemp\n"),
            ("sys/class/hwmon/hwmon0/power/control", "auto\n"),
            ("sys/class/hwmon/hwmon0/power1_cap", "1\n"),
            ("sys/class/hwmon/hwmon10/name", "pmbus\n"),
            ("sys/class/hwmon/hwmon10/power1_input", "1\n"),
            ("sys/class/hwmon/hwmon2/device/name", "power_meter\n"),
            ("sys/class/hwmon/hwmon2/device/power1_average", "1\n"),
            ("sys/class/ipmi/ipmi0/uevent", ""),
        ]);
        let power = read(&tree.sysroot(), &metal());
        assert_eq!(power.hwmon, Fact::Known(vec!["power_meter".into(), "pmbus".into()]));
        assert_eq!(power.ipmi, Fact::Known(true));
        assert_eq!(power.rapl.why(), Some("the kernel shows no power counters"));
        let guest = read(&Tree::new(&[]).sysroot(), &Fact::Known("kvm".into()));
        for why in [guest.rapl.why(), guest.hwmon.why()] {
            assert!(why.is_some_and(|why| why.ends_with("as usual in a virtual machine")), "{why:?}");
        }
    }

    #[test]
    fn nothing_reports() {
        let power = read(&Tree::new(&[]).sysroot(), &metal());
        assert!(power.rapl.why().is_some() && power.hwmon.why().is_some() && power.ipmi.why().is_some());
        let power =
            read(&Tree::new(&[("sys/class/hwmon/x", ""), ("sys/class/powercap/x", "")]).sysroot(), &metal());
        assert_eq!((power.hwmon.known().map(Vec::len), power.ipmi.known()), (Some(0), Some(&false)));
        assert!(power.rapl.why().is_some_and(|why| why.contains("intel_rapl_msr")));
        let firmware = Tree::new(&[("sys/firmware/dmi/entries/38-0/raw", "")]);
        assert!(read(&firmware.sysroot(), &metal()).ipmi.why().is_some_and(|why| why.contains("modprobe")));
    }
}
