//! The two states in turns: A B A B … A. What drifts, and neighbours that come and go, meet both states alike.
//!
//! Whether a change helped is judged at the end: windows of one state are held against those of the other, by
//! the project's own intervals.

use linerate_facts::failure::Failure;
use linerate_measure::measure::statistics::{self, Interval, median, spread};
use serde::Serialize;

/// A scene that has two states and can be measured in either.
pub trait TwoStates {
    /// Bytes per second in the state that it is in.
    fn window(&mut self) -> Result<f64, Failure>;
    /// Goes to the wanted state, or back to the one before.
    fn switch(&mut self, wanted: bool) -> Result<(), Failure>;
    /// Called with what was measured and how many windows are left.
    fn tell(&mut self, wanted: bool, rate: f64, left: usize);
}

/// Windows of the state before (one more than rounds) and of the wanted one. However it ends, the scene is
/// back in the state before, unless going back failed: then that is the error.
pub fn turns(scene: &mut dyn TwoStates, rounds: usize) -> Result<(StateWindows, StateWindows), Failure> {
    let (mut before, mut wanted) = (Vec::new(), Vec::new());
    // The first window pays for what is done once: connections, caches, clocks that rise.
    scene.window()?;
    let all = 2 * rounds + 1;
    let mut left = all;
    for window in 0..all {
        let other = window % 2 == 1;
        if other {
            scene.switch(true)?;
        }
        let rate = scene.window();
        if other {
            scene.switch(false)?;
        }
        let rate = rate?;
        left -= 1;
        scene.tell(other, rate, left);
        if other { wanted.push(rate) } else { before.push(rate) }
    }
    Ok((StateWindows::of(before), StateWindows::of(wanted)))
}

/// A change that brings less than this is not worth a change, however sure it is.
const LEAST_SHARE: f64 = 0.02;

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The intervals part, upwards, by 2 % and more.
    Helped,
    /// The intervals meet, or the medians are less than 2 % apart.
    NoDifference,
    /// The intervals part, downwards, by 2 % and more.
    Hurt,
}

/// Windows of one state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StateWindows {
    /// Bytes per second, of each.
    pub samples: Vec<f64>,
    pub median: f64,
    /// (max − min) ÷ median.
    pub spread: f64,
    /// Where the true rate lies, with 95 %; none with fewer than three windows.
    pub interval: Option<Interval>,
}

impl StateWindows {
    pub fn of(samples: Vec<f64>) -> StateWindows {
        StateWindows {
            median: median(&samples),
            spread: spread(&samples),
            interval: Interval::of(&samples),
            samples,
        }
    }
}

/// What `wanted` did beside `before`, and by which share the median grew; no difference where they are too
/// few to tell.
pub fn judge(before: &StateWindows, wanted: &StateWindows) -> (Effect, f64) {
    let share = if before.median > 0.0 { wanted.median / before.median - 1.0 } else { 0.0 };
    let effect = match statistics::compare_intervals(before.interval, wanted.interval) {
        statistics::SampleComparison::Higher if share >= LEAST_SHARE => Effect::Helped,
        statistics::SampleComparison::Lower if share <= -LEAST_SHARE => Effect::Hurt,
        _ => Effect::NoDifference,
    };
    (effect, share)
}

#[cfg(test)]
mod tests {
    use super::{Effect, judge, *};
    use linerate_testing::Dice;

    /// What disturbs the windows of a stage.
    #[derive(Clone, Copy, Debug)]
    enum Noise {
        /// Independent from window to window.
        Even,
        /// Mostly good, sometimes half lost: a neighbour's bursts.
        Tail,
        /// Ever slower: a card that gets warm.
        Drift,
        /// Good and bad times of some windows each.
        Stretches,
        /// One window remembers the last one.
        Memory,
    }

    const NOISES: [Noise; 5] = [Noise::Even, Noise::Tail, Noise::Drift, Noise::Stretches, Noise::Memory];

    /// A stage of 1 GB/s whose wanted state has another rate.
    struct Simulated {
        dice: Dice,
        noise: Noise,
        effect: f64,
        wanted: bool,
        switches: Vec<bool>,
        time: u32,
        bad: bool,
        last: f64,
        fails_at: Option<u32>,
    }

    impl Simulated {
        fn new(noise: Noise, effect: f64, seed: u64) -> Self {
            Simulated {
                dice: Dice::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)),
                noise,
                effect,
                wanted: false,
                switches: Vec::new(),
                time: 0,
                bad: false,
                last: 0.0,
                fails_at: None,
            }
        }
    }

    impl TwoStates for Simulated {
        fn window(&mut self) -> Result<f64, Failure> {
            self.time += 1;
            if self.fails_at == Some(self.time) {
                return Err(Failure::Lacks("the disk is gone".into()));
            }
            let small = 0.02 * self.dice.normal();
            let disturbed = match self.noise {
                Noise::Even => small,
                Noise::Tail => {
                    small - if self.dice.uniform() < 0.15 { 0.5 * self.dice.uniform() } else { 0.0 }
                }
                Noise::Drift => small - 0.02 * f64::from(self.time),
                Noise::Stretches => {
                    self.bad ^= self.dice.uniform() < 0.3;
                    small - if self.bad { 0.3 } else { 0.0 }
                }
                Noise::Memory => {
                    self.last = 0.8 * self.last + 2.0 * small;
                    self.last
                }
            };
            let state = if self.wanted { 1.0 + self.effect } else { 1.0 };
            Ok(1e9 * state * (1.0 + disturbed).max(0.05))
        }

        fn switch(&mut self, wanted: bool) -> Result<(), Failure> {
            self.wanted = wanted;
            self.switches.push(wanted);
            Ok(())
        }

        fn tell(&mut self, _: bool, _: f64, _: usize) {}
    }

    fn share(noise: Noise, effect: f64, rounds: usize, trials: u64, says: &[Effect]) -> f64 {
        let said = (0..trials).filter(|seed| {
            let mut scene = Simulated::new(noise, effect, seed * 31 + rounds as u64 + 1);
            let (before, wanted) = turns(&mut scene, rounds).expect("windows");
            says.contains(&judge(&before, &wanted).0)
        });
        said.count() as f64 / trials as f64
    }

    /// Ten settings that do nothing, four hundred machines each with each noise: few are called a help or a
    /// harm.
    #[test]
    fn settings_that_do_nothing_are_called_so() {
        for rounds in [3, 5, 8] {
            for noise in NOISES {
                let wrong = share(noise, 0.0, rounds, 4000, &[Effect::Helped, Effect::Hurt]);
                eprintln!("{noise:?}, {rounds} rounds: {wrong}");
                assert!(wrong < 0.03, "{noise:?}, {rounds} rounds: {wrong}");
            }
        }
    }

    #[test]
    fn what_helps_or_hurts_is_found() {
        for (rounds, effect) in [(3, 0.5), (5, 0.2), (8, 0.2)] {
            let helped = share(Noise::Even, effect, rounds, 500, &[Effect::Helped]);
            assert!(helped > 0.9, "{rounds} rounds, {effect}: {helped}");
            let hurt = share(Noise::Even, -effect, rounds, 500, &[Effect::Hurt]);
            assert!(hurt > 0.9, "{rounds} rounds, -{effect}: {hurt}");
        }
        // However sure, one per cent is no reason to change a machine.
        let said = share(Noise::Even, 0.01, 8, 500, &[Effect::NoDifference]);
        assert!(said > 0.98, "{said}");
    }

    #[test]
    fn windows_alternate_and_the_state_before_is_left_behind() {
        let mut scene = Simulated::new(Noise::Even, 0.0, 1);
        let (before, wanted) = turns(&mut scene, 3).expect("windows");
        assert_eq!((before.samples.len(), wanted.samples.len()), (4, 3));
        assert_eq!(scene.switches, [true, false, true, false, true, false]);
        // The fifth window is the second in the wanted state: it fails, and the scene is back all the same.
        for fails_at in 1..8 {
            let mut scene = Simulated { fails_at: Some(fails_at), ..Simulated::new(Noise::Even, 0.0, 1) };
            assert!(turns(&mut scene, 3).is_err());
            assert!(!scene.wanted, "window {fails_at}");
        }
    }
}
