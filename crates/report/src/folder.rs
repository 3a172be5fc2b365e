//! The folder of a run's results: new, beside the current directory or where the user said; `run.json` saved
//! after each step.
//!
//! Only files that it made itself are ever written again: a folder that holds one of its names already is
//! refused.

use super::Comparison;
use linerate_facts::failure::Failure;
use linerate_measure::run::Run;
use linerate_system::file::may_write_in;
use linerate_system::side_file::replace_whole;
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};

/// What a run leaves.
const RUN: &str = "run.json";
const COMPARISON: &str = "compare.json";
const REPORT: &str = "report.html";

/// What a folder can hold: a value that is saved as `run.json` and shown as `report.html`.
pub trait Product: Serialize {
    /// The file that it is saved as.
    const FILE: &'static str = RUN;
    /// RFC 3339, UTC: a folder that the user did not name is called after it.
    fn started(&self) -> &str;
    /// The whole page.
    fn page(&self) -> String;
}

impl Product for Run {
    fn started(&self) -> &str {
        &self.started
    }

    fn page(&self) -> String {
        super::html(self)
    }
}

/// A comparison, and the runs that its plots are made of.
#[derive(Debug, Serialize)]
pub struct Compared<'a> {
    #[serde(flatten)]
    pub comparison: &'a Comparison,
    #[serde(skip)]
    pub runs: &'a [(PathBuf, Run)],
}

impl Product for Compared<'_> {
    const FILE: &'static str = COMPARISON;

    fn started(&self) -> &str {
        self.comparison.runs.first().map_or("", |run| &run.started)
    }

    fn page(&self) -> String {
        super::compare_html(self.comparison, self.runs)
    }
}

/// Where one run is saved.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Whether there is a place for the results, without making anything. `begin` may fail all the same, when
    /// something changed in between or the disk is full.
    pub fn check(named: Option<&Path>) -> Result<(), Failure> {
        let place = named.unwrap_or(Path::new("."));
        if named.is_some() {
            refuse_used(place)?;
        }
        let absolute = std::path::absolute(place).map_err(|error| lacks(place, &error))?;
        let there = absolute.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
        if !there.is_dir() {
            return Err(lacks(place, &io::Error::other(format!("{} is no directory", there.display()))));
        }
        may_write_in(there).map_err(|error| lacks(place, &error))
    }

    /// Makes the folder and saves the first `run.json` in it; a folder that was made in vain goes again.
    pub fn begin<P: Product>(named: Option<&Path>, product: &P) -> Result<Self, Failure> {
        let (path, made) = make(named, product.started())?;
        let folder = Folder(path);
        folder.save(product).inspect_err(|_| {
            if made {
                // Only ever removes an empty one.
                let _ = std::fs::remove_dir(&folder.0);
            }
        })?;
        Ok(folder)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Saves its file so that a reader finds the old one or the new one, never half of one.
    pub fn save<P: Product>(&self, product: &P) -> Result<(), Failure> {
        self.put(P::FILE, &super::json(product))
    }

    /// Saves `report.html`.
    pub fn save_report<P: Product>(&self, product: &P) -> Result<(), Failure> {
        self.put(REPORT, &product.page())
    }

    fn put(&self, name: &str, text: &str) -> Result<(), Failure> {
        replace_whole(&self.0.join(name), text.as_bytes()).map_err(|error| {
            Failure::Lacks(format!(
                "{name} could not be saved in {}: {error}; make room there, or name another folder with \
                 --output DIR",
                self.0.display()
            ))
        })
    }
}

fn lacks(path: &Path, error: &io::Error) -> Failure {
    Failure::Lacks(format!(
        "results cannot be saved in {}: {error}; name a folder that can be written with --output DIR",
        path.display()
    ))
}

/// Wrong use: the folder holds something that we would write over.
fn refuse_used(folder: &Path) -> Result<(), Failure> {
    match [RUN, COMPARISON, REPORT].iter().find(|name| folder.join(name).symlink_metadata().is_ok()) {
        None => Ok(()),
        Some(name) => Err(Failure::Usage(format!(
            "{} holds a run already ({name}); name a new folder with --output DIR",
            folder.display()
        ))),
    }
}

/// The named folder (made where absent), or a new one called after the moment; true: it was made now.
fn make(named: Option<&Path>, started: &str) -> Result<(PathBuf, bool), Failure> {
    if let Some(path) = named {
        refuse_used(path)?;
        let made = !path.exists();
        std::fs::create_dir_all(path).map_err(|error| lacks(path, &error))?;
        return Ok((path.to_path_buf(), made));
    }
    let moment: String = started.chars().filter(char::is_ascii_digit).take(14).collect();
    let (day, time) = moment.split_at(moment.len().min(8));
    for attempt in 0..100 {
        let suffix = if attempt == 0 { String::new() } else { format!("-{attempt}") };
        let path = PathBuf::from(format!("linerate-{day}-{time}{suffix}"));
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok((path, true)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(lacks(&path, &error)),
        }
    }
    Err(Failure::Lacks("a hundred runs in one second: name a folder with --output DIR".into()))
}
