//! The page: one file that shows a run to anybody, with no script and nothing to load.
//!
//! Top to bottom it answers: what did it reach and what stops it; where in the server; where does speed get lost; what do I
//! change; then the evidence: every measurement, the cores, the workers, the machine, and how to do it again.

mod cores;
mod evidence_words;
mod findings;
mod ledger;
mod machine;
pub(super) mod pieces;
mod rdma;
mod shares;
mod stage;
mod stages;
mod streams;
mod style;
mod waterfall;
mod workers;

use super::figure::{Figure, Unit, percent};
use super::map;
use super::markup::{DOCTYPE, Markup, PreEscaped, finished, html};
use super::power;
use super::verdict::{RunVerdict, named, resources, subject, verdict};
use linerate_measure::run::Run;
use linerate_model::plan::Origin;
use pieces::{card, kept_together, letter_tag, with_code, word_tag};

/// No script runs, nothing is loaded: also if a text should slip through the escaping.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The whole page.
pub(super) fn page(run: &Run) -> String {
    match run.stage {
        None => whole_path(run),
        Some(stage) => stage::page(run, stage),
    }
}

fn whole_path(run: &Run) -> String {
    let verdict = verdict(run);
    let body = html! {
        (header(run, &verdict))
        main {
            (errors(&run.errors))
            (server(run, &verdict))
            (waterfall::section(run, &verdict))
            (findings::section(run))
            (stages::section(run, &verdict))
            (cores::section(run))
            (workers::section(run))
            (power::section(run))
            (machine::section(&run.machine))
            (machine::reproduce(run))
        }
    };
    document(&title(run, &verdict), "", body)
}

/// One page with the style sheet, and what else of style it needs.
pub(crate) fn document(title: &str, more_style: &str, body: Markup) -> String {
    finished(html! {
        (DOCTYPE) "\n"
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(style::sheet())) (PreEscaped(more_style)) }
            }
            "\n"
            body { (body) }
        }
        "\n"
    })
}

/// What a browser's tab shows.
fn title(run: &Run, verdict: &RunVerdict) -> String {
    let end =
        verdict.achieved_sentence.as_ref().and_then(|text| text.rsplit_once(" from ")).map(|(_, way)| way);
    match verdict.achieved.value.zip(end) {
        Some((rate, way)) => {
            format!("{}: {} from {} – linerate", run.host, Unit::Bytes.show(rate), way.trim_end_matches('.'))
        }
        None => format!("{} – linerate", run.host),
    }
}

fn header(run: &Run, verdict: &RunVerdict) -> Markup {
    let facts = [format!("linerate {}", run.version), run.host.clone(), run.started.clone()];
    let long = verdict.bottleneck.chars().count() > 100;
    html! {
        header {
            p class="kicker" {
                @for fact in facts.iter().filter(|fact| !fact.is_empty()) { span { (fact) } }
            }
            p class="subject" { (subject(run)) }
            @if let Some(achieved) = &verdict.achieved_sentence {
                h1 { (kept_together(achieved.trim_end_matches('.'))) }
                p class="lead" { (kept_together(&verdict.bottleneck)) }
            } @else {
                h1 class=[long.then_some("long")] { (kept_together(&verdict.bottleneck)) }
            }
            @if !verdict.headroom.is_empty() { p class="lead" { (kept_together(&verdict.headroom)) } }
            (tiles(run, verdict))
            (legend())
        }
    }
}

/// The picture of the server with what the flow uses of it.
fn server(run: &Run, verdict: &RunVerdict) -> Markup {
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
        (shares::list(run, verdict))
        (caption)
    };
    card("map", "The server and the flow", html! {}, body)
}

/// Ceiling, predicted, achieved; and the headroom without the bottleneck.
fn tiles(run: &Run, verdict: &RunVerdict) -> Markup {
    let parts = resources(run);
    let held = if verdict.cut.is_empty() {
        String::new()
    } else {
        format!("limited by {}", named(&verdict.cut, &parts))
    };
    let share = verdict.of_predicted.map(|share| format!("{} of predicted", percent(share)));
    let protocol = run.goal.protocols.first().map(|protocol| protocol.to_string());
    let reached: Vec<String> = share.into_iter().chain(protocol).collect();
    let gain = verdict.gain.map(|gain| Figure::of(Some(gain), Origin::Measured));
    let reached = reached.join(", ");
    let headroom = gain
        .as_ref()
        .map(|gain| ("tile", "Headroom", gain, "more without the bottleneck, by the prediction"));
    let all = [
        ("tile achieved", "Achieved", &verdict.achieved, reached.as_str()),
        ("tile", "Predicted", &verdict.predicted, held.as_str()),
        ("tile", "Ceiling", &verdict.ceiling, "what the parts allow"),
    ];
    let (known, unknown): (Vec<_>, Vec<_>) =
        all.into_iter().chain(headroom).partition(|(_, _, figure, _)| figure.value.is_some());
    let unknown: Vec<String> = unknown.iter().map(|(_, name, figure, _)| missing(name, figure)).collect();
    html! {
        div class="tiles" {
            @for (class, name, figure, note) in known { (tile(class, name, figure, note)) }
        }
        @if !unknown.is_empty() { p class="caption" { "Unknown: " (unknown.join("; ")) "." } }
    }
}

/// A figure that has no tile and no bar: its name and why.
fn missing(name: &str, figure: &Figure) -> String {
    let name = name.to_lowercase();
    figure.why.as_deref().map_or_else(|| name.clone(), |why| format!("{name} ({why})"))
}

fn tile(class: &str, name: &str, figure: &Figure, note: &str) -> Markup {
    html! {
        div class=(class) {
            p class="name" { (name) " " (word_tag(figure.origin)) }
            p class="value" {
                span class="big" { (figure.show(Unit::Bytes)) }
                @if let Some(value) = figure.value { span class="bits" { (Unit::Bits.show(value)) } }
            }
            p class="note" { (note) }
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

/// What failed, in a frame of its own; nothing where nothing did.
fn errors(errors: &[String]) -> Markup {
    let count = if errors.len() == 1 { "one thing".to_string() } else { format!("{} things", errors.len()) };
    html! {
        @if !errors.is_empty() {
            section class="errors" role="alert" aria-labelledby="errors-h" {
                h2 id="errors-h" { "Partial: " (count) " went wrong" }
                ul { @for error in errors { li { (with_code(error)) } } }
            }
        }
    }
}
