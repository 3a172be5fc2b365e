//! The agent: listens, tells control from data, lets in who shows the key or a token, and bounds everything.

use super::host::AgentSettings;
use super::protocol::AgentRequest;
use super::secret::Key;
use super::shared::{PendingEntry, Shared, TICK};
use super::wire::{CONTROL_MAGIC, DATA_MAGIC, DeadlineStream};
use super::{DEFAULT_PORT, data_streams, noise, session};
use crate::admission::{self, prepare_control};
use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_system::stop::Stop;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::Scope;
use std::time::Duration;

/// After its end what was open has this long to end as well.
const ENDING: Duration = Duration::from_secs(3);

/// Who may have the port, and what to do then.
const IN_USE: &str = "is another agent running? Stop it, or choose another port with --listen ADDRESS:PORT \
                      and \
                      name the same port in --peer";

/// The server of `linerate agent`.
pub struct Agent {
    listeners: Vec<TcpListener>,
    shared: Arc<Shared>,
}

impl Agent {
    /// Listens on the addresses; none: on every address, port 7411.
    pub fn bind(listen: &[SocketAddr], key: Key, settings: AgentSettings) -> Result<Agent, Failure> {
        let listeners = admission::listen_or_at(listen, DEFAULT_PORT)
            .map_err(|error| error.advise("--listen", IN_USE))?;
        let shared = Shared::new(key, settings).map_err(|error| {
            Failure::Lacks(format!("the agent cannot start: the kernel gives no random bytes: {error}"))
        })?;
        Ok(Agent { listeners, shared: Arc::new(shared) })
    }

    /// Where it listens, with the ports that the kernel chose for port 0.
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Sessions, receiving workers and unknown connections that there are now.
    pub fn load(&self) -> (usize, usize, usize) {
        (self.shared.sessions.taken(), self.shared.streams.taken(), self.shared.pending.len())
    }

    /// Serves until `stop`, once; then ends every session and worker within about three seconds.
    pub fn serve(&self, stop: &Stop) {
        self.accept_all(stop);
        self.shared.stopping.end();
        self.shared.pending.clear();
        let deadline = clock::now() + ENDING;
        while self.load() != (0, 0, 0) && clock::now() < deadline {
            // It has ended: no stop ends this sleep.
            clock::sleep(Duration::from_millis(10));
        }
    }

    /// Accepts connections, and looks after the streams that are open; without any it sleeps until a client connects.
    fn accept_all(&self, stop: &Stop) {
        let listeners: Vec<_> = self.listeners.iter().map(AsFd::as_fd).collect();
        let mut due = clock::now();
        while !stop.is_ended() {
            if clock::now() >= due {
                self.shared.look_after(clock::now());
                due = clock::now() + TICK;
            }
            let until_due = || due.saturating_duration_since(clock::now());
            // The thread of each connection keeps a reference until it has ended.
            let is_idle = Arc::strong_count(&self.shared) == 1 && self.shared.watched.is_empty();
            let timeout = (!is_idle).then(until_due);
            let Ok(ready) = stop.wait_any_readable(&listeners, timeout) else {
                // The kernel has no memory for that: a moment later it may have.
                stop.wait(admission::NO_DESCRIPTOR);
                continue;
            };
            for (listener, _) in self.listeners.iter().zip(ready).filter(|(_, ready)| *ready) {
                accept(listener, &self.shared, stop);
            }
        }
    }
}

/// Begins a thread of the agent.
pub(crate) fn begin<'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() + Send + 'scope,
) -> Result<(), Failure> {
    let begun = std::thread::Builder::new().spawn_scoped(scope, work);
    begun.map(drop).map_err(|error| Failure::lacks(format!("the agent cannot start a thread: {error}")))
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, stop: &Stop) {
    match admission::accept(listener, stop) {
        None => {}
        // Before a thread is spent on it, and told nothing: closed.
        Some((_, address)) if !shared.settings.allow.admits(address.ip()) => {
            tracing::info!(%address, "refused: not on the allow list");
        }
        Some((stream, address)) if is_garbage(&stream) => {
            tracing::info!(%address, "refused: neither control nor data connection");
        }
        Some((stream, address)) => {
            let theirs = shared.clone();
            let serve = move |stream, entry| open(stream, entry, &theirs);
            // No thread to be had: the connection is dropped, the next one may have more luck.
            let _ = shared.pending.accept(stream, address.ip(), serve);
        }
    }
}

/// What has come of it already is not an opening of our own: a flood of other services' words costs no thread.
fn is_garbage(stream: &TcpStream) -> bool {
    let mut opening = [0; 4];
    let peeked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut opening));
    let garbage = match peeked {
        Ok(0) => true,
        // Of the control channel's magic the last byte is a version, which is told to who has another.
        Ok(length) => {
            let known = [&CONTROL_MAGIC[..3], &DATA_MAGIC[..]];
            !known
                .iter()
                .any(|magic| magic.iter().zip(&opening[..length]).all(|(ours, theirs)| ours == theirs))
        }
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    };
    garbage || stream.set_nonblocking(false).is_err()
}

/// A connection that nobody vouches for: it has `admission` to show the key or a token, and gets no byte
/// before.
fn open(stream: Arc<TcpStream>, entry: PendingEntry, shared: &Shared) {
    let mut wire = DeadlineStream::until(&stream, entry.deadline());
    let mut magic = [0; 4];
    if wire.read_exact(&mut magic).is_err() {
        return;
    }
    match magic {
        CONTROL_MAGIC => control(&stream, wire, entry, shared),
        DATA_MAGIC => data_streams::data(stream, entry, shared),
        // Another version of linerate is told which one this is.
        [a, b, c, _] if [a, b, c] == CONTROL_MAGIC[..3] => {
            let _ = wire.write_all(&CONTROL_MAGIC);
        }
        _ => {}
    }
}

/// Handshake and first message; then the session, on this thread.
fn control(stream: &TcpStream, mut wire: DeadlineStream<'_>, entry: PendingEntry, shared: &Shared) {
    let admitted = noise::respond(&mut wire, &shared.key).and_then(|mut channel| {
        // The handshake's first message may be a replay; who can encrypt this one holds the key.
        let hello: AgentRequest = channel.receiver.receive(&mut wire, noise::HELLO_LIMIT_BYTES)?;
        Ok((channel, hello))
    });
    if let Err(broken) = &admitted {
        tracing::info!(peer = ?stream.peer_addr().ok(), %broken, "control connection refused");
    }
    if let Ok((channel, hello)) = admitted
        && entry.admit()
        && prepare_control(stream).is_ok()
    {
        session::serve(stream, channel, &hello, shared);
    }
}
