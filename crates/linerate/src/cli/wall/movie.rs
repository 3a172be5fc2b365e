//! `linerate wall generate` and `linerate wall import`: a new movie, painted, or cut out of a film.

use crate::cli::arguments::wall::{ImportArgs, WallGenerateArgs};
use crate::cli::output::Output;
use crate::cli::progress::Progress;
use crate::cli::stop::stop_on_signals;
use linerate_facts::failure::Failure;
use linerate_facts::printable::printable;
use linerate_facts::units::{show_bytes_rate, show_size};
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_wall::geometry::{FrameRate, Size};
use linerate_wall::movie::{
    FORMAT, Film, Fit, ImportEnd, ImportSpec, Manifest, Movie, NewMovie, PixelFormat, check_there,
    expected_frames, generate as paint, import as cut_film, is_sequence, look_at, look_at_raw,
};
use linerate_wall::picture::{TestPicture, room_for_stamp};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// What is played at, where neither the film nor the user reports another rate.
pub(super) const CINEMA: FrameRate = FrameRate { numerator: 24, denominator: 1 };

/// Paints the test movie, and says how fast.
pub(super) fn generate(args: &WallGenerateArgs, output: &Output) -> Result<u8, Failure> {
    make(&args.folder, output, |stop| painted(args, stop, output))
}

/// Cuts the film, and says how fast.
pub(super) fn import(args: &ImportArgs, output: &Output) -> Result<u8, Failure> {
    make(&args.folder, output, |stop| cut(args, stop, output))
}

/// Makes the movie, and says what was made, and how fast.
fn make(
    folder: &Path,
    output: &Output,
    make: impl FnOnce(&Stop) -> Result<Option<Movie>, Failure>,
) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let begin = clock::now();
    let Some(movie) = make(&stop)? else { return interrupted(folder, output) };
    let manifest = &movie.manifest;
    let bytes = (manifest.tile.frame_bytes() * manifest.grid.len()) as u64 * u64::from(manifest.frames);
    let seconds = clock::since(begin).as_secs_f64();
    let tiles = if manifest.grid.len() == 1 { "tile" } else { "tiles" };
    output.print(&format!(
        "{}: {} {tiles} of {} pixels, {} frames at {} a second, {} in {seconds:.1} s ({})\n",
        printable(&movie.folder.display().to_string()),
        manifest.grid.len(),
        manifest.tile,
        manifest.frames,
        manifest.frames_per_second,
        show_size(bytes),
        show_bytes_rate(bytes as f64 / seconds.max(1e-3))
    ))?;
    Ok(0)
}

/// Ctrl-C.
pub(super) fn interrupted(folder: &Path, output: &Output) -> Result<u8, Failure> {
    output.complain(&format!("interrupted: {} was not complete and is removed", folder.display()));
    Ok(1)
}

/// The test movie; none where somebody stopped it: what was written goes with the `NewMovie`.
pub(super) fn painted(
    args: &WallGenerateArgs,
    stop: &Stop,
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

/// The film in tiles; none where somebody stopped it: what was written goes with the `NewMovie`.
pub(super) fn cut(args: &ImportArgs, stop: &Stop, output: &Output) -> Result<Option<Movie>, Failure> {
    check_there(&args.film)?;
    let film = match args.size {
        Some(size) => look_at_raw(&args.film, size)?,
        None => look_at(&args.film)?,
    };
    let tile = tile_of(args, &film)?;
    if args.stamp {
        room_for_stamp(tile).map_err(|wrong| Failure::Usage(format!("--stamp: {wrong}")))?;
    }
    let reported = film.frames_per_second.filter(|_| !is_sequence(&args.film));
    let rate = args.fps.or(reported).unwrap_or(CINEMA);
    let expected = expected_frames(&film, rate, args.frames);
    let manifest = Manifest {
        format: FORMAT,
        grid: args.grid,
        tile,
        pixels: PixelFormat::Rgb8,
        frames_per_second: rate,
        frames: expected.unwrap_or(0),
        stamped: args.stamp,
        files: BTreeMap::new(),
    };
    if let Some((stored, (wide, high))) = film.oblong {
        let kept = if args.fit == Fit::Stretch { " before it is stretched" } else { "" };
        output.complain(&format!(
            "its pixels are {wide}:{high}, no squares: its {stored} are seen as {}{kept}",
            film.size
        ));
    }
    let spec = ImportSpec {
        film: args.film.clone(),
        fit: args.fit,
        raw: args.size,
        frames: args.frames,
        stamp: args.stamp,
    };
    let new = NewMovie::begin(&args.folder, manifest, &args.spread)?;
    let done = AtomicU64::new(0);
    let show = |frames: u64| format!("{frames} frames");
    match Progress::during("wall import", output, expected.map(u64::from), &done, show, || {
        cut_film(&new, &spec, stop, &done)
    })? {
        ImportEnd::Stopped => Ok(None),
        ImportEnd::Whole { frames, stderr } => {
            let movie = new.finish(frames)?;
            if let Some(stderr) = stderr {
                output.complain(&format!("ffmpeg went on, but said: {stderr}"));
            }
            Ok(Some(movie))
        }
    }
}

/// Pixels of a tile, as reported or so that the film stays as sharp as it is.
fn tile_of(args: &ImportArgs, film: &Film) -> Result<Size, Failure> {
    if let Some(tile) = args.tile {
        return Ok(tile);
    }
    let tile = Size {
        width: film.size.width.div_ceil(u32::from(args.grid.columns)),
        height: film.size.height.div_ceil(u32::from(args.grid.rows)),
    };
    // The limits of a size are those of its text.
    tile.to_string()
        .parse()
        .map_err(|wrong| Failure::Usage(format!("{wrong}; give --tile or a --grid of more tiles")))
}
