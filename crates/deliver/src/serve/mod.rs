//! A server of files: HTTP/1.1 for any client, read-only unless it may take files, too. As many connections as there
//! are permits, a few of them on threads at a time; nothing but the tree is ever opened.

mod answer;
mod block_sums;
mod body;
mod connection;
mod incoming;
mod lists;
mod reply;
mod rest;
mod served_stream;
mod take;
mod tally;
mod threads;
mod tree;
mod work;

use crate::dialled::DialledConnections;
use crate::tls::ServerTls;
use block_sums::{KeptDigests, KeptSums, SumReads};
use connection::{Admission, Connection, HANDSHAKE_TIME, turn_away};
use incoming::{Incoming, remove_old_parts};
use linerate_facts::failure::Failure;
use linerate_facts::room::StorageLimits;
use linerate_measure::measure::Measurement;
use linerate_measure::run::ServedResult;
use linerate_system::clock;
use linerate_system::readiness::{Interest, ManySockets};
use linerate_system::stop::Stop;
use linerate_transport::admission::{Permits, SharedPending, listen};
pub use linerate_transport::agent::BearerToken;
use linerate_transport::flow::rate_limit::RateLimit;
use linerate_web::Guard;
use lists::SharedLists;
use served_stream::KernelTls;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
pub use tally::AccessLog;
use tally::{HostWatch, ServedFlow, Tally};
use threads::{ServerThreads, ThreadUse, WaitingConnections, Work};
pub use tree::ServedTree;
use tree::SharedFiles;

#[cfg(test)]
pub(crate) use take::tests::{ServingConnection, ServingFolder};

/// Connections that are accepted in a row.
const MOST_ACCEPTED: usize = 256;
/// The port of a server for which none is named.
pub const DEFAULT_PORT: u16 = 7415;

/// The number under which epoll reports the stop; the numbers of connections do not get there.
const STOP: u64 = u64::MAX;
/// The numbers of connections that this end opens begin here.
const FIRST_DIALLED: u64 = 1 << 62;
/// How often the server looks after its clients; without any it sleeps until one connects.
const LOOK: Duration = Duration::from_millis(100);
/// How often it looks for clients that were waited for too long.
const LATE_LOOK: Duration = Duration::from_millis(500);
/// How often it looks for parts that no client came back for.
const PARTS_LOOK: Duration = Duration::from_secs(3600);
/// Without descriptors nothing can be accepted: a moment later there may be one.
const NO_DESCRIPTOR: Duration = Duration::from_millis(20);

/// The bounds of a server.
#[derive(Clone, Default)]
pub struct FileServerSettings {
    /// Connections at once; one client gets half of them at most.
    pub connections: usize,
    /// Connections under TLS that have not agreed on their keys, at once; they are not part of those.
    pub handshakes: usize,
    /// Of all connections together.
    pub bytes_per_second: Option<f64>,
    /// What a client has to show; none: nothing.
    pub token: Option<BearerToken>,
    /// Names of this host beside its own, which clients without a token may ask for.
    pub names: Vec<String>,
    /// Files are taken, too, where there is nothing of their names, within these limits; none: it is read-only.
    pub writable: Option<StorageLimits>,
    /// Under TLS; none: in the clear.
    pub tls: Option<ServerTls>,
    /// The disks below what is served (see [`linerate_machine::flow_devices::disks_below`]): they are named where they limit.
    pub disks: BTreeSet<String>,
}

/// A server that listens.
pub struct FileServer {
    listeners: Vec<TcpListener>,
    /// These, by their place in the list, and the connections that wait for their clients.
    many: ManySockets,
    tree: ServedTree,
    settings: FileServerSettings,
    access_log: Option<Arc<AccessLog>>,
}

/// What a server does at this moment.
#[derive(Clone, Copy, Debug)]
pub struct ServedNow {
    pub connections: usize,
    /// Since it began, files in both directions.
    pub bytes: u64,
    pub requests: u64,
    /// Of them, answered with an error.
    pub failed: u64,
}

/// What all connections share.
struct Shared<'a> {
    tree: &'a ServedTree,
    token: Option<&'a BearerToken>,
    /// Which names it answers to; none: to all.
    guard: Option<Guard>,
    writable: bool,
    incoming: Arc<Incoming>,
    tls: Option<&'a ServerTls>,
    kernel_tls: KernelTls,
    rate: Option<RateLimit>,
    permits: Arc<Permits>,
    pending: SharedPending<u64>,
    lists: SharedLists,
    sum_reads: SumReads,
    sums: KeptSums,
    digests: KeptDigests,
    tally: Tally,
    flow: ServedFlow,
    files: SharedFiles,
    threads: ThreadUse,
    /// How files are read past the page cache, once one was.
    method: Mutex<Option<String>>,
    access_log: Option<Arc<AccessLog>>,
    stop: &'a Stop,
}

impl<'a> Shared<'a> {
    fn new(tree: &'a ServedTree, settings: &'a FileServerSettings, stop: &'a Stop) -> Self {
        Shared {
            tree,
            token: settings.token.as_ref(),
            guard: settings.token.is_none().then(|| Guard::of_this_host().with_names(&settings.names)),
            writable: settings.writable.is_some(),
            incoming: Incoming::new(settings.writable.unwrap_or_default()),
            tls: settings.tls.as_ref(),
            kernel_tls: KernelTls::new(settings),
            rate: settings.bytes_per_second.map(|rate| RateLimit::new(rate, clock::now())),
            permits: Permits::shared(settings.connections),
            // Each costs a descriptor and little memory, and a client that is driven out comes again at once: the more there
            // may be, the less those who say nothing cost the others.
            pending: SharedPending::new(settings.handshakes, HANDSHAKE_TIME),
            lists: SharedLists::default(),
            sum_reads: SumReads::new(settings.bytes_per_second),
            sums: KeptSums::default(),
            digests: KeptDigests::default(),
            tally: Tally::default(),
            flow: ServedFlow::default(),
            files: SharedFiles::default(),
            threads: ThreadUse::default(),
            method: Mutex::default(),
            access_log: None,
            stop,
        }
    }

    fn now(&self) -> ServedNow {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServedNow {
            connections: self.permits.taken(),
            bytes: self.flow.moved(),
            requests: read(&self.tally.requests),
            failed: read(&self.tally.failed),
        }
    }

    /// No client is connected, and no list is kept for one.
    fn is_idle(&self) -> bool {
        self.permits.taken() == 0 && self.pending.is_empty() && self.lists.is_empty()
    }
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
        let listeners = listen(addresses).map_err(|error| error.advise("--listen", in_use))?;
        let watched = ManySockets::new().and_then(|many| {
            let mut numbered = listeners.iter().zip(0..);
            numbered.try_for_each(|(listener, number)| many.watch(listener, number)).map(|()| many)
        });
        let many = watched.map_err(|error| Failure::Lacks(format!("--listen: the socket: {error}")))?;
        Ok(FileServer { listeners, many, tree, settings, access_log: None })
    }

    /// A line for each answer goes there.
    pub fn with_access_log(self, log: Option<AccessLog>) -> Self {
        FileServer { access_log: log.map(Arc::new), ..self }
    }

    /// Where it listens.
    pub fn local_addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// The paths at the top.
    pub fn tops(&self) -> Vec<String> {
        self.tree.tops()
    }

    /// Serves until `stop`; connections end within a moment of it; `now` gets what goes on while anything does. What was
    /// served, and the same as a measurement, none where nothing was moved.
    pub fn serve(&self, stop: &Stop, now: &mut dyn FnMut(ServedNow)) -> (ServedResult, Option<Measurement>) {
        self.serve_with(None, stop, now)
    }

    /// The same over connections that this end opens.
    pub fn serve_dialled(
        &self,
        dialled: &DialledConnections,
        stop: &Stop,
    ) -> (ServedResult, Option<Measurement>) {
        self.serve_with(Some(dialled), stop, &mut |_| {})
    }

    fn serve_with(
        &self,
        dialled: Option<&DialledConnections>,
        stop: &Stop,
        now: &mut dyn FnMut(ServedNow),
    ) -> (ServedResult, Option<Measurement>) {
        let begun = clock::now();
        let shared =
            Shared { access_log: self.access_log.clone(), ..Shared::new(&self.tree, &self.settings, stop) };
        let mut watch = HostWatch::new(&shared.flow);
        self.serve_all(&shared, &mut watch, dialled, now);
        let method = linerate_system::lock(&shared.method).clone();
        let measured = watch.end(&self.settings.disks);
        let encrypts_here = shared.kernel_tls.why_not();
        let served = ServedResult { encrypts_here, ..shared.tally.summary(clock::since(begun), method) };
        let measured = measured.map(|measured| Measurement { method: tally::method(&served), ..measured });
        (served, measured)
    }

    /// Finds the connections of which there is news, and gives them threads, until the server ends.
    fn serve_all<'s>(
        &'s self,
        shared: &'s Shared<'s>,
        watch: &mut HostWatch<'_>,
        dialled: Option<&DialledConnections>,
        now: &mut dyn FnMut(ServedNow),
    ) {
        let threads = ServerThreads::new(&shared.threads, WaitingConnections::new(&self.many));
        let (mut news, mut looked) = (Vec::new(), clock::now());
        let mut number = self.listeners.len() as u64;
        std::thread::scope(|scope| {
            if shared.writable {
                let remove = || remove_old_parts(shared, PARTS_LOOK);
                // Without a thread for it old parts stay until the next start.
                let _ = std::thread::Builder::new().name("old parts".into()).spawn_scoped(scope, remove);
            }
            if let Some(dialled) = dialled {
                let waiting = &threads.waiting;
                let open = move || {
                    let mut number = FIRST_DIALLED;
                    dialled.open_all(shared.stop, |stream, peer| {
                        admit(stream, (number, peer), waiting, shared);
                        number += 1;
                    });
                };
                // Without a thread for it nobody is served, and the other end says so.
                let _ = std::thread::Builder::new().name("dial".into()).spawn_scoped(scope, open);
            }
            // Without a descriptor for it the stop is looked at as the clients are.
            let is_woken = shared.stop.descriptor().is_some_and(|stop| self.many.watch(&stop, STOP).is_ok());
            while !shared.stop.is_ended() {
                let is_idle = is_woken && !watch.is_on() && shared.is_idle() && threads.is_idle();
                let waited = self.many.wait((!is_idle).then_some(LOOK), &mut news);
                if dialled.is_some() {
                    watch.begin();
                }
                watch.tick();
                now(shared.now());
                if waited.is_err() {
                    continue;
                }
                for reported in news.drain(..) {
                    match self.listeners.get(reported as usize) {
                        Some(listener) => accept(listener, shared.stop, |stream, peer| {
                            watch.begin();
                            admit(stream, (number, peer.ip()), &threads.waiting, shared);
                            number += 1;
                        }),
                        None => {
                            let connection = threads.waiting.take(reported);
                            connection.into_iter().for_each(|ready| threads.push(Work::Move, ready, scope));
                        }
                    }
                }
                if clock::since(looked) >= LATE_LOOK {
                    looked = clock::now();
                    shared.lists.forget_old();
                    for late in threads.waiting.take_late() {
                        threads.push(Work::Move, late, scope);
                    }
                }
                // Those that could not begin before.
                for work in [Work::Move, Work::List, Work::Sum] {
                    threads.begin_threads(work, scope);
                }
            }
            threads.end();
        });
        threads.waiting.clear();
    }
}

/// Its first request is waited for without a thread, and so is its handshake.
fn admit<'s>(
    stream: TcpStream,
    (number, client): (u64, IpAddr),
    waiting: &WaitingConnections<'s>,
    shared: &'s Shared<'s>,
) {
    let admission = if shared.tls.is_some() {
        let (entry, driven_out) = shared.pending.add(client, number);
        drop(driven_out.and_then(|number| waiting.take(number)));
        Admission::Pending(entry)
    } else if let Ok(permit) = shared.permits.take(client) {
        Tally::add(&shared.tally.connections, 1);
        Admission::Admitted(permit)
    } else {
        Tally::add(&shared.tally.refused, 1);
        return turn_away(&stream);
    };
    if let Some(connection) = Connection::new(stream, (number, client), admission, shared) {
        waiting.add(connection, Interest::Read);
    }
}

/// Those that wait, so many at a time that a flood of them keeps nobody else from their turn: epoll reports the rest
/// again.
fn accept(listener: &TcpListener, stop: &Stop, mut taken: impl FnMut(TcpStream, SocketAddr)) {
    for _ in 0..MOST_ACCEPTED {
        match listener.accept() {
            // It blocks, whatever the listener does (accept(2)).
            Ok((stream, peer)) => taken(stream, peer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                tracing::debug!(%error, "accept");
                stop.wait(NO_DESCRIPTOR);
                return;
            }
        }
    }
}
