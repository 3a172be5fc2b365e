//! The program: parse the arguments, do the command, give the exit status of the contract.

#![forbid(unsafe_code)]

use linerate::cli::{Output, execute, parse, report};
use std::process::ExitCode;

fn main() -> ExitCode {
    let output = Output::default();
    let status = execute(parse(&output), &output).unwrap_or_else(|failure| {
        output.complain(&failure.to_string());
        failure.exit_status()
    });
    report(status);
    ExitCode::from(status)
}
