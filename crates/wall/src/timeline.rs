//! Which frame is shown when: one clock for all tiles, servers and screens.
//!
//! Time is cut into *ticks*, one a frame period, counted from 1970 on the hosts' clocks. So servers and
//! screens whose clocks agree (NTP, PTP) agree about every tick without a word, and the RTP timestamp of a
//! tick is the same on all tiles (RFC 4175; `a=mediaclk:direct=0` of RFC 7273 says just that). Which frame of
//! the movie a tick shows is the [`Timeline`]: where it plays, how fast, from when.

use super::geometry::FrameRate;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The clock of RTP video (RFC 3551).
const RTP_HERTZ: u128 = 90_000;
const NANOS: u128 = 1_000_000_000;

impl FrameRate {
    /// The tick that lasts at this time. Before 1970: the first.
    pub fn tick_at(self, time: SystemTime) -> u64 {
        let nanos = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        (nanos * u128::from(self.numerator) / (u128::from(self.denominator) * NANOS)) as u64
    }

    /// When a tick begins.
    pub fn start_of(self, tick: u64) -> SystemTime {
        // Rounded up, so that this time lies in the tick and not in the one before.
        let nanos =
            (u128::from(tick) * u128::from(self.denominator) * NANOS).div_ceil(u128::from(self.numerator));
        let (seconds, rest) = ((nanos / NANOS) as u64, (nanos % NANOS) as u32);
        UNIX_EPOCH.checked_add(Duration::new(seconds, rest)).unwrap_or(UNIX_EPOCH)
    }

    /// RTP timestamp of a tick: its start in units of 1/90,000 s, the lowest 32 bits (they wrap every 13
    /// hours).
    pub fn timestamp_of(self, tick: u64) -> u32 {
        let units = (u128::from(tick) * u128::from(self.denominator) * RTP_HERTZ)
            .div_ceil(u128::from(self.numerator));
        units as u32
    }

    /// The tick that has this timestamp, nearest to `near`.
    pub fn tick_of(self, timestamp: u32, near: SystemTime) -> u64 {
        let nanos = near.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let units = nanos * RTP_HERTZ / NANOS;
        // The signed distance on the circle of 32 bits.
        let distance = timestamp.wrapping_sub(units as u32).cast_signed();
        let meant = units.saturating_add_signed(i128::from(distance));
        (meant * u128::from(self.numerator) / (RTP_HERTZ * u128::from(self.denominator))) as u64
    }
}

/// From a tick on: which frames.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// The first tick that it speaks for.
    pub from_tick: u64,
    /// The frame at that tick. A fraction counts at other speeds than 1.
    pub from_frame: f64,
    /// Frames of the movie a tick while it plays: 1 is as it was made, 0.5 shows each frame twice, −1 plays
    /// backwards.
    pub speed: f64,
    /// It plays; else nothing is on the wire.
    pub playing: bool,
    /// After the last frame comes the first; else it ends.
    pub looping: bool,
}

/// Which frame of the movie each tick shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Grows with each change, so that anyone who prepared frames knows whether they still hold.
    pub generation: u64,
    /// The rate of the ticks.
    pub frames_per_second: FrameRate,
    /// Frames of the movie.
    pub frames: u32,
    /// What holds now, and behind it what holds from a tick to come, if there is such: a change is announced
    /// before it takes effect.
    segments: Vec<Segment>,
}

impl Timeline {
    /// Plays from the first frame at `from_tick`.
    pub fn new(frames_per_second: FrameRate, frames: u32, from_tick: u64, looping: bool) -> Self {
        let first = Segment { from_tick, from_frame: 0.0, speed: 1.0, playing: true, looping };
        Timeline { generation: 1, frames_per_second, frames: frames.max(1), segments: vec![first] }
    }

    /// The segment that holds at a tick; the first one also before its time.
    pub fn segment_at(&self, tick: u64) -> Segment {
        let current = self.segments.iter().rev().find(|segment| segment.from_tick <= tick);
        current.or(self.segments.first()).copied().unwrap_or(Segment {
            from_tick: tick,
            from_frame: 0.0,
            speed: 1.0,
            playing: false,
            looping: false,
        })
    }

    /// The frame of a tick; none while it pauses, before it begins and after its end.
    pub fn frame_of(&self, tick: u64) -> Option<u32> {
        let segment = self.segment_at(tick);
        if !segment.playing || tick < segment.from_tick {
            return None;
        }
        let place = (segment.from_frame + segment.speed * (tick - segment.from_tick) as f64).floor();
        let frames = f64::from(self.frames);
        if segment.looping {
            return Some(place.rem_euclid(frames).min(frames - 1.0) as u32);
        }
        (0.0..frames).contains(&place).then_some(place as u32)
    }

    /// Where it stands at a tick, in frames, also while it pauses.
    pub fn place_at(&self, tick: u64) -> f64 {
        let segment = self.segment_at(tick);
        let frames = f64::from(self.frames);
        if !segment.playing {
            return segment.from_frame;
        }
        let place = segment.from_frame + segment.speed * tick.saturating_sub(segment.from_tick) as f64;
        if segment.looping { place.rem_euclid(frames) } else { place.clamp(0.0, frames - 1.0) }
    }

    /// It will never show a frame again at or after `tick` unless somebody changes it.
    pub fn is_over(&self, tick: u64) -> bool {
        let last = self.segments.last().copied().unwrap_or_else(|| self.segment_at(tick));
        last.playing && !last.looping && last.from_tick <= tick && self.frame_of(tick).is_none()
    }

    /// The same with a change that takes effect at `tick`.
    fn changed(&self, tick: u64, change: impl FnOnce(&mut Segment)) -> Timeline {
        let mut segment =
            Segment { from_frame: self.place_at(tick), from_tick: tick, ..self.segment_at(tick) };
        change(&mut segment);
        // Of what came before only what holds until then; what was announced for later is void.
        let mut segments: Vec<Segment> =
            self.segments.iter().copied().filter(|old| old.from_tick < tick).collect();
        segments.drain(..segments.len().saturating_sub(1));
        segments.push(segment);
        Timeline { generation: self.generation + 1, segments, ..self.clone() }
    }

    /// Goes on from where it stands.
    pub fn play(&self, tick: u64) -> Timeline {
        self.changed(tick, |segment| segment.playing = true)
    }

    /// Stands still; the wire is silent.
    pub fn pause(&self, tick: u64) -> Timeline {
        self.changed(tick, |segment| segment.playing = false)
    }

    /// Goes on from another frame; one beyond the last is the last.
    pub fn seek(&self, tick: u64, frame: u32) -> Timeline {
        self.changed(tick, |segment| segment.from_frame = f64::from(frame.min(self.frames - 1)))
    }

    /// Another speed from where it stands.
    pub fn set_speed(&self, tick: u64, speed: f64) -> Timeline {
        self.changed(tick, |segment| {
            segment.speed = if speed.is_finite() { speed.clamp(-16.0, 16.0) } else { 1.0 }
        })
    }

    /// Begins again after its end, or not.
    pub fn set_looping(&self, tick: u64, looping: bool) -> Timeline {
        self.changed(tick, |segment| segment.looping = looping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FILM: FrameRate = FrameRate { numerator: 24, denominator: 1 };

    #[test]
    fn a_change_takes_effect_when_it_says() {
        let start = Timeline::new(FILM, 240, 1000, true);
        assert_eq!(
            (start.frame_of(999), start.frame_of(1000), start.frame_of(1241)),
            (None, Some(0), Some(1))
        );
        let sought = start.seek(1010, 100);
        assert_eq!(
            (sought.frame_of(1009), sought.frame_of(1010), sought.frame_of(1011)),
            (Some(9), Some(100), Some(101))
        );
        let paused = sought.pause(1012);
        assert_eq!(
            (paused.frame_of(1011), paused.frame_of(1012), paused.place_at(2000)),
            (Some(101), None, 102.0)
        );
        let resumed = paused.play(3000);
        assert_eq!((resumed.frame_of(2999), resumed.frame_of(3000)), (None, Some(102)));
        assert!(resumed.generation > start.generation);
    }

    #[test]
    fn speeds_and_ends() {
        let start = Timeline::new(FILM, 10, 0, false);
        assert_eq!((start.frame_of(9), start.frame_of(10)), (Some(9), None));
        assert!(!start.is_over(9) && start.is_over(10));
        let slow = start.set_speed(0, 0.5);
        assert_eq!((0..6).map(|tick| slow.frame_of(tick)).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2].map(Some));
        let back = start.seek(0, 4).set_speed(0, -2.0);
        assert_eq!(
            (0..4).map(|tick| back.frame_of(tick)).collect::<Vec<_>>(),
            [Some(4), Some(2), Some(0), None]
        );
        let looping = back.set_looping(0, true);
        assert_eq!(looping.frame_of(3), Some(8));
    }

    proptest! {
        #[test]
        fn ticks_times_and_timestamps_agree(tick in 40_000_000_000u64..200_000_000_000, numerator in 1u32..120_000, denominator in prop::sample::select(vec![1u32, 1001])) {
            let rate = FrameRate { numerator: numerator.max(denominator), denominator };
            let tick = tick % (4_000_000_000 * u64::from(rate.numerator) / u64::from(rate.denominator)).max(1);
            let start = rate.start_of(tick);
            prop_assert_eq!(rate.tick_at(start), tick);
            // Above 90 kHz of frames no two timestamps differ; no such rate is admitted.
            if rate.per_second() <= 1000.0 {
                for late in [0, 50, 5_000] {
                    prop_assert_eq!(rate.tick_of(rate.timestamp_of(tick), start + Duration::from_millis(late)), tick);
                }
            }
        }

        #[test]
        fn a_change_moves_nothing_before_it_and_jumps_nowhere(
            speed in -4.0f64..4.0, at in 1u64..500, later in 0u64..500, looping: bool,
        ) {
            let old = Timeline::new(FILM, 100, 0, looping);
            let new = old.set_speed(at, speed);
            for tick in 0..at {
                prop_assert_eq!(new.frame_of(tick), old.frame_of(tick));
            }
            prop_assert!((new.place_at(at) - old.place_at(at)).abs() < 1e-9);
            if let Some(frame) = new.frame_of(at + later) {
                prop_assert!(frame < 100);
            }
        }
    }
}
