//! How the members differ before anything is measured: what most of them have, and who has something else.

use crate::fabric::mtu;
use linerate_facts::wording::counted;
use linerate_measure::run::fleet::FleetMember;
use std::collections::BTreeMap;

/// Beyond this the time of day of a member is said to be off.
const TIME_OF_DAY_SECONDS: f64 = 1.0;

/// One sentence for each property in which members differ.
pub(crate) fn differences(members: &[FleetMember]) -> Vec<String> {
    let kernel = |member: &FleetMember| {
        member.machine.as_ref()?.kernel.release.known().map(|release| format!("kernel {release}"))
    };
    let mtu = |member: &FleetMember| mtu(member).map(|mtu| format!("MTU {mtu}"));
    let cpus = |member: &FleetMember| Some(counted(member.machine.as_ref()?.cpu.logical.len(), "CPU"));
    let control = |member: &FleetMember| {
        let control = member.machine.as_ref()?.kernel.tcp_congestion_control.known()?;
        Some(format!("TCP congestion control {control}"))
    };
    let version = |member: &FleetMember| Some(format!("linerate {}", member.version));
    let mut sentences = Vec::new();
    sentences.extend(differing(members, "run", version));
    sentences.extend(differing(members, "run", kernel));
    sentences.extend(differing(members, "have", control));
    sentences.extend(differing(members, "have", mtu));
    sentences.extend(differing(members, "have", cpus));
    sentences.extend(same_address(members));
    let off = |member: &&FleetMember| member.time_of_day_offset_seconds.abs() > TIME_OF_DAY_SECONDS;
    sentences.extend(members.iter().filter(off).map(|FleetMember { name, time_of_day_offset_seconds, .. }| {
        format!("{name}'s time of day is {time_of_day_offset_seconds:+.1} s off the coordinator's; no figure depends on it")
    }));
    sentences
}

fn differing(
    members: &[FleetMember],
    verb: &str,
    property: impl Fn(&FleetMember) -> Option<String>,
) -> Option<String> {
    let mut by_value: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for member in members {
        if let Some(value) = property(member) {
            by_value.entry(value).or_default().push(&member.name);
        }
    }
    if by_value.len() < 2 {
        return None;
    }
    let usual = by_value.iter().max_by_key(|(_, names)| names.len())?.0.clone();
    let others = by_value.iter().filter(|(value, _)| **value != usual);
    let others: Vec<String> = others.map(|(value, names)| format!("{}: {value}", names.join(", "))).collect();
    Some(format!("not all {verb} {usual}: {}", others.join("; ")))
}

/// Ranks of one host share its NIC: their figures are parts of one.
fn same_address(members: &[FleetMember]) -> Option<String> {
    let mut by_address: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for member in members {
        let (ip, _port) = member.address.rsplit_once(':')?;
        by_address.entry(ip).or_default().push(&member.name);
    }
    let (ip, names) = by_address.into_iter().find(|(_, names)| names.len() > 1)?;
    Some(format!("{} are one host, {ip}: its NIC is shared by them", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unlike_is_named_with_its_hosts() {
        let member = |name: &str, version: &str, off: f64| FleetMember {
            name: name.into(),
            version: version.into(),
            address: format!("10.0.0.{}:7", name.len()),
            time_of_day_offset_seconds: off,
            ..FleetMember::default()
        };
        let with_control = |member: FleetMember, name: &str| {
            let mut machine = linerate_machine::probe::Machine::default();
            machine.kernel.tcp_congestion_control = linerate_facts::fact::Fact::Known(name.into());
            FleetMember { machine: Some(Box::new(machine)), ..member }
        };
        let controls = ["cubic", "bbr", "cubic"];
        let members: Vec<FleetMember> = controls
            .iter()
            .zip(["a", "bb", "ccc"])
            .map(|(one, name)| with_control(member(name, "1", 0.0), one))
            .collect();
        assert!(
            differences(&members).contains(
                &"not all have TCP congestion control cubic: bb: TCP congestion control bbr".into()
            )
        );
        let members = [member("a", "1.0.0", 0.0), member("bb", "1.0.0", 30.0), member("ccc", "1.0.1", 0.0)];
        let sentences = differences(&members);
        assert!(sentences[0].contains("ccc: linerate 1.0.1"), "{sentences:?}");
        assert_eq!(
            sentences[1],
            "bb's time of day is +30.0 s off the coordinator's; no figure depends on it"
        );
    }
}
