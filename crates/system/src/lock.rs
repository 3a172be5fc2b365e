//! A lock whose data stays whole if a holder panics: every change under it is one step.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the lock, also after a holder's panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
