//! What `linerate explain` found, as a screen: the sentences first, then what of the program and of the machine says so.

use crate::document::{Block, Document, Labelled, Part, bold, dim, facts, findings, plain};
use crate::grid::Style;
use crate::shares;
use linerate_explain::{
    Activity, ActivityShares, ConnectionUse, ExplainedDisk, ExplainedFile, ExplainedProcess, Explanation,
};
use linerate_facts::host::LinkUse;
use linerate_facts::units::{show_bits_rate, show_bytes_rate, show_size};
use linerate_facts::wording::{counted, percent};

/// Of each kind that a terminal names one by one.
const MOST: usize = 4;
/// ActivityShares of a thread's time that a line has.
const MOST_SHARES: usize = 4;

/// For a terminal, at most `width` columns wide; a newline at its end.
pub fn screen(found: &Explanation, width: usize, colour: bool) -> String {
    document(found).screen(width.clamp(40, 110), Style::of(width, colour))
}

fn document(found: &Explanation) -> Document<'_> {
    let program = &found.program;
    let heading = format!(
        "linerate {} explains {}, observed for {:.1} s",
        env!("CARGO_PKG_VERSION"),
        program.name,
        found.seconds
    );
    let answer = found.bottleneck.sentences.iter().enumerate();
    let answer = answer.map(|(at, sentence)| if at < 2 { bold(sentence) } else { plain(sentence) });
    let mut blocks = vec![Block::Space, facts(lines(found))];
    let unknown: Vec<Labelled> = found.unknown.iter().map(|what| ("unknown: ", plain(what))).collect();
    if !unknown.is_empty() {
        blocks.extend([Block::Space, Block::List(unknown)]);
    }
    let root = found.root_would_add.iter().map(|what| Block::Text(dim(what)));
    blocks.extend(root);
    let shown = Part { id: "program", title: "The program", blocks, ..Part::default() };
    let limit = Some(&found.bottleneck).filter(|_| found.verdict == "measured");
    let taken = shares::of(&found.shares, limit);
    Document {
        heading,
        answer: answer.collect(),
        parts: taken.into_iter().chain([shown, findings(&found.findings, usize::MAX)]).collect(),
        ..Document::default()
    }
}

/// A label and its line, of all that is known.
fn lines(found: &Explanation) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    if found.processes.len() > 1 {
        let moves = |one: &&ExplainedProcess| one.storage_read.is_some() || one.cpus > 0.0;
        all.extend(found.processes.iter().filter(moves).take(MOST).map(|one| ("process", process(one))));
    }
    let threads = &found.threads;
    let (workers, count) = (threads.workers, threads.count);
    let of = if workers == count { String::new() } else { format!(" of {count}") };
    all.push(("threads", format!("{workers}{of} for the bytes: {}", activities(&threads.of_workers))));
    let calls =
        found.threads.busiest.iter().filter_map(|one| one.file_call_bytes.or(one.socket_call_bytes)).max();
    all.extend(calls.map(|bytes| ("calls", format!("of {} each", show_size(bytes)))));
    all.extend(found.files.iter().take(MOST).map(|one| ("file", file(one))));
    all.extend(found.mapped.iter().take(2).map(|one| {
        let of = if one.processes > 1 { format!(" by {} processes", one.processes) } else { String::new() };
        ("mapped", format!("{}, {}{of}", one.path.display(), show_size(one.bytes)))
    }));
    all.extend(found.disks.iter().map(|one| ("disk", disk(one))));
    let moving = found.connections.busiest.iter().filter(|one| one.sent + one.received >= 1.0);
    all.extend(moving.take(MOST).map(|one| ("TCP", connection(one))));
    let left = found.connections.count.saturating_sub(MOST);
    all.extend(
        (left > 0).then(|| ("TCP", format!("{} in all", counted(found.connections.count, "connection")))),
    );
    let used = found.links.iter().filter(|link| link.bytes_per_second >= 1000.0);
    all.extend(used.take(MOST).map(|one| ("NIC", link(one))));
    all.extend(group(found).map(|words| ("group", words)));
    all.push(("CPUs", cpus(found)));
    all
}

fn process(one: &ExplainedProcess) -> String {
    let mut words = vec![format!("{} (pid {}) {:.2} CPUs", one.name, one.pid, one.cpus)];
    let mut add = |verb: &str, rate: Option<f64>| {
        words.extend(
            rate.filter(|rate| *rate >= 1000.0).map(|rate| format!("{verb} {}", show_bytes_rate(rate))),
        );
    };
    add("reads", one.called_read.or(one.storage_read));
    add("of them from storage", one.storage_read);
    add("writes", one.called_written.or(one.storage_written));
    words.join(", ")
}

/// `waits for a disk 94 %, on a CPU 3 %`.
fn activities(of: &ActivityShares) -> String {
    let word = |activity: Activity| match activity {
        Activity::Running => "on a CPU",
        Activity::Runnable => "waiting for a CPU",
        Activity::Disk => "disk",
        Activity::PageFault => "page faults",
        Activity::Send => "send",
        Activity::Receive => "receive",
        Activity::PipeRead => "reading a pipe",
        Activity::PipeWrite => "writing a pipe",
        Activity::Lock => "other threads",
        Activity::Poll => "events",
        Activity::Ring => "io_uring",
        Activity::Timer => "timer",
        Activity::Child => "children",
        Activity::Other => "else",
    };
    let all: Vec<String> = of
        .largest()
        .into_iter()
        .take(MOST_SHARES)
        .map(|(activity, share)| format!("{} {}", word(activity), percent(share)))
        .collect();
    if all.is_empty() { "unknown".into() } else { all.join(", ") }
}

fn file(one: &ExplainedFile) -> String {
    let used = &one.used;
    let mut words = vec![used.path.display().to_string()];
    words.extend((used.bytes_per_second > 0.0).then(|| {
        let verb = if used.writes { "written" } else { "read" };
        format!("{verb} at {}", show_bytes_rate(used.bytes_per_second))
    }));
    words.extend((one.processes > 1).then(|| format!("by {} processes", one.processes)));
    words.extend(used.direct.then(|| "O_DIRECT".to_string()));
    let disks: Vec<&str> = one.disks.iter().map(String::as_str).collect();
    words.extend((!disks.is_empty()).then(|| format!("on {}", disks.join(", "))));
    words.join(", ")
}

fn disk(one: &ExplainedDisk) -> String {
    let mut words = vec![format!("{} {}", one.name, show_bytes_rate(one.bytes_per_second))];
    words.extend(one.busy.map(|busy| format!("busy {} of the time", percent(busy))));
    words.extend(one.queue_depth.map(|depth| format!("{depth:.1} requests in flight")));
    words.extend(one.latency_seconds.map(|seconds| format!("{:.2} ms each", seconds * 1e3)));
    let others =
        one.others_bytes_per_second.filter(|rate| *rate >= 0.05 * one.bytes_per_second && *rate >= 1e5);
    words.extend(others.map(|rate| format!("{} of it for other programs", show_bytes_rate(rate))));
    words.extend(one.measured_bytes_per_second.map(|rate| format!("measured {}", show_bytes_rate(rate))));
    words.join(", ")
}

fn connection(one: &ConnectionUse) -> String {
    let end = |end: Option<std::net::SocketAddr>| end.map_or_else(|| "?".into(), |end| end.to_string());
    let (verb, rate) = if one.sent >= one.received { ("to", one.sent) } else { ("from", one.received) };
    let mut words = vec![format!("{verb} {} {}", end(one.peer), show_bits_rate(rate))];
    words.extend(one.interfaces.first().map(|name| format!("by {name}")));
    if one.sent >= one.received {
        words.push(format!("{} with data to send", percent(one.busy)));
        let limits = [
            ("the receiver's window", one.receive_window_limited),
            ("its send buffer", one.send_buffer_limited),
        ];
        let limits = limits.iter().filter(|(_, share)| *share >= 0.05);
        words.extend(limits.map(|(what, share)| format!("of that {} limited by {what}", percent(*share))));
    } else {
        words.push(format!("{} of the time something unread", percent(one.unread)));
    }
    words.push(format!("round trip {:.2} ms", one.round_trip_seconds * 1e3));
    words.extend((one.retransmits > 0).then(|| counted(one.retransmits, "retransmit")));
    words.join(", ")
}

fn link(one: &LinkUse) -> String {
    let verb = if one.sends { "sends" } else { "receives" };
    let mut words = format!("{} {verb} {}", one.name, show_bits_rate(one.bytes_per_second));
    if one.bits_per_second > 0.0 {
        words += &format!(", {} of its link", percent(one.utilisation));
    }
    if let Some((kind, per_second)) = &one.shaper {
        words += &format!(", {kind} held it back {per_second:.0} times per second");
    }
    words
}

/// The control group, where it says anything.
fn group(found: &Explanation) -> Option<String> {
    let group = found.control_group;
    let mut words = Vec::new();
    if group.quota_cpus > 0.0 {
        words.push(format!(
            "quota {:.2} CPUs, throttled in {} of its periods",
            group.quota_cpus,
            percent(group.throttled)
        ));
    }
    let pressure =
        [("CPUs", group.cpu_pressure), ("storage", group.io_pressure), ("memory", group.memory_pressure)];
    let known = pressure.iter().filter_map(|(what, share)| Some((what, (*share)?)));
    words.extend(
        known
            .filter(|(_, share)| *share >= 0.01)
            .map(|(what, share)| format!("pressure of {what} {}", percent(share))),
    );
    (!words.is_empty()).then(|| words.join(", "))
}

fn cpus(found: &Explanation) -> String {
    let (program, cpus) = (&found.program, found.cpus);
    let mut words = vec![format!(
        "{:.2} used, {:.2} of them in its own code; it may use {}, busy {}",
        program.cpus,
        program.user_cpus,
        cpus.count,
        percent(cpus.busy)
    )];
    words.extend((cpus.interrupts >= 0.1).then(|| format!("interrupts up to {}", percent(cpus.interrupts))));
    words.extend((cpus.steal >= 0.02).then(|| format!("steal up to {}", percent(cpus.steal))));
    words.join(", ")
}
