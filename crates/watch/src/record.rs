//! `--record`: a recording is one line of JSON about itself, then one for each moment, compressed with zstd,
//! a frame for each line. What was written is whole after `kill -9`: at most the last line is cut. `zstdcat
//! FILE` shows it.

use super::model::{Moment, SCHEMA};
use ruzstd::encoding::{CompressionLevel, FrameCompressor};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};

/// The first line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Head {
    pub linerate_watch: About,
}

/// What a recording is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct About {
    /// [`SCHEMA`] of the moments.
    pub schema: u32,
    /// Version of the linerate that recorded it.
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub host: String,
    /// Unix time, milliseconds.
    #[serde(default)]
    pub started_ms: i64,
}

/// Why nothing is recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{}: is there already; name another file, or remove it", path.display())]
    Exists { path: PathBuf },
    #[error("{}: cannot be made: {error}; name a file in a folder that you may write", path.display())]
    NotMade { path: PathBuf, error: io::Error },
    #[error(
        "{}: cannot be written: {error}; what was recorded before is whole and can be replayed",
        path.display()
    )]
    NotWritten { path: PathBuf, error: io::Error },
}

/// Writes one.
pub struct Recorder {
    path: PathBuf,
    file: File,
    compressor: FrameCompressor<Cursor<Vec<u8>>, Vec<u8>, ruzstd::encoding::MatchGeneratorDriver>,
    begun: bool,
}

impl Recorder {
    /// Makes the file; one that is there is not written over.
    pub fn create(path: &Path) -> Result<Self, RecordError> {
        let path = path.to_path_buf();
        let file = match File::options().write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(RecordError::Exists { path });
            }
            Err(error) => return Err(RecordError::NotMade { path, error }),
        };
        let compressor = FrameCompressor::new(CompressionLevel::Fastest);
        Ok(Recorder { path, file, compressor, begun: false })
    }

    /// Adds a moment.
    pub fn write(&mut self, moment: &Moment) -> Result<(), RecordError> {
        if !self.begun {
            let about = About {
                schema: SCHEMA,
                version: env!("CARGO_PKG_VERSION").into(),
                host: moment.host.clone(),
                started_ms: moment.at_ms,
            };
            self.line(&Head { linerate_watch: about })?;
            self.begun = true;
        }
        self.line(moment)
    }

    fn line(&mut self, value: &impl Serialize) -> Result<(), RecordError> {
        self.frame(value).map_err(|error| RecordError::NotWritten { path: self.path.clone(), error })
    }

    fn frame(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.compressor.set_source(Cursor::new(line));
        self.compressor.set_drain(Vec::new());
        self.compressor.compress();
        let frame = self.compressor.take_drain().unwrap_or_default();
        self.file.write_all(&frame)
    }
}
