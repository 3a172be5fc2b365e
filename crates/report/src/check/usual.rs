//! What one figure of a host usually is, by its earlier results, and whether the newest is below that.
//!
//! Rates are compared as logarithms, so that a step of 8 % is as large downwards as upwards. The middle is
//! the median; the scale is the larger of Qn (Rousseeuw and Croux, "Alternatives to the Median Absolute
//! Deviation", JASA 1993), which less than half of the results cannot move, and of what lies between the
//! tenth and the ninetieth of a hundred, which sees a machine that has two speeds. Bounds are Student's with as many degrees
//! of freedom as Qn leaves of the results.
//!
//! One result alone must be far below; two in a row less far; three in a row are enough where each is among
//! the lowest of a hundred. All three have the same chance to be an accident, one in a million.

use linerate_measure::measure::statistics::median;
use linerate_model::shares::student;

/// Fewer earlier results say too little of what is usual.
pub const LEAST_RESULTS: usize = 8;
/// Older results no longer count.
const MOST_RESULTS: usize = 50;
/// So many in a row on one side of what was usual are the new usual.
const NEW_USUAL_AFTER: usize = 20;
/// Quantiles of the normal distribution: the chance of one in a million, of its square root and of its cube
/// root.
const IN_A_ROW: [f64; 3] = [4.753, 3.090, 2.326];
/// Results of one machine differ by this at least, whatever few of them say: 1 %.
const LEAST_SCALE: f64 = 0.01;
/// Where three in a row have to be this far below, the machine changes its own speed: a fifth.
const WIDEST: f64 = 0.2;
/// Of the normal distribution: of Qn, and from the tenth to the ninetieth of a hundred.
const QN_TO_DEVIATION: f64 = 2.2219;
const TENTHS_TO_DEVIATION: f64 = 2.563;
/// Of what the mean and the deviation use of normal samples, Qn uses so much, and the median 1 / 1.57.
const QN_EFFICIENCY: f64 = 0.82;
const MEDIAN_VARIANCE: f64 = 1.57;

/// Where a figure lies against its earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RatePosition {
    TooFew,
    Within,
    Below,
    Above,
    /// Within, but the earlier ones are so far apart that a change would not show.
    Unclear,
}

/// What earlier figures say of the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Usual {
    pub(super) median: f64,
    /// Where 98 of 100 lie.
    pub(super) low: f64,
    pub(super) high: f64,
    /// Below this one alone is slower than usual.
    pub(super) far_low: f64,
    middle: f64,
    /// By how many in a row.
    reach: [f64; 3],
}

/// The newest figure against those before it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Judgement {
    pub(super) position: RatePosition,
    /// None where they are too few.
    pub(super) usual: Option<Usual>,
    /// Which of the earlier figures are the usual ones.
    pub(super) usual_results: Vec<usize>,
    /// How many in a row, this one included, lie on this side of the usual.
    pub(super) in_a_row: usize,
}

/// The newest is the last; all are positive.
pub(super) fn judge(rates: &[f64]) -> Judgement {
    let mut history = History::default();
    let Some((newest, earlier)) = rates.split_last() else { return history.judge(0.0) };
    earlier.iter().for_each(|rate| history.add(*rate));
    history.judge(*newest)
}

/// Results one after the other: those that are usual, and the last ones where they are all on one side of them.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Logarithms, and how many came before.
    usual: Vec<(usize, f64)>,
    streak: Vec<(usize, f64)>,
    side: i8,
    count: usize,
}

impl History {
    fn usual(&self) -> Option<Usual> {
        let logs = || self.usual.iter().map(|(_, log)| *log).collect();
        (self.usual.len() >= LEAST_RESULTS).then(|| Usual::of(logs()))
    }

    pub(super) fn judge(&self, rate: f64) -> Judgement {
        let log = logarithm(rate);
        let usual_results = self.usual.iter().map(|(index, _)| *index).collect();
        let Some(usual) = self.usual() else {
            return Judgement { position: RatePosition::TooFew, usual: None, usual_results, in_a_row: 0 };
        };
        let side = usual.side(log);
        let before = self.streak.iter().filter(|_| side == self.side).map(|(_, log)| *log);
        let streak: Vec<f64> = before.chain((side != 0).then_some(log)).collect();
        let position = match side {
            -1 if usual.is_beyond(&streak) => RatePosition::Below,
            1 if usual.is_beyond(&streak) => RatePosition::Above,
            _ if 1.0 - usual.low / usual.median > WIDEST => RatePosition::Unclear,
            _ => RatePosition::Within,
        };
        Judgement { position, usual: Some(usual), usual_results, in_a_row: streak.len() }
    }

    /// A result that is back among the usual ones makes those that strayed before it part of them: such a
    /// machine does that at times.
    pub(super) fn add(&mut self, rate: f64) {
        let result = (self.count, logarithm(rate));
        self.count += 1;
        let side = self.usual().map_or(0, |usual| usual.side(result.1));
        if side != self.side {
            self.usual.append(&mut self.streak);
            self.side = side;
        }
        if side == 0 {
            self.usual.push(result)
        } else {
            self.streak.push(result)
        }
        if self.streak.len() >= NEW_USUAL_AFTER {
            self.usual = std::mem::take(&mut self.streak);
            self.side = 0;
        }
        let too_many = self.usual.len().saturating_sub(MOST_RESULTS);
        self.usual.drain(..too_many);
    }
}

fn logarithm(rate: f64) -> f64 {
    rate.max(f64::MIN_POSITIVE).ln()
}

impl Usual {
    fn of(mut logs: Vec<f64>) -> Self {
        logs.sort_by(f64::total_cmp);
        let count = logs.len() as f64;
        let middle = median(&logs);
        let freedom = QN_EFFICIENCY * (count - 1.0);
        let scale = scale(&logs) * (1.0 + MEDIAN_VARIANCE / count).sqrt();
        let reach = IN_A_ROW.map(|normal| student(normal, freedom) * scale);
        let [alone, _, each] = reach;
        Usual {
            median: middle.exp(),
            low: (middle - each).exp(),
            high: (middle + each).exp(),
            far_low: (middle - alone).exp(),
            middle,
            reach,
        }
    }

    /// −1 below what 98 of 100 reach, 1 above, 0 among them.
    fn side(&self, log: f64) -> i8 {
        let away = log - self.middle;
        let each = self.reach[2];
        if away < -each { -1 } else { i8::from(away > each) }
    }

    /// The last one, two or three of these are too far away to be an accident.
    fn is_beyond(&self, streak: &[f64]) -> bool {
        let all_beyond = |(count, reach): (usize, &f64)| {
            let last = streak.len().checked_sub(count + 1).map(|from| &streak[from..]);
            last.is_some_and(|last| last.iter().all(|log| (log - self.middle).abs() > *reach))
        };
        self.reach.iter().enumerate().any(all_beyond)
    }
}

/// The standard deviation of what the bulk of sorted samples would be were it normal.
fn scale(sorted: &[f64]) -> f64 {
    let count = sorted.len();
    let mut apart: Vec<f64> = Vec::with_capacity(count * count / 2);
    for (index, high) in sorted.iter().enumerate() {
        apart.extend(sorted[..index].iter().map(|low| high - low));
    }
    apart.sort_by(f64::total_cmp);
    let half = count / 2 + 1;
    let quarter = apart.get((half * (half - 1) / 2).saturating_sub(1)).copied().unwrap_or(0.0);
    let few = if count.is_multiple_of(2) { 3.8 } else { 1.4 };
    let qn = QN_TO_DEVIATION * quarter * count as f64 / (count as f64 + few);
    let tenth = (count as f64 * 0.1).round() as usize;
    let tenths =
        (sorted[count - 1 - tenth.min(count - 1)] - sorted[tenth.min(count - 1)]) / TENTHS_TO_DEVIATION;
    qn.max(tenths).max(LEAST_SCALE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_that_of_normal_samples_and_half_may_lie() {
        let mut dice = linerate_testing::Dice::new(2);
        let mut samples: Vec<f64> = (0..49).map(|_| 0.05 * dice.normal()).collect();
        samples.sort_by(f64::total_cmp);
        let of_normal = scale(&samples);
        assert!((of_normal / 0.05 - 1.0).abs() < 0.25, "{of_normal}");
        // Two speeds are seen, one outlier is not.
        samples[48] = 9.0;
        assert!((scale(&samples) / of_normal - 1.0).abs() < 0.1);
        let two: Vec<f64> = (0..40).map(|index| f64::from(u8::from(index >= 32))).collect();
        assert!(scale(&two) > 0.3);
    }
}
