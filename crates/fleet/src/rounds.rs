//! The windows of a pattern, one after another; what was lost is named, what differs is measured again, and after each
//! window the product is as good as it can be then. Before anything is measured it says how the members differ: what
//! most of them have, and who has something else.

use crate::conversation::{Conversation, GatheredMember};
use crate::disk_round::{and_more, disk_windows, measure_disks, note_lost};
use crate::fabric::{FabricLinks, check_fabric, mtu};
use crate::hosts::NameLookup;
use crate::redundancy::estimates;
use crate::schedule::{FlowEnds, MemberRoles, WindowPlan, windows};
use crate::spec::{FleetEvent, FleetSpec, LEAST_MEMBERS};
use crate::summary::verdict;
use linerate_facts::wording::counted;
use linerate_measure::run::fleet::{FleetCell, FleetMember, FleetPattern, FleetResult};
use linerate_system::stop::Stop;
use linerate_transport::agent::random;
use std::collections::BTreeMap;

/// The verdict on more members than this takes time that the next window would wait for.
const MOST_JUDGED_ALWAYS: usize = 16;
/// A pair is one cell alone, and chance makes one cell slow: each that differs is measured this often again, and the
/// median counts.
const AGAIN: usize = 2;
/// More pairs than this have another cause than the pair.
const MOST_DOUBTFUL: usize = 8;

/// Beyond this the time of day of a member is said to be off.
const TIME_OF_DAY_SECONDS: f64 = 1.0;

/// All windows.
pub(crate) fn measure(
    spec: &FleetSpec,
    lookup: &NameLookup,
    conversation: &mut Conversation,
    result: &mut FleetResult,
    stop: &Stop,
    listening: &mut dyn FnMut(FleetEvent<'_>),
) {
    conversation.await_machines(stop);
    let gathered = &conversation.members;
    result.members = gathered.iter().map(GatheredMember::product).collect();
    result.differences = differences(&result.members);
    let addresses = gathered.iter().map(|member| (member.name.as_str(), member.hello.addresses.as_slice()));
    result.differences.extend(lookup.ambiguous(addresses));
    let names: Vec<String> = result.members.iter().map(|member| member.name.clone()).collect();
    let undeclared = check_fabric(&result.fabric, &names);
    result.differences.extend(undeclared.err().map(|why| why.to_string()));
    let fabric = FabricLinks::new(&result.fabric, &result.members);
    listening(FleetEvent::Gathered(result));
    let Some(roles) = roles(spec, result, &fabric) else {
        result.verdict = verdict(result);
        return;
    };
    let plans = windows(spec.pattern, &roles, &mut lot);
    if let Some(disks) = &spec.disks {
        let all: Vec<usize> = (0..result.members.len()).collect();
        let disk_plans = match spec.pattern {
            FleetPattern::Storage => disk_windows(&roles.servers, false, disks.write),
            _ => disk_windows(&all, true, disks.write),
        };
        if !measure_disks((disks, &disk_plans, plans.len()), conversation, result, stop, listening) {
            return;
        }
    }
    measure_flows(plans, (spec, &fabric), conversation, result, stop, listening);
    result.redundancy = estimates(&spec.redundancy, result);
    result.verdict = verdict(result);
}

/// Who the members are to each other; none, with the reason among the errors, where the pattern lacks a part.
fn roles(spec: &FleetSpec, result: &mut FleetResult, fabric: &FabricLinks) -> Option<MemberRoles> {
    let groups = fabric.groups();
    let by_rack = result.group.is_some();
    if by_rack && groups.iter().all(|group| Some(group) == groups.first()) {
        result.errors.push("all members are in one rack: declare two at least with --fabric".into());
        return None;
    }
    if spec.pattern != FleetPattern::Storage {
        return Some(MemberRoles { groups, by_group: by_rack, ..MemberRoles::default() });
    }
    let at = |name: &String| result.members.iter().position(|member| member.name == *name);
    let unknown =
        |name: &&String| at(name).is_none() && !result.absent.iter().any(|host| host.name == **name);
    let unknown = spec.servers.iter().find(unknown).map(|name| {
        let names: Vec<&str> = result.members.iter().map(|member| member.name.as_str()).collect();
        format!("--servers names {name}, which is none of the members: {}", names.join(", "))
    });
    let servers: Vec<usize> = spec.servers.iter().filter_map(at).collect();
    let lacking = match servers.len() {
        0 => Some("no server is there: nothing was measured".into()),
        all if all == result.members.len() => Some("all members are servers, and none is a client".into()),
        _ => None,
    };
    let lacks_part = lacking.is_some();
    result.errors.extend(unknown.into_iter().chain(lacking));
    (!lacks_part).then_some(MemberRoles { groups, servers, ..MemberRoles::default() })
}

/// The windows of flows, one after another.
fn measure_flows(
    mut plans: Vec<WindowPlan>,
    (spec, fabric): (&FleetSpec, &FabricLinks),
    conversation: &mut Conversation,
    result: &mut FleetResult,
    stop: &Stop,
    listening: &mut dyn FnMut(FleetEvent<'_>),
) {
    // Windows of disks came first.
    let before = result.windows.len();
    let (mut done, mut measured_again) = (0, false);
    while let Some(plan) = plans.get(done) {
        let number = before + done;
        let measured = if stop.is_ended() {
            None
        } else {
            conversation.window(number, plan, result, (spec, fabric), stop)
        };
        note_lost(conversation, result, listening);
        let Some((window, cells, hosts)) = measured else {
            result.errors.push(format!("interrupted after {number} of {} windows", before + plans.len()));
            break;
        };
        result.windows.push(window);
        result.cells.extend(cells);
        result.hosts.extend(hosts);
        done += 1;
        if result.members.len() <= MOST_JUDGED_ALWAYS || done == plans.len() {
            result.verdict = verdict(result);
        }
        if done == plans.len() && !measured_again && spec.pattern == FleetPattern::Pairs {
            measured_again = true;
            plans.extend(again(result));
        }
        listening(FleetEvent::Window { done: before + done, all: before + plans.len(), result });
        if result.members.iter().filter(|member| member.lost.is_none()).count() < LEAST_MEMBERS {
            result.errors.push("fewer than two members are left".into());
            break;
        }
    }
    note_failed(result);
}

/// The first flow that failed, and how many more did.
fn note_failed(result: &mut FleetResult) {
    // What failed once and was measured again is not a failure.
    let lacks =
        |cell: &&FleetCell| cell.figures.failure.is_some() && result.rate(&cell.from, &cell.to).is_none();
    let failed = result.cells.iter().filter(lacks);
    let first = failed.clone().find_map(|cell| {
        let lost = |name: &String| result.members.iter().any(|one| one.name == *name && one.lost.is_some());
        let why = cell.figures.failure.as_ref()?;
        (!lost(&cell.from) && !lost(&cell.to)).then(|| format!("{} to {}: {why}", cell.from, cell.to))
    });
    result.errors.extend(first.map(|first| and_more(first, failed.count(), " flows")));
}

/// Windows for the pairs that differ so far, and for flows that failed between members that are there, each alone.
fn again(result: &FleetResult) -> Vec<WindowPlan> {
    let number = |name: &String| {
        result.members.iter().position(|member| member.name == *name && member.lost.is_none())
    };
    let ends = |from: &String, to: &String| Some((number(from)?, number(to)?));
    let pairs = result.verdict.links.iter().filter(|link| link.from.len() == 1 && link.to.len() == 1);
    let slow: Vec<FlowEnds> =
        pairs.filter_map(|link| ends(&link.from[0], &link.to[0])).take(MOST_DOUBTFUL).collect();
    let failed = result.cells.iter().filter(|cell| cell.figures.failure.is_some());
    let failed: Vec<FlowEnds> =
        failed.filter_map(|cell| ends(&cell.from, &cell.to)).take(MOST_DOUBTFUL).collect();
    let all = failed.into_iter().chain((0..AGAIN).flat_map(|_| slow.clone()));
    all.map(|ends| WindowPlan::measured(vec![ends])).collect()
}

/// A number below this one, by the kernel's dice.
fn lot(below: usize) -> usize {
    let bytes = random::<8>().unwrap_or_default();
    (u64::from_le_bytes(bytes) % below.max(1) as u64) as usize
}

/// One sentence for each property in which members differ.
fn differences(members: &[FleetMember]) -> Vec<String> {
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
