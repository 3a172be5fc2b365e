//! Connections that the serving end opens, because only the fetching end can be reached: `linerate copy` to another host.
//! The fetching end asks for each one by a one-time token, over a channel that the two have already. A connection that
//! does not show a token within moments is closed.

use linerate_system::clock;
use linerate_system::lock;
use linerate_system::stop::{STOP_CHECK, Stop};
use linerate_transport::admission::{PENDING_CONNECTIONS, Permits, TIME_TO_PROVE, accept_all};
use linerate_transport::agent::{DeadlineStream, OneTimeToken, OneTimeTokens, SECRET_BYTES};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A connection that was asked for has this long to come.
const COMES_WITHIN: Duration = Duration::from_secs(10);
/// One that is opened has this long to be open.
const OPENS_WITHIN: Duration = Duration::from_secs(3);
/// Connections that were asked for and are not open yet; the one that asks for more waits.
const MOST_ASKED: usize = 256;

/// The fetching end: connections that the other end opens when it is asked to.
pub struct AwaitedConnections {
    asked: OneTimeTokens<SyncSender<TcpStream>>,
    /// Brings a token to the other end.
    ask: Box<dyn Fn(&OneTimeToken) + Send + Sync>,
    pending: Arc<Permits>,
}

impl AwaitedConnections {
    /// `ask` brings a token to the other end.
    pub fn new(ask: impl Fn(&OneTimeToken) + Send + Sync + 'static) -> Self {
        let pending = Permits::shared(PENDING_CONNECTIONS);
        AwaitedConnections { asked: OneTimeTokens::default(), ask: Box::new(ask), pending }
    }

    /// Accepts connections until `stop`; those that were asked for go to those who asked.
    pub fn accept(self: &Arc<Self>, listener: &TcpListener, stop: &Stop) {
        accept_all(listener, stop, |stream, origin| {
            let Ok(permit) = self.pending.take(origin) else { return };
            let own = Arc::clone(self);
            let prove = move || {
                own.admit(stream);
                drop(permit);
            };
            // Without a thread for it the connection is closed, and asked for again.
            let _ = std::thread::Builder::new().name("token".into()).spawn(prove);
        });
    }

    fn admit(&self, stream: TcpStream) {
        let mut shown = [0; SECRET_BYTES];
        if DeadlineStream::new(&stream, TIME_TO_PROVE).read_exact(&mut shown).is_ok()
            && let Some(taker) = self.asked.claim(&shown)
        {
            // One that waits no more drops it.
            let _ = taker.try_send(stream);
        }
    }

    /// A connection that the other end opens now.
    pub(crate) fn next(&self, stop: &Stop) -> io::Result<TcpStream> {
        let token = OneTimeToken::random()?;
        let (taker, arriving) = sync_channel(1);
        self.asked.issue(token.clone(), taker);
        (self.ask)(&token);
        let until = clock::now() + COMES_WITHIN;
        let came = loop {
            match arriving.recv_timeout(STOP_CHECK) {
                Ok(stream) => break Ok(stream),
                Err(_) if clock::now() >= until => break Err(io::ErrorKind::TimedOut.into()),
                Err(RecvTimeoutError::Timeout) if !stop.is_ended() => {}
                Err(_) => break Err(io::ErrorKind::Interrupted.into()),
            }
        };
        drop(self.asked.claim(token.bytes()));
        came
    }
}

/// The serving end: it opens the connections that the fetching end asks for, to each of its addresses in turn.
pub struct DialledConnections {
    addresses: Vec<SocketAddr>,
    tokens: Mutex<Receiver<OneTimeToken>>,
}

impl DialledConnections {
    /// To these addresses, with the tokens that are sent there.
    pub fn to(addresses: Vec<SocketAddr>) -> (Self, SyncSender<OneTimeToken>) {
        let (sender, tokens) = sync_channel(MOST_ASKED);
        (DialledConnections { addresses, tokens: Mutex::new(tokens) }, sender)
    }

    /// Opens those that are asked for until `stop`, one after another. An address that does not answer is left out, unless
    /// it is the last one.
    pub(crate) fn open_all(&self, stop: &Stop, mut opened: impl FnMut(TcpStream, IpAddr)) {
        let (tokens, mut addresses) = (lock(&self.tokens), VecDeque::from(self.addresses.clone()));
        while !stop.is_ended() {
            let token = match tokens.recv_timeout(STOP_CHECK) {
                Ok(token) => token,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            while let Some(address) = addresses.pop_front() {
                let (open, is_last) = (open(address, &token), addresses.is_empty());
                if open.is_ok() || is_last {
                    addresses.push_back(address);
                }
                match open {
                    Ok(stream) => {
                        opened(stream, address.ip());
                        break;
                    }
                    // The other end gives it up by itself, and asks again.
                    Err(error) => tracing::debug!(%error, %address, "a connection"),
                }
                if is_last {
                    break;
                }
            }
        }
    }
}

fn open(address: SocketAddr, token: &OneTimeToken) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, OPENS_WITHIN)?;
    stream.set_write_timeout(Some(OPENS_WITHIN))?;
    stream.write_all(token.bytes())?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_transport::admission::listen;

    #[test]
    fn only_what_shows_a_token_that_is_asked_for_is_taken_and_once() {
        let listener = listen(&["127.0.0.1:0".parse().expect("an address")]).expect("a port").remove(0);
        let address = listener.local_addr().expect("bound");
        let (dialled, tokens) = DialledConnections::to(vec![address]);
        let (kept, stop) = (Arc::new(Mutex::new(None)), Stop::new());
        let asked = Arc::clone(&kept);
        let awaited = Arc::new(AwaitedConnections::new(move |token| {
            // A wrong token first, which another host might guess.
            let wrong = OneTimeToken::random().expect("a token");
            let all = [wrong, token.clone()];
            all.into_iter().for_each(|token| tokens.try_send(token).expect("room"));
            *lock(&asked) = Some(token.clone());
        }));
        std::thread::scope(|scope| {
            let _ends = stop.ends_at_drop();
            scope.spawn(|| awaited.accept(&listener, &stop));
            scope.spawn(|| {
                dialled.open_all(&stop, |mut stream, _| drop(stream.write_all(b"x")));
            });
            let mut stream = awaited.next(&stop).expect("a connection");
            let mut came = [0];
            stream.read_exact(&mut came).expect("its first byte");
            assert_eq!(&came, b"x");
            let token = lock(&kept).clone().expect("asked");
            assert!(awaited.asked.claim(token.bytes()).is_none());
            // The same token again opens nothing.
            let mut again = TcpStream::connect(address).expect("connected");
            again.write_all(token.bytes()).expect("sent");
            again.set_read_timeout(Some(COMES_WITHIN)).expect("a time-out");
            assert!(matches!(again.read(&mut came), Ok(0) | Err(_)));
        });
        assert!(awaited.next(&stop).is_err(), "all has ended");
    }

    #[test]
    fn connections_go_to_each_address_in_turn_and_to_none_that_does_not_answer() {
        let listener = listen(&["0.0.0.0:0".parse().expect("an address")]).expect("a port").remove(0);
        let port = listener.local_addr().expect("bound").port();
        let silent = listen(&["127.0.0.1:0".parse().expect("an address")]).expect("a port").remove(0);
        let closed = silent.local_addr().expect("bound");
        drop(silent);
        let all = [[127, 0, 0, 1], [127, 0, 0, 2]].map(|ip| SocketAddr::from((ip, port)));
        let (dialled, tokens) = DialledConnections::to(vec![all[0], closed, all[1]]);
        (0..4).for_each(|_| tokens.try_send(OneTimeToken::random().expect("a token")).expect("room"));
        drop(tokens);
        let mut came = Vec::new();
        dialled.open_all(&Stop::new(), |stream, ip| came.push((stream.peer_addr().expect("open"), ip)));
        let ips: Vec<IpAddr> = came.iter().map(|(_, ip)| *ip).collect();
        assert_eq!(ips, [all[0], all[1], all[0], all[1]].map(|address| address.ip()));
        assert!(came.iter().all(|(peer, ip)| peer.ip() == *ip));
    }
}
