//! One-time tokens: the right to open one data stream.

use super::secret::{OneTimeToken, SECRET_BYTES, same};
use linerate_system::lock;
use std::sync::Mutex;

/// Tokens that were handed out and not used yet, each with what it is the right to.
pub struct OneTimeTokens<R>(Mutex<Vec<(OneTimeToken, R)>>);

impl<R> Default for OneTimeTokens<R> {
    fn default() -> Self {
        OneTimeTokens(Mutex::default())
    }
}

impl<R> OneTimeTokens<R> {
    /// Hands out a right.
    pub fn issue(&self, token: OneTimeToken, right: R) {
        lock(&self.0).push((token, right));
    }

    /// Takes the right that a connection shows. Each works once.
    pub fn claim(&self, shown: &[u8; SECRET_BYTES]) -> Option<R> {
        let mut tokens = lock(&self.0);
        // All are compared, whichever fits: the time tells nothing.
        let place = tokens.iter().enumerate().fold(None, |found, (index, (token, _))| {
            if same(token.bytes(), shown) { Some(index) } else { found }
        })?;
        Some(tokens.swap_remove(place).1)
    }

    /// Forgets some rights.
    pub fn withdraw(&self, withdrawn: impl Fn(&R) -> bool) {
        #[cfg(test)]
        planted!(TokensStay, return);
        lock(&self.0).retain(|(_, right)| !withdrawn(right));
    }
}
