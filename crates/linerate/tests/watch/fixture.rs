//! The moment that the views are tested with.

use linerate::watch::{Moment, SCHEMA};

/// A rich one: two NICs, three disks, four cores, something lost, a link that changed, power.
pub fn moment() -> Moment {
    serde_json::from_str(include_str!("moment.json")).expect("a moment")
}

#[test]
fn the_fixture_is_a_moment_and_names_every_field() {
    let value: serde_json::Value = serde_json::from_str(include_str!("moment.json")).expect("JSON");
    let back = serde_json::to_value(moment()).expect("JSON");
    assert_eq!(back, value, "every field is in the fixture, and none that the model has not");
    assert_eq!(moment().schema, SCHEMA);
    for core in &moment().cpus.each {
        let eight = core.eight.expect("shares");
        assert!(eight.busy() <= 1.0);
    }
}
