//! How much of a part a flow uses, and whether it limits the flow.

/// The use of one part, or of several together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Use {
    /// `45 % of 6.61 GB/s, measured`.
    pub words: String,
    /// Share of the capacity in use, 0 to 1.
    pub share: f64,
    /// What it is to the flow, where it limits it.
    pub limit: Option<LimitSign>,
}

/// A part that limits the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitSign {
    /// The path showed it.
    Bottleneck,
    /// By the stages; the path did not show it, or showed another.
    Predicted,
}

impl LimitSign {
    /// The class of its shapes.
    pub(super) fn class(self) -> &'static str {
        match self {
            LimitSign::Bottleneck => "bottleneck",
            LimitSign::Predicted => "predicted",
        }
    }
}
