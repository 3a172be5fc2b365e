//! Ctrl-C ends within a second, whatever a peer does: one that does not answer after a moment is left.

use linerate_transport::agent::SessionBreaker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pause between two looks at `stop` while measuring.
const LOOK: Duration = Duration::from_millis(20);
/// After Ctrl-C the peers have this long to answer.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Does the work; a peer that holds it up after `stop` is cut off. Where not even one more thread is to be
/// had, such a peer is waited for.
pub(super) fn cut_at_stop<T>(cutters: Vec<SessionBreaker>, stop: &AtomicBool, work: impl FnOnce() -> T) -> T {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ = std::thread::Builder::new()
            .name("cutter".into())
            .spawn_scoped(scope, || cut_when_stopped(&cutters, stop, &over));
        let _over = SetAtEnd(&over);
        work()
    })
}

fn cut_when_stopped(cutters: &[SessionBreaker], stop: &AtomicBool, over: &AtomicBool) {
    let mut stopped = None;
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        if stop.load(Ordering::Relaxed) && stopped.get_or_insert_with(Instant::now).elapsed() > LAST_WORDS {
            cutters.iter().for_each(SessionBreaker::cut);
            return;
        }
    }
}

/// Sets a flag when it goes, also in a panic.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
