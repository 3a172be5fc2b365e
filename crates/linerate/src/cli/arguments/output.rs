//! How a result is given: as screen, JSON, CSV or in fio's shape on standard output, and saved in a folder.

use super::expect::ExpectArgs;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

/// The options of every benchmark of files.
///
/// `--output` is a folder everywhere in this program. The two formats that other tools read are asked for
/// under that word, too, since that is where those tools have it; a folder that is called like one is written
/// `./csv`.
#[derive(Clone, Debug, Args)]
pub struct OutputArgs {
    /// Print the result as JSON on standard output, and nothing else; short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// What to print on standard output [default: text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<FormatArg>,
    /// Folder for run.json and report.html; made where it is absent [default: not saved]. `csv` and
    /// `fio-json` stand for --format instead
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub keeping: KeepingArgs,
    #[command(flatten)]
    pub expect: ExpectArgs,
}

/// Whether a result is kept for later commands.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct KeepingArgs {
    /// Do not keep the result for `linerate list` and for later commands, which name it @-1
    #[arg(long)]
    pub no_save: bool,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// The screen
    Text,
    /// run.json
    Json,
    /// A line for each measurement
    Csv,
    /// All of it in one line: time, host, command, and what came of it
    Line,
    /// As `fio --output-format=json`, a job for each measurement
    FioJson,
}

impl OutputArgs {
    /// What goes to standard output.
    pub fn format(&self) -> FormatArg {
        match self.asked_by_output() {
            Some(format) => format,
            None if self.json => FormatArg::Json,
            None => self.format.unwrap_or(FormatArg::Text),
        }
    }

    /// Where the result is saved.
    pub fn folder(&self) -> Option<&Path> {
        self.output.as_deref().filter(|_| self.asked_by_output().is_none())
    }

    fn asked_by_output(&self) -> Option<FormatArg> {
        match self.output.as_deref()?.to_str()? {
            "csv" => Some(FormatArg::Csv),
            "fio-json" => Some(FormatArg::FioJson),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(output: Option<&str>, format: Option<FormatArg>, json: bool) -> OutputArgs {
        OutputArgs {
            json,
            format,
            output: output.map(PathBuf::from),
            keeping: KeepingArgs::default(),
            expect: ExpectArgs::default(),
        }
    }

    #[test]
    fn a_format_may_be_asked_for_where_other_tools_have_it() {
        assert_eq!(words(Some("csv"), None, false).format(), FormatArg::Csv);
        assert_eq!(words(Some("fio-json"), None, false).folder(), None);
        assert_eq!(words(Some("./csv"), None, false).folder(), Some(Path::new("./csv")));
        assert_eq!(words(Some("out"), None, true).format(), FormatArg::Json);
        assert_eq!(words(None, Some(FormatArg::FioJson), false).format(), FormatArg::FioJson);
        assert_eq!(words(None, None, false).format(), FormatArg::Text);
    }
}
