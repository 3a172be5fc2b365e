//! What a thread does for a connection, and what becomes of the connection afterwards.

use crate::http::head::RequestHead;
use linerate_system::readiness::Interest;
use linerate_transport::admission::Permit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What a connection is to be done, by threads of its own, so that none of it takes those of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Requests, and files.
    Move,
    /// The list of a folder.
    List,
    /// Sums of blocks.
    Sum,
}

/// What becomes of a connection after a turn on a thread.
pub(super) enum Turn {
    Over,
    /// It has nothing to do before its client does something.
    Waits(Interest),
    /// To the end of the queue for a thread of this work: others wait for its own, or that is for something else.
    GoesTo(Work),
}

/// A request that a thread of another work answers.
pub(super) struct LaterRequest {
    pub(super) request: RequestHead,
    pub(super) work: Work,
    /// Of sums.
    pub(super) permit: Option<Permit>,
}

/// How threads are used, for those that are on one.
#[derive(Debug, Default)]
pub(super) struct ThreadUse {
    /// Threads that one connection keeps while it waits for its client, too (TLS, PUT); they are not counted as moving.
    held: AtomicUsize,
    /// Connections wait for a thread, and there may be no more.
    is_short: AtomicBool,
}

impl ThreadUse {
    /// The caller keeps its thread until this is dropped.
    pub(super) fn hold(&self) -> HeldThread<'_> {
        self.held.fetch_add(1, Ordering::Relaxed);
        HeldThread(self)
    }

    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(super) fn set_short(&self, is_short: bool) {
        self.is_short.store(is_short, Ordering::Relaxed);
    }

    /// Who has had a thread for long should give it to another connection.
    pub(super) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }
}

/// See [`ThreadUse::hold`].
pub(super) struct HeldThread<'a>(&'a ThreadUse);

impl Drop for HeldThread<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}
