//! Who looks after every stream of an agent, whether or not its client says anything: tokens that nobody
//! used, time that is up, rates that are not kept.

use super::shared::Shared;
use std::time::{Duration, Instant};

/// How often: what a client moves beyond its rate before that is noticed is what it can move in this time.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// Looks after all streams, which may take their time, rate and place.
pub(super) fn look_after(shared: &Shared, now: Instant) {
    // All are charged before one is judged: its client's other streams count.
    shared.watched.each(|stream| stream.charge(now));
    shared.watched.each(|stream| {
        stream.expire();
        stream.hold_to_time(now);
        stream.hold_to_share(now);
    });
    shared.tokens.withdraw(|stream| !stream.is_awaited());
    shared.clients.forget(now);
}
