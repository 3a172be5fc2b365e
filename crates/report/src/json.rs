//! `run.json`: written pretty, read back with errors that tell what is wrong with the file. A file of another tool is
//! read as the run that it is. For others to see, the names of other programs are left out: that they were busy stays.

use linerate_facts::counters::ProcessUse;
use linerate_facts::failure::Failure;
use linerate_facts::printable::{printable, shortened};
use linerate_interop as interop;
use linerate_measure::measure::{OthersUse, Stage};
use linerate_measure::run::{Run, SCHEMA};
use serde::Serialize;
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The name inside a result folder.
const FILE_NAME: &str = "run.json";
/// What else is read.
const OTHER_TOOLS: &str = "the JSON of fio or iperf3";

/// A run of 1,000 measurements on 1,000 cores is a tenth of this; more is not a run, and would only cost
/// memory.
const LARGEST_RUN_BYTES: u64 = 1 << 30;
/// linerate's own files begin with their schema.
const HEAD_BYTES: usize = 256;

/// Pretty JSON with a newline at the end.
pub fn write<P: Serialize>(product: &P) -> String {
    match serde_json::to_string_pretty(product) {
        Ok(text) => text + "\n",
        // Only maps with keys that are not strings can fail, and a run has none; say it rather than panic.
        Err(error) => {
            format!("{{ \"schema\": {SCHEMA}, \"errors\": [\"the run cannot be written: {error}\"] }}\n")
        }
    }
}

/// Reads a `run.json`, or the one in a folder, or a result of another tool. The error tells whether it is not there, not JSON (line and column), of
/// another schema, or lacks a field.
pub fn read(path: &Path) -> Result<Run, Failure> {
    let file = locate(path)?;
    parse(&bytes_of(&file)?, &file)
}

/// The text of a file; `file` is its name for errors. It is read as any JSON first, so that a syntax error, a foreign
/// file and one of another schema are told apart.
pub fn parse(bytes: &[u8], file: &Path) -> Result<Run, Failure> {
    let shown = file.display();
    if !is_own(bytes) {
        let foreign = interop::read(bytes).map_err(|error| Failure::Usage(format!("{shown} {error}")))?;
        if let Some(run) = foreign {
            return Ok(run);
        }
    }
    std::str::from_utf8(bytes).map_err(|error| {
        Failure::Usage(format!(
            "{shown} is not JSON: byte {} is not UTF-8. It may be cut off or not written by linerate; run \
             `linerate run` again, or give {OTHER_TOOLS}",
            error.valid_up_to()
        ))
    })?;
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|error| {
        Failure::Usage(format!(
            "{shown} is not JSON: line {}, column {}: {}. It may be cut off or not written by linerate; run \
             `linerate run` again, or give {OTHER_TOOLS}",
            error.line(),
            error.column(),
            without_position(&error)
        ))
    })?;
    check_schema(&value, file)?;
    whole(bytes).map_err(|error| {
        Failure::Usage(format!(
            "{shown} is JSON of schema {SCHEMA}, but not a whole run: line {}, column {}: {}. It may have been edited, or \
             written by another tool; give the {FILE_NAME} that linerate left",
            error.line(),
            error.column(),
            without_position(&error)
        ))
    })
}

/// The fields of a fleet are beside those of every run.
fn whole(bytes: &[u8]) -> Result<Run, serde_json::Error> {
    let mut run: Run = serde_json::from_slice(bytes)?;
    if run.stage == Some(Stage::Fleet) {
        run.fleet = Some(serde_json::from_slice(bytes)?);
    }
    Ok(run)
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
    Err(Failure::Lacks(format!("{} is not a regular file; give the {FILE_NAME} of a run", file.display())))
}

/// All of it; of a file that is not linerate's no more than a result of another tool has.
fn bytes_of(file: &Path) -> Result<Vec<u8>, Failure> {
    let shown = file.display();
    let failed = |error: std::io::Error| Failure::Lacks(format!("{shown} cannot be read: {error}"));
    let mut bytes = Vec::new();
    let mut opened = std::fs::File::open(file).map_err(failed)?;
    opened.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut bytes).map_err(failed)?;
    let (most, what) = match is_own(&bytes) {
        true => (LARGEST_RUN_BYTES, format!("1 GiB: that is not a {FILE_NAME}")),
        false => (interop::LARGEST_BYTES, format!("256 MiB: give a {FILE_NAME}, or less of {OTHER_TOOLS}")),
    };
    let size = opened.metadata().map_err(failed)?.len();
    let left = (most + 1).saturating_sub(bytes.len() as u64);
    if size <= most {
        opened.take(left).read_to_end(&mut bytes).map_err(failed)?;
    }
    if size.max(bytes.len() as u64) > most {
        return Err(Failure::Usage(format!("{shown} is larger than {what}")));
    }
    Ok(bytes)
}

/// By its first field.
fn is_own(bytes: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_BYTES)]);
    head.trim_start().strip_prefix('{').is_some_and(|fields| fields.trim_start().starts_with("\"schema\""))
}

/// Whole JSON that is neither linerate's, with the number of its schema, nor of a tool whose results are read.
pub(super) fn is_of_something_else(file: &Path) -> bool {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: Option<serde_json::Value>,
    }
    let Ok(bytes) = bytes_of(file) else { return false };
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();
    let schema = serde_json::from_slice::<Head>(&bytes).ok().and_then(|head| head.schema);
    is_json && !schema.is_some_and(|schema| schema.is_number()) && matches!(interop::read(&bytes), Ok(None))
}

fn check_schema(value: &serde_json::Value, file: &Path) -> Result<(), Failure> {
    let shown = file.display();
    let Some(schema) = value.get("schema") else {
        return Err(Failure::Usage(format!(
            "{shown} is JSON, but has no field `schema`: it is not a run of linerate. Give the {FILE_NAME} \
             that `linerate run` left, or {OTHER_TOOLS}"
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
pub fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_string(),
        None => text,
    }
}

/// Leaves them out of a run.
pub(super) fn leave_out_programs(run: &mut Value, of: &Run) {
    let others: Vec<&OthersUse> =
        of.measurements.iter().filter_map(|measurement| measurement.others.as_ref()).collect();
    let phrases: Vec<String> = others.iter().flat_map(|others| program_phrases(others)).collect();
    let names: Vec<String> = others
        .iter()
        .flat_map(|others| &others.processes)
        .map(|one| format!("{} (pid {})", one.name, one.pid))
        .collect();
    if names.is_empty() {
        return;
    }
    in_texts(run, &|text| {
        let text = phrases.iter().fold(text.to_string(), |text, phrase| text.replace(phrase, ""));
        names.iter().fold(text, |text, name| text.replace(name, "another program"))
    });
    for measurement in run.get_mut("measurements").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(others) = measurement.get_mut("others") {
            others["processes"] = Value::Array(Vec::new());
        }
    }
}

/// The parts of sentences that name them.
fn program_phrases(others: &OthersUse) -> impl Iterator<Item = String> {
    let takers: [fn(&ProcessUse) -> f64; 2] = [|one| one.cpus, ProcessUse::storage_bytes_per_second];
    let all =
        takers.into_iter().flat_map(|taken| [0.0, f64::INFINITY].map(|total| others.named(total, taken)));
    all.filter(|phrase| !phrase.is_empty()).collect::<Vec<_>>().into_iter()
}

fn in_texts(value: &mut Value, change: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(list) => list.iter_mut().for_each(|value| in_texts(value, change)),
        Value::Object(fields) => fields.values_mut().for_each(|value| in_texts(value, change)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_programs_lose_their_names_and_stay_busy() {
        let program =
            |pid, name: &str, cpus| ProcessUse { pid, name: name.into(), cpus, ..ProcessUse::default() };
        let others = OthersUse {
            processes: vec![program(1673, "canaryd", 0.7), program(9, "canaryctl", 0.2)],
            ..OthersUse::default()
        };
        let (most, among) = (others.named(0.9, |one| one.cpus), others.named(9.0, |one| one.cpus));
        let measurement =
            linerate_measure::measure::Measurement { others: Some(others), ..Default::default() };
        let run =
            Run { measurements: vec![measurement], ..Run::begin(Default::default(), Default::default()) };
        let mut value = serde_json::to_value(&run).expect("JSON");
        value["diagnosis"] = serde_json::json!({
            "sentences": [format!("Other programs used 77 % of CPU 0{most}: 2 GB/s is what was left.")],
            "findings": [{ "text": format!("other programs used 9 % of both CPUs{among}; canaryd (pid 1673)") }],
        });
        leave_out_programs(&mut value, &run);
        let text = value.to_string();
        assert!(!text.contains("canary") && !text.contains("1673"), "{text}");
        assert!(text.contains("Other programs used 77 % of CPU 0: 2 GB/s is what was left."), "{text}");
        assert!(text.contains("other programs used 9 % of both CPUs; another program"), "{text}");
    }
}
