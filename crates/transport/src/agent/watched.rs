//! The streams that an agent looks after.

use super::session_stream::SessionStream;
use linerate_system::lock;
use std::sync::{Arc, Mutex, Weak};

/// The streams to look after: all that an agent has given a ticket for.
#[derive(Default)]
pub(crate) struct Watched(Mutex<Vec<Weak<SessionStream>>>);

impl Watched {
    /// One more; it leaves by itself.
    pub(crate) fn add(&self, stream: &Arc<SessionStream>) {
        lock(&self.0).push(Arc::downgrade(stream));
    }

    /// None is left.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).iter().all(|stream| stream.strong_count() == 0)
    }

    /// Each in turn, and held no longer than it is looked at: who holds the last of a stream keeps its place
    /// from the next one.
    pub(crate) fn each(&self, look: impl Fn(&SessionStream)) {
        let mut watched = lock(&self.0);
        watched.retain(|stream| stream.strong_count() > 0);
        let streams = watched.clone();
        drop(watched);
        streams.iter().filter_map(Weak::upgrade).for_each(|stream| look(&stream));
    }
}
