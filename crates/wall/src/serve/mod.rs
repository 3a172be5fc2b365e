//! The streaming server: a worker for each tile reads its frames ahead and sends them, at the right moment,
//! to its screen.
//!
//! [`Player`] is the whole of it: it opens the movies, deals the tiles to the NICs, starts the workers,
//! watches the NICs and does what the control channel asks ([`crate::control::Conductor`]). A worker is one
//! thread with its own ring and its own memory; the frame's pixels go from the disk into that memory and from
//! there to the kernel's network, and are not copied in between.

mod ahead;
mod answers;
mod compose;
mod conduct;
mod counters;
mod follow;
mod frame_clock;
mod health;
mod keeper;
mod nics;
mod others;
mod player;
mod power;
mod preview;
mod program;
mod sample;
mod settings;
mod setup;
mod source;
mod start;
mod summary;
mod tile_sender;
mod tiles;
mod view;
mod wire;

pub use follow::follow;
pub use player::Player;
pub use settings::{Leader, Sending, ServeSettings, ServedScreen};
