//! `qemu-server FILE`: a machine file as devices of QEMU, for `lab up --qemu`. What QEMU cannot build is one sentence
//! on standard error and exit status 3.

mod lines;

use linerate_model::plan::machine_file;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).ok_or("give a machine file".to_string()).and_then(|file| server(&file)) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(sentence) => {
            eprintln!("{sentence}");
            ExitCode::from(3)
        }
    }
}

fn server(file: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file} cannot be read: {error}"))?;
    let parts = machine_file::parse(&text).map_err(|error| format!("{file}, {error}"))?;
    let lines = lines::lines(&parts).map_err(|error| error.to_string())?;
    Ok(lines.join("\n") + "\n")
}
