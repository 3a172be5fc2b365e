//! The one judge: pure, from [`Evidence`] alone.
//!
//! The order is that of causes. What a flow left out itself counts first. A starved receiver makes the sender
//! wait, and never the other way round; a quota or a full thread makes everything wait. Only then do waits
//! say which side is slow, and only then is looked at the parts.

use super::each_connection::each_connection;
use super::evidence::{
    DiskEvidence, Evidence, LinkEvidence, ProgramEvidence, ReadsEvidence, ReceiverEvidence, RequestsEvidence,
    Route, WorkerEvidence,
};
use super::limit::{Judgement, Limit, Missing};
use super::thresholds::*;

mod cpus;

use cpus::{cpus, cpus_filled_by_flow, cpus_of_flow, cpus_of_starved_workers, quota, steal, threads};
pub use cpus::{full_of_interrupts, is_full, is_full_thread, is_nearly_full_of_interrupts, is_stolen};

/// What limits the flow; where none is known, everything of the machine that is at its limit.
pub fn judge(evidence: &Evidence) -> Judgement {
    let evidence = &*evidence.of_flow();
    let mut limits: Vec<Limit> = Vec::new();
    limits.extend(left_out(evidence));
    limits.extend(demand(evidence));
    limits.extend(evidence.receiver.and_then(|receiver| other_host(evidence, receiver)));
    limits.extend(evidence.sender.and_then(|sender| other_host(evidence, sender)).map(of_sender));
    limits.extend(evidence.quota.and_then(quota));
    limits.extend(threads(evidence));
    // A sink that is slow closes TCP's window: the window is an effect.
    let stored = stored(evidence);
    let window = |evidence: &Evidence| window(evidence).filter(|_| stored.is_none());
    limits.extend(window(evidence).filter(Limit::is_small_window));
    limits.extend(cpus_filled_by_flow(evidence));
    limits.extend(window(evidence).filter(|limit| !limit.is_small_window()));
    limits.extend(full_window(evidence));
    limits.extend(cpus_of_starved_workers(evidence));
    limits.extend(stored.clone());
    let missing = match evidence.route {
        _ if stored.is_some() => Missing::NothingNear,
        Route::Machine => {
            limits.extend(machine(evidence));
            Missing::NothingNear
        }
        Route::Memory => Missing::Memory,
        Route::Unknown => Missing::Route,
        _ if evidence.left_out.is_some() => Missing::KeepsItsRate,
        _ => match of_flow(evidence) {
            Ok(limit) => {
                limits.push(limit);
                Missing::NothingNear
            }
            Err(missing) => {
                limits.extend(evidence.program.as_ref().and_then(of_program));
                limits.extend(steal(&evidence.cpus, CPU_OF_OTHERS));
                missing
            }
        },
    };
    Judgement { missing: limits.is_empty().then_some(missing), limits }
}

/// Every part that is at its limit, in the order in which it is said.
fn machine(evidence: &Evidence) -> Vec<Limit> {
    let stalled = evidence.memory_stalled.filter(|share| *share >= MEMORY_STALLED);
    let mut found: Vec<Limit> = stalled.map(|share| Limit::MemoryStalled { share }).into_iter().collect();
    found.extend(full_links(evidence));
    found.extend(cpus(evidence, |_| true));
    found.extend(evidence.disks.iter().filter(|disk| is_deep(disk)).cloned().map(Limit::DiskDeep));
    found.extend(drops(evidence));
    found.extend(tcp(evidence));
    found.extend(steal(&evidence.cpus, STOLEN));
    found
}

fn of_flow(evidence: &Evidence) -> Result<Limit, Missing> {
    match (evidence.route, &evidence.workers) {
        (_, Some(workers)) => by_waits(evidence, workers),
        (Route::Disks, None) => by_disks(evidence),
        _ => network_part(evidence).ok_or(Missing::OtherHost),
    }
}

/// What a program waits for that no part of this host explains: another program, its own timers, the next request.
fn of_program(program: &ProgramEvidence) -> Option<Limit> {
    let ProgramEvidence { sleeping, idle, pipe_empty, pipe_full, pipe_peer, .. } = program;
    let most = sleeping.max(*idle).max(*pipe_empty).max(*pipe_full);
    let pipe = |full, share| Limit::Pipe { full, share, peer: pipe_peer.clone() };
    (most >= WAITING).then(|| match most {
        _ if *pipe_full == most => pipe(true, most),
        _ if *pipe_empty == most => pipe(false, most),
        _ if *sleeping == most => Limit::OwnPauses { share: most },
        _ => Limit::NoRequests { share: most },
    })
}

/// The stage that cost most frames.
fn left_out(evidence: &Evidence) -> Option<Limit> {
    let left = evidence.left_out?;
    let most = left.by_network.max(left.by_disk).max(left.by_cpu);
    match most {
        0 => None,
        _ if left.by_network == most => Some(Limit::LateNetwork { frames: most }),
        _ if left.by_disk == most => Some(Limit::LateDisk { frames: most }),
        _ => Some(Limit::LateCpu { frames: most }),
    }
}

/// A flow that has what it asked for is limited by nothing else.
fn demand(evidence: &Evidence) -> Option<Limit> {
    let moved = evidence.bytes_per_second?;
    let limit = evidence.rate_limit.filter(|limit| moved >= RATE_LIMIT_MET * limit)?;
    Some(Limit::Demand { bytes_per_second: limit })
}

fn of_sender(limit: Limit) -> Limit {
    Limit::OfSender(Box::new(limit))
}

/// What of the other host limits a flow, whatever this one does.
fn other_host(evidence: &Evidence, receiver: ReceiverEvidence) -> Option<Limit> {
    let moved = evidence.bytes_per_second.unwrap_or(0.0);
    if let Some(limit) = receiver.rate_limit.filter(|limit| moved >= RATE_LIMIT_TAKEN * limit) {
        return Some(Limit::ReceiverRateLimit { bytes_per_second: limit });
    }
    if let Some(Limit::Quota { throttled, .. }) = receiver.quota.and_then(quota) {
        return Some(Limit::ReceiverQuota { throttled });
    }
    is_full_thread(receiver.busiest_thread)
        .then_some(Limit::ReceiverThread { share: receiver.busiest_thread })
}

/// The receivers of the other host wait for its disk.
fn stored(evidence: &Evidence) -> Option<Limit> {
    let sink = evidence.sink.as_ref()?;
    let waits = sink.waiting_disk >= WAITING && sink.waiting_disk >= sink.waiting_network;
    waits.then(|| Limit::Stored { sink: sink.clone() })
}

/// TCP had data to send and was not let.
fn window(evidence: &Evidence) -> Option<Limit> {
    let tcp = evidence.tcp;
    // The other side of memory makes TCP wait: the window is an effect.
    let comes_in = evidence.route == Route::NetworkToDisks;
    let starved = |workers: &WorkerEvidence| match comes_in {
        true => workers.waiting_sink > workers.waiting_source,
        false => workers.waiting_source > workers.waiting_sink,
    };
    // One who reads no faster than he wants to closes it himself.
    let paced = comes_in && evidence.rate_limit.is_some();
    if evidence.route == Route::Machine || paced || evidence.workers.as_ref().is_some_and(starved) {
        return None;
    }
    let round_trip_seconds = tcp.round_trip_seconds?;
    // Datagrams that wait before a full link fill the window, too.
    let datagrams = tcp.datagrams;
    if datagrams && evidence.bytes_per_second.and_then(|rate| tcp.queue_stands(rate)) != Some(false) {
        return None;
    }
    let each = evidence.bytes_per_second.map(|rate| rate / f64::from(tcp.connections.max(1)));
    let bytes = each.map(|rate| rate * round_trip_seconds).filter(|bytes| *bytes >= 1.0);
    let fills =
        |buffer: f64| bytes.is_some_and(|bytes| (WINDOW_OF_BUFFER * buffer..=buffer).contains(&bytes));
    // A sender of datagrams counts all of the time that it waits for room in the receiver's buffer.
    let most_of_wait = |workers: &WorkerEvidence| {
        tcp.receive_window_share.is_some_and(|share| share >= MOST_OF_WAIT * workers.waiting_sink)
    };
    let long = match datagrams {
        true if evidence.workers.as_ref().is_some_and(most_of_wait) => DATAGRAM_WINDOW_CLOSED,
        false if tcp.receive_buffer_bytes.is_some_and(fills) => FULL_WINDOW_CLOSED,
        _ => WINDOW_CLOSED,
    };
    let closed = |share: Option<f64>, long| share.filter(|share| *share >= long);
    let limit = |receiver, share| Limit::Window { datagrams, receiver, share, bytes, round_trip_seconds };
    // A busy host makes round trips longer than the way is.
    let shortest = tcp.least_round_trip_seconds.unwrap_or(round_trip_seconds);
    // Of a receiver that reports of itself, or its buffer, it is known what it can take.
    let reads_slowly = evidence.receiver.is_none()
        && !comes_in
        && tcp.receive_buffer_bytes.is_none()
        && !datagrams
        && each.is_some_and(|rate| rate * shortest < LEAST_WINDOW_BYTES);
    let of_receiver = closed(tcp.receive_window_share, long).map(|share| match reads_slowly {
        true => connection_limit(evidence).unwrap_or(Limit::SlowReceiver { share }),
        false => limit(true, share),
    });
    let of_sending = |share| if comes_in { of_sender(limit(false, share)) } else { limit(false, share) };
    of_receiver.or_else(|| closed(tcp.send_buffer_share, WINDOW_CLOSED).map(of_sending))
}

/// Nobody counted for how long the window was closed, but it is known how large it is, and as much is under way.
fn full_window(evidence: &Evidence) -> Option<Limit> {
    let tcp = evidence.tcp;
    let (window_bytes, round_trip_seconds) = tcp.window_bytes.zip(tcp.round_trip_seconds)?;
    let rate = evidence.bytes_per_second?;
    let bytes = rate / f64::from(tcp.connections.max(1)) * round_trip_seconds;
    let queued = tcp.queue_stands(rate) == Some(true);
    let full = !queued && window_bytes > 0.0 && bytes >= WINDOW_FULL * window_bytes;
    let was_set = tcp.window_was_set;
    full.then_some(Limit::FullWindow { bytes, window_bytes, round_trip_seconds, was_set })
}

/// Workers say themselves what they wait for; the parts say why.
fn by_waits(evidence: &Evidence, workers: &WorkerEvidence) -> Result<Limit, Missing> {
    if evidence.route == Route::NetworkToDisks {
        return by_waits_of_incoming(evidence, workers);
    }
    let WorkerEvidence { count, busy, waiting_source, waiting_sink, paced, .. } = *workers;
    let long = if paced { WAITING_PACED } else { WAITING };
    if waiting_source >= long && waiting_source >= waiting_sink {
        if let Some(before) = before_the_disk(evidence) {
            return Ok(before);
        }
        let disk = busiest(&evidence.disks).cloned();
        return Ok(Limit::Source { count, share: waiting_source, disk });
    }
    if waiting_sink >= long {
        let part = network_part(evidence).or_else(|| unknown(evidence)).map(Box::new);
        return Ok(Limit::Sink { count, share: waiting_sink, part });
    }
    // A reader of linerate's keeps its requests at the disk all the time, and works while they are there.
    if evidence.route == Route::Disks && evidence.program.is_none() {
        return by_disks(evidence);
    }
    if let Some(full) = cpus_of_flow(evidence) {
        return Ok(full);
    }
    // Sends take what is read at once, and the disks never have nothing to do.
    if let Some(disk) = never_pause(&evidence.disks) {
        return Ok(Limit::DiskBusy(disk.clone()));
    }
    if waiting_sink >= WAITING_BEFORE_QUEUE && waiting_sink > waiting_source && stands_before_link(evidence) {
        let part = network_part(evidence).or_else(|| unknown(evidence)).map(Box::new);
        return Ok(Limit::Sink { count, share: waiting_sink, part });
    }
    let pauses = busiest(&evidence.disks).filter(|disk| disk.busy.is_some_and(|busy| busy < DISK_BUSY));
    Err(Missing::NoSinglePart { busy, waiting_source, waiting_sink, pauses: pauses.cloned().map(Box::new) })
}

/// There is a queue on the path while every disk has time: workers that fill a fast link work for most of the time.
fn stands_before_link(evidence: &Evidence) -> bool {
    let stands = evidence.bytes_per_second.and_then(|rate| evidence.tcp.queue_stands(rate)) == Some(true);
    stands && evidence.disks.iter().all(|disk| disk.busy.is_some_and(|busy| busy < DISK_IDLE))
}

/// The same where the source is the network and the sink is the disks.
fn by_waits_of_incoming(evidence: &Evidence, workers: &WorkerEvidence) -> Result<Limit, Missing> {
    let WorkerEvidence { count, busy, waiting_source, waiting_sink, .. } = *workers;
    if waiting_sink >= WAITING && waiting_sink >= waiting_source {
        let disk = busiest(&evidence.disks).cloned();
        return Ok(Limit::Written { count, share: waiting_sink, disk });
    }
    if waiting_source >= WAITING {
        let sender = || evidence.sender.and_then(receiving_part).map(of_sender);
        let part = full_links(evidence).next().or_else(|| cpus_of_flow(evidence)).or_else(sender);
        let part = part.or_else(|| sender_rate_limit(evidence));
        let part = part.or_else(|| drops(evidence)).or_else(|| tcp(evidence));
        let part = part.or_else(|| connection_limit(evidence).map(of_sender)).or_else(|| unknown(evidence));
        return Ok(Limit::Incoming { count, share: waiting_source, part: part.map(Box::new) });
    }
    // Here the disks are the sink.
    cpus_of_flow(evidence).ok_or(Missing::NoSinglePart {
        busy,
        waiting_source: waiting_sink,
        waiting_sink: waiting_source,
        pauses: None,
    })
}

/// The other host's own limit, where what came at the beginning kept to it: later a flow may wait for other things of that
/// host, as for the sums of what came.
fn sender_rate_limit(evidence: &Evidence) -> Option<Limit> {
    let limit = evidence.sender?.rate_limit?;
    let windows = &evidence.stream_windows;
    let bytes: f64 = windows.iter().map(|window| window.bytes as f64).sum();
    let seconds: f64 = windows.iter().map(|window| window.seconds).sum();
    let kept = seconds > 0.0 && bytes >= RATE_LIMIT_TAKEN * limit * seconds;
    kept.then(|| of_sender(Limit::ReceiverRateLimit { bytes_per_second: limit }))
}

/// Why a flow waits for its source though no disk is at its limit: too few reads in flight, or a volume whose disks
/// pause.
fn before_the_disk(evidence: &Evidence) -> Option<Limit> {
    let few = evidence.reads.filter(ReadsEvidence::are_too_few).map(Limit::FewReads);
    few.or_else(|| waits_with_its_disk(evidence)).or_else(|| {
        let paused = evidence.volumes.iter().filter_map(|volume| {
            let (name, members) = (volume.name.clone(), volume.members.len());
            volume.busiest_that_pauses().map(|busiest| Limit::Volume { name, members, busiest })
        });
        // One volume of several that is at its disks' limit: which one limits is not known.
        let paused: Vec<Limit> = paused.collect();
        let all = evidence.disks.iter().all(|disk| evidence.volumes.iter().any(|one| one.name == disk.name));
        paused.into_iter().next().filter(|_| all)
    })
}

/// A program waits while its disk works on what it asked for, and the disk pauses: it asks for too little at a time. A
/// disk that is throttled before its queue pauses as well, but then the wait is not for its work.
fn waits_with_its_disk(evidence: &Evidence) -> Option<Limit> {
    let disk = busiest(&evidence.disks).filter(|_| evidence.program.is_some())?;
    let pauses = disk.busy.is_some_and(|busy| (DISK_UNUSED..DISK_IDLE).contains(&busy));
    let (depth, asked) = disk.queue_depth.zip(disk.asked_depth)?;
    (pauses && depth >= WAIT_OF_DISK * asked).then(|| Limit::DiskPauses(disk.clone()))
}

/// Requests are kept at a disk: it is the disk, unless a CPU is full before.
fn by_disks(evidence: &Evidence) -> Result<Limit, Missing> {
    if let Some(full) = cpus_of_flow(evidence) {
        return Ok(full);
    }
    let moved: f64 = evidence.disks.iter().map(|disk| disk.bytes_per_second).sum();
    if moved < DISK_OF_FLOW * evidence.bytes_per_second.unwrap_or(0.0) {
        return Err(Missing::BytesOfNoDisk);
    }
    let disk = busiest(&evidence.disks).ok_or(Missing::DiskCounters)?;
    if let Some(before) = before_the_disk(evidence) {
        return Ok(before);
    }
    if let Some(few) = evidence.requests.and_then(|requests| few_requests(requests, disk)) {
        return Ok(few);
    }
    if !is_busy(disk)
        && let Some(held) = held_before(evidence, disk)
    {
        return Err(held);
    }
    let waits = evidence.requests.and_then(|requests| requests.times_shortest());
    match disk.busy {
        _ if is_busy(disk) && waits.is_some_and(|times| times < HELD_BEFORE_TIMES) => {
            Err(Missing::Queue { name: disk.name.clone() })
        }
        _ if is_busy(disk) => Ok(Limit::DiskBusy(disk.clone())),
        // Little's law: more in flight at the same latency are as much more a second.
        Some(busy) if (DISK_UNUSED..DISK_IDLE).contains(&busy) => Ok(Limit::DiskPauses(disk.clone())),
        _ => Err(Missing::DiskPauses { name: disk.name.clone() }),
    }
}

/// One request in flight that the disk has for most of its time, or flushes, or several of which none takes longer than
/// the shortest: whatever the disk can do, the next one waits for them.
fn few_requests(requests: RequestsEvidence, disk: &DiskEvidence) -> Option<Limit> {
    let has_it = disk.busy.is_some_and(|busy| busy >= DISK_KEPT);
    let RequestsEvidence { at_once, seconds, flush_seconds, .. } = requests;
    let flushes = flush_seconds >= WAITING * seconds;
    let none_waits = requests.times_shortest().is_some_and(|times| times <= QUEUE_EMPTY_TIMES);
    let name = disk.name.clone();
    let few = at_once <= 1.0 && (has_it || flushes) || has_it && none_waits;
    few.then_some(Limit::FewRequests { name, at_once, seconds, flush_seconds })
}

/// Requests take several times as long as the disk works on them: something before it holds them, such as a throttle of
/// the control group, and more of them would only wait there.
fn held_before(evidence: &Evidence, disk: &DiskEvidence) -> Option<Missing> {
    let asked = evidence.requests.map(|requests| requests.seconds - requests.flush_seconds);
    let (of_seconds, at_disk) = asked.zip(disk.latency_seconds)?;
    let held = of_seconds >= HELD_BEFORE_TIMES * at_disk;
    let (name, waiting_seconds) = (disk.name.clone(), of_seconds - at_disk);
    held.then_some(Missing::HeldBefore { name, waiting_seconds, of_seconds })
}

/// What of this host limits a flow to the network.
fn network_part(evidence: &Evidence) -> Option<Limit> {
    full_links(evidence)
        .next()
        .or_else(|| shaper(evidence))
        .or_else(|| cpus_of_flow(evidence))
        .or_else(|| evidence.receiver.and_then(receiving_part))
        .or_else(|| drops(evidence))
        .or_else(|| tcp(evidence))
        .or_else(|| connection_limit(evidence))
}

fn connection_limit(evidence: &Evidence) -> Option<Limit> {
    each_connection(&evidence.stream_windows, &evidence.stream_rates).map(Limit::EachConnection)
}

/// Where it is not known by which interface a flow goes, nothing can be said of the way beyond either.
fn unknown(evidence: &Evidence) -> Option<Limit> {
    evidence.interfaces_unknown().map(|why| Limit::LinkUnknown { why })
}

/// What of the other host limits a flow, once nothing of this one does.
fn receiving_part(receiver: ReceiverEvidence) -> Option<Limit> {
    let full = receiver.full.then_some(Limit::ReceiverCpus);
    full.or_else(|| receiver.interrupts.map(|(cpu, share)| Limit::ReceiverInterrupts { cpu, share }))
}

fn full_links(evidence: &Evidence) -> impl Iterator<Item = Limit> + '_ {
    let full = |link: &&LinkEvidence| link.share >= LINK_FULL;
    evidence.links.iter().filter(full).cloned().map(Limit::Link)
}

/// What holds packets back on the way of a flow that goes out.
fn shaper(evidence: &Evidence) -> Option<Limit> {
    evidence.links.iter().filter(|link| link.sends).find_map(|link| {
        let (discipline, per_second) = link.shaper.clone()?;
        let shaper = Limit::Shaper { nic: link.nic.clone(), discipline, per_second };
        (per_second >= DROPS_PER_SECOND).then_some(shaper)
    })
}

/// The one with least pauses, of those that do something: one that is flushed all the time moves nothing.
fn busiest(disks: &[DiskEvidence]) -> Option<&DiskEvidence> {
    let work = |disk: &DiskEvidence| (disk.busy.unwrap_or(0.0), disk.queue_depth.unwrap_or(0.0));
    let known = |disk: &&DiskEvidence| disk.busy.is_some() || disk.queue_depth.is_some();
    let works =
        |disk: &&DiskEvidence| disk.bytes_per_second > 0.0 || disk.busy.is_some_and(|busy| busy > 0.0);
    disks.iter().filter(known).filter(works).max_by(|a, b| {
        let ((a_busy, a_depth), (b_busy, b_depth)) = (work(a), work(b));
        a_busy.total_cmp(&b_busy).then(a_depth.total_cmp(&b_depth))
    })
}

/// The busiest of disks that all have nearly as many requests as the program keeps in them.
fn never_pause(disks: &[DiskEvidence]) -> Option<&DiskEvidence> {
    let kept = |disk: &DiskEvidence| {
        let share = disk.queue_depth.zip(disk.asked_depth).map(|(depth, asked)| depth / asked.max(1.0));
        share.is_some_and(|share| share >= DISK_KEPT)
    };
    busiest(disks).filter(|_| disks.iter().all(kept))
}

/// It has no pause.
fn is_busy(disk: &DiskEvidence) -> bool {
    match disk.busy {
        Some(share) => share >= DISK_BUSY,
        None => disk.queue_depth.is_some_and(|depth| depth >= DISK_BUSY_DEPTH),
    }
}

/// It is given all it can take, as far as is known without a flow.
fn is_deep(disk: &DiskEvidence) -> bool {
    let best = disk.best_bytes_per_second.filter(|best| *best >= DISK_LEAST_BEST);
    disk.queue_depth.is_some_and(|depth| depth >= DISK_DEEP)
        && best.is_some_and(|best| disk.bytes_per_second >= DISK_NEAR_BEST * best)
}

fn drops(evidence: &Evidence) -> Option<Limit> {
    let many = evidence.drops.iter().filter(|drop| drop.per_second >= DROPS_PER_SECOND);
    many.max_by(|a, b| a.per_second.total_cmp(&b.per_second)).cloned().map(Limit::Drops)
}

fn tcp(evidence: &Evidence) -> Option<Limit> {
    let tcp = evidence.tcp;
    let closed = tcp.zero_windows_per_second.filter(|rate| *rate >= DROPS_PER_SECOND);
    if let Some(per_second) = closed {
        return Some(Limit::ZeroWindows { per_second });
    }
    let share = tcp.retransmit_share?;
    // A full link loses packets, too.
    if evidence.bytes_per_second.and_then(|rate| tcp.queue_stands(rate)) == Some(true) {
        return None;
    }
    // A handful of segments on an idle machine is nobody's bottleneck; on a long path a handful is enough.
    let many = share >= LOST && tcp.retransmits_per_second.is_some_and(|rate| rate >= DROPS_PER_SECOND);
    let explains = evidence.bytes_per_second.is_some_and(|rate| tcp.loss_explains(rate));
    (many || explains).then_some(Limit::Retransmits { share })
}
