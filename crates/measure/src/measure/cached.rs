//! The cached source of the network stage: a piece of each file brought into the page cache before, and out
//! of it after.

use linerate_model::plan::SourcePlan;
use linerate_system::clock;
use linerate_system::file;
use linerate_system::stop::Stop;
use linerate_transport::flow::rate_limit::RateLimit;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The part of a file that is brought into the page cache; small, so that it stays there.
const CACHED_BYTES: u64 = 16 << 20;
/// Bringing the files there may take this long in all; a slow disk gives a block at least.
pub(crate) const CACHING_TIME: Duration = Duration::from_millis(400);

/// Reads the beginning of the file through the page cache; gives how much of it is there now. A block is the least, also
/// where the file cannot be read: a stream cannot have less, and its own read says why.
pub(crate) fn bring_in(
    source: &SourcePlan,
    deadline: Instant,
    limit: Option<&RateLimit>,
    stop: &Stop,
) -> u64 {
    let Ok(file) = file::open_to_read(&source.path, false) else { return source.block_bytes };
    let mut buffer = vec![0; source.block_bytes as usize];
    let mut length = 0;
    while length < CACHED_BYTES.min(source.length_bytes) && (length == 0 || clock::now() < deadline) {
        if let Some(limit) = limit {
            limit.pay(source.block_bytes, |time| stop.wait(time));
        }
        if file.read_exact_at(&mut buffer, length).is_err() {
            break;
        }
        length += source.block_bytes;
    }
    length.max(source.block_bytes)
}

/// What was brought in goes out again, so that it answers no later read. Only clean pages of these very
/// files.
pub(crate) fn drop_again(sources: &[SourcePlan]) {
    for source in sources {
        if let Ok(file) = file::open_to_read(&source.path, false) {
            let _ = file::drop_pages(&file);
        }
    }
}
