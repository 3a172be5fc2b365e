//! A film cut into tiles: ffmpeg decodes and scales it and writes raw pictures into a pipe; here each is cut
//! and written as it comes.

use super::NewMovie;
use super::film::{argument, is_sequence, last_line, not_started};
use crate::geometry::Size;
use crate::picture::{Proof, stamp_and_sum, sum};
use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_system::lock;
use linerate_system::stop::{Stop, any_ended};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes that are taken from the pipe at once; it holds 64 KiB itself.
const READ_BYTES: usize = 1 << 20;
/// What is kept of ffmpeg's words: the last of them count.
const MOST_SAID_BYTES: usize = 16 << 10;
/// Between two looks whether ffmpeg has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How a film of another shape is brought to the wall's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// All of it is seen, with black bars.
    Pad,
    /// The wall is filled; what is over is cut off at both sides.
    Crop,
    /// The wall is filled; the shape is lost.
    Stretch,
}

/// What is cut, and how.
#[derive(Clone, Debug)]
pub struct ImportSpec {
    pub film: PathBuf,
    pub fit: Fit,
    /// It is raw pictures of this size, three bytes a pixel.
    pub raw: Option<Size>,
    /// At most so many frames.
    pub frames: Option<u32>,
    /// Each frame gets its stamp, over its upper left corner.
    pub stamp: bool,
}

/// How the cutting ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportEnd {
    /// All frames are written. ffmpeg may have said that something was wrong with the film, and gone on.
    Whole { frames: u32, stderr: Option<String> },
    /// It was stopped.
    Stopped,
}

/// Cuts a film into the tiles of `new`; `done` counts frames for anyone who shows the progress.
pub fn import(new: &NewMovie, cut: &ImportSpec, stop: &Stop, done: &AtomicU64) -> Result<ImportEnd, Failure> {
    let mut child = ffmpeg_command(new, cut).spawn().map_err(|error| not_started("ffmpeg", &error))?;
    let (pictures, words) = (child.stdout.take(), child.stderr.take());
    let running = ImportChild(Mutex::new(child));
    let over = Stop::new();
    let stderr = Mutex::new(String::new());
    let (frames, status) = std::thread::scope(|scope| {
        let _over = over.ends_at_drop();
        scope.spawn(|| {
            // Whatever ffmpeg hangs on, it ends.
            any_ended(&[stop, &over], None);
            if stop.is_ended() {
                running.kill();
            }
        });
        let heard = scope.spawn(|| words.map(|words| keep_last_words(words, &stderr)));
        let frames = pictures.map_or(Ok(0), |pictures| cut_all(new, cut, pictures, stop, done));
        if frames.is_err() {
            running.kill();
        }
        let status = running.wait();
        let _ = heard.join();
        (frames, status)
    });
    if stop.is_ended() {
        return Ok(ImportEnd::Stopped);
    }
    let stderr = stderr.into_inner().unwrap_or_else(PoisonError::into_inner);
    import_result(cut, new.manifest().frames, frames, status, &stderr)
}

/// What became of it. Our own failure comes first: ffmpeg's is its consequence. `expected` is 0 where nothing
/// said how many frames come.
fn import_result(
    cut: &ImportSpec,
    expected: u32,
    frames: Result<u32, Broken>,
    status: std::io::Result<ExitStatus>,
    stderr: &str,
) -> Result<ImportEnd, Failure> {
    let film = cut.film.display();
    let failed = |what: String| {
        Err(Failure::Lacks(format!("{film}: {what}: {}; what was written is removed", last_line(stderr))))
    };
    match frames {
        Err(Broken::Ours(failure)) => Err(failure),
        Err(Broken::Film { after }) => failed(format!("ffmpeg ended in the midst of frame {after}")),
        Ok(frames) => match status {
            // A film that breaks off is not an error to ffmpeg; one frame less is a matter of rounding.
            Ok(status) if status.success() && !stderr.trim().is_empty() && frames + 1 < expected => {
                failed(format!("only {frames} of {expected} frames came (--frames {frames} takes those)"))
            }
            Ok(status) if status.success() && frames > 0 => {
                let stderr = (!stderr.trim().is_empty()).then(|| last_line(stderr).to_string());
                Ok(ImportEnd::Whole { frames, stderr })
            }
            Ok(status) if status.success() => failed("ffmpeg found not one picture in it".into()),
            Ok(_) => failed(format!("ffmpeg gave up after {frames} frames")),
            Err(error) => failed(format!("ffmpeg was lost ({error})")),
        },
    }
}

/// Why no more frames come.
enum Broken {
    Ours(Failure),
    /// The pipe ended within a frame.
    Film {
        after: u32,
    },
}

/// Ended and reaped also when something fails here.
struct ImportChild(Mutex<Child>);

impl ImportChild {
    fn child(&self) -> MutexGuard<'_, Child> {
        lock(&self.0)
    }

    fn kill(&self) {
        let _ = self.child().kill();
    }

    /// Not by waiting with the lock: anyone who wants to kill needs it.
    fn wait(&self) -> std::io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.child().try_wait()? {
                return Ok(status);
            }
            // Ended by `kill`, so no stop is waited on.
            clock::sleep(POLL_INTERVAL);
        }
    }
}

fn ffmpeg_command(new: &NewMovie, cut: &ImportSpec) -> Command {
    let manifest = new.manifest();
    let rate = manifest.frames_per_second.to_string();
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-hide_banner", "-loglevel", "error"]);
    if let Some(size) = cut.raw {
        let size = size.to_string();
        command.args(["-f", "rawvideo", "-pixel_format", "rgb24", "-video_size", &size]);
    }
    if cut.raw.is_some() || is_sequence(&cut.film) {
        command.args(["-framerate", &rate]);
    }
    command.arg("-i").arg(argument(&cut.film)).args(["-map", "0:v:0"]);
    if let Some(frames) = cut.frames {
        command.args(["-frames:v", &frames.to_string()]);
    }
    let filter = ffmpeg_filter(cut.fit, manifest.grid.pixels(manifest.tile), &rate);
    command.args(["-vf", &filter, "-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:1"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// ffmpeg's filters: the rate, square pixels, the size.
fn ffmpeg_filter(fit: Fit, Size { width, height }: Size, rate: &str) -> String {
    let square = r"scale=max(1\,round(iw*sar)):ih,setsar=1";
    let shape = match fit {
        Fit::Pad => format!(
            "{square},scale={width}:{height}:force_original_aspect_ratio=decrease,pad={width}:{height}:(ow-iw)/2:(oh-ih)/2"
        ),
        Fit::Crop => format!(
            "{square},scale={width}:{height}:force_original_aspect_ratio=increase,crop={width}:{height}"
        ),
        Fit::Stretch => format!("scale={width}:{height}"),
    };
    format!("fps={rate},{shape},setsar=1,format=rgb24")
}

/// Keeps the last of what it says, and reads all: a full pipe would stop it.
fn keep_last_words(mut words: impl Read, stderr: &Mutex<String>) {
    let mut bytes = [0; 4096];
    while let Ok(length @ 1..) = words.read(&mut bytes) {
        let mut stderr = lock(stderr);
        stderr.push_str(&String::from_utf8_lossy(&bytes[..length]));
        let over = stderr.len().saturating_sub(MOST_SAID_BYTES);
        let from = (over..=stderr.len()).find(|at| stderr.is_char_boundary(*at)).unwrap_or(0);
        stderr.drain(..from);
    }
}

/// All frames that come; how many.
fn cut_all(
    new: &NewMovie,
    cut: &ImportSpec,
    pictures: ChildStdout,
    stop: &Stop,
    done: &AtomicU64,
) -> Result<u32, Broken> {
    let mut pictures = BufReader::with_capacity(READ_BYTES, pictures);
    let (grid, tile) = (new.manifest().grid, new.manifest().tile);
    let mut row = Vec::new();
    for _ in 0..grid.columns {
        let mut frame: Vec<u8> = Vec::new();
        let bytes = tile.frame_bytes();
        frame.try_reserve_exact(bytes).map_err(|_| {
            Broken::Ours(Failure::Lacks(format!("there is no memory for a tile's frame of {bytes} bytes")))
        })?;
        frame.resize(bytes, 0);
        row.push(frame);
    }
    let mut frame = 0;
    while cut.frames.is_none_or(|most| frame < most) && !stop.is_ended() {
        if pictures.fill_buf().map_or(true, <[u8]>::is_empty) || frame == u32::MAX {
            break;
        }
        for (index, tile_id) in grid.tiles().enumerate() {
            let column = usize::from(tile_id.column);
            if column == 0 {
                read_row(&mut pictures, &mut row, tile).map_err(|_| Broken::Film { after: frame })?;
            }
            let bytes = &mut row[column];
            let sum = match cut.stamp {
                true => stamp_and_sum(bytes, tile, Proof { tile: tile_id, frame }),
                false => sum(bytes),
            };
            new.write(index, frame, bytes, &[sum]).map_err(Broken::Ours)?;
        }
        frame += 1;
        done.store(u64::from(frame), Ordering::Relaxed);
    }
    Ok(frame)
}

/// A row of tiles: the lines of the picture, each cut into the tiles' lines.
fn read_row(pictures: &mut impl Read, row: &mut [Vec<u8>], tile: Size) -> std::io::Result<()> {
    let bytes = tile.line_bytes();
    for line in 0..tile.height as usize {
        for frame in row.iter_mut() {
            pictures.read_exact(&mut frame[line * bytes..(line + 1) * bytes])?;
        }
    }
    Ok(())
}

/// How many frames it will be, where that can be known: for the progress and for the room on the disks.
pub fn expected_frames(
    film: &super::Film,
    rate: crate::geometry::FrameRate,
    most: Option<u32>,
) -> Option<u32> {
    let own = film.frames_per_second;
    let by_time = film.seconds.map(|seconds| (seconds * rate.per_second()).round());
    let counted = film.frames.filter(|_| own.is_none_or(|own| own == rate)).map(|frames| frames as f64);
    let expected = counted.or(by_time).map(|frames| frames.clamp(1.0, f64::from(u32::MAX)) as u32);
    expected.map(|expected| most.map_or(expected, |most| most.min(expected))).or(most)
}

/// A film that is a file is there.
pub fn check_there(film: &Path) -> Result<(), Failure> {
    let name = film.to_string_lossy();
    if is_sequence(film) || name.contains("://") || film.exists() {
        return Ok(());
    }
    Err(Failure::Lacks(format!(
        "{name} is not there; check the path, or write a sequence of pictures as ffmpeg does, like \
         frame%04d.png"
    )))
}
