//! What a frame looks like: the stamp by which it proves itself ([`prove`]), and the test picture that
//! `linerate wall generate` paints ([`Scene`]).

mod scene;
mod stamp;
mod texture;

pub use scene::TestPicture;
pub(crate) use stamp::stamp_and_sum;
pub use stamp::{Proof, Wrong, prove, room_for_stamp, stamp, sum};
