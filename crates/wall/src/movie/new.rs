//! A movie being made: its files are made new, filled in any order, and become a movie with `movie.toml`,
//! which is written last. What is given up before then is removed again, those files alone and no other.

use super::manifest::{MANIFEST_FILE, Manifest, Movie, as_bytes, sums_path};
use crate::geometry::TileId;
use linerate_facts::failure::Failure;
use linerate_facts::units::show_size;
use linerate_system::file::{drop_pages, space_at};
use linerate_system::lock;
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// So much of a file may wait in the page cache: more takes the memory of others, and the disk's turn only
/// comes later.
const MOST_UNWRITTEN_BYTES: u64 = 128 << 20;

/// A movie being made. Frames may be written by several threads.
#[derive(Debug)]
pub struct NewMovie {
    folder: PathBuf,
    manifest: Manifest,
    tiles: Vec<NewTile>,
    created: CreatedPaths,
}

#[derive(Debug)]
struct NewTile {
    id: TileId,
    path: PathBuf,
    file: File,
    sums: Mutex<Vec<u32>>,
    /// Bytes since the last time that the disk had them all.
    unwritten: AtomicU64,
}

/// Files and folders that are removed when this is dropped, unless they are to stay.
#[derive(Debug, Default)]
struct CreatedPaths {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    stays: bool,
}

impl Drop for CreatedPaths {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
        // Only where it is empty: what somebody else put there in the meantime stays.
        for folder in self.folders.iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

impl NewMovie {
    /// Makes the folder and the tiles' files. They lie in the folder, or dealt in turn over `spread`, each
    /// time in a folder with the movie's name. Where the number of frames is known (not 0), the disks must have room
    /// for all.
    pub fn begin(folder: &Path, mut manifest: Manifest, spread: &[PathBuf]) -> Result<NewMovie, Failure> {
        let mut created = CreatedPaths::default();
        make_folder(folder, &mut created)?;
        let folder = folder
            .canonicalize()
            .map_err(|error| Failure::Lacks(format!("{}: {error}; name another folder", folder.display())))?;
        let places = places(&folder, spread, &mut created)?;
        let tiles: Vec<(TileId, &Path)> =
            manifest.grid.tiles().zip(places.iter().map(PathBuf::as_path).cycle()).collect();
        check_space(&manifest, tiles.iter().map(|(_, place)| *place))?;
        let mut open = Vec::new();
        for (id, place) in tiles {
            let path = place.join(format!("{id}.rgb"));
            let file = new_file(&path, &mut created)?;
            if place != folder {
                manifest.files.insert(id, path.clone());
            }
            open.push(NewTile { id, path, file, sums: Mutex::default(), unwritten: AtomicU64::new(0) });
        }
        if manifest.files.values().any(|path| path.to_str().is_none()) {
            return Err(Failure::Usage(
                "--spread: the name of a folder is not UTF-8, and movie.toml can hold no other; name another"
                    .into(),
            ));
        }
        Ok(NewMovie { folder, manifest, tiles: open, created })
    }

    /// What it will be.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Writes frames of the tile with this index in the grid's order, from frame `from` on, with the CRC-32C
    /// of each.
    pub fn write(&self, tile: usize, from: u32, bytes: &[u8], sums: &[u32]) -> Result<(), Failure> {
        let Some(tile) = self.tiles.get(tile) else { return Ok(()) };
        let frame_bytes = self.manifest.tile.frame_bytes() as u64;
        tile.file
            .write_all_at(bytes, u64::from(from) * frame_bytes)
            .map_err(|error| not_written(&tile.path, &error))?;
        let mut kept = lock(&tile.sums);
        let end = from as usize + sums.len();
        if kept.len() < end {
            kept.resize(end, 0);
        }
        kept[from as usize..end].copy_from_slice(sums);
        drop(kept);
        let unwritten = tile.unwritten.fetch_add(bytes.len() as u64, Ordering::Relaxed) + bytes.len() as u64;
        if unwritten > MOST_UNWRITTEN_BYTES {
            tile.unwritten.store(0, Ordering::Relaxed);
            tile.flush()?;
        }
        Ok(())
    }

    /// All frames are written: the sums, then the manifest; from now on it is a movie.
    pub fn finish(mut self, frames: u32) -> Result<Movie, Failure> {
        for tile in &self.tiles {
            tile.flush()?;
            let sums = lock(&tile.sums);
            write_new(&sums_path(&self.folder, tile.id), &as_bytes(&sums), &mut self.created)?;
        }
        self.manifest.frames = frames;
        write_new(&self.folder.join(MANIFEST_FILE), self.manifest.to_toml().as_bytes(), &mut self.created)?;
        self.created.stays = true;
        Ok(Movie { folder: self.folder, manifest: self.manifest })
    }
}

impl NewTile {
    /// The disk has it all, and the page cache need not.
    fn flush(&self) -> Result<(), Failure> {
        self.file.sync_data().map_err(|error| not_written(&self.path, &error))?;
        let _ = drop_pages(&self.file);
        Ok(())
    }
}

/// A folder that is not there yet, or empty: nothing of anybody's is overwritten.
fn make_folder(folder: &Path, created: &mut CreatedPaths) -> Result<(), Failure> {
    let shown = folder.display();
    match DirBuilder::new().mode(0o755).create(folder) {
        Ok(()) => {
            created.folders.push(folder.to_path_buf());
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let entries = std::fs::read_dir(folder).map_err(|error| {
                Failure::Lacks(format!("{shown}: {error}; name a folder that is not there yet"))
            })?;
            match entries.into_iter().next() {
                None => Ok(()),
                Some(_) => Err(Failure::Usage(format!(
                    "{shown} is not empty, and nothing in it is overwritten; name a folder that is not there \
                     yet, or remove this one"
                ))),
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Failure::Lacks(format!(
            "{shown} cannot be made: the folder above it is not there; make it, or check the path"
        ))),
        Err(error) => Err(Failure::Lacks(format!("{shown} cannot be made: {error}; name another folder"))),
    }
}

/// Where tiles go, in turn.
fn places(folder: &Path, spread: &[PathBuf], created: &mut CreatedPaths) -> Result<Vec<PathBuf>, Failure> {
    if spread.is_empty() {
        return Ok(vec![folder.to_path_buf()]);
    }
    let name = folder.file_name().ok_or_else(|| {
        Failure::Usage("--spread needs a movie with a name; / has none: name another folder".into())
    })?;
    let mut places: Vec<PathBuf> = Vec::new();
    for directory in spread {
        let shown = directory.display();
        let real = directory.canonicalize().ok().filter(|real| real.is_dir()).ok_or_else(|| {
            Failure::Lacks(format!(
                "--spread {shown} is not a folder; name one that is there, on the disk that shall hold tiles"
            ))
        })?;
        let place = real.join(name);
        if places.contains(&place) {
            return Err(Failure::Usage(format!("--spread {shown} is named twice; name each folder once")));
        }
        // The movie's own folder has just been made.
        if place != folder {
            make_folder(&place, created)?;
        }
        places.push(place);
    }
    Ok(places)
}

/// Need against have, for each file system.
fn check_space<'a>(manifest: &Manifest, places: impl Iterator<Item = &'a Path>) -> Result<(), Failure> {
    // The sums are beside it: 4 bytes a frame, lost in the rounding of any file system.
    let tile_bytes = (manifest.tile.frame_bytes() as u64).saturating_mul(u64::from(manifest.frames));
    let mut needs: BTreeMap<u64, (u64, &Path)> = BTreeMap::new();
    for place in places {
        let device = std::fs::metadata(place).map_or(0, |metadata| metadata.dev());
        let need = needs.entry(device).or_insert((0, place));
        need.0 = need.0.saturating_add(tile_bytes);
    }
    for (need, place) in needs.into_values() {
        let Ok((have, _)) = space_at(place) else { continue };
        if need > have {
            return Err(Failure::Lacks(format!(
                "{}: the tiles there need {}, and {} are free; make room, take fewer frames, or spread the \
                 tiles over more disks with --spread",
                place.display(),
                show_size(need),
                show_size(have)
            )));
        }
    }
    Ok(())
}

fn new_file(path: &Path, created: &mut CreatedPaths) -> Result<File, Failure> {
    let file = File::options().write(true).create_new(true).open(path).map_err(|error| {
        Failure::Lacks(format!(
            "{} cannot be made: {error}; name a folder that you may write to",
            path.display()
        ))
    })?;
    created.files.push(path.to_path_buf());
    Ok(file)
}

fn write_new(path: &Path, bytes: &[u8], created: &mut CreatedPaths) -> Result<(), Failure> {
    let mut file = new_file(path, created)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written.map_err(|error| not_written(path, &error))
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    let remedy = match error.kind() {
        ErrorKind::StorageFull => "make room, or spread the tiles over more disks with --spread",
        ErrorKind::QuotaExceeded => "ask for a larger quota, or write elsewhere",
        ErrorKind::FileTooLarge => "raise the limit of a file's size (`ulimit -f`), or take fewer frames",
        _ => "check the disk (`dmesg`)",
    };
    Failure::Lacks(format!("{} cannot be written: {error}; {remedy}", path.display()))
}

#[cfg(test)]
mod tests;
