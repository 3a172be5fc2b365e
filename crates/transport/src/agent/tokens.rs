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
        lock(&self.0).retain(|(_, right)| !withdrawn(right));
    }
}

#[cfg(test)]
mod tests {
    use super::super::clients::{ClientLimits, Clients, Rate};
    use super::super::session_stream::SessionStream;
    use super::*;
    use crate::admission::Permits;
    use crate::flow::stream::{StreamCounters, StreamRole, StreamSpec};
    use linerate_facts::protocol::Protocol;
    use std::sync::Arc;
    use std::time::Duration;
    use std::time::Instant;

    #[test]
    fn a_token_works_once_and_not_after_its_time() {
        let (permits, clients) = (Permits::open(8), Clients::new(ClientLimits::default()));
        let stream = |time| {
            let client = "192.0.2.1".parse().expect("an address");
            let permit = permits.take(client).expect("a permit");
            let share = clients.take(client, 0, Rate { wish: 0.0, dealt: 0.0 }).expect("a share");
            let spec = StreamSpec::new(Protocol::Tcp, StreamRole::Worker);
            let counters = StreamCounters::new(Instant::now());
            Arc::new(SessionStream::new(spec, counters, (client, time), share, permit))
        };
        let tokens = OneTimeTokens::default();
        let (one, late, never) = (OneTimeToken::random(), OneTimeToken::random(), OneTimeToken::random());
        let (one, late, never) = (one.expect("a token"), late.expect("a token"), never.expect("a token"));
        let first = stream(Duration::from_secs(60));
        tokens.issue(one.clone(), first.clone());
        tokens.issue(late.clone(), stream(Duration::ZERO));
        assert!(tokens.claim(never.bytes()).is_none());
        let claimed = tokens.claim(one.bytes()).expect("the right");
        assert!(Arc::ptr_eq(&claimed, &first) && claimed.is_awaited());
        assert!(tokens.claim(one.bytes()).is_none(), "used");
        assert!(tokens.claim(late.bytes()).is_some_and(|stream| !stream.is_awaited()), "expired");
        tokens.issue(one.clone(), first.clone());
        tokens.withdraw(|stream| Arc::ptr_eq(stream, &first));
        assert!(tokens.claim(one.bytes()).is_none(), "withdrawn");
    }
}
