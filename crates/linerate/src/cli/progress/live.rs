//! The panel beside a measurement: a thread that samples the machine once a second, a thread that draws, and the words of the one that measures.
//!
//! The measuring thread only leaves words; it never waits for the terminal, which may be held (Ctrl-S) or slow. Both threads tell their CPU time as
//! that of onlookers, so that it is no cost of what is measured.

use super::{done, step};
use crate::event::{Event, LaneShares, Listener};
use crate::measure::Stage;
use crate::report::printable;
use crate::sysroot::Sysroot;
use crate::watch::board::Board;
use crate::watch::flow::judged;
use crate::watch::model::{Flow, FlowLanes, FlowStage, Moment};
use crate::watch::terminal::Theme;
use crate::watch::terminal::below::Below;
use crate::watch::terminal::panel::{Busy, Panel, panel, rows_of};
use crate::watch::{Watch, WatchOrder};
use linerate_system::counters::{looked_on, thread_cpu};
use linerate_system::process::is_in_foreground;
use signal_hook::consts::SIGCONT;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The machine is looked at this often: often enough for an eye, and about 4 ms of CPU time each.
const SAMPLE: Duration = Duration::from_secs(1);
/// The panel is drawn this often: its seconds count.
const DRAW: Duration = Duration::from_millis(250);
/// A sentence of the program waits so long for a drawing to end.
const ASIDE: Duration = Duration::from_millis(200);
/// Where the terminal's size is not told.
const USUAL: (usize, usize) = (80, 24);

/// What stands on the terminal of this process. Held while something is written.
static BELOW: Mutex<Option<Below>> = Mutex::new(None);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a sentence above the panel, if there is one; false where the caller has to write it itself.
pub fn aside(line: &str) -> bool {
    let patience = Instant::now() + ASIDE;
    loop {
        if let Ok(mut below) = BELOW.try_lock() {
            let Some(below) = below.as_mut() else { return false };
            let text = format!("{}{line}\n", below.erased(size().0));
            return std::io::stderr().write_all(text.as_bytes()).is_ok();
        }
        // Held by a terminal that takes nothing: the sentence goes its own way.
        if Instant::now() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Columns and rows of the terminal now.
fn size() -> (usize, usize) {
    let seen = terminal_size::terminal_size_of(std::io::stderr());
    seen.map_or(USUAL, |(width, height)| (usize::from(width.0), usize::from(height.0)))
}

/// The words of the measuring thread.
#[derive(Debug)]
struct Told {
    flow: Flow,
    begin: Instant,
    /// When all of it will be done, as far as that is known.
    end: Option<Instant>,
    /// What is to stay on the terminal, and does not yet.
    lines: Vec<String>,
    over: bool,
}

#[derive(Debug)]
struct Shared {
    told: Mutex<Told>,
    woken: Condvar,
}

/// The panel of a command, until it is finished or dropped.
#[derive(Debug)]
pub struct Live {
    shared: Arc<Shared>,
    beside: Beside,
    drawing: Option<JoinHandle<()>>,
}

impl Live {
    /// Starts both threads; none where the system gives none.
    pub fn start(command: &'static str) -> Option<Live> {
        let flow = Flow { command: command.into(), stage: FlowStage::Step, ..Flow::default() };
        let told = Told { flow, begin: Instant::now(), end: None, lines: Vec::new(), over: false };
        let shared = Arc::new(Shared { told: Mutex::new(told), woken: Condvar::new() });
        let resumed = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGCONT, Arc::clone(&resumed)).ok()?;
        let beside = Beside::start()?;
        let (theirs, seen) = (Arc::clone(&shared), beside.clone());
        *locked(&BELOW) = Some(Below::default());
        let draw = move || Drawing { shared: theirs, beside: seen, resumed, busy: Busy::default() }.run();
        let drawing = std::thread::Builder::new().name("view".into()).spawn(draw).ok();
        if drawing.is_none() {
            *locked(&BELOW) = None;
        }
        Some(Live { shared, beside, drawing: Some(drawing?) })
    }

    /// What was measured stays, the panel goes.
    pub fn finish(&mut self) {
        self.beside.stop();
        locked(&self.shared.told).over = true;
        self.shared.woken.notify_all();
        if let Some(drawing) = self.drawing.take() {
            // A panic of the view takes nothing from the measurement.
            let _ = drawing.join();
            *locked(&BELOW) = None;
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.finish();
    }
}

fn stage_of(stage: Stage) -> FlowStage {
    match stage {
        Stage::Memory => FlowStage::Memory,
        Stage::Disk => FlowStage::Disk,
        Stage::Network => FlowStage::Network,
        Stage::Path => FlowStage::Path,
        Stage::Load => FlowStage::Load,
    }
}

impl Told {
    /// Another thing is done now; what was known of the one before is not of this one.
    fn begins(&mut self, stage: FlowStage, name: String) {
        let command = std::mem::take(&mut self.flow.command);
        self.flow = Flow { command, stage, name, ..Flow::default() };
    }

    fn hear(&mut self, event: &Event) {
        match event {
            Event::Step(name) => self.begins(FlowStage::Step, step(name).into()),
            Event::Started { stage, name, seconds } => {
                let length = if *seconds > 0.0 { format!(" ({seconds:.1} s)") } else { String::new() };
                self.begins(stage_of(*stage), format!("{name}{length}"));
            }
            Event::Remaining { seconds } => {
                self.end = Some(Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 1e6)));
            }
            Event::Progress { bytes_per_second, .. } => {
                let rate = Some(*bytes_per_second).filter(|rate| *rate > 0.0);
                self.flow.bytes_per_second = rate.or(self.flow.bytes_per_second);
            }
            Event::Lanes(LaneShares { count, busy, starved, blocked, busiest }) => {
                let (count, busy, starved, blocked, busiest) = (*count, *busy, *starved, *blocked, *busiest);
                self.flow.lanes = Some(FlowLanes { count, busy, starved, blocked, busiest });
            }
            Event::Measured(measurement) => self.lines.push(done(measurement)),
            Event::Note(note) => self.lines.push(format!("  note: {}", printable(note))),
            Event::Failed(what) => self.lines.push(format!("  failed: {}", printable(what))),
        }
    }
}

impl Listener for Live {
    fn hear(&mut self, event: &Event) {
        locked(&self.shared.told).hear(event);
        if matches!(event, Event::Measured(_) | Event::Note(_) | Event::Failed(_) | Event::Step(_)) {
            self.shared.woken.notify_all();
        }
    }
}

/// The machine beside the work: its newest moment, and the past.
#[derive(Clone)]
pub struct Beside {
    pub board: Arc<Board>,
    blind: Arc<Mutex<Option<String>>>,
    stop: Arc<AtomicBool>,
}

impl std::fmt::Debug for Beside {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Beside").finish_non_exhaustive()
    }
}

impl Beside {
    /// Samples once a second, on a thread of its own; none where the system gives none.
    pub fn start() -> Option<Beside> {
        let beside = Beside { board: Arc::default(), blind: Arc::default(), stop: Arc::default() };
        let theirs = beside.clone();
        std::thread::Builder::new().name("watch".into()).spawn(move || theirs.sample()).ok()?;
        Some(beside)
    }

    /// No more samples; nobody waits for one that hangs in the kernel.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn sample(&self) {
        let order = WatchOrder {
            interval: SAMPLE,
            nics: Vec::new(),
            disks: Vec::new(),
            power_command: None,
            lean: true,
        };
        let mut told = thread_cpu();
        let mut watch = match Watch::start(&Sysroot::live(), &order) {
            Ok(watch) => watch,
            Err(why) => return *locked(&self.blind) = Some(why),
        };
        while let Some(moment) = watch.next(&self.stop) {
            self.board.tell(moment);
            tell_cpu(&mut told);
        }
    }
}

/// CPU time of this thread since it last told is an onlooker's.
fn tell_cpu(told: &mut Duration) {
    let now = thread_cpu();
    looked_on(now.saturating_sub(*told));
    *told = now;
}

struct Drawing {
    shared: Arc<Shared>,
    beside: Beside,
    /// Somebody has stopped us and let us go on: other programs have written since.
    resumed: Arc<AtomicBool>,
    busy: Busy,
}

impl Drawing {
    fn run(mut self) {
        let (theme, mut told_cpu, mut seen_ms) = (Theme::of_environment(), thread_cpu(), 0);
        loop {
            let (flow, elapsed, lines, over) = self.words();
            let newest = self.beside.board.newest();
            let moment = newest.as_ref().map(|shown| &shown.moment);
            if let Some(moment) = moment.filter(|moment| moment.at_ms != seen_ms) {
                seen_ms = moment.at_ms;
                self.busy.note(moment);
            }
            self.draw(
                judged(flow, moment.unwrap_or(&Moment::default())),
                elapsed,
                moment,
                &lines,
                over,
                theme,
            );
            tell_cpu(&mut told_cpu);
            if over {
                return;
            }
        }
    }

    /// What is to be drawn, at the next tick or as soon as there is something that stays.
    fn words(&self) -> (Flow, Duration, Vec<String>, bool) {
        let told = locked(&self.shared.told);
        let waiting = |told: &mut Told| !told.over && told.lines.is_empty();
        let waited = self.shared.woken.wait_timeout_while(told, DRAW, waiting);
        let (mut told, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let mut flow = told.flow.clone();
        flow.seconds_left = told.end.map(|end| end.saturating_duration_since(Instant::now()).as_secs_f64());
        (flow, told.begin.elapsed(), std::mem::take(&mut told.lines), told.over)
    }

    fn draw(
        &self,
        flow: Flow,
        elapsed: Duration,
        moment: Option<&Moment>,
        above: &[String],
        over: bool,
        theme: Theme,
    ) {
        let (width, height) = size();
        let blind = locked(&self.beside.blind).clone();
        // In the background the shell has the screen: only what stays is written, as any command does.
        let lines = match over || !is_in_foreground() {
            true => Vec::new(),
            false => {
                let history = self.beside.board.history();
                let shown = Panel {
                    flow: &flow,
                    elapsed,
                    moment,
                    history: &history,
                    busy: &self.busy,
                    blind: blind.as_deref(),
                    theme,
                };
                panel(&shown, width.saturating_sub(1), rows_of(height))
            }
        };
        let mut below = locked(&BELOW);
        let Some(below) = below.as_mut() else { return };
        if self.resumed.swap(false, Ordering::Relaxed) {
            below.forget();
        }
        let text = match lines.is_empty() && above.is_empty() {
            true => below.erased(width),
            false => below.frame(above, &lines, width),
        };
        // A terminal that is gone shows nothing any more; the measurement goes on.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_a_measurement_become_its_flow() {
        let flow = Flow { command: "run".into(), ..Flow::default() };
        let mut told = Told { flow, begin: Instant::now(), end: None, lines: Vec::new(), over: false };
        told.hear(&Event::Started { stage: Stage::Path, name: "TCP".into(), seconds: 2.0 });
        told.hear(&Event::Progress { stage: Stage::Path, bytes_per_second: 5e8 });
        // The first look of the next window: nothing is known, which is not that nothing moves.
        told.hear(&Event::Progress { stage: Stage::Path, bytes_per_second: 0.0 });
        let shares = LaneShares { count: 2, busy: 0.1, starved: 0.8, blocked: 0.1, busiest: 0.2 };
        told.hear(&Event::Lanes(shares));
        assert_eq!((told.flow.stage, told.flow.name.as_str()), (FlowStage::Path, "TCP (2.0 s)"));
        assert_eq!(told.flow.bytes_per_second, Some(5e8));
        assert_eq!(told.flow.lanes.map(|lanes| (lanes.count, lanes.starved)), Some((2, 0.8)));
        told.hear(&Event::Failed("a \x1b[2J peer".into()));
        told.hear(&Event::Step("scratch"));
        assert_eq!(told.flow.name, "writing a scratch file");
        assert_eq!((told.flow.lanes, told.flow.bytes_per_second), (None, None), "another thing is done now");
        assert_eq!(told.flow.command, "run");
        assert!(told.lines.len() == 1 && !told.lines[0].contains('\x1b'), "{:?}", told.lines);
    }
}
