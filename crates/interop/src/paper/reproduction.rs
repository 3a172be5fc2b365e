//! Paper beside plan, or beside what was measured: the ratio, and the first cause of a difference.

use super::cause::{Cause, SAME};
use super::file::PaperFigure;
use super::quantity::PublishedQuantity;
use linerate_facts::fact::Fact;
use serde::Serialize;

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
