//! A load test: a row for each step, what to know of the steps; on the page every measurement, too.

use super::{access, outcome};
use crate::alike::grouped;
use crate::document::{Block, Media, Part, Table, TableRow, dim};
use crate::figure::{operations_word, percent, seconds_word};
use crate::grid::{Column, name, number, text};
use linerate_facts::printable::printable;
use linerate_facts::wording::counted;
use linerate_measure::measure::Measurement;
use linerate_measure::measure::access::{LoadCurve, LoadPoint};
use linerate_measure::run::Run;

const STEPS: [Column; 6] =
    [name("load"), number("IOPS", 0), number("mean", 0), number("p99", 1), number("p99.9", 2), text("", 3)];

pub(super) fn parts(run: &Run) -> Vec<Part<'_>> {
    let steps = run.load.as_ref().filter(|curve| !curve.points.is_empty());
    let mut blocks: Vec<Block> =
        steps.into_iter().flat_map(|curve| [Block::Space, steps_table(curve)]).collect();
    blocks.extend(remarks(run).into_iter().map(|remark| Block::Text(dim(remark))));
    let steps = Part { id: "steps", title: "Steps", blocks, ..Part::default() };
    vec![steps, Part { on: Media::Page, ..access::figures(&run.measurements) }]
}

fn steps_table(curve: &LoadCurve) -> Block<'static> {
    let (answer, level) = (curve.answer(), curve.level_rate());
    let row = |point: &LoadPoint| {
        let load = match point.offered {
            Some(offered) => format!("{}/s", operations_word(offered)),
            None => counted(point.workers, "worker"),
        };
        let mut notes = Vec::new();
        if answer.is_some_and(|answer| std::ptr::eq(answer, point)) {
            notes.push(match level.filter(|_| point.offered.is_none()) {
                Some(level) => format!("{} of the most", percent(point.operations_per_second / level)),
                None => "highest".into(),
            });
        }
        if let Some(in_flight) = outcome::in_flight_of_more(point) {
            notes.push(format!("{in_flight:.0} in flight"));
        }
        if !point.within_limit {
            notes.push("past the limit".into());
        }
        let [mean, p99, p99_9] =
            [point.latency.mean, point.latency.p99, point.latency.p99_9].map(seconds_word);
        TableRow::of([load, operations_word(point.operations_per_second), mean, p99, p99_9, notes.join(", ")])
    };
    Block::Table(Table::new(STEPS, curve.points.iter().map(row)))
}

/// What the columns have no room for, each once with how many measurements it holds of.
fn remarks(run: &Run) -> Vec<String> {
    let of = |one: &'_ Measurement| -> Vec<(String, String)> {
        let limited_by = one.held_by.map(|by| by.words().to_string());
        let access = one.access.as_deref();
        let found = access.into_iter().flat_map(access::remarkable);
        let error = access.and_then(|access| access.errors.first());
        let said = one.flags.iter().chain(error).map(|text| printable(text));
        limited_by.into_iter().chain(said).chain(found).map(|remark| (remark, outcome::name(one))).collect()
    };
    let all = grouped(run.measurements.iter().flat_map(of), |(one, _), (other, _)| one == other);
    let words = |alike: &Vec<(String, String)>| match alike.as_slice() {
        [(remark, name)] => format!("{remark}: {name}"),
        many => format!("{}: {} rows", many[0].0, many.len()),
    };
    all.iter().map(words).collect()
}
