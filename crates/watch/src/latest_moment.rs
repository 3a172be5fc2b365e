//! Where the sampler leaves its moments and the views find them: the newest one, and the past.
//!
//! Nobody makes the sampler wait. A view that is slow finds the newest moment when it comes back, and has
//! lost those between.

use super::history::History;
use super::model::Moment;
use linerate_system::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use tokio::sync::watch;

/// A moment, and its JSON once for all who read it.
pub struct EncodedMoment {
    pub moment: Moment,
    json: OnceLock<String>,
}

impl EncodedMoment {
    /// One line of JSON.
    pub fn json(&self) -> &str {
        self.json.get_or_init(|| serde_json::to_string(&self.moment).unwrap_or_default())
    }
}

/// The newest moment and the past.
pub struct LatestMoment {
    newest: watch::Sender<Option<Arc<EncodedMoment>>>,
    history: Mutex<History>,
    ended: AtomicBool,
}

impl Default for LatestMoment {
    fn default() -> LatestMoment {
        LatestMoment {
            newest: watch::Sender::new(None),
            history: Mutex::default(),
            ended: AtomicBool::new(false),
        }
    }
}

impl LatestMoment {
    /// Leaves a moment; returns at once.
    pub fn tell(&self, moment: Moment) {
        self.history().push(&moment);
        self.newest.send_replace(Some(Arc::new(EncodedMoment { moment, json: OnceLock::new() })));
    }

    /// The newest moment, once there is one.
    pub fn newest(&self) -> Option<Arc<EncodedMoment>> {
        self.newest.borrow().clone()
    }

    /// Nothing more comes: a recording has ended.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        // anyone who shows the newest moment looks again.
        self.newest.send_modify(|_| ());
    }

    /// See [`Board::end`].
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Waits for moments.
    pub fn listen(&self) -> watch::Receiver<Option<Arc<EncodedMoment>>> {
        self.newest.subscribe()
    }

    /// The past. Hold it briefly: the sampler waits for it.
    pub fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }
}
