//! Somebody who plays nothing, but keeps a timeline and remembers what was asked.
//! Two test programs use it, each some of it.
#![allow(dead_code)]

use linerate::wall::control::{
    Assignment, Conductor, ControlRequest, Lead, MovieLine, Preview, Refusal, ScreenReport, View,
};
use linerate::wall::geometry::{FrameRate, Size, TileId};
use linerate::wall::status::{DiskStatus, NicStatus, TileStatus, WallStatus};
use linerate::wall::timeline::Timeline;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

pub const RATE: FrameRate = FrameRate { numerator: 24, denominator: 1 };
pub const FRAMES: u32 = 2880;
/// Pixels of a tile of the wall.
const TILE: Size = Size { width: 2560, height: 1600 };
const PREVIEW: (u16, u16) = (64, 40);
/// For pictures.
const FINE_PREVIEW: (u16, u16) = (160, 100);

pub struct Fake {
    start: Instant,
    columns: u16,
    rows: u16,
    inside: Mutex<Inside>,
}

struct Inside {
    timeline: Timeline,
    view: View,
    movie: String,
    asked: Vec<ControlRequest>,
    reports: Vec<ScreenReport>,
    /// Names that a server would get from outside.
    odd: bool,
    trouble: bool,
    previews: u16,
}

/// A request of each kind that is answered by being done.
pub fn all_that_is_done(speed: f64) -> [ControlRequest; 8] {
    [
        ControlRequest::Pause,
        ControlRequest::Play,
        ControlRequest::Seek { frame: 100 },
        ControlRequest::Speed { speed },
        ControlRequest::Loop { on: false },
        ControlRequest::View(View { left: 1.0, top: 2.0, zoom: 0.5 }),
        ControlRequest::Pan { right: 10.0, down: -5.0, zoom: 1.1 },
        ControlRequest::Open { movie: "holiday".into() },
    ]
}

impl Fake {
    pub fn new(columns: u16, rows: u16) -> Arc<Fake> {
        let inside = Inside {
            timeline: Timeline::new(RATE, FRAMES, now(), true),
            view: View::WHOLE,
            movie: "tokyo-8k".into(),
            asked: Vec::new(),
            reports: Vec::new(),
            odd: false,
            trouble: false,
            previews: 0,
        };
        Arc::new(Fake { start: Instant::now(), columns, rows, inside: Mutex::new(inside) })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().expect("no test holds it in a panic")
    }

    /// What was asked so far.
    pub fn asked(&self) -> Vec<ControlRequest> {
        self.lock().asked.clone()
    }

    pub fn reports(&self) -> Vec<ScreenReport> {
        self.lock().reports.clone()
    }

    pub fn view(&self) -> View {
        self.lock().view
    }

    /// As if something else than a request had changed it.
    pub fn change(&self, change: impl FnOnce(&Timeline) -> Timeline) {
        let mut inside = self.lock();
        inside.timeline = change(&inside.timeline);
    }

    /// A NIC without carrier, a screen that loses, a disk that holds the wall.
    pub fn trouble(&self, trouble: bool) {
        self.lock().trouble = trouble;
    }

    pub fn odd_names(&self) {
        let mut inside = self.lock();
        inside.odd = true;
        inside.movie = "<img src=x onerror=alert(1)>\u{202e}磁盘".into();
    }

    fn tiles(&self) -> impl Iterator<Item = TileId> {
        let (rows, columns) = (self.rows, self.columns);
        (0..rows).flat_map(move |row| (0..columns).map(move |column| TileId { row, column }))
    }

    fn holds(&self, tile: TileId) -> bool {
        tile.row < self.rows && tile.column < self.columns
    }
}

/// The tick that lasts.
pub fn now() -> u64 {
    RATE.tick_at(SystemTime::now())
}

impl Conductor for Fake {
    fn ask(&self, request: &ControlRequest) -> Result<(), Refusal> {
        let mut inside = self.lock();
        inside.asked.push(request.clone());
        let (at, old) = (now() + 1, inside.timeline.clone());
        match request {
            ControlRequest::Play => inside.timeline = old.play(at),
            ControlRequest::Pause => inside.timeline = old.pause(at),
            ControlRequest::Seek { frame } => inside.timeline = old.seek(at, *frame),
            ControlRequest::Speed { speed } => inside.timeline = old.set_speed(at, *speed),
            ControlRequest::Loop { on } => inside.timeline = old.set_looping(at, *on),
            ControlRequest::View(view) => inside.view = *view,
            ControlRequest::Pan { right, down, zoom } => {
                inside.view.left = (inside.view.left + right).clamp(0.0, 2560.0);
                inside.view.top = (inside.view.top + down).clamp(0.0, 1600.0);
                inside.view.zoom = (inside.view.zoom * zoom).clamp(0.25, 8.0);
            }
            ControlRequest::Open { movie } if movie == "none" => {
                return Err("there is no movie “none”; “movies” lists those that are there".into());
            }
            ControlRequest::Open { movie } => inside.movie = movie.clone(),
            other => return Err(format!("{other:?} is not for a conductor").into()),
        }
        Ok(())
    }

    fn timeline(&self) -> Timeline {
        self.lock().timeline.clone()
    }

    fn status(&self) -> WallStatus {
        let inside = self.lock();
        let seconds = self.start.elapsed().as_secs_f64();
        let segment = inside.timeline.segment_at(now());
        let wave = |phase: f64| 1.0 + 0.04 * (seconds * 1.7 + phase).sin();
        let each = if segment.playing { 12_288_000.0 * 24.0 * wave(0.0) } else { 0.0 };
        let count = self.tiles().count();
        let nic_of = |index: usize| index * 4 / count.max(1);
        let tiles: Vec<TileStatus> = self
            .tiles()
            .enumerate()
            .map(|(index, tile)| {
                let bad = inside.trouble && index == 6;
                let cut = inside.trouble && nic_of(index) == 3;
                let rate = if segment.playing { 12_288_000.0 * 24.0 * wave(index as f64 * 0.4) } else { 0.0 };
                TileStatus {
                    tile,
                    screen: if inside.odd {
                        format!("<b>screen</b>{index}:5004")
                    } else {
                        format!("10.0.{}.{}:5004", tile.row, 10 + tile.column)
                    },
                    nic: Some(format!("eth{}", nic_of(index))),
                    bytes_per_second: if cut { rate * 0.5 } else { rate },
                    bytes: (rate * seconds) as u64,
                    datagrams: (rate * seconds / 8900.0) as u64,
                    frames_sent: (24.0 * seconds) as u64,
                    dropped_by_disk: if inside.trouble { 2 } else { 0 },
                    dropped_by_network: if cut { (11.0 * seconds) as u64 + 3 } else { 0 },
                    dropped_by_cpu: 0,
                    busy: 0.22,
                    starved: 0.05,
                    blocked: if cut { 0.6 } else { 0.04 },
                    prefetched: 6,
                    report: (index != 11 || !inside.trouble).then(|| ScreenReport {
                        tile: Some(tile),
                        datagrams: (rate * seconds / 8900.0) as u64,
                        datagrams_lost: if bad { 1824 } else { 0 },
                        frames_shown: (24.0 * seconds) as u64,
                        frames_late: if bad { 17 } else { 0 },
                        frames_torn: if bad { 4 } else { 0 },
                        presented_ms: Some(3.1 + index as f64 * 0.05),
                        presented_p50_ms: Some(3.0),
                        presented_p99_ms: Some(3.4 + index as f64 * 0.1),
                        ..ScreenReport::default()
                    }),
                    report_age_seconds: (index != 11 || !inside.trouble).then_some(0.4),
                    problem: cut.then(|| "eth3 has no carrier: the tile goes nowhere".into()),
                }
            })
            .collect();
        let nics: Vec<NicStatus> = (0..4)
            .map(|nic| {
                let own: Vec<TileId> =
                    self.tiles().enumerate().filter(|(i, _)| nic_of(*i) == nic).map(|(_, t)| t).collect();
                let rate: f64 = tiles
                    .iter()
                    .filter(|tile| own.contains(&tile.tile))
                    .map(|tile| tile.bytes_per_second)
                    .sum();
                NicStatus {
                    name: format!("eth{nic}"),
                    bytes_per_second: rate,
                    wire_bytes_per_second: Some(rate * 1.01),
                    link_bits_per_second: (nic != 2).then_some(10e9),
                    carrier: !(inside.trouble && nic == 3),
                    tiles: own,
                    problem: (inside.trouble && nic == 3)
                        .then(|| "eth3 has no carrier: is its cable in?".into()),
                }
            })
            .collect();
        WallStatus {
            schema: 1,
            seconds,
            movie: inside.movie.clone(),
            frames_per_second: RATE,
            frames: FRAMES,
            frame: inside.timeline.place_at(now()) as u32,
            playing: segment.playing,
            ended: false,
            speed: segment.speed,
            looping: segment.looping,
            view: inside.view,
            movie_size: Size {
                width: u32::from(self.columns) * TILE.width + 2560,
                height: u32::from(self.rows) * TILE.height + 1600,
            },
            wall_size: Size {
                width: u32::from(self.columns) * TILE.width,
                height: u32::from(self.rows) * TILE.height,
            },
            needed_bytes_per_second: 12_288_000.0 * 24.0 * count as f64,
            predicted_bytes_per_second: Some(4.86e9),
            bytes_per_second: each * count as f64,
            disk_bytes_per_second: each * count as f64,
            cpu_cores: if segment.playing { 0.9 * wave(1.0) } else { 0.02 },
            cpu_seconds_per_gb: Some(0.21),
            watts: None,
            above_idle_watts: None,
            watts_unknown: Some("this machine has no power meter that Linux can read".into()),
            bytes: (each * seconds * count as f64) as u64,
            frames_sent: (24.0 * seconds) as u64 * count as u64,
            frames_dropped: tiles.iter().map(|tile| tile.dropped_by_disk + tile.dropped_by_network).sum(),
            tiles,
            nics,
            disks: (0..4)
                .map(|disk| DiskStatus {
                    name: format!("nvme{disk}n1"),
                    bytes_per_second: each * count as f64 / 4.0,
                    tiles: Vec::new(),
                    problem: None,
                })
                .collect(),
            held_by: inside.trouble.then(|| "eth3 carries 0.4 of the 0.9 GB/s that its tiles need".into()),
            servers: Vec::new(),
            problems: match inside.trouble {
                true => vec![
                    "eth3 has no carrier: is its cable in?".into(),
                    "screen r2c1 (10.0.2.11) has not told of itself for 6 s".into(),
                ],
                false => Vec::new(),
            },
        }
    }

    fn movies(&self) -> Vec<MovieLine> {
        let inside = self.lock();
        let size = Size { width: 12_800, height: 4800 };
        let line = |name: &str| MovieLine {
            name: name.into(),
            size,
            frames: FRAMES,
            frames_per_second: RATE,
            playing: name == inside.movie,
        };
        let mut lines = vec![line("tokyo-8k"), line("holiday")];
        if !lines.iter().any(|line| line.playing) {
            lines.push(line(&inside.movie));
        }
        lines
    }

    fn assignment(&self, tile: TileId) -> Result<Assignment, Refusal> {
        if !self.holds(tile) {
            return Err(format!("this wall of {}x{} has no tile {tile}", self.columns, self.rows).into());
        }
        Ok(Assignment {
            tile,
            size: TILE,
            ssrc: 7,
            from: Vec::new(),
            timeline: self.timeline(),
            stamped: true,
        })
    }

    fn report(&self, report: &ScreenReport) {
        self.lock().reports.push(report.clone());
    }

    fn lead(&self) -> Lead {
        let inside = self.lock();
        let (timeline, movie, view) = (inside.timeline.clone(), inside.movie.clone(), inside.view);
        Lead { timeline, from_tick: 0, movie, view }
    }

    fn followed(&self, server: &str) -> Result<(), Refusal> {
        if server == "right" {
            Ok(())
        } else {
            Err(format!("no server “{server}” follows this one").into())
        }
    }

    fn sums(&self, _: TileId, from: u32, count: u32) -> Vec<u32> {
        (from..from.saturating_add(count)).collect()
    }

    /// A gradient over the whole wall with a disc that moves.
    fn preview(&self, tile: TileId) -> Option<Preview> {
        let frame = {
            let mut inside = self.lock();
            inside.previews = inside.previews.wrapping_add(1);
            inside.timeline.place_at(now())
        };
        let fine = std::env::var_os("LINERATE_SCREENSHOTS").is_some();
        let (width, height) = if fine { FINE_PREVIEW } else { PREVIEW };
        let (wide, high) = (f64::from(self.columns * width), f64::from(self.rows * height));
        let mut rgb = Vec::with_capacity(usize::from(width) * usize::from(height) * 3);
        let (cx, cy) =
            (wide * (0.5 + 0.4 * (frame / 120.0).sin()), high * (0.5 + 0.3 * (frame / 80.0).cos()));
        for y in 0..height {
            for x in 0..width {
                let (px, py) = (f64::from(tile.column * width + x), f64::from(tile.row * height + y));
                let d = ((px - cx).powi(2) + (py - cy).powi(2)).sqrt();
                let glow = (1.0 - d / (high * 0.35)).max(0.0);
                let band = 0.5 + 0.5 * (px / 90.0 + py / 150.0 + frame / 30.0).sin();
                let (u, v) = (px / wide, py / high);
                for channel in [
                    0.15 + 0.35 * u + glow,
                    0.2 + 0.25 * band * v + glow * 0.75,
                    0.45 + 0.3 * (1.0 - v) + glow * 0.3,
                ] {
                    rgb.push((channel.clamp(0.0, 1.0) * 255.0) as u8);
                }
            }
        }
        Some(Preview { tile, width, height, rgb })
    }
}
