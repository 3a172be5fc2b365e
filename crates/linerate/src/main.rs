//! The program: parse the arguments, do the command, give the exit status of the contract.

#![forbid(unsafe_code)]

use linerate::cli::{Output, ended, execute, parse};
use std::process::ExitCode;

fn main() -> ExitCode {
    let output = Output::default();
    ended(execute(parse(&output), &output), &output)
}
