//! What somebody may have laid beside a file that is to be fetched: a part and a journal.

use linerate::deliver::blocks::BlockSum;
use linerate::deliver::get::journal::JournalHead;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

pub const BLOCK: usize = 4 << 20;
/// What a link or a second name leads to.
pub const VICTIM: &[u8] = b"victim";

pub fn part_of(out: &Path) -> PathBuf {
    out.join(".file.linerate-part")
}

pub fn journal_of(out: &Path) -> PathBuf {
    out.join(".file.linerate-journal")
}

/// For this part, of a file as a server says that it is.
pub fn head(url: &str, bytes: usize, tags: (Option<&str>, Option<&str>), part: &Path) -> JournalHead {
    let part = std::fs::symlink_metadata(part).expect("a part");
    JournalHead::new(url, (bytes as u64, BLOCK as u64), tags, &part)
}

/// A journal that has all blocks of this content.
pub fn journal(head: &JournalHead, content: &[u8], mark: char) -> String {
    let line = |(number, block): (usize, &[u8])| format!("{number:08x} {:016x} {mark}\n", sum_of(block));
    let lines: String = content.chunks(BLOCK).enumerate().map(line).collect();
    serde_json::to_string(head).expect("JSON") + "\n" + &lines
}

/// A part with this content, and a journal that is bound to it and has all of its blocks.
pub fn plant(out: &Path, url: &str, tags: (Option<&str>, Option<&str>), content: &[u8], mark: char) {
    std::fs::create_dir_all(out).expect("a folder");
    write(&part_of(out), content, 0o600);
    let head = head(url, content.len(), tags, &part_of(out));
    write(&journal_of(out), journal(&head, content, mark).as_bytes(), 0o600);
}

fn sum_of(block: &[u8]) -> u64 {
    let mut sum = BlockSum::begin();
    sum.add(block);
    sum.end()
}

fn write(path: &Path, bytes: &[u8], mode: u32) {
    std::fs::write(path, bytes).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("a mode");
}

/// Gives it to another user; false: only root can.
pub fn give_away(path: &Path) -> bool {
    chown(path, Some(65_534), Some(65_534)).is_ok()
}

/// Nothing of it is there any more.
pub fn clear(out: &Path) {
    for path in [part_of(out), journal_of(out)] {
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path));
    }
}
