//! What somebody may have laid beside a file that is to be fetched: a part and a journal, in any state.

use linerate::deliver::blocks::BlockSum;
use linerate::deliver::get::journal::JournalHead;
use linerate_testing::next;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// What has the name of a side file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedState {
    Ours,
    Absent,
    Writable,
    SecondName,
    Link,
    Fifo,
    Folder,
    OfAnother,
}

impl PlantedState {
    fn random(state: &mut u64) -> Self {
        use PlantedState::*;
        // Half of them are as linerate itself leaves them.
        let others = [Absent, Writable, SecondName, Link, Fifo, Folder, OfAnother];
        let number = next(state) as usize % (2 * others.len());
        others.get(number).copied().unwrap_or(Ours)
    }

    /// It is for nobody but its owner to remove.
    pub fn is_foreign(self) -> bool {
        matches!(
            self,
            PlantedState::Link | PlantedState::Fifo | PlantedState::Folder | PlantedState::OfAnother
        )
    }

    fn lay(self, path: &Path, bytes: &[u8], victim: &Path) {
        match self {
            PlantedState::Absent => {}
            PlantedState::Ours => write(path, bytes, 0o600),
            PlantedState::Writable => write(path, bytes, 0o666),
            PlantedState::SecondName => std::fs::hard_link(victim, path).expect("a second name"),
            PlantedState::Link => symlink(victim, path).expect("a link"),
            PlantedState::Fifo => {
                assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
            }
            PlantedState::Folder => std::fs::create_dir(path).expect("a folder"),
            PlantedState::OfAnother => {
                write(path, bytes, 0o644);
                if !give_away(path) {
                    std::fs::remove_file(path).expect("removed");
                }
            }
        }
    }
}

/// A part and a journal of `out/file` in a random state: `right` is what the server has, `head` is of that file.
pub fn plant_at_random(
    state: &mut u64,
    out: &Path,
    right: &[u8],
    head: &JournalHead,
) -> [(PathBuf, PlantedState); 2] {
    std::fs::create_dir_all(out).expect("a folder");
    clear(out);
    let victim = out.with_file_name("victim");
    assert!(std::fs::read(&victim).map_or(true, |own| own == VICTIM), "harmed before");
    std::fs::write(&victim, VICTIM).expect("written");
    let (part, journal) = (part_of(out), journal_of(out));
    let [of_part, of_journal] = [PlantedState::random(state), PlantedState::random(state)];
    let bytes = part_bytes(state, right);
    of_part.lay(&part, &bytes, &victim);
    let text = journal_text(state, (right, &bytes), head, &part);
    of_journal.lay(&journal, &text, &victim);
    [(part, of_part), (journal, of_journal)]
}

/// Nothing of it is there any more.
pub fn clear(out: &Path) {
    for path in [part_of(out), journal_of(out)] {
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path));
    }
}

fn part_bytes(state: &mut u64, right: &[u8]) -> Vec<u8> {
    let mut bytes = right.to_vec();
    let at = next(state) as usize % right.len();
    match next(state) % 6 {
        0 => {}
        1 => bytes[at] ^= 1,
        2 => bytes.truncate(at),
        3 => bytes.clear(),
        _ => bytes.fill(7),
    }
    bytes
}

fn journal_text(state: &mut u64, (right, own): (&[u8], &[u8]), head: &JournalHead, part: &Path) -> Vec<u8> {
    let mut head = head.clone();
    if let Ok(part) = std::fs::symlink_metadata(part) {
        head = JournalHead {
            url: head.url.clone(),
            hash: head.hash.clone(),
            entity_tag: head.entity_tag.clone(),
            last_modified: head.last_modified.clone(),
            ..JournalHead::new("", (head.bytes, head.block_bytes), (None, None), &part)
        };
    }
    match next(state) % 12 {
        0 => head.part_inode += 1,
        1 => head.part_device += 1,
        2 => head.entity_tag = Some("\"of another file\"".into()),
        3 => head.bytes += 1,
        4 => head.linerate_journal = 1,
        _ => {}
    }
    // Mostly the sums of what is in the part: those are believed.
    let content = if next(state).is_multiple_of(4) { right } else { own };
    let mut text = serde_json::to_string(&head).expect("JSON") + "\n";
    for (number, block) in content.chunks(BLOCK).enumerate() {
        let (mark, number) = match next(state) % 8 {
            0 => ('x', number),
            1 => ('v', number),
            2 => ('?', number),
            3 => ('r', number + 1),
            _ => ('r', number),
        };
        text += &format!("{number:08x} {:016x} {mark}\n", sum_of(block));
    }
    let whole = text.into_bytes();
    let end = if next(state).is_multiple_of(6) { next(state) as usize % whole.len() } else { whole.len() };
    whole[..end].to_vec()
}
