//! Axes in numbers: where a value lies, which round values are named, and how they are written.

use super::{Axis, Quantity, ascending};
use linerate_facts::units;

/// A value beyond this is not a figure of any machine, and would overflow the arithmetic of the picture.
const LARGEST: f64 = 1e18;

/// Nor is one below this: down to the smallest number there is, an axis of powers of ten has 300 of them.
const SMALLEST: f64 = 1e-12;

/// Named values: at most so many on one axis.
const MOST_TICKS: usize = 9;

/// One axis over the values that are drawn on it.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    axis: Axis,
    low: f64,
    high: f64,
    /// What the numbers are divided by, and the unit that says so, where all share one.
    divisor: f64,
    unit: String,
}

/// Whether a value can be drawn on an axis.
pub(super) fn drawable(axis: Axis, value: f64) -> bool {
    value.is_finite() && (0.0..=LARGEST).contains(&value) && (!axis.logarithmic || value > 0.0)
}

impl Scale {
    /// Holds all values; none where there is nothing to hold.
    pub(super) fn over(axis: Axis, values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values = values.into_iter().filter(|value| drawable(axis, *value));
        let values = ascending(values.map(|value| value.max(if axis.logarithmic { SMALLEST } else { 0.0 })));
        let (first, last) = (*values.first()?, *values.last()?);
        let (low, high) = if axis.logarithmic {
            bounds_logarithmic(axis.quantity, first, last)
        } else if axis.quantity == Quantity::Percentile {
            (first, last)
        } else if axis.quantity == Quantity::Count {
            (0.0, last * 1.04)
        } else {
            (0.0, bound_linear(last))
        };
        let high = if high > low { high } else { low + 1.0 };
        let (divisor, unit) = unit(axis.quantity, if last > 0.0 { last } else { high });
        Some(Scale { axis, low, high, divisor, unit })
    }

    /// From 0 at the low end to 1 at the high one.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = if self.axis.logarithmic {
            let low = self.low.ln();
            (value.max(self.low).ln() - low) / (self.high.ln() - low)
        } else if self.axis.quantity == Quantity::Percentile {
            (nines(value) - nines(self.low)) / (nines(self.high) - nines(self.low)).max(1e-9)
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// What stands beside the axis: what it measures, and in which unit.
    pub(super) fn title(&self) -> String {
        if self.unit.is_empty() || self.axis.logarithmic {
            self.axis.title.to_string()
        } else {
            format!("{} in {}", self.axis.title, self.unit)
        }
    }

    /// Round values with their words.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let values = match self.axis.quantity {
            Quantity::Percentile => vec![50.0, 90.0, 95.0, 99.0, 99.9, 99.99],
            _ if self.axis.logarithmic => self.ticks_logarithmic(),
            _ => ticks_linear(self.high, self.axis.quantity == Quantity::Count),
        };
        let within = |value: &f64| *value >= self.low * 0.999_999 && *value <= self.high * 1.000_001;
        values.into_iter().filter(within).map(|value| (value, self.word(value))).collect()
    }

    /// The values themselves where they are what the user chose (workers, sizes): these are the round ones
    /// here.
    pub(super) fn ticks_of(&self, values: &[f64]) -> Vec<(f64, String)> {
        values.iter().map(|value| (*value, self.word(*value))).collect()
    }

    fn ticks_logarithmic(&self) -> Vec<f64> {
        if self.axis.quantity == Quantity::Size || self.axis.quantity == Quantity::Count {
            return thinned(
                (0..60).map(|power| 2f64.powi(power)).filter(|v| *v >= self.low && *v <= self.high).collect(),
            );
        }
        let decades = (self.high / self.low).log10();
        let steps: &[f64] = if decades <= 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let all = (first..=last).flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
        thinned(all.filter(|v| *v >= self.low * 0.999_999 && *v <= self.high * 1.000_001).collect())
    }

    /// A value as the axis writes it.
    pub(super) fn word(&self, value: f64) -> String {
        match self.axis.quantity {
            Quantity::Size => units::show_size(value as u64),
            Quantity::Count => trimmed(value),
            Quantity::Percentile => format!("p{}", trimmed(value)),
            _ if self.axis.logarithmic => with_unit(self.axis.quantity, value),
            _ => trimmed(value / self.divisor),
        }
    }
}

/// A value with its unit, for words beside the picture.
pub(crate) fn with_unit(quantity: Quantity, value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    let (divisor, unit) = unit(quantity, value);
    match quantity {
        Quantity::Size => units::show_size(value as u64),
        Quantity::Percentile => format!("p{}", trimmed(value)),
        _ if unit.is_empty() => trimmed(rounded(value / divisor)),
        _ => format!("{} {unit}", trimmed(rounded(value / divisor))),
    }
}

/// Three significant digits, of a value that can be one.
fn rounded(value: f64) -> f64 {
    if value.abs() < SMALLEST {
        return 0.0;
    }
    let value = value.clamp(-LARGEST, LARGEST);
    let scale = 10f64.powi(2 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// The unit in which a number of this size is short.
fn unit(quantity: Quantity, value: f64) -> (f64, String) {
    let step = |steps: &[(f64, &str)]| {
        let fits = steps.iter().find(|(size, _)| value >= *size * 0.999_999).or(steps.last());
        fits.map_or((1.0, String::new()), |(size, unit)| (*size, unit.to_string()))
    };
    match quantity {
        Quantity::Rate => step(&[(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")]),
        Quantity::Operations => step(&[(1e6, "M IOPS"), (1e3, "k IOPS"), (1.0, "IOPS")]),
        Quantity::Seconds => step(&[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]),
        Quantity::Share => (0.01, "%".into()),
        Quantity::Size | Quantity::Count | Quantity::Percentile => (1.0, String::new()),
    }
}

/// A number without digits that say nothing.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// How many nines: 90 → 1, 99.9 → 3. The tail has as much room as it has meaning.
fn nines(percentile: f64) -> f64 {
    -(1.0 - percentile.clamp(0.0, 99.9999) / 100.0).log10()
}

/// The next value of 1, 2, 2.5, 5 times a power of ten that makes at most six steps.
fn step(high: f64) -> f64 {
    let raw = high / 6.0;
    let power = 10f64.powf(raw.log10().floor());
    let found = [1.0, 2.0, 2.5, 5.0, 10.0].iter().map(|m| m * power).find(|step| *step >= raw * 0.999_999);
    found.unwrap_or(10.0 * power)
}

fn bound_linear(last: f64) -> f64 {
    if last < SMALLEST {
        return 1.0;
    }
    let step = step(last * 1.04);
    (last * 1.04 / step).ceil() * step
}

fn ticks_linear(high: f64, whole: bool) -> Vec<f64> {
    let step = if whole { step(high).ceil().max(1.0) } else { step(high) };
    (0..=12).map(|index| f64::from(index) * step).filter(|value| *value <= high * 1.000_001).collect()
}

fn bounds_logarithmic(quantity: Quantity, first: f64, last: f64) -> (f64, f64) {
    match quantity {
        // The values are the ticks: a little air at both ends.
        Quantity::Size | Quantity::Count => {
            let air = (last / first).powf(0.04).max(1.01);
            (first / air, last * air)
        }
        _ => {
            let down = |value: f64| {
                let power = 10f64.powf(value.log10().floor());
                [5.0, 2.0, 1.0].iter().map(|m| m * power).find(|v| *v <= value * 1.000_001).unwrap_or(power)
            };
            let up = |value: f64| {
                let power = 10f64.powf(value.log10().floor());
                [1.0, 2.0, 5.0, 10.0]
                    .iter()
                    .map(|m| m * power)
                    .find(|v| *v >= value * 0.999_999)
                    .unwrap_or(power)
            };
            (down(first), up(last))
        }
    }
}

/// Every second, third … where there are too many.
fn thinned(values: Vec<f64>) -> Vec<f64> {
    let every = values.len().div_ceil(MOST_TICKS).max(1);
    values.into_iter().step_by(every).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const QUANTITIES: [Quantity; 6] = [
        Quantity::Rate,
        Quantity::Operations,
        Quantity::Seconds,
        Quantity::Size,
        Quantity::Count,
        Quantity::Percentile,
    ];

    fn axis(quantity: Quantity, logarithmic: bool) -> Axis {
        Axis { title: "throughput", quantity, logarithmic }
    }

    fn words(axis: Axis, values: &[f64]) -> String {
        let scale = Scale::over(axis, values.iter().copied()).expect("something to draw");
        let ticks: Vec<String> = scale.ticks().into_iter().map(|(_, word)| word).collect();
        format!("{}: {}", scale.title(), ticks.join(" "))
    }

    #[test]
    fn ticks_are_round() {
        insta::assert_snapshot!(words(axis(Quantity::Rate, false), &[0.0, 787e6]), @"throughput in MB/s: 0 \
            200 400 600 800 1000");
        insta::assert_snapshot!(words(axis(Quantity::Rate, false), &[1.1e9, 2.3e9]), @"throughput in GB/s: 0 \
            0.5 1 1.5 2 2.5");
        insta::assert_snapshot!(words(axis(Quantity::Operations, false), &[450_000.0]), @"throughput in k \
            IOPS: 0 100 200 300 400 500");
        insta::assert_snapshot!(words(axis(Quantity::Seconds, true), &[82e-6, 0.11]), @"throughput: 100 µs 1 \
            ms 10 ms 100 ms");
        insta::assert_snapshot!(words(axis(Quantity::Seconds, true), &[82e-6, 1.9e-3]), @"throughput: 50 µs \
            100 µs 200 µs 500 µs 1 ms 2 ms");
        insta::assert_snapshot!(words(axis(Quantity::Size, true), &[4.0, 4096.0]), @"throughput: 4 B 16 B 64 \
            B 256 B 1 KiB 4 KiB");
        insta::assert_snapshot!(words(axis(Quantity::Count, false), &[1.0, 8.0]), @"throughput: 0 2 4 6 8");
        insta::assert_snapshot!(words(axis(Quantity::Percentile, false), &[50.0, 99.99]), @"throughput: p50 \
            p90 p95 p99 p99.9 p99.99");
    }

    proptest! {
        #[test]
        fn every_value_lies_within_and_in_order(
            values in proptest::collection::vec(1e-9f64..1e15, 1..20),
            logarithmic: bool,
            kind in 0usize..5,
        ) {
            let scale = Scale::over(axis(QUANTITIES[kind], logarithmic), values.iter().copied()).expect("values");
            let sorted = ascending(values);
            let places: Vec<f64> = sorted.iter().map(|value| scale.place(*value)).collect();
            prop_assert!(places.windows(2).all(|pair| pair[0] <= pair[1]));
            prop_assert!(places.iter().all(|place| (0.0..=1.0).contains(place)));
            let ticks = scale.ticks();
            prop_assert!(ticks.len() <= 13, "{ticks:?}");
            prop_assert!(ticks.iter().all(|(value, _)| (-1e-9..=1.000_001).contains(&scale.place(*value))));
        }

        /// Whatever a file says: subnormal, nothing, below nothing, the largest, none.
        #[test]
        fn any_number_makes_a_bounded_axis(
            mut values in proptest::collection::vec(any::<f64>(), 0..5),
            odd in 0usize..6,
            logarithmic: bool,
            kind in 0usize..6,
        ) {
            values.push([f64::from_bits(1), f64::MIN_POSITIVE, 0.0, -1.0, f64::MAX, f64::NAN][odd]);
            let axis = axis(QUANTITIES[kind], logarithmic);
            let Some(scale) = Scale::over(axis, values.iter().copied()) else {
                prop_assert!(!values.iter().any(|value| drawable(axis, *value)));
                return Ok(());
            };
            let ticks = scale.ticks();
            prop_assert!(ticks.len() <= 13, "{} ticks", ticks.len());
            let words = ticks.into_iter().chain(scale.ticks_of(&values));
            for value in &values {
                let said = with_unit(axis.quantity, *value);
                prop_assert!(!said.contains("NaN") && !said.contains("inf"), "{value}: {said}");
            }
            for (value, word) in words.filter(|(value, _)| drawable(axis, *value)) {
                prop_assert!((0.0..=1.0).contains(&scale.place(value)), "{value} at {}", scale.place(value));
                prop_assert!(!word.contains("NaN") && !word.contains("inf"), "{word}");
            }
        }
    }
}
