//! A movie of tiles on disks: a folder with `movie.toml` and one raw file a tile, frames end to end.
//!
//! A tile's file is the tile's frames in 8-bit RGB, line by line, without headers or padding: frame n begins
//! at n × frame size. Beside `movie.toml` lies `r0c0.crc32c`, the checksum of each frame. [`Movie::open`]
//! reads one, [`NewMovie`] makes one, from the test picture ([`generate`]) or from a film.

mod film;
mod generate;
mod import;
mod manifest;
mod new;
mod raw_film;
mod sums;

pub use film::{Film, is_sequence, look_at};
pub use generate::generate;
pub use import::{Fit, ImportEnd, ImportSpec, check_there, expected_frames, import};
#[cfg(test)]
pub(crate) use manifest::MANIFEST_FILE;
pub use manifest::{FORMAT, Manifest, Movie, PixelFormat};
pub use new::NewMovie;
pub use raw_film::look_at_raw;
