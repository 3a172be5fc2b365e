//! The folder that a user names for a result: `run.json` saved after each step, and the page.
//!
//! Only files that it made itself are ever written again: a folder that holds one of its names already is
//! refused.

use super::Comparison;
use linerate_facts::failure::Failure;
use linerate_measure::run::Run;
use linerate_system::file::check_writable;
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
    /// The whole page.
    fn page(&self) -> String;
}

impl Product for Run {
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
    pub fn check(place: &Path) -> Result<(), Failure> {
        refuse_used(place)?;
        let absolute = std::path::absolute(place).map_err(|error| lacks(place, &error))?;
        let there = absolute.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
        if !there.is_dir() {
            return Err(lacks(place, &io::Error::other(format!("{} is not a directory", there.display()))));
        }
        check_writable(there).map_err(|error| lacks(place, &error))
    }

    /// Makes the folder and saves the first `run.json` in it; a folder that was made in vain goes again.
    pub fn begin<P: Product>(path: &Path, product: &P) -> Result<Self, Failure> {
        refuse_used(path)?;
        let is_new = !path.exists();
        std::fs::create_dir_all(path).map_err(|error| lacks(path, &error))?;
        let folder = Folder(path.into());
        folder.save(product).inspect_err(|_| {
            if is_new {
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
