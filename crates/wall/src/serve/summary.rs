//! How the player does, as one value for the terminal, the page and the JSON at the end.

use super::health::{Health, health};
use super::player::Player;
use crate::movie::Movie;
use crate::status::WallStatus;
use linerate_system::clock;

/// Version of [`WallStatus`].
const SCHEMA: u32 = 1;

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
            schema: SCHEMA,
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
