//! One-time tokens: the right to open one data stream.

use super::secret::{OneTimeToken, SECRET_BYTES, same};
use super::session_stream::SessionStream;
use linerate_system::clock;
use linerate_system::lock;
use std::sync::{Arc, Mutex};

/// Tokens that were handed out and not used yet.
#[derive(Default)]
pub(crate) struct Tokens(Mutex<Vec<(OneTimeToken, Arc<SessionStream>)>>);

impl Tokens {
    /// Hands out the right to a worker.
    pub(crate) fn issue(&self, token: OneTimeToken, stream: Arc<SessionStream>) {
        lock(&self.0).push((token, stream));
    }

    /// Takes the right that a connection shows. Each works once, and not after its time.
    pub(crate) fn claim(&self, shown: &[u8; SECRET_BYTES]) -> Option<Arc<SessionStream>> {
        let mut tokens = lock(&self.0);
        // All are compared, whichever fits: the time tells nothing.
        let place = tokens.iter().enumerate().fold(None, |found, (index, (token, _))| {
            if same(token.bytes(), shown) { Some(index) } else { found }
        })?;
        let (_, stream) = tokens.swap_remove(place);
        (clock::now() < stream.expires).then_some(stream)
    }

    /// Forgets the rights to some workers.
    pub(crate) fn withdraw(&self, withdrawn: impl Fn(&SessionStream) -> bool) {
        lock(&self.0).retain(|(_, stream)| !withdrawn(stream));
    }
}

#[cfg(test)]
mod tests {
    use super::super::clients::{ClientLimits, Clients, Rate};
    use super::*;
    use crate::admission::Permits;
    use crate::flow::stream::{StreamCounters, StreamRole, StreamSpec};
    use linerate_facts::protocol::Protocol;
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
        let tokens = Tokens::default();
        let (one, late, never) = (OneTimeToken::random(), OneTimeToken::random(), OneTimeToken::random());
        let (one, late, never) = (one.expect("a token"), late.expect("a token"), never.expect("a token"));
        let first = stream(Duration::from_secs(60));
        tokens.issue(one.clone(), first.clone());
        tokens.issue(late.clone(), stream(Duration::ZERO));
        assert!(tokens.claim(never.bytes()).is_none());
        assert!(tokens.claim(one.bytes()).is_some_and(|stream| Arc::ptr_eq(&stream, &first)));
        assert!(tokens.claim(one.bytes()).is_none(), "used");
        assert!(tokens.claim(late.bytes()).is_none(), "expired");
        tokens.issue(one.clone(), first.clone());
        tokens.withdraw(|stream| std::ptr::eq(stream, &*first));
        assert!(tokens.claim(one.bytes()).is_none(), "withdrawn");
    }
}
