//! `linerate wall import`.

use super::generate::{interrupted, made};
use crate::cli::arguments::wall::ImportArgs;
use crate::cli::output::Output;
use crate::cli::progress::Progress;
use crate::cli::stop::stop_on_signals;
use linerate_facts::failure::Failure;
use linerate_wall::geometry::{FrameRate, Size};
use linerate_wall::movie::{
    FORMAT, Film, Fit, ImportEnd, ImportSpec, Manifest, Movie, NewMovie, PixelFormat, check_there,
    expected_frames, import as cut_film, is_sequence, look_at, look_at_raw,
};
use linerate_wall::picture::room_for_stamp;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

/// What a film or a sequence of pictures that reports no rate is played at.
const CINEMA: FrameRate = FrameRate { numerator: 24, denominator: 1 };

/// Cuts the film, and says how fast.
pub(super) fn import(args: &ImportArgs, output: &Output) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let begin = Instant::now();
    cut(args, &stop, output)?
        .map_or_else(|| interrupted(&args.folder, output), |movie| made(&movie, begin, output))
}

/// The film in tiles; none where somebody stopped it: what was written goes with the `NewMovie`.
pub(super) fn cut(args: &ImportArgs, stop: &AtomicBool, output: &Output) -> Result<Option<Movie>, Failure> {
    check_there(&args.film)?;
    let ffmpeg = args.ffmpeg.clone().unwrap_or_else(|| "ffmpeg".into());
    let film = match args.size {
        Some(size) => look_at_raw(&args.film, size)?,
        None => look_at(&ffmpeg, &args.film)?,
    };
    let tile = tile_of(args, &film)?;
    if args.stamp {
        room_for_stamp(tile).map_err(|wrong| Failure::Usage(format!("--stamp: {wrong}")))?;
    }
    let told = film.frames_per_second.filter(|_| !is_sequence(&args.film));
    let rate = args.fps.or(told).unwrap_or(CINEMA);
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
        ffmpeg,
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
        ImportEnd::Whole { frames, said } => {
            let movie = new.finish(frames)?;
            if let Some(said) = said {
                output.complain(&format!("ffmpeg went on, but said: {said}"));
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
