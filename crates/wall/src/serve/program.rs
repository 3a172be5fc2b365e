//! What is shown when, as all workers see it: one value, changed by anyone who conducts, read by each worker
//! when its number has grown. Which part of the movie the wall shows is moved by a joystick: arithmetic on
//! [`View`].

use crate::control::View;
use crate::geometry::Size;
use crate::timeline::Timeline;
use linerate_system::lock;
use linerate_system::stop::Stop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Scenes that are kept: the one that holds, and what was announced behind it.
const MOST_SCENES: usize = 4;

/// From a tick on: which movie, and which part of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProgramScene {
    pub from_tick: u64,
    /// Index among the movies that were opened at the start.
    pub movie: usize,
    pub view: View,
}

/// One picture of the wall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shot {
    pub movie: usize,
    pub frame: u32,
    pub view: View,
}

/// The timeline, and what it is played of.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub timeline: Timeline,
    /// In the order of their ticks; never empty.
    scenes: Vec<ProgramScene>,
}

impl Program {
    /// The whole of one movie.
    pub(crate) fn new(timeline: Timeline, movie: usize) -> Self {
        Program { timeline, scenes: vec![ProgramScene { from_tick: 0, movie, view: View::WHOLE }] }
    }

    /// The scene that holds at a tick.
    pub(crate) fn scene_at(&self, tick: u64) -> ProgramScene {
        let current = self.scenes.iter().rev().find(|scene| scene.from_tick <= tick);
        current.or(self.scenes.first()).copied().unwrap_or(ProgramScene {
            from_tick: 0,
            movie: 0,
            view: View::WHOLE,
        })
    }

    /// What a tick shows; none where nothing is on the wire.
    pub(crate) fn shot(&self, tick: u64) -> Option<Shot> {
        let frame = self.timeline.frame_of(tick)?;
        let ProgramScene { movie, view, .. } = self.scene_at(tick);
        Some(Shot { movie, frame, view })
    }

    /// The same with another scene from a tick on.
    pub(crate) fn with_scene(&self, scene: ProgramScene) -> Program {
        let mut scenes: Vec<ProgramScene> =
            self.scenes.iter().copied().filter(|old| old.from_tick < scene.from_tick).collect();
        scenes.drain(..scenes.len().saturating_sub(MOST_SCENES - 1));
        scenes.push(scene);
        let mut timeline = self.timeline.clone();
        timeline.generation += 1;
        Program { timeline, scenes }
    }

    /// The same on another timeline.
    pub(crate) fn with_timeline(&self, timeline: Timeline) -> Program {
        Program { timeline, scenes: self.scenes.clone() }
    }
}

/// Where the program hangs for all to see.
#[derive(Debug)]
pub(crate) struct LatestProgram {
    generation: AtomicU64,
    program: Mutex<Arc<Program>>,
    stop: Stop,
}

impl LatestProgram {
    /// With its first program.
    pub(crate) fn new(program: Program) -> Self {
        LatestProgram {
            generation: AtomicU64::new(program.timeline.generation),
            program: Mutex::new(Arc::new(program)),
            stop: Stop::new(),
        }
    }

    /// Grows with each change; cheap to ask.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What hangs there now.
    pub(crate) fn program(&self) -> Arc<Program> {
        Arc::clone(&lock(&self.program))
    }

    /// Hangs up another made from this one; two who change at once come one after the other.
    pub(crate) fn change(&self, change: impl FnOnce(&Program) -> Program) {
        let mut current = lock(&self.program);
        let mut new = change(&current);
        new.timeline.generation = new.timeline.generation.max(current.timeline.generation + 1);
        self.generation.store(new.timeline.generation, Ordering::Release);
        *current = Arc::new(new);
    }

    /// Ends all workers soon.
    pub(crate) fn stop(&self) {
        self.stop.end();
    }

    /// They are to end.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.is_ended()
    }

    /// Sleeps so long, or until they are to end, which it returns.
    pub(crate) fn rest(&self, time: Duration) -> bool {
        self.stop.wait(time)
    }
}

/// A movie pixel is at most so many wall pixels wide.
const MOST_ZOOM: f64 = 16.0;

/// The view moved by wall pixels and enlarged about the wall's centre, kept on the movie.
pub(crate) fn panned(view: View, right: f64, down: f64, zoom: f64, wall: Size, movie: Size) -> View {
    let finite = |value: f64, otherwise: f64| if value.is_finite() { value } else { otherwise };
    let new = bounded_zoom(view.zoom * finite(zoom, 1.0).max(0.0), wall, movie);
    let centre = |start: f64, moved: f64, length: u32| {
        start + finite(moved, 0.0) / view.zoom + f64::from(length) / 2.0 / view.zoom
            - f64::from(length) / 2.0 / new
    };
    let (left, top) = (centre(view.left, right, wall.width), centre(view.top, down, wall.height));
    fitted(View { left, top, zoom: new }, wall, movie)
}

/// A wished view kept on the movie: no edge of the movie lies within the wall unless the movie is smaller
/// than it, and then it lies in the middle.
pub(crate) fn fitted(view: View, wall: Size, movie: Size) -> View {
    let zoom = bounded_zoom(view.zoom, wall, movie);
    let place = |start: f64, wall: u32, movie: u32| {
        let room = f64::from(movie) - f64::from(wall) / zoom;
        let start = if start.is_finite() { start } else { 0.0 };
        let start = if room >= 0.0 { start.clamp(0.0, room) } else { room / 2.0 };
        // Unenlarged pixels stay pixels.
        if zoom == 1.0 { start.round() } else { start }
    };
    View {
        left: place(view.left, wall.width, movie.width),
        top: place(view.top, wall.height, movie.height),
        zoom,
    }
}

/// From all of the movie on the wall to pixels as large as bricks.
fn bounded_zoom(zoom: f64, wall: Size, movie: Size) -> f64 {
    let whole = (f64::from(wall.width) / f64::from(movie.width))
        .min(f64::from(wall.height) / f64::from(movie.height));
    let zoom = if zoom.is_finite() { zoom.clamp(whole.min(1.0), MOST_ZOOM) } else { 1.0 };
    // Steps of a joystick come back to where they began only nearly.
    if (zoom - 1.0).abs() < 1e-3 { 1.0 } else { zoom }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::FrameRate;
    use proptest::prelude::*;

    #[test]
    fn a_scene_holds_from_its_tick() {
        let rate = FrameRate { numerator: 24, denominator: 1 };
        let latest = LatestProgram::new(Program::new(Timeline::new(rate, 10, 100, true), 0));
        let before = latest.generation();
        let view = View { left: 5.0, top: 6.0, zoom: 2.0 };
        latest.change(|program| program.with_scene(ProgramScene { from_tick: 105, movie: 1, view }));
        assert!(latest.generation() > before);
        let program = latest.program();
        assert_eq!(program.shot(99), None);
        assert_eq!(program.shot(104), Some(Shot { movie: 0, frame: 4, view: View::WHOLE }));
        assert_eq!(program.shot(105), Some(Shot { movie: 1, frame: 5, view }));
        for tick in 106..200 {
            latest.change(|program| program.with_scene(ProgramScene { from_tick: tick, movie: 0, view }));
        }
        assert!(latest.program().scenes.len() <= MOST_SCENES);
        assert_eq!(latest.program().shot(199).map(|shot| shot.movie), Some(0));
    }

    const WALL: Size = Size { width: 1280, height: 800 };
    const MOVIE: Size = Size { width: 3200, height: 1200 };

    #[test]
    fn a_step_there_and_back() {
        let there = panned(View::WHOLE, 100.0, 50.0, 1.0, WALL, MOVIE);
        assert_eq!(there, View { left: 100.0, top: 50.0, zoom: 1.0 });
        assert_eq!(panned(there, -100.0, -50.0, 1.0, WALL, MOVIE), View::WHOLE);
        let near = panned(there, 0.0, 0.0, 2.0, WALL, MOVIE);
        assert_eq!(near, View { left: 420.0, top: 250.0, zoom: 2.0 });
        assert_eq!(panned(near, 0.0, 0.0, 0.5, WALL, MOVIE), there);
        // A movie that is as large as the wall cannot be moved, only enlarged.
        assert_eq!(panned(View::WHOLE, 9.0, 9.0, 1.0, WALL, WALL), View::WHOLE);
    }

    proptest! {
        #[test]
        fn the_wall_never_leaves_the_movie(
            left in prop::num::f64::ANY, right in -1e6f64..1e6, zoom in prop::num::f64::ANY, wide in 1u32..8000, high in 1u32..8000,
        ) {
            let movie = Size { width: wide, height: high };
            let first = fitted(View { left, top: left, zoom }, WALL, movie);
            for view in [first, panned(first, right, -right, 1.3, WALL, movie), panned(first, left, right, zoom, WALL, movie)] {
                prop_assert!(view.zoom > 0.0 && view.zoom <= MOST_ZOOM);
                let shown = (f64::from(WALL.width) / view.zoom, f64::from(WALL.height) / view.zoom);
                let within = |start: f64, shown: f64, all: u32| {
                    let all = f64::from(all);
                    if shown <= all { start >= -0.6 && start + shown <= all + 0.6 } else { (2.0 * start + shown - all).abs() < 2.0 }
                };
                prop_assert!(within(view.left, shown.0, wide) && within(view.top, shown.1, high), "{view:?}");
            }
        }
    }
}
