//! `qemu-server FILE`: a machine file as devices of QEMU, for `lab up --qemu`. Exit status 2 where there is no such file,
//! 3 where QEMU cannot build it; either is one sentence on standard error.

mod lines;

use linerate_model::plan::machine_file;
use std::process::ExitCode;

fn main() -> ExitCode {
    let (status, sentence) = match server() {
        Ok(text) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(refused) => refused,
    };
    eprintln!("{sentence}");
    ExitCode::from(status)
}

fn server() -> Result<String, (u8, String)> {
    let file = std::env::args().nth(1).ok_or((2, "give a machine file".to_string()))?;
    let text =
        std::fs::read_to_string(&file).map_err(|error| (2, format!("{file} cannot be read: {error}")))?;
    let parts = machine_file::parse(&text).map_err(|error| (2, format!("{file}, {error}")))?;
    let lines = lines::lines(&parts).map_err(|error| (3, error.to_string()))?;
    Ok(lines.join("\n") + "\n")
}
