//! Flows over parts of which a run has measured some.

use super::*;
use crate::plan::parts::{MeasuredDevice, MeasuredParts};
use crate::plan::whatif::{WhatIfChange, apply};
use crate::plan::{Origin, Resource};

fn device(id: &str, bytes_per_second: f64) -> MeasuredDevice {
    MeasuredDevice { id: id.into(), bytes_per_second, at_least: false }
}

/// One socket, two disks of 2 GB/s, a NIC of 100 Gb/s.
fn server() -> MachineParts {
    parse(
        "[processor]\ncores = 4\n[memory]\nkind = \"DDR4\"\nspeed = 3200\nchannels = 2\n\
         [[slot]]\nname = \"free\"\npcie = \"4x4\"\n\
         [[disk]]\nname = \"a\"\npcie = \"3x4\"\nread = \"2GB/s\"\nwrite = \"1GB/s\"\n\
         [[disk]]\nname = \"b\"\npcie = \"3x4\"\nread = \"2GB/s\"\nwrite = \"1GB/s\"\n\
         [[nic]]\nname = \"eth0\"\npcie = \"3x16\"\nrate = \"100G\"\nmtu = 9000\n",
    )
    .expect("a machine")
}

fn measured() -> MeasuredParts {
    MeasuredParts {
        disks: vec![device("disk:a", 1.5e9), device("disk:b", 1.7e9)],
        nics: vec![device("nic:eth0", 11e9)],
        memory_bytes_per_second: Some(20e9),
        cpu_seconds_per_gb: Some(0.8),
        ..MeasuredParts::default()
    }
}

fn of<'a>(plan: &'a FlowPlan, id: &str) -> (f64, Origin, &'a Resource) {
    let resource = resource(plan, id);
    (resource.capacity, resource.origin, resource)
}

#[test]
fn what_was_measured_comes_before_data_sheets_and_is_labelled() {
    let plan = planned(&server().with_measured(measured()), "disk", "nic");
    assert_eq!(rate(&plan), 3.2e9);
    assert_eq!(plan.ceiling.bytes_per_second.known(), Some(&3.2e9), "a measurement has no best case");
    assert_eq!(plan.ceiling.cut, ["disk:a", "disk:b"]);
    for (id, capacity) in [("disk:a", 1.5e9), ("nic:eth0", 11e9), ("memory", 5e9), ("cpu", 5e9)] {
        let (now, origin, resource) = of(&plan, id);
        assert_eq!((now, origin, resource.measured), (capacity, Origin::Measured, Some(capacity)), "{id}");
        assert!(resource.why.as_ref().is_some_and(|why| why.starts_with("measured")), "{resource:?}");
    }
    assert_eq!(of(&plan, "disk:a").2.rated, Some(2e9), "the data sheet is still there");
}

#[test]
fn a_flow_that_was_not_measured_keeps_its_data_sheets() {
    let parts = server().with_measured(measured());
    let back = planned(&parts, "nic", "disk");
    assert_eq!(of(&back, "disk:a").0, 1e9, "written, not read");
    assert_eq!(of(&back, "nic:eth0").1, Origin::Effective);
    assert_eq!(
        of(&back, "cpu").1,
        Origin::Rated,
        "the default: what was measured is the cost of another flow"
    );
    assert_eq!(of(&back, "memory").1, Origin::Measured, "the bus is the same");
}

#[test]
fn disks_that_share_something_are_planned_by_what_they_reached_together() {
    let shared = MeasuredParts { disks_together: Some(1.6e9), ..measured() };
    let parts = server().with_measured(shared);
    assert_eq!(rate(&planned(&parts, "disk", "nic")), 1.6e9);
    assert_eq!(rate(&planned(&parts, "disk:b", "nic")), 1.7e9, "alone it reaches more");
}

#[test]
fn a_lower_bound_raises_and_never_limits() {
    let mut measured = measured();
    measured.disks = vec![device("disk:a", 1e9), device("disk:b", 3e9)];
    measured.disks.iter_mut().for_each(|disk| disk.at_least = true);
    let plan = planned(&server().with_measured(measured), "disk", "nic");
    assert_eq!(of(&plan, "disk:a").0, 2e9);
    let (capacity, _, disk) = of(&plan, "disk:b");
    assert!(capacity == 3e9 && disk.lower_bound, "{disk:?}");
    assert!(!plan.ceiling.cut.contains(&"disk:b".to_string()), "{}", plan.sentence);
}

#[test]
fn a_link_through_which_more_was_measured_does_not_limit() {
    let mut measured = measured();
    measured.disks = vec![device("disk:a", 3.7e9)];
    let plan = planned(&server().with_measured(measured), "disk:a", "nic");
    assert_eq!((rate(&plan), plan.ceiling.cut.clone()), (3.7e9, vec!["disk:a".to_string()]));
    assert!(resource(&plan, "pcie:a").lower_bound);
}

#[test]
fn a_change_forgets_what_was_measured_of_the_part_alone() {
    let before = server().with_measured(MeasuredParts { disks_together: Some(3e9), ..measured() });
    let changed = |what: WhatIfChange| {
        let mut parts = before.clone();
        apply(&mut parts, &what).expect("a change");
        parts.forget_changed(&before);
        parts.measured
    };
    let faster = changed(WhatIfChange::Set("a.read=4GB/s".into()));
    assert_eq!(faster.disks, [device("disk:b", 1.7e9)]);
    assert_eq!((faster.disks_together, faster.nics.len()), (None, 1));
    assert_eq!(changed(WhatIfChange::Remove("b".into())).disks, [device("disk:a", 1.5e9)]);
    assert_eq!(changed(WhatIfChange::Set("mtu=1500".into())).nics, []);
    assert_eq!(changed(WhatIfChange::Set("memory.clock=1600".into())).memory_bytes_per_second, None);
    assert_eq!(changed(WhatIfChange::Set("cpu.cost=0.1".into())).cpu_seconds_per_gb, None);
    assert_eq!(changed(WhatIfChange::Add("disk=1GB/s:pcie3x4".into())), before.measured);
}

#[test]
fn of_several_runs_the_median_counts() {
    let run = |rate: f64, at_least: bool, memory: f64| MeasuredParts {
        disks: vec![MeasuredDevice { at_least, ..device("disk:a", rate) }],
        memory_bytes_per_second: Some(memory),
        ..MeasuredParts::default()
    };
    let all = MeasuredParts::median(vec![
        run(3e9, false, 20e9),
        run(9e9, true, 30e9),
        run(1e9, false, 10e9),
        run(2e9, false, 21e9),
    ]);
    assert_eq!(all.disks, [device("disk:a", 2e9)], "what is only a lower bound does not count beside others");
    assert_eq!(all.memory_bytes_per_second, Some(20e9));
    let bounds = MeasuredParts::median(vec![run(1e9, true, 1e9), run(2e9, true, 1e9)]);
    assert_eq!(bounds.disks, [MeasuredDevice { at_least: true, ..device("disk:a", 2e9) }]);
    assert_eq!(MeasuredParts::median(Vec::new()), MeasuredParts::default());
}
