//! `linerate report`: a result judged again, as its screen, page or lines; for others without what says whose it is.

use super::arguments::{FormatArg, ReportArgs};
use super::output::Output;
use super::saving::printed;
use linerate_facts::failure::Failure;
use linerate_report::{self as report, gate, results};
use std::path::Path;

/// Does the command.
pub(super) fn show_report(args: &ReportArgs, output: &Output) -> Result<u8, Failure> {
    let mut run = results::read(&args.run)?;
    if let Some(diagnosis) = run.diagnose() {
        run.diagnosis = Some(diagnosis);
    }
    let run = if args.anonymous { report::anonymous(&run)? } else { run };
    if args.expectations {
        output.print(&gate::expectations_of_result(&run))?;
        return Ok(0);
    }
    let format = args.format.unwrap_or(if args.json { FormatArg::Json } else { FormatArg::Text });
    match &args.html {
        Some(file) => write_page(file, &report::html(&run))?,
        None => output.print(&printed(&run, format, output))?,
    }
    Ok(0)
}

pub(super) fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    std::fs::write(path, page).map_err(|error| {
        Failure::Lacks(format!(
            "{} could not be written: {error}; name a file in a folder that you may write",
            path.display()
        ))
    })
}
