//! The panel below a measurement: a thread that draws, what the measuring thread has said, and the machine
//! while something works on it, which another thread samples once a second.
//!
//! The measuring thread only leaves words; it never waits for the terminal, which may be held (Ctrl-S) or
//! slow.

use super::{done, step};
use crate::cli::output::{Output, StatusLines};
use linerate_facts::printable::printable;
use linerate_facts::sysroot::Sysroot;
use linerate_measure::event::{Event, WorkerShares};
use linerate_measure::measure::Stage;
use linerate_system::counters::{looked_on, thread_cpu};
use linerate_system::process::is_in_foreground;
use linerate_system::stop::Stop;
use linerate_system::{clock, lock};
use linerate_watch::bottleneck::judged_flow;
use linerate_watch::history::{History, LatestMoment};
use linerate_watch::model::{FlowStage, FlowWorkers, LiveFlow, Moment};
use linerate_watch::terminal::panel::{Busy, Panel, panel, rows_of};
use linerate_watch::terminal::{Theme, size_or_usual};
use linerate_watch::{LiveWatch, WatchSpec};
use signal_hook::consts::SIGCONT;
use std::io::stderr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The panel is drawn this often: its seconds count.
const DRAW: Duration = Duration::from_millis(250);

/// How much of it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shows {
    /// How far it is, what limits it, and the parts of the machine that it works on.
    Panel,
    /// How far it is; nothing is sampled for it.
    Line,
    /// What was measured, written once and for all: the terminal cannot draw over a line.
    Nothing,
}

/// What the measuring thread has said.
#[derive(Debug)]
struct ProgressState {
    flow: LiveFlow,
    begin: Instant,
    /// When all of it will be done, as far as that is known.
    end: Option<Instant>,
    /// What is to stay on the terminal, and does not yet.
    lines: Vec<String>,
    over: bool,
}

#[derive(Debug)]
struct SharedProgress {
    state: Mutex<ProgressState>,
    woken: Condvar,
}

/// The panel of a command, until it is finished or dropped.
pub(super) struct StatusPanel {
    shared: Arc<SharedProgress>,
    machine: Option<MachineView>,
    drawing: Option<JoinHandle<()>>,
    lines: StatusLines,
}

impl StatusPanel {
    /// Starts its threads; none where the system gives none.
    pub(in crate::cli) fn start(command: &'static str, shows: Shows, output: &Output) -> Option<StatusPanel> {
        let flow = LiveFlow { command: command.into(), stage: FlowStage::Step, ..LiveFlow::default() };
        let state = ProgressState { flow, begin: clock::now(), end: None, lines: Vec::new(), over: false };
        let shared = Arc::new(SharedProgress { state: Mutex::new(state), woken: Condvar::new() });
        let resumed = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGCONT, Arc::clone(&resumed)).ok()?;
        let machine = if shows == Shows::Panel { Some(MachineView::start()?) } else { None };
        let drawing = Drawing {
            shared: Arc::clone(&shared),
            machine: machine.clone(),
            shows,
            resumed,
            busy: Busy::default(),
            output: output.clone(),
        };
        let lines = output.status_lines().clone();
        if shows != Shows::Nothing {
            lines.begin();
        }
        let drawing = std::thread::Builder::new().name("view".into()).spawn(move || drawing.run()).ok();
        if drawing.is_none() {
            lines.end();
        }
        Some(StatusPanel { shared, machine, drawing: Some(drawing?), lines })
    }

    /// What was measured stays, the panel goes.
    pub(in crate::cli) fn finish(&mut self) {
        self.machine.iter().for_each(MachineView::stop);
        lock(&self.shared.state).over = true;
        self.shared.woken.notify_all();
        if let Some(drawing) = self.drawing.take() {
            // A panic of the view takes nothing from the measurement.
            let _ = drawing.join();
            self.lines.end();
        }
    }

    /// How far a piece of work is, and how long it will still take.
    pub(in crate::cli) fn reached(&self, how_far: String, seconds_left: Option<f64>) {
        let mut state = lock(&self.shared.state);
        state.flow.name = how_far;
        state.end = seconds_left.map(|left| clock::now() + seconds(left));
    }

    pub(in crate::cli) fn hear(&self, event: &Event) {
        lock(&self.shared.state).hear(event);
        if matches!(event, Event::Measured(_) | Event::Note(_) | Event::Failed(_) | Event::Step(_)) {
            self.shared.woken.notify_all();
        }
    }
}

impl Drop for StatusPanel {
    fn drop(&mut self) {
        self.finish();
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.clamp(0.0, 1e6))
}

fn stage_of(stage: Stage) -> FlowStage {
    match stage {
        Stage::Memory => FlowStage::Memory,
        Stage::Disk => FlowStage::Disk,
        Stage::Network | Stage::Fleet => FlowStage::Network,
        Stage::Path | Stage::Get | Stage::Put | Stage::Explain => FlowStage::Path,
        Stage::Load => FlowStage::Load,
    }
}

impl ProgressState {
    /// Another thing is done now; what was known of the one before is not of this one.
    fn begins(&mut self, stage: FlowStage, name: String) {
        let LiveFlow { command, devices, .. } = std::mem::take(&mut self.flow);
        self.flow = LiveFlow { command, devices, stage, name, ..LiveFlow::default() };
    }

    fn hear(&mut self, event: &Event) {
        match event {
            Event::Step(name) => self.begins(FlowStage::Step, step(name).into()),
            Event::Started { stage, name, seconds } => {
                let length = if *seconds > 0.0 { format!(" ({seconds:.1} s)") } else { String::new() };
                self.begins(stage_of(*stage), format!("{name}{length}"));
            }
            Event::Uses(devices) => self.flow.devices = Some(devices.clone()),
            Event::Remaining { seconds: left } => self.end = Some(clock::now() + seconds(*left)),
            Event::Progress { bytes_per_second, .. } => {
                let rate = Some(*bytes_per_second).filter(|rate| *rate > 0.0);
                self.flow.bytes_per_second = rate.or(self.flow.bytes_per_second);
            }
            Event::Workers(WorkerShares { count, busy, starved, blocked, busiest, incoming }) => {
                let (count, busy, starved, blocked, busiest) = (*count, *busy, *starved, *blocked, *busiest);
                let incoming = *incoming;
                self.flow.workers = Some(FlowWorkers { count, busy, starved, blocked, busiest, incoming });
            }
            Event::Measured(measurement) => self.lines.push(done(measurement)),
            Event::Note(note) => self.lines.push(format!("  note: {}", printable(note))),
            Event::Failed(what) => self.lines.push(format!("  failed: {}", printable(what))),
        }
    }
}

struct Drawing {
    shared: Arc<SharedProgress>,
    machine: Option<MachineView>,
    shows: Shows,
    /// Somebody has stopped us and let us go on: other programs have written since.
    resumed: Arc<AtomicBool>,
    busy: Busy,
    output: Output,
}

impl Drawing {
    fn run(mut self) {
        let (theme, mut counted, mut seen_ms) = (Theme::of_environment(), thread_cpu(), 0);
        loop {
            let (flow, elapsed, above, over) = self.state();
            let newest = self.machine.as_ref().and_then(|machine| machine.latest.newest());
            let moment = newest.as_ref().map(|shown| &shown.moment);
            if let Some(moment) = moment.filter(|moment| moment.at_ms != seen_ms) {
                seen_ms = moment.at_ms;
                self.busy.note(moment);
            }
            let flow = match &self.machine {
                Some(_) => judged_flow(flow, moment.unwrap_or(&Moment::default())),
                None => flow,
            };
            self.draw(&flow, elapsed, moment, &above, over, theme);
            count_as_onlooker(&mut counted);
            if over {
                return;
            }
        }
    }

    /// What is to be drawn, at the next tick or as soon as there is something that stays.
    fn state(&self) -> (LiveFlow, Duration, Vec<String>, bool) {
        let state = lock(&self.shared.state);
        let waiting = |state: &mut ProgressState| !state.over && state.lines.is_empty();
        let waited = self.shared.woken.wait_timeout_while(state, DRAW, waiting);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let mut flow = state.flow.clone();
        flow.seconds_left = state.end.map(|end| end.saturating_duration_since(clock::now()).as_secs_f64());
        (flow, clock::since(state.begin), std::mem::take(&mut state.lines), state.over)
    }

    fn draw(
        &self,
        flow: &LiveFlow,
        elapsed: Duration,
        moment: Option<&Moment>,
        above: &[String],
        over: bool,
        theme: Theme,
    ) {
        // A terminal that is gone shows nothing any more; the measurement goes on.
        if self.shows == Shows::Nothing {
            above.iter().for_each(|line| self.output.tell(line));
            return;
        }
        let status_lines = self.output.status_lines();
        if self.resumed.swap(false, Ordering::Relaxed) {
            status_lines.forget();
        }
        // In the background the shell has the screen: only what stays is written, as any command does.
        if over || !is_in_foreground() {
            let _ = status_lines.draw(above, &[]);
            return;
        }
        let (width, height) = size_or_usual(stderr());
        let shown = |history: &History| {
            let blind = self.machine.as_ref().and_then(MachineView::blind);
            let (busy, blind) = (&self.busy, blind.as_deref());
            let rows = if self.shows == Shows::Panel { rows_of(height) } else { 1 };
            panel(
                &Panel { flow, elapsed, moment, history, busy, blind, theme },
                width.saturating_sub(1),
                rows,
            )
        };
        let lines = match &self.machine {
            Some(machine) => shown(&machine.latest.history()),
            None => shown(&History::default()),
        };
        let _ = status_lines.draw(above, &lines);
    }
}

/// The machine is sampled this often: often enough for an eye, and about 4 ms of CPU time each.
const MACHINE_SAMPLE: Duration = Duration::from_secs(1);

/// The newest sample, and the past.
#[derive(Clone)]
pub(in crate::cli) struct MachineView {
    pub(in crate::cli) latest: Arc<LatestMoment>,
    /// Why there are no samples.
    blind: Arc<Mutex<Option<String>>>,
    stop: Arc<Stop>,
}

impl MachineView {
    /// Samples once a second, on a thread of its own; none where the system gives none.
    pub(in crate::cli) fn start() -> Option<MachineView> {
        let view = MachineView { latest: Arc::default(), blind: Arc::default(), stop: Arc::default() };
        let theirs = view.clone();
        std::thread::Builder::new().name("watch".into()).spawn(move || theirs.sample()).ok()?;
        Some(view)
    }

    /// No more samples; nobody waits for one that hangs in the kernel.
    pub(in crate::cli) fn stop(&self) {
        self.stop.end();
    }

    /// Why there are no samples, where there are none.
    fn blind(&self) -> Option<String> {
        lock(&self.blind).clone()
    }

    fn sample(&self) {
        let spec = WatchSpec { interval: MACHINE_SAMPLE, lean: true, ..WatchSpec::default() };
        let mut counted = thread_cpu();
        let mut watch = match LiveWatch::start(&Sysroot::live(), &spec) {
            Ok(watch) => watch,
            Err(why) => return *lock(&self.blind) = Some(why.to_string()),
        };
        while let Some(moment) = watch.next(&self.stop) {
            self.latest.tell(moment);
            count_as_onlooker(&mut counted);
        }
    }
}

/// CPU time of this thread since it was last counted is not a cost of what is measured.
fn count_as_onlooker(counted: &mut Duration) {
    let now = thread_cpu();
    looked_on(now.saturating_sub(*counted));
    *counted = now;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_measurement_become_its_flow() {
        let flow = LiveFlow { command: "run".into(), ..LiveFlow::default() };
        let mut state =
            ProgressState { flow, begin: Instant::now(), end: None, lines: Vec::new(), over: false };
        state.hear(&Event::Started { stage: Stage::Path, name: "TCP".into(), seconds: 2.0 });
        state.hear(&Event::Progress { stage: Stage::Path, bytes_per_second: 5e8 });
        // The first look of the next window: nothing is known, which is not that nothing moves.
        state.hear(&Event::Progress { stage: Stage::Path, bytes_per_second: 0.0 });
        let shares =
            WorkerShares { count: 2, busy: 0.1, starved: 0.8, blocked: 0.1, busiest: 0.2, incoming: false };
        state.hear(&Event::Workers(shares));
        assert_eq!((state.flow.stage, state.flow.name.as_str()), (FlowStage::Path, "TCP (2.0 s)"));
        assert_eq!(state.flow.bytes_per_second, Some(5e8));
        assert_eq!(state.flow.workers.map(|workers| (workers.count, workers.starved)), Some((2, 0.8)));
        state.hear(&Event::Failed("a \x1b[2J peer".into()));
        state.hear(&Event::Step("scratch"));
        assert_eq!(state.flow.name, "writing a scratch file");
        assert_eq!(
            (state.flow.workers, state.flow.bytes_per_second),
            (None, None),
            "another thing is done now"
        );
        assert_eq!(state.flow.command, "run");
        assert!(state.lines.len() == 1 && !state.lines[0].contains('\x1b'), "{:?}", state.lines);
    }
}
