//! A server of files: HTTP/1.1 for any client, read-only unless it may take files, too. A thread for each
//! connection, as many as there are permits; nothing but the tree is ever opened.

mod answer;
mod body;
mod connection;
mod flow;
mod opened;
mod reply;
mod served_stream;
mod sums;
mod take;
mod tally;
mod token;
mod tree;

use crate::evidence::limit_of;
use crate::tls::ServerTls;
use connection::{serve_connection, turn_away};
use flow::{HostWatch, ServedFlow};
use linerate_facts::failure::Failure;
use linerate_measure::measure::Measurement;
use linerate_system::readiness::wait_readable;
use linerate_transport::admission::{Permits, listen};
use linerate_transport::flow::rate_limit::RateLimit;
use socket2::Socket;
use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use sums::{KeptDigests, KeptSums};
pub use tally::ServeSummary;
use tally::Tally;
pub use token::BearerToken;
pub use tree::ServedTree;

/// The port of a server that was told none.
pub const DEFAULT_PORT: u16 = 7415;

/// How often the listener looks whether to stop.
const LOOK: Duration = Duration::from_millis(100);
/// Without descriptors nothing can be accepted: a moment later there may be one.
const NO_DESCRIPTOR: Duration = Duration::from_millis(20);

/// The bounds of a server.
#[derive(Clone, Debug)]
pub struct FileServerSettings {
    /// Connections at once; one client gets half of them at most.
    pub connections: usize,
    /// Of all connections together.
    pub bytes_per_second: Option<f64>,
    /// What a client has to show; none: nothing.
    pub token: Option<BearerToken>,
    /// Files are taken, too, where there is nothing of their names.
    pub writable: bool,
    /// Under TLS; none: in the clear.
    pub tls: Option<ServerTls>,
    /// The disks below what is served (see [`crate::disks_below`]): they are named where they limit.
    pub disks: BTreeSet<String>,
}

/// A server that listens.
pub struct FileServer {
    sockets: Vec<Socket>,
    tree: ServedTree,
    settings: FileServerSettings,
}

/// What all connections share.
struct Shared<'a> {
    tree: &'a ServedTree,
    token: Option<&'a BearerToken>,
    writable: bool,
    tls: Option<&'a ServerTls>,
    rate: Option<RateLimit>,
    sums: KeptSums,
    digests: KeptDigests,
    tally: Tally,
    flow: ServedFlow,
    /// How files are read past the page cache, once one was.
    method: Mutex<Option<String>>,
    stop: &'a AtomicBool,
}

impl FileServer {
    /// Listens; nothing is answered before [`FileServer::serve`].
    pub fn bind(
        addresses: &[SocketAddr],
        tree: ServedTree,
        settings: FileServerSettings,
    ) -> Result<Self, Failure> {
        let in_use =
            "another program, or another `linerate serve`, listens there; choose another port with --listen";
        let sockets = listen(addresses).map_err(|error| error.advise("--listen", in_use))?;
        let nonblocking = sockets.iter().try_for_each(|socket| socket.set_nonblocking(true));
        nonblocking.map_err(|error| Failure::Lacks(format!("--listen: the socket: {error}")))?;
        Ok(FileServer { sockets, tree, settings })
    }

    /// Where it listens.
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        let address = |socket: &Socket| socket.local_addr().ok()?.as_socket();
        self.sockets.iter().filter_map(address).collect()
    }

    /// The paths at the top.
    pub fn tops(&self) -> Vec<String> {
        self.tree.tops()
    }

    /// Serves until `stop`; connections end within a moment of it. What was served, and the same as a measurement,
    /// none where nothing was moved.
    pub fn serve(&self, stop: &AtomicBool) -> (ServeSummary, Option<Measurement>) {
        let begun = Instant::now();
        let shared = Shared {
            tree: &self.tree,
            token: self.settings.token.as_ref(),
            writable: self.settings.writable,
            tls: self.settings.tls.as_ref(),
            rate: self.settings.bytes_per_second.map(|rate| RateLimit::new(rate, begun)),
            sums: KeptSums::default(),
            digests: KeptDigests::default(),
            tally: Tally::default(),
            flow: ServedFlow::default(),
            method: Mutex::default(),
            stop,
        };
        let permits = Permits::shared(self.settings.connections);
        let mut watch = HostWatch::new(&shared.flow);
        std::thread::scope(|scope| {
            while !stop.load(Ordering::Relaxed) {
                let fds: Vec<_> = self.sockets.iter().map(AsFd::as_fd).collect();
                let ready = wait_readable(&fds, LOOK);
                watch.tick();
                let Ok(ready) = ready else { continue };
                let ready = self.sockets.iter().zip(ready).filter(|(_, ready)| *ready);
                for (socket, _) in ready {
                    accept(socket, |stream, peer| {
                        let Ok(permit) = permits.take(peer.ip()) else {
                            Tally::add(&shared.tally.refused, 1);
                            turn_away(&stream, shared.tls.is_some());
                            return;
                        };
                        Tally::add(&shared.tally.connections, 1);
                        watch.begin();
                        let shared = &shared;
                        let serve = move || {
                            let _permit = permit;
                            serve_connection(&stream, shared);
                        };
                        // Without a thread the connection closes.
                        let _ =
                            std::thread::Builder::new().name("connection".into()).spawn_scoped(scope, serve);
                    });
                }
            }
        });
        let method = linerate_system::lock(&shared.method).clone();
        let (busy_seconds, measured) = watch.end(&self.settings.disks);
        let limit = measured.as_ref().map(|measured| limit_of(measured, self.settings.bytes_per_second));
        let summary = ServeSummary { busy_seconds, limit, ..shared.tally.summary(begun.elapsed(), method) };
        let measured = measured.map(|measured| Measurement { method: summary.method(), ..measured });
        (summary, measured)
    }
}

/// All that wait.
fn accept(socket: &Socket, mut taken: impl FnMut(TcpStream, SocketAddr)) {
    loop {
        match socket.accept() {
            Ok((stream, peer)) => {
                let stream = TcpStream::from(stream);
                // Accepted sockets are blocking on Linux whatever the listener is.
                if let (Some(peer), Ok(())) = (peer.as_socket(), stream.set_nonblocking(false)) {
                    taken(stream, peer);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::debug!(%error, "accept");
                std::thread::sleep(NO_DESCRIPTOR);
                return;
            }
        }
    }
}
