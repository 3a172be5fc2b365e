//! Where the captures of real machines lie. They are not part of this project: a test that needs them is
//! skipped without them.

use super::process::Ends;
use super::rights;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `LINERATE_CAPTURES`, or `../shared/captures` beside the workspace; none, with a message, where there is no
/// such folder.
pub fn captures() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures");
    let place = std::env::var_os("LINERATE_CAPTURES").map_or(beside, PathBuf::from);
    if !place.is_dir() {
        println!("skipped: no captures");
        return None;
    }
    Some(place)
}

/// Unpacks an archive, with more words for `tar`: what of it, or what not. None, with a message, where this machine's
/// `tar` cannot read it.
pub fn unpack(archive: &Path, words: &[&str]) -> Option<tempfile::TempDir> {
    let place = linerate_testing::folder_in_memory();
    // Recorded trees hold read-only directories: without write permission an ordinary user could not fill or
    // remove them.
    let ended = Command::new("tar")
        .args("--extract --no-same-owner --no-same-permissions --mode=u+rwX --wildcards --file".split(' '))
        .arg(archive)
        .arg("--directory")
        .arg(place.path())
        .args(words)
        .ended();
    if !ended.status.success() {
        rights::skipped(&format!("tar cannot unpack {}", archive.display()));
        return None;
    }
    Some(place)
}

/// A `ttar` archive (a tree as one text file, of the Prometheus project) that gzip packed; none, with a message, where
/// there is no gzip.
pub fn unpack_ttar_gz(archive: &Path) -> Option<tempfile::TempDir> {
    if !rights::there("gzip") {
        return None;
    }
    let unpacked =
        Command::new("gzip").args(["--decompress", "--stdout"]).arg(archive).output().expect("gzip");
    let place = linerate_testing::folder_in_memory();
    unpack_ttar(&unpacked.stdout, place.path());
    Some(place)
}

/// `ttar` (a tree as one text file, of the Prometheus project): `Path:`, `SymlinkTo:`, `Directory:`, `Lines:
/// n` and n lines.
pub fn unpack_ttar(archive: &[u8], place: &Path) {
    let text = String::from_utf8_lossy(archive);
    let mut lines = text.lines();
    let mut path = PathBuf::new();
    while let Some(line) = lines.next() {
        let (key, value) = line.split_once(": ").unwrap_or((line, ""));
        match key {
            "Path" => {
                path = place.join(value);
                std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            }
            "Directory" => std::fs::create_dir_all(place.join(value)).expect("a directory"),
            "SymlinkTo" => {
                // An entry that is there twice stays what it was first.
                let _ = std::os::unix::fs::symlink(value, &path);
            }
            "Lines" => {
                let count = value.parse().expect("a number of lines");
                let mut content: String = lines.by_ref().take(count).flat_map(|line| [line, "\n"]).collect();
                if content.ends_with("EOF\n") {
                    content.truncate(content.len() - "EOF\n".len());
                }
                std::fs::write(&path, content.replace("NULLBYTE", "\0")).expect("a file");
            }
            _ => {}
        }
    }
}

/// Files of a folder of the captures with a given ending, in order.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of the captures");
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.to_string_lossy().ends_with(ending));
    found.sort();
    found
}
