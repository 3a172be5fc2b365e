//! `linerate reproduce`: a paper's experiments planned for its machine, or run here one after the other, by
//! this program as its user would run it; paper and result side by side. Five papers ship with linerate: those
//! that it grew out of.

use super::arguments::{Command, PlanArgs, ReproduceArgs};
use super::definition::try_parse_from;
use super::output::Output;
use super::plan::{flow_report, read};
use super::results::write_page;
use super::stop::stop_on_signals;
use linerate_facts::fact::Fact;
use linerate_facts::failure::Failure;
use linerate_interop::paper::{
    Cause, CauseKind, Conditions, LARGEST_PAPER_BYTES, Paper, PaperFigure, PaperStep, QuantityKind,
    ReproducedFigure, ReproducedStep, Reproduction, causes_here, parse,
};
use linerate_measure::run::Run;
use linerate_model::plan::machine_file;
use linerate_model::plan::parts::{MachineParts, from_machine};
use linerate_report as report;
use linerate_system::process::end_with_starter;
use linerate_system::side_file::read_bounded;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What is here, by the names in a step's braces.
type PartsHere = BTreeMap<String, Vec<String>>;

/// Does the command.
pub(super) fn reproduce(args: &ReproduceArgs, output: &Output) -> Result<u8, Failure> {
    let Some(file) = &args.paper else { return output.print(&list()).map(|()| 0) };
    let source = PaperSource::open(file)?;
    let steps = match args.plan {
        true => source.paper.steps.iter().map(|step| source.planned(step)).collect(),
        false => source.measured(&parts_here(&args.with), output)?,
    };
    let found = Reproduction { paper: source.paper.paper.clone(), planned: args.plan, steps };
    if let Some(file) = &args.html {
        write_page(file, &report::reproduced_html(&found))?;
    }
    output.show(args.json, &found, || report::reproduced(&found, output.width(), output.colour()))?;
    Ok(u8::from(found.steps.iter().any(|step| step.left_out.is_some())))
}

fn parts_here(given: &[(String, String)]) -> PartsHere {
    let mut parts = PartsHere::new();
    for (name, value) in given {
        parts.entry(name.clone()).or_default().push(value.clone());
    }
    parts.entry("folder".into()).or_insert_with(|| vec![".".into()]);
    parts
}

/// A paper, and where the machines are that it names.
struct PaperSource {
    paper: Paper,
    /// None: it ships with linerate.
    folder: Option<PathBuf>,
}

impl PaperSource {
    fn open(file: &Path) -> Result<Self, Failure> {
        let shown = file.display();
        let (text, folder) = match file.to_str().and_then(paper) {
            Some(text) => (text.to_string(), None),
            None => {
                let bytes = read_bounded(file, LARGEST_PAPER_BYTES as u64).map_err(|error| {
                    Failure::Lacks(format!(
                        "{shown} cannot be read: {error}; name a paper's file, or one that `linerate reproduce` lists"
                    ))
                })?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                (text, Some(file.parent().unwrap_or(Path::new("")).to_path_buf()))
            }
        };
        let paper = parse(&text).map_err(|error| Failure::Usage(format!("{shown}, {error}")))?;
        Ok(PaperSource { paper, folder })
    }

    fn machine(&self, step: &PaperStep) -> Result<MachineParts, Failure> {
        let name = step.machine.as_ref().unwrap_or(&self.paper.machine);
        match &self.folder {
            Some(folder) => read(&folder.join(name)).map(|(parts, _)| parts),
            None => {
                let absent = || Failure::Lacks(format!("{name} does not ship with linerate"));
                machine_file::parse(machine(name).ok_or_else(absent)?).map_err(Failure::usage)
            }
        }
    }

    /// On paper, for the paper's machine.
    fn planned(&self, step: &PaperStep) -> ReproducedStep {
        let parts = match self.machine(step) {
            Ok(parts) => parts,
            Err(why) => return left_out(step, String::new(), why.to_string()),
        };
        let figure = |figure: &PaperFigure| {
            let (value, causes) = match planned(figure, &parts) {
                Ok((value, sentence)) => (Fact::Known(value), causes_on_paper(figure, sentence)),
                Err(why) => (Fact::unknown(why), Vec::new()),
            };
            ReproducedFigure::new(figure, 1.0, value, causes)
        };
        let figures = step.figures.iter().map(figure).collect();
        let (name, on) = (step.name.clone(), parts.name.clone());
        ReproducedStep { name, on, command: String::new(), left_out: None, figures }
    }

    /// Here, with what is here.
    fn measured(&self, here: &PartsHere, output: &Output) -> Result<Vec<ReproducedStep>, Failure> {
        let stop = stop_on_signals()?;
        let mut steps = Vec::new();
        for step in &self.paper.steps {
            let words = match &step.run {
                _ if stop.is_ended() => Err("stopped before it".into()),
                None => Err("only its plan is known: --plan".into()),
                Some(run) => run.filled(here).map_err(|missing| lacks(&missing)),
            };
            let command = words.as_ref().map(|words| words.join(" ")).unwrap_or_default();
            let run = words.and_then(|words| {
                output.tell(&format!("{}: linerate {command}", step.name));
                run_of(&words)
            });
            steps.push(match run {
                Ok(run) => ReproducedStep { command, ..self.compared(step, here, &run) },
                Err(why) => left_out(step, command, why),
            });
        }
        Ok(steps)
    }

    fn compared(&self, step: &PaperStep, here: &PartsHere, run: &Run) -> ReproducedStep {
        let (theirs, ours) = (self.machine(step).ok(), from_machine(&run.machine));
        let there = step.conditions.as_ref().unwrap_or(&self.paper.conditions);
        let conditions = conditions_of(run);
        let count = |name: &String| here.get(name).map_or(0, |values| values.len() as u32);
        let parts: Vec<(String, u32, u32)> =
            step.parts.iter().map(|(name, there)| (name.clone(), count(name), *there)).collect();
        let figure = |figure: &PaperFigure| {
            let share = figure.per.as_ref().and_then(|name| parts.iter().find(|(part, ..)| part == name));
            let share = share.map_or(1.0, |(_, here, there)| f64::from(*here) / f64::from((*there).max(1)));
            let rate = |parts: &MachineParts| planned(figure, parts).ok().map(|(rate, _)| rate);
            let is_rate = figure.published.kind() == QuantityKind::Rate;
            let planned = rate(&ours).zip(theirs.as_ref().and_then(rate)).filter(|_| is_rate);
            let planned = planned.map(|(ours, theirs)| [ours, theirs]);
            let causes = causes_here(&parts, planned, &figure.published, [&conditions, there]);
            let measured = report::measured_figure(run, &figure.with_row_of(here));
            ReproducedFigure::new(figure, share, measured, causes)
        };
        let left_out = run.errors.first().map(|error| format!("in part: {error}"));
        let (name, on) = (step.name.clone(), run.host.clone());
        let figures = step.figures.iter().map(figure).collect();
        ReproducedStep { name, on, command: String::new(), left_out, figures }
    }
}

fn left_out(step: &PaperStep, command: String, why: String) -> ReproducedStep {
    let name = step.name.clone();
    ReproducedStep { name, on: String::new(), command, left_out: Some(why), figures: Vec::new() }
}

fn lacks(missing: &[String]) -> String {
    let options: Vec<String> = missing.iter().map(|name| format!("--with {name}=…")).collect();
    let is = if missing.len() > 1 { "are" } else { "is" };
    format!("its {} {is} not here: give {}", missing.join(" and its "), options.join(" "))
}

/// What the figure's plan says for these parts, in the unit of its kind, and what limits it; or why it says nothing.
fn planned(figure: &PaperFigure, parts: &MachineParts) -> Result<(f64, String), String> {
    let words = figure.plan.as_ref().ok_or("no plan gives it")?;
    let args = plan_args(words)?;
    let found = flow_report(&args, parts.clone(), None, None).map_err(|why| why.to_string())?.report;
    let sentence = found.plan.sentence.clone();
    let value = match (figure.published.kind(), figure.part.as_deref()) {
        (QuantityKind::Rate, None) => {
            let likely = found.plan.ceiling.likely_bytes_per_second.ok_or_else(|| sentence.clone())?;
            figure.asked.as_ref().map_or(likely, |asked| likely.min(asked.most()))
        }
        (QuantityKind::Count, Some("client")) => {
            let clients = found.demand.as_ref().and_then(|demand| demand.clients);
            clients.ok_or("its plan has no --each, or no rate is known")? as f64
        }
        (QuantityKind::Count, Some(part)) => {
            let mut needs = found.sizing.iter().flat_map(|sizing| &sizing.needs);
            let need = needs.find(|need| need.part == part);
            f64::from(need.ok_or_else(|| format!("its plan needs no {part}: give --target"))?.count)
        }
        (QuantityKind::CpuCost, None) => {
            let default = found.plan.default_cost.map(|cost| cost.seconds_per_gb);
            default
                .or(parts.cpu_seconds_per_gb.known().copied())
                .ok_or("the plan knows no CPU cost of a byte")?
        }
        _ => {
            let text = figure.published.text();
            return Err(format!("a plan gives rates, CPU seconds per GB and numbers of parts, not {text}"));
        }
    };
    Ok((value, sentence))
}

fn plan_args(words: &str) -> Result<PlanArgs, String> {
    let words = ["linerate", "plan"].into_iter().chain(words.split_whitespace());
    match try_parse_from(words).map(|arguments| arguments.command) {
        Ok(Command::Plan(args)) if args.what.is_none() && args.machine.is_empty() => Ok(*args),
        Ok(_) => Err("its plan names a machine of its own: leave --machine out".into()),
        Err(error) => {
            let sentence = error.to_string();
            let first = sentence.lines().next().unwrap_or_default();
            Err(format!("its plan: {}", first.trim_start_matches("error: ")))
        }
    }
}

/// What the paper's file says of it; else what limits the plan.
fn causes_on_paper(figure: &PaperFigure, sentence: String) -> Vec<Cause> {
    match figure.differs.is_empty() {
        true => vec![Cause { cause: CauseKind::Part, words: sentence }],
        false => figure.differs.clone(),
    }
}

/// Has this program do it as its user would; its result is kept as every other.
fn run_of(words: &[String]) -> Result<Run, String> {
    let program = std::env::current_exe().map_err(|error| format!("this program is not found: {error}"))?;
    let mut child = std::process::Command::new(program);
    child.args(words).arg("--json").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    end_with_starter(&mut child);
    let ended = child.output().map_err(|error| format!("it could not be started: {error}"))?;
    match report::parse(&ended.stdout, Path::new("its result")) {
        Ok(run) => Ok(run),
        Err(_) => Err(format!("it ended with {}: its sentence is above", ended.status)),
    }
}

fn conditions_of(run: &Run) -> Conditions {
    let jobs = run.measurements.iter().filter_map(|one| one.access.as_ref());
    let mut sources = jobs.flat_map(|access| &access.job.sources).filter_map(|path| path.canonicalize().ok());
    Conditions {
        method: Some(run.made_by()),
        file_system: sources.find_map(|path| report::file_system_of(run, &path).map(String::from)),
        kernel: run.machine.kernel.release.known().cloned(),
    }
}

/// Name and experiments.
const PAPERS: [(&str, &str); 5] = [
    ("d1.1", include_str!("../../../../examples/papers/d1.1.toml")),
    ("d1.3", include_str!("../../../../examples/papers/d1.3.toml")),
    ("uv300", include_str!("../../../../examples/papers/uv300.toml")),
    ("40g", include_str!("../../../../examples/papers/40g.toml")),
    ("openbench", include_str!("../../../../examples/papers/openbench.toml")),
];

/// Their machines, by the paths that the papers name.
const MACHINES: [(&str, &str); 4] = [
    ("../machines/dell-t610.toml", include_str!("../../../../examples/machines/dell-t610.toml")),
    ("../machines/sgi-uv300.toml", include_str!("../../../../examples/machines/sgi-uv300.toml")),
    (
        "../machines/streaming-server.toml",
        include_str!("../../../../examples/machines/streaming-server.toml"),
    ),
    ("../machines/appro-1224xi.toml", include_str!("../../../../examples/machines/appro-1224xi.toml")),
];

fn text_of(all: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    all.iter().find(|(other, _)| *other == name).map(|(_, text)| *text)
}

fn paper(name: &str) -> Option<&'static str> {
    text_of(&PAPERS, name)
}

fn machine(name: &str) -> Option<&'static str> {
    text_of(&MACHINES, name)
}

/// A line for each: its name, and what it is.
fn list() -> String {
    let title = |text: &str| parse(text).map(|paper| paper.paper).unwrap_or_default();
    PAPERS.iter().map(|(name, text)| format!("{name:<10} {}\n", title(text))).collect()
}

#[cfg(test)]
mod tests;
