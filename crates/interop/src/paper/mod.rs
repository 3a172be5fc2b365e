//! A paper's experiments as a file that anyone can repeat (TOML): the machine, the steps in the words of
//! linerate's commands, the published figures as a paper prints them (`26.77 Gb/s`, `5 to 6 disk controllers`, `142 W`)
//! with unit and place, and what may differ. [`parse`] reads it;
//! [`Reproduction`] sets paper and plan, or paper and measurement, side by side.

mod file;
#[cfg(test)]
mod tests;

pub use file::{
    LARGEST_PAPER_BYTES, Paper, PaperError, PaperFigure, PaperStep, StepCommand, StepCommandError, parse,
};
use linerate_facts::fact::Fact;
use linerate_facts::units::{parse_duration, parse_rate};
use serde::{Deserialize, Serialize};

/// Two figures less than this share apart are the same: papers print three digits.
const SAME: f64 = 0.02;

/// A paper repeated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reproduction {
    pub paper: String,
    /// On paper, for the paper's machine; else measured here.
    pub planned: bool,
    pub steps: Vec<ReproducedStep>,
}

/// One experiment repeated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReproducedStep {
    pub name: String,
    /// The machine that it was planned for, or measured on.
    pub on: String,
    /// What was run; empty: nothing.
    pub command: String,
    /// Why it was left out, or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
    pub figures: Vec<ReproducedFigure>,
}

/// One figure beside the paper's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReproducedFigure {
    pub what: String,
    pub place: String,
    pub published: PublishedQuantity,
    /// What that is for the parts that are here; none: all are here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaled: Option<PublishedQuantity>,
    /// In the unit of its kind: bytes per second, watts, …
    pub value: Fact<f64>,
    /// The value ÷ what was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// The first is the cause; empty where nothing differs.
    pub causes: Vec<Cause>,
}

impl Reproduction {
    /// The first figure that is not the paper's.
    pub fn first_difference(&self) -> Option<&ReproducedFigure> {
        self.figures().find(|figure| figure.differs())
    }

    pub fn figures(&self) -> impl Iterator<Item = &ReproducedFigure> {
        self.steps.iter().flat_map(|step| &step.figures)
    }
}

impl ReproducedFigure {
    /// `share`: of what the paper had of the part that the figure grows with.
    pub fn new(figure: &PaperFigure, share: f64, value: Fact<f64>, causes: Vec<Cause>) -> Self {
        let scaled = (share < 1.0).then(|| figure.published.scaled(share));
        let against = scaled.as_ref().unwrap_or(&figure.published);
        let ratio = value.known().map(|value| against.ratio(*value)).filter(|ratio| ratio.is_finite());
        let mut reproduced = ReproducedFigure {
            what: figure.what.clone(),
            place: figure.place.clone(),
            published: figure.published.clone(),
            scaled,
            value,
            ratio,
            causes: Vec::new(),
        };
        if reproduced.differs() {
            reproduced.causes = causes;
        }
        reproduced
    }

    pub fn differs(&self) -> bool {
        self.ratio.is_some_and(|ratio| (ratio - 1.0).abs() > SAME)
    }
}

/// Under what the figures were taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// `iperf`, `IOR`.
    pub method: Option<String>,
    /// As the kernel calls it: `xfs`.
    pub file_system: Option<String>,
    /// `2.6.31`.
    pub kernel: Option<String>,
}

/// What sets a figure apart from the paper's, in the order in which it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKind {
    Part,
    Rate,
    Method,
    FileSystem,
    Kernel,
}

impl CauseKind {
    pub fn word(self) -> &'static str {
        match self {
            CauseKind::Part => "part",
            CauseKind::Rate => "rate",
            CauseKind::Method => "method",
            CauseKind::FileSystem => "file system",
            CauseKind::Kernel => "kernel",
        }
    }
}

/// Why two figures differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    pub cause: CauseKind,
    pub words: String,
}

/// What is not here as it was there, most telling first. `parts`: a name, how many are here and how many the paper had;
/// `planned`: what the data sheets of the parts allow, here and there; `conditions`: those of here and there.
pub fn causes_here(
    parts: &[(String, u32, u32)],
    planned: Option<[f64; 2]>,
    published: &PublishedQuantity,
    [here, there]: [&Conditions; 2],
) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut add = |cause: CauseKind, words: String| causes.push(Cause { cause, words });
    for (name, here, there) in parts.iter().filter(|(_, here, there)| here != there) {
        add(CauseKind::Part, format!("{here} {name} here, {there} in the paper"));
    }
    if let Some([ours, theirs]) = planned.filter(|[ours, theirs]| (ours / theirs - 1.0).abs() > SAME) {
        let show = |rate| published.show(rate);
        let words =
            format!("the parts here allow {} by their data sheets, the paper's {}", show(ours), show(theirs));
        add(CauseKind::Rate, words);
    }
    let conditions = [
        (CauseKind::Method, &here.method, &there.method),
        (CauseKind::FileSystem, &here.file_system, &there.file_system),
        (CauseKind::Kernel, &here.kernel, &there.kernel),
    ];
    for (cause, here, there) in conditions {
        if let (Some(here), Some(there)) = (here, there)
            && here != there
        {
            add(cause, format!("{here} here, {there} in the paper"));
        }
    }
    causes
}

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
