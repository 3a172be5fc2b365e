//! The copies of a file: what each server has of it, held against what the first one says, before a byte is taken.

use super::remote::RemoteFile;
use crate::http::url::HttpUrl;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// What one server has of a file.
#[derive(Debug)]
pub(super) struct FileCopy {
    pub(super) url: HttpUrl,
    /// It was compared, and is the same.
    same: OnceLock<RemoteFile>,
    is_refused: AtomicBool,
    /// A stream compares it just now.
    is_looked_at: AtomicBool,
}

impl FileCopy {
    /// Not looked at yet.
    pub(super) fn new(url: HttpUrl) -> Self {
        let (is_refused, is_looked_at) = (AtomicBool::new(false), AtomicBool::new(false));
        FileCopy { url, same: OnceLock::new(), is_refused, is_looked_at }
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

    /// It was compared, by this stream or another that was sooner; true: by this one.
    pub(super) fn is_same(&self, copy: RemoteFile) -> bool {
        self.same.set(copy).is_ok()
    }

    /// Nothing is taken of it any more; true: that is new.
    pub(super) fn refuse(&self) -> bool {
        !self.is_refused.swap(true, Ordering::Relaxed)
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
        assert!(copy.same().is_none() && copy.is_same(remote("\"a\"", None)));
        assert!(!copy.is_same(remote("\"b\"", None)), "another stream was sooner");
        assert!(copy.refuse() && !copy.refuse() && copy.is_refused());
    }
}
