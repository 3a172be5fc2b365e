//! Who looks after every stream of an agent, whether or not its client says anything: tokens that nobody
//! used, time that is up, rates that are not kept.

use super::server::Shared;
use super::session_stream::SessionStream;
use linerate_system::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// How often: what a client moves beyond its rate before that is noticed is what it can move in this time.
const TICK: Duration = Duration::from_millis(100);

/// The streams to look after: all that an agent has given a ticket for.
#[derive(Default)]
pub(crate) struct Watched(Mutex<Vec<Weak<SessionStream>>>);

impl Watched {
    /// One more; it leaves by itself.
    pub(crate) fn add(&self, stream: &Arc<SessionStream>) {
        lock(&self.0).push(Arc::downgrade(stream));
    }

    /// Each in turn, and held no longer than it is looked at: who holds the last of a stream keeps its place
    /// from the next one.
    fn each(&self, look: impl Fn(&SessionStream)) {
        let mut watched = lock(&self.0);
        watched.retain(|stream| stream.strong_count() > 0);
        let streams = watched.clone();
        drop(watched);
        streams.iter().filter_map(Weak::upgrade).for_each(|stream| look(&stream));
    }
}

/// Looks after all streams until `stop`.
pub(crate) fn watch(shared: &Shared, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        look_after(shared, Instant::now());
        std::thread::sleep(TICK);
    }
}

fn look_after(shared: &Shared, now: Instant) {
    // All are charged before one is judged: its client's other streams count.
    shared.watched.each(|stream| stream.charge(now));
    shared.watched.each(|stream| {
        stream.expire();
        stream.hold_to_time(now);
        stream.hold_to_share(now);
    });
    shared.tokens.withdraw(|stream| stream.expires <= now);
    shared.clients.forget(now);
}
