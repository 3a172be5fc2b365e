//! A run of the whole path: what it reached and what stops it, a line for each stage, prediction and ceiling, findings, errors.
//!
//! Top to bottom the page answers: what did it reach and what stops it; where in the server; where does speed get lost; what
//! do I change; then the evidence: every measurement, the cores, the workers, the machine, and how to do it again.

use crate::document::{
    Block, Document, FigureRow, Media, Part, Text, alarm, bold, dim, drawn, errors, findings_of, plain,
};
use crate::figure::{Figure, Unit, percent, share};
use crate::grid::Style;
use crate::html::{letter_tag, machine, tagged, waterfall, workers};
use crate::markup::{Markup, at, html};
use crate::stages::{self, TableView};
use crate::verdict::{RunVerdict, device, named, resources, subject, verdict, without_achieved};
use crate::{map, power, shares};
use linerate_facts::printable::printable;
use linerate_facts::wording::counted;
use linerate_measure::diagnose::ProtocolDiagnosis;
use linerate_measure::run::Run;
use linerate_model::plan::{Origin, Resource, ResourceKind};

/// With the line below them that opens the page they fit the screen of a laptop beside something else.
const SCREEN_LINES: usize = 29;
/// What has more to say than that takes no more than these, before it drops what matters.
const MOST_LINES: usize = 40;
/// Of the details those that leave out nothing that matters.
const GOOD_DETAILS: usize = 9;
/// Parts that are shown in place of the map; a server with more has them in the table of stages.
const MOST_PARTS: usize = 24;

/// How much is shown of what may be left out.
#[derive(Clone, Copy, Debug)]
struct Detail {
    findings: usize,
    /// Of the table.
    rows: usize,
    errors: usize,
    /// Beside the table and the figures below it, and sentences of other protocols.
    notes: bool,
    /// Rows that explain others: one core, and files that memory holds already.
    sides: bool,
}

const ALL: Detail =
    Detail { findings: usize::MAX, rows: usize::MAX, errors: usize::MAX, notes: true, sides: true };

/// From rich to poor: findings, rows and errors.
const LESS: [(usize, usize, usize); 10] = [
    (8, 22, 3),
    (6, 22, 3),
    (4, 18, 3),
    (3, 16, 3),
    (2, 14, 3),
    (1, 12, 2),
    (1, 9, 2),
    (0, 9, 1),
    (0, 6, 1),
    (0, 4, 0),
];

/// What is there, from rich to poor.
fn details() -> impl Iterator<Item = Detail> {
    let (findings, rows, errors) = LESS[0];
    let most = Detail { findings, rows, errors, notes: true, sides: true };
    let less =
        LESS.map(|(findings, rows, errors)| Detail { findings, rows, errors, notes: false, sides: false });
    [most, Detail { sides: false, ..most }].into_iter().chain(less)
}

/// The screen. It drops findings, errors and rows of devices alike, never a stage or a part of a sentence, until
/// it fits; what was dropped is counted and is in the page and the JSON. What is not a screen has all of it.
pub(super) fn screen(run: &Run, width: usize, colour: bool) -> String {
    let style = Style::of(width, colour);
    let width = width.clamp(40, 110);
    let with = |detail: Detail| document(run, detail, style.table(width)).lines(width, style);
    if !style.is_screen() {
        return with(ALL).join("\n") + "\n";
    }
    let screens: Vec<Vec<String>> = details().map(with).collect();
    let fits = |count: usize, most: usize| screens.iter().take(count).find(|lines| lines.len() <= most);
    if let Some(lines) = fits(GOOD_DETAILS, SCREEN_LINES).or_else(|| fits(usize::MAX, MOST_LINES)) {
        return lines.join("\n") + "\n";
    }
    // Nothing that linerate measures comes here; a file that somebody wrote may.
    let mut lines = screens.last().cloned().unwrap_or_default();
    let left = lines.len().saturating_sub(MOST_LINES - 1);
    lines.truncate(MOST_LINES - 1);
    lines.push(style.dim(&format!("and {}, in the page and the JSON", counted(left, "more line"))));
    lines.join("\n") + "\n"
}

/// The page.
pub(super) fn page(run: &Run) -> String {
    document(run, ALL, usize::MAX).page()
}

fn document(run: &Run, detail: Detail, width: usize) -> Document<'_> {
    let verdict = verdict(run);
    let figures = Block::Figures(figures(run, &verdict, detail.notes));
    let view = TableView { width, rows: detail.rows, notes: detail.notes, sides: detail.sides };
    let mut stages = stages::part(run, &verdict, view);
    // Below the table of a terminal they have their place; a page begins with them.
    stages.blocks.push(Block::On(Media::Terminal, vec![Block::Space, figures.clone()]));
    let mut parts = vec![errors(&run.errors, detail.errors), server(run, &verdict)];
    parts.extend(shares::part(run));
    parts.extend([
        waterfall::part(run, &verdict),
        findings_of(run, detail.findings),
        stages,
        workers::cores_part(run),
        workers::workers_part(run),
    ]);
    parts.extend(power::part(run));
    parts.extend([machine::part(&run.machine), machine::reproduce(run)]);
    let [version, host] = [&run.version, &run.host].map(|text| printable(text));
    Document {
        tab: tab(run, &verdict),
        heading: format!("linerate {version} on {host}, {}", subject(run)),
        about: vec![run.started.clone()],
        answer: answer(&verdict),
        figures: vec![figures, Block::Picture(legend())],
        sheet: String::new(),
        parts,
    }
}

fn tab(run: &Run, verdict: &RunVerdict) -> String {
    let end =
        verdict.achieved_sentence.as_ref().and_then(|text| text.rsplit_once(" from ")).map(|(_, way)| way);
    match verdict.achieved.value.zip(end) {
        Some((rate, way)) => {
            format!("{}: {} from {} – linerate", run.host, Unit::Bytes.show(rate), way.trim_end_matches('.'))
        }
        None => format!("{} – linerate", run.host),
    }
}

/// What was achieved, what limits it, what raises it: each begins a line.
fn answer(verdict: &RunVerdict) -> Vec<Text> {
    let achieved = verdict.achieved_sentence.iter().map(bold);
    achieved.chain([alarm(&verdict.bottleneck), plain(&verdict.headroom)]).collect()
}

/// What was predicted, what the parts allow, and the protocols that are not the headline. What was achieved, and what is gained
/// without the bottleneck, a terminal has in its sentences.
fn figures(run: &Run, verdict: &RunVerdict, notes: bool) -> Vec<FigureRow> {
    let limits = match verdict.cut.is_empty() {
        true => String::new(),
        false => format!(", limited by {}", named(&verdict.cut, &resources(run))),
    };
    let protocol = run.goal.protocols.first().map(|protocol| format!(", {protocol}")).unwrap_or_default();
    let reached = verdict.of_predicted.map(|share| format!("achieved {} of it{protocol}", percent(share)));
    let predicted = notes.then(|| format!("from measured stages{limits}")).into_iter().chain(reached);
    let allowed = if notes { "rated and effective: what the parts allow" } else { "" };
    let row = |name: &str, figure: &Figure, note: &str, on| FigureRow {
        name: name.into(),
        figure: figure.clone(),
        notes: vec![dim(note)],
        on,
    };
    let mut rows = vec![
        row("achieved", &verdict.achieved, "", Media::Page),
        row("predicted", &verdict.predicted, &predicted.collect::<Vec<_>>().join("; "), Media::Both),
        row("ceiling", &verdict.ceiling, allowed, Media::Both),
    ];
    if let Some(gain) = verdict.gain {
        let gain = Figure::of(Some(gain), Origin::Measured);
        rows.push(row("headroom", &gain, "more without the bottleneck, by the prediction", Media::Page));
    }
    let headline = run.goal.protocols.first();
    let protocols = run.diagnosis.iter().flat_map(|diagnosis| &diagnosis.by_protocol);
    rows.extend(
        protocols
            .filter(|other| Some(&other.protocol) != headline)
            .map(|other| of_protocol(run, other, notes)),
    );
    rows
}

/// With a sentence of its own; on a terminal only where something else limits it.
fn of_protocol(run: &Run, other: &ProtocolDiagnosis, notes: bool) -> FigureRow {
    let reached = Some(other.achieved.bytes_per_second).filter(|rate| *rate > 0.0);
    let predicted = Figure::of_fact(&other.predicted.bytes_per_second, Origin::Measured);
    let share = percent(other.achieved.of_predicted);
    let headline = run.bottleneck();
    let alike = headline.is_some_and(|headline| headline.resources == other.bottleneck.resources);
    let sentence = dim(without_achieved(&other.bottleneck, &other.achieved));
    FigureRow {
        name: other.protocol.to_string(),
        figure: Figure::of(reached, Origin::Measured),
        notes: vec![
            dim(format!("achieved, {share} of {} predicted", predicted.show(Unit::Bytes))),
            if alike || !notes { sentence.on(Media::Page) } else { sentence },
        ],
        on: Media::Both,
    }
}

/// The picture of the server with what the flow uses of it.
fn server<'a>(run: &Run, verdict: &RunVerdict) -> Part<'a> {
    let caption = html! {
        p class="caption" {
            "The bar is the share of what a part can do that the flow uses. "
            @if verdict.confirmed {
                "The " b { "bottleneck" } " is red: only raising it raises the flow."
            } @else {
                "What limits by the stages is dashed and called " b { "predicted" } ": the path did not confirm it."
            }
            span class="wide" {
                " A line is as wide as the square root of what the link carries. Pointing at a box or a line shows more."
            }
        }
    };
    let body = html! {
        div class="scroll wide" tabindex="0" role="group" aria-label="map of the server" {
            (map::of_run(run, verdict))
        }
        (uses(run, verdict))
        (caption)
    };
    drawn("map", "The server and the flow", body)
}

/// What the flow uses of each part, one below the other: in place of the picture where the page is narrow.
fn uses(run: &Run, verdict: &RunVerdict) -> Markup {
    let mut parts = resources(run);
    // What limits it comes first, then what is used most.
    let limits = |part: &Resource| verdict.cut.contains(&part.id);
    parts.sort_by(|a, b| {
        limits(b).cmp(&limits(a)).then(share(b.utilisation).total_cmp(&share(a.utilisation)))
    });
    let left = parts.len().saturating_sub(MOST_PARTS);
    html! {
        div class="narrow" {
            @for part in parts.iter().take(MOST_PARTS) { (part_row(part, limits(part))) }
            @if left > 0 { p class="note" { "and " (left) " more" } }
        }
    }
}

fn part_row(part: &Resource, limits: bool) -> Markup {
    let unit = if part.kind == ResourceKind::Nic { Unit::Bits } else { Unit::Bytes };
    let (kind, name) = (part.id.split(':').next().unwrap_or_default(), device(&part.id));
    let (capacity, used) = (Figure::capacity(part), share(part.utilisation));
    html! {
        div class=(if limits { "part limit" } else { "part" }) {
            b { (kind) @if name != kind { " " (name) } }
            span class="num" { (tagged(&capacity, unit)) }
            @if used > 0.0 {
                svg class="wbar" viewBox="0 0 1000 22" preserveAspectRatio="none" aria-hidden="true" {
                    rect class="used" width=(at(used * 1000.0)) height="22" {}
                }
                span class="note" { (percent(used)) " used" }
            }
        }
    }
}

fn legend() -> Markup {
    let origins = [
        (Origin::Rated, "rated: the part’s data sheet"),
        (Origin::Effective, "effective: less protocol overhead"),
        (Origin::Measured, "measured here, or computed from what was"),
        (Origin::Unknown, "unknown: not readable"),
    ];
    html! {
        ul class="legend" aria-label="Where numbers come from" {
            @for (origin, text) in origins { li { (letter_tag(origin)) " " (text) } }
            li { span class="num" { "≥" } " at least: something else limited the stage" }
        }
    }
}
