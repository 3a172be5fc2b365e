//! Who may come in: the waiting room of connections that nobody vouches for yet, and the one-time tokens.

use super::lane::Lane;
use super::secret::{SECRET_BYTES, Token, same};
use crate::flow::origin::{most_crowding, origin};
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// A lock whose data stays whole if a holder panics: every change under it is one step.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connections that have shown neither key nor token yet. Their number, and that of their threads, is bounded; when the room is
/// full, a newcomer takes the place of the oldest connection of the network that fills it most.
pub struct WaitingRoom {
    bound: usize,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    next_number: u64,
    /// Oldest first.
    visitors: Vec<Entry>,
    /// Threads whose visitor has gone by itself: they end at once, but on a busy machine they are there for a while.
    leaving: Vec<JoinHandle<()>>,
}

struct Entry {
    number: u64,
    origin: IpAddr,
    stream: Arc<TcpStream>,
    thread: JoinHandle<()>,
}

/// A visitor's place in the room; it is given back when this is dropped.
pub struct Visit {
    room: Arc<WaitingRoom>,
    number: u64,
}

impl WaitingRoom {
    /// Room for `bound` connections.
    pub fn new(bound: usize) -> Self {
        WaitingRoom { bound: bound.max(1), inside: Mutex::default() }
    }

    /// Lets a connection in and serves it on a thread of its own, after a place was made for it.
    pub fn receive(
        self: &Arc<Self>,
        stream: TcpStream,
        address: IpAddr,
        serve: impl FnOnce(Arc<TcpStream>, Visit) + Send + 'static,
    ) -> io::Result<()> {
        loop {
            self.see_off();
            let mut inside = lock(&self.inside);
            if inside.visitors.len() >= self.bound {
                let origins: Vec<IpAddr> = inside.visitors.iter().map(|entry| entry.origin).collect();
                let victim = most_crowding(&origins).unwrap_or(0);
                let entry = inside.visitors.remove(victim);
                drop(inside);
                entry.turn_away();
                continue;
            }
            let number = inside.next_number;
            inside.next_number += 1;
            let stream = Arc::new(stream);
            // A visit leaves the room when it goes, for which it takes the lock that is held here. Where no thread is to be had, its
            // closure is dropped within `spawn`: so it does not own the visit.
            let visit = Arc::new(Mutex::new(Some(Visit { room: self.clone(), number })));
            let (carried, theirs) = (visit.clone(), stream.clone());
            let spawned = std::thread::Builder::new().name("visitor".into()).spawn(move || {
                let taken = lock(&carried).take();
                if let Some(visit) = taken {
                    serve(theirs, visit);
                }
            });
            // The thread's first use of the room waits for this lock, so it finds its entry.
            if let Ok(thread) = spawned {
                inside.visitors.push(Entry { number, origin: origin(address), stream, thread });
                return Ok(());
            }
            drop(inside);
            return spawned.map(|_| ());
        }
    }

    /// Turns everybody away.
    pub fn clear(&self) {
        let visitors = std::mem::take(&mut lock(&self.inside).visitors);
        for entry in visitors {
            entry.turn_away();
        }
        self.see_off();
    }

    /// Waits for the threads of those who went: so the bound holds for threads, however fast visitors come and go.
    fn see_off(&self) {
        let leaving = std::mem::take(&mut lock(&self.inside).leaving);
        for thread in leaving {
            let _ = thread.join();
        }
    }

    /// Connections inside.
    pub fn len(&self) -> usize {
        lock(&self.inside).visitors.len()
    }

    fn remove(&self, number: u64) -> Option<JoinHandle<()>> {
        let visitors = &mut lock(&self.inside).visitors;
        let place = visitors.iter().position(|entry| entry.number == number)?;
        Some(visitors.remove(place).thread)
    }
}

impl Entry {
    /// Closes the connection and waits for its thread, which wakes at once: so the bound holds for threads, too.
    fn turn_away(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        let _ = self.thread.join();
    }
}

impl Visit {
    /// Leaves the room because key or token were right. False: it was turned away before, and must not go on.
    pub fn leave(self) -> bool {
        self.room.remove(self.number).is_some()
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if let Some(thread) = self.room.remove(self.number) {
            lock(&self.room.inside).leaving.push(thread);
        }
    }
}

/// Tokens that were handed out and not used yet.
#[derive(Default)]
pub struct Tokens(Mutex<Vec<(Token, Arc<Lane>)>>);

impl Tokens {
    /// Hands out the right to a lane.
    pub fn issue(&self, token: Token, lane: Arc<Lane>) {
        lock(&self.0).push((token, lane));
    }

    /// Takes the right that a connection shows. Each works once, and not after its time.
    pub fn claim(&self, shown: &[u8; SECRET_BYTES]) -> Option<Arc<Lane>> {
        let mut tokens = lock(&self.0);
        // All are compared, whichever fits: the time tells nothing.
        let place = tokens.iter().enumerate().fold(None, |found, (index, (token, _))| {
            if same(token.bytes(), shown) { Some(index) } else { found }
        })?;
        let (_, lane) = tokens.swap_remove(place);
        (Instant::now() < lane.expires).then_some(lane)
    }

    /// Forgets the rights to some lanes.
    pub fn withdraw(&self, withdrawn: impl Fn(&Lane) -> bool) {
        lock(&self.0).retain(|(_, lane)| !withdrawn(lane));
    }
}

#[cfg(test)]
mod tests {
    use super::super::clients::{ClientLimits, Clients, Rate};
    use super::super::lane::{Receive, Work};
    use super::super::places::Places;
    use super::*;
    use crate::flow::receive::{Received, Terms};
    use std::io::Read;
    use std::net::TcpListener;
    use std::time::Duration;

    /// Connects from a loopback address, lets the connection in; it waits until it is turned away, then tells its number.
    fn visit(
        room: &Arc<WaitingRoom>,
        listener: &TcpListener,
        origin: &str,
        gone: &std::sync::mpsc::Sender<u64>,
    ) -> TcpStream {
        let ours = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (theirs, _) = listener.accept().expect("a connection");
        let gone = gone.clone();
        room.receive(theirs, origin.parse().expect("an address"), move |stream, visit| {
            let _ = (&*stream).read(&mut [0]);
            let number = visit.number;
            assert!(!visit.leave(), "turned away already");
            gone.send(number).expect("somebody listens");
        })
        .expect("let in");
        ours
    }

    #[test]
    fn a_flood_from_one_origin_drives_out_itself_oldest_first() {
        let room = Arc::new(WaitingRoom::new(4));
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let (sender, gone) = std::sync::mpsc::channel();
        let mut kept = vec![visit(&room, &listener, "192.0.2.1", &sender)];
        for _ in 0..10 {
            kept.push(visit(&room, &listener, "198.51.100.7", &sender));
            assert!(room.len() <= 4);
        }
        let order: Vec<u64> = gone.try_iter().collect();
        assert_eq!(order, [1, 2, 3, 4, 5, 6, 7], "number 0, of another origin, stays");
        // Two addresses of one IPv6 network are one origin.
        kept.push(visit(&room, &listener, "2001:db8::1", &sender));
        kept.push(visit(&room, &listener, "2001:db8::2", &sender));
        kept.push(visit(&room, &listener, "203.0.113.1", &sender));
        assert_eq!(gone.try_iter().collect::<Vec<_>>(), [8, 9, 11]);
        room.clear();
        assert_eq!(room.len(), 0);
        assert_eq!(gone.try_iter().count(), 4);
    }

    #[test]
    fn a_token_works_once_and_not_after_its_time() {
        let (places, clients) = (Places::open(8), Clients::new(ClientLimits::default()));
        let lane = |time| {
            let client = "192.0.2.1".parse().expect("an address");
            let place = places.take(client).expect("a place");
            let share = clients.take(client, 0, Rate::UNBOUND).expect("a share");
            let received = Received::new(Instant::now());
            let protocol = crate::plan::Protocol::Tcp;
            let receive = Receive { protocol, receive_buffer_bytes: None, terms: Terms::default(), received };
            let work = Work::Receive(Box::new(receive));
            Arc::new(Lane::new(work, client, time, share, place))
        };
        let tokens = Tokens::default();
        let (one, late, never) = (Token::random(), Token::random(), Token::random());
        let (one, late, never) = (one.expect("a token"), late.expect("a token"), never.expect("a token"));
        let first = lane(Duration::from_secs(60));
        tokens.issue(one.clone(), first.clone());
        tokens.issue(late.clone(), lane(Duration::ZERO));
        assert!(tokens.claim(never.bytes()).is_none());
        assert!(tokens.claim(one.bytes()).is_some_and(|lane| Arc::ptr_eq(&lane, &first)));
        assert!(tokens.claim(one.bytes()).is_none(), "used");
        assert!(tokens.claim(late.bytes()).is_none(), "expired");
        tokens.issue(one.clone(), first.clone());
        tokens.withdraw(|lane| std::ptr::eq(lane, &*first));
        assert!(tokens.claim(one.bytes()).is_none(), "withdrawn");
    }
}
