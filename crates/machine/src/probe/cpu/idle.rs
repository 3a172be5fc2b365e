//! Idle states: `/sys/devices/system/cpu/cpuidle` and `cpu*/cpuidle`
//! (`Documentation/admin-guide/pm/cpuidle.rst`).

use super::CPUS;
use crate::probe::in_order;
use crate::probe::machine::IdleState;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::path::Path;

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
