//! The windows of a pattern, one after another; what was lost is named, what differs is measured again, and after each
//! window the product is as good as it can be then.

use crate::coordinator::{FleetEvent, FleetSpec, LEAST_MEMBERS};
use crate::differences::differences;
use crate::disk_round::measure_disks;
use crate::fabric::{FabricLinks, check_fabric};
use crate::names::NameLookup;
use crate::product::{FleetCell, FleetMember, FleetResult};
use crate::schedule::{FleetPattern, FlowEnds, WindowPlan};
use crate::summary::verdict;
use crate::window::Conversation;
use linerate_transport::agent::random;
use std::sync::atomic::{AtomicBool, Ordering};

/// All windows.
pub(crate) fn measure(
    spec: &FleetSpec,
    lookup: &NameLookup,
    conversation: &mut Conversation,
    result: &mut FleetResult,
    stop: &AtomicBool,
    listening: &mut dyn FnMut(FleetEvent<'_>),
) {
    conversation.await_machines();
    result.members = conversation.members().collect::<Vec<FleetMember>>();
    result.differences = differences(&result.members);
    result.differences.extend(lookup.ambiguous(conversation.own_addresses()));
    let names: Vec<String> = result.members.iter().map(|member| member.name.clone()).collect();
    let undeclared = check_fabric(&result.fabric, &names);
    result.differences.extend(undeclared.err().map(|why| why.to_string()));
    let fabric = FabricLinks::new(&result.fabric, &result.members);
    listening(FleetEvent::Gathered(result));
    if let Some(disks) = &spec.disks {
        return measure_disks(disks, conversation, result, stop, listening);
    }
    let mut plans = spec.pattern.windows(&fabric.groups(), &mut lot);
    let (mut number, mut measured_again) = (0, false);
    while let Some(plan) = plans.get(number) {
        if stop.load(Ordering::Relaxed) {
            result.errors.push(format!("interrupted after {number} of {} windows", plans.len()));
            break;
        }
        let (window, cells, hosts) = conversation.window(number, plan, result, &fabric, stop);
        result.windows.push(window);
        result.cells.extend(cells);
        result.hosts.extend(hosts);
        note_lost(conversation, result, listening);
        number += 1;
        if result.members.len() <= MOST_JUDGED_ALWAYS || number == plans.len() {
            result.verdict = verdict(result);
        }
        if number == plans.len() && !measured_again && spec.pattern == FleetPattern::Pairs {
            measured_again = true;
            plans.extend(again(result));
        }
        listening(FleetEvent::Window { done: number, all: plans.len(), result });
        if result.members.iter().filter(|member| member.lost.is_none()).count() < LEAST_MEMBERS {
            result.errors.push("fewer than two members are left".into());
            break;
        }
    }
    // What failed once and was measured again is no failure.
    let lacks = |cell: &&FleetCell| cell.failure.is_some() && result.rate(&cell.from, &cell.to).is_none();
    let failed = result.cells.iter().filter(lacks);
    let first = failed.clone().find_map(|cell| {
        let lost = |name: &String| result.members.iter().any(|one| one.name == *name && one.lost.is_some());
        let why = cell.failure.as_ref()?;
        (!lost(&cell.from) && !lost(&cell.to)).then(|| format!("{} to {}: {why}", cell.from, cell.to))
    });
    result.errors.extend(first.map(|first| match failed.count() {
        1 => first,
        more => format!("{first} (and {} more flows)", more - 1),
    }));
    result.verdict = verdict(result);
}

/// Names members that were lost since this was asked last.
pub(crate) fn note_lost(
    conversation: &Conversation,
    result: &mut FleetResult,
    listening: &mut dyn FnMut(FleetEvent<'_>),
) {
    result.members = conversation.members().collect();
    for member in result.members.iter().filter(|member| member.lost.is_some()) {
        let why = member.lost.as_deref().unwrap_or_default();
        let sentence = format!("{} was lost: {why}", member.name);
        if !result.errors.contains(&sentence) {
            listening(FleetEvent::Lost { name: &member.name, why });
            result.errors.push(sentence);
        }
    }
}

/// The verdict on more members than this takes time that the next window would wait for.
const MOST_JUDGED_ALWAYS: usize = 16;
/// A pair is one cell alone, and chance makes one cell slow: each that differs is measured this often again, and the
/// median counts.
const AGAIN: usize = 2;
/// More pairs than this are no matter of pairs.
const MOST_DOUBTFUL: usize = 8;

/// Windows for the pairs that differ so far, and for flows that failed between members that are there, each alone.
fn again(result: &FleetResult) -> Vec<WindowPlan> {
    let number = |name: &String| {
        result.members.iter().position(|member| member.name == *name && member.lost.is_none())
    };
    let ends = |from: &String, to: &String| Some((number(from)?, number(to)?));
    let pairs = result.verdict.links.iter().filter(|link| link.from.len() == 1 && link.to.len() == 1);
    let slow: Vec<FlowEnds> =
        pairs.filter_map(|link| ends(&link.from[0], &link.to[0])).take(MOST_DOUBTFUL).collect();
    let failed = result.cells.iter().filter(|cell| cell.failure.is_some());
    let failed: Vec<FlowEnds> =
        failed.filter_map(|cell| ends(&cell.from, &cell.to)).take(MOST_DOUBTFUL).collect();
    let all = failed.into_iter().chain((0..AGAIN).flat_map(|_| slow.clone()));
    all.map(|ends| WindowPlan { flows: vec![ends], alone: false }).collect()
}

/// A number below this one, by the kernel's dice.
fn lot(below: usize) -> usize {
    let bytes = random::<8>().unwrap_or_default();
    (u64::from_le_bytes(bytes) % below.max(1) as u64) as usize
}
