//! A paper's experiments as a file that anyone can repeat (TOML): the machine, the steps in the words of
//! linerate's commands, the published figures with unit and place, and what may differ. [`parse`] reads it;
//! [`Reproduction`] sets paper and plan, or paper and measurement, side by side.

mod file;
mod quantity;

pub use file::{
    LARGEST_PAPER_BYTES, Paper, PaperError, PaperFigure, PaperStep, StepCommand, StepCommandError, parse,
};
pub use quantity::{PublishedQuantity, QuantityError, QuantityKind};

use linerate_facts::fact::Fact;
use serde::{Deserialize, Serialize};

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

/// Two figures less than this share apart are the same: papers print three digits.
const SAME: f64 = 0.02;

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

#[cfg(test)]
mod tests;
