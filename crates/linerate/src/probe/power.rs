//! What tells the power drawn: RAPL counters (`Documentation/power/powercap/powercap.rst`), hwmon chips with a power sensor
//! (`Documentation/hwmon/sysfs-interface.rst`), IPMI.

use super::in_order;
use super::machine::{Power, RaplDomain};
use crate::fact::Fact;
use crate::sysroot::Sysroot;
use std::path::Path;

const POWERCAP: &str = "/sys/class/powercap";
const HWMON: &str = "/sys/class/hwmon";
const IPMI: &str = "/sys/class/ipmi";
/// 64 packages have 320 domains; a server has some 40 chips.
const MOST: usize = 1024;

/// Reads which sources of power readings there are.
pub fn read(sysroot: &Sysroot) -> Power {
    let domains = domains(sysroot);
    let names: Vec<String> = domains.iter().map(|domain| domain.name.clone()).collect();
    let rapl = match (names.is_empty(), sysroot.is_directory(POWERCAP)) {
        (false, _) => Fact::Known(names),
        (true, true) => Fact::unknown(
            "the kernel shows no RAPL domain: no such counters, or intel_rapl_msr is not loaded",
        ),
        (true, false) => Fact::unknown("the kernel shows no power counters, as usual in a virtual machine"),
    };
    Power { rapl, rapl_domains: domains, hwmon: hwmon(sysroot), ipmi: ipmi(sysroot) }
}

/// RAPL domains in the order of their packages, a part (`core`, `dram`) behind its package.
///
/// `intel-rapl:0` is a package, `intel-rapl:0:1` a part of it; `intel-rapl` itself is the control type and has no name. AMD's counters
/// come under the same name; `intel-rapl-mmio` is a second view of the same package.
fn domains(sysroot: &Sysroot) -> Vec<RaplDomain> {
    let mut zones = sysroot.list(POWERCAP);
    zones.retain(|zone| zone.starts_with("intel-rapl:"));
    zones.sort_by(|a, b| in_order(a, b));
    zones.truncate(MOST);
    let name = |zone: &str| sysroot.text(Path::new(POWERCAP).join(zone).join("name")).ok();
    let one = |zone: &String| {
        let own = name(zone)?;
        let (parent, _) = zone.rsplit_once(':')?;
        let directory = Path::new(POWERCAP).join(zone);
        Some(RaplDomain {
            name: name(parent).map_or(own.clone(), |package| format!("{package}/{own}")),
            energy_microjoules: energy(sysroot, &directory),
            wraps_at_microjoules: sysroot.parse(directory.join("max_energy_range_uj")),
        })
    };
    zones.iter().filter_map(one).collect()
}

fn energy(sysroot: &Sysroot, directory: &Path) -> Fact<u64> {
    match sysroot.parse(directory.join("energy_uj")) {
        // The counters tell other users' secrets (CVE-2020-8694): since Linux 5.10 only root reads them.
        Fact::Unknown { why } if why.ends_with("permission denied") => {
            Fact::unknown("only root may read it (CVE-2020-8694)")
        }
        read => read,
    }
}

/// Names of the chips with a power sensor, one for each chip: two power supplies are two of the same name.
fn hwmon(sysroot: &Sysroot) -> Fact<Vec<String>> {
    if !sysroot.is_directory(HWMON) {
        return Fact::unknown("the kernel shows no sensors, as usual in a virtual machine");
    }
    let mut chips = sysroot.list(HWMON);
    chips.sort_by(|a, b| in_order(a, b));
    chips.truncate(MOST);
    Fact::Known(chips.iter().filter_map(|chip| with_power(sysroot, &Path::new(HWMON).join(chip))).collect())
}

/// The name of a chip that has a power sensor. Before Linux 3.13 its attributes lay at its device.
fn with_power(sysroot: &Sysroot, chip: &Path) -> Option<String> {
    let places = [chip.to_path_buf(), chip.join("device")];
    let place = places.iter().find(|place| sysroot.list(place).iter().any(|name| is_power(name)))?;
    let name = sysroot.text(chip.join("name")).or_else(|_| sysroot.text(place.join("name")));
    Some(name.unwrap_or_else(|_| "a chip without a name".into()))
}

/// `power1_input`, `power2_average`: a reading, no limit and no interval.
fn is_power(name: &str) -> bool {
    let sensor = name.strip_prefix("power").and_then(|rest| rest.split_once('_'));
    sensor.is_some_and(|(number, what)| {
        !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && matches!(what, "input" | "average")
    })
}

fn ipmi(sysroot: &Sysroot) -> Fact<bool> {
    if !sysroot.list(IPMI).is_empty() {
        return Fact::Known(true);
    }
    // SMBIOS type 38 is the management controller's interface; the kernel lists it where dmi-sysfs is loaded.
    if sysroot.exists("/sys/firmware/dmi/entries/38-0") {
        return Fact::unknown(
            "the firmware tells of an IPMI interface, but no driver is loaded for it (`modprobe ipmi_si ipmi_devintf`)",
        );
    }
    match sysroot.is_directory("/sys/class") {
        true => Fact::Known(false),
        false => Fact::unknown("/sys/class: not there"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tests::Tree;
    use proptest::prelude::*;

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
        let power = read(&tree.sysroot());
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
        let power = read(&tree.sysroot());
        assert_eq!(power.hwmon, Fact::Known(vec!["power_meter".into(), "pmbus".into()]));
        assert_eq!(power.ipmi, Fact::Known(true));
        assert!(power.rapl.why().is_some_and(|why| why.contains("virtual machine")));
    }

    #[test]
    fn nothing_tells() {
        let power = read(&Tree::new(&[]).sysroot());
        assert!(power.rapl.why().is_some() && power.hwmon.why().is_some() && power.ipmi.why().is_some());
        let power = read(&Tree::new(&[("sys/class/hwmon/x", ""), ("sys/class/powercap/x", "")]).sysroot());
        assert_eq!((power.hwmon.known().map(Vec::len), power.ipmi.known()), (Some(0), Some(&false)));
        assert!(power.rapl.why().is_some_and(|why| why.contains("intel_rapl_msr")));
        let firmware = Tree::new(&[("sys/firmware/dmi/entries/38-0/raw", "")]);
        assert!(read(&firmware.sysroot()).ipmi.why().is_some_and(|why| why.contains("modprobe")));
    }

    proptest! {
        #[test]
        fn any_name_is_a_sensor_or_not(name in "power[0-9_a-zé]{0,12}") {
            let reading = name.ends_with("_input") || name.ends_with("_average");
            prop_assert!(!is_power(&name) || reading);
        }
    }
}
