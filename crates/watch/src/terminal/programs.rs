//! Processes: which program reads, writes, sends, receives and computes; some rows in the overview, and the page.

use super::pieces::{TextRole, bytes, count, fit, outside, piece};
use super::state::{ProcessSort, View};
use crate::model::{ProcessRates, Processes};
use linerate_facts::printable::{columns as columns_of, wrapped};
use ratatui::text::{Line, Span};

/// Rows in the overview at most.
const MOST_IN_OVERVIEW: usize = 5;

impl ProcessSort {
    fn word(self) -> &'static str {
        match self {
            ProcessSort::All => "all that they move",
            ProcessSort::Read => "read",
            ProcessSort::Written => "written",
            ProcessSort::Sent => "sent",
            ProcessSort::Received => "received",
            ProcessSort::Cpu => "CPU",
        }
    }
}

/// The section of the overview.
pub(crate) fn section(view: &View<'_>, width: usize) -> (Line<'static>, Vec<Line<'static>>) {
    let (theme, processes) = (view.theme, &view.moment.processes);
    let moving = processes.moving();
    let text = match (processes.count, moving) {
        (None, _) => "not looked at".to_string(),
        (Some(_), 0) => "none moves bytes".to_string(),
        (Some(_), 1) => "1 moves bytes".to_string(),
        (Some(_), moving) => format!("{moving} move bytes"),
    };
    let title =
        Line::from(vec![piece(theme, TextRole::Title, " Processes "), piece(theme, TextRole::Plain, text)]);
    let shown = processes.busiest.iter().take(MOST_IN_OVERVIEW);
    (title, shown.map(|one| row(view, one, width)).collect())
}

/// The page.
pub(crate) fn lines(view: &View<'_>, width: usize) -> Vec<Line<'static>> {
    let (theme, processes) = (view.theme, &view.moment.processes);
    let Some(all) = processes.count else {
        return vec![Line::from(piece(theme, TextRole::Soft, " Nobody has looked at the processes yet."))];
    };
    let order = view.state.process_sort;
    let chosen = view.state.chosen(processes).map(|process| process.pid);
    let moving = processes.moving();
    let mut lines = vec![
        Line::from(vec![
            piece(theme, TextRole::Title, format!(" {moving} of {all} processes move bytes")),
            piece(theme, TextRole::Soft, format!("  by {} (s), explain (e)", order.word())),
        ]),
        heading(view, width),
    ];
    lines.extend(order.sorted(processes).into_iter().map(|one| {
        let mut row = row(view, one, width);
        if chosen == Some(one.pid) {
            row.spans[0] = piece(theme, TextRole::Strong, theme.mark("›", ">"));
        }
        row
    }));
    if processes.left_out > 0 {
        let text = format!(" +{} that move less", processes.left_out);
        lines.push(Line::from(piece(theme, TextRole::Soft, text)));
    }
    lines.push(Line::default());
    for note in notes(processes, &view.moment.unknown) {
        let rows = wrapped(&theme.signs(note), width.saturating_sub(2)).into_iter();
        lines.extend(rows.map(|row| Line::from(piece(theme, TextRole::Soft, format!(" {row}")))));
    }
    lines
}

/// `busiest: rustc[1673] 77 %, sh[9] 3 %`: as many of those with most CPU time as fit; none: nobody computes.
pub(crate) fn busiest_by_cpu(view: &View<'_>, width: usize) -> Option<Line<'static>> {
    let mut text = String::from(" busiest:");
    let mut shown = 0;
    for one in view.moment.processes.busiest_by_cpu() {
        let name = view.theme.signs(outside(&one.name));
        let next = format!("{} {name}[{}] {}", if shown > 0 { "," } else { "" }, one.pid, cpu(one.cpus));
        if columns_of(&text) + columns_of(&next) > width {
            break;
        }
        text.push_str(&next);
        shown += 1;
    }
    (shown > 0).then(|| Line::from(piece(view.theme, TextRole::Soft, text)))
}

fn cpu(cpus: Option<f64>) -> String {
    cpus.map_or_else(String::new, |cpus| format!("{:.0} %", cpus * 100.0))
}

/// What is in no row, and what the figures are of.
fn notes(processes: &Processes, unknown: &std::collections::BTreeMap<String, String>) -> Vec<String> {
    let mut notes = Vec::new();
    let unowned = [
        ("sent", processes.unowned_send_bytes_per_second),
        ("received", processes.unowned_receive_bytes_per_second),
    ];
    let moved = unowned.into_iter().filter(|(_, rate)| rate.is_some_and(|rate| rate > 0.0));
    let moved: Vec<String> = moved.map(|(word, rate)| format!("{} {word}", bytes(rate))).collect();
    if !moved.is_empty() {
        let moved = moved.join(", ");
        notes.push(format!("TCP of no process that can be seen (another user's, the kernel's): {moved}"));
    }
    if let Some(connections) = processes.connections.known() {
        let connections = count(Some(*connections as f64));
        notes.push(format!(
            "Storage: not from the page cache. TCP: {connections} connections of this network namespace."
        ));
    }
    notes.extend(processes.udp_bytes_per_second.why().map(|why| format!("UDP is unknown: {}", outside(why))));
    for source in ["storage by process", "processes of others", "TCP by process"] {
        notes.extend(unknown.get(source).map(|why| format!("{source}: {}", outside(why))));
    }
    notes
}

/// Columns of the name and of the number, and whether each way has its own column.
fn columns(width: usize) -> (usize, usize, bool) {
    match width {
        ..73 => (width.saturating_sub(38).min(16), 8, false),
        _ => (16, 8, true),
    }
}

fn heading(view: &View<'_>, width: usize) -> Line<'static> {
    let (name, pid, wide) = columns(width);
    let words: &[&str] =
        if wide { &["read", "written", "TCP sent", "received"] } else { &["storage", "TCP"] };
    let mut text = format!(" {:name$} {:>pid$}", "program", "PID");
    text.push_str(&format!(" {:>6}", "CPU"));
    for word in words {
        text.push_str(&format!(" {word:>9}"));
    }
    Line::from(piece(view.theme, TextRole::Soft, text))
}

fn row(view: &View<'_>, process: &ProcessRates, width: usize) -> Line<'static> {
    let theme = view.theme;
    let (name, pid, wide) = columns(width);
    let mut spans = vec![
        Span::raw(" "),
        piece(theme, TextRole::Plain, fit(theme, &process.name, name)),
        piece(theme, TextRole::Soft, format!(" {:>pid$}", process.pid)),
        piece(theme, TextRole::Plain, format!(" {:>6}", cpu(process.cpus.filter(|_| process.uses_cpu())))),
    ];
    let [read, written, sent, received] = process.rates();
    let both = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b).or(a).or(b);
    let rates = match wide {
        true => vec![
            (TextRole::In, read),
            (TextRole::Out, written),
            (TextRole::Out, sent),
            (TextRole::In, received),
        ],
        false => vec![(TextRole::Plain, both(read, written)), (TextRole::Plain, both(sent, received))],
    };
    for (role, rate) in rates {
        // A way that moves nothing is not a figure to read.
        let text = if rate == Some(0.0) { String::new() } else { bytes(rate) };
        spans.push(piece(theme, role, format!(" {text:>9}")));
    }
    Line::from(spans)
}
