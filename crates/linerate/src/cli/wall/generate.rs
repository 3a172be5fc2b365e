//! `linerate wall generate`.

use crate::cli::arguments::wall::WallGenerateArgs;
use crate::cli::output::Output;
use crate::cli::progress::Progress;
use crate::cli::stop::stop_on_signals;
use linerate_facts::failure::Failure;
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_wall::movie::{FORMAT, Manifest, Movie, NewMovie, PixelFormat, generate as paint};
use linerate_wall::picture::TestPicture;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

/// Paints the test movie, and says how fast.
pub(super) fn generate(args: &WallGenerateArgs, output: &Output) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let begin = Instant::now();
    painted(args, &stop, output)?
        .map_or_else(|| interrupted(&args.folder, output), |movie| made(&movie, begin, output))
}

/// The test movie; none where somebody stopped it: what was written goes with the `NewMovie`.
pub(super) fn painted(
    args: &WallGenerateArgs,
    stop: &AtomicBool,
    output: &Output,
) -> Result<Option<Movie>, Failure> {
    let scene = TestPicture::new(args.grid, args.tile, args.fps, args.frames)
        .map_err(|wrong| Failure::Usage(format!("--tile {}: {wrong}", args.tile)))?;
    let manifest = Manifest {
        format: FORMAT,
        grid: args.grid,
        tile: args.tile,
        pixels: PixelFormat::Rgb8,
        frames_per_second: args.fps,
        frames: args.frames,
        stamped: true,
        files: BTreeMap::new(),
    };
    let new = NewMovie::begin(&args.folder, manifest, &args.spread)?;
    let written = AtomicU64::new(0);
    let total = (args.tile.frame_bytes() * args.grid.len()) as u64 * u64::from(args.frames);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let done = Progress::during("wall generate", output, Some(total), &written, show_size, || {
        paint(&new, &scene, workers, stop, &written)
    });
    if !done? {
        return Ok(None);
    }
    new.finish(args.frames).map(Some)
}

/// Ctrl-C.
pub(super) fn interrupted(folder: &Path, output: &Output) -> Result<u8, Failure> {
    output.complain(&format!("interrupted: {} was not complete and is removed", folder.display()));
    Ok(1)
}

/// What was made, and how fast.
pub(super) fn made(movie: &Movie, begin: Instant, output: &Output) -> Result<u8, Failure> {
    let manifest = &movie.manifest;
    let bytes = (manifest.tile.frame_bytes() * manifest.grid.len()) as u64 * u64::from(manifest.frames);
    let seconds = begin.elapsed().as_secs_f64();
    let tiles = if manifest.grid.len() == 1 { "tile" } else { "tiles" };
    output.print(&format!(
        "{}: {} {tiles} of {} pixels, {} frames at {} a second, {} in {seconds:.1} s ({})\n",
        linerate_facts::printable::printable(&movie.folder.display().to_string()),
        manifest.grid.len(),
        manifest.tile,
        manifest.frames,
        manifest.frames_per_second,
        show_size(bytes),
        show_bytes_rate(bytes as f64 / seconds.max(1e-3))
    ))?;
    Ok(0)
}
