//! What sets a figure apart from the paper's: under what it was taken, and the causes in their order.

use super::quantity::PublishedQuantity;
use serde::{Deserialize, Serialize};

/// Two figures less than this share apart are the same: papers print three digits.
pub(super) const SAME: f64 = 0.02;

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
