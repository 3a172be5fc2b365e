//! A screen of the wall: receives its tile, puts frames together, shows each at its time, and tells how it
//! does.
//!
//! The way of a datagram: `socket` takes it in, `gate` says whose it is, `sequence` counts it, `frames`
//! copies its pixels to their place (`coverage` knows what is there), `check` proves the whole frame,
//! `deadline` says when it is due, an [`Output`] shows it, such as a `window`. `screen` holds these together
//! (`present`: what is shown when; `hear`: what the server says) without looking at a clock; `run` gives it
//! the socket, the clock and the server (`link`), and shows who looks on how it does (`live`).

mod check;
mod coverage;
mod deadline;
mod describe;
mod frames;
mod gate;
mod hear;
mod link;
mod live;
mod nap;
mod opening;
mod output;
mod present;
mod report;
mod run;
mod screen;
mod sequence;
mod socket;
mod spec;
mod summary;
mod tally;
mod window;

#[cfg(test)]
mod tests;

pub use describe::{Description, DescriptionError, describe};
pub use link::ServerSpec;
pub use live::{Glass, Live, ScreenState};
pub use output::{Output, Raw, ShowResult};
pub use run::{Finished, Listening};
pub use screen::Screen;
pub use spec::{ScreenEnd, ScreenSpec};
pub use summary::{ScreenSummary, ShowSummary};
pub use window::{DisplayOutput, ScreenWindow, ScreenWindowSpec, WindowPlacement, outputs};
