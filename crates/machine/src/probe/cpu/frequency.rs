//! Clock control and idle states: `/sys/devices/system/cpu/cpu*/cpufreq`
//! (`Documentation/admin-guide/pm/cpufreq.rst`), `/sys/devices/system/cpu/cpuidle` and `cpu*/cpuidle`
//! (`Documentation/admin-guide/pm/cpuidle.rst`).

use super::CPUS;
use crate::probe::in_order;
use crate::probe::machine::IdleState;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::path::{Path, PathBuf};

const NO_CONTROL: &str = "the kernel shows no clock control";

/// Clock control of one CPU.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frequency {
    /// Governor.
    pub governor: Fact<String>,
    /// Driver that sets the clock.
    pub driver: Fact<String>,
    /// Lowest and highest that the hardware can do, hertz.
    pub hertz: Fact<(u64, u64)>,
    /// Lowest and highest that the administrator allows, hertz.
    pub allowed_hertz: Fact<(u64, u64)>,
    /// The CPU may go above its nominal clock (turbo, boost).
    pub boost: Fact<bool>,
}

/// Reads the clock control of the first CPU that is online (CPU 0 may not be). `usual`: the end of the
/// reason where there is none.
pub(crate) fn read(sysroot: &Sysroot, first: u32, usual: &str) -> Frequency {
    // Recorded trees often lack the link from the CPU to its policy.
    let directory = [format!("{CPUS}/cpu{first}/cpufreq"), format!("{CPUS}/cpufreq/policy{first}")]
        .into_iter()
        .map(PathBuf::from)
        .find(|directory| {
            sysroot.exists(directory.join("scaling_driver"))
                || sysroot.exists(directory.join("scaling_governor"))
        });
    let Some(directory) = directory else {
        let why = format!("{NO_CONTROL}{usual}");
        return Frequency {
            governor: Fact::unknown(why.clone()),
            driver: Fact::unknown(why.clone()),
            hertz: Fact::unknown(why.clone()),
            allowed_hertz: Fact::unknown(why.clone()),
            boost: Fact::unknown(why),
        };
    };
    let range = |what: &str| {
        let one = |end: &str| hertz(sysroot, directory.join(format!("{what}_{end}_freq")));
        match (one("min"), one("max")) {
            (Fact::Known(lowest), Fact::Known(highest)) => Fact::Known((lowest, highest)),
            (Fact::Unknown { why }, _) | (_, Fact::Unknown { why }) => Fact::Unknown { why },
        }
    };
    Frequency {
        governor: sysroot.fact(directory.join("scaling_governor")),
        driver: sysroot.fact(directory.join("scaling_driver")),
        hertz: range("cpuinfo"),
        allowed_hertz: range("scaling"),
        boost: boost(sysroot),
    }
}

/// The kernel writes kHz.
fn hertz(sysroot: &Sysroot, path: PathBuf) -> Fact<u64> {
    match sysroot.parse::<u64>(&path) {
        Fact::Known(kilohertz) => Fact::from_option(
            kilohertz.checked_mul(1000).filter(|hertz| *hertz > 0),
            format!("{}: no frequency", path.display()),
        ),
        unknown => unknown,
    }
}

/// One switch for the whole machine: `cpufreq/boost`, or the reverse of intel_pstate's `no_turbo`.
fn boost(sysroot: &Sysroot) -> Fact<bool> {
    match (
        sysroot.parse::<u32>(format!("{CPUS}/intel_pstate/no_turbo")),
        sysroot.parse::<u32>(format!("{CPUS}/cpufreq/boost")),
    ) {
        (Fact::Known(off), _) => Fact::Known(off == 0),
        (_, Fact::Known(on)) => Fact::Known(on != 0),
        _ => Fact::unknown("the driver has no switch for it"),
    }
}

/// CPUIDLE_STATE_MAX of `include/linux/cpuidle.h` is 10; a recorded tree with more is damaged.
const MOST_STATES: usize = 64;

/// Reads the idle states of one processor, shallowest first.
pub(crate) fn states(sysroot: &Sysroot, cpu: u32) -> Vec<IdleState> {
    let directory = Path::new(CPUS).join(format!("cpu{cpu}/cpuidle"));
    let mut names = sysroot.list(&directory);
    names.retain(|name| name.starts_with("state"));
    names.sort_by(|a, b| in_order(a, b));
    names.truncate(MOST_STATES);
    names.iter().filter_map(|name| read_state(sysroot, &directory.join(name))).collect()
}

/// The driver that puts processors to sleep (`intel_idle`, `acpi_idle`, `haltpoll`).
pub(crate) fn driver(sysroot: &Sysroot, usual: &str) -> Fact<String> {
    match sysroot.text(format!("{CPUS}/cpuidle/current_driver")) {
        Ok(driver) if driver == "none" => Fact::unknown(format!("no driver controls idle states{usual}")),
        Ok(driver) => Fact::Known(driver),
        Err(why) => Fact::unknown(why),
    }
}

fn read_state(sysroot: &Sysroot, directory: &Path) -> Option<IdleState> {
    Some(IdleState {
        name: sysroot.text(directory.join("name")).ok()?,
        exit_latency_us: sysroot.parse(directory.join("latency")),
        disabled: sysroot.parse::<u64>(directory.join("disable")).map(|disabled| disabled != 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;

    const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy4";

    #[test]
    fn a_policy_without_the_link_of_its_processor() {
        let tree = Tree::new(&[
            (&format!("{POLICY}/scaling_driver"), "intel_pstate\n"),
            (&format!("{POLICY}/scaling_governor"), "powersave\n"),
            (&format!("{POLICY}/cpuinfo_min_freq"), "800000\n"),
            (&format!("{POLICY}/cpuinfo_max_freq"), "3700000\n"),
            (&format!("{POLICY}/scaling_min_freq"), "800000\n"),
            (&format!("{POLICY}/scaling_max_freq"), "18446744073709551615\n"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
        ]);
        let found = read(&tree.sysroot(), 4, "");
        assert_eq!(found.governor, Fact::Known("powersave".into()));
        assert_eq!(found.driver, Fact::Known("intel_pstate".into()));
        assert_eq!(found.hertz, Fact::Known((800_000_000, 3_700_000_000)));
        assert!(found.allowed_hertz.why().is_some_and(|why| why.ends_with("no frequency")));
        assert_eq!(found.boost, Fact::Known(false));
        assert_eq!(read(&tree.sysroot(), 0, "").driver.why(), Some(NO_CONTROL));
    }

    #[test]
    fn the_other_switch_and_none() {
        let directory = "sys/devices/system/cpu/cpu0/cpufreq";
        let governor = (format!("{directory}/scaling_governor"), "schedutil");
        let governor = (governor.0.as_str(), governor.1);
        let tree = Tree::new(&[governor, ("sys/devices/system/cpu/cpufreq/boost", "1\n")]);
        let found = read(&tree.sysroot(), 0, "");
        assert_eq!((found.boost, found.governor), (Fact::Known(true), Fact::Known("schedutil".into())));
        assert!(
            found.driver.why().is_some_and(|why| why.contains("not there")) && found.hertz.why().is_some()
        );
        let none = read(&Tree::new(&[governor]).sysroot(), 0, "");
        assert_eq!(none.boost.why(), Some("the driver has no switch for it"));
    }

    #[test]
    fn states_in_their_order() {
        let state =
            |number: u32, name: &str| format!("sys/devices/system/cpu/cpu1/cpuidle/state{number}/{name}");
        let tree = Tree::new(&[
            ("sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n"),
            (&state(10, "name"), "C10\n"),
            (&state(2, "name"), "C6\n"),
            (&state(2, "latency"), "133\n"),
            (&state(2, "disable"), "1\n"),
            (&state(0, "name"), "POLL\n"),
            (&state(0, "latency"), "0\n"),
            (&state(0, "disable"), "0\n"),
            (&state(1, "latency"), "2\n"),
        ]);
        let states = states(&tree.sysroot(), 1);
        let names: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
        assert_eq!(names, ["POLL", "C6", "C10"], "a state without a name is none");
        assert_eq!(
            (states[1].exit_latency_us.known(), states[1].disabled.known()),
            (Some(&133), Some(&true))
        );
        assert!(states[2].exit_latency_us.why().is_some());
        assert_eq!(driver(&tree.sysroot(), ""), Fact::Known("intel_idle".into()));
    }

    #[test]
    fn a_virtual_machine_and_an_empty_tree() {
        let tree = Tree::new(&[("sys/devices/system/cpu/cpuidle/current_driver", "none\n")]);
        assert!(states(&tree.sysroot(), 0).is_empty());
        assert_eq!(
            driver(&tree.sysroot(), ", as usual").why(),
            Some("no driver controls idle states, as usual")
        );
        assert!(driver(&Tree::new(&[]).sysroot(), "").why().is_some_and(|why| why.contains("not there")));
    }
}
