//! Objects that go in parts, several at a time: which part is whose, and how an upload ends, also one that
//! does not come to its own end.

use super::answers::{ListedPart, show_parts};
use super::requests::ask_text;
use super::store::S3Store;
use super::sums::{ObjectSum, SumAlgorithm};
use crate::client::ClientSettings;
use crate::http::url::{HttpUrl, encoded};
use crate::patience::Retries;
use crate::put::sources::{OpenSource, PutError, SourceFile};
use linerate_system::lock;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// An object of at most so many bytes goes whole, and no part but the last is smaller; S3 takes none below 5 MiB.
const LEAST_PART_BYTES: u64 = 8 << 20;
/// Larger parts lose more when a connection breaks.
const USUAL_PART_BYTES: u64 = 64 << 20;
/// What S3 takes as a part that is not the last.
const S3_PART_BYTES: std::ops::RangeInclusive<u64> = 5 << 20..=5 << 30;
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

/// Bytes of the file that are a part; parts are counted from 1. Empty behind the last.
pub(super) fn part_range(number: u32, part_bytes: u64, bytes: u64) -> Range<u64> {
    let from = u64::from(number.saturating_sub(1)).saturating_mul(part_bytes).min(bytes);
    from..from.saturating_add(part_bytes).min(bytes)
}

/// The length of the parts of which these are some: `usual` where they fit it, since the last one alone does not show
/// it. None: they are of no file of so many bytes.
pub(super) fn part_bytes_of(parts: &BTreeMap<u32, ListedPart>, bytes: u64, usual: u64) -> Option<u64> {
    let largest = parts.values().map(|part| part.bytes).max().unwrap_or(usual);
    let length = |number, part_bytes| {
        let range = part_range(number, part_bytes, bytes);
        range.end - range.start
    };
    [usual, largest].into_iter().find(|part_bytes| {
        let fits = |(number, part): (&u32, &ListedPart)| {
            part.bytes > 0 && part.bytes == length(*number, *part_bytes)
        };
        S3_PART_BYTES.contains(part_bytes)
            && bytes.div_ceil(*part_bytes) <= MOST_PARTS
            && parts.iter().all(fits)
    })
}

/// An upload as the store has it.
pub(crate) struct OpenUpload {
    /// The name that the store gave it.
    pub(super) id: String,
    pub(super) part_bytes: u64,
    /// Parts of an earlier start, by their numbers.
    pub(super) held: BTreeMap<u32, ListedPart>,
}

/// An object on its way in parts.
pub(crate) struct Upload {
    pub(crate) source: Arc<OpenSource>,
    pub(super) open: OpenUpload,
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
    /// It had it of an earlier start.
    pub(super) was_held: bool,
}

/// How an upload ends, for the one stream that was the last at it.
pub(crate) enum UploadEnd {
    NotYet,
    Sent,
    Failed(PutError),
}

impl Upload {
    pub(crate) fn new(source: Arc<OpenSource>, open: OpenUpload, begun: Instant) -> Self {
        Upload { source, open, begun, progress: Mutex::default() }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.source.file.bytes.div_ceil(self.open.part_bytes.max(1))).unwrap_or(u32::MAX)
    }

    /// Bytes of the file that are a part; parts are counted from 1.
    pub(crate) fn range(&self, number: u32) -> Range<u64> {
        part_range(number, self.open.part_bytes, self.source.file.bytes)
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

    /// Bytes that did not have to be sent.
    pub(super) fn held_bytes(&self) -> u64 {
        let progress = lock(&self.progress);
        let held = progress.parts.iter().filter(|(_, part)| part.was_held);
        held.map(|(number, _)| self.range(*number)).map(|range| range.end - range.start).sum()
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

/// Where the parts of an upload go.
pub(super) fn upload_url(upload: &Upload) -> HttpUrl {
    let url = &upload.source.file.url;
    url.with_target(&format!("{}?uploadId={}", url.path(), encoded(upload.open.id.as_bytes())))
}

/// So often an upload is to be aborted, each time after a longer wait: 1.4 s in all, whatever time the store names.
const ABORT_TRIES: u32 = 4;
const ABORT_WAITS: u32 = 2;

/// What the store has of an upload is thrown away; where that fails, who does it instead.
pub(crate) fn abort(settings: &ClientSettings<'_>, store: &S3Store, upload: &Upload) -> Result<(), PutError> {
    let url = upload_url(upload);
    let place = store.place(&upload.source.file.url);
    let mut retries = Retries::new(ABORT_TRIES, Duration::ZERO);
    let aborted = loop {
        let asked = ask_text(&mut None, settings, (store, &place), ("DELETE", &url, ""), &[]);
        // Parts that were on their way are still coming in: a store may stumble over them.
        let wait = asked.as_ref().err().and_then(|error| retries.failed(error.may_pass(), false, None));
        let Some(wait) = wait else { break asked };
        settings.stop.wait(ABORT_WAITS * wait);
    };
    match aborted {
        Err(why) if !why.is_no_upload() => {
            let (place, id) = (Box::new(place), upload.open.id.clone());
            Err(PutError::NotAborted { place, id, why: why.to_string() })
        }
        _ => {
            store.closed_upload(&upload.open.id);
            Ok(())
        }
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
        let open = OpenUpload { id: "id".into(), part_bytes, held: BTreeMap::new() };
        Upload::new(Arc::new(OpenSource { file, content, before }), open, Instant::now())
    }

    fn sent(bytes: &[u8]) -> Result<SentPart, PutError> {
        let sum = ObjectSum::of(ALGORITHM, bytes).value;
        Ok(SentPart { tag: "\"t\"".into(), sum, is_confirmed: true, was_held: false })
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

    fn listed(parts: &[(u32, u64)]) -> BTreeMap<u32, ListedPart> {
        let part = |bytes| ListedPart { bytes, tag: "t".into(), sum: None };
        parts.iter().map(|(number, bytes)| (*number, part(*bytes))).collect()
    }

    #[test]
    fn the_parts_of_an_earlier_start_say_how_long_each_is() {
        const MIB: u64 = 1 << 20;
        for (parts, length) in [
            (&[][..], Some(8 * MIB)),
            (&[(2, 8 * MIB)], Some(8 * MIB)),
            (&[(6, 3 * MIB)], Some(8 * MIB)),
            (&[(1, 10 * MIB), (5, 3 * MIB)], Some(10 * MIB)),
            // Of another file, or longer than a store's parts.
            (&[(2, 8 * MIB), (6, MIB)], None),
            (&[(7, 8 * MIB)], None),
            (&[(1, 4 * MIB)], None),
            (&[(1, 0)], None),
            (&[(1, 8 * MIB), (2, 10 * MIB)], None),
        ] {
            assert_eq!(part_bytes_of(&listed(parts), 43 * MIB, 8 * MIB), length, "{parts:?}");
        }
    }

    proptest! {
        #[test]
        fn any_parts_are_of_a_file_or_not(
            parts in proptest::collection::vec((1u32..=10_000, any::<u64>()), 0..4), bytes: u64, usual: u64,
        ) {
            if let Some(length) = part_bytes_of(&listed(&parts), bytes, usual) {
                prop_assert!(S3_PART_BYTES.contains(&length) && bytes.div_ceil(length) <= MOST_PARTS);
            }
        }

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
