//! The program of the wall: parse the arguments, do the command, give the exit status of the contract.

#![forbid(unsafe_code)]

use linerate::cli::{Output, ended, execute_wall, parse_wall};
use std::process::ExitCode;

fn main() -> ExitCode {
    let output = Output::default();
    ended(execute_wall(parse_wall(&output), &output), &output)
}
