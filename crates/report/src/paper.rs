//! A paper repeated: what of a run is a paper's figure, and paper beside plan or measurement on a screen and a page.

use crate::compare::measured_as;
use crate::document::{Block, Document, Labelled, Part, Table, TableRow, bold, dim, plain};
use crate::grid::{Column, Style, name, number, text};
use crate::stage::scaling::{of_best_alone, with_all_sources};
use linerate_facts::fact::Fact;
use linerate_facts::usage::CoreUse;
use linerate_facts::wording::counted;
use linerate_interop::paper::{PaperFigure, QuantityKind, ReproducedFigure, ReproducedStep, Reproduction};
use linerate_measure::measure::Measurement;
use linerate_measure::run::Run;

const COLUMNS: [Column; 5] =
    [name("figure"), text("in the paper", 2), number("paper", 0), number("here", 0), number("ratio", 0)];
const PLANNED: [Column; 5] =
    [name("figure"), text("in the paper", 2), number("paper", 0), number("planned", 0), number("ratio", 0)];

/// What a run measured of a paper's figure, in the unit of its kind: the best of the rows that have its words.
pub fn measured_figure(run: &Run, figure: &PaperFigure) -> Fact<f64> {
    let keyed = measured_as(run);
    // A row of just these words is the one that is meant.
    let is_whole = keyed.iter().any(|((_, name, _), _)| *name == figure.row);
    let fits = |name: &String| if is_whole { *name == figure.row } else { name.contains(&figure.row) };
    let rows = || keyed.iter().filter(|((_, name, _), _)| fits(name)).map(|(_, row)| *row);
    let busiest = |of: fn(&CoreUse) -> f64| {
        let cores = rows().flat_map(|row| &row.cpu_by_core);
        (cores.max_by(|one, other| one.busy().total_cmp(&other.busy())).map(of), "use of each CPU")
    };
    let answered = run.load.as_ref().and_then(|load| load.answer());
    let most = |values: &mut dyn Iterator<Item = f64>| values.filter(|v| v.is_finite()).reduce(f64::max);
    let of = |value: fn(&Measurement) -> Option<f64>| most(&mut rows().filter_map(value));
    let (value, what) = match figure.published.kind() {
        QuantityKind::Rate => (of(|row| Some(row.bytes_per_second)), "rate"),
        QuantityKind::Requests => {
            let of_load = answered.map(|point| point.operations_per_second);
            (of_load.or_else(|| of(requests)), "number of requests")
        }
        QuantityKind::Time => (answered.map(|point| point.latency.mean), "access time of a load"),
        QuantityKind::Share => {
            let all = with_all_sources(run).filter(|row| crate::stage::name(row).contains(&figure.row));
            (most(&mut all.filter_map(|row| of_best_alone(run, row))), "share of the sources alone")
        }
        QuantityKind::Power => {
            let uses = run.power.iter().flat_map(|power| &power.uses);
            let uses = uses.filter(|used| used.name.contains(&figure.row));
            (most(&mut uses.filter_map(|used| used.above_idle_watts.known().copied())), "power above idle")
        }
        QuantityKind::Count => (None, "number of parts"),
        QuantityKind::CpuCost => {
            let costs = rows().map(|row| row.busy_seconds_per_gb.max(row.cpu_seconds_per_gb));
            (costs.filter(|cost| *cost > 0.0).reduce(f64::min), "CPU cost")
        }
        QuantityKind::CpuBusy => busiest(CoreUse::busy),
        QuantityKind::CpuSystem => busiest(|core| core.system),
        QuantityKind::CpuSoftirq => busiest(|core| core.softirq),
    };
    let named = if figure.row.is_empty() { String::new() } else { format!(" in a row “{}”", figure.row) };
    Fact::from_option(value, format!("the run has no {what}{named}"))
}

fn requests(row: &Measurement) -> Option<f64> {
    let access = row.access.as_ref()?;
    let sides = [access.reads.as_ref(), access.writes.as_ref()];
    Some(sides.into_iter().flatten().map(|side| side.operations_per_second).sum())
}

/// For a terminal, at most `width` columns wide; a newline at its end.
pub fn screen(reproduction: &Reproduction, width: usize, colour: bool) -> String {
    document(reproduction).screen(width, Style::of(width, colour))
}

/// As one page that needs nothing else.
pub fn page(reproduction: &Reproduction) -> String {
    document(reproduction).page()
}

fn document(reproduction: &Reproduction) -> Document<'_> {
    let experiments = reproduction.steps.iter().map(|step| experiment(step, reproduction.planned)).collect();
    Document {
        tab: format!("{} – linerate", reproduction.paper),
        heading: reproduction.paper.clone(),
        about: vec!["linerate reproduce".into()],
        answer: vec![bold(answer(reproduction)), plain(first_difference(reproduction))],
        parts: vec![Part::new("experiments", "Experiments", "", experiments)],
        ..Document::default()
    }
}

fn answer(reproduction: &Reproduction) -> String {
    let known = reproduction.figures().filter(|figure| figure.ratio.is_some()).count();
    let same = reproduction.figures().filter(|figure| figure.ratio.is_some() && !figure.differs()).count();
    let (done, where_) = match reproduction.planned {
        true => ("planned", "the paper's machine"),
        false => ("measured", "this machine"),
    };
    let left = reproduction.steps.iter().filter(|step| step.left_out.is_some()).count();
    let left = match left {
        0 => String::new(),
        left => format!(" {} left out.", counted(left, "step")),
    };
    format!(
        "{known} of {} {done} for {where_}, {same} of them within 2 % of the paper.{left}",
        counted(reproduction.figures().count(), "figure")
    )
}

fn first_difference(reproduction: &Reproduction) -> String {
    let Some(figure) = reproduction.first_difference() else { return String::new() };
    let ratio = figure.ratio.map_or(String::new(), ratio);
    format!("The first difference is {} ({ratio} of the paper's): {}.", figure.what, cause(figure))
}

fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}

fn cause(figure: &ReproducedFigure) -> String {
    match figure.causes.first() {
        Some(first) => format!("{}: {}", first.cause.word(), first.words.trim_end_matches('.')),
        None => "its cause is unknown".into(),
    }
}

fn experiment(step: &ReproducedStep, planned: bool) -> Block<'_> {
    let mut facts: Vec<Labelled> = Vec::new();
    facts.extend((!step.on.is_empty()).then(|| ("machine", dim(&step.on))));
    facts
        .extend((!step.command.is_empty()).then(|| ("command", dim(format!("`linerate {}`", step.command)))));
    facts.extend(step.left_out.as_ref().map(|why| ("left out", plain(why))));
    let mut blocks = vec![Block::Facts(LABEL, facts)];
    if !step.figures.is_empty() {
        let columns = if planned { PLANNED } else { COLUMNS };
        blocks.push(Block::Table(Table::new(columns, step.figures.iter().map(row)).whole()));
    }
    Block::Fold { heading: step.name.clone(), result: String::new(), open: true, blocks }
}

/// Columns of a label.
const LABEL: usize = 10;

fn row(figure: &ReproducedFigure) -> TableRow {
    let value = match &figure.value {
        Fact::Known(value) => figure.published.show(*value),
        Fact::Unknown { .. } => "unknown".into(),
    };
    let cells = [
        figure.what.clone(),
        figure.place.clone(),
        figure.published.text().to_string(),
        value,
        figure.ratio.map(ratio).unwrap_or_else(|| "–".into()),
    ];
    let mut notes = Vec::new();
    if let Fact::Unknown { why } = &figure.value {
        notes.push(dim(why));
    }
    notes.extend(figure.scaled.as_ref().map(|scaled| dim(format!("for the parts here: {}", scaled.text()))));
    notes.extend(figure.causes.iter().map(|one| dim(format!("{}: {}", one.cause.word(), one.words))));
    TableRow::of(cells).with_notes(notes)
}
