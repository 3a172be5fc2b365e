//! `run.json`: written pretty, read back with errors that tell what is wrong with the file.

use super::printable::{printable, shortened};
use crate::failure::Failure;
use crate::run::{Run, SCHEMA, StageRun};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The name inside a result folder.
const FILE_NAME: &str = "run.json";

/// A run of 1,000 measurements on 1,000 cores is a tenth of this; more is not a run, and would only cost memory.
const LARGEST_RUN_BYTES: u64 = 1 << 30;

/// Pretty JSON with a newline at the end.
pub(super) fn write<P: Serialize>(product: &P) -> String {
    match serde_json::to_string_pretty(product) {
        Ok(text) => text + "\n",
        // Only maps with keys that are not strings can fail, and a run has none; say it rather than panic.
        Err(error) => {
            format!("{{ \"schema\": {SCHEMA}, \"errors\": [\"the run cannot be written: {error}\"] }}\n")
        }
    }
}

/// Reads a file, or `run.json` in a folder.
pub(super) fn read(path: &Path) -> Result<Run, Failure> {
    let file = locate(path)?;
    parse(&bytes_of(&file)?, &file)
}

/// The text of a file; `file` is its name for errors.
pub(super) fn parse(bytes: &[u8], file: &Path) -> Result<Run, Failure> {
    let (text, kind) = checked(bytes, file)?;
    match kind {
        Kind::Run => whole(text, file, "run"),
        Kind::Stage => Err(Failure::Usage(format!(
            "{} is a benchmark of one stage, not a whole run; `linerate report` shows it, `linerate compare` sets it beside others",
            file.display()
        ))),
    }
}

/// What a `run.json` holds: everything that `linerate run` left, or one stage's benchmark.
#[derive(Clone, Debug, PartialEq)]
pub enum SavedRun {
    Run(Box<Run>),
    Stage(Box<StageRun>),
}

/// Reads a file, or `run.json` in a folder, of either kind.
pub(super) fn read_saved(path: &Path) -> Result<SavedRun, Failure> {
    let file = locate(path)?;
    parse_saved(&bytes_of(&file)?, &file)
}

/// The text of a file of either kind.
pub(super) fn parse_saved(bytes: &[u8], file: &Path) -> Result<SavedRun, Failure> {
    let (text, kind) = checked(bytes, file)?;
    Ok(match kind {
        Kind::Run => SavedRun::Run(Box::new(whole(text, file, "run")?)),
        Kind::Stage => SavedRun::Stage(Box::new(whole(text, file, "benchmark")?)),
    })
}

enum Kind {
    Run,
    Stage,
}

/// First as any JSON, so that a syntax error, a foreign file and one of another schema are told apart.
fn checked<'a>(bytes: &'a [u8], file: &Path) -> Result<(&'a str, Kind), Failure> {
    let shown = file.display();
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Failure::Usage(format!("{shown} is not JSON: byte {at} is not UTF-8. Give the {FILE_NAME} of a run"))
    })?;
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| {
        Failure::Usage(format!(
            "{shown} is not JSON: line {}, column {}: {}. It may be cut off or not written by linerate; run `linerate run` again",
            error.line(),
            error.column(),
            reason(&error)
        ))
    })?;
    check_schema(&value, file)?;
    // Only a single stage's file says which stage it is; only a whole run has a goal.
    let stage = value.get("stage").is_some() && value.get("goal").is_none();
    Ok((text, if stage { Kind::Stage } else { Kind::Run }))
}

fn whole<P: DeserializeOwned>(text: &str, file: &Path, what: &str) -> Result<P, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::Usage(format!(
            "{} is JSON of schema {SCHEMA}, but not a whole {what}: line {}, column {}: {}. It may have been edited, or written \
             by another tool; give the {FILE_NAME} that linerate left",
            file.display(),
            error.line(),
            error.column(),
            reason(&error)
        ))
    })
}

/// The file itself, or the run in the folder that was named.
fn locate(path: &Path) -> Result<PathBuf, Failure> {
    let not_there = |path: &Path, error: &std::io::Error| {
        let cause = match error.kind() {
            std::io::ErrorKind::NotFound => "is not there".to_string(),
            std::io::ErrorKind::PermissionDenied => "may not be read: permission denied".to_string(),
            _ => format!("cannot be read: {error}"),
        };
        Failure::Lacks(format!(
            "{} {cause}; give the {FILE_NAME} of a run, or the folder that holds it",
            path.display()
        ))
    };
    let metadata = std::fs::metadata(path).map_err(|error| not_there(path, &error))?;
    if !metadata.is_dir() {
        return regular(path.to_path_buf(), &metadata);
    }
    let inside = path.join(FILE_NAME);
    let metadata = std::fs::metadata(&inside).map_err(|error| not_there(&inside, &error))?;
    regular(inside, &metadata)
}

/// A named pipe would wait for its writer, a device may have no end.
fn regular(file: PathBuf, metadata: &std::fs::Metadata) -> Result<PathBuf, Failure> {
    if metadata.is_file() {
        return Ok(file);
    }
    Err(Failure::Lacks(format!("{} is no regular file; give the {FILE_NAME} of a run", file.display())))
}

fn bytes_of(file: &Path) -> Result<Vec<u8>, Failure> {
    let shown = file.display();
    let failed = |error: std::io::Error| Failure::Lacks(format!("{shown} cannot be read: {error}"));
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).map_err(failed)?;
    opened.take(LARGEST_RUN_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST_RUN_BYTES {
        return Err(Failure::Usage(format!("{shown} is larger than 1 GiB: that is not a {FILE_NAME}")));
    }
    Ok(bytes)
}

fn check_schema(value: &serde_json::Value, file: &Path) -> Result<(), Failure> {
    let shown = file.display();
    let Some(schema) = value.get("schema") else {
        return Err(Failure::Usage(format!(
            "{shown} is JSON, but has no field `schema`: it is not a run of linerate. Give the {FILE_NAME} that `linerate run` left"
        )));
    };
    if schema.as_u64() == Some(u64::from(SCHEMA)) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{shown} has schema {}; this linerate reads schema {SCHEMA}. Use the linerate that wrote it{}",
        brief(&schema.to_string()),
        value
            .get("version")
            .and_then(|v| v.as_str())
            .map(|v| format!(" (version {})", brief(v)))
            .unwrap_or_default()
    )))
}

/// A value of the file within a sentence: it may be a megabyte of anything.
fn brief(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    shortened(&printable(&start), 32)
}

/// serde_json's message without the position that it repeats at its end.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}
