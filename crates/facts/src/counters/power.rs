//! What the machine draws while something else happens: one answer of all meters, read beside it.
//!
//! The user's own meters (`LINERATE_POWER_COMMAND`, all of them together) come first, then one of the whole machine
//! (ACPI's, the management controller's), then the processors' packages together, which are a part of it.

use super::meters::{Meter, MeterKind, Program, energy_counters, ipmi, power_command, power_sensors, used};
use crate::sysroot::Sysroot;
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The kernel's meters are read so often; many sensors have a new figure only each second.
const KERNEL_EVERY: Duration = Duration::from_millis(200);
/// A program is started again no sooner.
const PROGRAM_EVERY: Duration = Duration::from_millis(500);
/// What a meter showed holds so long: somewhat longer than a program may take.
const HOLDS: Duration = Duration::from_secs(12);
/// The idle machine is looked at for so long, and longer where a meter is slow to answer.
const IDLE: Duration = Duration::from_secs(2);
const LONGEST_IDLE: Duration = Duration::from_secs(14);
/// With less of the time known, a mean is none.
const LEAST_KNOWN: f64 = 0.9;

/// There is no meter, or no figure of it, and why: a phrase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoMeter(String);

impl NoMeter {
    fn because(why: impl std::error::Error) -> Self {
        NoMeter(why.to_string())
    }
}

/// By what power is known, the best first: the user's own meters, the machine's (hwmon, then its management
/// controller), and the processors' packages, which are a part of it.
pub fn by_commands(count: usize) -> &'static str {
    if count == 1 { "LINERATE_POWER_COMMAND" } else { "all of LINERATE_POWER_COMMAND together" }
}

pub const BY_PACKAGES: &str = "the processors' packages";

/// Reads the meters beside other work until it is dropped.
#[derive(Debug, Default)]
pub struct PowerRecorder {
    by: String,
    /// Of the machine.
    is_part: bool,
    tracks: Vec<Arc<Mutex<Track>>>,
    programs: Vec<Program>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Energy since the recorder began, all meters together.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerReading {
    at: Instant,
    joules: f64,
    /// Of the time since the beginning, what the meters answered for.
    known: Duration,
    /// Why a meter gives no figure now.
    error: Option<NoMeter>,
}

impl PowerReading {
    /// Watts between two readings, a mean over the time.
    pub fn mean_since(&self, earlier: &PowerReading) -> Result<f64, NoMeter> {
        let seconds = self.at.saturating_duration_since(earlier.at).as_secs_f64();
        let known = self.known.saturating_sub(earlier.known).as_secs_f64();
        if seconds > 0.0 && known >= LEAST_KNOWN * seconds {
            return Ok(((self.joules - earlier.joules) / known).max(0.0));
        }
        Err(self.error.clone().unwrap_or_else(|| NoMeter("the meter has not answered yet".into())))
    }

    /// Time between two readings, seconds.
    pub fn seconds_since(&self, earlier: &PowerReading) -> f64 {
        self.at.saturating_duration_since(earlier.at).as_secs_f64()
    }
}

/// What one meter has shown so far.
#[derive(Clone, Debug, Default)]
struct Track {
    /// Up to the last reading.
    joules: f64,
    known: Duration,
    answers: u32,
    /// The last reading, and the watts that hold from then on; none after a failure.
    held: Option<(Instant, f64)>,
    /// The first answer; and when it last showed other watts than before, with the least time between two
    /// such moments.
    first: Option<Instant>,
    changed: Option<Instant>,
    least_change: Option<Duration>,
    error: Option<NoMeter>,
}

impl Track {
    /// A meter of power: what it showed last held until now.
    fn power(&mut self, at: Instant, read: Result<f64, NoMeter>) {
        let (joules, known) = self.by(at);
        (self.joules, self.known) = (joules, known);
        match read {
            Ok(watts) => {
                if self.held.is_some_and(|(_, before)| before != watts) {
                    let since = self.changed.replace(at).map(|before| at.saturating_duration_since(before));
                    self.least_change = self.least_change.into_iter().chain(since).min();
                }
                self.first.get_or_insert(at);
                (self.held, self.error) = (Some((at, watts)), None);
                self.answers += 1;
            }
            Err(why) => (self.held, self.error) = (None, Some(why)),
        }
    }

    /// A counter of energy: what was used since `since`.
    fn energy(&mut self, since: Instant, at: Instant, joules: f64) {
        let span = at.saturating_duration_since(since);
        self.joules += joules;
        self.known += span;
        self.answers += 1;
        (self.held, self.error) = (Some((at, joules / span.as_secs_f64().max(1e-6))), None);
    }

    /// Time from one figure of the meter to its next: between two answers, or where it shows the same in several, as a meter
    /// does that averages by itself, between two changes.
    fn interval(&self) -> Duration {
        let answered =
            self.first.zip(self.held).map(|(first, (last, _))| last.saturating_duration_since(first));
        let answers = answered.map_or(HOLDS, |time| match self.answers {
            0 | 1 => HOLDS,
            several => time / (several - 1),
        });
        answers.max(self.least_change.unwrap_or_default()).min(HOLDS)
    }

    /// Joules, and the time that they are known for, at a moment after the last reading.
    fn by(&self, at: Instant) -> (f64, Duration) {
        let Some((since, watts)) = self.held else { return (self.joules, self.known) };
        let span = at.saturating_duration_since(since).min(HOLDS);
        (self.joules + watts * span.as_secs_f64(), self.known + span)
    }
}

impl PowerRecorder {
    /// Begins to read the best meters that this machine has.
    pub fn start(sysroot: &Sysroot, commands: &[String]) -> Result<Self, NoMeter> {
        let mut recorder = PowerRecorder::default();
        if !commands.is_empty() {
            recorder.by = by_commands(commands.len()).into();
            for words in commands {
                let program = Program::default();
                let mut read = power_command(words, &program);
                recorder.programs.push(program);
                recorder.read_program(move || read().1.map_err(NoMeter::because))?;
            }
            return Ok(recorder);
        }
        let whole = |meter: &Meter| meter.is_whole_machine() && meter.read(sysroot).is_ok();
        if let Some(meter) = power_sensors(sysroot).into_iter().find(whole) {
            recorder.by.clone_from(&meter.name);
            recorder.read_sensor(sysroot, meter)?;
            return Ok(recorder);
        }
        let program = Program::default();
        let mut controller = ipmi(sysroot, &program);
        if let Some((_, Ok(_))) = controller() {
            recorder.by = "the management controller (ipmitool)".into();
            recorder.programs.push(program);
            recorder.read_program(move || match controller() {
                Some((_, read)) => read.map_err(NoMeter::because),
                None => Err(NoMeter("the management controller is gone".into())),
            })?;
            return Ok(recorder);
        }
        recorder.read_packages(sysroot)?;
        Ok(recorder)
    }

    /// The processors' packages together, by their counters of energy.
    fn read_packages(&mut self, sysroot: &Sysroot) -> Result<(), NoMeter> {
        let mut packages = energy_counters(sysroot);
        packages.retain(|meter| !meter.is_part());
        if packages.is_empty() {
            return Err(NoMeter(
                "this machine has neither a power meter (hwmon, IPMI) nor energy counters (RAPL)".into(),
            ));
        }
        if packages.iter().any(|meter| meter.read(sysroot).is_err()) {
            return Err(NoMeter(
                "the energy counters (RAPL) are root's alone; run as root to see them".into(),
            ));
        }
        (self.by, self.is_part) = (BY_PACKAGES.into(), true);
        for meter in packages {
            let MeterKind::Energy { wraps_at } = meter.kind else { continue };
            let (sysroot, mut before) = (sysroot.clone(), None);
            self.read_again(KERNEL_EVERY, move |track| {
                let now = (clock::now(), meter.read(&sysroot));
                match (before.replace(now.clone()), now) {
                    (Some((since, Ok(earlier))), (at, Ok(later))) => match used(earlier, later, wraps_at) {
                        Some(microjoules) => lock(track).energy(since, at, microjoules as f64 / 1e6),
                        None => lock(track).power(at, Err(NoMeter("an energy counter began again".into()))),
                    },
                    (_, (at, Err(why))) => lock(track).power(at, Err(NoMeter::because(why))),
                    _ => {}
                }
            })?;
        }
        Ok(())
    }

    fn read_sensor(&mut self, sysroot: &Sysroot, meter: Meter) -> Result<(), NoMeter> {
        let sysroot = sysroot.clone();
        self.read_again(KERNEL_EVERY, move |track| {
            let read = meter.read(&sysroot).map(|microwatts| microwatts as f64 / 1e6);
            lock(track).power(clock::now(), read.map_err(NoMeter::because));
        })
    }

    fn read_program(
        &mut self,
        mut read: impl FnMut() -> Result<f64, NoMeter> + Send + 'static,
    ) -> Result<(), NoMeter> {
        self.read_again(PROGRAM_EVERY, move |track| {
            let answer = read();
            lock(track).power(clock::now(), answer);
        })
    }

    /// A thread for a meter: a slow one keeps no other waiting.
    fn read_again(
        &mut self,
        every: Duration,
        mut read: impl FnMut(&Mutex<Track>) + Send + 'static,
    ) -> Result<(), NoMeter> {
        let track = Arc::new(Mutex::new(Track::default()));
        self.tracks.push(Arc::clone(&track));
        let stop = Arc::clone(&self.stop);
        let work = move || {
            while !stop.load(Ordering::Relaxed) {
                let next = clock::now() + every;
                read(&track);
                while let left @ 1.. = next.saturating_duration_since(clock::now()).as_nanos() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    std::thread::park_timeout(Duration::from_nanos(u64::try_from(left).unwrap_or(0)));
                }
            }
        };
        let thread = std::thread::Builder::new().name("power meter".into()).spawn(work);
        self.threads
            .push(thread.map_err(|error| NoMeter(format!("no thread for the power meter: {error}")))?);
        Ok(())
    }

    /// The user's meters, of which a test shows the figures.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_test(meters: usize) -> Self {
        let mut recorder = PowerRecorder::default();
        recorder.tracks.resize_with(meters, Arc::default);
        recorder.by = by_commands(meters).into();
        recorder
    }

    /// Each shows its watts now, or why not.
    #[cfg(any(test, feature = "testing"))]
    pub fn show(&self, watts: &[Result<f64, &str>]) {
        for (track, watts) in self.tracks.iter().zip(watts) {
            lock(track).power(clock::now(), watts.map_err(|why| NoMeter(why.into())));
        }
    }

    /// Which meter it is.
    pub fn by(&self) -> &str {
        &self.by
    }

    /// It shows all that the machine draws, not the processors only.
    pub fn whole_machine(&self) -> bool {
        !self.is_part
    }

    /// Energy itself is counted: any stretch of time has its own figure.
    pub fn counts_energy(&self) -> bool {
        self.is_part
    }

    /// The user named the meters (LINERATE_POWER_COMMAND).
    pub fn is_users(&self) -> bool {
        self.by == by_commands(self.tracks.len())
    }

    /// Time from one figure of the slowest meter to its next, as far as was seen.
    pub fn interval(&self) -> Duration {
        self.tracks.iter().map(|track| lock(track).interval()).max().unwrap_or_default()
    }

    /// Energy until now.
    pub fn read(&self) -> PowerReading {
        let at = clock::now();
        let mut sum = PowerReading { at, joules: 0.0, known: Duration::MAX, error: None };
        for track in &self.tracks {
            let track = lock(track);
            let (joules, known) = track.by(at);
            sum.joules += joules;
            sum.known = sum.known.min(known);
            sum.error = sum.error.take().or_else(|| track.error.clone());
        }
        sum
    }

    /// Watts of the machine before anything is done, over two seconds or as many as the meter needs.
    pub fn idle(&self, stop: &AtomicBool) -> Result<f64, NoMeter> {
        let begin = clock::now();
        let rest_until = |enough: &dyn Fn() -> bool| {
            while !enough() && clock::since(begin) < LONGEST_IDLE && !stop.load(Ordering::Relaxed) {
                clock::sleep(POLL_INTERVAL);
            }
        };
        rest_until(&|| self.answered(1));
        let first = self.read();
        rest_until(&|| self.answered(2) && clock::since(first.at) >= IDLE);
        self.read().mean_since(&first)
    }

    /// Every meter has answered so often, or one of them has failed.
    fn answered(&self, times: u32) -> bool {
        self.tracks.iter().all(|track| lock(track).answers >= times)
            || self.tracks.iter().any(|track| lock(track).error.is_some())
    }
}

impl Drop for PowerRecorder {
    /// No program that reads a meter outlives the recorder.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in &self.threads {
            thread.thread().unpark();
        }
        for thread in self.threads.drain(..) {
            while !thread.is_finished() {
                self.programs.iter().for_each(Program::end);
                clock::sleep(Duration::from_millis(2));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Sysroot) {
        let root = tempfile::tempdir().expect("a temporary directory");
        put(root.path(), &[("proc/version", "x")]);
        put(root.path(), files);
        let sysroot = Sysroot::recorded(root.path());
        (root, sysroot)
    }

    fn put(root: &std::path::Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let file = root.join(path);
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("directories");
            std::fs::write(file, text).expect("a file");
        }
    }

    fn after(recorder: &PowerRecorder, times: u32) -> PowerReading {
        let until = Instant::now() + Duration::from_secs(10);
        while !recorder.answered(times) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        recorder.read()
    }

    /// By its answers; by its changes, where a meter is asked more often than it measures.
    #[test]
    fn a_meters_interval_is_that_of_its_figures() {
        let begin = clock::now();
        let track = |figures: &[(u64, f64)]| {
            let mut track = Track::default();
            for (millis, watts) in figures {
                track.power(begin + Duration::from_millis(*millis), Ok(*watts));
            }
            track.interval()
        };
        assert_eq!(track(&[(0, 349.0)]), HOLDS, "one answer says nothing");
        assert_eq!(track(&[(0, 349.0), (500, 349.0), (1000, 349.0)]), Duration::from_millis(500));
        assert_eq!(track(&[(0, 349.0), (10_000, 351.0), (20_000, 350.0)]), Duration::from_secs(10));
        let asked_often: Vec<(u64, f64)> = (0..60).map(|at| (at * 500, 340.0 + (at / 20) as f64)).collect();
        assert_eq!(track(&asked_often), Duration::from_secs(10));
    }

    const PACKAGE: &[(&str, &str)] = &[
        ("sys/class/powercap/intel-rapl:0/name", "package-0\n"),
        ("sys/class/powercap/intel-rapl:0/energy_uj", "1000000"),
        ("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "5000000"),
    ];

    #[test]
    fn without_a_meter_it_says_so() {
        let (_root, sysroot) = tree(&[]);
        let why = PowerRecorder::start(&sysroot, &[]).expect_err("no meter").to_string();
        assert!(why.starts_with("this machine has neither a power meter"), "{why}");
    }

    #[test]
    fn the_machines_meter_comes_before_its_processors() {
        let (root, sysroot) = tree(PACKAGE);
        let packages = PowerRecorder::start(&sysroot, &[]).expect("RAPL");
        assert_eq!((packages.by(), packages.whole_machine()), ("the processors' packages", false));
        put(
            root.path(),
            &[
                ("sys/class/hwmon/hwmon3/name", "power_meter"),
                ("sys/class/hwmon/hwmon3/power1_average", "250000000"),
            ],
        );
        let machine = PowerRecorder::start(&sysroot, &[]).expect("hwmon");
        assert_eq!((machine.by(), machine.whole_machine()), ("power_meter power1", true));
        let first = after(&machine, 1);
        std::thread::sleep(Duration::from_millis(20));
        let watts = machine.read().mean_since(&first).expect("watts");
        assert!((watts - 250.0).abs() < 1e-6, "{watts}");
    }

    #[test]
    fn a_counter_is_followed_over_its_end() {
        let (root, sysroot) = tree(PACKAGE);
        let recorder = PowerRecorder::start(&sysroot, &[]).expect("RAPL");
        after(&recorder, 1);
        let before = recorder.read();
        // It wrapped: 4 J to the end and half a joule since.
        put(root.path(), &[("sys/class/powercap/intel-rapl:0/energy_uj", "500000")]);
        let until = Instant::now() + Duration::from_secs(10);
        while recorder.read().joules < 4.4 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!((recorder.read().joules - before.joules - 4.5).abs() < 4.5, "{:?}", recorder.read());
        assert!(recorder.read().joules >= 4.4);
    }

    #[test]
    fn commands_are_summed_and_one_that_fails_leaves_the_sum_unknown() {
        let (_root, sysroot) = tree(&[]);
        let both =
            PowerRecorder::start(&sysroot, &["echo 200 W".into(), "echo 149".into()]).expect("commands");
        let first = after(&both, 1);
        std::thread::sleep(Duration::from_millis(20));
        let watts = both.read().mean_since(&first).expect("watts");
        assert!((watts - 349.0).abs() < 1e-6, "{watts}");
        let one =
            PowerRecorder::start(&sysroot, &["echo 200 W".into(), "echo nonsense".into()]).expect("commands");
        let first = after(&one, 3);
        std::thread::sleep(Duration::from_millis(20));
        let why = one.read().mean_since(&first).expect_err("a part is missing");
        assert!(why.to_string().contains("printed no number of watts"), "{why}");
    }

    #[test]
    fn a_command_that_hangs_ends_with_the_recorder() {
        let (_root, sysroot) = tree(&[]);
        let begun = Instant::now();
        let recorder = PowerRecorder::start(&sysroot, &["sleep 60".into()]).expect("a command");
        std::thread::sleep(Duration::from_millis(20));
        assert!(recorder.read().mean_since(&recorder.read()).is_err());
        drop(recorder);
        assert!(begun.elapsed() < Duration::from_secs(8));
    }

    #[test]
    fn what_a_meter_showed_holds_until_it_answers_again_and_not_for_ever() {
        let begin = clock::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut track = Track::default();
        track.power(at(0), Ok(100.0));
        track.power(at(2), Ok(300.0));
        assert_eq!(track.by(at(3)), (500.0, Duration::from_secs(3)));
        assert_eq!(track.by(at(60)), (200.0 + 12.0 * 300.0, Duration::from_secs(14)), "it hangs");
        track.power(at(4), Err(NoMeter("gone".into())));
        assert_eq!(track.by(at(60)), (800.0, Duration::from_secs(4)));
        track.energy(at(60), at(61), 50.0);
        assert_eq!(track.by(at(62)), (900.0, Duration::from_secs(6)));
    }
}
