//! The program: parse the words, do the command, give the exit status of the contract.

#![forbid(unsafe_code)]

use linerate::cli::{complain, execute, parse};
use std::process::ExitCode;

fn main() -> ExitCode {
    match execute(parse()) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            complain(&failure.to_string());
            ExitCode::from(failure.exit_status())
        }
    }
}
