//! What a far way that loses packets by chance lets TCP keep, and how well some losses tell it.
//!
//! A sample of such a flow is one piece of a saw: it holds some teeth, and says as little of the mean as some teeth do.
//! The share of losses is a property of the way, whatever the window was when they came: all of them count, those
//! before the samples too. With the response function they say what is kept over minutes; how well, is Poisson's
//! interval of their number. What the samples themselves say is the other witness of the same rate, and both are joined,
//! each by its variance.

use super::CongestionControl;

/// Half of what holds 95 % of a normal distribution, in its standard deviations.
const NORMAL_95: f64 = 1.96;
/// Standard deviation of the logarithm of what a flow moved while it answered one loss; that of many is smaller by the
/// root of their number. Of cubic over 20 to 200 ms, one of a thousand segments lost, four minutes each: 0.44 to 0.6;
/// the test below has a saw by the same rule.
const DEVIATION_OF_ONE_LOSS: f64 = 0.53;
/// How well the response function holds by itself, where slow start is over for as long as a turn allows: standard
/// deviation of the logarithm.
const DEVIATION_OF_RESPONSE: f64 = 0.1;
/// Fewer losses say nothing of their share.
pub const FEWEST_LOSSES: u64 = 5;

/// Losses that were counted while so many segments went out. Those of one round trip are one (RFC 5348, section 5.2):
/// TCP answers them once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossCount {
    pub losses: u64,
    pub segments: f64,
}

impl LossCount {
    /// With those of another flow, or of a later time.
    pub fn join(&mut self, other: LossCount) {
        self.losses = self.losses.saturating_add(other.losses);
        self.segments += other.segments;
    }

    /// Share of the segments; none of no segment.
    pub fn share(&self) -> Option<f64> {
        Some(self.losses as f64 / self.segments).filter(|share| share.is_finite() && *share < 0.5)
    }

    /// Where the true share lies at 95 %, of losses that come by chance (Garwood 1936, by the approximation of Wilson
    /// and Hilferty 1931).
    pub fn interval(&self) -> Option<[f64; 2]> {
        self.share()?;
        let end = |losses: f64, sign: f64| {
            let losses = losses.max(f64::MIN_POSITIVE);
            losses * (1.0 - 1.0 / (9.0 * losses) + sign * NORMAL_95 / (3.0 * losses.sqrt())).max(0.0).powi(3)
        };
        let low = if self.losses == 0 { 0.0 } else { end(self.losses as f64, -1.0) };
        Some([low, end(self.losses as f64 + 1.0, 1.0)].map(|losses| losses / self.segments))
    }
}

/// A flow over such a way.
#[derive(Clone, Debug, PartialEq)]
pub struct LossyFlow<'a> {
    pub congestion_control: &'a CongestionControl,
    /// All that was counted of it.
    pub loss: LossCount,
    pub round_trip_seconds: f64,
    /// Payload of a segment, bytes.
    pub segment_bytes: f64,
    pub streams: u32,
}

/// What such a flow keeps, and where what is measured of it in the same way lies at 95 %, bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KeptRate {
    pub bytes_per_second: f64,
    pub interval: [f64; 2],
}

impl LossyFlow<'_> {
    /// By the response function of this share, of all streams, bytes per second.
    fn response_of(&self, share: f64) -> Option<f64> {
        let segments = self.congestion_control.window_segments(share, self.round_trip_seconds)?;
        let rate = f64::from(self.streams.max(1)) * segments * self.segment_bytes / self.round_trip_seconds;
        Some(rate).filter(|rate| rate.is_finite() && *rate > 0.0)
    }

    /// What is kept over minutes by the losses that were counted; none where they are too few, or where it is not known
    /// how they are answered.
    pub fn response(&self) -> Option<f64> {
        self.response_of(self.loss.share().filter(|_| self.loss.losses >= FEWEST_LOSSES)?)
    }

    /// What it keeps at least as far as was seen, however few losses that were: with one more of them.
    pub fn keeps_at_least(&self) -> Option<f64> {
        let more = LossCount { losses: self.loss.losses.saturating_add(1), ..self.loss };
        self.response_of(more.share()?)
    }

    /// Round trips from one loss of a stream to its next, on the average.
    pub fn trips_between_losses(&self) -> Option<f64> {
        let share = self.loss.share().filter(|share| *share > 0.0)?;
        Some(1.0 / (share * self.congestion_control.window_segments(share, self.round_trip_seconds)?))
    }

    /// Joined with what was sampled of it, in `sampled_segments` segments, bytes per second. None where the two do not
    /// agree: then it has not come to rest, or something else limits it too.
    pub fn kept(&self, sampled: f64, sampled_segments: f64) -> Option<KeptRate> {
        let (response, share) = (self.response()?, self.loss.share()?);
        let [low, high] = self.loss.interval()?.map(|share| self.response_of(share));
        // The more is lost, the less is kept.
        let of_count = (low? / high?).ln() / (2.0 * NORMAL_95);
        let sampling = DEVIATION_OF_ONE_LOSS.powi(2) / (share * sampled_segments);
        let of_response = of_count.powi(2) + DEVIATION_OF_RESPONSE.powi(2);
        let apart = (sampled / response).ln();
        if apart.is_nan()
            || !sampling.is_finite()
            || apart.abs() > NORMAL_95 * (of_response + sampling).sqrt()
        {
            return None;
        }
        let bytes_per_second = response * (apart * of_response / (of_response + sampling)).exp();
        // The one to be measured is a sample of as many segments, too.
        let variance = of_response * sampling / (of_response + sampling) + sampling;
        let times = (NORMAL_95 * variance.sqrt()).exp();
        Some(KeptRate { bytes_per_second, interval: [bytes_per_second / times, bytes_per_second * times] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Dice;

    const SEGMENT: f64 = 8948.0;

    fn flow(losses: u64, segments: f64) -> LossyFlow<'static> {
        LossyFlow {
            congestion_control: &CongestionControl::Cubic,
            loss: LossCount { losses, segments },
            round_trip_seconds: 0.05,
            segment_bytes: SEGMENT,
            streams: 1,
        }
    }

    /// A window that grows by RFC 9438's Reno-friendly rule (section 4.3) and shrinks to 0.7 at each loss: segments and
    /// losses of each round trip.
    fn saw(dice: &mut Dice, share: f64, trips: usize) -> Vec<(f64, u64)> {
        let growth = 3.0 * (1.0 - 0.7) / (1.0 + 0.7);
        let mut window = (1.5 / share).sqrt();
        (0..trips)
            .map(|_| {
                let lost = dice.uniform() > (1.0 - share).powf(window);
                let sent = window;
                window = if lost { 0.7 * window } else { window + growth };
                (sent, u64::from(lost))
            })
            .collect()
    }

    fn mean(trips: &[(f64, u64)]) -> f64 {
        trips.iter().map(|(sent, _)| sent).sum::<f64>() / trips.len() as f64
    }

    #[test]
    fn a_saw_keeps_what_the_response_function_says_and_strays_by_the_losses_in_a_sample() {
        let mut dice = Dice::new(16);
        let share = 1e-3;
        let kept = mean(&saw(&mut dice, share, 200_000)) / (1.5f64 / share).sqrt();
        assert!((0.9..1.15).contains(&kept), "{kept}");
        for trips in [100, 400] {
            let samples: Vec<f64> = (0..400).map(|_| mean(&saw(&mut dice, share, trips)).ln()).collect();
            let middle = samples.iter().sum::<f64>() / 400.0;
            let variance = samples.iter().map(|one| (one - middle).powi(2)).sum::<f64>() / 399.0;
            let losses = share * middle.exp() * trips as f64;
            let of_one = (variance * losses).sqrt();
            assert!((0.3..DEVIATION_OF_ONE_LOSS).contains(&of_one), "{trips}: {of_one}");
        }
    }

    /// What a later flow of the same length moves lies in the interval at least as often as it says.
    #[test]
    fn the_next_flow_lies_in_the_interval() {
        let mut dice = Dice::new(5348);
        let (mut inside, mut predicted, mut widest) = (0, 0, 0.0f64);
        for _ in 0..400 {
            let trips = saw(&mut dice, 1e-3, 6 * 140);
            let count = LossCount {
                losses: trips.iter().map(|(_, lost)| lost).sum(),
                segments: trips.iter().map(|(sent, _)| sent).sum(),
            };
            let (before, after) = (&trips[..6 * 60], saw(&mut dice, 1e-3, 6 * 60));
            let rate = |trips: &[(f64, u64)]| mean(trips) * SEGMENT / 0.05;
            let sampled = before.iter().map(|(sent, _)| sent).sum();
            let flow = LossyFlow { loss: count, ..flow(0, 0.0) };
            let Some(KeptRate { interval: [low, high], .. }) = flow.kept(rate(before), sampled) else {
                continue;
            };
            predicted += 1;
            inside += u32::from((low..=high).contains(&rate(&after)));
            widest = widest.max(high / low);
        }
        assert!(predicted >= 380, "{predicted} of 400");
        assert!(inside >= predicted * 95 / 100, "{inside} of {predicted}");
        assert!(widest < 2.6, "{widest}");
    }

    #[test]
    fn poisson_says_how_well_a_number_of_losses_is_known() {
        // Garwood's table: 10 are 4.80 to 18.39, 60 are 45.8 to 77.2, none are up to 3.69.
        let ends =
            |losses| LossCount { losses, segments: 1000.0 }.interval().expect("ends").map(|end| end * 1e3);
        for (losses, expected) in [(10, [4.80, 18.39]), (60, [45.79, 77.23]), (0, [0.0, 3.69])] {
            let found = ends(losses);
            assert!(
                (found[0] - expected[0]).abs() < 0.02 && (found[1] - expected[1]).abs() < 0.1,
                "{found:?}"
            );
        }
        assert_eq!(LossCount::default().interval(), None);
    }

    #[test]
    fn what_disagrees_or_is_too_little_says_nothing() {
        let many = flow(60, 60_000.0);
        let response = many.response().expect("known");
        assert!((response / 6.93e6 - 1.0).abs() < 0.01, "{response}");
        assert!((many.trips_between_losses().expect("known") - 25.8).abs() < 0.1);
        let kept = many.kept(1.1 * response, 14_000.0).expect("they agree");
        assert!((response..1.1 * response).contains(&kept.bytes_per_second), "{kept:?}");
        let [low, high] = kept.interval;
        assert!(low < response && high > 1.1 * response && high / low < 2.0, "{kept:?}");
        // Still what slow start left, or a link that is full.
        assert_eq!(many.kept(3.0 * response, 14_000.0), None);
        assert_eq!(many.kept(f64::NAN, 14_000.0), None);
        assert_eq!(flow(FEWEST_LOSSES - 1, 4000.0).response(), None);
        assert_eq!(flow(60, 0.0).kept(response, 0.0), None);
        let other = CongestionControl::named("bbr");
        assert_eq!(LossyFlow { congestion_control: &other, ..many }.response(), None);
    }
}
