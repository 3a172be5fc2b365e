//! `linerate wall generate`.

use crate::cli::commands::{complain, print};
use crate::cli::stop::stop_on_signals;
use crate::failure::Failure;
use crate::units::{show_bytes_rate, show_size};
use crate::wall::geometry::{FrameRate, Grid, Size};
use crate::wall::movie::{FORMAT, Manifest, Movie, NewMovie, PixelFormat, generate as paint};
use crate::wall::picture::Scene;
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the progress line is drawn anew.
const DRAW: Duration = Duration::from_millis(100);

/// Its words.
#[derive(Debug, Args)]
pub struct GenerateWords {
    /// Folder of the new movie; it must not be there yet, or be empty
    pub folder: PathBuf,
    /// Tiles, columns x rows
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "1x1")]
    pub grid: Grid,
    /// Pixels of each tile
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "1920x1080")]
    pub tile: Size,
    /// Frames a second, like 24 or 30000/1001
    #[arg(long, value_name = "RATE", default_value = "24")]
    pub fps: FrameRate,
    /// Frames of the movie
    #[arg(long, value_name = "NUMBER", default_value_t = 240, value_parser = clap::value_parser!(u32).range(1..))]
    pub frames: u32,
    /// Put the tiles' files on other disks: into a folder with the movie's name in this directory; several directories take them in turn
    #[arg(long, value_name = "DIR")]
    pub spread: Vec<PathBuf>,
}

/// Paints the test movie.
pub fn generate(words: &GenerateWords) -> Result<u8, Failure> {
    let scene = Scene::new(words.grid, words.tile, words.fps, words.frames)
        .map_err(|wrong| Failure::Usage(format!("--tile {}: {wrong}", words.tile)))?;
    let stop = stop_on_signals()?;
    let manifest = Manifest {
        format: FORMAT,
        grid: words.grid,
        tile: words.tile,
        pixels: PixelFormat::Rgb8,
        frames_per_second: words.fps,
        frames: words.frames,
        stamped: true,
        files: BTreeMap::new(),
    };
    let begin = Instant::now();
    let new = NewMovie::begin(&words.folder, manifest, &words.spread)?;
    let written = AtomicU64::new(0);
    let total = (words.tile.frame_bytes() * words.grid.len()) as u64 * u64::from(words.frames);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let done = with_bar(Some(total), &written, show_size, || paint(&new, &scene, workers, &stop, &written));
    if !done? {
        return interrupted(&words.folder);
    }
    made(&new.finish(words.frames)?, begin)
}

/// Ctrl-C: what was written goes with the `NewMovie`.
pub(super) fn interrupted(folder: &Path) -> Result<u8, Failure> {
    complain(&format!("interrupted: {} was not complete and is removed", folder.display()));
    Ok(1)
}

/// What was made, and how fast.
pub(super) fn made(movie: &Movie, begin: Instant) -> Result<u8, Failure> {
    let manifest = &movie.manifest;
    let bytes = (manifest.tile.frame_bytes() * manifest.grid.len()) as u64 * u64::from(manifest.frames);
    let seconds = begin.elapsed().as_secs_f64();
    let tiles = if manifest.grid.len() == 1 { "tile" } else { "tiles" };
    print(&format!(
        "{}: {} {tiles} of {} pixels, {} frames at {} a second, {} in {seconds:.1} s ({})\n",
        crate::report::printable(&movie.folder.display().to_string()),
        manifest.grid.len(),
        manifest.tile,
        manifest.frames,
        manifest.frames_per_second,
        show_size(bytes),
        show_bytes_rate(bytes as f64 / seconds.max(1e-3))
    ))?;
    Ok(0)
}

/// Does something with a bar on a terminal's standard error; elsewhere it is silent. `show` says how far `done` of `total` is.
pub(super) fn with_bar<T>(
    total: Option<u64>,
    done: &AtomicU64,
    show: impl Fn(u64) -> String + Sync,
    work: impl FnOnce() -> T,
) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    let template = if total.is_some() {
        "{elapsed:>3} [{bar:20}] {wide_msg}"
    } else {
        "{spinner} {elapsed:>3} {wide_msg}"
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let now = done.load(Ordering::Relaxed);
                bar.set_position(now);
                let all = total.map_or(String::new(), |total| format!(" of {}", show(total)));
                let left =
                    total.filter(|total| now < *total).map(|_| bar.eta().as_secs()).filter(|left| *left >= 2);
                let left = left.map_or(String::new(), |left| {
                    format!(" · {} left", humantime::format_duration(Duration::from_secs(left)))
                });
                bar.set_message(format!("{}{all}{left}", show(now)));
                std::thread::sleep(DRAW);
            }
        });
        let result = work();
        over.store(true, Ordering::Relaxed);
        bar.finish_and_clear();
        result
    })
}
