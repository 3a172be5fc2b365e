//! The page: one file that shows a run to anybody, with no script and nothing to load.
//!
//! Top to bottom it answers: what did it reach and what stops it; what hangs where; where does speed get lost; what do I change;
//! then the evidence: every measurement, the cores, the lanes, the machine, and how to do it again.

mod blocks;
mod cores;
mod diagram;
mod findings;
mod lanes;
mod layout;
mod machine;
mod pipes;
mod probed;
mod stage;
mod stages;
mod streams;
mod style;
pub(super) mod text;
mod waterfall;

use super::figure::{Figure, Unit, percent};
use super::verdict::{Verdict, named, resources, subject, verdict};
use crate::plan::Origin;
use crate::run::Run;
pub(super) use stage::stage_page;
use text::{escape, kept_together, letter_tag, word_tag};

/// No script runs, nothing is loaded: also if a text should slip through the escaping.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The whole page.
pub(super) fn page(run: &Run) -> String {
    let verdict = verdict(run);
    let mut body = header(run, &verdict);
    body += "<main>\n";
    body += &errors(&run.errors);
    body += &diagram::section(run, &verdict);
    body += &waterfall::section(run, &verdict);
    body += &findings::section(run);
    body += &stages::section(run, &verdict);
    body += &cores::section(run);
    body += &lanes::section(run);
    body += &machine::section(&run.machine);
    body += &machine::reproduce(run);
    body += "</main>\n";
    document(&title(run, &verdict), "", &body)
}

/// One page with the style sheet, and what else of style it needs.
pub(in crate::report) fn document(title: &str, more_style: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{}{more_style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape(title),
        style::sheet(),
    )
}

/// What a browser's tab shows.
fn title(run: &Run, verdict: &Verdict) -> String {
    match verdict.achieved.value {
        Some(rate) => format!("{}: {} from disk to network – linerate", run.host, Unit::Bytes.show(rate)),
        None => format!("{} – linerate", run.host),
    }
}

fn header(run: &Run, verdict: &Verdict) -> String {
    let facts = [format!("linerate {}", run.version), run.host.clone(), run.started.clone()];
    let facts: Vec<String> = facts
        .iter()
        .filter(|fact| !fact.is_empty())
        .map(|fact| format!("<span>{}</span>", escape(fact)))
        .collect();
    format!(
        "<header>\n<p class=\"kicker\">{}</p>\n<p class=\"subject\">{}</p>\n<h1{}>{}</h1>\n{}{}</header>\n",
        facts.join(""),
        escape(&subject(run)),
        if verdict.sentence.chars().count() > 100 { " class=\"long\"" } else { "" },
        escape(&kept_together(&verdict.sentence)),
        tiles(run, verdict),
        legend()
    )
}

/// Ceiling, predicted, achieved; and what lifting the cut would gain.
fn tiles(run: &Run, verdict: &Verdict) -> String {
    let known = resources(run);
    let held =
        if verdict.cut.is_empty() { String::new() } else { format!("cut: {}", named(&verdict.cut, &known)) };
    let share = verdict.of_predicted.map(|share| format!("{} of predicted", percent(share)));
    let protocol = run.goal.protocols.first().map(|protocol| protocol.to_string());
    let reached: Vec<String> = share.into_iter().chain(protocol).collect();
    let mut tiles = tile("achieved", "Achieved", &verdict.achieved, &reached.join(", "));
    tiles += &tile("", "Predicted", &verdict.predicted, &held);
    tiles += &tile("", "Ceiling", &verdict.ceiling, "what the parts allow");
    if let Some(gain) = verdict.gain {
        let gain = Figure::of(Some(gain), Origin::Measured);
        tiles += &tile("", "Gain without the cut", &gain, "from the prediction");
    }
    format!("<div class=\"tiles\">{tiles}</div>\n")
}

fn tile(class: &str, name: &str, figure: &Figure, note: &str) -> String {
    let note = figure.why.as_deref().filter(|_| figure.value.is_none()).unwrap_or(note);
    let value = match figure.value {
        Some(value) => format!(
            "<span class=\"big\">{}</span><span class=\"bits\">{}</span>",
            figure.show(Unit::Bytes),
            Unit::Bits.show(value)
        ),
        None => "<span class=\"big none\">unknown</span>".into(),
    };
    format!(
        "<div class=\"tile {class}\"><p class=\"name\">{name} {}</p><p class=\"value\">{value}</p><p class=\"note\">{}</p></div>",
        word_tag(figure.origin),
        escape(note)
    )
}

fn legend() -> String {
    let item = |origin, text: &str| format!("<li>{} {text}</li>", letter_tag(origin));
    format!(
        "<ul class=\"legend\" aria-label=\"Where numbers come from\">{}{}{}{}<li><span class=\"num\">≥</span> at least: \
         something else held the stage</li></ul>\n",
        item(Origin::Rated, "rated: the part’s data sheet"),
        item(Origin::Effective, "effective: less protocol overhead"),
        item(Origin::Measured, "measured here, or computed from what was"),
        item(Origin::Unknown, "unknown: not readable"),
    )
}

/// What failed, in a frame of its own; nothing where nothing did.
fn errors(errors: &[String]) -> String {
    if errors.is_empty() {
        return String::new();
    }
    let items: String =
        errors.iter().map(|error| format!("<li>{}</li>", findings::with_code(error))).collect();
    format!(
        "<section class=\"errors\" role=\"alert\" aria-labelledby=\"errors-h\"><h2 id=\"errors-h\">Partial: {} went wrong</h2>\
         <ul>{items}</ul></section>\n",
        if errors.len() == 1 { "one thing".to_string() } else { format!("{} things", errors.len()) }
    )
}
