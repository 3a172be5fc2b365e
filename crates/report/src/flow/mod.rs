//! `linerate plan`: one screen, or the JSON of the contract.

mod data_plane;
mod needs;
mod table;
mod wall;

use super::style::Style;
use super::terminal;
use linerate_facts::fact::Fact;
use linerate_facts::printable::{printable, wrapped};
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_measure::diagnose::Finding;
use linerate_model::plan::demand::Demand;
use linerate_model::plan::flow::{FlowPlan, MissingRates};
use linerate_model::plan::long_path::LongPath;
use linerate_model::plan::sizing::Sizing;
use linerate_model::plan::wording;
use linerate_model::plan::{Bound, Origin, Resource, ResourceKind};
use serde::Serialize;
use serde_json::json;
pub(super) use wall::screen as wall_screen;

/// Columns of the words before each text.
const INDENT: usize = 12;

/// What a plan prints.
#[derive(Clone, Debug)]
pub struct FlowReport {
    /// The processors in words.
    pub processors: String,
    /// The ceiling before the changes, where there are some.
    pub before: Option<Bound>,
    /// What was likely before them; unknown: why.
    pub likely_before: Option<Bound>,
    /// The changes one after the other.
    pub steps: Vec<WhatIfStep>,
    /// The plan after them.
    pub plan: FlowPlan,
    /// What a rate that was asked for needs.
    pub sizing: Option<Sizing>,
    /// How many clients of a rate it feeds.
    pub demand: Option<Demand>,
    /// What a long way lets through.
    pub long_path: Option<LongPath>,
    /// What the map of the machine shows.
    pub findings: Vec<Finding>,
    /// Rates of the flow are shown in bits.
    pub in_bits: bool,
    /// The run whose figures come before data sheets.
    pub measured: Option<MeasuredOn>,
}

/// Which runs those were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MeasuredOn {
    pub host: String,
    /// The newest: RFC 3339, UTC.
    pub started: String,
    /// How many; of several the median counts.
    pub runs: usize,
    /// The user asked for them.
    pub asked: bool,
}

/// One change and what it did.
#[derive(Clone, Debug)]
pub struct WhatIfStep {
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
    /// `{ "ceiling", "workers", "resources", "findings", … }`, with a newline at the end.
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
            "missing": plan.missing,
            "default_cost": plan.default_cost,
            "sentence": plan.sentence,
            "next": plan.next,
            "gains": plan.gains,
            "workers": plan.shares,
            "placement": plan.placement,
            "data_plane": plan.data_plane,
            "resources": plan.resources,
            "findings": self.findings,
            "before": self.before,
            "changes": steps,
            "sizing": self.sizing,
            "demand": self.demand,
            "long_path": self.long_path,
            "measured": self.measured,
        });
        // `{:#}` of a Value is pretty JSON and cannot fail.
        format!("{value:#}\n")
    }

    /// The screen, at most `width` columns wide.
    pub fn screen(&self, width: usize, colour: bool) -> String {
        let style = Style::of(width, colour);
        let width = width.clamp(60, 120);
        let plan = &self.plan;
        let mut lines = Vec::new();
        let title = match self.processors.is_empty() {
            true => printable(&plan.machine),
            false => format!("{} ({})", printable(&plan.machine), printable(&self.processors)),
        };
        lines.extend(wrapped(&title, width).into_iter().map(|line| style.bold(&line)));
        lines.extend(wrapped(&printable(&plan.flow), width).iter().map(|line| style.dim(line)));
        lines.push(String::new());
        self.changes(&mut lines, width, style);
        put(&mut lines, "ceiling", &self.ceiling(), width, |text| style.bold(text));
        if let Some(likely) = plan.ceiling.likely_bytes_per_second {
            put(&mut lines, "likely", &self.likely(likely), width, |text| style.bold(text));
        }
        match &plan.missing {
            Some(missing) => {
                put(&mut lines, "likely", &self.not_known(missing), width, |text| style.bold(text));
                let answer = format!("{}, or `linerate run`, which measures", missing.options());
                put(&mut lines, "give it", &answer, width, str::to_string);
            }
            None => {
                let bottleneck = plan.sentence.strip_prefix("The bottleneck is ").unwrap_or(&plan.sentence);
                put(&mut lines, "limited by", bottleneck, width, str::to_string);
            }
        }
        if let Some(demand) = &self.demand {
            put(&mut lines, "clients", &demand.sentence, width, |text| style.bold(text));
        }
        if let Some(path) = &self.long_path {
            let (first, rest) =
                path.sentences.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
            put(&mut lines, "long path", first, width, |text| style.bold(text));
            rest.iter().for_each(|line| put(&mut lines, "", line, width, str::to_string));
        }
        self.gains(&mut lines, width);
        self.default_cost(&mut lines, width);
        self.left_out(&mut lines, width);
        self.measured(&mut lines, width);
        lines.push(String::new());
        lines.extend(table::table(plan, width, style));
        self.placement(&mut lines, width);
        if let Some(plane) = &plan.data_plane {
            data_plane::data_plane(&mut lines, plane, width);
        }
        if let Some(sizing) = &self.sizing {
            needs::needs(&mut lines, sizing, |rate| self.show(rate), width, style);
        }
        lines.extend(terminal::findings(&self.findings, width, style));
        lines.join("\n") + "\n"
    }

    fn show(&self, rate: f64) -> String {
        if self.in_bits { show_bits_rate(rate) } else { show_bytes_rate(rate) }
    }

    fn ceiling(&self) -> String {
        let Fact::Known(rate) = &self.plan.ceiling.bytes_per_second else { return "not known".into() };
        format!("{}, in the best case of what is not known", self.in_both_units(*rate))
    }

    /// `not known: the rate of NIC eth0; at most 84.0 Gb/s (10.5 GB/s) by the CPU`.
    fn not_known(&self, missing: &MissingRates) -> String {
        let most = missing.at_most_words(|rate| self.in_both_units(rate));
        let most = if most.is_empty() { most } else { format!("; {most}") };
        format!("not known: {}{most}", missing.words())
    }

    fn likely(&self, rate: f64) -> String {
        let resources = &self.plan.resources;
        let measured = resources.iter().any(|resource| resource.origin == Origin::Measured);
        let origin = match (self.in_bits, measured) {
            (true, false) => "payload, by the data sheets less protocol overhead",
            (false, false) => "by the data sheets",
            (true, true) => "payload, by what was measured, else by the data sheets less protocol overhead",
            (false, true) => "by what was measured, else by the data sheets",
        };
        format!("{}, {origin}", self.in_both_units(rate))
    }

    fn in_both_units(&self, rate: f64) -> String {
        let other = if self.in_bits { show_bytes_rate(rate) } else { show_bits_rate(rate) };
        format!("{} ({other})", self.show(rate))
    }

    /// Which figures are measured, and by what.
    fn measured(&self, lines: &mut Vec<String>, width: usize) {
        let Some(run) = &self.measured else { return };
        let resources = self.plan.resources.iter();
        let measured = resources.filter(|resource| resource.origin == Origin::Measured);
        let ids: Vec<&str> = measured.map(|resource| resource.id.as_str()).collect();
        if ids.is_empty() && !run.asked {
            return;
        }
        let what = if ids.is_empty() { "nothing of this flow".into() } else { wording::ids(&ids) };
        let bounds = self.plan.resources.iter().filter(|resource| {
            resource.lower_bound && matches!(resource.kind, ResourceKind::Disk | ResourceKind::Nic)
        });
        let bounds: Vec<&str> = bounds.map(|resource| resource.id.as_str()).collect();
        let at_least = match bounds.is_empty() {
            true => String::new(),
            false => {
                format!("; of {} only what it can do at least, which limits nothing", wording::ids(&bounds))
            }
        };
        let by = match (run.asked, run.runs) {
            (true, _) => format!("by the run of {} on {}", run.started, run.host),
            (false, 1) => format!(
                "by the kept run of {} on this machine (`--measured none` leaves it out)",
                run.started
            ),
            (false, runs) => format!(
                "by the median of {runs} kept runs of this machine, the newest of {} (`--measured none` leaves them out)",
                run.started
            ),
        };
        let text = format!("{what}, {by}{at_least}");
        put(lines, "measured", &text, width, str::to_string);
    }

    fn changes(&self, lines: &mut Vec<String>, width: usize, style: Style) {
        let Some(before) = &self.likely_before else { return };
        put(lines, "before", &self.bound(before), width, str::to_string);
        for step in &self.steps {
            let now = step.bytes_per_second.known().map_or("not known".to_string(), |rate| self.show(*rate));
            let gain = step.gain.map_or(String::new(), |gain| format!(" ({})", self.signed(gain)));
            let notes: String = step.notes.iter().map(|note| format!("; {note}")).collect();
            put(lines, "what if", &format!("{}: {now}{gain}{notes}", step.change), width, str::to_string);
        }
        let old = before.bytes_per_second.known().copied();
        if let (Some(old), Some(new)) = (old, self.plan.ceiling.likely_bytes_per_second) {
            let text = format!("{} → {} ({})", self.show(old), self.show(new), self.signed(new - old));
            put(lines, "gain", &text, width, |text| style.bold(text));
        }
        lines.push(String::new());
    }

    fn bound(&self, bound: &Bound) -> String {
        let cut: Vec<&str> = bound.cut.iter().map(String::as_str).collect();
        match &bound.bytes_per_second {
            Fact::Known(rate) => format!("{}, limited by {}", self.show(*rate), wording::ids(&cut)),
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
                // Without another limit that is known there is nothing to say.
                None => continue,
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

    /// A CPU cost that nobody gave or measured, and who says so.
    fn default_cost(&self, lines: &mut Vec<String>, width: usize) {
        let Some(cost) = &self.plan.default_cost else { return };
        let text = format!(
            "{:.2} CPU seconds per GB are a default ({}); `linerate run` measures it; the ceiling is without it",
            cost.seconds_per_gb, cost.source
        );
        put(lines, "CPU cost", &text, width, str::to_string);
    }

    /// What stands on the way and is not in the ceiling: without it a reader takes the ceiling for a promise.
    fn left_out(&self, lines: &mut Vec<String>, width: usize) {
        let asked = self.plan.missing.iter().flat_map(|missing| &missing.resources).collect::<Vec<_>>();
        if self.plan.ceiling.bytes_per_second.known().is_none() && asked.is_empty() {
            return;
        }
        let resources = &self.plan.resources;
        let unknown = resources.iter().filter(|resource| {
            resource.origin == Origin::Unknown && !resource.never_binds && !asked.contains(&&resource.id)
        });
        let unknown: Vec<&str> = unknown.map(|resource| resource.id.as_str()).collect();
        let mut parts: Vec<String> = Vec::new();
        if !unknown.is_empty() {
            parts.push(format!("{}, of which no rate is known: taken as no limit", wording::ids(&unknown)));
        }
        let of = |kind| resources.iter().filter(move |resource| resource.kind == kind);
        let in_volume = |disk: &Resource| {
            let of_disk =
                |volume: &Resource| volume.next.contains(&disk.id) || disk.next.contains(&volume.id);
            of(ResourceKind::Volume).any(of_disk)
        };
        if of(ResourceKind::Disk).any(|disk| !in_volume(disk)) {
            parts.push("what the file system takes of the disks".into());
        }
        if !parts.is_empty() {
            let text = format!("{}; the flow may be less", parts.join(", and "));
            put(lines, "left out", &text, width, str::to_string);
        }
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
