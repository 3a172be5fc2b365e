//! What a screen shows of a movie that is moved or enlarged: put together out of several tiles, on a thread
//! beside the worker.
//!
//! The worker goes on sending while this reads and copies: it hands over a frame's memory and gets it back
//! filled. Only the lines that are seen are read, through the page cache, since neighbouring screens need the
//! same ones. An enlarged movie shows its nearest pixels.
//!
//! A preview is a small picture of what a tile shows, for anyone who looks at the wall from afar: it is made
//! only while somebody does.

use super::counters::TileCounters;
use super::program::Shot;
use crate::control::{Preview, View};
use crate::geometry::{PIXEL_BYTES, Size, TileId};
use crate::movie::Movie;
use linerate_system::buffers::Lease;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, channel, sync_channel};
use thiserror::Error;

/// One frame to be put together.
#[derive(Debug)]
pub(crate) struct Job {
    pub shot: Shot,
    pub lease: Lease,
}

/// Why a frame is not there.
#[derive(Debug, Error)]
pub(crate) enum ComposeError {
    #[error("there is no such movie")]
    NoMovie,
    #[error("the memory is smaller than a frame")]
    SmallMemory,
    #[error("tile {tile}: {}: {error}", path.display())]
    Tile { tile: TileId, path: PathBuf, error: io::Error },
}

/// A job that is over.
#[derive(Debug)]
pub(crate) struct ComposedJob {
    pub lease: Lease,
    /// Bytes that were read, or why the frame is not there.
    pub result: Result<u64, ComposeError>,
}

/// The worker's side of the thread.
#[derive(Debug)]
pub(crate) struct Composer {
    jobs: SyncSender<Job>,
    done: Receiver<ComposedJob>,
    in_flight: usize,
}

impl Composer {
    /// For the screen at `tile` of `size` pixels; at most `most` frames at once. The thread ends with this
    /// value.
    pub(crate) fn start(movies: Vec<Movie>, tile: TileId, size: Size, most: usize) -> io::Result<Composer> {
        let (jobs, todo) = sync_channel::<Job>(most.max(1));
        let (tell, done) = channel();
        let mut darkroom =
            Darkroom { movies, tile, size, files: HashMap::new(), lines: Vec::new(), columns: Vec::new() };
        std::thread::Builder::new().name(format!("compose {tile}")).spawn(move || {
            for Job { shot, mut lease } in todo {
                let result = darkroom.compose(shot, lease.bytes_mut());
                if tell.send(ComposedJob { lease, result }).is_err() {
                    return;
                }
            }
        })?;
        Ok(Composer { jobs, done, in_flight: 0 })
    }

    /// Hands a frame over; gives the memory back where too many are in flight.
    pub(crate) fn submit(&mut self, job: Job) -> Result<(), Lease> {
        match self.jobs.try_send(job) {
            Ok(()) => {
                self.in_flight += 1;
                Ok(())
            }
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => Err(job.lease),
        }
    }

    /// A frame that is over, if there is one.
    pub(crate) fn poll(&mut self) -> Option<ComposedJob> {
        match self.done.try_recv() {
            Ok(done) => {
                self.in_flight -= 1;
                Some(done)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    /// Frames that are not over.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }
}

/// The thread's side.
struct Darkroom {
    movies: Vec<Movie>,
    tile: TileId,
    size: Size,
    /// By movie and tile, opened when they are first seen.
    files: HashMap<(usize, TileId), File>,
    /// The lines of one tile that are seen, used again and again.
    lines: Vec<u8>,
    /// For each column of the screen the column of the tile that is shown there.
    columns: Vec<usize>,
}

impl Darkroom {
    /// Fills the first bytes of `into` with the screen's pixels; black where the movie has none.
    fn compose(&mut self, shot: Shot, into: &mut [u8]) -> Result<u64, ComposeError> {
        let movie = self.movies.get(shot.movie).ok_or(ComposeError::NoMovie)?;
        let manifest = &movie.manifest;
        let (grid, tile) = (manifest.grid, manifest.tile);
        let frame = into.get_mut(..self.size.frame_bytes()).ok_or(ComposeError::SmallMemory)?;
        frame.fill(0);
        let across = Axis::new(shot.view.left, shot.view.zoom, self.tile.column, self.size.width);
        let down = Axis::new(shot.view.top, shot.view.zoom, self.tile.row, self.size.height);
        let columns = across.parts(tile.width, grid.columns);
        let mut read = 0;
        for (row, ys) in down.parts(tile.height, grid.rows) {
            for (column, xs) in &columns {
                let source = TileId { row, column: *column };
                let lines = down.at(ys.start)..down.at(ys.end - 1) + 1;
                let lines = lines.start - i64::from(row) * i64::from(tile.height)
                    ..lines.end - i64::from(row) * i64::from(tile.height);
                read += self.read_lines(shot, source, tile, &lines)?;
                self.columns.clear();
                let first = i64::from(*column) * i64::from(tile.width);
                self.columns.extend(xs.clone().map(|x| (across.at(x) - first) as usize * PIXEL_BYTES));
                for y in ys.clone() {
                    let line = down.at(y) - i64::from(row) * i64::from(tile.height) - lines.start;
                    let from = &self.lines[line as usize * tile.line_bytes()..][..tile.line_bytes()];
                    let to = &mut frame[y as usize * self.size.line_bytes()..][..self.size.line_bytes()];
                    let to = &mut to[xs.start as usize * PIXEL_BYTES..xs.end as usize * PIXEL_BYTES];
                    copy_line(from, to, &self.columns, shot.view);
                }
            }
        }
        Ok(read)
    }

    /// The lines of a tile's frame that are seen, into `lines`.
    fn read_lines(
        &mut self,
        shot: Shot,
        source: TileId,
        tile: Size,
        lines: &Range<i64>,
    ) -> Result<u64, ComposeError> {
        let path = self.movies[shot.movie].tile_path(source);
        let wrong = |error| ComposeError::Tile { tile: source, path: path.clone(), error };
        let file = match self.files.entry((shot.movie, source)) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(File::open(&path).map_err(wrong)?)
            }
        };
        let bytes = (lines.end - lines.start) as usize * tile.line_bytes();
        self.lines.resize(bytes, 0);
        let at =
            u64::from(shot.frame) * tile.frame_bytes() as u64 + lines.start as u64 * tile.line_bytes() as u64;
        file.read_exact_at(&mut self.lines, at).map_err(wrong)?;
        Ok(bytes as u64)
    }
}

/// One line of a tile onto a part of a line of the screen.
fn copy_line(from: &[u8], to: &mut [u8], columns: &[usize], view: View) {
    if view.zoom == 1.0 {
        if let Some(first) = columns.first() {
            let length = to.len();
            to.copy_from_slice(&from[*first..first + length]);
        }
        return;
    }
    for (pixel, column) in to.chunks_exact_mut(PIXEL_BYTES).zip(columns) {
        pixel.copy_from_slice(&from[*column..column + PIXEL_BYTES]);
    }
}

/// Screen pixels and movie pixels along one side.
struct Axis {
    /// Movie pixel at the wall's edge.
    start: f64,
    zoom: f64,
    /// Wall pixels before this screen.
    before: f64,
    length: u32,
}

impl Axis {
    fn new(start: f64, zoom: f64, place: u16, length: u32) -> Axis {
        Axis { start, zoom, before: f64::from(place) * f64::from(length), length }
    }

    /// The movie pixel that a pixel of the screen shows.
    fn at(&self, pixel: u32) -> i64 {
        (self.start + (self.before + f64::from(pixel)) / self.zoom + 1e-9).floor() as i64
    }

    /// For each tile of the movie that is seen: its place, and the screen's pixels that it fills.
    fn parts(&self, tile: u32, tiles: u16) -> Vec<(u16, Range<u32>)> {
        let mut parts: Vec<(u16, Range<u32>)> = Vec::new();
        for pixel in 0..self.length {
            let movie = self.at(pixel);
            if movie < 0 || movie >= i64::from(tile) * i64::from(tiles) {
                continue;
            }
            let place = (movie / i64::from(tile)) as u16;
            match parts.last_mut() {
                Some((last, range)) if *last == place => range.end = pixel + 1,
                _ => parts.push((place, pixel..pixel + 1)),
            }
        }
        parts
    }
}

/// Pixels of a small picture's longer side.
const LONGER_SIDE: u32 = 160;
/// A preview is made so often at most, nanoseconds.
const PREVIEW_EVERY_NANOS: u64 = 200_000_000;
/// anyone who has asked is taken to look for so long, nanoseconds.
const LOOKS_FOR: u64 = 5_000_000_000;

/// Somebody looks.
pub(crate) fn wanted(counters: &TileCounters, now: u64) {
    counters.preview_until.store(now + LOOKS_FOR, Ordering::Relaxed);
}

/// Makes a small picture of a frame, if somebody looks and the last one is old enough.
pub(crate) fn paint(counters: &TileCounters, size: Size, pixels: &[u8], now: u64) {
    if counters.preview_until.load(Ordering::Relaxed) < now
        || now.saturating_sub(counters.preview_at.load(Ordering::Relaxed)) < PREVIEW_EVERY_NANOS
    {
        return;
    }
    counters.preview_at.store(now, Ordering::Relaxed);
    counters.show_preview(|held| {
        let preview = held.get_or_insert_with(|| Preview {
            tile: TileId { row: 0, column: 0 },
            width: 0,
            height: 0,
            rgb: Vec::new(),
        });
        shrink(size, pixels, preview);
    });
}

/// The nearest pixels, on a raster of whole steps.
fn shrink(size: Size, pixels: &[u8], into: &mut Preview) {
    let step = size.width.max(size.height).div_ceil(LONGER_SIDE).max(1);
    let (width, height) = (size.width.div_ceil(step), size.height.div_ceil(step));
    (into.width, into.height) = (width as u16, height as u16);
    into.rgb.clear();
    for row in 0..height {
        let line = (row * step) as usize * size.line_bytes();
        for column in 0..width {
            let at = line + (column * step) as usize * PIXEL_BYTES;
            into.rgb.extend(pixels.get(at..at + PIXEL_BYTES).unwrap_or(&[0; PIXEL_BYTES]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::movie::MANIFEST_FILE;
    use linerate_system::buffers::Pool;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    const TILE: Size = Size { width: 7, height: 5 };

    /// A movie of 3 × 2 tiles and 2 frames, in which each pixel tells where it is.
    fn movie(folder: &std::path::Path) -> Movie {
        let text = "format = 1\ngrid = \"3x2\"\ntile = \"7x5\"\npixels = \"rgb8\"\nframes_per_second = \
                    \"24\"\nframes = 2\n";
        std::fs::write(folder.join(MANIFEST_FILE), text).expect("written");
        for row in 0..2u8 {
            for column in 0..3u8 {
                let mut bytes = Vec::new();
                for frame in 0..2u8 {
                    for y in 0..5u8 {
                        (0..7u8).for_each(|x| bytes.extend([column * 7 + x, row * 5 + y, 100 + frame]));
                    }
                }
                std::fs::write(folder.join(format!("r{row}c{column}.rgb")), bytes).expect("written");
            }
        }
        Movie::open(folder).expect("a movie")
    }

    fn composed(movie: &Movie, tile: TileId, view: View) -> Vec<u8> {
        let mut composer = Composer::start(vec![movie.clone()], tile, TILE, 2).expect("a thread");
        let lease = Pool::new(1, TILE.frame_bytes()).ok().and_then(|mut pool| pool.take()).expect("memory");
        composer.submit(Job { shot: Shot { movie: 0, frame: 1, view }, lease }).expect("room");
        let since = Instant::now();
        loop {
            if let Some(done) = composer.poll() {
                assert_eq!((done.lease.number(), composer.in_flight()), (0, 0));
                done.result.expect("composed");
                return done.lease.bytes()[..TILE.frame_bytes()].to_vec();
            }
            assert!(since.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn each_pixel_is_the_one_that_lies_there(
            row in 0u16..2, column in 0u16..2, left in -9.0f64..20.0, top in -9.0f64..12.0, zoom in prop::sample::select(vec![0.4, 0.5, 1.0, 1.0, 1.7, 3.0]),
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let movie = movie(folder.path());
            let (left, top) = if zoom == 1.0 { (left.round(), top.round()) } else { (left, top) };
            let pixels = composed(&movie, TileId { row, column }, View { left, top, zoom });
            for y in 0..5u32 {
                for x in 0..7u32 {
                    let mx = (left + f64::from(u32::from(column) * 7 + x) / zoom + 1e-9).floor();
                    let my = (top + f64::from(u32::from(row) * 5 + y) / zoom + 1e-9).floor();
                    let inside = (0.0..21.0).contains(&mx) && (0.0..10.0).contains(&my);
                    let wanted = if inside { [mx as u8, my as u8, 101] } else { [0; 3] };
                    let at = (y * 7 + x) as usize * 3;
                    prop_assert_eq!(&pixels[at..at + 3], &wanted[..], "{} {}", x, y);
                }
            }
        }
    }

    #[test]
    fn a_tile_that_is_gone_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let movie = movie(folder.path());
        std::fs::remove_file(folder.path().join("r0c1.rgb")).expect("removed");
        let mut darkroom = Darkroom {
            movies: vec![movie],
            tile: TileId { row: 0, column: 0 },
            size: TILE,
            files: HashMap::new(),
            lines: Vec::new(),
            columns: Vec::new(),
        };
        let shot = Shot { movie: 0, frame: 0, view: View { left: 3.0, top: 0.0, zoom: 1.0 } };
        let why = darkroom.compose(shot, &mut vec![0; TILE.frame_bytes()]).expect_err("a hole");
        assert!(why.to_string().contains("r0c1"), "{why}");
    }

    #[test]
    fn small_pictures_are_made_while_somebody_looks() {
        let counters = TileCounters::default();
        let size = Size { width: 2560, height: 1600 };
        let pixels = vec![7; size.frame_bytes()];
        paint(&counters, size, &pixels, 1_000_000_000);
        assert_eq!(counters.preview(), None);
        wanted(&counters, 1_000_000_000);
        paint(&counters, size, &pixels, 1_000_000_001);
        let preview = counters.preview().expect("a picture");
        assert_eq!((preview.width, preview.height, preview.rgb.len()), (160, 100, 160 * 100 * 3));
        assert!(preview.rgb.iter().all(|value| *value == 7));
    }
}
