//! Kept results: every product of a measurement, in the state folder of the user who asked for it, read back
//! by its number.
//!
//! `store` is the folder and its bounds, `reference` is how a result is named on the command line (`@-1`,
//! `@disk-1`, or a file), `earlier` finds what a new result is set beside. `linerate list` has one line for
//! each result, the newest last, next to the prompt.

mod earlier;
mod reference;
mod store;

use crate::document::{self, Block, Table, TableRow, plain};
use crate::figure::Unit;
use crate::grid::{Column, Style, notes, number, text};
use crate::json;
use crate::stage::sentence;
use crate::verdict::verdict;
pub use earlier::{newest_two, read_before, read_of_host, read_quiet_of};
use linerate_facts::printable::printable;
use linerate_facts::wording::counted;
use linerate_measure::run::Run;
use linerate_model::plan::wording::in_words;
use linerate_model::verdict::Verdict;
use reference::parse;
pub use reference::read;
use serde::Serialize;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use store::is_transfer;
pub use store::{KeepError, MOST_BYTES, MOST_RESULTS, MOST_TRANSFERS, ResultStore};

const COLUMNS: [Column; 6] = [
    text("", 0),
    number("no.", 2),
    text("time (UTC)", 0),
    text("host", 1),
    text("command", 0),
    notes("result"),
];

/// What is kept, oldest first.
#[derive(Debug, Serialize)]
pub struct ResultList {
    /// Where they are.
    folder: PathBuf,
    results: Vec<KeptResult>,
    /// Kept as well, and not asked for.
    transfers_left_out: usize,
}

/// Files of a folder that are looked at.
const MOST_FILES: usize = 10_000;

/// One of them.
#[derive(Debug, Serialize)]
struct KeptResult {
    /// What names it on the command line.
    reference: String,
    /// It stays the same while others come and go.
    number: u64,
    bytes: u64,
    /// None where the file is not a result.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    summary: Option<ResultSummary>,
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    damaged: Option<String>,
}

/// What it says.
#[derive(Debug, Serialize)]
struct ResultSummary {
    started: String,
    host: String,
    /// `run`, `disk`, …
    command: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    /// What the whole path carried.
    #[serde(skip_serializing_if = "Option::is_none")]
    achieved_bytes_per_second: Option<f64>,
    /// Ids of the resources that are the bottleneck.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bottleneck: Vec<String>,
    /// What came of it.
    sentence: String,
    /// The same in few words.
    #[serde(skip)]
    short: String,
    /// How much failed along the way.
    errors: usize,
}

impl ResultList {
    /// Reads the user's; transfers only where they are wanted.
    pub fn read(transfers: bool) -> Result<Self, KeepError> {
        Self::of(&ResultStore::of_user()?, transfers)
    }

    fn of(store: &ResultStore, transfers: bool) -> Result<Self, KeepError> {
        let files = store.files()?;
        let mut counts: HashMap<String, usize> = HashMap::new();
        let mut transfers_left_out = 0;
        let result = |file| {
            // The folder is known: the name alone is enough.
            let read = parse(store, file, Path::new(&file.name));
            if !transfers && read.as_ref().is_ok_and(|run| is_transfer(run.stage)) {
                transfers_left_out += 1;
                return None;
            }
            let reference = match &read {
                Ok(run) => {
                    let count = counts.entry(run.command()).or_default();
                    *count += 1;
                    format!("@{}-{count}", run.command())
                }
                Err(_) => format!("@{}", file.number),
            };
            Some(KeptResult {
                reference,
                number: file.number,
                bytes: file.bytes,
                damaged: read.as_ref().err().map(ToString::to_string),
                summary: read.ok().map(|run| summary(&run)),
            })
        };
        let mut results: Vec<KeptResult> = files.iter().rev().filter_map(result).collect();
        results.reverse();
        Ok(ResultList { folder: store.path().into(), results, transfers_left_out })
    }

    /// The results in a folder, in the order of their names: linerate's, in files or in folders of their own, and those of
    /// other tools. What is neither is passed over, JSON of something else too; what seems to be one, and cannot be read, is
    /// damaged.
    pub fn of_folder(folder: &Path, transfers: bool) -> io::Result<Self> {
        let entries = std::fs::read_dir(folder)?.take(MOST_FILES).collect::<io::Result<Vec<_>>>()?;
        let mut paths: Vec<PathBuf> = entries.iter().map(|entry| entry.path()).collect();
        paths.sort();
        let (mut results, mut transfers_left_out) = (Vec::new(), 0);
        for path in paths {
            let read = json::read(&path);
            if !transfers && read.as_ref().is_ok_and(|run| is_transfer(run.stage)) {
                transfers_left_out += 1;
                continue;
            }
            let is_json = path.extension().is_some_and(|kind| kind == "json") && path.is_file();
            let is_named_so = is_json && !json::is_of_something_else(&path) || path.join("run.json").exists();
            if read.is_err() && !is_named_so {
                continue;
            }
            let name = path.strip_prefix(folder).unwrap_or(&path);
            results.push(KeptResult {
                reference: printable(&name.to_string_lossy()),
                number: results.len() as u64 + 1,
                bytes: std::fs::metadata(&path).map_or(0, |metadata| metadata.len()),
                damaged: read.as_ref().err().map(|why| printable(&why.to_string())),
                summary: read.ok().map(|run| summary(&run)),
            });
        }
        Ok(ResultList { folder: folder.into(), results, transfers_left_out })
    }

    /// For programs, a newline at its end.
    pub fn json(&self) -> String {
        json::write(self)
    }

    /// For a terminal, a line each; a newline at its end. `linerate report` has the whole sentence.
    pub fn screen(&self, width: usize, colour: bool) -> String {
        let style = Style::of(width, colour);
        let left_out = counted(self.transfers_left_out, "transfer");
        let left_out = format!("{left_out} not shown: `linerate list --all`");
        let left_out = (self.transfers_left_out > 0).then(|| Block::Text(plain(left_out)));
        let shown = match self.results.is_empty() {
            true => Block::Text(plain(format!("No result is kept in {}.", self.folder.display()))),
            false => Block::Table(Table::new(COLUMNS, self.results.iter().map(KeptResult::row))),
        };
        let blocks: Vec<Block> = std::iter::once(shown).chain(left_out).collect();
        // A narrower terminal wraps a line; without its result it would say nothing.
        document::lines(&blocks, width.max(60), style).join("\n") + "\n"
    }
}

impl KeptResult {
    /// With what came of it.
    fn row(&self) -> TableRow {
        let number = self.number.to_string();
        let (about, said) = match &self.summary {
            // 2026-11-23T03:08:02Z
            Some(summary @ ResultSummary { started, host, command, .. }) => {
                let time = started.chars().take(16).collect::<String>().replace('T', " ");
                ([time, host.clone(), command.clone()], summary.in_words(&summary.short))
            }
            None => (["–"; 3].map(String::from), self.damaged.clone().unwrap_or_default()),
        };
        TableRow::of([self.reference.clone(), number].into_iter().chain(about).chain([said]))
    }
}

impl ResultSummary {
    fn in_words(&self, result: &str) -> String {
        let name = Some(&self.name).filter(|name| !name.is_empty() && **name != self.command);
        let name = name.map(|name| format!("{name}: ")).unwrap_or_default();
        let partial = if self.errors > 0 { " Partial: something failed." } else { "" };
        printable(&format!("{name}{result}{partial}"))
    }
}

/// A result in one line, for a log: when, where, what, and what came of it. Ends with a newline.
pub fn line(run: &Run) -> String {
    let summary = summary(run);
    let head = format!("{} {} {}", summary.started, summary.host, summary.command);
    format!("{} {}\n", printable(&head), summary.in_words(&summary.sentence))
}

fn summary(run: &Run) -> ResultSummary {
    let bottleneck = run.bottleneck();
    let (achieved, sentence, short) = match run.stage {
        Some(_) => {
            let sentence = sentence(run);
            let first = sentence.split(". ").next().unwrap_or_default().trim_end_matches('.').to_string();
            (None, sentence, first)
        }
        None => {
            let verdict = verdict(run);
            let short = short(run).unwrap_or_else(|| verdict.bottleneck.clone());
            (verdict.achieved.value, verdict.in_words(), short)
        }
    };
    ResultSummary {
        started: run.started.clone(),
        host: run.host.clone(),
        command: run.command(),
        name: run.name.clone(),
        achieved_bytes_per_second: achieved,
        bottleneck: bottleneck.map(|found| found.resources.clone()).unwrap_or_default(),
        sentence,
        short,
        errors: run.errors.len(),
    }
}

/// What a whole path reached, what limited it, and how sure that is; none without a diagnosis.
fn short(run: &Run) -> Option<String> {
    let diagnosis = run.diagnosis.as_ref()?;
    let rate = Unit::Bytes
        .show(diagnosis.achieved.filter(|achieved| achieved.bytes_per_second > 0.0)?.bytes_per_second);
    let ids = diagnosis.bottleneck.iter().flat_map(|found| &found.resources).map(String::as_str);
    let ids: Vec<&str> = ids.collect();
    let limit = match (diagnosis.verdict.unwrap_or_default(), in_words(&ids)) {
        (_, names) if names.is_empty() => "limit unknown".into(),
        (Verdict::Confirmed, names) => format!("limited by {names}"),
        (Verdict::Tie, names) => format!("limited by {names}, not told apart"),
        (_, names) => format!("perhaps limited by {names}, not confirmed"),
    };
    Some(format!("{rate}, {limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::store::testing::store;

    fn sample(name: &str) -> Run {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
        json::read(&path).expect("a sample run")
    }

    fn list() -> (tempfile::TempDir, ResultList) {
        let (state, store) = store(9);
        for name in ["run-lab-disks.json", "stage-disk-btrfs.json", "stage-memory.json", "run-partial.json"] {
            store.keep(&sample(name)).expect("kept");
        }
        std::fs::write(store.path().join("000005.json"), "\u{1b}[2J").expect("a damaged file");
        let list = ResultList::of(&store, false).expect("a list");
        (state, list)
    }

    #[test]
    fn each_has_one_line() {
        let (_state, list) = list();
        insta::assert_snapshot!(list.screen(110, false), @r"
                   no.  time (UTC)        host        command  result
        @run-2       1  2026-03-01 09:30  lab-server  run      197 MB/s, limited by disks loop0–loop3
        @disk-1      2  2026-03-01 12:00  lab-server  disk     btrfs-raid0: The most was 796 MB/s: sequential read, 8…
        @memory-1    3  2026-03-01 12:00  lab-server  memory   Memory: read 17.6 GB/s, copy 13.4 GB/s; one access tak…
        @run-1       4  2026-03-01 09:30  lab-server  run      8 measurements were taken; there is no diagnosis. Part…
        @5           5  –                 –           –        000005.json is not JSON: line 1, column 1: expected va…
        ");
        let narrow = list.screen(60, false);
        assert!(narrow.lines().count() == 6 && narrow.contains("197 MB/s, limited by"), "{narrow}");
        assert!(!list.screen(100, false).contains('\u{1b}'));
    }

    #[test]
    fn a_result_in_one_line_for_a_log() {
        insta::assert_snapshot!(line(&sample("stage-memory.json")), @"2026-03-01T12:00:00Z lab-server memory Memory: read 17.6 GB/s, copy 13.4 GB/s; one access takes 96 ns.");
        assert_eq!(line(&sample("run-partial.json")).lines().count(), 1);
    }

    #[test]
    fn programs_read_the_same() {
        let (_state, list) = list();
        let value: serde_json::Value = serde_json::from_str(&list.json()).expect("JSON");
        let results = value["results"].as_array().expect("results");
        let of = |key: &str| results.iter().map(|result| result[key].clone()).collect::<Vec<_>>();
        assert_eq!(of("reference"), ["@run-2", "@disk-1", "@memory-1", "@run-1", "@5"]);
        assert_eq!(of("number"), [1, 2, 3, 4, 5]);
        assert_eq!(results[0]["command"], "run");
        assert!(results[0]["achieved_bytes_per_second"].as_f64().is_some_and(|rate| rate > 0.0));
        assert!(results[0]["bottleneck"].as_array().is_some_and(|ids| !ids.is_empty()), "{}", results[0]);
        assert!(results[4]["damaged"].is_string() && results[4]["sentence"].is_null());
    }

    #[test]
    fn a_damaged_result_of_a_folder_is_listed_and_what_is_none_is_passed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("run")).expect("a folder");
        for (name, text) in [
            ("cut.json", "{"),
            ("edited.json", r#"{ "schema": 2 }"#),
            ("no-job.json", r#"{ "fio version": "fio-3.33", "jobs": [] }"#),
            ("package.json", r#"{ "name": "x", "schema": "y" }"#),
            ("list.json", "[1, 2]"),
            ("run/run.json", ""),
            ("notes.txt", "mine"),
        ] {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        let list = ResultList::of_folder(folder.path(), false).expect("a list");
        let listed = list.results.iter().map(|one| (one.reference.as_str(), one.damaged.is_some()));
        let damaged = ["cut.json", "edited.json", "no-job.json", "run"];
        assert_eq!(listed.collect::<Vec<_>>(), damaged.map(|name| (name, true)));
    }

    #[test]
    fn transfers_are_counted_and_listed_on_demand() {
        let (_state, store) = store(9);
        let mut transfer = sample("stage-memory.json");
        store.keep(&transfer).expect("kept");
        transfer.stage = Some(linerate_measure::measure::Stage::Get);
        store.keep(&transfer).expect("kept");
        let of = |transfers| ResultList::of(&store, transfers).expect("a list");
        let references = |list: &ResultList| {
            list.results.iter().map(|result| result.reference.clone()).collect::<Vec<_>>()
        };
        assert_eq!(references(&of(false)), ["@memory-1"]);
        assert_eq!(references(&of(true)), ["@memory-1", "@get-1"]);
        assert!(of(false).screen(80, false).ends_with("1 transfer not shown: `linerate list --all`\n"));
        assert!(!of(true).screen(80, false).contains("not shown"));
    }
}
