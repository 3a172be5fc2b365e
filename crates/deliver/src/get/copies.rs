//! The copies of a file: what each server has of it, held against what the first one says, before a byte is taken.

use super::error::GetError;
use super::remote::RemoteFile;
use crate::http::url::HttpUrl;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// Why nothing more of a file is taken from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyRefusal {
    /// It does not give it any more: what came is as good as it was.
    NotServed,
    /// It has another content, perhaps since it was compared: what came is not to be trusted.
    OtherContent,
}

impl CopyRefusal {
    /// What such an error says of what came before.
    pub(super) fn of(error: &GetError) -> Self {
        match error {
            GetError::Changed { .. } | GetError::OtherAtMirror { .. } | GetError::OtherPart { .. } => {
                CopyRefusal::OtherContent
            }
            _ => CopyRefusal::NotServed,
        }
    }
}

/// What one server has of a file.
#[derive(Debug)]
pub(super) struct FileCopy {
    pub(super) url: HttpUrl,
    /// It was compared, and is the same.
    same: OnceLock<RemoteFile>,
    /// That is seen from its head alone, also without the first server's sums of what came.
    is_known: AtomicBool,
    is_refused: AtomicBool,
    /// It is of another content, or was at some time.
    is_other: AtomicBool,
    /// A stream compares it just now.
    is_looked_at: AtomicBool,
}

impl FileCopy {
    /// Not looked at yet.
    pub(super) fn new(url: HttpUrl) -> Self {
        FileCopy {
            url,
            same: OnceLock::new(),
            is_known: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            is_other: AtomicBool::new(false),
            is_looked_at: AtomicBool::new(false),
        }
    }

    /// This stream is to compare it, and calls [`FileCopy::was_looked_at`] afterwards; false: another does.
    pub(super) fn look(&self) -> bool {
        !self.is_looked_at.swap(true, Ordering::Relaxed)
    }

    pub(super) fn was_looked_at(&self) {
        self.is_looked_at.store(false, Ordering::Relaxed);
    }

    pub(super) fn is_looked_at(&self) -> bool {
        self.is_looked_at.load(Ordering::Relaxed)
    }

    /// What the server says of it, once it was compared.
    pub(super) fn same(&self) -> Option<&RemoteFile> {
        self.same.get()
    }

    /// It was compared and is the same; `is_known`: by its head alone. True: no other stream was sooner.
    pub(super) fn was_compared(&self, copy: RemoteFile, is_known: bool) -> bool {
        let is_new = self.same.set(copy).is_ok();
        if is_new {
            self.is_known.store(is_known, Ordering::Relaxed);
        }
        is_new
    }

    /// Its head alone shows that it is the same.
    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Nothing is taken of it any more; true: that is new.
    pub(super) fn refuse(&self, why: CopyRefusal) -> bool {
        self.is_other.fetch_or(why == CopyRefusal::OtherContent, Ordering::Relaxed);
        !self.is_refused.swap(true, Ordering::Relaxed)
    }

    /// It was refused for its content: what came of it comes again.
    pub(super) fn is_other(&self) -> bool {
        self.is_other.load(Ordering::Relaxed)
    }

    pub(super) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }
}

/// Why a mirror's file is not taken for that of the first server.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CopyDifference {
    #[error("it is a folder there")]
    Folder,
    #[error("it has {own} bytes there, and {first} at the first server")]
    Length { own: u64, first: u64 },
    #[error("this server sends no parts of files")]
    NoParts,
    #[error("its {name} there is another than at the first server")]
    Sum { name: &'static str },
    #[error("its block {block} of 1 MiB there is another than at the first server")]
    Block { block: u64 },
    #[error("its sum of block {block} is another than that of what came from the other servers")]
    SumOfBlock { block: u64 },
    #[error(
        "its time there is {own}, and {first} at the first server, and neither offers sums of it that could be compared"
    )]
    Time { own: String, first: String },
    #[error("neither its time nor sums of it are known there, so nothing but its length could be compared")]
    NothingKnown,
}

/// What is to be seen from the heads of both answers; `vouched`: its content is compared in another way, by the sums of
/// its blocks or by the SHA-256 that the user gave.
pub(super) fn compare_heads(
    first: &RemoteFile,
    own: &RemoteFile,
    vouched: bool,
) -> Result<(), CopyDifference> {
    if own.bytes != first.bytes {
        return Err(CopyDifference::Length { own: own.bytes, first: first.bytes });
    }
    if !own.has_ranges {
        return Err(CopyDifference::NoParts);
    }
    let mut is_known = vouched;
    if let (Some(theirs), Some(digest)) = (own.digest, first.digest) {
        if theirs != digest {
            return Err(CopyDifference::Sum { name: "SHA-256" });
        }
        is_known = true;
    }
    if let (Some(theirs), Some(sum)) = (own.sum, first.sum)
        && theirs.algorithm == sum.algorithm
    {
        if theirs != sum {
            return Err(CopyDifference::Sum { name: sum.algorithm.name() });
        }
        is_known = true;
    }
    let strong = |remote: &RemoteFile| remote.entity_tag.clone().filter(|tag| !tag.starts_with("W/"));
    if is_known || strong(own).is_some() && strong(own) == strong(first) {
        return Ok(());
    }
    // A tag is a server's own: another one says nothing. A time goes with the file, where it was copied with care.
    match (&own.last_modified, &first.last_modified) {
        (Some(own), Some(first)) if own == first => Ok(()),
        (Some(own), Some(first)) => Err(CopyDifference::Time { own: own.clone(), first: first.clone() }),
        _ => Err(CopyDifference::NothingKnown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::digest::WantedDigest;

    fn remote(tag: &str, modified: Option<&str>) -> RemoteFile {
        RemoteFile {
            url: "http://h/f".parse().expect("a URL"),
            bytes: 10,
            entity_tag: Some(tag.into()),
            last_modified: modified.map(String::from),
            has_ranges: true,
            has_sums: false,
            is_object: false,
            sum: None,
            md5: None,
            digest: None,
            keeps_open: true,
            address: None,
        }
    }

    #[test]
    fn a_copy_is_held_against_what_both_servers_say() {
        let first = remote("\"a\"", Some("then"));
        let compared = |own: &RemoteFile| compare_heads(&first, own, false);
        assert_eq!(compared(&remote("\"b\"", Some("then"))), Ok(()), "a tag is a server's own");
        assert_eq!(compared(&remote("\"a\"", Some("now"))), Ok(()), "the same tag is enough");
        let weak = remote("W/\"a\"", None);
        assert_eq!(compare_heads(&weak, &weak, false), Err(CopyDifference::NothingKnown));
        let later = remote("\"b\"", Some("now"));
        let time = CopyDifference::Time { own: "now".into(), first: "then".into() };
        assert_eq!(compared(&later), Err(time));
        assert_eq!(compare_heads(&first, &later, true), Ok(()), "its blocks will be compared");
        let longer = RemoteFile { bytes: 11, ..first.clone() };
        assert_eq!(compare_heads(&first, &longer, true), Err(CopyDifference::Length { own: 11, first: 10 }));
        let whole = RemoteFile { has_ranges: false, ..first.clone() };
        assert_eq!(compared(&whole), Err(CopyDifference::NoParts));
    }

    #[test]
    fn a_digest_of_both_decides() {
        let with = |byte, modified| RemoteFile {
            digest: Some(WantedDigest([byte; 32])),
            ..remote("\"a\"", Some(modified))
        };
        let same = RemoteFile { entity_tag: None, ..with(1, "now") };
        assert_eq!(compare_heads(&with(1, "then"), &same, false), Ok(()));
        let other = compare_heads(&with(1, "then"), &with(2, "then"), true);
        assert_eq!(other, Err(CopyDifference::Sum { name: "SHA-256" }));
    }

    #[test]
    fn what_was_refused_stays_so() {
        let copy = FileCopy::new("http://h/f".parse().expect("a URL"));
        assert!(copy.look() && copy.is_looked_at() && !copy.look(), "one looks");
        copy.was_looked_at();
        assert!(!copy.is_looked_at());
        assert!(copy.same().is_none() && copy.was_compared(remote("\"a\"", None), false));
        assert!(!copy.was_compared(remote("\"b\"", None), true), "another stream was sooner");
        assert!(!copy.is_known());
        let busy = CopyRefusal::of(&GetError::Overloaded { url: "http://h/f".into() });
        assert!(copy.refuse(busy) && !copy.refuse(busy) && copy.is_refused() && !copy.is_other());
        let changed = CopyRefusal::of(&GetError::Changed { url: "http://h/f".into() });
        assert!(!copy.refuse(changed) && copy.is_other(), "another stream saw more");
    }
}
