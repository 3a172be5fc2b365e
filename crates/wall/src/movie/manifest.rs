//! `movie.toml`: what a movie is, and where its tiles lie.
//!
//! Beside it lie files such as `r0c0.crc32c`: the CRC-32C of each frame of a tile, 32 bits each, little
//! endian. By it a screen proves frames that carry no stamp.

use crate::geometry::{FrameRate, Size, TileId, WallGrid};
use linerate_facts::failure::Failure;
use linerate_system::file::open_to_read;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The file that makes a folder a movie.
pub(crate) const MANIFEST_FILE: &str = "movie.toml";
/// The version of this format.
pub const FORMAT: u32 = 1;
/// A manifest that names 4,096 paths is smaller.
const LARGEST_BYTES: u64 = 4 << 20;

/// How a pixel is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PixelFormat {
    /// Red, green, blue, a byte each.
    #[default]
    Rgb8,
}

/// `movie.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of this format.
    pub format: u32,
    /// Tiles of the movie.
    pub grid: WallGrid,
    /// Pixels of each tile.
    pub tile: Size,
    /// How a pixel is stored.
    pub pixels: PixelFormat,
    /// Frames a second.
    pub frames_per_second: FrameRate,
    /// Frames.
    pub frames: u32,
    /// Each frame carries its number, its tile and a checksum in its pixels, so that a screen can prove it.
    #[serde(default)]
    pub stamped: bool,
    /// Where a tile's file lies if not beside `movie.toml` as `r0c0.rgb`: relative to the folder, or
    /// absolute.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<TileId, PathBuf>,
}

/// What is wrong with a `movie.toml`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error("{}{message}", line.map_or(String::new(), |line| format!("line {line}: ")))]
    Toml { line: Option<usize>, message: String },
    #[error("format {0} is of a newer linerate; this one reads format {FORMAT}")]
    Format(u32),
    #[error("a movie of no frames: make it again")]
    NoFrames,
    #[error("[files] names {tile}, and the grid of {grid} has no such tile")]
    NotOnGrid { tile: TileId, grid: WallGrid },
    #[error("[files] names no file for {0}: write its path, or leave the line out")]
    NoFile(TileId),
}

/// A movie that was opened: its folder and what stands in its manifest.
#[derive(Clone, Debug)]
pub struct Movie {
    pub folder: PathBuf,
    pub manifest: Manifest,
}

/// The first thing that is read: what else stands there may be of a later format.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

impl Manifest {
    /// Reads the text of `movie.toml`.
    pub fn parse(text: &str) -> Result<Manifest, ManifestError> {
        let wrong = |error: toml::de::Error| ManifestError::Toml {
            line: error.span().map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count()),
            message: error.message().replace('\n', " "),
        };
        let version: Version = toml::from_str(text).map_err(wrong)?;
        if version.format != FORMAT {
            return Err(ManifestError::Format(version.format));
        }
        let manifest: Manifest = toml::from_str(text).map_err(wrong)?;
        if manifest.frames == 0 {
            return Err(ManifestError::NoFrames);
        }
        if let Some(tile) = manifest.files.keys().find(|tile| !manifest.grid.holds(**tile)) {
            return Err(ManifestError::NotOnGrid { tile: *tile, grid: manifest.grid });
        }
        if let Some((tile, _)) = manifest.files.iter().find(|(_, path)| path.as_os_str().is_empty()) {
            return Err(ManifestError::NoFile(*tile));
        }
        Ok(manifest)
    }

    /// The text of `movie.toml`.
    pub fn to_toml(&self) -> String {
        let Manifest { format, grid, tile, frames_per_second, frames, stamped, .. } = self;
        let pixels = match self.pixels {
            PixelFormat::Rgb8 => "rgb8",
        };
        let mut text = format!(
            "# A movie of linerate: columns x rows of tiles, each a file of raw frames (8-bit RGB), end to \
             end.\n\
             format = {format}\ngrid = \"{grid}\"\ntile = \"{tile}\"\npixels = \"{pixels}\"\n\
             frames_per_second = \"{frames_per_second}\"\nframes = {frames}\nstamped = {stamped}\n"
        );
        if !self.files.is_empty() {
            text += "\n[files]\n";
        }
        for (tile, path) in &self.files {
            text += &format!("{tile} = {}\n", quoted(&path.to_string_lossy()));
        }
        text
    }
}

/// A basic string of TOML: control characters, quotes and backslashes are escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            other if other.is_control() => quoted += &format!("\\u{:04x}", u32::from(other)),
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

impl Movie {
    /// Reads `movie.toml`; the tiles' files are looked at by [`Movie::problem_of`].
    pub fn open(folder: &Path) -> Result<Movie, Failure> {
        let path = folder.join(MANIFEST_FILE);
        let lacks = |why: String| {
            Failure::Lacks(format!(
                "movie {}: {MANIFEST_FILE} cannot be read: {why}; name a folder that `linerate wall \
                 generate` or `import` made",
                folder.display()
            ))
        };
        let mut text = String::new();
        // Only a regular file: opening a FIFO would wait for its writer.
        let opened = open_to_read(&path, false).map_err(|error| lacks(error.to_string()))?;
        let metadata = opened.metadata().map_err(|error| lacks(error.to_string()))?;
        if !metadata.is_file() {
            return Err(lacks("it is not a regular file".into()));
        }
        opened.take(LARGEST_BYTES + 1).read_to_string(&mut text).map_err(|error| lacks(error.to_string()))?;
        if text.len() as u64 > LARGEST_BYTES {
            return Err(lacks("it is larger than 4 MiB".into()));
        }
        let manifest =
            Manifest::parse(&text).map_err(|why| Failure::Lacks(format!("{}: {why}", path.display())))?;
        Ok(Movie { folder: folder.to_path_buf(), manifest })
    }

    /// The folder's name, by which people call the movie.
    pub fn name(&self) -> String {
        let absolute = self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone());
        absolute.file_name().unwrap_or(self.folder.as_os_str()).to_string_lossy().into_owned()
    }

    /// The file of a tile.
    pub fn tile_path(&self, tile: TileId) -> PathBuf {
        match self.manifest.files.get(&tile) {
            Some(path) => self.folder.join(path),
            None => self.folder.join(format!("{tile}.rgb")),
        }
    }

    /// Pixels of the whole picture.
    pub fn size(&self) -> Size {
        self.manifest.grid.pixels(self.manifest.tile)
    }

    /// What is wrong with each tile's file that has something wrong.
    pub fn problems(&self) -> Vec<String> {
        self.manifest.grid.tiles().filter_map(|tile| self.problem_of(tile)).collect()
    }

    /// What is wrong with a tile's file: absent, short, or not a whole number of frames. The other tiles can
    /// be played all the same.
    pub(crate) fn problem_of(&self, tile: TileId) -> Option<String> {
        let path = self.tile_path(tile);
        let tile_problem = |what: String| Some(format!("tile {tile}: {}: {what}", path.display()));
        let metadata = match std::fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) => {
                return tile_problem(format!(
                    "cannot be read: {error}; copy it there, or say under [files] of {MANIFEST_FILE} where \
                     it is"
                ));
            }
        };
        let frame = self.manifest.tile.frame_bytes() as u64;
        let wanted = frame * u64::from(self.manifest.frames);
        match metadata.len() {
            _ if !metadata.is_file() => tile_problem("no regular file".into()),
            bytes if bytes % frame != 0 => tile_problem(format!(
                "{bytes} bytes are not a whole number of frames of {frame} bytes: was its copy cut short, or \
                 is the tile's size in {MANIFEST_FILE} wrong?"
            )),
            bytes if bytes < wanted => tile_problem(format!(
                "only {} of {} frames are there; the copy is not complete, or {MANIFEST_FILE} says too many",
                bytes / frame,
                self.manifest.frames
            )),
            _ => None,
        }
    }
}

const SUM_BYTES: usize = 4;
/// Sums that are read at a time, at most: what asks comes over the network.
const MOST_SUMS: u32 = 1 << 16;

/// The file of a tile's sums.
pub(super) fn sums_path(folder: &Path, tile: TileId) -> PathBuf {
    folder.join(format!("{tile}.crc32c"))
}

/// Sums as they stand in the file.
pub(super) fn as_bytes(sums: &[u32]) -> Vec<u8> {
    sums.iter().flat_map(|sum| sum.to_le_bytes()).collect()
}

impl Movie {
    /// CRC-32C of the frames `from` to `from + count` of a tile (at most 65,536 of them), fewer where the
    /// movie ends before; empty where the folder has none, or where the file is not of this movie's length.
    pub fn sums(&self, tile: TileId, from: u32, count: u32) -> Vec<u32> {
        self.read_sums(tile, from, count).unwrap_or_default()
    }

    fn read_sums(&self, tile: TileId, from: u32, count: u32) -> Option<Vec<u32>> {
        let frames = self.manifest.frames;
        if !self.manifest.grid.holds(tile) || from >= frames {
            return None;
        }
        let file = File::open(sums_path(&self.folder, tile)).ok()?;
        let length = file.metadata().ok().filter(|metadata| metadata.is_file())?.len();
        if length != u64::from(frames) * SUM_BYTES as u64 {
            return None;
        }
        let count = count.min(frames - from).min(MOST_SUMS);
        let mut bytes = vec![0; count as usize * SUM_BYTES];
        file.read_exact_at(&mut bytes, u64::from(from) * SUM_BYTES as u64).ok()?;
        let sum = |chunk: &[u8]| chunk.try_into().map_or(0, u32::from_le_bytes);
        Some(bytes.chunks_exact(SUM_BYTES).map(sum).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: &str = "format = 1\ngrid = \"2x1\"\ntile = \"4x2\"\npixels = \"rgb8\"\nframes_per_second = \
                         \"24\"\nframes = 2\n";

    #[test]
    fn what_is_wrong_with_a_manifest_is_said_with_its_line() {
        let wrong = |text: &str| Manifest::parse(text).expect_err("refused").to_string();
        assert!(Manifest::parse(SMALL).is_ok());
        for (from, to, says) in [
            ("format = 1", "format = 2\nnews = true", "format 2"),
            ("frames = 2", "frames = 0", "no frames"),
            ("frames = 2", "frames = -1", "line 6"),
            ("frames = 2", "frames = 2\nframe = 3", "unknown field"),
            ("2x1", "2x0", "line 2: “2x0” is not a grid"),
            ("frames = 2", "frames = 2\n[files]\nr1c0 = \"a\"", "names r1c0, and the grid of 2x1"),
            ("frames = 2", "frames = 2\n[files]\nr0c0 = \"\"", "no file for r0c0"),
            ("frames = 2", "frames = 2\n[files]\nc0 = \"a\"", "is not a tile"),
            ("frames = 2\n", "", "missing field `frames`"),
            ("rgb8", "yuv", "line 4"),
        ] {
            let said = wrong(&SMALL.replace(from, to));
            assert!(said.contains(says), "{to}: {said}");
        }
    }

    #[test]
    fn what_is_wrong_with_files_is_said_of_each_tile() {
        let directory = tempfile::tempdir().expect("a folder");
        let folder = directory.path();
        let no_movie = Movie::open(folder).expect_err("no movie").to_string();
        assert!(no_movie.contains("movie.toml cannot be read"), "{no_movie}");
        std::fs::write(folder.join(MANIFEST_FILE), SMALL).expect("a manifest");
        let movie = Movie::open(folder).expect("a movie");
        assert_eq!(movie.problems().len(), 2);
        std::fs::write(folder.join("r0c0.rgb"), [0; 48]).expect("a tile");
        for (bytes, says) in [(47, "whole number of frames"), (24, "only 1 of 2"), (72, "")] {
            std::fs::write(folder.join("r0c1.rgb"), vec![0; bytes]).expect("a tile");
            let problems = movie.problems();
            assert_eq!(problems.len(), usize::from(!says.is_empty()), "{problems:?}");
            assert!(problems.iter().all(|problem| problem.contains(says) && problem.contains("r0c1")));
        }
        std::fs::remove_file(folder.join("r0c0.rgb")).expect("removed");
        std::fs::create_dir(folder.join("r0c0.rgb")).expect("a folder");
        assert!(movie.problems()[0].contains("no regular file"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,200}") {
            let _ = Manifest::parse(&text);
            let _ = Manifest::parse(&format!("{SMALL}{text}"));
        }

        #[test]
        fn damaged_manifests_are_read_or_refused(at in 0..SMALL.len(), by in "\\PC{0,3}") {
            let mut text = SMALL.to_string();
            text.replace_range(at..=at, &by);
            let _ = Manifest::parse(&text);
        }

        #[test]
        fn what_is_written_is_read(
            (columns, rows) in (1u16..=64, 1u16..=64), (width, height) in (1u32..=32_768, 1u32..=32_768),
            numerator in 1u32..=1000, frames in 1u32.., stamped: bool, path in "[^\u{0}]{1,20}",
        ) {
            let files = BTreeMap::from([(TileId { row: rows - 1, column: columns - 1 }, PathBuf::from(path))]);
            let manifest = Manifest {
                format: FORMAT,
                grid: WallGrid { columns, rows },
                tile: Size { width, height },
                pixels: PixelFormat::Rgb8,
                frames_per_second: FrameRate { numerator, denominator: 1 },
                frames,
                stamped,
                files,
            };
            prop_assert_eq!(Manifest::parse(&manifest.to_toml()), Ok(manifest));
        }
    }
}
