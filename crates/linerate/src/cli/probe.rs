//! `linerate probe`: what the server is. With `--capture` it makes a tarball of this machine, without what
//! reveals whose it is.

use super::arguments::{ProbeArgs, described};
use super::output::Output;
use super::saving::Gate;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::capture::{Capture, capture, write};
use linerate_machine::probe::foreign::DescribedMachine;
use linerate_machine::probe::{Machine, cpu_speeds};
use linerate_measure::diagnose::ledger::counted_findings;
use linerate_measure::diagnose::{Finding, map_findings};
use linerate_measure::run::Run;
use linerate_model::plan::Goal;
use linerate_report as report;
use linerate_report::tree::show_tree;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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
        return write_capture(file, output);
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

/// Records the machine, writes the tarball, says what was replaced.
fn write_capture(path: &Path, output: &Output) -> Result<u8, Failure> {
    // Asked before the machine is read: a name that cannot be written is known at once.
    let file = make(path)?;
    let recorded = capture(&Sysroot::live()).map_err(Failure::lacks);
    let done = recorded.and_then(|capture| save(&capture, file, path).map(|()| capture));
    let capture = match done {
        Ok(capture) => capture,
        Err(failure) => {
            // Ours, and of no use.
            let _ = std::fs::remove_file(path);
            return Err(failure);
        }
    };
    output.print(&summary(&capture, path))?;
    Ok(0)
}

fn make(output: &Path) -> Result<File, Failure> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(output);
    opened.map_err(|error| {
        Failure::Lacks(match error.kind() {
            ErrorKind::AlreadyExists => {
                format!(
                    "{} is there already; name another file with --capture, or remove it",
                    output.display()
                )
            }
            _ => format!(
                "{} could not be made: {error}; name a file in a folder that you may write",
                output.display()
            ),
        })
    })
}

fn save(capture: &Capture, file: File, output: &Path) -> Result<(), Failure> {
    let mut file = BufWriter::new(file);
    let written = write(capture, &mut file).and_then(|()| file.flush());
    written.map_err(|error| {
        Failure::Lacks(format!("{} could not be written: {error}; is the disk full?", output.display()))
    })
}

fn summary(capture: &Capture, output: &Path) -> String {
    let replaced = &capture.replaced;
    let counts = [
        (replaced.hardware_addresses, "hardware addresses"),
        (replaced.ip_addresses, "IP addresses and networks"),
        (replaced.hosts, "host names"),
        (replaced.serials, "serial numbers and world-wide names"),
        (replaced.uuids, "UUIDs"),
        (replaced.names, "names of folders, volumes and users"),
    ];
    let mut text = format!("{}: {} files, links and folders\n", output.display(), capture.entries.len());
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&format!("replaced {count:>5} {what}\n"));
    }
    if replaced.left_out > 0 {
        text.push_str(&format!("left out {:>5} files\n", replaced.left_out));
    }
    text + "look into it before you give it away; read it with: linerate probe "
        + &output.display().to_string()
        + "\n"
}
