//! `linerate probe`: what the server is.

use super::arguments::{ProbeArgs, described};
use super::capture;
use super::gate::Gate;
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_machine::probe::foreign::DescribedMachine;
use linerate_machine::probe::{Machine, cpu_speeds};
use linerate_measure::diagnose::ledger::counted_findings;
use linerate_measure::diagnose::{Finding, map_findings};
use linerate_measure::run::Run;
use linerate_model::plan::Goal;
use linerate_report as report;
use linerate_report::tree::show_tree;
use serde::Serialize;

/// `linerate probe --json`: the machine, and what its map shows.
#[derive(Serialize)]
struct ProbedMachine<'a> {
    #[serde(flatten)]
    machine: &'a Machine,
    findings: &'a [Finding],
}

/// Shows the machine as a tree or as JSON, with what is wrong or worth changing at the end.
pub(super) fn show_probe(args: &ProbeArgs, output: &Output) -> Result<u8, Failure> {
    if let Some(file) = &args.capture {
        return capture::write_capture(file, output);
    }
    let gate = Gate::open(&args.expect)?;
    let DescribedMachine { mut machine, counted } = described(&args.files, output)?;
    if args.files.is_empty() {
        machine.cpu.baseline = cpu_speeds(&machine.cpu);
    }
    if let Some(file) = &args.svg {
        super::plan::write_picture(file, &report::map_svg(&machine))?;
    }
    let mut findings = map_findings(&machine);
    findings.extend(counted_findings(&counted));
    if args.json {
        output.print_json(&ProbedMachine { machine: &machine, findings: &findings })?;
    } else {
        // Listings of counters alone describe no machine.
        if machine != Machine::default() || findings.is_empty() {
            output.print(&show_tree(&machine))?;
        }
        output.print(&report::findings(&findings, output.width(), output.colour()))?;
    }
    match gate {
        Some(gate) => {
            let run = Run::begin(machine, Goal::default());
            gate.finish(&[&run], 0, !args.json, output)
        }
        None => Ok(0),
    }
}
