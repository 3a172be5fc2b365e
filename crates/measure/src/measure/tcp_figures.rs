//! What TCP itself counted of a flow's streams while it was measured: its windows, its losses, its round trips; and by
//! such counters, of TCP or of UDP's workers, whether a flow over a long path has its rate yet.

use super::lossy_path::{LossWatch, loss_count};
use super::peer_figures::PeerMeter;
use super::peers::PeerError;
use super::product::WorkerResult;
use super::window::{Meter, WorkerCounts};
use linerate_model::plan::long_path::LossCount;
use linerate_model::verdict::thresholds::FAR_SECONDS;
use linerate_system::clock;
use linerate_system::connection::{self, TcpView};
use linerate_transport::flow::counters::WorkerCounters;
use linerate_transport::flow::progress::Mark;
use linerate_transport::flow::stream::StreamSample;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Reads at the receivers, and TCP's own counters where the counted time begins: slow start, its losses and its small
/// windows are none of what limits the flow.
pub(super) struct FlowMeter<'a> {
    pub peers: PeerMeter<'a>,
    /// None in the place of a worker that sends UDP.
    pub streams: &'a [Option<TcpStream>],
    pub workers: Vec<Arc<WorkerCounters>>,
    pub begin: Option<Vec<TcpFigures>>,
    pub glances: Vec<SendBufferGlances>,
    pub losses: Vec<LossWatch>,
    /// None: all of the warm-up is waited for.
    pub settling: Option<Settling>,
    pub started: Instant,
    /// Since `started`: until then the agents have heard of this client.
    pub alive_until_seconds: f64,
}

/// Looks at one stream over a far way while it is counted. A send buffer that holds no more than what is on its way
/// limits TCP, and the kernel counts that only where the program ran out of room in the very call that sent last
/// (`tcp_cwnd_validate`): not where whole blocks fit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendBufferGlances {
    all: u32,
    nothing_unsent: u32,
}

impl SendBufferGlances {
    fn look(&mut self, view: &TcpView) {
        if f64::from(view.min_rtt_us) * 1e-6 < FAR_SECONDS {
            return;
        }
        // With the congestion window full the rest waits in the buffer.
        let is_held_back = view.unsent_bytes == 0 && view.unacknowledged_segments > 0;
        self.all += 1;
        self.nothing_unsent +=
            u32::from(is_held_back && view.unacknowledged_segments < view.congestion_window_segments);
    }

    /// Share of the time in which all of the send buffer was on its way.
    fn share(&self) -> f64 {
        f64::from(self.nothing_unsent) / f64::from(self.all.max(1))
    }
}

/// Agents hear of their client as often at least.
const KEEP_ALIVE_SECONDS: f64 = 10.0;
/// Round trips between two looks at a flow that begins.
const TRIPS_BETWEEN_LOOKS: f64 = 4.0;
/// It grows no more: between two looks it moved at most this many times what it moved between those before.
const GROWS_NO_MORE: f64 = 1.1;
/// Of what UDP moved, this share may have been lost by chance: its window does not shrink for it.
const UDP_OWN_LOSS: f64 = 0.005;

/// Whether slow start is over, and what it lost at its end is sent again: the losses are those of its own queue, and
/// the rate after them is not yet what the way carries.
#[derive(Clone, Debug, Default)]
pub(super) struct Settling {
    looks: Vec<SettlingLook>,
}

/// All streams of a flow at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SettlingLook {
    seconds: f64,
    /// What is known to have arrived.
    arrived_bytes: u64,
    /// TCP: segments sent again.
    retransmits: u64,
    /// UDP: what is known not to have arrived.
    lost_bytes: u64,
}

impl SettlingLook {
    /// Of TCP, with the longest of the streams' shortest round trips, seconds.
    fn of_tcp(figures: &[TcpFigures]) -> (Self, f64) {
        let look = SettlingLook {
            arrived_bytes: figures.iter().map(|stream| stream.acknowledged_bytes).sum(),
            retransmits: figures.iter().map(|stream| stream.retransmits).sum(),
            ..SettlingLook::default()
        };
        let trip = figures.iter().map(|stream| stream.least_round_trip_us).max().unwrap_or(0);
        (look, f64::from(trip) * 1e-6)
    }

    /// The same of UDP's workers. What is under way counts as arrived: it is a round trip's worth.
    fn of_udp(workers: &[Arc<WorkerCounters>]) -> (Self, f64) {
        let (mut look, mut trip_nanos) = (SettlingLook::default(), 0);
        for worker in workers {
            let lost = worker.lost_bytes.load(Ordering::Relaxed);
            look.arrived_bytes += worker.progress.mark().bytes.saturating_sub(lost);
            look.lost_bytes += lost;
            trip_nanos = trip_nanos.max(worker.least_trip_nanos.load(Ordering::Relaxed));
        }
        (look, trip_nanos as f64 * 1e-9)
    }
}

impl Settling {
    /// One look more; of a near way never.
    fn is_settled(&mut self, look: SettlingLook, round_trip_seconds: f64) -> bool {
        let early =
            |last: &SettlingLook| look.seconds < last.seconds + TRIPS_BETWEEN_LOOKS * round_trip_seconds;
        if round_trip_seconds < FAR_SECONDS || self.looks.last().is_some_and(early) {
            return false;
        }
        self.looks.push(look);
        // A full link moves no more while its queue still fills: the losses come some round trips later.
        let [.., first, second, third, fourth] = &self.looks[..] else { return false };
        let moved = |from: &SettlingLook, to: &SettlingLook| {
            to.arrived_bytes.saturating_sub(from.arrived_bytes) as f64
        };
        let grows = |before: f64, now: f64| now > GROWS_NO_MORE * before;
        let (one, two, three) = (moved(first, second), moved(second, third), moved(third, fourth));
        let lost = fourth.lost_bytes.saturating_sub(first.lost_bytes) as f64;
        let loses = first.retransmits != fourth.retransmits || lost > UDP_OWN_LOSS * (one + two + three);
        one > 0.0 && !grows(one, two) && !grows(two, three) && !loses
    }
}

impl Meter for FlowMeter<'_> {
    type Error = PeerError;

    fn marks(&mut self) -> Result<Option<Vec<Mark>>, PeerError> {
        self.begin.get_or_insert_with(|| TcpFigures::of_all(self.streams));
        self.peers.marks()
    }

    fn has_one_clock(&self) -> bool {
        self.peers.has_one_clock()
    }

    fn workers(&self) -> Vec<WorkerCounts> {
        WorkerCounts::of(&self.workers)
    }

    fn look(&mut self, counted: bool) -> bool {
        // In a long window nobody else asks the agents anything, and they give up a client that says nothing.
        let seconds = clock::since(self.started).as_secs_f64();
        if seconds >= self.alive_until_seconds {
            self.alive_until_seconds = seconds + KEEP_ALIVE_SECONDS;
            self.peers.keep_alive();
        }
        if !counted {
            return true;
        }
        self.glances.resize_with(self.streams.len(), SendBufferGlances::default);
        self.losses.resize_with(self.streams.len(), LossWatch::default);
        for ((glances, losses), stream) in self.glances.iter_mut().zip(&mut self.losses).zip(self.streams) {
            let Some(view) = stream.as_ref().and_then(|stream| connection::view(stream).ok()) else {
                continue;
            };
            glances.look(&view);
            losses.look_at(seconds, &view);
        }
        true
    }

    fn is_settled(&mut self) -> bool {
        let seconds = clock::since(self.started).as_secs_f64();
        let is_tcp = self.streams.iter().any(Option::is_some);
        let (look, round_trip_seconds) = if is_tcp {
            let figures = TcpFigures::of_all(self.streams);
            self.losses.resize_with(figures.len(), LossWatch::default);
            for (losses, stream) in self.losses.iter_mut().zip(&figures) {
                losses.look(
                    seconds,
                    stream.retransmits,
                    stream.acknowledged_bytes,
                    f64::from(stream.round_trip_us) * 1e-6,
                );
            }
            SettlingLook::of_tcp(&figures)
        } else {
            SettlingLook::of_udp(&self.workers)
        };
        let look = SettlingLook { seconds, ..look };
        self.settling.as_mut().is_some_and(|settling| settling.is_settled(look, round_trip_seconds))
    }
}

/// What TCP_INFO says of one stream from the begin of the counted time to the stream's end, or of several one after
/// the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpFigures {
    busy_us: u64,
    receiver_limited_us: u64,
    send_buffer_limited_us: u64,
    retransmits: u64,
    acknowledged_bytes: u64,
    segment_bytes: u32,
    round_trip_us: u32,
    pub(super) least_round_trip_us: u32,
    /// What the other end allows at most to be on its way.
    send_window_bytes: u32,
    /// Losses as they were seen to come, also before what is counted otherwise; 0 bytes: nobody looked.
    losses: u64,
    loss_bytes: u64,
}

impl TcpFigures {
    pub(super) fn of_all(streams: &[Option<TcpStream>]) -> Vec<Self> {
        streams.iter().map(|stream| Self::read(stream.as_ref())).collect()
    }

    /// What was counted until then.
    pub fn leave_out(&mut self, begin: &TcpFigures) {
        let less = |all: &mut u64, until: u64| *all = all.saturating_sub(until);
        less(&mut self.busy_us, begin.busy_us);
        less(&mut self.receiver_limited_us, begin.receiver_limited_us);
        less(&mut self.send_buffer_limited_us, begin.send_buffer_limited_us);
        less(&mut self.retransmits, begin.retransmits);
        less(&mut self.acknowledged_bytes, begin.acknowledged_bytes);
    }

    /// Beside what the kernel counted.
    pub(super) fn add_glances(&mut self, glances: SendBufferGlances) {
        let seen_us = (glances.share() * self.busy_us as f64) as u64;
        self.send_buffer_limited_us = self.send_buffer_limited_us.max(seen_us);
    }

    /// Reads now; nothing where there is no stream, or no such counters.
    pub fn read(stream: Option<&TcpStream>) -> Self {
        let Some(view) = stream.and_then(|stream| connection::view(stream).ok()) else {
            return Self::default();
        };
        let info = view.info;
        TcpFigures {
            busy_us: info.busy_us,
            receiver_limited_us: info.receiver_limited_us,
            send_buffer_limited_us: info.send_buffer_limited_us,
            retransmits: u64::from(info.retransmits),
            acknowledged_bytes: info.acknowledged_bytes,
            segment_bytes: info.segment_bytes,
            round_trip_us: info.rtt_us,
            least_round_trip_us: view.min_rtt_us,
            send_window_bytes: view.send_window_bytes,
            losses: 0,
            loss_bytes: 0,
        }
    }

    /// What the other end of a stream reports of it.
    pub(super) fn of_stream(sample: &StreamSample) -> Self {
        let Some(tcp) = &sample.tcp else { return Self::default() };
        TcpFigures {
            busy_us: tcp.busy_micros,
            receiver_limited_us: tcp.receiver_limited_micros,
            send_buffer_limited_us: tcp.send_buffer_limited_micros,
            retransmits: tcp.retransmits,
            acknowledged_bytes: sample.bytes,
            segment_bytes: tcp.segment_bytes,
            round_trip_us: tcp.rtt_micros,
            least_round_trip_us: tcp.min_rtt_micros,
            send_window_bytes: u32::try_from(tcp.send_window_bytes).unwrap_or(u32::MAX),
            // Nobody looks at them there as they come.
            losses: 0,
            loss_bytes: 0,
        }
    }

    /// Losses ÷ segments that were acknowledged, of all streams.
    pub(super) fn loss_share(streams: &[TcpFigures]) -> f64 {
        let mut all = LossCount::default();
        streams.iter().for_each(|stream| all.join(stream.loss_count()));
        all.share().unwrap_or(0.0)
    }

    /// What was seen of the stream's losses as they came.
    pub(super) fn add_losses(&mut self, watch: LossWatch) {
        (self.losses, self.loss_bytes) = (watch.losses(), watch.loss_bytes());
    }

    /// Losses from the stream's first one on, and segments.
    pub(super) fn loss_count(&self) -> LossCount {
        loss_count(self.losses, self.loss_bytes, self.segment_bytes)
    }

    /// What another connection, or a later time, added.
    pub fn join(&mut self, later: &TcpFigures) {
        self.busy_us += later.busy_us;
        self.receiver_limited_us += later.receiver_limited_us;
        self.send_buffer_limited_us += later.send_buffer_limited_us;
        self.retransmits += later.retransmits;
        self.acknowledged_bytes = self.acknowledged_bytes.saturating_add(later.acknowledged_bytes);
        self.losses = self.losses.saturating_add(later.losses);
        self.loss_bytes = self.loss_bytes.saturating_add(later.loss_bytes);
        (self.segment_bytes, self.round_trip_us) = (later.segment_bytes, later.round_trip_us);
        self.send_window_bytes = self.send_window_bytes.max(later.send_window_bytes);
        // 0: nothing was seen before.
        self.least_round_trip_us = match self.least_round_trip_us {
            0 => later.least_round_trip_us,
            least => least.min(later.least_round_trip_us),
        };
    }

    /// Puts it beside what else is known of a worker.
    pub fn tell(&self, result: &mut WorkerResult) {
        let busy = self.busy_us.max(1) as f64;
        result.sending_seconds = self.busy_us as f64 * 1e-6;
        result.receiver_limited = self.receiver_limited_us as f64 / busy;
        result.send_buffer_limited = self.send_buffer_limited_us as f64 / busy;
        result.round_trip_seconds = f64::from(self.round_trip_us) * 1e-6;
        result.least_round_trip_seconds = f64::from(self.least_round_trip_us) * 1e-6;
        result.retransmits = self.retransmits;
        let segments = self.acknowledged_bytes as f64 / f64::from(self.segment_bytes.max(1));
        result.retransmit_share = self.retransmits as f64 / segments.max(1.0);
        result.segment_bytes = self.segment_bytes;
        result.send_window_bytes = self.send_window_bytes.into();
        let LossCount { losses, segments } = self.loss_count();
        (result.losses, result.loss_segments) = (losses, segments);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_buffer_that_is_all_on_its_way_limits() {
        let far = TcpView {
            min_rtt_us: 200_000,
            congestion_window_segments: 1706,
            unacknowledged_segments: 340,
            ..TcpView::default()
        };
        let share = |views: &[TcpView]| {
            let mut glances = SendBufferGlances::default();
            views.iter().for_each(|view| glances.look(view));
            glances.share()
        };
        assert_eq!(share(&[far; 4]), 1.0);
        assert_eq!(share(&[far, TcpView { unsent_bytes: 1, ..far }]), 0.5);
        // The congestion window is full, nothing is on its way, or the way is near.
        assert_eq!(share(&[TcpView { congestion_window_segments: 340, ..far }]), 0.0);
        assert_eq!(share(&[TcpView { unacknowledged_segments: 0, ..far }]), 0.0);
        assert_eq!(share(&[TcpView { min_rtt_us: 100, ..far }]), 0.0);
        assert_eq!(share(&[]), 0.0);
        let counted = TcpFigures { busy_us: 1000, send_buffer_limited_us: 10, ..TcpFigures::default() };
        let mut seen = counted;
        seen.add_glances(SendBufferGlances { all: 4, nothing_unsent: 3 });
        assert_eq!(seen.send_buffer_limited_us, 750);
        let mut near = counted;
        near.add_glances(SendBufferGlances::default());
        assert_eq!(near.send_buffer_limited_us, 10);
    }

    /// Looks every 4 round trips of 50 ms: what was acknowledged until then, and sent again.
    #[test]
    fn a_far_flow_is_settled_once_it_grows_no_more_and_loses_nothing() {
        let settles_at = |round_trip: f64, looks: &[(u64, u64)]| {
            let mut settling = Settling::default();
            looks.iter().enumerate().position(|(at, (arrived_bytes, retransmits))| {
                let look = SettlingLook {
                    seconds: at as f64 * 0.2,
                    arrived_bytes: *arrived_bytes,
                    retransmits: *retransmits,
                    lost_bytes: 0,
                };
                settling.is_settled(look, round_trip)
            })
        };
        let slow_start =
            [(1, 0), (16, 0), (260, 0), (900, 80), (1600, 160), (2300, 160), (3000, 160), (3700, 160)];
        assert_eq!(settles_at(0.05, &slow_start), Some(7));
        assert_eq!(settles_at(0.001, &slow_start), None, "of a near way the warm-up is long enough");
        assert_eq!(settles_at(0.1, &slow_start), None, "looks that come too early are none");
        let stalls = [(0, 0), (0, 0), (0, 0), (0, 0)];
        assert_eq!(settles_at(0.05, &stalls), None);
    }

    /// Workers' counters every 4 round trips of 50 ms: bytes that left, and those of them that were lost.
    #[test]
    fn a_far_flow_of_datagrams_is_settled_once_it_grows_no_more_whatever_single_ones_are_lost() {
        let settles_at = |looks: &[(u64, u64)]| {
            let workers = [(); 2].map(|()| Arc::new(WorkerCounters::new(Instant::now())));
            let mut settling = Settling::default();
            looks.iter().enumerate().position(|(at, (sent, lost))| {
                for worker in &workers {
                    worker.progress.add(sent / 2 - worker.progress.mark().bytes);
                    worker.lost_bytes.store(lost / 2, Ordering::Relaxed);
                    worker.least_trip_nanos.store(50_000_000, Ordering::Relaxed);
                }
                let (look, round_trip_seconds) = SettlingLook::of_udp(&workers);
                assert_eq!(round_trip_seconds, 0.05);
                settling.is_settled(SettlingLook { seconds: at as f64 * 0.2, ..look }, round_trip_seconds)
            })
        };
        let grows = [(200_000, 0), (1_000_000, 0), (5_000_000, 0), (12_500_000, 0), (20_000_000, 0)];
        let full = [(27_500_000, 0), (35_000_000, 0)];
        assert_eq!(settles_at(&[&grows[..], &full[..]].concat()), Some(5));
        let single = [(27_500_000, 7_500), (35_000_000, 15_000)];
        assert_eq!(settles_at(&[&grows[..], &single[..]].concat()), Some(5), "one in a thousand");
        let overrun = [(27_500_000, 700_000), (35_000_000, 1_400_000)];
        assert_eq!(settles_at(&[&grows[..], &overrun[..]].concat()), None, "a queue that overflows");
    }

    /// A stream over 100 ms: a second of slow start that its own queue ended with losses, then a full send buffer.
    #[test]
    fn what_tcp_counted_in_slow_start_is_left_out() {
        let begin = TcpFigures {
            busy_us: 2_000_000,
            retransmits: 400,
            acknowledged_bytes: 40_000_000,
            ..TcpFigures::default()
        };
        let mut end = TcpFigures {
            busy_us: 3_000_000,
            send_buffer_limited_us: 950_000,
            retransmits: 400,
            acknowledged_bytes: 75_000_000,
            segment_bytes: 1448,
            ..begin
        };
        end.leave_out(&begin);
        let mut result = WorkerResult::default();
        end.tell(&mut result);
        assert_eq!((result.sending_seconds, result.send_buffer_limited), (1.0, 0.95));
        assert_eq!((result.retransmits, result.retransmit_share), (0, 0.0));
        // A look later on its own counters counts whole.
        end.join(&TcpFigures { retransmits: 3, ..end });
        assert_eq!((end.busy_us, end.retransmits), (2_000_000, 3));
    }
}
