//! The mount table of this process, `/proc/self/mountinfo`, and which mount a path lies on.
//!
//! Fields: <https://docs.kernel.org/filesystems/proc.html#proc-pid-mountinfo-information-about-mounts>.
//! Recorded trees often hold only `/proc/self/mounts` or `/proc/mounts`, which tell neither the device number
//! nor which mount is on which.

use linerate_facts::sysroot::{Sysroot, Unreadable};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Number of this mount and of the one it is mounted on; only mountinfo has them.
    ids: Option<(u64, u64)>,
    /// `major:minor` of the device; anonymous (`0:…`) for btrfs, networks, memory.
    pub number: Option<String>,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// Mount options, then those of the superblock.
    pub options: String,
    /// File system type.
    pub kind: String,
    /// What is mounted (`/dev/vda`, `host:/export`).
    pub source: String,
}

/// All mounts, in the kernel's order.
pub(crate) fn read(sysroot: &Sysroot) -> Result<Vec<Mount>, Unreadable> {
    match sysroot.text("/proc/self/mountinfo") {
        Ok(text) => Ok(text.lines().filter_map(parse_mountinfo).collect()),
        Err(why) => sysroot
            .text("/proc/self/mounts")
            .or_else(|_| sysroot.text("/proc/mounts"))
            .map(|text| text.lines().filter_map(parse_mounts).collect())
            .map_err(|_| why),
    }
}

/// The mount that an absolute path without symbolic links lies on.
///
/// Walks as the kernel does: from the root mount to the mount on it that the path meets first, and on from
/// there. So a mount that a later one covers is not found, though its mount point may be the longer prefix.
pub(crate) fn covering<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    let Some(mut here) = root_mount(mounts) else { return longest_prefix(mounts, path) };
    // Each step goes one mount deeper; damaged input with a cycle ends here, too.
    for _ in 0..mounts.len() {
        // Of two on the same place with the same parent the later covers the earlier: from the end, the first
        // is taken.
        let met =
            mounts.iter().rev().filter(|mount| mount.is_on(here) && path.starts_with(&mount.mount_point));
        match met.min_by_key(|mount| depth(mount)) {
            Some(nearest) => here = nearest,
            None => break,
        }
    }
    Some(here)
}

impl Mount {
    /// Mounted directly on another one.
    fn is_on(&self, below: &Mount) -> bool {
        matches!((self.ids, below.ids), (Some((id, parent)), Some((other, _))) if parent == other && id != other)
    }
}

fn depth(mount: &Mount) -> usize {
    mount.mount_point.components().count()
}

/// The mount on `/` whose parent is not shown.
fn root_mount(mounts: &[Mount]) -> Option<&Mount> {
    mounts.iter().find(|mount| {
        mount.mount_point == Path::new("/")
            && mount.ids.is_some_and(|(id, parent)| {
                id == parent || !mounts.iter().any(|other| other.ids.is_some_and(|ids| ids.0 == parent))
            })
    })
}

/// Without a tree of mounts (a chroot, `/proc/mounts`): the longest mount point; of equal ones the last.
fn longest_prefix<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    mounts.iter().filter(|mount| path.starts_with(&mount.mount_point)).max_by_key(|mount| depth(mount))
}

/// `36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw,errors=continue`, with any number of fields
/// before the dash.
fn parse_mountinfo(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let id = left.next()?.parse().ok()?;
    let parent = left.next()?.parse().ok()?;
    let number = left.next()?.to_string();
    let _root = left.next()?;
    let mount_point = PathBuf::from(unescape(left.next()?));
    let options = left.next()?;
    let mut right = right.split(' ');
    let kind = unescape(right.next()?);
    let source = unescape(right.next()?);
    let superblock = right.next().unwrap_or("");
    Some(Mount {
        ids: Some((id, parent)),
        number: Some(number),
        mount_point,
        options: merge(options, superblock),
        kind,
        source,
    })
}

/// `/dev/vda / ext4 rw,relatime 0 0`.
fn parse_mounts(line: &str) -> Option<Mount> {
    let mut words = line.split_ascii_whitespace();
    let source = unescape(words.next()?);
    let mount_point = PathBuf::from(unescape(words.next()?));
    let kind = unescape(words.next()?);
    let options = words.next()?.to_string();
    mount_point.is_absolute().then_some(Mount { ids: None, number: None, mount_point, options, kind, source })
}

/// Both lists without the words that are in each (`rw`).
fn merge(mount: &str, superblock: &str) -> String {
    let mut seen = HashSet::new();
    let words = mount.split(',').chain(superblock.split(',')).filter(|word| !word.is_empty());
    words.filter(|word| seen.insert(*word)).collect::<Vec<_>>().join(",")
}

/// The kernel writes blank, tab, newline and backslash as `\040`, `\011`, `\012`, `\134`.
fn unescape(field: &str) -> String {
    let bytes = field.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        let value = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match value {
            Some(byte) => {
                plain.push(byte);
                at += 4;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(text: &str) -> Vec<Mount> {
        text.lines().filter_map(parse_mountinfo).collect()
    }

    fn source_of<'a>(mounts: &'a [Mount], path: &str) -> &'a str {
        covering(mounts, Path::new(path)).map_or("none", |mount| &mount.source)
    }

    #[test]
    fn fields_with_and_without_optional_ones() {
        let mounts = table(
            "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
             42 27 8:17 /sub /srv/my\\040disk\\134x rw shared:1 master:2 - xfs /dev/sdb1 rw,attr2\n\
             rubbish line\n",
        );
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].options, "rw,relatime,discard");
        assert_eq!(mounts[1].mount_point, Path::new("/srv/my disk\\x"));
        assert_eq!((mounts[1].number.as_deref(), mounts[1].kind.as_str()), (Some("8:17"), "xfs"));
        assert_eq!(source_of(&mounts, "/srv/my disk\\x/file"), "/dev/sdb1");
        assert_eq!(source_of(&mounts, "/srv/my disk"), "/dev/vda", "whole components only");
    }

    #[test]
    fn a_later_mount_covers_an_earlier_one() {
        let mounts = table(
            "1 0 8:1 / / rw - ext4 root rw\n\
             2 1 8:2 / /mnt/a rw - ext4 hidden rw\n\
             3 1 8:3 / /mnt rw - ext4 over rw\n\
             4 3 8:4 / /mnt rw - ext4 over-that rw\n\
             5 4 8:5 / /mnt/b rw - ext4 inner rw\n",
        );
        assert_eq!(
            source_of(&mounts, "/mnt/a/file"),
            "over-that",
            "not the hidden one with the longer prefix"
        );
        assert_eq!(source_of(&mounts, "/mnt/b/file"), "inner");
        assert_eq!(source_of(&mounts, "/mntx"), "root");
    }

    #[test]
    fn without_a_tree_the_longest_prefix_counts() {
        let text = "/dev/sda1 / ext4 rw 0 0\n/dev/sdb1 /data xfs rw 0 0\n/dev/sdc1 /data xfs rw 0 0\nshort\n";
        let mounts: Vec<Mount> = text.lines().filter_map(parse_mounts).collect();
        assert_eq!(source_of(&mounts, "/data/file"), "/dev/sdc1", "the later of two on one place");
        assert_eq!(source_of(&mounts, "/"), "/dev/sda1");
        assert_eq!(source_of(&[], "/"), "none");
    }

    #[test]
    fn mounts_that_claim_to_be_on_each_other_end() {
        let mounts = table("1 2 8:1 / / rw - ext4 a rw\n2 1 8:2 / / rw - ext4 b rw\n");
        assert_ne!(source_of(&mounts, "/x"), "none");
        let own_parent = table("1 1 8:1 / / rw - rootfs a rw\n2 1 8:2 / / rw - ext4 b rw\n");
        assert_eq!(source_of(&own_parent, "/x"), "b");
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_left_out(
            line in ".{0,120}",
            fields in proptest::collection::vec("[0-9]{1,3}|/[a-c/]{0,4}|-|\\\\[0-9]{0,3}|8:1", 0..14),
            path in "/[a-c/]{0,6}",
        ) {
            let joined = fields.join(" ");
            let _ = (parse_mountinfo(&line), parse_mounts(&line));
            let mounts: Vec<Mount> = [parse_mountinfo(&joined), parse_mounts(&joined)].into_iter().flatten().collect();
            let _ = covering(&mounts, Path::new(&path));
        }
    }
}
