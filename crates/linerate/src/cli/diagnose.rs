//! `linerate diagnose`: the diagnosis of a saved run, once more.

use super::arguments::DiagnoseArgs;
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_report::{self as report, results};

/// Reads the run, diagnoses, prints.
pub(super) fn diagnose(args: &DiagnoseArgs, output: &Output) -> Result<u8, Failure> {
    let mut run = results::read(&args.run)?;
    run.diagnosis = run.diagnose();
    match &run.diagnosis {
        None => Err(Failure::Lacks(format!(
            "{}: nothing to diagnose: the run ended before its plan, or it is of a fleet, whose verdict `linerate report` \
             shows",
            args.run.display()
        )))?,
        Some(diagnosis) if args.json => output.print_json(diagnosis)?,
        Some(_) => output.print(&report::terminal(&run, output.width(), output.colour()))?,
    }
    Ok(0)
}
