//! What is worth changing in how a program moves bytes, each with its figures.

use crate::activity::Activity;
use crate::connections::ConnectionUse;
use crate::descriptors::FileUse;
use crate::experiment::OF_CALLS;
use crate::flow::{OF_STORAGE, ProgramFlow, mean_threads, waiting_for_disk};
use crate::product::shares_of;
use crate::remedies::Remedies;
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_facts::wording::{counted, percent};
use linerate_measure::diagnose::{Finding, Severity};
use linerate_model::verdict::thresholds::{THREAD_FULL, WAITING};
use linerate_model::verdict::{DiskEvidence, Route};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Fewer reads at a time are one.
const ONE: f64 = 1.3;
/// Calls that move less than this each cost more than their bytes …
const SMALL_CALL: u64 = 32_768;
const SMALL_SEND: u64 = 8192;
/// … where there are as many a second.
const MANY_CALLS: f64 = 1000.0;
/// Waits for pages of mapped files that are worth a word: share of a thread's time, and faults a second.
const FAULTS: f64 = 0.2;
const FAULTS_PER_SECOND: f64 = 50.0;
/// A disk or a link of which others have this share is shared.
const OTHERS: f64 = 0.2;
/// A slower program needs no explanation of its cache.
const LEAST_RATE: f64 = 1e6;
/// Threads that want to run, of each CPU that the program may use: more of them bring nothing.
const MANY_THREADS: f64 = 4.0;
/// Ports of programs that speak TLS or SSH: what a connection carries is not looked at.
const ENCRYPTED_PORTS: [u16; 14] = [22, 443, 465, 563, 636, 853, 989, 990, 993, 994, 995, 2083, 6443, 8443];
/// A program's own code has this share of its CPU time where it encrypts there.
const OWN_CODE: f64 = 0.5;

/// All of them, the worst first.
pub(crate) fn findings(
    flow: &ProgramFlow<'_>,
    measured: &BTreeMap<String, f64>,
    remedies: &Remedies,
) -> Vec<Finding> {
    let found = [
        one_read_at_a_time(flow, measured),
        small_blocks(flow),
        page_faults(flow),
        same_file(flow),
        again(flow),
        one_thread_full(flow),
        threads_take_turns(flow),
        too_many_threads(flow),
        cache_answers(flow),
        window_closed(flow),
        others_on_disk(flow),
        others_on_link(flow),
        small_sends(flow),
        own_tls(flow),
        own_pauses(flow),
    ];
    let mut all: Vec<Finding> = found.into_iter().flatten().collect();
    for finding in &mut all {
        // What is about one process is mended in the words of that program.
        let pid = finding.evidence.get("pid").and_then(Value::as_u64);
        let owner = flow.observed.processes.iter().find(|one| pid == Some(u64::from(one.pid)));
        finding.remedy = match owner {
            Some(one) => Remedies::of_programs(flow.observed.known_as(&one.name)).of(&finding.id),
            None => remedies.of(&finding.id),
        };
    }
    all.sort_by_key(|finding| finding.severity);
    all
}

fn finding(severity: Severity, id: &str, text: String, evidence: Value) -> Option<Finding> {
    Some(Finding { id: id.into(), severity, text, evidence, remedy: String::new(), gain: 0.0 })
}

/// The disk of its files that does most.
fn busiest<'a>(flow: &'a ProgramFlow<'_>) -> Option<&'a DiskEvidence> {
    flow.disks.iter().max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
}

fn reads(flow: &ProgramFlow<'_>) -> bool {
    flow.rates.storage_read >= flow.rates.storage_written && flow.rates.storage_read > 0.0
}

fn one_read_at_a_time(flow: &ProgramFlow<'_>, measured: &BTreeMap<String, f64>) -> Option<Finding> {
    let at_a_time = waiting_for_disk(flow.observed);
    let waits = flow.shares().of_all(&[Activity::Disk, Activity::PageFault]);
    let disk = busiest(flow)?;
    let depth = disk.queue_depth?;
    // Of faults the remedy is another one.
    let faults = flow.shares().of(Activity::PageFault) > flow.shares().of(Activity::Disk);
    let one = !faults && at_a_time <= ONE && depth <= 2.0 * ONE && !flow.observed.has_rings;
    if !(one && waits >= WAITING && reads(flow)) {
        return None;
    }
    let could =
        measured.get(&format!("disk:{}", disk.name)).filter(|most| **most > 1.2 * disk.bytes_per_second);
    let more = match could {
        Some(most) => format!("; an earlier run of this host read it at {}", show_bytes_rate(*most)),
        None => "; whether it has more at depth, `linerate disk` measures".into(),
    };
    let block = call_bytes(flow).map(|bytes| format!(" of {}", show_size(bytes))).unwrap_or_default();
    let text = format!(
        "it reads one block{block} at a time and waits for it {} of the time: {} had {depth:.1} requests in flight{more}",
        percent(waits.min(1.0)),
        disk.name
    );
    let evidence = json!({ "waiting_threads": at_a_time, "disk": disk.name, "queue_depth": depth });
    let gain = could.map_or(0.0, |most| most - disk.bytes_per_second);
    Some(Finding { gain, ..finding(Severity::Slow, "one-read-at-a-time", text, evidence)? })
}

/// Bytes of a call on a file: of those that samples met, or the mean of all calls.
fn call_bytes(flow: &ProgramFlow<'_>) -> Option<u64> {
    let sampled = flow.workers.iter().filter_map(|one| one.file_call_bytes).min();
    sampled.or_else(|| {
        let total = &flow.observed.total;
        let (moved, bytes, calls) = match flow.rates.files_read >= flow.rates.files_written {
            true => (flow.rates.files_read, total.called_read?, total.reads_per_second?),
            false => (flow.rates.files_written, total.called_written?, total.writes_per_second?),
        };
        (calls > 0.0 && bytes >= OF_CALLS * moved).then_some((bytes / calls) as u64)
    })
}

fn small_blocks(flow: &ProgramFlow<'_>) -> Option<Finding> {
    let total = &flow.observed.total;
    let calls = total.reads_per_second?.max(total.writes_per_second?);
    let bytes = call_bytes(flow).filter(|bytes| (1..SMALL_CALL).contains(bytes))?;
    let files = flow.rates.files_read.max(flow.rates.files_written);
    let costs = calls >= MANY_CALLS && files >= LEAST_RATE;
    let text = format!("it reads and writes in pieces of {}, {calls:.0} calls per second", show_size(bytes));
    let evidence = json!({ "call_bytes": bytes, "calls_per_second": calls });
    costs.then(|| finding(Severity::Slow, "small-blocks", text, evidence)).flatten()
}

/// Share of the time in which the thread waits for pages that waits most for them; none where that is worth no word. The
/// kernel does not count those for which it reads ahead.
fn waits_for_pages(flow: &ProgramFlow<'_>) -> Option<f64> {
    let share = shares_of(&flow.observed.threads, Activity::PageFault);
    (share >= FAULTS || flow.observed.total.major_faults >= FAULTS_PER_SECOND).then_some(share)
}

fn page_faults(flow: &ProgramFlow<'_>) -> Option<Finding> {
    let (share, faults) = (waits_for_pages(flow)?, flow.observed.total.major_faults);
    let each = flow.observed.total.storage_read.filter(|_| faults > 0.0).map(|read| read / faults);
    let each = each.map(|bytes| format!(" of {} each", show_size(bytes as u64))).unwrap_or_default();
    let mapped = flow.observed.mapped.first()?;
    let file = mapped.path.display().to_string();
    let by = if mapped.processes > 1 { format!(" in {} processes", mapped.processes) } else { String::new() };
    let often = if faults >= 1.0 { format!(", {faults:.0} per second{each}") } else { String::new() };
    let text = format!(
        "it reads a mapped file ({file}){by} by page faults{often}: a thread waits for one at a time, {} of \
         the time",
        percent(share)
    );
    let evidence =
        json!({ "share": share, "faults_per_second": faults, "file": file, "processes": mapped.processes });
    finding(Severity::Slow, "page-faults", text, evidence)
}

fn same_file(flow: &ProgramFlow<'_>) -> Option<Finding> {
    let mut readers: BTreeMap<&Path, BTreeSet<u32>> = BTreeMap::new();
    let mut bytes: BTreeMap<&Path, f64> = BTreeMap::new();
    // Those that read it one after the other count as one reader.
    let reads = |file: &&FileUse| {
        !file.writes && file.bytes_per_second > 0.0 && flow.observed.living.contains(&file.pid)
    };
    for file in flow.observed.files.iter().filter(reads) {
        readers.entry(&file.path).or_default().insert(file.pid);
        *bytes.entry(&file.path).or_default() += file.bytes_per_second;
    }
    let most = readers.into_iter().max_by_key(|(_, pids)| pids.len());
    let most = most.map(|(path, pids)| (path, pids.len(), bytes.get(path).copied().unwrap_or(0.0)));
    // What faults read of a mapped file moves no position.
    let faults = waits_for_pages(flow);
    let mapped = flow.observed.mapped.iter().filter(|_| faults.is_some()).max_by_key(|file| file.processes);
    let mapped = mapped.map(|file| (&*file.path, file.processes, flow.rates.storage_read));
    let several = |(_, count, _): &(&Path, usize, f64)| *count > 1;
    let (path, count, rate) = most.filter(several).or(mapped.filter(several))?;
    let text = format!(
        "{} read the same file {}, {} together: what the page cache does not keep is read as often",
        counted(count, "process").replace("processs", "processes"),
        path.display(),
        show_bytes_rate(rate)
    );
    let evidence =
        json!({ "processes": count, "bytes_per_second": rate, "file": path.display().to_string() });
    finding(Severity::Note, "same-file-by-several", text, evidence)
}

fn again(flow: &ProgramFlow<'_>) -> Option<Finding> {
    let most = flow
        .observed
        .files
        .iter()
        .max_by(|a, b| a.again_bytes_per_second.total_cmp(&b.again_bytes_per_second))?;
    let rate = most.again_bytes_per_second;
    if rate < LEAST_RATE || rate < 0.2 * most.bytes_per_second {
        return None;
    }
    let path = most.path.display().to_string();
    let text = format!("it reads the same bytes of {path} again: {} at least", show_bytes_rate(rate));
    finding(Severity::Note, "same-bytes-again", text, json!({ "bytes_per_second": rate, "file": path }))
}

fn one_thread_full(flow: &ProgramFlow<'_>) -> Option<Finding> {
    let threads = &flow.observed.threads;
    let full = threads.iter().filter(|one| one.works() >= THREAD_FULL);
    let full: Vec<_> = full.collect();
    let cpus = flow.observed.allowed_cpus.len().max(1);
    let [one] = full[..] else { return None };
    let others = flow.observed.threads_read.count.saturating_sub(1);
    let free = cpus as f64 - flow.observed.host.busy_cpus();
    if cpus < 2 || flow.observed.total.cpus > 0.5 * cpus as f64 && free < 0.5 {
        return None;
    }
    let share = one.works();
    let total = &flow.observed.total;
    let own = (total.cpus > 0.0).then(|| percent((total.user_cpus / total.cpus).min(1.0)));
    let own_code = own.map(|own| format!(", {own} of that in its own code")).unwrap_or_default();
    let beside = match others {
        0 => "it has no other thread".to_string(),
        _ => format!("its {} wait", counted(others, "other thread")),
    };
    let text = format!(
        "one thread, {} of pid {}, works {} of the time on its CPU, and {beside}: of {cpus} CPUs it can use one{own_code}",
        one.name,
        one.pid,
        percent(share)
    );
    finding(
        Severity::Slow,
        "one-thread-full",
        text,
        json!({ "pid": one.pid, "thread": one.thread, "share": share, "cpus": cpus }),
    )
}

fn threads_take_turns(flow: &ProgramFlow<'_>) -> Option<Finding> {
    let share = flow.turns()?;
    let count = flow.observed.threads_read.count;
    let text = format!(
        "its {} take turns: one of them works {} of the time, and the others wait for it",
        counted(count, "thread"),
        percent(share)
    );
    finding(Severity::Slow, "threads-take-turns", text, json!({ "threads": count, "share": share }))
}

fn too_many_threads(flow: &ProgramFlow<'_>) -> Option<Finding> {
    let cpus = flow.observed.allowed_cpus.len().max(1);
    let want = mean_threads(flow.observed, &[Activity::Running, Activity::Runnable]);
    if want < MANY_THREADS * cpus as f64 {
        return None;
    }
    let waits = 1.0 - (flow.observed.total.cpus / want).min(1.0);
    let text = format!(
        "{want:.0} of its threads want to run at a time, and it may use {}: each waits for one {} of the time",
        counted(cpus, "CPU"),
        percent(waits)
    );
    finding(Severity::Slow, "too-many-threads", text, json!({ "threads": want, "cpus": cpus }))
}

fn cache_answers(flow: &ProgramFlow<'_>) -> Option<Finding> {
    let (files, storage) = (flow.rates.files_read, flow.observed.total.storage_read?);
    if files < LEAST_RATE || storage > OF_STORAGE * files {
        return None;
    }
    let text = format!(
        "it reads {} of files, and the storage delivers {} of that: the page cache answers, not the disk",
        show_bytes_rate(files),
        show_bytes_rate(storage)
    );
    finding(Severity::Note, "cache-answers", text, json!({ "files": files, "storage": storage }))
}

fn window_closed(flow: &ProgramFlow<'_>) -> Option<Finding> {
    let sends = matches!(flow.route, Route::DisksToNetwork | Route::Network);
    let of = |one: &&ConnectionUse| one.receive_window_limited * one.busy;
    let most = flow.moving().filter(|_| sends).max_by(|a, b| of(a).total_cmp(&of(b)))?;
    let share = of(&most);
    if share < WAITING {
        return None;
    }
    let peer = most.peer.map_or_else(|| "the other end".into(), |peer| peer.to_string());
    let text = format!(
        "the program at {peer} closes the window: it was full {} of the time, because that program takes what comes too \
         slowly, or its receive buffer is too small for the round trip of {:.2} ms",
        percent(share),
        most.round_trip_seconds * 1e3
    );
    finding(Severity::Slow, "window-closed-by-receiver", text, json!({ "peer": peer, "share": share }))
}

fn others_on_disk(flow: &ProgramFlow<'_>) -> Option<Finding> {
    let part =
        |disk: &&DiskEvidence| disk.others_bytes_per_second.unwrap_or(0.0) / disk.bytes_per_second.max(1.0);
    let disk = flow.disks.iter().max_by(|a, b| part(a).total_cmp(&part(b)))?;
    let (share, others) = (part(&disk), disk.others_bytes_per_second?);
    if share < OTHERS || others < LEAST_RATE || !flow.uses_disks() {
        return None;
    }
    let names = other_programs(flow);
    let who = if names.is_empty() {
        String::new()
    } else {
        format!("; those that use storage: {}", names.join(", "))
    };
    let text = format!(
        "other programs use disk {} as well: {} of its {}{who}",
        disk.name,
        show_bytes_rate(others),
        show_bytes_rate(disk.bytes_per_second)
    );
    finding(
        Severity::Slow,
        "others-on-disk",
        text,
        json!({ "disk": disk.name, "share": share, "programs": names }),
    )
}

/// Other programs that use storage, the largest first.
pub(crate) fn other_programs(flow: &ProgramFlow<'_>) -> Vec<String> {
    let observed = flow.observed;
    let mut others: Vec<_> = observed.host.processes.others.iter().collect();
    others
        .retain(|one| !observed.pids.contains(&one.pid) && one.storage_bytes_per_second() > 0.1 * LEAST_RATE);
    others.sort_by(|a, b| b.storage_bytes_per_second().total_cmp(&a.storage_bytes_per_second()));
    let of = |one: &&linerate_facts::counters::ProcessUse| {
        format!("{} (pid {}, {})", one.name, one.pid, show_bytes_rate(one.storage_bytes_per_second()))
    };
    others.iter().take(3).map(of).collect()
}

fn others_on_link(flow: &ProgramFlow<'_>) -> Option<Finding> {
    let own = if flow.route == Route::NetworkToDisks { flow.rates.received } else { flow.rates.sent };
    let link = flow
        .evidence()
        .links
        .into_iter()
        .filter(|link| link.nic != "lo")
        .max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))?;
    let others = link.bytes_per_second - 1.1 * own;
    let full = link.share >= 0.5;
    if own <= 0.0 || !full || others < OTHERS * link.bytes_per_second {
        return None;
    }
    let text = format!(
        "other programs use {} as well: {} of its {}",
        link.nic,
        show_bytes_rate(others),
        show_bytes_rate(link.bytes_per_second)
    );
    finding(Severity::Slow, "others-on-nic", text, json!({ "nic": link.nic, "bytes_per_second": others }))
}

fn small_sends(flow: &ProgramFlow<'_>) -> Option<Finding> {
    let sends = matches!(flow.route, Route::DisksToNetwork | Route::Network) && flow.rates.sent >= LEAST_RATE;
    let bytes = flow.workers.iter().filter_map(|one| one.socket_call_bytes).min().filter(|_| sends)?;
    if bytes >= SMALL_SEND {
        return None;
    }
    let per_second = flow.rates.sent / bytes as f64;
    let text = format!("it sends in pieces of {}: {per_second:.0} calls per second", show_size(bytes));
    finding(
        Severity::Slow,
        "small-sends",
        text,
        json!({ "call_bytes": bytes, "calls_per_second": per_second }),
    )
}

fn own_tls(flow: &ProgramFlow<'_>) -> Option<Finding> {
    let total = &flow.observed.total;
    let library = flow.observed.tls()?;
    let is_encrypted = |one: &ConnectionUse| {
        [one.local, one.peer].into_iter().flatten().any(|end| ENCRYPTED_PORTS.contains(&end.port()))
    };
    let network = flow.rates.sent.max(flow.rates.received);
    let is_little = total.user_cpus < OWN_CODE * total.cpus || network < LEAST_RATE;
    if total.cpus < 0.3 || is_little || !flow.moving().any(is_encrypted) {
        return None;
    }
    let text = format!(
        "it may encrypt in its own code: it has {library}, and spends {} of its CPU time outside of the kernel while it moves {}",
        percent(total.user_cpus / total.cpus),
        show_bytes_rate(network)
    );
    finding(
        Severity::Note,
        "tls-in-user-space",
        text,
        json!({ "library": library, "user_cpus": total.user_cpus }),
    )
}

fn own_pauses(flow: &ProgramFlow<'_>) -> Option<Finding> {
    let share = flow.waits().1.sleeping;
    if share < WAITING || flow.is_nothing() {
        return None;
    }
    let text = format!(
        "it waits by a clock of its own {} of the time while it moves {}: it keeps to a rate of its own",
        percent(share),
        show_bytes_rate(flow.bytes_per_second)
    );
    finding(Severity::Note, "own-rate-limit", text, json!({ "share": share }))
}
