//! The program: parse the words, do the command, give the exit status of the contract.

#![forbid(unsafe_code)]

use linerate::cli::{complain, execute, parse, report};
use std::process::ExitCode;

fn main() -> ExitCode {
    let status = execute(parse()).unwrap_or_else(|failure| {
        complain(&failure.to_string());
        failure.exit_status()
    });
    report(status);
    ExitCode::from(status)
}
