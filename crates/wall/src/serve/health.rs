//! How the wall does, from two samples: rates, who holds it, what is wrong; and how the player does, as one
//! value for the terminal, the page and the JSON at the end.

use super::keeper::{Keeper, NicSample, ServerSample, TileSample};
use super::nanos_now;
use super::player::Player;
use super::tiles::{Answers, LastReport, Tile, TileRoute};
use crate::geometry::TileId;
use crate::movie::Movie;
use crate::status::{DiskStatus, NicStatus, TileStatus, WallStatus};
use linerate_facts::counters::power::NoMeter;
use linerate_facts::units::{bits_per_second, show_bits_rate, show_bytes_rate};
use linerate_model::verdict::{Evidence, LeftOut, Limit, Route, WorkerEvidence, judge};
use linerate_system::clock;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A screen that has reported nothing for so long is silent.
const SILENT: Duration = Duration::from_secs(5);

/// Everything that is reported of a time between two samples.
#[derive(Debug)]
pub(crate) struct Health {
    pub tiles: Vec<TileStatus>,
    pub nics: Vec<NicStatus>,
    pub disks: Vec<DiskStatus>,
    pub bytes_per_second: f64,
    pub disk_bytes_per_second: f64,
    pub cpu_cores: f64,
    pub cpu_seconds_per_gb: Option<f64>,
    pub watts: Result<f64, NoMeter>,
    pub held_by: Option<String>,
    pub problems: Vec<String>,
}

/// One tile with what it did between the samples.
struct TileRow<'a> {
    tile: &'a Tile,
    place: TileRoute,
    last_report: Option<LastReport>,
    done: TileSample,
    now: TileSample,
}

/// What happened between two samples of this keeper; `account`: in all of the time, at its end.
pub(crate) fn health(
    keeper: &Keeper,
    (earlier, later): (&ServerSample, &ServerSample),
    account: bool,
) -> Health {
    let began_at = keeper.began_at;
    let seconds = later.at.saturating_duration_since(earlier.at).as_secs_f64().max(1e-3);
    let rows: Vec<TileRow<'_>> = keeper
        .tiles
        .iter()
        .zip(earlier.tiles.iter().zip(&later.tiles))
        .map(|(tile, (before, now))| TileRow {
            tile,
            place: tile.place(),
            last_report: tile.last_report(),
            done: now.since(before),
            now: *now,
        })
        .collect();
    let nics = nic_statuses(keeper, earlier, later, &rows, seconds);
    let disks = disk_statuses(&rows, seconds);
    let all_nics = keeper.nics();
    let nic_name = |row: &TileRow<'_>| -> Option<String> {
        let way = row.tile.ways.get(row.place.way?)?;
        all_nics.get(way.nic).map(|nic| nic.name.clone())
    };
    let tiles: Vec<TileStatus> = rows
        .iter()
        .map(|row| {
            let problem = tile_problem(row, began_at, account);
            tile_status(row, nic_name(row), problem, seconds)
        })
        .collect();
    let sum = |of: fn(&TileSample) -> u64| rows.iter().map(|row| of(&row.done)).sum::<u64>() as f64;
    let bytes_per_second = sum(|done| done.bytes) / seconds;
    let cpu_cores = later.cpu.saturating_sub(earlier.cpu).as_secs_f64() / seconds;
    let mut problems: Vec<String> = nics.iter().filter_map(|nic| nic.problem.clone()).collect();
    problems.extend(disks.iter().filter_map(|disk| disk.problem.clone()));
    problems.extend(tiles.iter().filter_map(|tile| tile.problem.clone()));
    Health {
        held_by: held_by(&rows, &nics, &disks, seconds),
        disk_bytes_per_second: sum(|done| done.read_bytes) / seconds,
        cpu_seconds_per_gb: (bytes_per_second > 0.0).then(|| cpu_cores / (bytes_per_second / 1e9)),
        watts: mean_watts(earlier, later),
        tiles,
        nics,
        disks,
        bytes_per_second,
        cpu_cores,
        problems,
    }
}

fn mean_watts(earlier: &ServerSample, later: &ServerSample) -> Result<f64, NoMeter> {
    let (before, now) = (earlier.power.as_ref(), later.power.as_ref());
    now.map_err(Clone::clone)?.mean_since(before.map_err(Clone::clone)?)
}

fn tile_status(row: &TileRow<'_>, nic: Option<String>, problem: Option<String>, seconds: f64) -> TileStatus {
    let TileRow { tile, last_report, done, now, .. } = row;
    let share = |nanos: u64| (nanos as f64 / 1e9 / seconds).clamp(0.0, 1.0);
    let counters = &tile.counters;
    TileStatus {
        tile: tile.id,
        screen: tile.screen.clone(),
        nic,
        bytes_per_second: done.bytes as f64 / seconds,
        bytes: now.bytes,
        datagrams: counters.datagrams.load(Ordering::Relaxed),
        frames_sent: now.frames_sent,
        dropped_by_disk: now.by_disk,
        dropped_by_network: now.by_network,
        dropped_by_cpu: now.by_cpu,
        busy: share(done.cpu),
        starved: share(done.starved),
        blocked: share(done.blocked),
        prefetched: counters.prefetched.load(Ordering::Relaxed),
        report: last_report.as_ref().map(|last| last.report.clone()),
        report_age_seconds: last_report.as_ref().map(|last| clock::since(last.at).as_secs_f64()),
        problem,
    }
}

/// The gravest thing that is wrong with a tile.
fn tile_problem(row: &TileRow<'_>, began_at: u64, account: bool) -> Option<String> {
    let (tile, place) = (row.tile, &row.place);
    if let Some(problem) = tile.problem.clone() {
        return Some(problem);
    }
    if let Some(problem) = place.problem.clone() {
        return Some(format!("tile {}: {problem}", tile.id));
    }
    let counters = &tile.counters;
    let answers = Answers {
        began_at,
        refused_at: counters.refused_at.load(Ordering::Relaxed),
        heard_at: row.last_report.as_ref().map_or(0, |last| last.heard_at),
        network: counters.network(),
        silent: row.last_report.as_ref().map(|last| clock::since(last.at)).filter(|silent| *silent > SILENT),
    };
    let problem = answers.problem(&tile.screen, account, nanos_now()).or_else(|| counters.problem());
    problem.map(|problem| format!("tile {}: {problem}", tile.id))
}

/// Frames that were left out, and why.
fn frames_left_out(done: &TileSample) -> u64 {
    done.by_disk + done.by_network + done.by_cpu
}

fn nic_statuses(
    keeper: &Keeper,
    earlier: &ServerSample,
    later: &ServerSample,
    rows: &[TileRow<'_>],
    seconds: f64,
) -> Vec<NicStatus> {
    let counted: Vec<(NicSample, NicSample)> =
        earlier.nics.iter().copied().zip(later.nics.iter().copied()).collect();
    let mut all = Vec::new();
    for (index, nic) in keeper.nics().iter().enumerate() {
        let on_it = |row: &&TileRow<'_>| row.tile.nic() == Some(index);
        let reached = rows.iter().any(|row| row.tile.ways.iter().any(|way| way.nic == index));
        let tiles: Vec<&TileRow<'_>> = rows.iter().filter(on_it).collect();
        let (before, now) = counted.get(index).copied().unwrap_or_default();
        let drops = now.drops.saturating_sub(before.drops);
        if !reached {
            continue;
        }
        let problem = if nic.carrier {
            nic_problem(&nic.name, &tiles, drops, seconds)
        } else {
            Some(format!("{} has no carrier: its tiles go by others, as far as there are some", nic.name))
        };
        all.push(NicStatus {
            name: nic.name.clone(),
            bytes_per_second: tiles.iter().map(|row| row.done.bytes).sum::<u64>() as f64 / seconds,
            wire_bytes_per_second: before
                .sent
                .zip(now.sent)
                .map(|(before, now)| now.saturating_sub(before) as f64 / seconds),
            link_bits_per_second: nic.rate.map(bits_per_second),
            carrier: nic.carrier,
            tiles: tiles.iter().map(|row| row.tile.id).collect(),
            problem,
        });
    }
    all
}

/// What a NIC does not carry of what its tiles need.
fn nic_problem(name: &str, tiles: &[&TileRow<'_>], drops: u64, seconds: f64) -> Option<String> {
    let dropped: u64 = tiles.iter().map(|row| row.done.by_network).sum();
    let most = tiles.iter().map(|row| &row.done).max_by_key(|done| done.blocked);
    let lost: u64 = tiles
        .iter()
        .filter_map(|row| row.last_report.as_ref())
        .filter(|last| clock::since(last.at) < Duration::from_secs(2))
        .map(|last| last.newly_lost)
        .fold(0, u64::saturating_add);
    let sent = tiles.iter().map(|row| row.done.bytes).sum::<u64>() as f64 / seconds;
    let carries = show_bits_rate(sent);
    if dropped > 0 {
        return Some(format!(
            "{name} does not carry what its tiles need: it takes {carries}, and {dropped} of their frames \
             were left out {}",
            lately(seconds)
        ));
    }
    // Of a NIC without tiles they are those of others.
    if drops > 0 && !tiles.is_empty() {
        return Some(format!(
            "{name} drops what it is given: {drops} packets {}, at {carries}",
            lately(seconds)
        ));
    }
    if let Some(Limit::Sink { share, .. }) = most.and_then(|done| limit_by_waits(done, seconds)) {
        return Some(format!(
            "{name} is at its limit: its tiles wait for it {:.0} % of the time, at {carries}",
            share * 100.0
        ));
    }
    (lost > 0).then(|| {
        format!(
            "{name}: its screens miss {lost} datagrams that were sent: on the way, or in their own buffers"
        )
    })
}

/// What limits a tile, by what its sender waits for.
fn limit_by_waits(done: &TileSample, seconds: f64) -> Option<Limit> {
    let share = |nanos: u64| (nanos as f64 / 1e9 / seconds).min(1.0);
    let workers = WorkerEvidence {
        count: 1,
        busy: share(done.cpu),
        waiting_source: share(done.starved),
        waiting_sink: share(done.blocked),
        paced: true,
        ..WorkerEvidence::default()
    };
    judge(&Evidence { route: Route::Network, workers: Some(workers), ..Evidence::default() }).limits.pop()
}

/// The stage that cost most frames.
fn limit_by_frames<'a>(done: impl Iterator<Item = &'a TileSample>) -> Option<Limit> {
    let sum = |sum: LeftOut, done: &TileSample| LeftOut {
        by_disk: sum.by_disk + done.by_disk,
        by_network: sum.by_network + done.by_network,
        by_cpu: sum.by_cpu + done.by_cpu,
    };
    let left_out = Some(done.fold(LeftOut::default(), sum));
    judge(&Evidence { route: Route::DisksToNetwork, left_out, ..Evidence::default() }).limits.pop()
}

fn disk_statuses(rows: &[TileRow<'_>], seconds: f64) -> Vec<DiskStatus> {
    let mut all: Vec<DiskStatus> = Vec::new();
    for row in rows.iter().filter(|row| row.tile.plays) {
        let disk = match all.iter_mut().find(|disk| disk.name == row.tile.disk) {
            Some(disk) => disk,
            None => {
                let name = row.tile.disk.clone();
                all.push(DiskStatus { name, bytes_per_second: 0.0, tiles: Vec::new(), problem: None });
                let last = all.len() - 1;
                &mut all[last]
            }
        };
        disk.bytes_per_second += row.done.read_bytes as f64 / seconds;
        disk.tiles.push(row.tile.id);
    }
    for disk in &mut all {
        let mine = |row: &&TileRow<'_>| disk.tiles.contains(&row.tile.id);
        let dropped: u64 = rows.iter().filter(mine).map(|row| row.done.by_disk).sum();
        if dropped > 0 {
            disk.problem = Some(format!(
                "disk {} does not bring what its tiles need: it gives {}, and {dropped} of their frames were \
                 left out {}",
                disk.name,
                show_bytes_rate(disk.bytes_per_second),
                lately(seconds)
            ));
        }
    }
    all
}

/// The stage that costs most frames; or the NIC that is about to.
fn held_by(rows: &[TileRow<'_>], nics: &[NicStatus], disks: &[DiskStatus], seconds: f64) -> Option<String> {
    let troubled = |nic: &&NicStatus| !nic.tiles.is_empty() && nic.problem.is_some();
    let Some(limit) = limit_by_frames(rows.iter().map(|row| &row.done)) else {
        return nics.iter().find(troubled).and_then(|nic| nic.problem.clone());
    };
    match limit {
        Limit::LateNetwork { frames } => {
            let named = nics.iter().filter(troubled).max_by_key(|nic| left_out_on(rows, &nic.tiles));
            named.and_then(|nic| nic.problem.clone()).or_else(|| {
                Some(format!("the network: {frames} frames had no way to their screens {}", lately(seconds)))
            })
        }
        Limit::LateDisk { .. } => disks.iter().find_map(|disk| disk.problem.clone()),
        Limit::LateCpu { frames } => Some(format!(
            "the CPU: tile senders came too late to {frames} {} {}",
            if frames == 1 { "frame" } else { "frames" },
            lately(seconds)
        )),
        other => Some(other.to_string()),
    }
}

/// The time between the samples: the last second while it plays, all of it at its end.
fn lately(seconds: f64) -> String {
    if seconds < 2.0 { "in the last second".into() } else { format!("in {seconds:.0} s") }
}

/// Frames of these tiles that were left out.
fn left_out_on(rows: &[TileRow<'_>], tiles: &[TileId]) -> u64 {
    rows.iter().filter(|row| tiles.contains(&row.tile.id)).map(|row| frames_left_out(&row.done)).sum()
}

/// Version of [`WallStatus`].
const STATUS_SCHEMA: u32 = 1;

impl Player {
    /// How it did from the beginning to now: rates are of all the time.
    pub fn summary(&self) -> WallStatus {
        self.keeper.sample();
        let (_, newest) = self.keeper.last_second();
        self.status_of(health(&self.keeper, (self.keeper.first(), &newest), true))
    }

    pub(super) fn status_of(&self, health: Health) -> WallStatus {
        let program = self.latest.program();
        let tick = self.rate.tick_at(clock::date());
        let (segment, scene) = (program.timeline.segment_at(tick), program.scene_at(tick));
        let movie = self.settings.movies.get(scene.movie).or(self.settings.movies.first());
        let fps = self.rate.per_second();
        let wire: usize = self.keeper.tiles.iter().map(|tile| tile.place().wire_bytes).sum();
        let dropped = self.keeper.tiles.iter().map(|tile| tile.counters.dropped()).sum();
        let servers = self.others.status();
        let mut problems = health.problems;
        problems.extend(servers.iter().filter_map(|server| server.problem.clone()));
        WallStatus {
            schema: STATUS_SCHEMA,
            seconds: clock::since(self.began).as_secs_f64(),
            movie: movie.map(Movie::name).unwrap_or_default(),
            frames_per_second: self.rate,
            frames: program.timeline.frames,
            frame: program.timeline.place_at(tick) as u32,
            playing: segment.playing && program.timeline.frame_of(tick).is_some(),
            ended: program.timeline.is_over(tick),
            speed: segment.speed,
            looping: segment.looping,
            view: scene.view,
            movie_size: movie.map_or(self.size, Movie::size),
            wall_size: self.settings.wall.pixels(self.size),
            needed_bytes_per_second: wire as f64 * fps,
            predicted_bytes_per_second: self.predicted,
            bytes_per_second: health.bytes_per_second,
            disk_bytes_per_second: health.disk_bytes_per_second,
            cpu_cores: health.cpu_cores,
            cpu_seconds_per_gb: health.cpu_seconds_per_gb,
            watts: health.watts.as_ref().ok().copied(),
            above_idle_watts: health
                .watts
                .as_ref()
                .ok()
                .and_then(|watts| self.keeper.power.above_idle(*watts)),
            watts_unknown: health.watts.err().map(|why| why.to_string()),
            bytes: health.tiles.iter().map(|tile| tile.bytes).sum(),
            frames_sent: health.tiles.iter().map(|tile| tile.frames_sent).sum(),
            frames_dropped: dropped,
            tiles: health.tiles,
            nics: health.nics,
            disks: health.disks,
            servers,
            held_by: health.held_by,
            problems,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::verdict::LimitKind;
    use linerate_testing::verdicts::{Situation, situations};

    /// As the result of a run and the panel answer, with what a wall can observe.
    #[test]
    fn the_wall_answers_as_the_judge_does() {
        let nanos = |share: f64| (share * 1e9) as u64;
        let mut told = 0;
        for Situation { name, evidence, limited_by } in situations() {
            let kind = |limit: Option<Limit>| -> Option<LimitKind> { limit.map(|limit| limit.kind()) };
            if let Some(LeftOut { by_disk, by_network, by_cpu }) = evidence.left_out {
                let done = TileSample { by_disk, by_network, by_cpu, ..TileSample::default() };
                assert_eq!(kind(limit_by_frames([done].iter())), limited_by, "{name}");
                told += 1;
            }
            if let Some(workers) = evidence.workers.filter(|workers| workers.paced) {
                let (cpu, blocked) = (nanos(workers.busy), nanos(workers.waiting_sink));
                let done = TileSample { cpu, blocked, ..TileSample::default() };
                assert_eq!(kind(limit_by_waits(&done, 1.0)), limited_by, "{name}");
                told += 1;
            }
        }
        assert!(told > 5);
    }
}
