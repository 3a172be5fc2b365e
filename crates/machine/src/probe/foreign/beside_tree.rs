//! Listings that lie beside a recorded `/proc` and `/sys`: the command files of a sosreport.

use super::NamedText;
use linerate_facts::sysroot::Sysroot;
use std::path::Path;

/// Folders of `sos_commands` with what is read here.
const FOLDERS: [&str; 10] =
    ["pci", "hardware", "devices", "networking", "block", "processor", "md", "nvme", "numa", "kernel"];
/// Files of one report: a host of 64 interfaces has some 700 of `ethtool` alone.
const MOST_FILES: usize = 4096;

/// Their names and contents; at the top only where there is no folder of commands, since links to it lie there.
pub(super) fn files(tree: &Sysroot) -> Vec<NamedText> {
    if tree.is_live() {
        return Vec::new();
    }
    let commands = Path::new("/sos_commands");
    let folders: Vec<_> = match tree.is_directory(commands) {
        true => FOLDERS.iter().map(|folder| commands.join(folder)).collect(),
        false => vec![Path::new("/").to_path_buf()],
    };
    let paths = folders.iter().flat_map(|folder| tree.list(folder).into_iter().map(|name| folder.join(name)));
    let files = paths.filter(|path| tree.exists(path) && !tree.is_directory(path)).take(MOST_FILES);
    files
        .filter_map(|path| {
            Some(NamedText { name: path.display().to_string(), bytes: tree.bytes(&path).ok()? })
        })
        .collect()
}
