//! A far path that loses packets by chance: its losses, counted as they come from a connection's begin on (those before
//! the samples tell as well what they let a flow keep), how many streams a flow over TCP gets there, and how they
//! are paced.
//!
//! Each loss halves, or nearly so, what a stream has in flight: by the response function one stream keeps so much of
//! such a path however fast its link is, and several keep as much each. How many fill the link is arithmetic where its
//! rate is known; where it is not, what the most of them carry is taken for it. Trials then have to bear that out. Where
//! they fill it, a queue on the path overflows, and what it drops at a time comes on top: the kernel then spreads the
//! segments of each stream (SO_MAX_PACING_RATE) below the rate of the bottleneck, where a trial shows that less is lost
//! so and no less carried.
//!
//! bbr's rate does not follow such losses; a path that is near, or loses nothing, has one stream as before.

use super::Stages;
use super::product::StreamTrial;
use linerate_facts::units::show_bits_rate;
use linerate_facts::wording::counted;
use linerate_model::plan::long_path::{
    CongestionControl, FEWEST_LOSSES, LossCount, LossyFlow, streams_to_fill,
};
use linerate_model::verdict::thresholds::FAR_SECONDS;
use linerate_system::connection::TcpView;

/// More streams of one NIC take from others what is theirs.
const MOST_STREAMS: u32 = 16;
/// The most trials of one path: one stream, the most where nobody knows how fast the link is, what fills it, and that
/// paced.
pub(crate) const MOST_TRIALS: usize = 4;
/// What streams keep wanders: of as many as carry a link on the average some have just lost something, and the others
/// cannot take more than the link while they keep more. So many times the link are to be carried.
const WANDERS: f64 = 1.2;
/// What carries this share of the most carries as much.
const NEARLY: f64 = 0.9;
/// More streams have to carry this many times what one does.
const CLEARLY: f64 = 1.15;
/// Losses this many times those of the path alone are those of a queue that overflows.
const OVERRUN: f64 = 1.5;
/// A stream is paced at this many times its share of the link, or of the most that was carried: one that has lost
/// something catches up.
const PACE: f64 = 1.1;
/// Pacing has to spare this share of the losses, …
const SPARED: f64 = 0.25;
/// … and to carry this share.
const AS_MUCH: f64 = 0.95;

/// Looks at one stream's count of retransmitted segments. It counts from its first loss on: that ends slow start, mostly
/// by overflowing a queue, which a path without any chance loss does to each connection as well.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossWatch {
    retransmits: u64,
    last_seconds: Option<f64>,
    /// Bytes that were acknowledged when the first was seen, and at the latest look.
    first_bytes: Option<u64>,
    bytes: u64,
    losses: u64,
}

impl LossWatch {
    /// One look; both counters since the begin. What goes on being sent again in a round trip is one loss: TCP answers it
    /// once (RFC 5348, section 5.2), however many segments a queue that overflowed has dropped.
    pub(super) fn look(
        &mut self,
        seconds: f64,
        retransmits: u64,
        acknowledged_bytes: u64,
        round_trip_seconds: f64,
    ) {
        self.bytes = self.bytes.max(acknowledged_bytes);
        if retransmits <= self.retransmits {
            return;
        }
        self.retransmits = retransmits;
        let is_another = |last: f64| seconds - last > round_trip_seconds;
        if self.last_seconds.is_none_or(is_another) {
            match self.first_bytes {
                None => self.first_bytes = Some(self.bytes),
                Some(_) => self.losses += 1,
            }
        }
        self.last_seconds = Some(seconds);
    }

    /// One look at what the kernel counts of the stream's connection.
    pub(super) fn look_at(&mut self, seconds: f64, view: &TcpView) {
        let round_trip_seconds = f64::from(view.info.rtt_us) * 1e-6;
        self.look(seconds, view.info.retransmits.into(), view.info.acknowledged_bytes, round_trip_seconds);
    }

    /// Losses after the first among the segments since.
    pub(super) fn count(&self, segment_bytes: u32) -> LossCount {
        loss_count(self.losses, self.loss_bytes(), segment_bytes)
    }

    /// After the first.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    /// Bytes that were acknowledged since the first.
    pub(super) fn loss_bytes(&self) -> u64 {
        self.first_bytes.map_or(0, |first| self.bytes.saturating_sub(first))
    }
}

/// So many losses in so many bytes of such segments.
pub(super) fn loss_count(losses: u64, bytes: u64, segment_bytes: u32) -> LossCount {
    LossCount { losses, segments: bytes as f64 / f64::from(segment_bytes.max(1)) }
}

impl Stages<'_> {
    /// Of the sender.
    pub(super) fn congestion_control(&self) -> CongestionControl {
        CongestionControl::of(self.machine, self.goal)
    }

    /// What a flow has shown counts for those that come.
    pub(super) fn count_losses(&mut self, streams: impl Iterator<Item = LossCount>) {
        streams.for_each(|stream| self.losses.join(stream));
    }

    /// So much was lost that how long a flow takes to find its rate must not depend on whether it loses something: one
    /// that is counted from a moment on before which it lost nothing for long has a larger window than losses let stand.
    pub(super) fn is_lossy(&self) -> bool {
        self.losses.losses >= FEWEST_LOSSES
    }

    /// Round trips from one loss of a stream to its next; none where too few were seen, or where it is not known how they
    /// are answered.
    pub(super) fn trips_between_losses(&self) -> Option<f64> {
        let control = self.congestion_control();
        let flow = LossyFlow {
            congestion_control: &control,
            loss: self.losses,
            round_trip_seconds: self.round_trip_seconds,
            segment_bytes: 1.0,
            streams: 1,
        };
        flow.trips_between_losses().filter(|_| self.is_lossy() && self.round_trip_seconds > 0.0)
    }
}

/// A path that loses packets by chance, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) struct LossyPath {
    pub congestion_control: CongestionControl,
    /// Of all streams over it so far.
    pub loss: LossCount,
    pub round_trip_seconds: f64,
    /// Payload of a segment, bytes.
    pub segment_bytes: f64,
    /// Payload that one NIC's link is known to carry, bytes per second.
    pub link_bytes_per_second: Option<f64>,
    pub nics: u32,
    /// The user's --rate-limit paces all streams already.
    pub is_paced: bool,
}

/// What is taken: streams a NIC, and the most of each, bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ChosenStreams {
    pub streams: u32,
    pub pacing_bytes_per_second: Option<f64>,
}

impl ChosenStreams {
    pub(crate) const ONE: ChosenStreams = ChosenStreams { streams: 1, pacing_bytes_per_second: None };
}

impl StreamTrial {
    /// What was tried.
    pub(crate) fn asked(&self) -> ChosenStreams {
        let StreamTrial { streams, pacing_bytes_per_second, .. } = *self;
        ChosenStreams { streams, pacing_bytes_per_second }
    }
}

impl LossyPath {
    /// What one stream keeps over minutes, bytes per second; none where more of them are not considered: the path is near,
    /// loses nothing or too little to tell, or it is not known how losses are answered.
    pub(crate) fn one_stream_keeps(&self) -> Option<f64> {
        let flow = LossyFlow {
            congestion_control: &self.congestion_control,
            loss: self.loss,
            round_trip_seconds: self.round_trip_seconds,
            segment_bytes: self.segment_bytes,
            streams: 1,
        };
        flow.response().filter(|_| self.round_trip_seconds >= FAR_SECONDS)
    }

    /// Streams that fill a link which carries so much, over minutes, the most where not even those do; none where one
    /// does.
    fn to_fill(&self, link_bytes_per_second: f64) -> Option<u32> {
        let one = self.one_stream_keeps().filter(|one| *one < link_bytes_per_second)?;
        let needed = streams_to_fill(WANDERS * link_bytes_per_second, one);
        Some(needed.map_or(MOST_STREAMS, |count| count.min(MOST_STREAMS))).filter(|count| *count > 1)
    }

    /// By arithmetic alone: streams that fill a NIC's link, the most where its rate is not known; none where more than
    /// one are not considered.
    pub(crate) fn more_than_one(&self) -> Option<u32> {
        match self.link_bytes_per_second {
            Some(link) => self.to_fill(link),
            None => self.one_stream_keeps().map(|_| MOST_STREAMS),
        }
    }

    /// `TCP cubic keeps 55 Mb/s a stream of a path of 50 ms that loses 0.1 % (RFC 9438)`.
    pub(crate) fn why(&self) -> String {
        let each = self.one_stream_keeps().unwrap_or(0.0);
        let percent = (1e5 * self.loss.share().unwrap_or(0.0)).round() / 1e3;
        format!(
            "TCP {} keeps {} a stream over a path of {:.0} ms that loses {percent} % (the response function of {})",
            self.congestion_control.name(),
            show_bits_rate(each),
            1e3 * self.round_trip_seconds,
            self.congestion_control.response_source()
        )
    }

    /// By trials, `first` with one stream a NIC: all of them, the one that is taken marked. `try_one` measures so many
    /// streams a NIC, each with this pace, and gives none where nothing was measured.
    pub(crate) fn choose(
        &self,
        first: StreamTrial,
        try_one: &mut dyn FnMut(ChosenStreams) -> Result<Option<StreamTrial>, String>,
    ) -> Result<Vec<StreamTrial>, String> {
        let mut trials = vec![first];
        let unpaced = |streams| ChosenStreams { streams, pacing_bytes_per_second: None };
        if let Some(more) = self.more_than_one() {
            trials.extend(try_one(unpaced(more))?);
            let most = trials.iter().map(|trial| trial.bytes_per_second).fold(0.0, f64::max);
            let enough = self.to_fill(most / f64::from(self.nics.max(1)));
            let enough = enough.filter(|enough| *enough < more && self.fewest(&trials) > 0);
            if let Some(enough) = enough {
                trials.extend(try_one(unpaced(enough))?);
            }
        }
        let mut chosen = self.fewest(&trials);
        let own = &trials[chosen];
        let overruns = own.loss_share > OVERRUN * self.loss.share().unwrap_or(0.0);
        if own.streams > 1 && overruns && !self.is_paced {
            // One trial may have lost more than its share: its pace would then be the limit.
            let most = trials.iter().map(|trial| trial.bytes_per_second / f64::from(self.nics.max(1)));
            let link = most.fold(self.link_bytes_per_second.unwrap_or(0.0), f64::max);
            let share = link / f64::from(own.streams.max(1));
            let paced = ChosenStreams { streams: own.streams, pacing_bytes_per_second: Some(PACE * share) };
            if let Some(paced) = try_one(paced)? {
                let spares = paced.loss_share <= (1.0 - SPARED) * own.loss_share;
                let is_better = spares && paced.bytes_per_second >= AS_MUCH * own.bytes_per_second;
                trials.push(paced);
                chosen = if is_better { trials.len() - 1 } else { chosen };
            }
        }
        trials[chosen].chosen = true;
        Ok(trials)
    }

    /// The fewest streams that carry nearly the most; the first where more do not carry clearly more than it.
    fn fewest(&self, trials: &[StreamTrial]) -> usize {
        let rates: Vec<f64> = trials.iter().map(|trial| self.lasting(trial)).collect();
        let most = rates.iter().copied().fold(0.0, f64::max);
        if most < CLEARLY * rates[0] {
            return 0;
        }
        let enough = (0..trials.len()).filter(|at| rates[*at] >= NEARLY * most);
        enough.min_by_key(|at| trials[*at].streams).unwrap_or(0)
    }

    /// What the streams of a trial carry over minutes, bytes per second: a trial is over while what slow start left
    /// below a link is still shrinking.
    fn lasting(&self, trial: &StreamTrial) -> f64 {
        let streams = f64::from(trial.streams) * f64::from(self.nics.max(1));
        let kept = self.one_stream_keeps().map_or(f64::INFINITY, |one| streams * one);
        trial.bytes_per_second.min(kept)
    }
}

/// `4 streams, each paced at 90 Mb/s, carried 290 Mb/s`.
pub(crate) fn streams_in_words(trial: &StreamTrial) -> String {
    let pace = trial.pacing_bytes_per_second.map(show_bits_rate);
    let pace = pace.map_or(String::new(), |rate| format!(", each paced at {rate} (SO_MAX_PACING_RATE),"));
    let streams = counted(trial.streams, "stream");
    format!("{streams}{pace} carried {}", show_bits_rate(trial.bytes_per_second))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::plan::long_path::FEWEST_LOSSES;

    #[test]
    fn what_is_sent_again_in_a_round_trip_is_one_loss() {
        let losses = |looks: &[(f64, u64)]| {
            let mut watch = LossWatch::default();
            let bytes = |seconds: f64| (1e6 * seconds) as u64;
            looks.iter().for_each(|(at, retransmits)| watch.look(*at, *retransmits, bytes(*at), 0.05));
            (watch.losses(), watch.loss_bytes())
        };
        assert_eq!(losses(&[(0.0, 0), (0.02, 0)]), (0, 0));
        assert_eq!(losses(&[(0.02, 1), (0.04, 1), (0.5, 2), (0.9, 3), (1.02, 3)]), (2, 1_000_000));
        // A queue that overflows at the end of slow start: three round trips of sending again are no chance loss.
        let overflow: Vec<(f64, u64)> =
            (0u32..8).map(|at| (f64::from(at) * 0.02, 40 * u64::from(at))).collect();
        assert_eq!(losses(&overflow), (0, 120_000));
        assert_eq!(losses(&[(0.02, 5), (0.04, 3)]).0, 0, "a counter that goes back is another one");
    }

    fn far(link: Option<f64>) -> LossyPath {
        LossyPath {
            congestion_control: CongestionControl::Cubic,
            loss: LossCount { losses: 60, segments: 60_000.0 },
            round_trip_seconds: 0.05,
            segment_bytes: 8948.0,
            link_bytes_per_second: link,
            nics: 1,
            is_paced: false,
        }
    }

    fn trial(streams: u32, megabytes: f64, loss_share: f64) -> StreamTrial {
        StreamTrial { streams, bytes_per_second: megabytes * 1e6, loss_share, ..StreamTrial::default() }
    }

    /// What is taken on a path on which so many streams carry so much, and lose so much paced or not.
    fn taken(path: &LossyPath, of: impl Fn(&ChosenStreams) -> (f64, f64)) -> (Option<StreamTrial>, usize) {
        let mut calls = 0;
        let mut try_one = |asked: ChosenStreams| {
            calls += 1;
            let (megabytes, loss_share) = of(&asked);
            let pacing_bytes_per_second = asked.pacing_bytes_per_second;
            Ok(Some(StreamTrial { pacing_bytes_per_second, ..trial(asked.streams, megabytes, loss_share) }))
        };
        let trials = path.choose(trial(1, 7.0, 0.001), &mut try_one).expect("trials");
        assert!(trials.len() <= MOST_TRIALS && trials.iter().filter(|trial| trial.chosen).count() == 1);
        (trials.into_iter().find(|trial| trial.chosen), calls)
    }

    #[test]
    fn as_many_streams_as_fill_a_link_that_is_known() {
        // 6.93 MB/s a stream.
        assert_eq!(far(Some(37.2e6)).more_than_one(), Some(7), "six carry it on the average");
        assert_eq!(far(Some(1.24e9)).more_than_one(), Some(MOST_STREAMS));
        assert_eq!(far(Some(6.9e6)).more_than_one(), None, "one fills it");
        assert_eq!(far(None).more_than_one(), Some(MOST_STREAMS));
        let text = far(None).why();
        for part in ["cubic", "55.4 Mb/s a stream", "50 ms", "0.1 %", "RFC 9438"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_way_without_loss_or_delay_or_with_another_control_has_one() {
        let none = |path: LossyPath| path.more_than_one().is_none();
        let lost = |losses, segments| LossyPath { loss: LossCount { losses, segments }, ..far(None) };
        assert!(none(lost(0, 1e6)) && none(lost(FEWEST_LOSSES - 1, 1e3)));
        assert!(none(LossyPath { round_trip_seconds: 0.001, ..far(None) }));
        assert!(none(LossyPath { congestion_control: CongestionControl::named("bbr"), ..far(None) }));
        let nothing = LossyPath { loss: LossCount::default(), ..far(None) };
        let one = StreamTrial { chosen: true, ..trial(1, 7.0, 0.001) };
        assert_eq!(taken(&nothing, |_| (100.0, 0.0)), (Some(one), 0));
    }

    #[test]
    fn the_fewest_that_carry_nearly_the_most_are_taken() {
        let streams = |link: Option<f64>, of: &dyn Fn(u32) -> f64| {
            let (trial, calls) = taken(&far(link), |asked| (of(asked.streams), 0.001));
            (trial.expect("one").streams, calls)
        };
        let each = |streams: u32| 6.93 * f64::from(streams);
        assert_eq!(streams(None, &each), (16, 1));
        assert_eq!(
            streams(None, &|streams| each(streams).min(37.2)),
            (7, 2),
            "what sixteen carry is the link"
        );
        assert_eq!(streams(Some(37.2e6), &each), (7, 1));
        // Soon after slow start four still carry what they do not keep.
        assert_eq!(streams(None, &|streams| (2.0 * each(streams)).min(37.2)), (7, 2));
        assert_eq!(streams(None, &|streams| if streams == 16 { 37.2 } else { each(streams) / 2.0 }), (16, 2));
        assert_eq!(streams(None, &|_| 7.3), (1, 1), "something else is the limit");
        // Over a short path one stream, too, does after slow start what it does not keep.
        let mut filled = |asked: ChosenStreams| Ok(Some(trial(asked.streams, 37.2, 0.001)));
        let trials = far(None).choose(trial(1, 36.0, 0.001), &mut filled).expect("trials");
        assert_eq!(trials.iter().find(|trial| trial.chosen).map(|trial| trial.streams), Some(7));
    }

    #[test]
    fn a_queue_that_overflows_is_spared_by_a_pace_where_that_carries_as_much() {
        let with = |paced: (f64, f64)| {
            let of = |asked: &ChosenStreams| {
                if asked.pacing_bytes_per_second.is_some() { paced } else { (36.0, 0.004) }
            };
            let (trial, calls) = taken(&far(Some(37.2e6)), of);
            assert_eq!(calls, 2, "seven streams, unpaced and paced");
            trial.expect("one").pacing_bytes_per_second
        };
        let pace = with((36.5, 0.0012)).expect("paced");
        assert!((pace / (1.1 * 37.2e6 / 7.0) - 1.0).abs() < 1e-9, "{pace}");
        let limited = LossyPath { is_paced: true, ..far(Some(37.2e6)) };
        let (trial, calls) = taken(&limited, |_| (36.0, 0.004));
        assert_eq!((trial.expect("one").pacing_bytes_per_second, calls), (None, 1));
        assert_eq!(with((31.0, 0.0012)), None, "it carries less");
        assert_eq!(with((36.5, 0.0039)), None, "it loses as much");
        // No more is lost than by the path itself.
        let (trial, calls) = taken(&far(Some(37.2e6)), |_| (36.0, 0.0011));
        assert_eq!((trial.expect("one").pacing_bytes_per_second, calls), (None, 1));
    }

    #[test]
    fn a_trial_that_fails_is_an_error_and_one_without_a_figure_is_none() {
        let mut fails = |_| Err("the peer is gone".to_string());
        assert!(far(None).choose(trial(1, 7.0, 0.001), &mut fails).is_err());
        let mut none = |_| Ok(None);
        let trials = far(None).choose(trial(1, 7.0, 0.001), &mut none).expect("trials");
        assert_eq!(trials, [StreamTrial { chosen: true, ..trial(1, 7.0, 0.001) }]);
    }
}
