//! One number on the screen: its value where there is one, where it comes from, and whether it is only a
//! lower bound.
//!
//! Runs are read from files that anybody can write: a value that is not finite, negative or beyond all
//! machines is unknown.

use crate::charts::{Quantity, with_unit};
use linerate_facts::fact::Fact;
use linerate_facts::units;
pub(super) use linerate_facts::wording::thousands as count;
use linerate_measure::measure::Measurement;
use linerate_model::plan::{Origin, Resource};

/// No machine moves a zettabyte a second; more is a broken number, and would overflow the arithmetic of the
/// pictures.
const LARGEST_RATE: f64 = 1e21;

/// In what a rate is shown: links in bits, disks and memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Bits,
    Bytes,
}

impl Unit {
    /// A rate in bytes per second, shown: `813 MB/s`, `9.93 Gb/s`.
    pub(super) fn show(self, bytes_per_second: f64) -> String {
        let shown = match self {
            Unit::Bits => units::show_bits_rate(bytes_per_second),
            Unit::Bytes => units::show_bytes_rate(bytes_per_second),
        };
        // 999.7 becomes "1000" and 9.996 "10.00": one digit more than the others, harmless.
        if bytes_per_second == 0.0 { shown.replacen("0.00", "0", 1) } else { shown }
    }

    /// Two rates in the unit of the higher: `20.0–100 MB/s`, `0.50–1.00 Gb/s`; `12.0 kB/s–1.02 GB/s` where
    /// they are far apart.
    pub(super) fn show_range(self, low: f64, high: f64) -> String {
        let (shown_low, shown_high) = (self.show(low), self.show(high));
        if shown_low == shown_high {
            return shown_high;
        }
        let (Some((number, unit)), Some((_, low_unit))) =
            (shown_high.split_once(' '), shown_low.split_once(' '))
        else {
            return shown_high;
        };
        if unit == low_unit {
            let number = shown_low.split(' ').next().unwrap_or_default();
            return format!("{number}–{shown_high}");
        }
        if low < high / 100.0 {
            return format!("{shown_low}–{shown_high}");
        }
        let scaled = number.parse::<f64>().unwrap_or(0.0) * low / high;
        let decimals = if scaled < 9.995 { 2 } else { 1 };
        format!("{scaled:.decimals$}–{shown_high}")
    }
}

/// A rate with its origin.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    /// Bytes per second; none where unknown.
    pub(super) value: Option<f64>,
    pub(super) origin: Origin,
    /// Something else held the stage: the resource can do at least this.
    pub(super) at_least: bool,
    /// Why it is unknown, where a reason is given.
    pub(super) why: Option<String>,
}

impl Figure {
    /// A figure of an origin; unknown where the value is none or no rate.
    pub(super) fn of(value: Option<f64>, origin: Origin) -> Self {
        match value.and_then(rate) {
            Some(value) => Figure { value: Some(value), origin, at_least: false, why: None },
            None => Figure::unknown(None),
        }
    }

    /// A number that is unknown.
    pub(super) fn unknown(why: Option<String>) -> Self {
        Figure { value: None, origin: Origin::Unknown, at_least: false, why }
    }

    /// A fact as a figure.
    pub(super) fn of_fact(fact: &Fact<f64>, origin: Origin) -> Self {
        match fact {
            Fact::Known(value) => Figure::of(Some(*value), origin),
            Fact::Unknown { why } => Figure::unknown(Some(why.clone())),
        }
    }

    /// The capacity that the model used for a resource.
    pub(super) fn capacity(resource: &Resource) -> Self {
        if resource.origin == Origin::Unknown {
            return Figure::unknown(resource.why.clone());
        }
        let mut figure = Figure::of(Some(resource.capacity), resource.origin);
        figure.at_least = resource.lower_bound && figure.value.is_some();
        figure
    }

    /// The data-sheet figure of a resource.
    pub(super) fn rated(resource: &Resource) -> Self {
        level(resource, resource.rated, Origin::Rated)
    }

    /// The data-sheet figure less overhead.
    pub(super) fn effective(resource: &Resource) -> Self {
        level(resource, resource.effective, Origin::Effective)
    }

    /// The sum, unknown as soon as one part is.
    pub(super) fn sum(parts: impl IntoIterator<Item = Figure>) -> Self {
        let mut total = 0.0;
        let mut origin = None;
        let mut at_least = false;
        for part in parts {
            let Some(value) = part.value else { return Figure::unknown(part.why) };
            total += value;
            at_least |= part.at_least;
            origin = Some(part.origin);
        }
        match origin {
            Some(origin) => {
                let figure = Figure::of(Some(total), origin);
                Figure { at_least: at_least && figure.value.is_some(), ..figure }
            }
            None => Figure::unknown(None),
        }
    }

    /// One that is unknown: its name and why.
    pub(super) fn missing(&self, name: &str) -> String {
        let name = name.to_lowercase();
        self.why.as_deref().map_or_else(|| name.clone(), |why| format!("{name} ({why})"))
    }

    /// `813 MB/s`, `≥ 813 MB/s`, `unknown`.
    pub(super) fn show(&self, unit: Unit) -> String {
        match self.value {
            Some(value) if self.at_least => format!("≥ {}", unit.show(value)),
            Some(value) => unit.show(value),
            None => "unknown".into(),
        }
    }
}

fn level(resource: &Resource, given: Option<f64>, origin: Origin) -> Figure {
    let capacity = (resource.origin == origin).then_some(resource.capacity);
    let figure = Figure::of(given.or(capacity), origin);
    if figure.value.is_some() { figure } else { Figure::unknown(resource.why.clone()) }
}

/// A rate that can be shown and drawn.
pub(super) fn rate(value: f64) -> Option<f64> {
    (value.is_finite() && (0.0..=LARGEST_RATE).contains(&value)).then_some(value)
}

/// A share from 0 to 1; what is not finite is 0, what is outside is cut.
pub(super) fn share(value: f64) -> f64 {
    if value.is_finite() { value.clamp(0.0, 1.0) } else { 0.0 }
}

/// A share as percent: `97 %`, `0.4 %`, `100 %`; `–` where it is not a number. Shares above 1 are shown as they
/// are.
pub(super) fn percent(value: f64) -> String {
    let hundred = value * 100.0;
    if !hundred.is_finite() || !(0.0..1e6).contains(&hundred) {
        return "–".into();
    }
    if hundred == 0.0 || hundred >= 9.95 { format!("{hundred:.0} %") } else { format!("{hundred:.1} %") }
}

/// A small positive quantity with three significant digits: `0.214`, `1.25`, `12.5`; `–` where it is none.
pub(super) fn quantity(value: f64) -> String {
    if !(0.0..1e9).contains(&value) {
        return "–".into();
    }
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 1.0 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

/// CPU seconds per 10⁹ bytes: `0.214`; a dash where nothing was measured.
pub(super) fn cost(seconds_per_gb: f64) -> String {
    if seconds_per_gb > 0.0 { quantity(seconds_per_gb) } else { "–".into() }
}

/// Of the repeats; a dash for one.
pub(super) fn spread(measurement: &Measurement) -> String {
    if measurement.samples.len() > 1 { percent(measurement.spread) } else { "–".into() }
}

/// `82 µs`, `1.25 ms`; a dash where nothing was timed.
pub(super) fn seconds_word(seconds: f64) -> String {
    if seconds.is_finite() && seconds > 0.0 { with_unit(Quantity::Seconds, seconds) } else { "–".into() }
}

/// `2000`, `45.1k`.
pub(super) fn operations_word(operations: f64) -> String {
    match rate(operations) {
        Some(operations) if operations >= 1e6 => format!("{:.2}M", operations / 1e6),
        Some(operations) if operations >= 1e4 => format!("{:.1}k", operations / 1e3),
        Some(operations) if operations >= 100.0 => format!("{operations:.0}"),
        Some(operations) => format!("{operations:.1}").trim_end_matches(".0").into(),
        None => "–".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_numbers_are_unknown_not_shown() {
        for value in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert_eq!(Figure::of(Some(value), Origin::Measured).show(Unit::Bits), "unknown");
            assert_eq!(quantity(value), "–");
        }
        assert_eq!(percent(f64::NAN), "–");
        assert_eq!(share(f64::NAN), 0.0);
        assert_eq!([count(0), count(999), count(1000), count(1_234_567)].join(" "), "0 999 1,000 1,234,567");
    }

    #[test]
    fn a_sum_with_an_unknown_part_is_unknown_and_a_lower_bound_spreads() {
        let known = |value| Figure::of(Some(value), Origin::Measured);
        let bound = Figure { at_least: true, ..known(5e7) };
        assert_eq!(Figure::sum([known(5e7), bound]).show(Unit::Bytes), "≥ 100 MB/s");
        assert_eq!(Figure::sum([known(5e7), Figure::unknown(None)]).show(Unit::Bytes), "unknown");
        assert_eq!(Figure::sum([]).show(Unit::Bytes), "unknown");
    }

    #[test]
    fn ranges_share_their_unit() {
        assert_eq!(Unit::Bytes.show_range(20e6, 100e6), "20.0–100 MB/s");
        assert_eq!(Unit::Bytes.show_range(20e6, 2e9), "0.02–2.00 GB/s");
        assert_eq!(Unit::Bytes.show_range(12e3, 1.02e9), "12.0 kB/s–1.02 GB/s");
        assert_eq!(Unit::Bits.show_range(62.5e6, 125e6), "0.50–1.00 Gb/s");
        assert_eq!(Unit::Bits.show_range(1e9, 1e9), "8.00 Gb/s");
    }
}
