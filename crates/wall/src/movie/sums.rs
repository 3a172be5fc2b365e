//! `r0c0.crc32c`: the CRC-32C of each frame of a tile, 32 bits each, little endian, beside `movie.toml`. By
//! it a screen proves frames that carry no stamp.

use super::Movie;
use crate::geometry::TileId;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const SUM_BYTES: usize = 4;
/// Sums that are read at a time, at most: what asks comes over the network.
const MOST: u32 = 1 << 16;

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
        let count = count.min(frames - from).min(MOST);
        let mut bytes = vec![0; count as usize * SUM_BYTES];
        file.read_exact_at(&mut bytes, u64::from(from) * SUM_BYTES as u64).ok()?;
        let sum = |chunk: &[u8]| chunk.try_into().map_or(0, u32::from_le_bytes);
        Some(bytes.chunks_exact(SUM_BYTES).map(sum).collect())
    }
}
