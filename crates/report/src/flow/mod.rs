//! `linerate plan`: one screen, or the JSON of the contract.

mod table;

use super::document::{Block, Labelled, bold, dim, findings, lines, plain};
use super::grid::Style;
use linerate_facts::fact::Fact;
use linerate_facts::grouping::grouped;
use linerate_facts::units::{show_bits_rate, show_bytes_rate};
use linerate_measure::diagnose::Finding;
use linerate_model::plan::demand::Demand;
use linerate_model::plan::flow::{BOTTLENECK_IS, FlowPlan, MissingRates};
use linerate_model::plan::long_path::LongPath;
use linerate_model::plan::sizing::Sizing;
use linerate_model::plan::{Bound, Origin, Resource, ResourceKind, wording};
use serde::Serialize;
use serde_json::json;
pub use table::wall_screen;

/// Columns of the label before each text.
const LABEL: usize = 12;

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
    /// What a long path lets through.
    pub long_path: Option<LongPath>,
    /// What the map of the machine shows.
    pub findings: Vec<Finding>,
    /// Rates of the flow are shown in bits.
    pub in_bits: bool,
    /// The runs whose figures were taken in place of those of data sheets.
    pub measured: Option<MeasuredOn>,
}

/// Runs whose measured figures a plan takes in place of data sheets.
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
        let width = width.clamp(40, 120);
        let mut lines = lines(&self.blocks(), width, style);
        lines.extend(findings(&self.findings, usize::MAX).lines(width, style));
        lines.join("\n") + "\n"
    }

    fn blocks(&self) -> Vec<Block<'_>> {
        let plan = &self.plan;
        let title = match self.processors.is_empty() {
            true => plan.machine.clone(),
            false => format!("{} ({})", plan.machine, self.processors),
        };
        let mut blocks = vec![Block::Text(bold(title)), Block::Text(dim(&plan.flow)), Block::Space];
        let changes = self.changes();
        if !changes.is_empty() {
            blocks.extend([Block::Facts(LABEL, changes), Block::Space]);
        }
        blocks.extend([Block::Facts(LABEL, self.bounds()), Block::Space]);
        blocks.extend(table::resource_blocks(plan));
        let placement = plan.placement.advice.iter().map(|advice| ("placement", plain(advice))).collect();
        let plane = plan.data_plane.as_ref().map(table::data_plane).unwrap_or_default();
        let sizing = self.sizing.as_ref().map(|sizing| table::needs(sizing, |rate| self.show(rate)));
        for facts in [placement, plane, sizing.unwrap_or_default()] {
            if !facts.is_empty() {
                blocks.extend([Block::Space, Block::Facts(LABEL, facts)]);
            }
        }
        blocks
    }

    /// The ceiling, what limits it, and what to know of it.
    fn bounds(&self) -> Vec<Labelled> {
        let plan = &self.plan;
        let mut facts = vec![("ceiling", bold(self.ceiling()))];
        facts
            .extend(plan.ceiling.likely_bytes_per_second.map(|likely| ("likely", bold(self.likely(likely)))));
        match &plan.missing {
            Some(missing) => {
                facts.push(("likely", bold(self.not_known(missing))));
                let answer = format!("{}, or `linerate run`, which measures", missing.options());
                facts.push(("give it", plain(answer)));
            }
            None => {
                let bottleneck = plan.sentence.strip_prefix(BOTTLENECK_IS).unwrap_or(&plan.sentence);
                facts.push(("limited by", plain(bottleneck)));
            }
        }
        facts.extend(self.demand.as_ref().map(|demand| ("clients", bold(&demand.sentence))));
        let path = self.long_path.iter().flat_map(|path| &path.sentences).enumerate();
        facts.extend(path.map(|(index, text)| match index {
            0 => ("long path", bold(text)),
            _ => ("", plain(text)),
        }));
        facts.extend(self.gains());
        let rest =
            [("CPU cost", self.default_cost()), ("left out", self.left_out()), ("measured", self.measured())];
        facts.extend(rest.into_iter().filter_map(|(label, text)| Some((label, plain(text?)))));
        facts
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
    fn measured(&self) -> Option<String> {
        let run = self.measured.as_ref()?;
        let resources = self.plan.resources.iter();
        let measured = resources.filter(|resource| resource.origin == Origin::Measured);
        let ids: Vec<&str> = measured.map(|resource| resource.id.as_str()).collect();
        if ids.is_empty() && !run.asked {
            return None;
        }
        let what = if ids.is_empty() { "nothing of this flow".into() } else { wording::ids(&ids) };
        let bounds = self.plan.resources.iter().filter(|resource| {
            resource.lower_bound && matches!(resource.kind, ResourceKind::Disk | ResourceKind::Nic)
        });
        let bounds: Vec<&str> = bounds.map(|resource| resource.id.as_str()).collect();
        let least =
            format!("; of {} only what it can do at least, which limits nothing", wording::ids(&bounds));
        let at_least = if bounds.is_empty() { String::new() } else { least };
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
        Some(format!("{what}, {by}{at_least}"))
    }

    fn changes(&self) -> Vec<Labelled> {
        let Some(before) = &self.likely_before else { return Vec::new() };
        let step = |step: &WhatIfStep| {
            let now = step.bytes_per_second.known().map_or("not known".to_string(), |rate| self.show(*rate));
            let gain = step.gain.map_or(String::new(), |gain| format!(" ({})", self.signed(gain)));
            let notes: String = step.notes.iter().map(|note| format!("; {note}")).collect();
            ("what if", plain(format!("{}: {now}{gain}{notes}", step.change)))
        };
        let mut facts = vec![("before", plain(self.bound(before)))];
        facts.extend(self.steps.iter().map(step));
        let old = before.bytes_per_second.known().copied();
        if let (Some(old), Some(new)) = (old, self.plan.ceiling.likely_bytes_per_second) {
            let text = format!("{} → {} ({})", self.show(old), self.show(new), self.signed(new - old));
            facts.push(("gain", bold(text)));
        }
        facts
    }

    fn bound(&self, bound: &Bound) -> String {
        let limited_by: Vec<&str> = bound.cut.iter().map(String::as_str).collect();
        match &bound.bytes_per_second {
            Fact::Known(rate) => format!("{}, limited by {}", self.show(*rate), wording::ids(&limited_by)),
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
    fn gains(&self) -> Vec<Labelled> {
        // Without another limit that is known there is nothing to say.
        let gains = self.plan.gains.iter().filter_map(|gain| {
            let text = match gain.bytes_per_second? {
                more if more < 1.0 => "nothing alone".to_string(),
                more => format!("up to +{}", self.show(more)),
            };
            Some((text, gain.resource.as_str()))
        });
        let fact = |alike: Vec<(String, &str)>| {
            let ids: Vec<&str> = alike.iter().map(|(_, id)| *id).collect();
            let each = if ids.len() > 1 { "each of " } else { "" };
            ("raising", plain(format!("{each}{} gains {}", wording::ids(&ids), alike[0].0)))
        };
        grouped(gains, |(one, _), (other, _)| one == other).into_iter().map(fact).collect()
    }

    /// A CPU cost that nobody gave or measured, and who says so.
    fn default_cost(&self) -> Option<String> {
        let cost = self.plan.default_cost.as_ref()?;
        let [low, high] = cost.range;
        let range = if low < high { format!(" ({low:.2} to {high:.2})") } else { String::new() };
        Some(format!(
            "{:.2} CPU seconds per GB{range} are a default ({}); `linerate run` measures it; the ceiling is without it",
            cost.seconds_per_gb, cost.source
        ))
    }

    /// Resources that the flow crosses and that the ceiling does not count, as their rate is unknown: without this a
    /// reader takes the ceiling for a promise.
    fn left_out(&self) -> Option<String> {
        let asked = self.plan.missing.iter().flat_map(|missing| &missing.resources).collect::<Vec<_>>();
        if self.plan.ceiling.bytes_per_second.known().is_none() && asked.is_empty() {
            return None;
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
        (!parts.is_empty()).then(|| format!("{}; the flow may be less", parts.join(", and ")))
    }
}
