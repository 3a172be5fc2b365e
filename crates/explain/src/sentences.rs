//! What was observed, in sentences: what the program moves, what probably limits it, what is not known, and by which
//! permission each piece was read. And what an experiment says of it: its verdict in place of what was only observed, and
//! the run that is kept of it.

use crate::activity::Activity;
use crate::flow::ProgramFlow;
use crate::observe::Observation;
use crate::product::{EvidenceSource, Explanation};
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_facts::wording::{capitalised, counted};
use linerate_machine::probe::Machine;
use linerate_measure::diagnose::{
    Bottleneck, Diagnosis, Finding, ShareFigure, SharesVerdict, resources_of_limit,
};
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::Run;
use linerate_model::plan::Goal;
use linerate_model::shares::{ShareRecord, SlotRecord};
use linerate_model::verdict::{Judgement, Limit, LimitKind, Missing, Route, Verdict, judge};
use linerate_system::user;

/// Of less nothing can be said: the kernel counts CPU time in steps of 10 ms.
const LEAST_SECONDS: f64 = 0.3;
/// Rounds of samples that a share needs.
const LEAST_ROUNDS: u64 = 5;
/// What a program does that makes a part of the machine its limit.
const CAUSES: [&str; 5] =
    ["one-read-at-a-time", "page-faults", "one-thread-full", "threads-take-turns", "too-many-threads"];

/// The verdict.
pub(crate) struct ProgramVerdict {
    pub(crate) grade: &'static str,
    pub(crate) bottleneck: Bottleneck,
    pub(crate) rule: Option<String>,
}

pub(crate) fn statement(flow: &ProgramFlow<'_>, findings: &[Finding]) -> ProgramVerdict {
    let observed = flow.observed;
    let too_short = observed.seconds < LEAST_SECONDS || observed.threads_read.rounds < LEAST_ROUNDS;
    let judged = match too_short {
        true => Judgement { limits: Vec::new(), missing: Some(Missing::TooShort) },
        false => judge(&flow.evidence()),
    };
    let limit = judged.limit();
    let resources = limit.map(resources_of_limit).unwrap_or_default();
    let kind = judged.kind().unwrap_or(LimitKind::Unknown);
    let mut sentences = vec![moved(flow)];
    sentences.push(match (limit, &judged.missing) {
        (Some(limit), _) => probably(limit, &resources, findings),
        (None, _) if flow.is_nothing() && !too_short => no_limit(flow),
        (None, Some(missing)) => format!("What limits it is unknown: {missing}."),
        (None, None) => "What limits it is unknown.".into(),
    });
    let beside = || limit.and_then(beside_the_program).map(|text| sentence(&text));
    sentences.extend(remedy(findings, kind).or_else(beside));
    let gain = findings.iter().map(|finding| finding.gain).fold(0.0, f64::max);
    ProgramVerdict {
        grade: if limit.is_some() { "observed" } else { "unknown" },
        rule: limit.map(Limit::rule),
        bottleneck: Bottleneck::new(kind, resources, sentences, gain),
    }
}

/// What to change in the program, where a finding says so.
pub(crate) fn remedy(findings: &[Finding], kind: LimitKind) -> Option<String> {
    let found = cause(findings, kind).filter(|finding| !finding.remedy.is_empty())?;
    Some(sentence(&found.remedy))
}

fn sentence(text: &str) -> String {
    format!("{}.", capitalised(text.trim_end_matches('.')))
}

/// Of several, the one that limits by itself comes first.
fn cause(findings: &[Finding], kind: LimitKind) -> Option<&Finding> {
    let about = || findings.iter().filter(|finding| is_about(finding, kind));
    about().find(|finding| CAUSES.contains(&finding.id.as_str())).or_else(|| about().next())
}

/// What a finding says to do bears on what limits.
fn is_about(finding: &Finding, kind: LimitKind) -> bool {
    use LimitKind as K;
    match finding.id.as_str() {
        "one-read-at-a-time" | "page-faults" | "others-on-disk" => {
            matches!(kind, K::Disk | K::Volume | K::Controller | K::Pipeline)
        }
        "one-thread-full" | "threads-take-turns" | "too-many-threads" | "tls-in-user-space"
        | "small-blocks" | "small-sends" => kind == K::Cpu,
        "window-closed-by-receiver" => matches!(kind, K::Window | K::Receiver),
        "own-rate-limit" => kind == K::Demand,
        "others-on-nic" => kind == K::Nic,
        _ => false,
    }
}

/// What to change where it is not the program.
fn beside_the_program(limit: &Limit) -> Option<String> {
    Some(match limit {
        Limit::Quota { .. } => {
            "raise the quota of its control group (CPUQuota= of systemd, --cpus of a container)".into()
        }
        Limit::Others { .. } => {
            "move the other programs to another time or to other CPUs (CPUAffinity= of systemd, \
                                 taskset), or give them less (CPUWeight= of systemd, nice)"
                .into()
        }
        Limit::Sink { part: Some(part), .. } | Limit::Incoming { part: Some(part), .. } => {
            return beside_the_program(part);
        }
        Limit::Shaper { nic, .. } => format!("raise its rate, which `tc qdisc show dev {nic}` shows"),
        Limit::Pipe { .. } => "look at that program (`linerate explain` with its pid)".into(),
        _ => return None,
    })
}

/// `dd (pid 77) reads 40.1 MB/s from files.`
fn moved(flow: &ProgramFlow<'_>) -> String {
    let (observed, rates) = (flow.observed, flow.rates);
    let who = match &observed.pids[..] {
        [] => observed.name.clone(),
        [pid] => format!("{} (pid {pid})", observed.name),
        pids => format!("{} (pid {}, {} processes)", observed.name, pids[0], pids.len()),
    };
    let files = |rate: f64, storage: f64| match () {
        () if storage >= 0.9 * rate => "storage",
        () if storage <= 0.1 * rate => "the page cache",
        () => "storage and the page cache",
    };
    // A log that is written beside it is not part of what it moves.
    let most = rates.files_read.max(rates.files_written).max(rates.sent).max(rates.received);
    let counts = |rate: f64| rate >= 1000.0 && rate >= 0.01 * most;
    let mut parts = Vec::new();
    if counts(rates.files_read) {
        let from = files(rates.files_read, rates.storage_read);
        parts.push(format!("reads {} from {from}", show_bytes_rate(rates.files_read)));
    }
    if counts(rates.files_written) {
        parts.push(format!("writes {} to files", show_bytes_rate(rates.files_written)));
    }
    let least = if observed.connections.ended > 0 { "at least " } else { "" };
    let network = |rate: f64| format!("{least}{} ({})", show_bits_rate(rate), show_bytes_rate(rate));
    if counts(rates.sent) {
        parts.push(format!("sends {} by TCP", network(rates.sent)));
    }
    if counts(rates.received) {
        parts.push(format!("receives {} by TCP", network(rates.received)));
    }
    if parts.is_empty() && rates.called >= 1000.0 {
        parts.push(format!("moves {} through pipes and other descriptors", show_bytes_rate(rates.called)));
    }
    let is_uncounted = uses_sockets(flow) || !observed.mapped.is_empty();
    match parts.split_last() {
        None if is_uncounted => format!("{who} moves no bytes that the kernel counts."),
        None => format!("{who} moves no bytes."),
        Some((last, [])) => format!("{who} {last}."),
        Some((last, first)) => format!("{who} {} and {last}.", first.join(", ")),
    }
}

/// An observed verdict is not a flat statement. Where it is known how the program itself makes a part its limit, that is
/// said in place of what it waits for.
fn probably(limit: &Limit, resources: &[String], findings: &[Finding]) -> String {
    let text = limit.to_string();
    let cause = cause(findings, limit.kind()).filter(|finding| CAUSES.contains(&finding.id.as_str()));
    let text = match cause {
        Some(cause) if limit.kind() == LimitKind::Cpu => format!("the CPU: {}", cause.text),
        Some(cause) => format!("the disks: {}", cause.text),
        None if matches!(limit, Limit::Cpus { .. }) => format!("the CPU: {text}"),
        None => text,
    };
    let named = match resources {
        [one] => one.strip_prefix("disk:").map(|disk| format!("disk {disk}")),
        _ => None,
    };
    let text = match (named, text.strip_prefix("the disks: ").or(text.strip_prefix("the disk: "))) {
        (Some(disk), Some(rest)) => format!("{disk}: {}", rest.replacen("for them", "for it", 1)),
        _ => text,
    };
    match limit {
        Limit::NoRequests { .. } => format!("Probably nothing here limits it: {text}."),
        Limit::Quota { .. } => {
            let text = text.replacen("this control group throttled", "its control group, which throttled", 1);
            format!("Probably limited by {}.", text.replacen("this control group", "its control group", 1))
        }
        _ => format!("Probably limited by {}.", text.replace("(linerate ", "(the program ")),
    }
}

fn no_limit(flow: &ProgramFlow<'_>) -> String {
    let largest = flow.shares().largest();
    let does = largest.first().map(|(activity, share)| (in_words(*activity), share * 100.0));
    match does {
        Some((words, share)) => format!("There is nothing to explain: it {words} {share:.0} % of the time."),
        None => "There is nothing to explain: it does nothing.".into(),
    }
}

/// What a thread does, after "it".
fn in_words(activity: Activity) -> &'static str {
    match activity {
        Activity::Running => "computes",
        Activity::Runnable => "waits for a CPU",
        Activity::Disk => "waits for a disk",
        Activity::PageFault => "waits for pages of a mapped file",
        Activity::Send => "waits until a socket takes more",
        Activity::Receive => "waits for data of a socket",
        Activity::PipeRead | Activity::PipeWrite => "waits for another program at a pipe",
        Activity::Lock => "waits for its own threads",
        Activity::Poll => "waits for events",
        Activity::Ring => "waits for io_uring",
        Activity::Timer => "sleeps by a timer",
        Activity::Child => "waits for a child",
        Activity::Other => "waits for something else",
    }
}

/// Its threads wait for sockets: where TCP moves nothing, these may be of datagrams.
fn uses_sockets(flow: &ProgramFlow<'_>) -> bool {
    flow.shares().of_all(&[Activity::Send, Activity::Receive]) > 0.05
}

/// What is not known of it.
pub(crate) fn unknown(flow: &ProgramFlow<'_>) -> Vec<String> {
    let observed = flow.observed;
    let mut all = observed.left_out.clone();
    all.extend(observed.connections.unknown.clone());
    all.extend(flow.devices.unknown.iter().cloned());
    if observed.total.storage_read.is_none() {
        all.push("what the storage moved for it: /proc/PID/io is not readable or not there".into());
    }
    if observed.ended {
        all.push(format!("it ended after {:.1} s: the last of its bytes are unknown", observed.seconds));
    }
    if matches!(flow.route, Route::Unknown) && uses_sockets(flow) {
        all.push("what it moves by UDP: the kernel counts no bytes of a UDP socket".into());
    }
    let opaque = flow.shares().of(Activity::Other);
    if opaque >= 0.2 {
        all.push(format!("what its threads wait for in {:.0} % of the time", opaque * 100.0));
    }
    if observed.connections.ended > 0 {
        let ended = counted(observed.connections.ended, "connection");
        all.push(format!(
            "the last bytes of {ended} that ended meanwhile, and of those that lived for a moment"
        ));
    }
    all
}

/// Each piece, what it was read from, and which permission that took; and what root would add.
pub(crate) fn sources(observed: &Observation) -> (Vec<EvidenceSource>, Option<String>) {
    let is_root = user::is_root();
    let own = if is_root { "root" } else { "its owner" };
    let piece = |what, read_from, permission| EvidenceSource { what, read_from, permission };
    let mut all = vec![
        piece("CPU time, page faults, children", "/proc/PID/stat", "anyone"),
        piece("bytes and calls", "/proc/PID/io", own),
        piece("open files and how far they moved", "/proc/PID/fd, fdinfo", own),
        piece("time on CPUs and waiting for one", "/proc/PID/task/TID/schedstat", "anyone"),
        piece("connections", "sock_diag, TCP_INFO", "anyone"),
        piece("devices, interrupts, steal, other programs", "/proc/stat, diskstats, net/dev", "anyone"),
        piece("control group", "/proc/PID/cgroup, /sys/fs/cgroup", "anyone"),
    ];
    let read = observed.threads_read;
    all.push(match read.calls_refused {
        true => piece("what threads wait for", "/proc/PID/task/TID/wchan", own),
        false => piece("what threads wait for", "/proc/PID/task/TID/syscall, wchan", own),
    });
    let mut missing = Vec::new();
    if !is_root && read.calls_refused {
        missing.push(
            "in which system call its threads wait, and of which size (a Linux with Yama refuses that)",
        );
    }
    if !is_root && observed.total.storage_read.is_none() {
        missing.push("the bytes of its processes that belong to others");
    }
    let of_storage = [observed.total.storage_read, observed.total.storage_written];
    let uses_disks = of_storage.into_iter().flatten().any(|rate| rate > 0.0);
    if !is_root && uses_disks && observed.host.processes.unreadable > 0 {
        missing.push("which other users' programs use the same disks");
    }
    let added =
        (!missing.is_empty()).then(|| format!("as root linerate would also see {}", missing.join("; ")));
    (all, added)
}

impl Explanation {
    /// Nothing was taken, or what was taken says nothing: what was observed stands, with the reason.
    pub fn not_measured(&mut self, why: impl std::fmt::Display) {
        self.bottleneck = with_sentence(&self.bottleneck, format!("Not measured: {why}."));
    }

    /// Takes the verdict of the shares where they decide; a part that has room by its share is not named, either.
    /// `untaken`: what could not be taken from.
    pub fn measured(&mut self, record: &ShareRecord, untaken: &[ShareFigure]) {
        let found = SharesVerdict::of(record, &[]);
        let moved = self.bottleneck.sentences.first().cloned();
        // Takers are not in its place there: that its CPUs have room says nothing of these.
        let is_beyond = matches!(self.bottleneck.kind, LimitKind::Quota | LimitKind::Steal);
        self.bottleneck = match &found.limit {
            Some(limit) => {
                self.verdict = "measured";
                self.rule = None;
                let sentences = moved.into_iter().chain([found.sentence.clone()]);
                let sentences = sentences.chain(remedy(&self.findings, limit.kind)).collect();
                Bottleneck::new(limit.kind, limit.ids.clone(), sentences, 0.0)
            }
            None if is_beyond => with_sentence(&self.bottleneck, found.sentence.clone()),
            None => found.beside((Verdict::Unexplained, self.bottleneck.clone()), moved).1,
        };
        if self.bottleneck.kind == LimitKind::Unknown {
            self.verdict = "unknown";
            self.rule = None;
        }
        self.shares = found.shares.into_iter().chain(untaken.iter().cloned()).collect();
    }

    /// The run that is kept of an experiment.
    pub fn run(&self, machine: Machine, record: ShareRecord) -> Run {
        let name = self.program.name.clone();
        let bytes = |slot: &SlotRecord| slot.counted.flow.iter().sum::<u64>();
        let nanos: u64 = record.slots.iter().map(|slot| slot.counted.nanos).sum();
        let seconds = nanos as f64 * 1e-9;
        let rate = record.slots.iter().map(bytes).sum::<u64>() as f64 / seconds.max(1e-9);
        let measurement = Measurement {
            stage: Stage::Explain,
            name: name.clone(),
            resource: "all".into(),
            bytes_per_second: rate,
            samples: vec![rate],
            seconds,
            experiment: Some(Box::new(record)),
            ..Measurement::default()
        };
        let verdict = if self.verdict == "measured" { Verdict::Confirmed } else { Verdict::Unexplained };
        let diagnosis = Diagnosis {
            verdict: Some(verdict),
            bottleneck: Some(self.bottleneck.clone()),
            shares: self.shares.clone(),
            findings: self.findings.clone(),
            ..Diagnosis::default()
        };
        Run {
            measurements: vec![measurement],
            diagnosis: Some(diagnosis),
            ..Run::begin_stage(Stage::Explain, name, machine, Goal::default())
        }
    }
}

fn with_sentence(bottleneck: &Bottleneck, sentence: String) -> Bottleneck {
    let sentences = bottleneck.sentences.iter().cloned().chain([sentence]).collect();
    Bottleneck::new(bottleneck.kind, bottleneck.resources.clone(), sentences, bottleneck.gain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::verdict::DiskEvidence;

    #[test]
    fn an_observed_verdict_begins_with_probably_and_names_the_disk() {
        let disk = DiskEvidence { name: "vda".into(), queue_depth: Some(1.0), ..DiskEvidence::default() };
        let limit = Limit::Source { count: 1, share: 0.94, disk: Some(disk) };
        let said = probably(&limit, &["disk:vda".into()], &[]);
        assert_eq!(
            said,
            "Probably limited by disk vda: the worker waits for it 94 % of the time (vda had 1.0 requests in flight)."
        );
        let said = probably(&Limit::NoRequests { share: 0.9 }, &[], &[]);
        assert!(said.starts_with("Probably nothing here limits it: nobody asks for more"), "{said}");
    }
}
