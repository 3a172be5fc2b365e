//! Symbolic links of a recorded tree, followed inside it.

use super::{UnreadReason, Unreadable};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows (`MAXSYMLINKS`).
const MOST_LINKS: u32 = 40;

/// Walks an absolute path component by component; a link that is absolute or climbs stays within the root.
/// `link` gives what the link at a path points to, `None` where it is no link; paths are given, and returned,
/// without a leading slash.
pub(super) fn resolve(
    absolute: &Path,
    link: impl Fn(&Path) -> Option<PathBuf>,
) -> Result<PathBuf, Unreadable> {
    let mut inside = PathBuf::new();
    let mut pending: Vec<OsString> = components(absolute);
    let mut links = 0;
    while let Some(next) = pending.pop() {
        if next == ".." {
            inside.pop();
            continue;
        }
        inside.push(&next);
        let Some(target) = link(&inside) else { continue };
        links += 1;
        if links > MOST_LINKS {
            return Err(Unreadable::new(absolute, UnreadReason::TooManyLinks));
        }
        inside.pop();
        if target.is_absolute() {
            inside = PathBuf::new();
        }
        pending.extend(components(&target));
    }
    Ok(inside)
}

/// Components of a path, last first, without the root and `.`.
fn components(path: &Path) -> Vec<OsString> {
    let mut parts: Vec<_> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_os_string()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect();
    parts.reverse();
    parts
}
