//! What `linerate tune` prints. Names and values are a machine's or a file's: none of them acts on the
//! terminal.

use linerate_facts::printable::{hanging, printable, wrapped};
use linerate_facts::units::show_bits_rate;
use linerate_report::grid::{self, Column, name, text};
use linerate_tune::catalogue::Risk;
use linerate_tune::process::OwnItem;
use linerate_tune::{
    ApplyResult, Item, SettingChoice, SettingOutcome, SettingVerdict, TuneNote, TunePlan, WantedValue,
};
use std::fmt::Write;

const BOLD: &str = "\u{1b}[1m";
const PLAIN: &str = "\u{1b}[0m";
const COLUMNS: [Column; 4] = [name("setting"), text("now", 0), text("wanted", 0), text("risk", 0)];

/// The plan: what to change, then how many settings need nothing.
pub(super) fn plan(
    plan: &TunePlan,
    choice: &SettingChoice,
    all: bool,
    open: &[String],
    width: usize,
    colour: bool,
) -> String {
    let own = plan.chosen_own(choice);
    let items = plan.chosen(choice);
    let (change, rest): (Vec<&Item>, Vec<&Item>) = items.into_iter().partition(|item| item.wanted.is_some());
    let mut out = goal(plan) + &process(&own, width, !choice.is_all() || all);
    if change.is_empty() {
        out += "Nothing to change.\n";
    } else {
        let rows: Vec<_> = change.iter().map(|item| advised(item)).collect();
        let (head, rows) = table(&rows, width);
        let _ = writeln!(out, "{}", if colour { format!("{BOLD}{head}{PLAIN}") } else { head });
        out += &rows;
    }
    out += &others(&rest, all, width);
    if choice.is_all() {
        out += &remarks(&plan.advice, width);
    }
    for note in &plan.notes {
        let _ = writeln!(out, "note: {note}");
    }
    if !change.is_empty() {
        out +=
            "Nothing was changed. To change it: linerate tune apply; to bring it back: linerate tune undo\n";
    }
    if let Some(first) = open.first() {
        let _ = writeln!(
            out,
            "Changed by linerate and not yet undone: {}{}",
            printable(first),
            if open.len() > 1 { format!(" and {} more", open.len() - 1) } else { String::new() }
        );
    }
    out
}

/// What belongs to a process comes first: it needs no root and no undo.
fn process(own: &[&OwnItem], width: usize, whole: bool) -> String {
    if own.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = own.iter().map(|own| own.id).collect();
    let mut out = String::new();
    let head = format!(
        "Of the process itself, to be tried first; nothing of it is written to the machine: {} (linerate \
         tune measure --setting {})",
        names.join(", "),
        names[0]
    );
    for line in wrapped(&head, width) {
        let _ = writeln!(out, "{line}");
    }
    let row = |own: &&OwnItem| {
        let now = own.now.known().map_or("?", String::as_str);
        (vec![own.id.to_string(), now.to_string()], format!("{}. {}. {}", own.what, own.given_by, own.source))
    };
    let rows: Vec<_> = own.iter().filter(|_| whole).map(row).collect();
    out + &table(&rows, width).1 + "\n"
}

/// What is not linerate's to change.
fn remarks(remarks: &[TuneNote], width: usize) -> String {
    let mut out = String::new();
    for remark in remarks {
        let at = if remark.at.is_empty() { String::new() } else { format!(" {}", remark.at) };
        let said = format!(
            "advice: {}{at} is {}: {}. {}. {}",
            remark.id, remark.now, remark.why, remark.remedy, remark.source
        );
        for line in wrapped(&printable(&said), width) {
            let _ = writeln!(out, "{line}");
        }
    }
    out
}

fn goal(plan: &TunePlan) -> String {
    let rate = match plan.bytes_per_second.known() {
        Some(rate) => show_bits_rate(*rate),
        None => format!("a rate that is not known ({})", plan.bytes_per_second.why().unwrap_or_default()),
    };
    format!("Settings for {rate} over a round trip of {} ms\n\n", plan.round_trip_seconds * 1e3)
}

/// A row, and the words below it.
type SettingRow = (Vec<String>, String);

/// The head, and the rows with what is said of each.
fn table(rows: &[SettingRow], width: usize) -> (String, String) {
    let cells: Vec<Vec<String>> = rows.iter().map(|(cells, _)| cells.clone()).collect();
    let mut lines = grid::lines(&COLUMNS, &cells, width).into_iter();
    let head = lines.next().unwrap_or_default();
    let with_words = |(line, (_, said)): (String, &SettingRow)| {
        std::iter::once(line)
            .chain(hanging("    ", &printable(said), width))
            .map(|line| line + "\n")
            .collect()
    };
    (head, lines.zip(rows).map(with_words).collect::<Vec<String>>().concat())
}

fn advised(item: &Item) -> SettingRow {
    let risk = match item.risk {
        Risk::Low => "low",
        Risk::Medium => "medium",
        Risk::High => "high: only by name",
    };
    let now = item.now.known().map_or("?", String::as_str);
    let gain =
        item.gain.map(|gain| format!(" Gains {:.1} % by arithmetic.", gain * 100.0)).unwrap_or_default();
    let said = format!("{}: {}.{gain} Risk: {}. {}", item.what, item.why, item.harm, item.source);
    let cells = [&item.id, now, item.wanted.as_deref().unwrap_or_default(), risk];
    (cells.map(String::from).to_vec(), said)
}

fn others(rest: &[&Item], all: bool, width: usize) -> String {
    let count = |verdict: SettingVerdict| rest.iter().filter(|item| item.verdict == verdict).count();
    let mut out = String::new();
    let row = |item: &&Item| {
        let now = item.now.known().map_or("?", String::as_str);
        let said = match item.verdict {
            SettingVerdict::Right => "right".to_string(),
            SettingVerdict::Leave => format!("for you to decide: {}", item.why),
            _ => format!("unknown: {}", item.why),
        };
        (vec![item.id.clone(), now.to_string()], said)
    };
    let rows: Vec<_> = rest.iter().filter(|_| all).map(row).collect();
    out += &table(&rows, width).1;
    let _ = writeln!(
        out,
        "\n{} settings are right, {} are for you to decide, {} are unknown here{}",
        count(SettingVerdict::Right),
        count(SettingVerdict::Leave),
        count(SettingVerdict::Unknown),
        if all { "" } else { " (--all lists them)" }
    );
    out
}

/// What is about to be changed.
pub(super) fn changes(changes: &[WantedValue], plan: &TunePlan) -> String {
    let mut out = String::new();
    for wish in changes {
        let now = plan.settings.iter().find(|item| item.id == wish.id).and_then(|item| item.now.known());
        let _ = writeln!(
            out,
            "{}: {} → {}",
            printable(&wish.place.to_string()),
            printable(now.map_or("?", String::as_str)),
            printable(&wish.value)
        );
    }
    out
}

/// Files that are about to be written.
pub(super) fn files(changes: &[WantedValue]) -> String {
    let mut out = String::new();
    for wish in changes {
        let _ = writeln!(out, "{}", printable(&wish.place.to_string()));
        for line in wish.value.lines() {
            let _ = writeln!(out, "    {}", printable(line));
        }
    }
    out
}

/// What was done.
pub(super) fn outcomes(outcomes: &[SettingOutcome]) -> String {
    let mut out = String::new();
    for outcome in outcomes {
        let _ = writeln!(
            out,
            "{}: {}",
            printable(&outcome.id),
            printable(&became(&outcome.what, &outcome.place, &outcome.id))
        );
    }
    if outcomes.is_empty() {
        out += "nothing to undo\n";
    }
    out
}

fn became(what: &ApplyResult, place: &str, id: &str) -> String {
    use linerate_tune::journal::UndoResult;
    let file = id.starts_with("drop-in:");
    match what {
        ApplyResult::Changed { .. } if file => format!("{place} is written"),
        ApplyResult::Changed { before, now } => format!("{place} is {now} (was {before})"),
        ApplyResult::Clamped { before, asked, now } => {
            format!("{place} is {now} (was {before}): the kernel made that of {asked}")
        }
        ApplyResult::Same { .. } if file => format!("{place} is as it should be"),
        ApplyResult::Same { now } => format!("{place} is {now} already"),
        ApplyResult::Failed { why } => format!("not changed: {why}"),
        ApplyResult::Restored { .. } if file => format!("{place} is as it was"),
        ApplyResult::Restored { now } => format!("{place} is {now} again"),
        ApplyResult::Untouched { how } => match how {
            UndoResult::Already | UndoResult::Restored => format!("{place} has its old value already"),
            UndoResult::Untouched => format!("{place} was never changed"),
            UndoResult::Gone => format!(
                "{place}: its device is gone since the machine was restarted, and the setting with it"
            ),
            UndoResult::Forgotten => format!("{place} is left as it is"),
        },
        ApplyResult::Foreign { before, ours, now } => format!(
            "{place} was changed by somebody else and stays: before {before}, by linerate {ours}, now {now}; \
             to restore it all the same: --force {id}, to leave it: --forget {id}"
        ),
        ApplyResult::Kept { why } => format!("not restored: {why}"),
    }
}
