//! A paper's experiments as a file that anyone can repeat (TOML): the machine, the steps in the words of linerate's
//! commands, the published figures with unit and place, and what may differ. [`parse`] reads it; [`Reproduction`] sets
//! paper and plan, or paper and measurement, side by side.

mod cause;
mod command;
mod file;
mod quantity;
mod reproduction;

pub use cause::{Cause, CauseKind, Conditions, causes_here};
pub use command::{StepCommand, StepCommandError};
pub use file::{LARGEST_PAPER_BYTES, Paper, PaperError, PaperFigure, PaperStep, parse};
pub use quantity::{PublishedQuantity, QuantityError, QuantityKind};
pub use reproduction::{ReproducedFigure, ReproducedStep, Reproduction};

#[cfg(test)]
mod tests;
