//! The panel beside a measurement: how far it is, what holds it, and the parts of the machine that it works
//! on, in a few lines. Pure.

use super::network::{self, Columns};
use super::pieces::{TextRole, Theme, bar, bytes, fit, fit_to, milliseconds, outside, percent, piece, stack};
use super::state::{View, ViewState};
use super::storage;
use crate::history::History;
use crate::model::{Core, DiskRates, FlowStage, LiveFlow, Moment, NicRates};
use linerate_facts::printable::wrapped;
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_model::verdict::thresholds::CPU_FULL;
use ratatui::text::{Line, Span};
use std::collections::BTreeMap;
use std::time::Duration;

/// An interface that moves less than this is not busy with a measurement, bits per second.
const LEAST_BITS: f64 = 1e6;
/// A disk that moves less than this is not, bytes per second.
const LEAST_BYTES: f64 = 1e6;
/// Columns of the bar of time, in a terminal of usual width and in a wide one.
const TIME_BAR: (usize, usize) = (10, 20);
/// The panel takes at most half of the terminal, and never more rows than these.
const MOST_ROWS: usize = 14;

/// Interfaces and disks that have been busy while the panel was shown, with the most that they moved: a row
/// that is there stays.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    nics: BTreeMap<String, f64>,
    disks: BTreeMap<String, f64>,
}

impl Busy {
    /// The interfaces, by name.
    pub fn nics(&self) -> Vec<&str> {
        self.nics.keys().map(String::as_str).collect()
    }

    /// Adds those that are busy now.
    pub fn note(&mut self, moment: &Moment) {
        for nic in &moment.nics {
            keep(&mut self.nics, &nic.name, nic_rate(nic), LEAST_BITS);
        }
        for disk in moment.disks.iter().filter(|disk| !disk.is_virtual) {
            keep(&mut self.disks, &disk.name, disk_rate(disk), LEAST_BYTES);
        }
    }
}

fn keep(fastest: &mut BTreeMap<String, f64>, name: &str, rate: f64, least: f64) {
    match fastest.get_mut(name) {
        Some(most) => *most = most.max(rate),
        None if rate >= least => drop(fastest.insert(name.to_string(), rate)),
        None => {}
    }
}

fn nic_rate(nic: &NicRates) -> f64 {
    let (send, receive) = (nic.send.bits_per_second, nic.receive.bits_per_second);
    send.unwrap_or(0.0).max(receive.unwrap_or(0.0))
}

fn disk_rate(disk: &DiskRates) -> f64 {
    disk.read.bytes_per_second.unwrap_or(0.0) + disk.write.bytes_per_second.unwrap_or(0.0)
}

/// Everything that a panel is made of.
#[derive(Clone, Copy)]
pub struct Panel<'a> {
    pub flow: &'a LiveFlow,
    /// Since the command began.
    pub elapsed: Duration,
    /// None before the first sample.
    pub moment: Option<&'a Moment>,
    pub history: &'a History,
    pub busy: &'a Busy,
    /// Why there are no moments, where there are none.
    pub blind: Option<&'a str>,
    pub theme: Theme,
}

/// Rows that a panel may have in a terminal of so many.
pub fn rows_of(height: usize) -> usize {
    (height / 2).clamp(1, MOST_ROWS)
}

/// The lines, none wider than `width`, at most `rows`. With one row: the progress alone.
pub fn panel(panel: &Panel<'_>, width: usize, rows: usize) -> Vec<Line<'static>> {
    let mut lines = vec![progress(panel, width)];
    let sentence_rows = if rows >= 8 { 2 } else { 1 };
    lines.extend(limit(panel, width).into_iter().take(sentence_rows));
    if rows >= 8 {
        lines.extend(workers(panel, width));
    }
    match (panel.moment, panel.blind) {
        (Some(moment), _) => {
            let room = rows.saturating_sub(lines.len());
            lines.extend(machine(moment, panel.history, panel.busy, panel.theme, width, room));
        }
        (None, Some(why)) => {
            let text = fit_to(panel.theme, &format!(" no view of the machine: {why}"), width);
            lines.push(Line::from(piece(panel.theme, TextRole::Soft, text)));
        }
        (None, None) => {}
    }
    lines.truncate(rows.max(1));
    lines
}

/// The busy parts of the machine: a row for each interface and disk on the scale of what it can do, then the
/// CPUs. At most `rows`; of more devices those that have moved most.
pub fn machine(
    moment: &Moment,
    history: &History,
    busy: &Busy,
    theme: Theme,
    width: usize,
    rows: usize,
) -> Vec<Line<'static>> {
    let state = ViewState::default();
    let view = View { moment, history, state: &state, theme, note: "", ended: false };
    let columns = Columns::of(&view, width);
    let mut devices: Vec<(f64, Line<'static>)> = Vec::new();
    for nic in &moment.nics {
        devices
            .extend(busy.nics.get(&nic.name).map(|most| (*most / 8.0, network::row(&view, nic, &columns))));
    }
    for disk in &moment.disks {
        devices.extend(busy.disks.get(&disk.name).map(|most| (*most, disk_row(&view, disk, width))));
    }
    let room = rows.saturating_sub(1);
    if devices.len() > room {
        let mut most: Vec<f64> = devices.iter().map(|(most, _)| *most).collect();
        most.sort_by(|a, b| b.total_cmp(a));
        let least = if room == 0 { f64::INFINITY } else { most[room - 1] };
        devices.retain(|(most, _)| *most >= least);
        devices.truncate(room);
    }
    let mut lines: Vec<Line<'static>> = devices.into_iter().map(|(_, line)| line).collect();
    lines.extend(processors(moment, theme, width));
    lines.truncate(rows);
    lines
}

/// A disk with a bar that is worth its name: the watch's own row spends the columns of 80 on requests.
fn disk_row(view: &View<'_>, disk: &DiskRates, width: usize) -> Line<'static> {
    if !(60..110).contains(&width) {
        return storage::row(view, disk, width);
    }
    let theme = view.theme;
    let (read, write) = (&disk.read, &disk.write);
    let most = if read.bytes_per_second >= write.bytes_per_second { read } else { write };
    let latency = most.latency_ms.map_or(String::new(), |ms| milliseconds(Some(ms)));
    let queue = disk.queue_depth.map_or("-".into(), |depth| format!("{depth:.1}"));
    let mut spans =
        vec![Span::raw(" "), piece(theme, TextRole::Plain, fit(theme, &disk.name, 9)), Span::raw(" ")];
    spans.extend(bar(theme, TextRole::In, storage::share(disk), width.saturating_sub(55).min(40)));
    spans.push(piece(theme, TextRole::In, format!(" r {:>9}", bytes(read.bytes_per_second))));
    spans.push(piece(theme, TextRole::Out, format!(" w {:>9}", bytes(write.bytes_per_second))));
    spans.push(piece(theme, TextRole::Soft, format!(" {latency:>7}")));
    spans.push(piece(theme, TextRole::Plain, format!("  q {queue:>6}")));
    Line::from(spans)
}

/// ` 12s [=====>    ] disk: read sequential, 1 MiB · 813 MB/s · 42s left`, as the plain line has it.
fn progress(panel: &Panel<'_>, width: usize) -> Line<'static> {
    let Panel { flow, theme, elapsed, .. } = *panel;
    let mut spans = vec![piece(theme, TextRole::Soft, format!(" {:>3} ", short(elapsed.as_secs_f64())))];
    if let Some(left) = flow.seconds_left.filter(|_| width >= 60) {
        let past = elapsed.as_secs_f64();
        let columns = if width < 100 { TIME_BAR.0 } else { TIME_BAR.1 };
        spans.extend(bar(theme, TextRole::Good, Some(past / (past + left).max(1e-3)), columns));
        spans.push(Span::raw(" "));
    }
    let mut tail = String::new();
    if let Some(rate) = flow.bytes_per_second.filter(|rate| *rate > 0.0) {
        tail.push_str(&match flow.stage {
            FlowStage::Network | FlowStage::Path | FlowStage::Wall => show_bits_rate(rate),
            _ => show_bytes_rate(rate),
        });
    }
    let left = flow.seconds_left.filter(|left| *left >= 2.0);
    let left = left.map(|left| format!("{} left", short(left))).unwrap_or_default();
    // The rate is never cut away: the name gives way.
    let taken = Line::from(spans.clone()).width() + tail.chars().count() + 3;
    let both = taken + left.chars().count() + 3;
    let name =
        fit_to(theme, &stage_name(flow), width.saturating_sub(if both + 18 <= width { both } else { taken }));
    spans.push(piece(theme, TextRole::Strong, name));
    let mut add = |text: String, role: TextRole| {
        if !text.is_empty() {
            spans.extend([piece(theme, TextRole::Soft, theme.mark(" · ", " - ")), piece(theme, role, text)]);
        }
    };
    add(tail, TextRole::Plain);
    if both + 18 <= width {
        add(left, TextRole::Soft);
    }
    Line::from(spans)
}

/// `disk: read sequential`, or the step's words.
fn stage_name(flow: &LiveFlow) -> String {
    if let FlowStage::Step | FlowStage::Other = flow.stage {
        return outside(&flow.name);
    }
    let stage: &str = flow.stage.into();
    format!("{stage}: {}", outside(&flow.name))
}

/// `42s`, `3m 20s`, `2h 5m`.
fn short(seconds: f64) -> String {
    let seconds = seconds.clamp(0.0, 1e9) as u64;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        _ => format!("{}h {}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// What holds it, in as many rows as it takes; else why that is not known.
pub fn limit(panel: &Panel<'_>, width: usize) -> Vec<Line<'static>> {
    let Panel { flow, theme, .. } = *panel;
    let (role, text) = match &flow.limit {
        _ if matches!(flow.stage, FlowStage::Step) || flow.limit_by.is_empty() => return Vec::new(),
        Some(what) => (TextRole::Warn, format!("limited by: {}", outside(what))),
        None => (TextRole::Soft, format!("limited by: unknown, {}", outside(&flow.limit_by))),
    };
    let mut rows = wrapped(&theme.signs(text), width.saturating_sub(2));
    if rows.len() > 2 {
        rows.truncate(2);
        if let Some(last) = rows.last_mut() {
            *last = fit_to(theme, &format!("{last} {}", " ".repeat(width)), width.saturating_sub(3))
                .trim_end()
                .into();
            last.push_str(theme.mark("…", "~"));
        }
    }
    rows.into_iter().map(|row| Line::from(piece(theme, role, format!(" {row}")))).collect()
}

/// What is at its limit on this machine, in a row.
pub fn near_limit(what: &str, theme: Theme, width: usize) -> Line<'static> {
    let text = format!(" at its limit: {}", outside(what));
    Line::from(piece(theme, TextRole::Warn, fit_to(theme, &text, width)))
}

/// What the workers do with their time.
fn workers(panel: &Panel<'_>, width: usize) -> Option<Line<'static>> {
    let Panel { flow, theme, .. } = *panel;
    let workers = flow.workers.as_ref()?;
    let word = if workers.count == 1 { "worker" } else { "workers" };
    let (disks, network) = match workers.incoming {
        true => (workers.blocked, workers.starved),
        false => (workers.starved, workers.blocked),
    };
    let parts = [
        (TextRole::Plain, format!(" {} {word}", workers.count)),
        (TextRole::Soft, format!("  work {}", percent(Some(workers.busy)))),
        (TextRole::In, format!("  wait for disks {}", percent(Some(disks)))),
        (TextRole::Out, format!("  for network {}", percent(Some(network)))),
    ];
    let line = Line::from(parts.map(|(role, text)| piece(theme, role, text)).to_vec());
    (line.width() <= width).then_some(line)
}

/// All CPUs by class, and the fullest core.
fn processors(moment: &Moment, theme: Theme, width: usize) -> Option<Line<'static>> {
    let total = moment.cpus.total.as_ref()?;
    let busy = |core: &Core| core.eight.map_or(0.0, |eight| eight.busy());
    let fullest = moment.cpus.each.iter().max_by(|a, b| busy(a).total_cmp(&busy(b)));
    let words = fullest.map(|core| (core.number, busy(core)));
    let full = words.is_some_and(|(_, share)| share >= CPU_FULL);
    let words = words.map(|(number, share)| match width {
        ..60 => format!("  core {number} {}", percent(Some(share))),
        _ => format!("  fullest core {number} {}", percent(Some(share))),
    });
    let words = words.unwrap_or_default();
    let room = width.saturating_sub(5 + 6 + words.chars().count()).min(40);
    let mut spans = vec![piece(theme, TextRole::Title, " CPU ")];
    spans.extend(stack(theme, Some(total), room));
    spans.push(piece(theme, TextRole::Plain, format!("{:>6}", percent(Some(total.busy())))));
    spans.push(piece(theme, if full { TextRole::Bad } else { TextRole::Soft }, words));
    Some(Line::from(spans))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bottleneck::judged_flow;
    use crate::model::FlowWorkers;
    use crate::terminal::render;
    use crate::terminal::tests::{ASCII, COLOURS, rich};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn flow() -> LiveFlow {
        let workers =
            FlowWorkers { count: 4, busy: 0.12, starved: 0.05, blocked: 0.81, busiest: 0.2, incoming: false };
        LiveFlow {
            stage: FlowStage::Path,
            name: "TCP from four disks to two peers, the longest of names that a plan gives".into(),
            bytes_per_second: Some(12.05e9),
            seconds_left: Some(28.0),
            workers: Some(workers),
            ..LiveFlow::default()
        }
    }

    fn drawn(flow: &LiveFlow, moment: Option<&Moment>, theme: Theme, width: u16, height: u16) -> String {
        let (mut busy, mut history) = (Busy::default(), History::default());
        moment.iter().for_each(|moment| busy.note(moment));
        moment.iter().for_each(|moment| history.push(moment));
        let shown = Panel {
            flow,
            elapsed: Duration::from_secs(12),
            moment,
            history: &history,
            busy: &busy,
            blind: None,
            theme,
        };
        let lines = panel(&shown, usize::from(width) - 1, rows_of(usize::from(height)));
        assert!(lines.len() <= usize::from(height) / 2, "{} rows of {height}", lines.len());
        for line in &lines {
            assert!(line.width() < usize::from(width), "{width}: {line}");
        }
        let mut terminal = Terminal::new(TestBackend::new(width, lines.len() as u16)).expect("a terminal");
        terminal.draw(|frame| render(frame, lines)).expect("drawn");
        let buffer = terminal.backend().buffer().clone();
        let symbols: Vec<&str> = buffer.content.iter().map(|cell| cell.symbol()).collect();
        symbols.chunks(usize::from(width)).map(|row| row.concat().trim_end().to_string() + "\n").collect()
    }

    #[test]
    fn a_sentence_is_wrapped_in_the_signs_that_the_terminal_knows() {
        let sentence = "disk vda (2.64 ± 0.06 GB/s; ≥ 1.5 ± 0.1 GB/s) ".repeat(4);
        let limited = LiveFlow { limit: Some(sentence.clone()), limit_by: "the rule".into(), ..flow() };
        for width in [40, 60, 80, 200] {
            let shown = drawn(&limited, Some(&rich()), ASCII, width, 30);
            assert!(shown.is_ascii(), "{shown}");
            let first = shown.lines().find(|line| line.contains("limited by")).expect("the sentence");
            // Nothing of a row is cut off but by a mark at its end.
            let words: Vec<&str> = first.split_whitespace().skip(2).collect();
            let expected = linerate_facts::printable::ascii(&sentence);
            let whole: Vec<&str> = expected.split_whitespace().take(words.len()).collect();
            assert_eq!(words, whole, "{width}\n{shown}");
        }
    }

    #[test]
    fn it_reports_what_is_done_what_holds_it_and_what_it_works_on() {
        let moment = rich();
        let flow = judged_flow(flow(), &moment);
        for (width, height) in [(80, 24), (120, 40), (200, 60)] {
            let shown = drawn(&flow, Some(&moment), COLOURS, width, height);
            for expected in [
                "12s",
                "path: TCP from four",
                "96.4 Gb/s",
                "28s left",
                "limited by: the \
                    network",
                "enp23s0f0",
            ] {
                assert!(shown.contains(expected), "{width}x{height}: {expected}\n{shown}");
            }
            for expected in ["4 workers  work 12 %", "for network 81 %", "nvme0n1", "CPU", "fullest core"] {
                assert!(shown.contains(expected), "{width}x{height}: {expected}\n{shown}");
            }
        }
    }

    #[test]
    fn forty_by_ten_keeps_the_most_needed_and_less_the_progress_alone() {
        let moment = rich();
        let flow = judged_flow(flow(), &moment);
        let shown = drawn(&flow, Some(&moment), ASCII, 40, 10);
        assert_eq!(shown.lines().count(), 5, "{shown}");
        for expected in ["96.4 Gb/s", "path:", "limited by: the network", "CPU", "core"] {
            assert!(shown.contains(expected), "{expected}\n{shown}");
        }
        assert!(shown.is_ascii(), "{shown}");
        let least = drawn(&flow, Some(&moment), ASCII, 30, 3);
        assert!(least.lines().count() == 1 && least.contains("96.4 Gb/s"), "{least}");
    }

    #[test]
    fn before_the_first_sample_and_between_measurements_it_is_short() {
        let step =
            LiveFlow { stage: FlowStage::Step, name: "writing a scratch file".into(), ..LiveFlow::default() };
        let shown = drawn(&judged_flow(step, &rich()), None, COLOURS, 80, 24);
        assert_eq!(shown.trim(), "12s writing a scratch file");
    }

    #[test]
    fn what_was_busy_keeps_its_row() {
        let mut moment = rich();
        let (mut busy, history) = (Busy::default(), History::default());
        busy.note(&moment);
        let rows =
            |busy: &Busy, moment: &Moment, rows| machine(moment, &history, busy, COLOURS, 100, rows).len();
        let before = rows(&busy, &moment, 20);
        assert!(before > 2, "{before}");
        moment.nics.iter_mut().for_each(|nic| {
            (nic.send, nic.receive) = Default::default();
        });
        moment.disks.iter_mut().for_each(|disk| (disk.read, disk.write) = Default::default());
        busy.note(&moment);
        assert_eq!(rows(&busy, &moment, 20), before);
        assert_eq!(rows(&Busy::default(), &moment, 20), 1, "the processors alone");
        for few in 0..before {
            assert_eq!(rows(&busy, &rich(), few), few);
        }
    }

    #[test]
    fn names_from_outside_do_not_act() {
        let evil = LiveFlow { name: "\x1b[2J\x1b]0;x\x07".into(), ..flow() };
        assert!(!drawn(&evil, None, COLOURS, 80, 24).contains('\x1b'));
    }
}
