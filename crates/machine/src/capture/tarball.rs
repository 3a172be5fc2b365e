//! The tarball of a capture: the same bytes for the same entries, no time and no owner in it.

use super::Capture;
use flate2::{Compression, GzBuilder};
use linerate_facts::sysroot::{Recorded, UNREAD};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

/// Writes the capture as a tarball compressed with gzip.
pub fn write(capture: &Capture, out: impl Write) -> io::Result<()> {
    let gzip = write_tar(&capture.entries, GzBuilder::new().mtime(0).write(out, Compression::best()))?;
    gzip.finish()?.flush()
}

pub(super) fn write_tar<W: Write>(entries: &BTreeMap<PathBuf, Recorded>, out: W) -> io::Result<W> {
    let mut tarball = Builder::new(out);
    let mut unread: BTreeMap<&Path, String> = BTreeMap::new();
    for (path, entry) in entries.iter().filter(|(path, _)| path.file_name().is_some()) {
        match entry {
            Recorded::File(bytes) => file(&mut tarball, path, bytes)?,
            Recorded::Unread(why) => {
                unread.insert(path, why.to_string());
                file(&mut tarball, path, b"")?;
            }
            Recorded::Link(target) => {
                tarball.append_link(&mut header(EntryType::Symlink, 0o777, 0), path, target)?;
            }
            Recorded::Directory => {
                tarball.append_data(&mut header(EntryType::Directory, 0o755, 0), path, io::empty())?;
            }
        }
    }
    let unread = serde_json::to_vec_pretty(&unread)?;
    file(&mut tarball, Path::new(UNREAD), &unread)?;
    tarball.into_inner()
}

fn file<W: Write>(tarball: &mut Builder<W>, path: &Path, bytes: &[u8]) -> io::Result<()> {
    tarball.append_data(&mut header(EntryType::Regular, 0o644, bytes.len() as u64), path, bytes)
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}
