//! Ctrl-C ends within a second, whatever a peer does: one that does not answer after a moment is left.

use linerate_system::stop::{Stop, any_ended};
use linerate_transport::agent::SessionBreaker;
use std::time::Duration;

/// After Ctrl-C the peers have this long to answer.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Does the work; a peer that holds it up after `stop` is cut off. Where not even one more thread is to be
/// had, such a peer is waited for.
pub(super) fn cut_at_stop<T>(cutters: Vec<SessionBreaker>, stop: &Stop, work: impl FnOnce() -> T) -> T {
    let over = Stop::new();
    std::thread::scope(|scope| {
        let _ = std::thread::Builder::new()
            .name("cutter".into())
            .spawn_scoped(scope, || cut_when_stopped(&cutters, stop, &over));
        let _over = over.ends_at_drop();
        work()
    })
}

fn cut_when_stopped(cutters: &[SessionBreaker], stop: &Stop, over: &Stop) {
    any_ended(&[stop, over], None);
    if !over.wait(LAST_WORDS) {
        cutters.iter().for_each(SessionBreaker::cut);
    }
}
