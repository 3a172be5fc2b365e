//! The folder of a run's results: new, beside the current directory or where the user said; `run.json` saved after each step.

use crate::failure::Failure;
use crate::run::Run;
use std::io;
use std::path::{Path, PathBuf};

/// Where one run is saved.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The named folder (made where absent), or a new one called after the moment.
    pub fn make(named: Option<&Path>, started: &str) -> Result<Self, Failure> {
        let lacks = |path: &Path, error: &io::Error| {
            Failure::Lacks(format!(
                "results cannot be saved in {}: {error}; name a folder that can be written with --output DIR",
                path.display()
            ))
        };
        if let Some(path) = named {
            std::fs::create_dir_all(path).map_err(|error| lacks(path, &error))?;
            if path.join("run.json").exists() {
                return Err(Failure::Usage(format!(
                    "{} holds a run already; name a new folder with --output DIR",
                    path.display()
                )));
            }
            return Ok(Folder(path.to_path_buf()));
        }
        let moment: String = started.chars().filter(char::is_ascii_digit).take(14).collect();
        let (day, time) = moment.split_at(moment.len().min(8));
        for attempt in 0..100 {
            let suffix = if attempt == 0 { String::new() } else { format!("-{attempt}") };
            let path = PathBuf::from(format!("linerate-{day}-{time}{suffix}"));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(lacks(&path, &error)),
            }
        }
        Err(Failure::Lacks("a hundred runs in one second: name a folder with --output DIR".into()))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Saves `run.json` so that a reader finds the old one or the new one, never half of one.
    pub fn save(&self, run: &Run) -> Result<(), Failure> {
        self.put("run.json", &super::json(run))
    }

    /// Saves `report.html`.
    pub fn save_report(&self, run: &Run) -> Result<(), Failure> {
        self.put("report.html", &super::html(run))
    }

    fn put(&self, name: &str, text: &str) -> Result<(), Failure> {
        let new = self.0.join(format!(".{name}.new"));
        let put = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, self.0.join(name)));
        put.map_err(|error| {
            let _ = std::fs::remove_file(&new);
            Failure::Lacks(format!("{name} could not be saved in {}: {error}", self.0.display()))
        })
    }
}
