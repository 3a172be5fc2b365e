//! The disks of all members: each host alone, then 2, 4 … all of them at once, written where that is asked for, then
//! read.

use crate::conversation::{Conversation, LEAD};
use crate::protocol::{DiskReport, DiskRequest, MemberReply, MemberRequest, SharedFiles};
use crate::schedule::doubling;
use crate::spec::{FleetDiskSpec, FleetEvent};
use crate::summary::verdict;
use linerate_measure::measure::access::FileLayout;
use linerate_measure::run::fleet::{DiskDirection, FleetDisk, FleetResult, FleetWindow};
use linerate_system::stop::Stop;
use linerate_transport::agent::random;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// Files are filled, and read or written once, however slow the disk; a member that lives says so meanwhile.
const PATIENCE: Duration = Duration::from_secs(1800);

impl FleetDiskSpec {
    fn is_shared(&self) -> bool {
        self.reorder || self.layout != FileLayout::FilePerWorker
    }

    fn request(&self, member: usize, members: usize, id: &str, limit: Option<f64>) -> DiskRequest {
        let shared = self.is_shared().then(|| SharedFiles {
            id: id.into(),
            one_file: self.layout != FileLayout::FilePerWorker,
            member: member as u32,
            members: members as u32,
            reads_of: ((member + usize::from(self.reorder)) % members.max(1)) as u32,
        });
        // Whole requests only.
        let bytes = self.bytes / self.transfer_bytes.max(1) * self.transfer_bytes;
        DiskRequest { spec: FleetDiskSpec { bytes, ..self.clone() }, limit_bytes_per_second: limit, shared }
    }
}

/// Members that read or write at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiskWindowPlan {
    pub members: Vec<usize>,
    pub direction: DiskDirection,
}

/// Each of these alone, then, where they are measured `together`, 2, 4 … all.
pub(crate) fn disk_windows(members: &[usize], together: bool, write: bool) -> Vec<DiskWindowPlan> {
    // One alone is among those that are measured alone.
    let counts = doubling(members.len()).into_iter().filter(|count| together && *count > 1);
    let alone = members.iter().map(|member| vec![*member]);
    let plans: Vec<Vec<usize>> = alone.chain(counts.map(|count| members[..count].to_vec())).collect();
    let of = |direction| plans.iter().cloned().map(move |members| DiskWindowPlan { members, direction });
    [write.then_some(DiskDirection::Write), Some(DiskDirection::Read)]
        .into_iter()
        .flatten()
        .flat_map(of)
        .collect()
}

/// All windows of disks; after each the product is as good as it can be then. `more`: windows that follow. False: it was
/// interrupted.
pub(crate) fn measure_disks(
    (spec, plans, more): (&FleetDiskSpec, &[DiskWindowPlan], usize),
    conversation: &mut Conversation,
    result: &mut FleetResult,
    stop: &Stop,
    listening: &mut dyn FnMut(FleetEvent<'_>),
) -> bool {
    let taking_part: BTreeSet<usize> = plans.iter().flat_map(|plan| plan.members.iter().copied()).collect();
    let at_once = plans.iter().map(|plan| plan.members.len()).max().unwrap_or_default();
    let tasks = (at_once * spec.sources.len()).max(1) as f64;
    let limit = result.rate_limit_bytes_per_second.map(|limit| limit / tasks);
    let prepared = conversation.prepare_disks(spec, &taking_part, limit, stop);
    result.errors.extend(prepared);
    note_lost(conversation, result, listening);
    for (number, plan) in plans.iter().enumerate() {
        let measured =
            if stop.is_ended() { None } else { conversation.disk_window(number, (spec, plan), result, stop) };
        note_lost(conversation, result, listening);
        let Some((window, disks)) = measured else {
            result.errors.push(format!("interrupted after {number} of {} windows", plans.len() + more));
            break;
        };
        result.windows.push(window);
        result.disks.extend(disks);
        result.verdict = verdict(result);
        listening(FleetEvent::Window { done: number + 1, all: plans.len() + more, result });
    }
    let failed = result.disks.iter().filter_map(|disk| {
        let parts = [&disk.member, &disk.source, disk.failure.as_ref()?].map(String::as_str);
        Some(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": "))
    });
    let mut failed: Vec<String> = failed.collect();
    failed.dedup();
    let first = failed.first().cloned();
    result.errors.extend(first.map(|first| and_more(first, failed.len(), "")));
    result.verdict = verdict(result);
    result.windows.len() == plans.len()
}

impl Conversation {
    /// These members make their files; what failed, in sentences.
    fn prepare_disks(
        &mut self,
        spec: &FleetDiskSpec,
        taking_part: &BTreeSet<usize>,
        limit: Option<f64>,
        stop: &Stop,
    ) -> Vec<String> {
        let members = taking_part.len();
        let id: String = random::<4>().unwrap_or_default().iter().map(|byte| format!("{byte:02x}")).collect();
        for member in taking_part.iter().copied() {
            let request = Box::new(spec.request(member, members, &id, limit));
            self.ask(member, &MemberRequest::PrepareDisks { window: 0, request });
        }
        let mut failures = Vec::new();
        let late = self.collect(taking_part.iter().copied(), PATIENCE, stop, |from, reply| match reply {
            MemberReply::Ready { window: 0, failures: failed } => {
                failures.extend(failed.into_iter().map(|failure| (from, failure.why)));
                true
            }
            _ => false,
        });
        let why = || "it did not make its files in time".to_string();
        late.into_iter().flatten().for_each(|member| self.lose(member, why()));
        failures.into_iter().map(|(from, why)| format!("{}: {why}", self.members[from].name)).collect()
    }

    /// None where it was interrupted.
    fn disk_window(
        &mut self,
        number: usize,
        (spec, plan): (&FleetDiskSpec, &DiskWindowPlan),
        before: &FleetResult,
        stop: &Stop,
    ) -> Option<(FleetWindow, Vec<FleetDisk>)> {
        let window = number as u32;
        let at = self.now_nanos() + LEAD.as_nanos() as i64;
        let writes = plan.direction == DiskDirection::Write;
        for member in plan.members.iter().copied() {
            let at_nanos = self.member_nanos(member, at);
            self.ask(member, &MemberRequest::BeginDisks { window, at_nanos, writes });
        }
        let is_own =
            |disk: &DiskReport| spec.sources.iter().any(|own| own.display().to_string() == disk.source);
        let (mut begins, mut ends) = (Vec::new(), Vec::new());
        let mut reports: BTreeMap<usize, BTreeMap<String, DiskReport>> = BTreeMap::new();
        self.collect(plan.members.iter().copied(), PATIENCE, stop, |from, reply| match reply {
            MemberReply::DisksDone { window: of, began_nanos, disks } if of == window => {
                begins.push((from, began_nanos));
                ends.extend(disks.iter().map(|disk| (from, disk.ended_nanos)));
                // Of two of one source the first counts.
                let own = disks.into_iter().rev().filter(is_own);
                reports.insert(from, own.map(|disk| (disk.source.clone(), disk.checked())).collect());
                true
            }
            _ => false,
        })?;
        let mut disks = Vec::new();
        for from in plan.members.iter().copied() {
            let why = if self.is_lost(from) { "the member was lost" } else { "it gave no figure in time" };
            let failed = || vec![DiskReport { failure: Some(why.into()), ..DiskReport::default() }];
            let of_member = reports.remove(&from).map_or_else(failed, |own| own.into_values().collect());
            disks.extend(of_member.into_iter().map(|one| self.disk(number, plan.direction, from, one)));
        }
        let seconds = self.seconds_between(&[&begins[..], &ends].concat(), at);
        let mut of_window = FleetWindow {
            hosts: plan.members.len(),
            disks: Some(plan.direction),
            start_skew_seconds: self.seconds_between(&begins, at),
            alone: plan.members.len() == 1,
            ..FleetWindow::default()
        };
        sum(&mut of_window, &disks, seconds, before);
        Some((of_window, disks))
    }

    fn disk(&self, window: usize, direction: DiskDirection, from: usize, report: DiskReport) -> FleetDisk {
        let whole = report.failure.is_none();
        FleetDisk {
            member: self.members[from].name.clone(),
            source: report.source,
            disks: report.disks,
            window,
            direction,
            bytes: report.bytes,
            bytes_per_second: whole.then_some(report.bytes_per_second),
            first_done_bytes_per_second: whole.then_some(report.first_done_bytes_per_second),
            p99_seconds: report.p99_seconds.filter(|_| whole),
            failure: report.failure,
        }
    }
}

/// The sums of a window, and what each host does alone of them.
fn sum(window: &mut FleetWindow, disks: &[FleetDisk], seconds: f64, before: &FleetResult) {
    let measured = || disks.iter().filter(|disk| disk.bytes_per_second.is_some());
    let bytes: u64 = measured().map(|disk| disk.bytes).sum();
    window.bytes_per_second = if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
    window.first_done_bytes_per_second =
        Some(measured().filter_map(|disk| disk.first_done_bytes_per_second).sum());
    if window.alone {
        return;
    }
    let is_alone = |disk: &&FleetDisk| before.windows.get(disk.window).is_some_and(|window| window.alone);
    let alone: HashMap<(&str, &str), f64> = before
        .disks
        .iter()
        .filter(is_alone)
        .filter(|disk| Some(disk.direction) == window.disks)
        .filter_map(|disk| Some(((disk.member.as_str(), disk.source.as_str()), disk.bytes_per_second?)))
        .collect();
    let of = |disk: &FleetDisk| alone.get(&(disk.member.as_str(), disk.source.as_str())).copied();
    let both: Vec<(f64, f64, u64)> =
        measured().filter_map(|disk| Some((disk.bytes_per_second?, of(disk)?, disk.bytes))).collect();
    let sum_alone: f64 = both.iter().map(|(_, alone, _)| alone).sum();
    if both.len() < measured().count() || sum_alone <= 0.0 {
        return;
    }
    window.scalability = Some(both.iter().map(|(rate, ..)| rate).sum::<f64>() / sum_alone);
    let longest = both.iter().map(|(_, alone, bytes)| *bytes as f64 / alone).fold(0.0, f64::max);
    window.predicted_bytes_per_second = (longest > 0.0).then(|| bytes as f64 / longest);
}

/// What failed first, of so many.
pub(crate) fn and_more(first: String, all: usize, what: &str) -> String {
    if all > 1 { format!("{first} (and {} more{what})", all - 1) } else { first }
}

/// Names members that were lost since this was asked last.
pub(crate) fn note_lost(
    conversation: &Conversation,
    result: &mut FleetResult,
    listening: &mut dyn FnMut(FleetEvent<'_>),
) {
    for (member, gathered) in result.members.iter_mut().zip(&conversation.members) {
        member.lost.clone_from(&gathered.lost);
    }
    for member in result.members.iter().filter(|member| member.lost.is_some()) {
        let why = member.lost.as_deref().unwrap_or_default();
        let sentence = format!("{} was lost: {why}", member.name);
        if !result.errors.contains(&sentence) {
            listening(FleetEvent::Lost { name: &member.name, why });
            result.errors.push(sentence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_is_measured_alone_then_ever_more_of_them() {
        let counts = |members, write| -> Vec<(usize, DiskDirection)> {
            let plans = disk_windows(&[0, 1, 2, 3, 4, 5][..members], true, write);
            plans.into_iter().map(|plan| (plan.members.len(), plan.direction)).collect()
        };
        let read = |counts: &[usize]| -> Vec<(usize, DiskDirection)> {
            counts.iter().map(|count| (*count, DiskDirection::Read)).collect()
        };
        assert_eq!(counts(6, false), read(&[1, 1, 1, 1, 1, 1, 2, 4, 6]));
        assert_eq!(counts(2, false), read(&[1, 1, 2]));
        assert_eq!(counts(4, true).len(), 12);
        assert_eq!(counts(4, true)[0], (1, DiskDirection::Write));
    }

    #[test]
    fn a_slow_disk_is_no_lack_of_scalability() {
        let disk = |member: &str, window, rate| FleetDisk {
            member: member.into(),
            source: "/data".into(),
            window,
            bytes: 100,
            bytes_per_second: Some(rate),
            first_done_bytes_per_second: Some(rate),
            ..FleetDisk::default()
        };
        let alone = || FleetWindow { alone: true, hosts: 1, ..FleetWindow::default() };
        let before = FleetResult {
            windows: vec![alone(), alone()],
            disks: vec![disk("h1", 0, 100.0), disk("h2", 1, 20.0)],
            ..FleetResult::default()
        };
        let mut window = FleetWindow { hosts: 2, disks: Some(DiskDirection::Read), ..FleetWindow::default() };
        sum(&mut window, &[disk("h1", 2, 100.0), disk("h2", 2, 20.0)], 5.0, &before);
        // 200 bytes until the slow one was done after 5 s, as each alone would have it.
        assert_eq!((window.bytes_per_second, window.predicted_bytes_per_second), (40.0, Some(40.0)));
        assert_eq!((window.scalability, window.first_done_bytes_per_second), (Some(1.0), Some(120.0)));
        sum(&mut window, &[disk("h1", 2, 50.0), disk("h2", 2, 10.0)], 10.0, &before);
        assert_eq!((window.scalability, window.bytes_per_second), (Some(0.5), 20.0));
    }
}
