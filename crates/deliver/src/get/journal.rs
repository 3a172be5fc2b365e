//! What of a file is here already. Of a part by the journal beside it: one line for the file and the part, then one for
//! each block that was written, with its sum. The next start reads the blocks again and keeps only those whose
//! sums are right: so nothing has to reach the disk in any order. What it keeps is compared with the server's
//! sums like all that comes, for a journal proves nothing about its server. Of a file in whose place another is
//! to come by the server's sums.

use crate::blocks::{BlockSum, HASH, block_length, parse_sum};
use crate::s3::BlockSums;
use linerate_system::buffers::Pool;
use linerate_system::side_file::{OldSideFile, SideFileError, make, open_old, remove};
use linerate_system::stop::Stop;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Bytes of a block's line: `0000002a 78af5f94892f3950 r`.
const LINE_BYTES: usize = 28;
/// The longest first line.
const MOST_FIRST_BYTES: usize = 64 << 10;
/// The version of this format.
const VERSION: u32 = 2;
/// Bytes of a read of what is here already.
const CHECK_BYTES: usize = 1 << 20;

/// What the part is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalHead {
    pub linerate_journal: u32,
    pub hash: String,
    /// Where it comes from; another server may go on with it, as long as its file is the same.
    pub url: String,
    pub bytes: u64,
    pub block_bytes: u64,
    pub entity_tag: Option<String>,
    pub last_modified: Option<String>,
    /// The part that its blocks are in: another file of the same name is none of it.
    pub part_device: u64,
    pub part_inode: u64,
}

/// How far a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockMark {
    /// It came, and was written.
    Received,
    /// It was wrong, and has to come again.
    Void,
}

/// What a journal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalContent {
    pub head: JournalHead,
    /// Sums of blocks that are not void.
    pub blocks: BTreeMap<u64, u64>,
    /// Bytes of the lines that are whole.
    whole_bytes: u64,
}

impl JournalHead {
    /// Of a file that begins to be fetched.
    pub fn new(
        url: &str,
        (bytes, block_bytes): (u64, u64),
        (tag, modified): (Option<&str>, Option<&str>),
        part: &Metadata,
    ) -> Self {
        JournalHead {
            linerate_journal: VERSION,
            hash: HASH.into(),
            url: url.into(),
            bytes,
            block_bytes,
            entity_tag: tag.map(String::from),
            last_modified: modified.map(String::from),
            part_device: part.dev(),
            part_inode: part.ino(),
        }
    }

    /// The same content, of the same length, and by what the servers say of it; in the same part.
    pub fn is_of_same_file(&self, other: &JournalHead) -> bool {
        #[cfg(test)]
        planted!(OtherContent, return (self.bytes, self.block_bytes) == (other.bytes, other.block_bytes));
        let known = self.entity_tag.is_some() || self.last_modified.is_some();
        known
            && JournalHead { url: String::new(), ..self.clone() }
                == JournalHead { url: String::new(), ..other.clone() }
    }
}

impl JournalContent {
    /// Reads what is whole of a journal; none where not even its head is.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.iter().take(MOST_FIRST_BYTES).position(|byte| *byte == b'\n')?;
        let head: JournalHead = serde_json::from_slice(&bytes[..end]).ok()?;
        let sound = head.linerate_journal == VERSION && head.hash == HASH && head.block_bytes > 0;
        let count = head.bytes.div_ceil(head.block_bytes.max(1));
        let mut blocks = BTreeMap::new();
        let lines = bytes[end + 1..].chunks_exact(LINE_BYTES);
        let whole_bytes = (end + 1 + lines.len() * LINE_BYTES) as u64;
        for (block, sum, mark) in lines.filter_map(parse_line).filter(|(block, ..)| *block < count) {
            match mark {
                BlockMark::Void => drop(blocks.remove(&block)),
                BlockMark::Received => drop(blocks.insert(block, sum)),
            }
        }
        sound.then_some(JournalContent { head, blocks, whole_bytes })
    }
}

fn parse_line(line: &[u8]) -> Option<(u64, u64, BlockMark)> {
    let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    let (block, rest) = line.split_once(' ')?;
    let (sum, mark) = rest.split_once(' ')?;
    let digits = block.len() == 8 && block.bytes().all(|byte| byte.is_ascii_hexdigit());
    let block = digits.then(|| u64::from_str_radix(block, 16).ok()).flatten()?;
    let mark = match mark {
        "r" => BlockMark::Received,
        "x" => BlockMark::Void,
        _ => return None,
    };
    Some((block, parse_sum(sum)?, mark))
}

fn journal_line(block: u64, sum: u64, mark: BlockMark) -> String {
    let mark = match mark {
        BlockMark::Received => 'r',
        BlockMark::Void => 'x',
    };
    format!("{block:08x} {sum:016x} {mark}\n")
}

/// An open journal, to which lines are added.
#[derive(Debug)]
pub struct TransferJournal(File);

impl TransferJournal {
    /// A new one; an old one of this user is gone.
    pub fn begin(path: &Path, head: &JournalHead) -> Result<Self, SideFileError> {
        remove(path)?;
        let mut file = make(path)?;
        let head = serde_json::to_string(head).map_err(io::Error::from)?;
        file.write_all(format!("{head}\n").as_bytes())?;
        Ok(TransferJournal(file))
    }

    /// The one that is there, and what it says, unless others may have written it; what is torn at its end is cut off.
    pub fn go_on(path: &Path) -> Result<Option<(Self, JournalContent)>, SideFileError> {
        let Some(OldSideFile::Sound(mut file)) = open_old(path)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let Some(content) = JournalContent::parse(&bytes) else { return Ok(None) };
        #[cfg(test)]
        planted!(TornLine, return Ok(Some((TransferJournal(file), content))));
        file.set_len(content.whole_bytes)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Some((TransferJournal(file), content)))
    }

    /// Adds lines, in one write.
    pub fn add(&mut self, blocks: impl IntoIterator<Item = (u64, u64)>, mark: BlockMark) -> io::Result<()> {
        let text: String = blocks.into_iter().map(|(block, sum)| journal_line(block, sum, mark)).collect();
        self.0.write_all(text.as_bytes())
    }
}

/// Reads these blocks of a file, and returns those that have their sums. A power cut may have taken any of those that the
/// journal of a part names.
pub(super) fn still_there(
    file: &File,
    blocks: &BTreeMap<u64, u64>,
    (block_bytes, bytes): (u64, u64),
    object_sums: Option<&BlockSums>,
    stop: &Stop,
) -> io::Result<BTreeMap<u64, u64>> {
    #[cfg(test)]
    planted!(JournalBelieved, return Ok(blocks.clone()));
    let mut pool = Pool::new(1, CHECK_BYTES)?;
    let mut there = BTreeMap::new();
    let Some(mut lease) = pool.take() else { return Ok(there) };
    for (block, sum) in blocks {
        if stop.is_ended() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let (mut at, end) =
            (block * block_bytes, block * block_bytes + block_length(*block, block_bytes, bytes));
        let (mut own, mut of_object) = (BlockSum::begin(), object_sums.map(BlockSums::begin));
        while at < end {
            let most = (end - at).min(CHECK_BYTES as u64) as usize;
            // A file that is shorter lacks the block.
            match file.read_at(&mut lease.bytes_mut()[..most], at) {
                Ok(0) | Err(_) => break,
                Ok(read) => {
                    own.add(&lease.bytes()[..read]);
                    of_object.iter_mut().for_each(|sum| sum.update(&lease.bytes()[..read]));
                    at += read as u64;
                }
            }
        }
        if at == end && own.end() == *sum {
            there.insert(*block, *sum);
            object_sums.zip(of_object).inspect(|(sums, own)| sums.add(*block, own));
        }
    }
    Ok(there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head() -> JournalHead {
        let part = std::fs::metadata("/").expect("the top");
        JournalHead::new("http://h/f", (100 << 20, 1 << 20), (Some("\"a\""), None), &part)
    }

    #[test]
    fn a_journal_of_others_is_neither_read_nor_written_through() {
        use std::os::unix::fs::{chown, symlink};
        let place = tempfile::tempdir().expect("a folder");
        let (path, victim) = (place.path().join("journal"), place.path().join("victim"));
        drop(TransferJournal::begin(&victim, &head()).expect("begun"));
        let before = std::fs::read(&victim).expect("read");
        symlink(&victim, &path).expect("a link");
        assert!(TransferJournal::go_on(&path).is_err() && TransferJournal::begin(&path, &head()).is_err());
        std::fs::remove_file(&path).expect("removed");
        std::fs::hard_link(&victim, &path).expect("a second name");
        assert!(TransferJournal::go_on(&path).expect("ours").is_none());
        let other = JournalHead { bytes: 1, ..head() };
        drop(TransferJournal::begin(&path, &other).expect("under a name that is free"));
        assert_eq!(std::fs::read(&victim).expect("read"), before);
        if chown(&path, Some(12_345), None).is_err() {
            eprintln!("skipped: only root can give a file away");
            return;
        }
        assert!(TransferJournal::go_on(&path).is_err() && TransferJournal::begin(&path, &head()).is_err());
        assert_eq!(std::fs::metadata(&path).expect("it stays").uid(), 12_345);
    }

    #[test]
    fn only_the_same_content_is_gone_on_with() {
        let same = JournalHead { url: "http://other/f".into(), ..head() };
        assert!(head().is_of_same_file(&same));
        for other in [
            JournalHead { bytes: 1, ..head() },
            JournalHead { entity_tag: Some("\"b\"".into()), ..head() },
            JournalHead { entity_tag: None, ..head() },
            JournalHead { block_bytes: 1, ..head() },
            JournalHead { part_inode: 1 << 40, ..head() },
            JournalHead { part_device: 1 << 40, ..head() },
        ] {
            assert!(!head().is_of_same_file(&other), "{other:?}");
        }
        let unknown = JournalHead { entity_tag: None, ..head() };
        assert!(!unknown.is_of_same_file(&unknown), "nothing says that it is the same");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_journal_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = JournalContent::parse(&bytes);
            let first = serde_json::to_string(&head()).expect("JSON") + "\n" + &journal_line(100, 7, BlockMark::Received);
            let content = JournalContent::parse(&[first.as_bytes(), &bytes].concat()).expect("a head");
            prop_assert!(content.whole_bytes as usize <= first.len() + bytes.len());
            prop_assert!(content.blocks.keys().all(|block| *block < 100));
        }

        /// Wherever the process was killed, the lines before are read and no other is made up.
        #[test]
        fn a_journal_that_ends_anywhere_says_less_and_nothing_else(
            blocks in proptest::collection::vec((0u64..100, any::<u64>()), 0..20), at in 0usize..2000,
        ) {
            let first = serde_json::to_string(&head()).expect("JSON") + "\n";
            let lines: Vec<String> = blocks.iter().map(|(b, s)| journal_line(*b, *s, BlockMark::Received)).collect();
            let whole = first.clone() + &lines.concat();
            let at = at.min(whole.len());
            let content = JournalContent::parse(&whole.as_bytes()[..at]);
            prop_assert_eq!(content.is_some(), at >= first.len());
            let Some(content) = content else { return Ok(()) };
            let kept = (at - first.len()) / LINE_BYTES;
            prop_assert_eq!(content.blocks, blocks[..kept].iter().copied().collect::<BTreeMap<_, _>>());
        }
    }
}
