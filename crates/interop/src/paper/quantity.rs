//! A figure as a paper prints it: `26.77 Gb/s`, `5 to 6 disk controllers`, `142 W`.

use linerate_facts::units::{parse_duration, parse_rate};
use serde::{Deserialize, Serialize};

/// What a figure counts. Its value has the unit named here, whatever unit the paper prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityKind {
    /// Bytes per second.
    Rate,
    /// Requests per second.
    Requests,
    /// Seconds.
    Time,
    /// Watts.
    Power,
    /// 0 to 1.
    Share,
    /// Parts, clients, screens.
    Count,
    /// CPU seconds per GB.
    CpuCost,
    /// Of the busiest CPU's time, 0 to 1: all, in the kernel, in software interrupts.
    CpuBusy,
    CpuSystem,
    CpuSoftirq,
}

/// A published figure with its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublishedQuantity {
    text: String,
    low: f64,
    high: f64,
    kind: QuantityKind,
    unit: String,
    /// Of the kind's own unit in one of the paper's.
    factor: f64,
}

/// Why a figure cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "“{0}” is not a figure with its unit: write it like 26.77 Gb/s, 813 MiB/s, 3400 IOPS, 18 ms, 142 W, 81 %, \
     5 to 6 disks, 0.33 CPU s/GB, 88 % busy (of the busiest CPU; % system, % softirq)"
)]
pub struct QuantityError(String);

impl TryFrom<String> for PublishedQuantity {
    type Error = QuantityError;

    fn try_from(text: String) -> Result<Self, QuantityError> {
        let wrong = || QuantityError(text.chars().take(60).collect());
        let (first, rest) = text.trim().split_once(' ').ok_or_else(wrong)?;
        let (second, unit) = match rest.trim().strip_prefix("to ") {
            Some(rest) => rest.trim().split_once(' ').ok_or_else(wrong)?,
            None => (first, rest),
        };
        let number = |word: &str| word.parse().ok().filter(|value: &f64| (1e-9..=1e18).contains(value));
        let (low, high) = number(first).zip(number(second)).ok_or_else(wrong)?;
        let unit = unit.trim();
        let (kind, factor) = unit_of(unit).ok_or_else(wrong)?;
        let (low, high) = (low * factor, high * factor);
        match low <= high && high.is_finite() {
            true => Ok(PublishedQuantity { low, high, kind, unit: unit.into(), factor, text }),
            false => Err(wrong()),
        }
    }
}

impl From<PublishedQuantity> for String {
    fn from(quantity: PublishedQuantity) -> String {
        quantity.text
    }
}

/// What a unit counts, and how much of the kind's own unit it is.
fn unit_of(unit: &str) -> Option<(QuantityKind, f64)> {
    if unit.ends_with("/s") || unit.ends_with("ps") {
        return parse_rate(&format!("1 {unit}")).ok().map(|factor| (QuantityKind::Rate, factor));
    }
    match unit {
        "IOPS" => Some((QuantityKind::Requests, 1.0)),
        "W" => Some((QuantityKind::Power, 1.0)),
        "%" => Some((QuantityKind::Share, 0.01)),
        "CPU s/GB" => Some((QuantityKind::CpuCost, 1.0)),
        "% busy" => Some((QuantityKind::CpuBusy, 0.01)),
        "% system" => Some((QuantityKind::CpuSystem, 0.01)),
        "% softirq" => Some((QuantityKind::CpuSoftirq, 0.01)),
        "ns" | "us" | "µs" | "ms" | "s" => {
            Some((QuantityKind::Time, parse_duration(&format!("1{unit}")).ok()?.as_secs_f64()))
        }
        // A word of three letters may be a unit that is not known here.
        noun => {
            let is_noun =
                noun.len() > 3 && noun.chars().all(|letter| letter.is_alphabetic() || letter == ' ');
            is_noun.then_some((QuantityKind::Count, 1.0))
        }
    }
}

impl PublishedQuantity {
    pub fn kind(&self) -> QuantityKind {
        self.kind
    }

    /// A value in the paper's unit, with three digits: `6.92 Gb/s`, `5 disk controllers`.
    pub fn show(&self, value: f64) -> String {
        let value = value / self.factor;
        let decimals = match value {
            _ if self.kind == QuantityKind::Count => 0,
            value if value >= 100.0 => 0,
            value if value >= 10.0 => 1,
            _ => 2,
        };
        format!("{value:.decimals$} {}", self.unit)
    }

    /// As the paper has it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The upper end.
    pub fn most(&self) -> f64 {
        self.high
    }

    /// Of what the paper had, this share is here.
    pub fn scaled(&self, share: f64) -> Self {
        let (low, high) = (self.low * share, self.high * share);
        let text = match low < high {
            true => format!("{} to {}", self.show(low), self.show(high)),
            false => self.show(low),
        };
        PublishedQuantity { low, high, text, ..self.clone() }
    }

    /// The value ÷ what was published; 1 within the range that was.
    pub fn ratio(&self, value: f64) -> f64 {
        match value {
            value if value < self.low => value / self.low,
            value if value > self.high => value / self.high,
            _ => 1.0,
        }
    }
}
