//! The lanes of the path: what each moved, and whether it waited for its source, for its sink, or worked.

use super::text::{at, escape, letter_tag, section as card};
use crate::measure::{LaneResult, Measurement, Stage};
use crate::plan::{Lane, Origin};
use crate::report::figure::{Unit, percent, rate, share};
use crate::report::stages::device;
use crate::run::Run;

/// Lanes shown at once; more are behind a heading that opens.
const LANES_SHOWN: usize = 24;

/// Lanes in the page at all; the rest is in `run.json`.
const LANES_LISTED: usize = 512;

/// The section: the headline path, then the other protocols' behind headings that open.
pub(super) fn section(run: &Run) -> String {
    let paths: Vec<&Measurement> =
        run.measurements.iter().filter(|m| m.stage == Stage::Path && !m.lanes.is_empty()).collect();
    let Some((first, others)) = paths.split_first() else { return String::new() };
    let mut body = summary(first);
    if first.lanes.len() <= LANES_SHOWN {
        body += &table(run, first);
    } else {
        body += &details(run, first);
    }
    for m in others {
        body += &details(run, m);
    }
    let intro = format!(
        "A lane is one pinned worker: one source, one core, one network path. What is neither waiting for the source nor for the sink \
         is work. All {}.",
        letter_tag(Origin::Measured)
    );
    card("lanes", "Lanes", &intro, &body)
}

fn details(run: &Run, m: &Measurement) -> String {
    let lanes = if m.lanes.len() == 1 { "1 lane".to_string() } else { format!("{} lanes", m.lanes.len()) };
    format!("<details><summary>{lanes}, {}</summary>{}</details>", escape(&m.name), table(run, m))
}

/// The lanes together: their waiting weighed by nothing, as each is one thread's time.
fn summary(m: &Measurement) -> String {
    let count = m.lanes.len() as f64;
    let mean =
        |part: fn(&LaneResult) -> f64| m.lanes.iter().map(|lane| share(part(lane))).sum::<f64>() / count;
    let (source, sink) = (mean(|lane| lane.waiting_source), mean(|lane| lane.waiting_sink));
    let lanes = if m.lanes.len() == 1 {
        "The lane".to_string()
    } else {
        format!("The {} lanes together", m.lanes.len())
    };
    format!(
        "<p class=\"lead\">{lanes} ({}) waited {} of the time for the source and {} for the sink.</p>",
        escape(&m.name),
        percent(source),
        percent(sink)
    )
}

fn table(run: &Run, m: &Measurement) -> String {
    let fastest = m.lanes.iter().filter_map(|lane| rate(lane.bytes_per_second)).fold(0.0, f64::max);
    let mut body = String::from(
        "<div class=\"scroll\"><table class=\"lanes\"><thead><tr><th scope=\"col\" class=\"r\">lane</th><th scope=\"col\" class=\"r\">core</th>\
         <th scope=\"col\" class=\"r\">node</th><th scope=\"col\">source</th><th scope=\"col\">path</th><th scope=\"col\" class=\"r\">rate</th>\
         <th scope=\"col\" class=\"r\">CPU</th><th scope=\"col\">waits for source / works / waits for sink</th>\
         <th scope=\"col\" class=\"r\">retransmits</th></tr></thead><tbody>",
    );
    for lane in m.lanes.iter().take(LANES_LISTED) {
        let planned =
            run.plan.as_ref().and_then(|plan| plan.lanes.iter().find(|planned| planned.index == lane.lane));
        body += &row(lane, planned, fastest);
    }
    body += "</tbody></table></div>";
    let left = m.lanes.len().saturating_sub(LANES_LISTED);
    if left > 0 {
        body += &format!("<p class=\"caption\">{left} more lanes are in <code>run.json</code>.</p>");
    }
    body
}

fn row(lane: &LaneResult, planned: Option<&Lane>, fastest: f64) -> String {
    let core = planned.map_or("–".into(), |planned| planned.core.to_string());
    let node = planned.and_then(|planned| planned.node.known()).map_or("–".into(), u32::to_string);
    let rate = rate(lane.bytes_per_second);
    let slow = rate.is_some_and(|rate| rate < fastest * 0.7);
    let window = share(lane.receiver_limited);
    let limited = if window >= 0.01 {
        format!(" <span class=\"chip warn\">receiver’s window {}</span>", percent(window))
    } else {
        String::new()
    };
    format!(
        "<tr><td class=\"r num\">{}</td><td class=\"r num\">{core}</td><td class=\"r num\">{node}</td><td>{}</td><td>{}</td>\
         <td class=\"r num{}\">{}</td><td class=\"r num\">{}</td><td>{}{limited}</td><td class=\"r num\">{}</td></tr>",
        lane.lane,
        escape(&device(&lane.source)),
        lane.path.as_ref().map_or("–".into(), |path| escape(&device(path))),
        if slow { " slow" } else { "" },
        rate.map_or("unknown".into(), |rate| Unit::Bytes.show(rate)),
        percent(lane.cpu_share),
        time(lane),
        if lane.path.is_some() { lane.retransmits.to_string() } else { "–".into() }
    )
}

/// Three parts of the lane's time as a bar with its numbers.
fn time(lane: &LaneResult) -> String {
    let source = share(lane.waiting_source);
    let sink = share(lane.waiting_sink).min(1.0 - source);
    let work = (1.0 - source - sink).max(0.0);
    let part = |class: &str, from: f64, size: f64| {
        format!(
            "<rect class=\"{class}\" x=\"{}\" width=\"{}\" height=\"10\"/>",
            at(from * 120.0),
            at(size * 120.0)
        )
    };
    format!(
        "<svg class=\"time\" viewBox=\"0 0 120 10\" width=\"120\" height=\"10\" aria-hidden=\"true\">{}{}{}</svg> \
         <span class=\"num small\">{} / {} / {}</span>",
        part("t-source", 0.0, source),
        part("t-work", source, work),
        part("t-sink", source + work, sink),
        percent(source),
        percent(work),
        percent(sink)
    )
}
