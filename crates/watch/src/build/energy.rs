//! Watts of each meter, joules since the watch began, the least while idle, and joules for each GB that
//! moves.

use crate::model::{Energy, Moment, PowerKind, PowerSource, summed};
use crate::sample::WatchSample;
use crate::sources::{Details, MeterReading};
use linerate_facts::counters::meters::{MeterKind, TimedWatts, watts};
use linerate_facts::counters::power::{BY_PACKAGES, by_commands};
use linerate_facts::counters::rates::{Elapsed, rounded, sum};
use linerate_facts::fact::Fact;
use std::collections::BTreeMap;
use std::time::Instant;

/// All cores together below this share count as idle.
const IDLE: f64 = 0.05;
/// Below this, joules for each byte say nothing.
const LEAST_MOVED: f64 = 1e6;

/// What each meter said, and what was made of it.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    readings: BTreeMap<(u8, String), EnergyReading>,
}

#[derive(Debug, Default)]
struct EnergyReading {
    /// Last reading: time and microjoules.
    counter: Option<(Instant, u64)>,
    /// Last figure: time and watts.
    watts: Option<(Instant, f64)>,
    idle_watts: Option<f64>,
    joules: f64,
}

impl Meters {
    /// Writes power and energy into a moment whose CPUs and NICs are there already.
    pub(crate) fn sections(&mut self, sample: &WatchSample, moment: &mut Moment, details: &Details) {
        let idle = moment.cpus.total.is_some_and(|total| total.busy() < IDLE);
        let mut found = Vec::new();
        for reading in sample.hwmon.iter().flat_map(|readings| readings.iter()) {
            found.push(self.of_kernel(PowerKind::Hwmon, reading));
        }
        for reading in sample.rapl.iter().flat_map(|readings| readings.iter()) {
            found.push(self.of_kernel(PowerKind::Rapl, reading));
        }
        if let Some(Some(reading)) = sample.ipmi.as_deref() {
            found.push(self.of_program(PowerKind::Ipmi, "dcmi", reading));
        }
        for (index, read) in sample.commands.iter().enumerate() {
            let name = match sample.commands.len() {
                1 => by_commands(1).to_string(),
                _ => format!("LINERATE_POWER_COMMAND {}", index + 1),
            };
            let Some(read) = read.as_deref() else { continue };
            // One of several is a part of the machine: only all together are the whole of it.
            let whole_machine = sample.commands.len() == 1;
            let source = self.of_program(PowerKind::Command, &name, read);
            found.push(PowerSource { whole_machine, ..source });
        }
        for source in &mut found {
            self.against_idle(source, idle);
        }
        moment.energy = energy(&found, moved(moment, details));
        moment.power = found;
    }

    fn reading_of(&mut self, kind: PowerKind, name: &str) -> &mut EnergyReading {
        self.readings.entry((kind as u8, name.to_string())).or_default()
    }

    fn of_kernel(&mut self, kind: PowerKind, reading: &MeterReading) -> PowerSource {
        let meter = &reading.meter;
        let so_far = self.reading_of(kind, &meter.name);
        let watts = match (&reading.read, meter.kind) {
            (Err(why), _) => Fact::unknown(why.clone()),
            (Ok(microwatts), MeterKind::Power) => {
                let watts = rounded(*microwatts as f64 / 1e6);
                so_far.power(reading.at, watts);
                Fact::Known(watts)
            }
            (Ok(microjoules), MeterKind::Energy { wraps_at }) => {
                so_far.energy(reading.at, *microjoules, wraps_at)
            }
        };
        PowerSource {
            kind,
            name: meter.name.clone(),
            whole_machine: meter.is_whole_machine(),
            part_of_another: meter.is_part(),
            joules: Some(rounded(so_far.joules)),
            watts,
            ..PowerSource::default()
        }
    }

    fn of_program(&mut self, kind: PowerKind, name: &str, (at, read): &TimedWatts) -> PowerSource {
        let so_far = self.reading_of(kind, name);
        if let Ok(watts) = read {
            so_far.power(*at, *watts);
        }
        PowerSource {
            kind,
            name: name.to_string(),
            whole_machine: true,
            joules: Some(rounded(so_far.joules)),
            watts: match read {
                Ok(watts) => Fact::Known(rounded(*watts)),
                Err(why) => Fact::unknown(why.clone()),
            },
            ..PowerSource::default()
        }
    }

    fn against_idle(&mut self, source: &mut PowerSource, idle: bool) {
        let so_far = self.reading_of(source.kind, &source.name);
        let watts = source.watts.known().copied();
        if let (true, Some(watts)) = (idle, watts) {
            so_far.idle_watts = Some(so_far.idle_watts.map_or(watts, |least| least.min(watts)));
        }
        source.idle_watts = so_far.idle_watts;
        source.above_idle_watts =
            watts.zip(so_far.idle_watts).map(|(now, idle)| rounded((now - idle).max(0.0)));
    }
}

impl EnergyReading {
    /// A meter of power: what it showed last held until now.
    fn power(&mut self, at: Instant, watts: f64) {
        if let Some((before, held)) = self.watts
            && before != at
        {
            self.joules += held * at.saturating_duration_since(before).as_secs_f64();
        }
        self.watts = Some((at, watts));
    }

    /// A counter of energy. Some count only a thousand times a second, and between two looks at the same
    /// reading nothing is new.
    fn energy(&mut self, at: Instant, microjoules: u64, wraps_at: u64) -> Fact<f64> {
        let Some((before, earlier)) = self.counter else {
            self.counter = Some((at, microjoules));
            return Fact::unknown("read only once so far");
        };
        if let Some(span) = Elapsed::between(before, at) {
            self.counter = Some((at, microjoules));
            self.watts = watts(earlier, microjoules, wraps_at, span).map(|watts| {
                self.joules += watts * span.seconds();
                (at, rounded(watts))
            });
        }
        Fact::from_option(self.watts.map(|(_, watts)| watts), "the counter was reset")
    }
}

/// What all NICs send and receive. Virtual interfaces carry bytes of others, and count where there are no
/// others.
fn moved(moment: &Moment, details: &Details) -> Option<f64> {
    let real = |name: &str| details.nics.get(name).is_some_and(|nic| nic.bus_name.is_some());
    let any = moment.nics.iter().any(|nic| real(&nic.name));
    let counted = summed(&moment.nics).filter(|nic| !any || real(&nic.name));
    sum(counted.flat_map(|nic| [nic.receive.bytes_per_second, nic.send.bytes_per_second]))
}

/// By the user's own meters together, else the machine's, else the packages together.
fn energy(sources: &[PowerSource], moved: Option<f64>) -> Energy {
    let of = |kind: PowerKind| sources.iter().filter(move |one| one.kind == kind && !one.part_of_another);
    let figures = |name: &str, all: &[&PowerSource]| {
        let watts = sum(all.iter().map(|one| one.watts.known().copied()))?;
        Some((name.to_string(), watts, sum(all.iter().map(|one| one.above_idle_watts))))
    };
    // A command that fails leaves a part of the machine out: what the others show is not its power.
    let commands: Vec<&PowerSource> = of(PowerKind::Command).collect();
    let known = commands.iter().all(|one| one.watts.known().is_some());
    let by_commands = figures(by_commands(commands.len()), &commands).filter(|_| known);
    let whole = |kind: PowerKind| of(kind).find(|one| one.whole_machine && one.watts.known().is_some());
    let by_machine = || whole(PowerKind::Hwmon).or(whole(PowerKind::Ipmi));
    let best = by_commands
        .or_else(|| by_machine().and_then(|meter| figures(&meter.name, &[meter])))
        .or_else(|| figures(BY_PACKAGES, &of(PowerKind::Rapl).collect::<Vec<_>>()));
    let (by, watts, above) = match best {
        Some((name, watts, above)) => (Fact::Known(name), Some(watts), above),
        None => (Fact::unknown(why_none(sources)), None, None),
    };
    let per_gb = |watts: Option<f64>| {
        let moved = moved.filter(|moved| *moved >= LEAST_MOVED)?;
        Some(rounded(watts? / (moved / 1e9)))
    };
    Energy {
        by,
        watts,
        moved_bytes_per_second: moved,
        joules_per_gb: per_gb(watts),
        joules_per_gb_above_idle: per_gb(above),
    }
}

fn why_none(sources: &[PowerSource]) -> String {
    match sources.iter().find_map(|source| source.watts.why()) {
        Some(why) => why.to_string(),
        None => {
            "this machine shows no power meter (RAPL, hwmon, IPMI); LINERATE_POWER_COMMAND names one".into()
        }
    }
}
