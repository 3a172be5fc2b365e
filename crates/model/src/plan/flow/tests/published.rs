//! The model held against published servers: `examples/published`, planned from their parts alone. README.md there
//! has the rule of choice; the table goes to `docs/published.md`, which `LINERATE_WRITE_FIXTURES=1` writes again.

use super::*;
use linerate_facts::units::show_bytes_rate;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Before it the page has the papers that `linerate reproduce` repeats.
const HEADING: &str = "## Servers of owners";

/// Lower end of what counts as reached.
const REACHED: f64 = 0.90;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    accelerator: Accelerator,
    /// Stores that `source` names.
    #[expect(dead_code, reason = "for people")]
    sources: toml::Table,
    figure: Vec<PublishedFigure>,
}

/// What an emulated accelerator reads: this many samples, and as many again when it has worked on them so long.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct Accelerator {
    samples: u32,
    seconds: f64,
    sample_bytes: f64,
}

impl Accelerator {
    /// The most that it asks for, bytes per second: that of one that never waits.
    fn bytes_per_second(self) -> f64 {
        f64::from(self.samples) * self.sample_bytes / self.seconds
    }
}

/// What one server reached.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedFigure {
    name: String,
    file: String,
    from: String,
    to: String,
    #[serde(default = "direct")]
    method: Method,
    bytes_per_second: f64,
    servers: u32,
    /// That all servers fed, together.
    accelerators: Option<u32>,
    class: Class,
    #[serde(default)]
    word: String,
    held_out: bool,
    source: String,
}

fn direct() -> Method {
    Method::Direct
}

/// What limits a figure by its owner's word.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Class {
    Nic,
    Disks,
    Cpu,
    Memory,
    Other,
    Unsaid,
}

/// A figure beside its plan.
struct PlannedFigure {
    figure: PublishedFigure,
    best: f64,
    /// Or, where the rate of disks is published nowhere, what the other parts allow at most.
    likely: f64,
    at_most: bool,
    limit: Vec<String>,
}

impl PlannedFigure {
    fn of_likely(&self) -> f64 {
        self.figure.bytes_per_second / self.likely
    }

    fn reached(&self) -> bool {
        (REACHED..=1.0).contains(&self.of_likely())
    }

    /// The owner says that what the plan names limits it.
    fn rated(&self) -> bool {
        matches!(self.figure.class, Class::Nic | Class::Disks)
    }

    fn explained(&self) -> bool {
        self.of_likely() >= REACHED || matches!(self.figure.class, Class::Cpu | Class::Memory | Class::Other)
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/published")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn published() -> Published {
    toml::from_str(&read("published.toml")).expect("figures")
}

fn rows() -> Vec<PlannedFigure> {
    let Published { accelerator, figure, .. } = published();
    figure.into_iter().map(|figure| row(figure, accelerator)).collect()
}

fn row(figure: PublishedFigure, accelerator: Accelerator) -> PlannedFigure {
    let parts = parse(&read(&figure.file)).unwrap_or_else(|error| panic!("{}: {error:?}", figure.file));
    let flow = Flow { method: figure.method, ..flow(&parts, &figure.from, &figure.to) };
    let plan = plan_flow(&parts, &flow);
    let known = |rate: Option<f64>| rate.unwrap_or_else(|| panic!("{}: {}", figure.name, plan.sentence));
    let best = known(plan.ceiling.bytes_per_second.known().copied());
    let bound = match &plan.missing {
        Some(missing) => {
            missing.at_most.clone().unwrap_or_else(|| panic!("{}: {}", figure.name, plan.sentence))
        }
        None => plan.likely.clone(),
    };
    let likely = known(bound.bytes_per_second.known().copied());
    let kind = |id: &String| id.split(':').next().unwrap_or_default().to_string();
    let limit: BTreeSet<String> = bound.cut.iter().map(kind).collect();
    let limit = limit.into_iter().collect();
    // Nobody asks for more.
    let each = f64::from(figure.accelerators.unwrap_or(0)) / f64::from(figure.servers);
    let demand = each * accelerator.bytes_per_second();
    let at_most = plan.missing.is_some();
    match figure.accelerators.is_some() && demand < likely {
        true => {
            let limit = vec!["demand".into()];
            PlannedFigure { best: best.min(demand), likely: demand, at_most, limit, figure }
        }
        false => PlannedFigure { best, likely, at_most, limit, figure },
    }
}

/// How many of those that their owners call limited by NICs or disks are reached, of how many.
fn reached(rows: &[PlannedFigure], held_out: bool) -> (usize, usize) {
    let of: Vec<&PlannedFigure> =
        rows.iter().filter(|row| row.rated() && row.figure.held_out == held_out).collect();
    (of.iter().filter(|row| row.reached()).count(), of.len())
}

/// Unexplained figures, of how many.
fn unexplained<'a>(rows: impl Iterator<Item = &'a PlannedFigure>) -> (usize, usize) {
    rows.fold((0, 0), |(unexplained, all), row| (unexplained + usize::from(!row.explained()), all + 1))
}

fn page(rows: &[PlannedFigure]) -> String {
    let servers: BTreeSet<&str> = rows.iter().map(|row| row.figure.file.as_str()).collect();
    let (dark, all) = unexplained(rows.iter());
    let (dark_mlperf, mlperf) =
        unexplained(rows.iter().filter(|row| row.figure.source.starts_with("mlperf:")));
    let ((own, of_own), (held, of_held)) = (reached(rows, false), reached(rows, true));
    let above = rows.iter().filter(|row| row.figure.bytes_per_second > row.best).count();
    let near = || rows.iter().filter(|row| row.of_likely() >= REACHED);
    let by_demand = near().filter(|row| row.limit == ["demand"]).count();
    let by_part = near().count() - by_demand;
    let by_word = all - dark - near().count();
    let open = rows.iter().filter(|row| row.at_most).count();
    let mut text = format!(
        "\
{HEADING}

A test writes this part (`LINERATE_WRITE_FIXTURES=1 cargo test -p linerate-model published`). The servers,
where each figure comes from and how they were chosen are in [examples/published](../examples/published).
Figures are those of one server; *class* is what limits it by its owner's word; *limit* is what the plan
names; every third file is held out. Nothing was fitted: the parts, figures and classes were committed
before any was planned.

- {all} figures of {} servers. Above the ceiling: {above}.
- Of {open} figures the rate of the disks is published nowhere: nothing is likely there, and *likely* is what the
  other parts allow at most (≤).
- Limited by NICs or disks by their owners' words and at 0.90 to 1.00 of likely: {own} of {of_own}; of those
  held out {held} of {of_held}.
- Explained by a part: {by_part} of {all}. By the demand: {by_demand}, all of MLPerf Storage, where as many
  accelerators are emulated as stay 90 % busy: the figure is at most what they ask for, and what would limit
  one more is not published. By their owners' words: {by_word}.
- Unexplained, which is below 0.90 of likely without a word why: {dark} of {all}. Of these {dark_mlperf} are
  among the {mlperf} of MLPerf Storage and {} among the other {}. What holds those is no part: a plan knows
  no file systems and protocols.

| server | published | likely | ceiling | of likely | limit | class | held out |
| --- | --- | --- | --- | --- | --- | --- | --- |
",
        servers.len(),
        dark - dark_mlperf,
        all - mlperf,
    );
    for row in rows {
        let class = format!("{:?}", row.figure.class).to_lowercase();
        text.push_str(&format!(
            "| {} | {} | {}{} | {} | {:.2}{} | {} | {class} | {} |\n",
            row.figure.name,
            show_bytes_rate(row.figure.bytes_per_second),
            if row.at_most { "≤ " } else { "" },
            show_bytes_rate(row.likely),
            show_bytes_rate(row.best),
            row.of_likely(),
            if row.explained() { "" } else { ", unexplained" },
            row.limit.join(", "),
            if row.figure.held_out { "yes" } else { "" },
        ));
    }
    text
}

#[test]
fn the_corpus_is_as_its_rule_says() {
    let figures = published().figure;
    let files: BTreeSet<String> = std::fs::read_dir(folder())
        .expect("a folder")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".toml") && name != "published.toml")
        .collect();
    assert!(files.len() >= 40, "{}", files.len());
    let named: BTreeSet<String> = figures.iter().map(|figure| figure.file.clone()).collect();
    assert_eq!(files, named, "each file has a figure, each figure a file");
    for figure in &figures {
        let third = files.iter().position(|file| *file == figure.file).is_some_and(|at| at % 3 == 2);
        assert_eq!(figure.held_out, third, "{}", figure.file);
        assert!(figure.servers > 0 && !figure.source.is_empty(), "{}", figure.name);
        let is_mlperf = figure.source.starts_with("mlperf:");
        assert_eq!(figure.accelerators.is_some_and(|count| count > 0), is_mlperf, "{}", figure.name);
        assert!(figure.class == Class::Unsaid || !figure.word.is_empty(), "{}: whose word?", figure.name);
    }
}

#[test]
fn no_published_figure_is_above_the_ceiling() {
    let rows = rows();
    let above: Vec<&str> = rows
        .iter()
        .filter(|row| row.figure.bytes_per_second > row.best)
        .map(|row| row.figure.name.as_str())
        .collect();
    assert!(above.is_empty(), "{above:?}");
    assert!(rows.iter().all(|row| row.likely <= row.best), "likely is never more than the best");
}

/// Of what NICs or disks limit by their owners' words at least four in five are near likely; those held out are
/// judged apart.
#[test]
fn what_ports_and_disks_limit_is_near_likely() {
    let rows = rows();
    for held_out in [false, true] {
        let (near, all) = reached(&rows, held_out);
        assert!(all > 0 && near * 5 >= all * 4, "held out {held_out}: {near} of {all}");
    }
}

/// The aim is a quarter at most, which the rest of the corpus keeps; with MLPerf Storage, whose accelerators' demand is
/// met to 82 to 90 % by eight submissions, it is one figure more. Neither may grow.
#[test]
fn what_is_unexplained_does_not_grow() {
    let rows = rows();
    let is_mlperf = |row: &&PlannedFigure| row.figure.source.starts_with("mlperf:");
    let (dark, all) = unexplained(rows.iter().filter(|row| !is_mlperf(row)));
    assert!(dark * 4 <= all, "{dark} of {all}");
    assert!(unexplained(rows.iter()).0 <= 12, "{:?}", unexplained(rows.iter()));
}

#[test]
fn the_page_of_published_servers_is_current() {
    let page = page(&rows());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/published.md");
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let (before, there) = there.split_at(there.find(HEADING).unwrap_or(there.len()));
    if std::env::var_os("LINERATE_WRITE_FIXTURES").is_some() {
        std::fs::write(&path, format!("{before}{page}")).expect("the page is written");
    }
    assert!(
        there == page,
        "docs/published.md is not what the plans say: LINERATE_WRITE_FIXTURES=1 cargo test"
    );
}
