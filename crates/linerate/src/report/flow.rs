//! `linerate plan`: one screen, or the JSON of the contract.

use super::figure::percent;
use super::printable::{columns, printable, shortened, wrapped};
use super::terminal::Style;
use crate::diagnose::Finding;
use crate::fact::Fact;
use crate::plan::flow::FlowPlan;
use crate::plan::sizing::{Sizing, SlotUse};
use crate::plan::wording::{self, name, ranged};
use crate::plan::{Bound, Origin, Resource, ResourceKind};
use crate::units::{show_bits_rate, show_bytes_rate};
use serde_json::json;

/// Rows of the table of resources; what is idle and does not bind is left out first.
const MOST_ROWS: usize = 16;
/// Resources whose use differs by less are alike.
const LIKE: f64 = 0.02;
/// Columns of the words before each text.
const INDENT: usize = 10;

/// What a plan prints.
#[derive(Clone, Debug)]
pub struct FlowReport {
    /// The processors in words.
    pub processors: String,
    /// The ceiling before the changes, where there are some.
    pub before: Option<Bound>,
    /// The changes one after the other.
    pub steps: Vec<Step>,
    /// The plan after them.
    pub plan: FlowPlan,
    /// What a rate that was asked for needs.
    pub sizing: Option<Sizing>,
    /// What the map of the machine shows.
    pub findings: Vec<Finding>,
    /// Rates of the flow are shown in bits.
    pub in_bits: bool,
}

/// One change and what it did.
#[derive(Clone, Debug)]
pub struct Step {
    /// In the words of the user.
    pub change: String,
    /// What to know about it.
    pub notes: Vec<String>,
    /// The ceiling after it and all before it.
    pub bytes_per_second: Fact<f64>,
    /// What it added, bytes per second; negative where it took; none where a ceiling is not known.
    pub gain: Option<f64>,
}

impl FlowReport {
    /// `{ "ceiling", "lanes", "resources", "findings", … }`, with a newline at the end.
    pub fn json(&self) -> String {
        let steps: Vec<serde_json::Value> = self
            .steps
            .iter()
            .map(|step| {
                json!({ "change": step.change, "notes": step.notes, "bytes_per_second": step.bytes_per_second, "gain": step.gain })
            })
            .collect();
        let plan = &self.plan;
        let value = json!({
            "machine": plan.machine,
            "flow": plan.flow,
            "ceiling": plan.ceiling,
            "sentence": plan.sentence,
            "next": plan.next,
            "gains": plan.gains,
            "lanes": plan.lanes,
            "placement": plan.placement,
            "resources": plan.resources,
            "findings": self.findings,
            "before": self.before,
            "changes": steps,
            "sizing": self.sizing,
        });
        // `{:#}` of a Value is pretty JSON and cannot fail.
        format!("{value:#}\n")
    }

    /// The screen, at most `width` columns wide.
    pub fn screen(&self, width: usize, colour: bool) -> String {
        let style = Style { colour };
        let width = width.clamp(60, 120);
        let plan = &self.plan;
        let mut lines = Vec::new();
        let title = match self.processors.is_empty() {
            true => printable(&plan.machine),
            false => format!("{} ({})", printable(&plan.machine), printable(&self.processors)),
        };
        lines.extend(wrapped(&title, width).into_iter().map(|line| style.bold(&line)));
        lines.push(style.dim(&shortened(&printable(&plan.flow), width)));
        lines.push(String::new());
        self.changes(&mut lines, width, style);
        put(&mut lines, "ceiling", &self.ceiling(), width, |text| style.bold(text));
        put(&mut lines, "held by", &plan.sentence, width, str::to_string);
        self.gains(&mut lines, width);
        lines.push(String::new());
        lines.extend(self.table(width, style));
        self.placement(&mut lines, width);
        self.sizing(&mut lines, width, style);
        for finding in &self.findings {
            put(
                &mut lines,
                "finding",
                &format!("{} → {}", finding.text, finding.remedy),
                width,
                str::to_string,
            );
        }
        lines.join("\n") + "\n"
    }

    fn show(&self, rate: f64) -> String {
        if self.in_bits { show_bits_rate(rate) } else { show_bytes_rate(rate) }
    }

    fn ceiling(&self) -> String {
        let Fact::Known(rate) = &self.plan.ceiling.bytes_per_second else { return "not known".into() };
        let other = if self.in_bits { show_bytes_rate(*rate) } else { show_bits_rate(*rate) };
        let origin = if self.in_bits {
            "payload, by the data sheets less protocol overhead"
        } else {
            "by the data sheets"
        };
        format!("{} ({other}), {origin}", self.show(*rate))
    }

    fn changes(&self, lines: &mut Vec<String>, width: usize, style: Style) {
        let Some(before) = &self.before else { return };
        put(lines, "before", &self.bound(before), width, str::to_string);
        for step in &self.steps {
            let now = step.bytes_per_second.known().map_or("not known".to_string(), |rate| self.show(*rate));
            let gain = step.gain.map_or(String::new(), |gain| format!(" ({})", self.signed(gain)));
            let notes: String = step.notes.iter().map(|note| format!("; {note}")).collect();
            put(lines, "what if", &format!("{}: {now}{gain}{notes}", step.change), width, str::to_string);
        }
        let (old, new) = (before.bytes_per_second.known(), self.plan.ceiling.bytes_per_second.known());
        if let (Some(old), Some(new)) = (old, new) {
            let text = format!("{} → {} ({})", self.show(*old), self.show(*new), self.signed(new - old));
            put(lines, "gain", &text, width, |text| style.bold(text));
        }
        lines.push(String::new());
    }

    fn bound(&self, bound: &Bound) -> String {
        let cut: Vec<&str> = bound.cut.iter().map(String::as_str).collect();
        match &bound.bytes_per_second {
            Fact::Known(rate) => format!("{}, held by {}", self.show(*rate), wording::ids(&cut)),
            Fact::Unknown { why } => why.clone(),
        }
    }

    fn signed(&self, gain: f64) -> String {
        match gain {
            gain if gain > 0.5 => format!("+{}", self.show(gain)),
            gain if gain < -0.5 => format!("−{}", self.show(-gain)),
            _ => "no change".into(),
        }
    }

    /// What raising each resource of the cut alone gains.
    fn gains(&self, lines: &mut Vec<String>, width: usize) {
        let mut told: Vec<(String, Vec<&str>)> = Vec::new();
        for gain in &self.plan.gains {
            let text = match gain.bytes_per_second {
                Some(more) if more < 1.0 => "nothing alone".to_string(),
                Some(more) => format!("up to +{}", self.show(more)),
                None => "more than can be told: no other limit is known".into(),
            };
            match told.iter_mut().find(|(known, _)| *known == text) {
                Some((_, ids)) => ids.push(&gain.resource),
                None => told.push((text, vec![&gain.resource])),
            }
        }
        for (text, ids) in told {
            let each = if ids.len() > 1 { "each of " } else { "" };
            put(
                lines,
                "raising",
                &format!("{each}{} gains {text}", wording::ids(&ids)),
                width,
                str::to_string,
            );
        }
    }

    fn table(&self, width: usize, style: Style) -> Vec<String> {
        let mut rows = rows(&self.plan);
        let more = rows.len().saturating_sub(MOST_ROWS);
        if more > 0 {
            rows.sort_by_key(|row| !row.cut && row.used == 0.0);
            rows.truncate(MOST_ROWS);
        }
        let name_width = rows.iter().map(|row| columns(&row.name)).max().unwrap_or(8).clamp(8, width / 3);
        let head =
            format!("{:name_width$}  {:>10}  {:>10}  {:>6}  note", "resource", "rated", "capacity", "used");
        let mut lines = vec![style.dim(&head)];
        for row in &rows {
            let shown = shortened(&row.name, name_width);
            let pad = " ".repeat(name_width.saturating_sub(columns(&shown)));
            let used = row.capacity.map_or("–".to_string(), |_| percent(row.used));
            let rate = |rate: Option<f64>| rate.map_or("unknown".to_string(), |rate| row.show(rate));
            let text =
                format!("{shown}{pad}  {:>10}  {:>10}  {used:>6}  ", rate(row.rated), rate(row.capacity));
            let note = shortened(&row.note, width.saturating_sub(columns(&text)));
            let line = format!("{text}{note}");
            lines.push(if row.cut { style.cut(line.trim_end()) } else { line.trim_end().to_string() });
        }
        if more > 0 {
            lines.push(style.dim(&format!("and {more} more, with --json")));
        }
        lines
    }

    fn sizing(&self, lines: &mut Vec<String>, width: usize, style: Style) {
        let Some(sizing) = &self.sizing else { return };
        lines.push(String::new());
        let (line, payload) = (sizing.target_bytes_per_second, sizing.payload_bytes_per_second);
        let text = format!("{} on the line, {} of payload, needs", self.show(line), self.show(payload));
        put(lines, "target", &text, width, |text| style.bold(text));
        for need in &sizing.needs {
            let plural = if need.count == 1 { "" } else { "s" };
            let there = need.there.map_or(String::new(), |there| format!("; the machine has {there}"));
            let text = format!("{} {}{plural} ({}): {}{there}", need.count, need.part, need.what, need.why);
            put(lines, "", &text, width, str::to_string);
        }
        if sizing.slots.is_empty() {
            put(lines, "slots", "no slot of the machine is known", width, str::to_string);
            return;
        }
        let alike = |a: &SlotUse, b: &SlotUse| a.link == b.link && a.takes == b.takes && a.why == b.why;
        let mut groups: Vec<Vec<&SlotUse>> = Vec::new();
        for slot in &sizing.slots {
            match groups.iter_mut().find(|group| alike(group[0], slot)) {
                Some(group) => group.push(slot),
                None => groups.push(vec![slot]),
            }
        }
        for group in groups {
            let names: Vec<&str> = group.iter().map(|slot| slot.slot.as_str()).collect();
            let (verb, each) = if names.len() > 1 { ("take", " each") } else { ("takes", "") };
            let what = match (group[0].takes, &group[0].why) {
                (Some(part), _) => format!("{verb} a {part}{each}"),
                (None, why) => format!("– {}", why.as_deref().unwrap_or_default()),
            };
            let text = format!("{} ({}) {what}", ranged(&names), group[0].link);
            put(lines, "slot", &text, width, str::to_string);
        }
        let text = match sizing.without_slot {
            0 => "every card has a slot".to_string(),
            1 => "1 card is left without a slot that carries it".to_string(),
            many => format!("{many} cards are left without a slot that carries them"),
        };
        put(lines, "slots", &text, width, |text| {
            if sizing.without_slot > 0 { style.cut(text) } else { text.to_string() }
        });
    }

    fn placement(&self, lines: &mut Vec<String>, width: usize) {
        if self.plan.placement.advice.is_empty() {
            return;
        }
        lines.push(String::new());
        for advice in &self.plan.placement.advice {
            put(lines, "placement", advice, width, str::to_string);
        }
    }
}

/// A word, then a text in as many lines as it needs.
fn put(lines: &mut Vec<String>, word: &str, text: &str, width: usize, style: impl Fn(&str) -> String) {
    let text = wrapped(&printable(text), width.saturating_sub(INDENT));
    for (index, line) in text.iter().enumerate() {
        let word = if index == 0 { word } else { "" };
        lines.push(format!("{word:<INDENT$}{}", style(line)));
    }
}

/// One resource, or several that are alike.
struct Row {
    name: String,
    kind: ResourceKind,
    rated: Option<f64>,
    capacity: Option<f64>,
    used: f64,
    note: String,
    cut: bool,
}

impl Row {
    fn show(&self, rate: f64) -> String {
        match self.kind {
            ResourceKind::Nic | ResourceKind::Pcie | ResourceKind::SocketLink => show_bits_rate(rate),
            _ => show_bytes_rate(rate),
        }
    }
}

/// Resources in the order of the bytes; neighbours that are alike are one row.
fn rows(plan: &FlowPlan) -> Vec<Row> {
    let is_cut = |resource: &Resource| plan.ceiling.cut.contains(&resource.id);
    let alike = |a: &Resource, b: &Resource| {
        a.kind == b.kind
            && a.capacity == b.capacity
            && a.rated == b.rated
            && is_cut(a) == is_cut(b)
            && a.why == b.why
            && (a.utilisation - b.utilisation).abs() < LIKE
    };
    let mut groups: Vec<Vec<&Resource>> = Vec::new();
    for resource in &plan.resources {
        match groups.iter_mut().find(|group| alike(group[0], resource)) {
            Some(group) => group.push(resource),
            None => groups.push(vec![resource]),
        }
    }
    let row = |group: &Vec<&Resource>| {
        let first = group[0];
        let names: Vec<&str> = group.iter().map(|resource| name(&resource.id)).collect();
        let word = first.id.split_once(':').map_or(first.id.as_str(), |(word, _)| word);
        let each = if group.len() > 1 { format!(" ({} alike)", group.len()) } else { String::new() };
        let named =
            if names == [word] { word.to_string() } else { format!("{word}:{}{each}", ranged(&names)) };
        let known = first.origin != Origin::Unknown;
        let cut = is_cut(first);
        let why = first.why.clone().unwrap_or_default();
        let note = if cut && why.is_empty() { "holds the flow".into() } else { why };
        Row {
            name: printable(&named),
            kind: first.kind,
            rated: first.rated,
            capacity: known.then_some(first.capacity),
            used: first.utilisation,
            note: printable(&note),
            cut,
        }
    };
    groups.iter().map(row).collect()
}
