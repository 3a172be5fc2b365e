//! What is shown when, as all workers see it: one value, changed by anyone who conducts, read by each worker
//! when its number has grown.

use crate::control::View;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::FrameRate;

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
}
