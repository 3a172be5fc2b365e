//! `linerate wall import`.

use super::generate::{interrupted, made};
use crate::cli::arguments::values::{Choices, one_of};
use crate::cli::commands::complain;
use crate::cli::progress::Progress;
use crate::cli::stop::stop_on_signals;
use clap::Args;
use linerate_facts::failure::Failure;
use linerate_wall::geometry::{FrameRate, Size, WallGrid};
use linerate_wall::movie::{
    FORMAT, Film, Fit, ImportEnd, ImportSpec, Manifest, Movie, NewMovie, PixelFormat, check_there,
    expected_frames, import as cut_film, is_sequence, look_at, look_at_raw,
};
use linerate_wall::picture::room_for_stamp;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

/// What a film or a sequence of pictures that reports no rate is played at.
const CINEMA: FrameRate = FrameRate { numerator: 24, denominator: 1 };

/// Its words.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Anything that ffmpeg reads: a film, or a sequence of pictures in its own writing, like frame%04d.png
    pub film: PathBuf,
    /// Folder of the new movie; it must not be there yet, or be empty
    pub folder: PathBuf,
    /// Pixels of each picture of a film that is raw pictures without a header; with --pixels
    #[arg(long, value_name = "WIDTHxHEIGHT", requires = "pixels")]
    pub size: Option<Size>,
    /// How the pixels of raw pictures are stored; with --size
    #[arg(long, value_name = "FORMAT", value_parser = one_of(RAW_PIXELS), requires = "size")]
    pub pixels: Option<PixelFormat>,
    /// Tiles, columns x rows
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "1x1")]
    pub grid: WallGrid,
    /// Pixels of each tile [default: those of the film, in square pixels, divided by the grid]
    #[arg(long, value_name = "WIDTHxHEIGHT")]
    pub tile: Option<Size>,
    /// Frames a second [default: those of the film; of pictures 24]
    #[arg(long, value_name = "RATE")]
    pub fps: Option<FrameRate>,
    /// At most this number of frames [default: all]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub frames: Option<u32>,
    /// How a film of another shape fills the wall; pixels that are no squares (DVDs, anamorphic film) are
    /// made square first
    #[arg(long, value_name = "HOW", value_parser = one_of(FITS), default_value = "pad")]
    pub fit: Fit,
    /// Stamp each frame over its upper left corner, so that it proves itself
    #[arg(long)]
    pub stamp: bool,
    /// Put the tiles' files on other disks: into a folder with the movie's name in this directory; several
    /// directories take them in turn
    #[arg(long, value_name = "DIR")]
    pub spread: Vec<PathBuf>,
    /// The ffmpeg to use, with its ffprobe beside it [default: the one in PATH]
    #[arg(long, value_name = "FILE")]
    pub ffmpeg: Option<PathBuf>,
}

/// `--pixels`.
const RAW_PIXELS: Choices<PixelFormat> =
    &[("rgb24", "Red, green and blue, a byte each, line after line", PixelFormat::Rgb8)];

/// `--fit`.
const FITS: Choices<Fit> = &[
    ("pad", "All of it, with black bars", Fit::Pad),
    ("crop", "No bars; what is over is cut off", Fit::Crop),
    ("stretch", "No bars, nothing cut off, another shape", Fit::Stretch),
];

/// Cuts the film, and says how fast.
pub(super) fn import(words: &ImportArgs) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let begin = Instant::now();
    cut(words, &stop)?.map_or_else(|| interrupted(&words.folder), |movie| made(&movie, begin))
}

/// The film in tiles; none where somebody stopped it: what was written goes with the `NewMovie`.
pub(super) fn cut(words: &ImportArgs, stop: &AtomicBool) -> Result<Option<Movie>, Failure> {
    check_there(&words.film)?;
    let ffmpeg = words.ffmpeg.clone().unwrap_or_else(|| "ffmpeg".into());
    let film = match words.size {
        Some(size) => look_at_raw(&words.film, size)?,
        None => look_at(&ffmpeg, &words.film)?,
    };
    let tile = tile_of(words, &film)?;
    if words.stamp {
        room_for_stamp(tile).map_err(|wrong| Failure::Usage(format!("--stamp: {wrong}")))?;
    }
    let told = film.frames_per_second.filter(|_| !is_sequence(&words.film));
    let rate = words.fps.or(told).unwrap_or(CINEMA);
    let expected = expected_frames(&film, rate, words.frames);
    let manifest = Manifest {
        format: FORMAT,
        grid: words.grid,
        tile,
        pixels: PixelFormat::Rgb8,
        frames_per_second: rate,
        frames: expected.unwrap_or(0),
        stamped: words.stamp,
        files: BTreeMap::new(),
    };
    if let Some((stored, (wide, high))) = film.oblong {
        let kept = if words.fit == Fit::Stretch { " before it is stretched" } else { "" };
        complain(&format!(
            "its pixels are {wide}:{high}, no squares: its {stored} are seen as {}{kept}",
            film.size
        ));
    }
    let spec = ImportSpec {
        ffmpeg,
        film: words.film.clone(),
        fit: words.fit,
        raw: words.size,
        frames: words.frames,
        stamp: words.stamp,
    };
    let new = NewMovie::begin(&words.folder, manifest, &words.spread)?;
    let done = AtomicU64::new(0);
    let show = |frames: u64| format!("{frames} frames");
    match Progress::during("wall import", expected.map(u64::from), &done, show, || {
        cut_film(&new, &spec, stop, &done)
    })? {
        ImportEnd::Stopped => Ok(None),
        ImportEnd::Whole { frames, said } => {
            let movie = new.finish(frames)?;
            if let Some(said) = said {
                complain(&format!("ffmpeg went on, but said: {said}"));
            }
            Ok(Some(movie))
        }
    }
}

/// Pixels of a tile, as reported or so that the film stays as sharp as it is.
fn tile_of(words: &ImportArgs, film: &Film) -> Result<Size, Failure> {
    if let Some(tile) = words.tile {
        return Ok(tile);
    }
    let tile = Size {
        width: film.size.width.div_ceil(u32::from(words.grid.columns)),
        height: film.size.height.div_ceil(u32::from(words.grid.rows)),
    };
    // The limits of a size are those of its text.
    tile.to_string()
        .parse()
        .map_err(|wrong| Failure::Usage(format!("{wrong}; give --tile or a --grid of more tiles")))
}
