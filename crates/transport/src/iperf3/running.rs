//! Taking a test's figures while it runs: warm-up, intervals, totals.

use super::figures::{IntervalProgress, IntervalReport, StreamFigures};
use super::tally::Counted;
use super::workers::{Iperf3Workers, Member};
use crate::flow::stream::TcpSample;
use linerate_facts::protocol::Protocol;
use linerate_system::clock;
use std::time::{Duration, Instant};

/// An interval shorter than this part of a whole one is put to the one before.
const STUB: f64 = 0.1;

/// One stream at one moment.
#[derive(Clone, Debug, Default)]
struct Sample {
    counted: Counted,
    tcp: Option<TcpSample>,
}

/// Who takes the figures of a workers.
#[derive(Debug)]
pub(crate) struct Recorder {
    protocol: Protocol,
    start: Instant,
    omit: Duration,
    interval: Duration,
    /// When the running interval began, and how things stood then.
    since: Duration,
    last: Vec<Sample>,
    /// How things stood when the warm-up was over.
    base: Vec<Sample>,
    base_at: Duration,
    intervals: Vec<Vec<IntervalReport>>,
    /// Intervals kept of each stream: a stranger chooses how long a server's test is.
    most: usize,
}

impl Recorder {
    pub(crate) fn new(
        workers: &Iperf3Workers,
        protocol: Protocol,
        omit: Duration,
        interval: Duration,
    ) -> Recorder {
        let nothing = vec![Sample::default(); workers.members.len()];
        Recorder {
            protocol,
            start: workers.start,
            omit,
            interval,
            since: Duration::ZERO,
            last: nothing.clone(),
            base: nothing,
            base_at: Duration::ZERO,
            intervals: vec![Vec::new(); workers.members.len()],
            most: usize::MAX,
        }
    }

    /// Only the first intervals are kept; the totals count all.
    pub(crate) fn keeping(mut self, most: usize) -> Recorder {
        self.most = most;
        self
    }

    fn warming_up(&self) -> bool {
        self.since < self.omit
    }

    /// When the running interval ends, since the start.
    fn due(&self) -> Duration {
        let next = self.since + self.interval;
        if self.warming_up() { next.min(self.omit) } else { next }
    }

    /// Until then.
    pub(crate) fn time_left(&self) -> Duration {
        self.due().saturating_sub(clock::since(self.start))
    }

    /// Bytes since the warm-up, sent and received.
    pub(crate) fn bytes(&self, workers: &Iperf3Workers) -> (u64, u64) {
        let (mut sent, mut received) = (0, 0);
        for ((member, now), base) in workers.members.iter().zip(workers.counted()).zip(&self.base) {
            *(if member.sender { &mut sent } else { &mut received }) +=
                now.bytes.saturating_sub(base.counted.bytes);
        }
        (sent, received)
    }

    /// Closes the interval where it is over.
    pub(crate) fn tick(&mut self, workers: &Iperf3Workers) -> Option<IntervalProgress> {
        let now = clock::since(self.start);
        if now < self.due() {
            return None;
        }
        let omitted = self.warming_up();
        let progress = self.close(workers, now);
        if omitted && now >= self.omit {
            (self.base, self.base_at) = (self.last.clone(), now);
        }
        Some(progress)
    }

    /// Closes the running interval at this moment.
    fn close(&mut self, workers: &Iperf3Workers, now: Duration) -> IntervalProgress {
        let omitted = self.warming_up();
        let origin = if omitted { Duration::ZERO } else { self.base_at };
        let seconds = |moment: Duration| moment.saturating_sub(origin).as_secs_f64();
        let (start, end) = (seconds(self.since), seconds(now));
        let mut progress = IntervalProgress { start, end, omitted, ..IntervalProgress::default() };
        let length = (end - start).max(1e-9);
        for (place, (member, counted)) in workers.members.iter().zip(workers.counted()).enumerate() {
            let sample = Sample { counted, tcp: member.tcp() };
            let mut interval = self.between(&self.last[place], &sample, member);
            (interval.start, interval.end, interval.omitted) = (start, end, omitted);
            let rate = interval.bytes as f64 / length;
            *(if member.sender {
                &mut progress.sent_bytes_per_second
            } else {
                &mut progress.received_bytes_per_second
            }) += rate;
            progress.retransmits += interval.retransmits.unwrap_or(0);
            progress.lost += interval.lost.unwrap_or(0);
            if self.intervals[place].len() < self.most {
                self.intervals[place].push(interval);
            }
            self.last[place] = sample;
        }
        self.since = now;
        progress
    }

    fn between(&self, before: &Sample, after: &Sample, member: &Member) -> IntervalReport {
        let (a, b) = (&before.counted, &after.counted);
        let udp = self.protocol == Protocol::Udp;
        let receiver = udp && !member.sender;
        let resent = |sample: &Sample| sample.tcp.as_ref().map_or(0, |tcp| tcp.retransmits);
        IntervalReport {
            bytes: b.bytes.saturating_sub(a.bytes),
            retransmits: (!udp && member.sender).then(|| resent(after).saturating_sub(resent(before))),
            packets: udp.then(|| b.packets.saturating_sub(a.packets)),
            lost: receiver.then(|| b.lost.saturating_sub(a.lost)),
            jitter_seconds: receiver.then_some(b.jitter_seconds),
            tcp: after.tcp.clone().filter(|_| member.sender),
            ..IntervalReport::default()
        }
    }

    /// The last interval and the totals, when nothing moves any more. `ended`: when the test was over, since
    /// the start.
    pub(crate) fn finish(mut self, workers: &Iperf3Workers, ended: Duration) -> Vec<StreamFigures> {
        // What came after the end was sent before it.
        let received = workers.members.iter().zip(workers.counted()).filter(|(member, _)| !member.sender);
        let last = Duration::from_nanos(received.map(|(_, counted)| counted.nanos).max().unwrap_or(0));
        let receivers_end = ended.max(last);
        let stub = ended.saturating_sub(self.since) < self.interval.mul_f64(STUB);
        self.close(workers, ended.max(self.since));
        if stub {
            self.intervals.iter_mut().for_each(join_last);
        }
        let Recorder { base, last, base_at, mut intervals, protocol, .. } = self;
        let streams = workers.members.iter().zip(&base).zip(&last).zip(&mut intervals);
        streams
            .map(|(((member, base), last), intervals)| {
                let end = if member.sender { ended } else { receivers_end };
                let mut figures = totals(member, base, last, protocol);
                figures.seconds = end.saturating_sub(base_at).as_secs_f64();
                figures.intervals = std::mem::take(intervals);
                figures
            })
            .collect()
    }
}

/// Puts the last interval to the one before, where that is of the same kind.
fn join_last(intervals: &mut Vec<IntervalReport>) {
    let Some(last) = intervals.pop() else { return };
    match intervals.last_mut() {
        Some(before) if before.omitted == last.omitted => {
            let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
            before.bytes += last.bytes;
            before.retransmits = sum(before.retransmits, last.retransmits);
            before.packets = sum(before.packets, last.packets);
            before.lost = sum(before.lost, last.lost);
            (before.end, before.tcp, before.jitter_seconds) = (last.end, last.tcp, last.jitter_seconds);
        }
        _ => intervals.push(last),
    }
}

fn totals(member: &Member, base: &Sample, last: &Sample, protocol: Protocol) -> StreamFigures {
    let (a, b) = (&base.counted, &last.counted);
    let udp = protocol == Protocol::Udp;
    let (udp_receiver, udp_sender) = (udp && !member.sender, udp && member.sender);
    let resent = |sample: &Sample| sample.tcp.as_ref().map_or(0, |tcp| tcp.retransmits);
    StreamFigures {
        id: member.id,
        sender: member.sender,
        bytes: b.bytes.saturating_sub(a.bytes),
        retransmits: (!udp && member.sender).then(|| resent(last).saturating_sub(resent(base))),
        jitter_seconds: udp_receiver.then_some(b.jitter_seconds),
        lost: udp_receiver.then(|| b.lost.saturating_sub(a.lost)),
        packets: udp.then(|| b.packets.saturating_sub(a.packets)),
        reordered: udp_receiver.then(|| b.reordered.saturating_sub(a.reordered)),
        foreign: udp_receiver.then_some(b.foreign),
        refused_sends: udp_sender.then_some(b.refused),
        addresses: member.addresses(),
        tcp: last.tcp.clone(),
        error: member.error(),
        omitted: if udp { (a.packets, a.lost) } else { (0, 0) },
        ..StreamFigures::default()
    }
}
