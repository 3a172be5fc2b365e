//! What the machine drew while bytes moved: before, during, the difference, and joules for each GB. Meters are
//! read beside the measurements, which know nothing of it.

use crate::event::{Event, Listener, STEADY};
use crate::measure::Stage;
use linerate_facts::counters::power::{PowerReading, PowerRecorder};
use linerate_facts::fact::Fact;
use linerate_system::stop::Stop;
use serde::{Deserialize, Serialize};

/// Sensors and programs show a mean of about the last second: a round that is shorter has its neighbours' power.
const LEAST_ROUND_SECONDS: f64 = 4.0;
/// What such a mean still has of the time before.
const LEAST_SETTLING_SECONDS: f64 = 1.2;
/// A figure is a mean of the time since the one before, which lies before the flow for the first, and in part for the
/// second.
const INTERVALS_TO_SETTLE: f64 = 2.0;

/// Power of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunPower {
    /// Which meter: `LINERATE_POWER_COMMAND`, `power_meter power1`, `the processors' packages`.
    pub by: String,
    /// All that the machine draws; else a part of it.
    pub whole_machine: bool,
    /// Before anything was measured.
    pub idle_watts: Fact<f64>,
    /// By what was measured, in its order.
    pub uses: Vec<PowerUse>,
}

/// Power while one thing was measured, with its start and its warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PowerUse {
    pub stage: Stage,
    /// As the measurement is called.
    pub name: String,
    /// In all rounds.
    pub seconds: f64,
    pub watts: Fact<f64>,
    /// Less what the idle machine drew.
    pub above_idle_watts: Fact<f64>,
    /// What the measurement moved, bytes per second; 0: nothing.
    pub bytes_per_second: f64,
}

impl PowerUse {
    /// Joules for each GB (10⁹ bytes) that moved.
    pub fn joules_per_gb(&self) -> Option<f64> {
        self.per_gb(&self.watts)
    }

    /// The same with what is above idle only.
    pub fn joules_per_gb_above_idle(&self) -> Option<f64> {
        self.per_gb(&self.above_idle_watts)
    }

    fn per_gb(&self, watts: &Fact<f64>) -> Option<f64> {
        let watts = watts.known().copied()?;
        (self.bytes_per_second > 0.0).then(|| watts * 1e9 / self.bytes_per_second)
    }
}

/// Hears what is measured, and notes what was drawn meanwhile.
pub struct PowerListener<'a> {
    inner: &'a mut dyn Listener,
    recorder: PowerRecorder,
    idle_watts: Fact<f64>,
    parts: Vec<Part>,
    /// The measurement that runs: its place in `parts`, and the reading at its beginning.
    open: Option<(usize, PowerReading)>,
    /// What runs now is steady, and counts after so many seconds of it.
    settling_seconds: Option<f64>,
}

/// What was drawn during all rounds of one measurement.
#[derive(Default)]
struct Part {
    stage: Stage,
    name: String,
    seconds: f64,
    rounds: u32,
    joules: f64,
    /// Why a round has no figure.
    unknown: Option<String>,
    bytes_per_second: f64,
}

impl<'a> PowerListener<'a> {
    /// Looks at the idle machine first.
    pub fn begin(inner: &'a mut dyn Listener, recorder: PowerRecorder, stop: &Stop) -> Self {
        inner.hear(&Event::Step("idle power"));
        let idle = recorder.idle(stop.flag());
        if let Err(why) = &idle {
            inner.hear(&Event::Note(format!("power: {why}")));
        }
        let idle_watts = idle.map_or_else(Fact::unknown, Fact::Known);
        let (parts, open, settling_seconds) = (Vec::new(), None, None);
        PowerListener { inner, recorder, idle_watts, parts, open, settling_seconds }
    }

    /// From when on the meters show nothing of what was before a steady flow.
    fn settling(&self) -> f64 {
        (INTERVALS_TO_SETTLE * self.recorder.interval().as_secs_f64()).max(LEAST_SETTLING_SECONDS)
    }

    /// Begins to count a steady flow once the meters have settled.
    fn settle(&mut self) {
        let Some((seconds, (place, begun))) = self.settling_seconds.zip(self.open.as_ref()) else { return };
        let now = self.recorder.read();
        if now.seconds_since(begun) >= seconds {
            (self.open, self.settling_seconds) = (Some((*place, now)), None);
        }
    }

    fn close(&mut self) {
        // Of a flow that ended before it nothing is known.
        let settled = self.settling_seconds.take().is_none();
        let Some((place, begun)) = self.open.take() else { return };
        let now = self.recorder.read();
        let (part, seconds) = (&mut self.parts[place], now.seconds_since(&begun));
        match now.mean_since(&begun) {
            Ok(_) if !settled => {
                part.unknown = Some("the path ended before the meter had settled".into());
            }
            Ok(watts) => part.joules += watts * seconds,
            Err(why) => part.unknown = Some(why.to_string()),
        }
        part.seconds += seconds;
        part.rounds += 1;
    }

    fn place_of(&mut self, stage: Stage, name: &str) -> usize {
        let same = |part: &Part| part.stage == stage && part.name == name;
        self.parts.iter().position(same).unwrap_or_else(|| {
            self.parts.push(Part { stage, name: name.to_string(), ..Part::default() });
            self.parts.len() - 1
        })
    }

    /// What was drawn, of all that gave a figure.
    pub fn product(mut self) -> RunPower {
        self.close();
        let idle = self.idle_watts.clone();
        let counts = self.recorder.counts_energy();
        let (steady, parts): (Vec<Part>, Vec<Part>) =
            self.parts.into_iter().partition(|part| part.name.ends_with(STEADY));
        let moved = parts.into_iter().filter(|part| part.bytes_per_second > 0.0 && part.seconds > 0.0);
        let figure = |part: Part| {
            let of_it = |one: &&Part| {
                one.stage == part.stage && one.name.strip_suffix(STEADY) == Some(part.name.as_str())
            };
            let drawn = match steady.iter().find(of_it) {
                Some(steady) => steady.watts(true),
                None => part.watts(counts),
            };
            let (seconds, watts) = drawn;
            let above = match (&watts, &idle) {
                (Fact::Known(watts), Fact::Known(idle)) => Fact::Known((watts - idle).max(0.0)),
                (Fact::Unknown { why }, _) | (_, Fact::Unknown { why }) => Fact::unknown(why.clone()),
            };
            PowerUse {
                stage: part.stage,
                name: part.name,
                seconds,
                watts,
                above_idle_watts: above,
                bytes_per_second: part.bytes_per_second,
            }
        };
        RunPower {
            by: self.recorder.by().to_string(),
            whole_machine: self.recorder.whole_machine(),
            idle_watts: idle.clone(),
            uses: moved.map(figure).collect(),
        }
    }
}

impl Part {
    /// For how long it was looked at, and what was drawn. `exact`: any stretch of time has its own figure.
    fn watts(&self, exact: bool) -> (f64, Fact<f64>) {
        let round = self.seconds / f64::from(self.rounds.max(1));
        // A meter that shows a mean of the last second tells nothing of turns that last one.
        let blurred = self.rounds > 1 && !exact && round < LEAST_ROUND_SECONDS;
        let why = blurred.then(|| {
            format!(
                "turns of {round:.1} s are too short for this meter; linerate network, disk or wall serve do one \
                 thing for long"
            )
        });
        let watts = match self.unknown.clone().or(why) {
            None => Fact::Known(self.joules / self.seconds.max(1e-9)),
            Some(why) => Fact::unknown(why),
        };
        (self.seconds, watts)
    }
}

impl Listener for PowerListener<'_> {
    fn hear(&mut self, event: &Event) {
        match event {
            Event::Started { stage, name, .. } => {
                self.close();
                // All rounds of a measurement are one figure.
                let name = name.split_once(", round ").map_or(name.as_str(), |(name, _)| name);
                let place = self.place_of(*stage, name);
                self.open = Some((place, self.recorder.read()));
                self.settling_seconds = name.ends_with(STEADY).then(|| self.settling());
            }
            Event::Measured(figure) => {
                let open = self.open.as_ref().map(|(place, _)| *place);
                self.close();
                let named = |part: &Part| part.stage == figure.stage && part.name == figure.name;
                let place = self.parts.iter().position(named).or(open);
                if let Some(part) = place.and_then(|place| self.parts.get_mut(place)) {
                    part.name.clone_from(&figure.name);
                    part.bytes_per_second = figure.bytes_per_second;
                }
            }
            _ => self.settle(),
        }
        self.inner.hear(event);
    }

    /// Only a user who asks for power waits longer for it.
    fn steady_seconds(&self) -> Option<f64> {
        let counted = self.recorder.interval().as_secs_f64().max(LEAST_ROUND_SECONDS);
        self.recorder.is_users().then(|| self.settling() + counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Silent;
    use crate::measure::Measurement;
    use linerate_system::clock::simulated::SimulatedClock;
    use std::time::Duration;

    fn started(name: &str) -> Event {
        Event::Started { stage: Stage::Path, name: name.into(), seconds: 1.0 }
    }

    fn measured(name: &str, bytes_per_second: f64) -> Event {
        let figure =
            Measurement { stage: Stage::Path, name: name.into(), bytes_per_second, ..Measurement::default() };
        Event::Measured(Box::new(figure))
    }

    /// A recorder of meters that have shown these watts for a second, and a listener that has seen them idle.
    fn heard(idle: &[f64], hear: impl FnOnce(&mut PowerListener<'_>, &SimulatedClock)) -> RunPower {
        let clock = SimulatedClock::new();
        let _entered = clock.enter();
        let recorder = PowerRecorder::of_test(idle.len());
        let (mut silent, stop) = (Silent, Stop::new());
        let idle: Vec<Result<f64, &str>> = idle.iter().copied().map(Ok).collect();
        for _ in 0..2 {
            recorder.show(&idle);
            clock.advance(Duration::from_millis(500));
        }
        let mut listener = PowerListener::begin(&mut silent, recorder, &stop);
        hear(&mut listener, &clock);
        listener.product()
    }

    /// The table of SARA's streaming server: 349 W idle, 491 W while it streams, 142 W for the stream.
    #[test]
    fn idle_streaming_and_the_difference_on_a_fake_meter() {
        let power = heard(&[200.0, 149.0], |listener, clock| {
            for turn in ["tcp, round 1 of 2", "udp, round 1 of 2", "tcp, round 2 of 2"] {
                listener.hear(&started(turn));
                clock.advance(Duration::from_millis(500));
            }
            // Turns are too short for these meters, so the path flows once more, until they have settled and longer.
            let seconds = listener.steady_seconds().expect("a steady flow");
            assert!(seconds >= 5.0, "{seconds}");
            listener.hear(&started("tcp, steady"));
            for _ in 0..(2.0 * seconds) as u32 {
                clock.advance(Duration::from_millis(500));
                listener.recorder.show(&[Ok(342.0), Ok(149.0)]);
                listener.hear(&Event::Progress { stage: Stage::Path, bytes_per_second: 4e9 });
            }
            assert_eq!(listener.settling_seconds, None);
            listener.hear(&measured("tcp", 4.0625e9));
        });
        let near =
            |value: Option<f64>, right: f64| value.is_some_and(|value| (value - right).abs() < 0.01 * right);
        assert!(near(power.idle_watts.known().copied(), 349.0), "{power:?}");
        let [stream] = &power.uses[..] else { panic!("{power:?}") };
        assert!(near(stream.watts.known().copied(), 491.0), "{power:?}");
        assert!(near(stream.above_idle_watts.known().copied(), 142.0), "{power:?}");
        assert!(near(stream.joules_per_gb(), 120.9) && near(stream.joules_per_gb_above_idle(), 34.95));
        assert!(power.whole_machine && power.by == "all of LINERATE_POWER_COMMAND together");
    }

    #[test]
    fn turns_that_are_too_short_for_a_meter_have_no_power() {
        let power = heard(&[200.0], |listener, clock| {
            for name in ["tcp, round 1 of 2", "udp, round 1 of 2", "tcp, round 2 of 2"] {
                listener.hear(&started(name));
                clock.advance(Duration::from_millis(500));
            }
            listener.hear(&measured("udp", 1e9));
            listener.hear(&measured("tcp", 1e9));
        });
        let [tcp, udp] = &power.uses[..] else { panic!("{power:?}") };
        assert_eq!((tcp.name.as_str(), udp.name.as_str()), ("tcp", "udp"));
        assert!(tcp.watts.why().is_some_and(|why| why.contains("too short for this meter")), "{power:?}");
    }

    #[test]
    fn a_meter_that_stops_in_the_middle_leaves_the_figure_unknown() {
        let power = heard(&[200.0], |listener, clock| {
            listener.recorder.show(&[Err("`cat watts` failed")]);
            clock.advance(Duration::from_millis(1200));
            listener.hear(&started("tcp"));
            clock.advance(Duration::from_millis(50));
            listener.hear(&measured("tcp", 1e9));
        });
        assert!(power.idle_watts.known().is_some());
        assert!(power.uses[0].watts.why().is_some_and(|why| why.contains("failed")), "{power:?}");
    }
}
