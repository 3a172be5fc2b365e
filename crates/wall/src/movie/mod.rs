//! A movie of tiles on disks: a folder with `movie.toml` and one raw file a tile, frames end to end.
//!
//! A tile's file is the tile's frames in 8-bit RGB, line by line, without headers or padding: frame n begins
//! at n × frame size. Beside `movie.toml` lies `r0c0.crc32c`, the checksum of each frame. [`Movie::open`]
//! reads one, [`NewMovie`] makes one, from the test picture ([`generate`]) or from a film.
//!
//! A test movie is painted and written by all cores at once.

mod film;
mod import;
mod manifest;
mod new;

pub use film::{Film, is_sequence, look_at, look_at_raw};
pub use import::{Fit, ImportEnd, ImportSpec, check_there, expected_frames, import};
#[cfg(test)]
pub(crate) use manifest::MANIFEST_FILE;
pub use manifest::{FORMAT, Manifest, Movie, PixelFormat};
pub use new::NewMovie;

use crate::geometry::TileId;
use crate::picture::TestPicture;
use linerate_facts::failure::Failure;
use linerate_system::lock;
use linerate_system::stop::Stop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Frames that are written at once together are about so large: small tiles would cost a system call each.
const RUN_BYTES: usize = 4 << 20;
/// All workers' buffers together; where one frame alone is larger, one worker has it.
const MOST_BUFFER_BYTES: usize = 1 << 30;

/// Paints and writes all frames of a movie; `written` counts bytes for anyone who shows the progress. False:
/// it was stopped before the end.
pub fn generate(
    new: &NewMovie,
    scene: &TestPicture,
    workers: usize,
    stop: &Stop,
    written: &AtomicU64,
) -> Result<bool, Failure> {
    let manifest = new.manifest();
    let frame_bytes = manifest.tile.frame_bytes();
    let run = (RUN_BYTES / frame_bytes).clamp(1, manifest.frames.max(1) as usize) as u32;
    let workers = workers.min(MOST_BUFFER_BYTES / (frame_bytes * run as usize)).max(1);
    let tiles: Vec<TileId> = manifest.grid.tiles().collect();
    let work = PaintWork {
        new,
        scene,
        runs: u64::from(manifest.frames.div_ceil(run)) * tiles.len() as u64,
        tiles,
        run,
        next: AtomicU64::new(0),
        stop,
        written,
        failure: Mutex::new(None),
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            let spawned = std::thread::Builder::new().name("paint".into()).spawn_scoped(scope, || work.all());
            // With fewer threads it only takes longer.
            if spawned.is_err() {
                break;
            }
        }
        work.all();
    });
    match work.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(failure) => Err(failure),
        None => Ok(!stop.is_ended()),
    }
}

/// What is to be done, run by run: the same frames of all tiles, then the next, so that all disks have work.
struct PaintWork<'a> {
    new: &'a NewMovie,
    scene: &'a TestPicture,
    tiles: Vec<TileId>,
    /// Frames of a run.
    run: u32,
    runs: u64,
    next: AtomicU64,
    stop: &'a Stop,
    written: &'a AtomicU64,
    failure: Mutex<Option<Failure>>,
}

impl PaintWork<'_> {
    fn all(&self) {
        if let Err(failure) = self.until_done() {
            self.next.store(self.runs, Ordering::Relaxed);
            let mut first = lock(&self.failure);
            first.get_or_insert(failure);
        }
    }

    fn until_done(&self) -> Result<(), Failure> {
        let frame_bytes = self.new.manifest().tile.frame_bytes();
        let mut buffer: Vec<u8> = Vec::new();
        buffer.try_reserve_exact(frame_bytes * self.run as usize).map_err(|_| {
            Failure::Lacks(format!(
                "there is no memory for frames of {frame_bytes} bytes; take smaller tiles and more of them"
            ))
        })?;
        buffer.resize(frame_bytes * self.run as usize, 0);
        let mut sums = Vec::new();
        while !self.stop.is_ended() {
            let run = self.next.fetch_add(1, Ordering::Relaxed);
            if run >= self.runs {
                break;
            }
            let tiles = self.tiles.len() as u64;
            let tile = (run % tiles) as usize;
            let from = (run / tiles) as u32 * self.run;
            let frames = self.run.min(self.new.manifest().frames - from);
            sums.clear();
            let painted = buffer.chunks_exact_mut(frame_bytes).zip(from..from + frames);
            sums.extend(painted.map(|(bytes, frame)| self.scene.paint(self.tiles[tile], frame, bytes)));
            let bytes = &buffer[..frames as usize * frame_bytes];
            self.new.write(tile, from, bytes, &sums)?;
            self.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}
