//! Where a demo's movie and key lie while it plays.

use crate::cli::output::Output;
use linerate_facts::failure::Failure;
use linerate_facts::units::show_size;
use linerate_system::file::space_at;
use linerate_transport::agent::random;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Names that are tried; one of 64 random bits is hardly ever taken.
const TRIES: usize = 8;

/// A new folder in the one for temporary files, for this user alone; removed, with all that is in it, when
/// this is dropped.
#[derive(Debug)]
pub(super) struct DemoFolder {
    path: PathBuf,
    output: Output,
}

impl DemoFolder {
    /// Makes it where there is room.
    pub(super) fn make(bytes: u64, output: &Output) -> Result<DemoFolder, Failure> {
        let above = std::env::temp_dir();
        let failed = |why: &dyn std::fmt::Display| {
            let above = above.display();
            Failure::Lacks(format!(
                "{above} takes no folder for the movie: {why}; name another in TMPDIR, on a disk with room"
            ))
        };
        let (free, _) = space_at(&above).map_err(|error| failed(&error))?;
        if free < bytes {
            return Err(failed(&format!(
                "it may need {}, and {} are free",
                show_size(bytes),
                show_size(free)
            )));
        }
        for _ in 0..TRIES {
            let name = random::<8>().map_err(|error| failed(&error))?;
            let path = above.join(format!("linerate-demo-{:016x}", u64::from_le_bytes(name)));
            // What is there already, even as a link, is never taken.
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(DemoFolder { path, output: output.clone() }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(&error)),
            }
        }
        Err(failed(&"every name that was tried is taken"))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            let folder = self.path.display();
            self.output.complain(&format!("{folder} is not removed: {error}; remove it"));
        }
    }
}
