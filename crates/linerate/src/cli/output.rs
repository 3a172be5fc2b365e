//! How a benchmark is given: as screen, JSON, CSV or in fio's shape on standard output, and saved in a folder.

use super::commands::print;
use crate::failure::Failure;
use crate::report::{self, Folder};
use crate::run::StageRun;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

/// The options of every benchmark of files.
///
/// `--output` is a folder everywhere in this program. The two formats that other tools read are asked for under that word, too, since
/// that is where those tools have it; a folder that is called like one is written `./csv`.
#[derive(Clone, Debug, Args)]
pub struct OutputWords {
    /// Print the result as JSON on standard output, and nothing else; short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// What to print on standard output [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<FormatWord>,
    /// Folder for run.json and report.html; made where it is absent [default: not saved]. `csv`, `fio-json` and `iperf3-json` stand for --format instead
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatWord {
    /// The screen
    Text,
    /// run.json
    Json,
    /// A line for each measurement
    Csv,
    /// As `fio --output-format=json`, a job for each measurement
    FioJson,
    /// As `iperf3 -J`, a document for each figure of the network
    Iperf3Json,
}

impl OutputWords {
    /// What goes to standard output.
    pub fn format(&self) -> FormatWord {
        match self.asked_by_output() {
            Some(format) => format,
            None if self.json => FormatWord::Json,
            None => self.format.unwrap_or(FormatWord::Text),
        }
    }

    /// Where the result is saved.
    pub fn folder(&self) -> Option<&Path> {
        self.output.as_deref().filter(|_| self.asked_by_output().is_none())
    }

    fn asked_by_output(&self) -> Option<FormatWord> {
        match self.output.as_deref()?.to_str()? {
            "csv" => Some(FormatWord::Csv),
            "fio-json" => Some(FormatWord::FioJson),
            "iperf3-json" => Some(FormatWord::Iperf3Json),
            _ => None,
        }
    }

    /// Prints the result; `screen` is what `text` stands for.
    pub fn print(
        &self,
        run: &StageRun,
        folder: Option<&Folder>,
        screen: impl Fn() -> String,
    ) -> Result<(), Failure> {
        match self.format() {
            FormatWord::Json => print(&report::json(run)),
            FormatWord::Csv => print(&report::stage_csv(run)),
            FormatWord::FioJson => print(&report::stage_fio_json(run)),
            FormatWord::Iperf3Json => print(&report::stage_iperf3_json(run)),
            FormatWord::Text => {
                let saved = folder.map(|folder| folder.path().display().to_string());
                let saved = saved.map(|path| format!("saved: {path}/run.json, {path}/report.html\n"));
                print(&(screen() + &saved.unwrap_or_default()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(output: Option<&str>, format: Option<FormatWord>, json: bool) -> OutputWords {
        OutputWords { json, format, output: output.map(PathBuf::from) }
    }

    #[test]
    fn a_format_may_be_asked_for_where_other_tools_have_it() {
        assert_eq!(words(Some("csv"), None, false).format(), FormatWord::Csv);
        assert_eq!(words(Some("fio-json"), None, false).folder(), None);
        assert_eq!(words(Some("./csv"), None, false).folder(), Some(Path::new("./csv")));
        assert_eq!(words(Some("out"), None, true).format(), FormatWord::Json);
        assert_eq!(words(None, Some(FormatWord::FioJson), false).format(), FormatWord::FioJson);
        assert_eq!(words(None, None, false).format(), FormatWord::Text);
    }
}
