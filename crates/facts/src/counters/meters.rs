//! Meters of power. Some can be read again and again: RAPL's counters of energy
//! (Documentation/power/powercap/powercap.rst) and hwmon's sensors (Documentation/hwmon/sysfs-interface.rst).
//! Who watches a machine keeps the list and reads the meters.
//!
//! Other meters are read by a program: IPMI's (`ipmitool dcmi power reading`) and whatever
//! `LINERATE_POWER_COMMAND` names.

use super::rates::Elapsed;
use crate::sysroot::{Sysroot, UnreadReason, Unreadable};
use crate::wording::in_order;
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::lock;
use linerate_system::process::kill_group;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub const POWERCAP: &str = "/sys/class/powercap";
pub const HWMON: &str = "/sys/class/hwmon";
/// 64 packages have 320 domains; a server has some 40 sensors.
const MOST: usize = 1024;

/// One meter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meter {
    /// `package-0`, `package-0/dram`; of hwmon the chip and its sensor: `power_meter power1`.
    pub name: String,
    pub kind: MeterKind,
    /// The file with its figure.
    pub file: PathBuf,
}

/// Why a meter gives no figure, as a phrase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeterError {
    /// The counters tell other users' secrets: since Linux 5.10 only root reads them.
    #[error("only root may read it (CVE-2020-8694)")]
    RootOnly,
    #[error(transparent)]
    Unreadable(Unreadable),
    #[error("{}: no number", .0.display())]
    NoNumber(PathBuf),
}

impl From<Unreadable> for MeterError {
    fn from(why: Unreadable) -> Self {
        match why.reason {
            UnreadReason::NotPermitted => MeterError::RootOnly,
            _ => MeterError::Unreadable(why),
        }
    }
}

/// What a meter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterKind {
    /// A counter of microjoules, and where it begins again at 0; 0 where that is not known.
    Energy { wraps_at: u64 },
    /// Microwatts.
    Power,
}

impl Meter {
    /// It measures the whole machine: ACPI's power meter (Documentation/hwmon/acpi_power_meter.rst).
    pub fn is_whole_machine(&self) -> bool {
        self.kind == MeterKind::Power && self.name.starts_with("power_meter ")
    }

    /// A part of a package that the package has in it. `psys` and `dram` may be apart from it; they are shown,
    /// and not added up.
    pub fn is_part(&self) -> bool {
        matches!(self.kind, MeterKind::Energy { .. }) && !self.name.starts_with("package-")
            || self.name.contains('/')
    }

    /// Microjoules or microwatts, now.
    pub fn read(&self, sysroot: &Sysroot) -> Result<u64, MeterError> {
        let text = sysroot.text(&self.file)?;
        text.trim().parse().map_err(|_| MeterError::NoNumber(self.file.clone()))
    }
}

/// Microjoules used between two readings of a counter that begins again at `wraps_at`; none where it went
/// back otherwise.
pub fn used(before: u64, now: u64, wraps_at: u64) -> Option<u64> {
    match now.checked_sub(before) {
        Some(used) => Some(used),
        None if wraps_at >= before => Some((wraps_at - before).saturating_add(now)),
        None => None,
    }
}

/// Watts between two readings; none where the counter began again otherwise.
pub fn watts(before: u64, now: u64, wraps_at: u64, span: Elapsed) -> Option<f64> {
    Some(used(before, now, wraps_at)? as f64 / 1e6 / span.seconds())
}

/// The counters of energy, a part behind its package. `intel-rapl-mmio` is a second view of the same package;
/// AMD's come under this name.
pub fn energy_counters(sysroot: &Sysroot) -> Vec<Meter> {
    let mut zones = sysroot.list(POWERCAP);
    zones.retain(|zone| zone.starts_with("intel-rapl:"));
    zones.sort_by(|a, b| in_order(a, b));
    let name = |zone: &str| sysroot.text(Path::new(POWERCAP).join(zone).join("name")).ok();
    let one = |zone: &String| {
        let own = name(zone)?;
        let (parent, _) = zone.rsplit_once(':')?;
        let folder = Path::new(POWERCAP).join(zone);
        let wraps_at = sysroot.parse(folder.join("max_energy_range_uj")).known().copied().unwrap_or(0);
        Some(Meter {
            name: name(parent).map_or(own.clone(), |package| format!("{package}/{own}")),
            kind: MeterKind::Energy { wraps_at },
            file: folder.join("energy_uj"),
        })
    };
    zones.iter().take(MOST).filter_map(one).collect()
}

/// The sensors of power. An average counts where a chip has both. Before Linux 3.13 the attributes lay at the
/// chip's device.
pub fn power_sensors(sysroot: &Sysroot) -> Vec<Meter> {
    let mut chips = sysroot.list(HWMON);
    chips.sort_by(|a, b| in_order(a, b));
    chips.iter().flat_map(|chip| of_chip(sysroot, &Path::new(HWMON).join(chip))).take(MOST).collect()
}

fn of_chip(sysroot: &Sysroot, chip: &Path) -> Vec<Meter> {
    let mut found: Vec<Meter> = Vec::new();
    for folder in [chip.to_path_buf(), chip.join("device")] {
        let files = sysroot.list(&folder);
        let mut sensors: Vec<&str> = files.iter().filter_map(|file| power_sensor(file)).collect();
        sensors.sort_by(|a, b| in_order(a, b));
        sensors.dedup();
        if sensors.is_empty() {
            continue;
        }
        let chip_name = sysroot.text(chip.join("name")).or_else(|_| sysroot.text(folder.join("name")));
        let chip_name = chip_name.unwrap_or_else(|_| "sensor".into());
        for sensor in sensors {
            let average = format!("{sensor}_average");
            let file = if files.contains(&average) { average } else { format!("{sensor}_input") };
            let name = format!("{chip_name} {sensor}");
            found.push(Meter { name, kind: MeterKind::Power, file: folder.join(file) });
        }
        break;
    }
    found
}

/// `power1` of `power1_input` and `power1_average`; none of limits and intervals.
fn power_sensor(file: &str) -> Option<&str> {
    let (sensor, what) = file.split_once('_')?;
    let number = sensor.strip_prefix("power")?;
    let counted = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (counted && matches!(what, "input" | "average")).then_some(sensor)
}

/// A program that takes longer is ended.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(10);
/// A figure is short; a program that prints a book has it cut.
const LONGEST_BYTES: u64 = 64 << 10;

/// A program's watts, with the time.
pub type TimedWatts = (Instant, Result<f64, ProgramError>);

/// Why a program gave no watts: its name, and what it did instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{program} {why}")]
pub struct ProgramError {
    program: &'static str,
    why: String,
}

/// The program that runs now, so that it can be ended with the watch.
#[derive(Clone, Debug, Default)]
pub struct Program(Arc<Mutex<Option<Child>>>);

impl Program {
    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        lock(&self.0)
    }

    /// Ends it, with all that it started.
    pub fn end(&self) {
        if let Some(mut child) = self.lock().take() {
            kill_group(child.id());
            let _ = child.wait();
        }
    }

    /// What it printed; the error is a phrase.
    fn run(&self, command: &mut Command) -> Result<String, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => "is not installed".to_string(),
            _ => format!("cannot be started: {error}"),
        })?;
        *self.lock() = Some(child);
        let started = clock::now();
        loop {
            let mut running = self.lock();
            let Some(child) = running.as_mut() else { return Err("was ended".into()) };
            match child.try_wait() {
                Ok(Some(status)) => {
                    let out = child.stdout.take();
                    *running = None;
                    let mut text = Vec::new();
                    // A child of its own that still holds the pipe keeps this source waiting, and no other.
                    if let Some(out) = out.filter(|_| status.success()) {
                        let _ = out.take(LONGEST_BYTES).read_to_end(&mut text);
                    }
                    return match status.success() {
                        true => Ok(String::from_utf8_lossy(&text).into_owned()),
                        false => Err(format!("failed ({status})")),
                    };
                }
                Ok(None) => {}
                Err(error) => return Err(format!("is lost: {error}")),
            }
            drop(running);
            if clock::since(started) > PROGRAM_TIMEOUT {
                self.end();
                return Err(format!("took longer than {} s and was ended", PROGRAM_TIMEOUT.as_secs()));
            }
            clock::sleep(POLL_INTERVAL);
        }
    }
}

/// Asks the management controller, where the kernel has a way to it and `ipmitool` is there; none where there
/// is not a controller.
pub fn ipmi(sysroot: &Sysroot, program: &Program) -> impl FnMut() -> Option<TimedWatts> + Send + 'static {
    let (sysroot, program) = (sysroot.clone(), program.clone());
    move || {
        if !sysroot.is_live() || sysroot.list("/sys/class/ipmi").is_empty() {
            return None;
        }
        let read = program.run(Command::new("ipmitool").args(["dcmi", "power", "reading"]));
        let watts = read.and_then(|text| parse_ipmi(&text).ok_or_else(|| "reports no power".to_string()));
        Some((clock::now(), watts.map_err(|why| ProgramError { program: "ipmitool", why })))
    }
}

/// Runs the user's command with `sh -c`; the first number that it prints is watts.
pub fn power_command(command: &str, program: &Program) -> impl FnMut() -> TimedWatts + Send + 'static {
    let (command, program) = (command.to_string(), program.clone());
    move || {
        let read = program.run(Command::new("sh").args(["-c", &command]));
        let watts =
            read.and_then(|text| parse_watts(&text).ok_or_else(|| "printed no number of watts".to_string()));
        (clock::now(), watts.map_err(|why| ProgramError { program: "the power command", why }))
    }
}

/// `    Instantaneous power reading:                   220 Watts`.
fn parse_ipmi(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.trim_start().starts_with("Instantaneous power reading"))?;
    parse_watts(line.split_once(':')?.1)
}

/// The first word that is a number, with or without its unit (`231.5`, `231.5W`). Below 1 MW: more is not
/// what was meant.
fn parse_watts(text: &str) -> Option<f64> {
    let number = |word: &str| {
        let word = word.strip_suffix("Watts").or(word.strip_suffix(['W', 'w'])).unwrap_or(word);
        word.parse::<f64>().ok()
    };
    text.split_ascii_whitespace().find_map(number).filter(|watts| (0.0..1e6).contains(watts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    #[test]
    fn counters_and_sensors_in_order() {
        let tree = Tree::new(&[
            ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
            ("sys/class/powercap/intel-rapl:0/energy_uj", "240\n"),
            ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "1000\n"),
            ("sys/class/powercap/intel-rapl:0:0/name", "dram\n"),
            ("sys/class/powercap/intel-rapl-mmio:0/name", "package-0\n"),
            ("sys/class/hwmon/hwmon0/name", "coretemp\n"),
            ("sys/class/hwmon/hwmon10/name", "pmbus\n"),
            ("sys/class/hwmon/hwmon10/power1_input", "7000000\n"),
            ("sys/class/hwmon/hwmon10/power1_average", "6000000\n"),
            ("sys/class/hwmon/hwmon10/power1_average_interval", "1\n"),
            ("sys/class/hwmon/hwmon2/device/name", "power_meter\n"),
            ("sys/class/hwmon/hwmon2/device/power1_average", "250000000\n"),
        ]);
        let sysroot = Sysroot::recorded(tree.path());
        let counters = energy_counters(&sysroot);
        let names: Vec<&str> = counters.iter().map(|meter| meter.name.as_str()).collect();
        assert_eq!(names, ["package-0", "package-0/dram"]);
        assert_eq!(counters[0].kind, MeterKind::Energy { wraps_at: 1000 });
        assert_eq!(counters[0].read(&sysroot), Ok(240));
        assert!(counters[1].read(&sysroot).is_err() && counters[1].is_part() && !counters[0].is_part());
        let sensors = power_sensors(&sysroot);
        let read: Vec<_> = sensors.iter().map(|meter| (meter.name.as_str(), meter.read(&sysroot))).collect();
        assert_eq!(read, [("power_meter power1", Ok(250_000_000)), ("pmbus power1", Ok(6_000_000))]);
        assert!(sensors[0].is_whole_machine() && !sensors[1].is_whole_machine());
    }

    proptest! {
        #[test]
        fn any_name_is_a_sensor_or_not(name in "power[0-9_a-zé]{0,12}") {
            let reading = name.ends_with("_input") || name.ends_with("_average");
            prop_assert!(power_sensor(&name).is_none() || reading);
        }

        #[test]
        fn what_was_used_is_never_more_than_the_range(
            before in 0u64..2000, now in 0u64..1000, wraps_at in 0u64..1500,
        ) {
            match used(before, now, wraps_at) {
                Some(used) => prop_assert!(used <= now.max(wraps_at.saturating_add(now))),
                None => prop_assert!(now < before && wraps_at < before),
            }
        }
    }

    #[test]
    fn words_with_watts() {
        assert_eq!(
            parse_ipmi(
                "\n    Instantaneous power reading:                   220 Watts\n    Minimum: 1 Watts"
            ),
            Some(220.0)
        );
        assert_eq!(parse_ipmi("Power reading state is: deactivated"), None);
        assert_eq!(
            (parse_watts("power 231.5W now"), parse_watts("-3"), parse_watts("nan inf")),
            (Some(231.5), None, None)
        );
    }

    #[test]
    fn a_command_is_run_fails_or_hangs() {
        let program = Program::default();
        let run = |command: &str| power_command(command, &program)().1;
        assert_eq!(run("echo 12.5"), Ok(12.5));
        let failed = |why: &str| ProgramError { program: "the power command", why: why.into() };
        assert_eq!(run("echo none"), Err(failed("printed no number of watts")));
        assert!(run("exit 3").is_err_and(|error| error.why.starts_with("failed")));
        let ending = program.clone();
        let waiter = std::thread::spawn(move || {
            while ending.lock().is_none() {
                std::thread::yield_now();
            }
            ending.end();
        });
        assert!(run("sleep 60").is_err());
        waiter.join().expect("the end");
    }

    proptest! {
        #[test]
        fn any_text_is_watts_or_none(text in "[0-9a-zW:.eé -]{0,40}") {
            prop_assert!(parse_watts(&text).is_none_or(|watts| (0.0..1e6).contains(&watts)));
            let _ = parse_ipmi(&text);
        }
    }
}
