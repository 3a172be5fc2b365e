//! Objects that go in parts, several at a time: which part is whose, and how an upload ends.

use super::answers::show_parts;
use super::sums::{ObjectSum, SumAlgorithm};
use crate::put::{PutError, SourceFile};
use linerate_system::lock;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// An object of at most so many bytes goes whole, and no part but the last is smaller; S3 takes none below 5 MiB.
const LEAST_PART_BYTES: u64 = 8 << 20;
/// Larger parts lose more when a connection breaks.
const USUAL_PART_BYTES: u64 = 64 << 20;
/// The most parts of an object.
const MOST_PARTS: u64 = 10_000;
/// Parts for each stream, so that all end together.
const PARTS_PER_STREAM: u64 = 4;
/// How parts are summed: the sum of the object follows from those of its parts.
pub(crate) const ALGORITHM: SumAlgorithm = SumAlgorithm::Crc64Nvme;

/// Bytes of each part; none: it goes whole.
pub(crate) fn part_bytes(bytes: u64, streams: u64) -> Option<u64> {
    const MIB: u64 = 1 << 20;
    let share = bytes / (PARTS_PER_STREAM * streams.max(1));
    let part = share.clamp(LEAST_PART_BYTES, USUAL_PART_BYTES).max(bytes.div_ceil(MOST_PARTS));
    (bytes > LEAST_PART_BYTES).then(|| part.div_ceil(MIB) * MIB)
}

/// An object on its way in parts.
pub(crate) struct Upload {
    pub(crate) file: SourceFile,
    pub(crate) content: File,
    /// As the file was when it began.
    pub(crate) before: Metadata,
    /// The name that the store gave it.
    pub(crate) id: String,
    pub(crate) part_bytes: u64,
    pub(crate) begun: Instant,
    progress: Mutex<UploadProgress>,
}

#[derive(Default)]
struct UploadProgress {
    taken: u32,
    at_work: u32,
    parts: BTreeMap<u32, SentPart>,
    error: Option<PutError>,
    is_over: bool,
}

/// A part that the store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentPart {
    pub(crate) tag: String,
    pub(crate) sum: u64,
    /// The store said that it has the same sum.
    pub(crate) is_confirmed: bool,
}

/// How an upload ends, for the one stream that was the last at it.
pub(crate) enum UploadEnd {
    NotYet,
    Sent,
    Failed(PutError),
}

impl Upload {
    pub(crate) fn new(
        file: SourceFile,
        content: File,
        before: Metadata,
        id: String,
        part_bytes: u64,
        begun: Instant,
    ) -> Self {
        Upload { file, content, before, id, part_bytes, begun, progress: Mutex::default() }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.before.len().div_ceil(self.part_bytes.max(1))).unwrap_or(u32::MAX)
    }

    /// Bytes of the file that are a part; parts are counted from 1.
    pub(crate) fn range(&self, number: u32) -> Range<u64> {
        let from = u64::from(number.saturating_sub(1)) * self.part_bytes;
        from..(from + self.part_bytes).min(self.before.len())
    }

    /// The next part that nobody has; whoever takes it calls [`Upload::done`].
    fn next_part(&self) -> Option<u32> {
        let mut progress = lock(&self.progress);
        if progress.is_over || progress.error.is_some() || progress.taken >= self.count() {
            return None;
        }
        progress.taken += 1;
        progress.at_work += 1;
        Some(progress.taken)
    }

    /// A part was sent, or could not be.
    pub(crate) fn done(&self, number: u32, result: Result<SentPart, PutError>) -> UploadEnd {
        let mut progress = lock(&self.progress);
        progress.at_work -= 1;
        match result {
            Ok(part) => drop(progress.parts.insert(number, part)),
            Err(error) => drop(progress.error.get_or_insert(error)),
        }
        if progress.at_work > 0 || progress.is_over {
            return UploadEnd::NotYet;
        }
        if let Some(error) = progress.error.take() {
            progress.is_over = true;
            return UploadEnd::Failed(error);
        }
        progress.is_over = progress.parts.len() as u64 == u64::from(self.count());
        if progress.is_over { UploadEnd::Sent } else { UploadEnd::NotYet }
    }

    /// Nobody goes on with it; false where it has ended already.
    fn give_up(&self) -> bool {
        !std::mem::replace(&mut lock(&self.progress).is_over, true)
    }

    /// The sum of the object, and whether the store said so of each part.
    pub(crate) fn sum(&self) -> (ObjectSum, bool) {
        let progress = lock(&self.progress);
        let length = |number| self.range(number).end - self.range(number).start;
        let join = |sum, (number, part): (&u32, &SentPart)| ALGORITHM.joined(sum, part.sum, length(*number));
        let value = progress.parts.iter().fold(ALGORITHM.begin().finalize(), join);
        let is_confirmed = progress.parts.values().all(|part| part.is_confirmed);
        (ObjectSum { algorithm: ALGORITHM, value }, is_confirmed)
    }

    /// What the store is to put together; `summed`: with the parts' sums.
    pub(crate) fn body(&self, summed: bool) -> String {
        let progress = lock(&self.progress);
        let sum = |part: &SentPart| ObjectSum { algorithm: ALGORITHM, value: part.sum }.show();
        let name = "ChecksumCRC64NVME";
        show_parts(progress.parts.iter().map(|(number, part)| {
            (*number, part.tag.as_str(), (summed && part.is_confirmed).then(|| (name, sum(part))))
        }))
    }
}

/// Uploads that are on their way, shared by all streams.
#[derive(Default)]
pub(crate) struct Uploads {
    open: Mutex<Vec<Arc<Upload>>>,
    /// Streams that have taken a file and do not know yet whether it goes in parts.
    beginning: AtomicU32,
}

impl Uploads {
    pub(crate) fn add(&self, upload: Arc<Upload>) {
        lock(&self.open).push(upload);
    }

    /// The next part, of those that began first.
    pub(crate) fn next_part(&self) -> Option<(Arc<Upload>, u32)> {
        let open = lock(&self.open);
        open.iter().find_map(|upload| Some((Arc::clone(upload), upload.next_part()?)))
    }

    /// Takes the next file; [`Uploads::begun`] is called behind it.
    pub(crate) fn next_file(&self, next: impl FnOnce() -> Option<SourceFile>) -> Option<SourceFile> {
        self.beginning.fetch_add(1, Ordering::SeqCst);
        let file = next();
        if file.is_none() {
            self.begun();
        }
        file
    }

    pub(crate) fn begun(&self) {
        self.beginning.fetch_sub(1, Ordering::SeqCst);
    }

    /// Nothing more can come to be done, but what other streams are at.
    pub(crate) fn is_over(&self) -> bool {
        self.beginning.load(Ordering::SeqCst) == 0
    }

    pub(crate) fn ended(&self, upload: &Arc<Upload>) {
        lock(&self.open).retain(|one| !Arc::ptr_eq(one, upload));
    }

    /// Those that nobody ended.
    pub(crate) fn left(&self) -> Vec<Arc<Upload>> {
        lock(&self.open).drain(..).filter(|upload| upload.give_up()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn upload(bytes: u64, part_bytes: u64) -> Upload {
        let content = tempfile::tempfile().expect("a file");
        content.set_len(bytes).expect("its length");
        let before = content.metadata().expect("looked at");
        let url = "http://h/b/k".parse().expect("a URL");
        let file = SourceFile { path: "k".into(), url, bytes };
        Upload::new(file, content, before, "id".into(), part_bytes, Instant::now())
    }

    fn sent(bytes: &[u8]) -> Result<SentPart, PutError> {
        let sum = ObjectSum::of(ALGORITHM, bytes).value;
        Ok(SentPart { tag: "\"t\"".into(), sum, is_confirmed: true })
    }

    #[test]
    fn the_sum_of_the_object_is_that_of_its_parts_and_the_last_stream_ends_it() {
        let one = upload(9, 4);
        assert_eq!(
            (one.next_part(), one.next_part(), one.next_part(), one.next_part()),
            (Some(1), Some(2), Some(3), None)
        );
        assert_eq!((one.range(1), one.range(3)), (0..4, 8..9));
        assert!(matches!(one.done(3, sent(b"9")), UploadEnd::NotYet));
        assert!(matches!(one.done(1, sent(b"1234")), UploadEnd::NotYet));
        assert!(matches!(one.done(2, sent(b"5678")), UploadEnd::Sent));
        assert_eq!(one.sum(), (ObjectSum::of(ALGORITHM, b"123456789"), true));
        assert!(one.body(true).contains("<PartNumber>3</PartNumber>") && !one.give_up());
    }

    #[test]
    fn a_part_that_fails_ends_the_upload_once_nobody_is_at_it() {
        let one = upload(9, 4);
        let _ = (one.next_part(), one.next_part());
        assert!(matches!(one.done(1, Err(PutError::Interrupted)), UploadEnd::NotYet));
        assert_eq!(one.next_part(), None);
        assert!(matches!(one.done(2, sent(b"5678")), UploadEnd::Failed(PutError::Interrupted)));
        let uploads = Uploads::default();
        uploads.add(Arc::new(upload(9, 4)));
        assert_eq!((uploads.left().len(), uploads.left().len()), (1, 0));
    }

    proptest! {
        #[test]
        fn parts_are_within_the_bounds_of_a_store(bytes in 0u64..(48 << 40), streams in 1u64..64) {
            match part_bytes(bytes, streams) {
                None => prop_assert!(bytes <= LEAST_PART_BYTES),
                Some(part) => {
                    prop_assert!((5 << 20..=5 << 30).contains(&part));
                    prop_assert!(bytes.div_ceil(part) <= MOST_PARTS);
                }
            }
        }
    }
}
