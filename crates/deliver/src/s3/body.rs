//! The header lines of what goes to a store: its sums, and when the file was changed.

use super::store::S3Store;
use super::sums::ObjectSum;
use super::upload::ALGORITHM;
use crate::http::head::ResponseHead;
use crate::put::SourceFile;
use crate::put::error::PutError;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The sums of bytes that are sent.
pub(super) struct BodySums {
    pub(super) sum: ObjectSum,
    /// What the body is signed as.
    pub(super) payload: String,
}

impl BodySums {
    pub(super) fn lines(&self, store: &S3Store) -> String {
        let sum = if store.is_plain() { String::new() } else { sum_line(&self.sum) };
        let payload = store.access_key().map(|_| format!("x-amz-content-sha256: {}\r\n", self.payload));
        sum + &payload.unwrap_or_default()
    }

    /// The store says the same sum; false: it says none.
    pub(super) fn confirmed(&self, head: &ResponseHead, file: &SourceFile) -> Result<bool, PutError> {
        let said = ObjectSum::of_lines(&head.headers).filter(|said| said.algorithm == ALGORITHM);
        match said {
            Some(said) if said != self.sum => Err(PutError::Differs { url: file.url.to_string(), times: 1 }),
            said => Ok(said.is_some()),
        }
    }
}

pub(super) fn sum_line(sum: &ObjectSum) -> String {
    format!("x-amz-checksum-{}: {}\r\n", sum.algorithm.name(), sum.show())
}

/// When the file was changed last, as other tools keep it with an object: seconds with a fraction.
pub(super) fn modified(metadata: &Metadata) -> String {
    format!("{}.{:09}", metadata.mtime(), metadata.mtime_nsec())
}

pub(super) fn modified_line(metadata: &Metadata) -> String {
    format!("x-amz-meta-mtime: {}\r\n", modified(metadata))
}
