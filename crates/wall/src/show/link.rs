//! The way to the server: a thread that keeps the control channel, and connects again when it is lost. The
//! picture does not wait for it.

use crate::control::{Client, ControlMessage, ControlRequest, ScreenReport};
use crate::geometry::TileId;
use linerate_facts::failure::Failure;
use linerate_system::lock;
use linerate_transport::agent::Key;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A server that does not answer is asked again after this.
const AGAIN: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_secs(3);
/// How often a report goes out.
const REPORT: Duration = Duration::from_millis(500);
/// How long to listen before it looks whether there is something to say; with a barrier each frame waits for
/// it.
const LISTEN: Duration = Duration::from_millis(20);
const LISTEN_AT_A_BARRIER: Duration = Duration::from_millis(2);
/// What is said while there is no server is forgotten beyond this.
const MOST_SAID: usize = 64;
/// Messages that wait for the screen at most: it looks fifty times a second.
const MOST_HEARD: usize = 4096;

/// The server of a screen.
#[derive(Clone)]
pub struct ServerSpec {
    /// `HOST` or `HOST:PORT`.
    pub address: String,
    pub key: Key,
}

/// What lies between the screen and the thread.
#[derive(Default)]
struct Between {
    heard: VecDeque<ControlMessage>,
    said: VecDeque<ControlRequest>,
    report: Option<ScreenReport>,
    /// Why there is no connection.
    problem: Option<String>,
}

/// A control channel that is kept.
pub(crate) struct Link {
    between: Arc<Mutex<Between>>,
    stop: Arc<AtomicBool>,
    /// Readable when there is something to hear.
    bell: UnixDatagram,
    thread: Option<JoinHandle<()>>,
}

impl Link {
    /// Connects and asks for the tile, in the background.
    pub(crate) fn start(order: ServerSpec, tile: TileId, barrier: bool) -> std::io::Result<Link> {
        let between = Arc::new(Mutex::new(Between::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let (bell, rope) = UnixDatagram::pair()?;
        bell.set_nonblocking(true)?;
        rope.set_nonblocking(true)?;
        let keeper =
            Keeper { between: Arc::clone(&between), stop: Arc::clone(&stop), rope, order, tile, barrier };
        let thread = std::thread::Builder::new().name("server".into()).spawn(move || keeper.keep())?;
        Ok(Link { between, stop, bell, thread: Some(thread) })
    }

    /// What the server has said since the last call, into `messages`.
    pub(crate) fn hear(&self, messages: &mut Vec<ControlMessage>) {
        // Before the messages are taken, so that none that comes now is slept over.
        while self.bell.recv(&mut [0]).is_ok() {}
        messages.extend(lock(&self.between).heard.drain(..));
    }

    /// What to wait for beside the socket.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Says something as soon as possible.
    pub(crate) fn say(&self, request: ControlRequest) {
        let mut between = lock(&self.between);
        if between.said.len() >= MOST_SAID {
            between.said.pop_front();
        }
        between.said.push_back(request);
    }

    /// The newest report goes out at its time.
    pub(crate) fn report(&self, report: ScreenReport) {
        lock(&self.between).report = Some(report);
    }

    /// Why there is no connection just now.
    pub(crate) fn problem(&self) -> Option<String> {
        lock(&self.between).problem.clone()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It looks at its flag between two messages; while it connects it may hang: left behind then.
            let patience = Instant::now() + Duration::from_millis(300);
            while !thread.is_finished() && Instant::now() < patience {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

struct Keeper {
    between: Arc<Mutex<Between>>,
    stop: Arc<AtomicBool>,
    rope: UnixDatagram,
    order: ServerSpec,
    tile: TileId,
    barrier: bool,
}

impl Keeper {
    fn keep(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            let problem = match self.converse() {
                Ok(()) => return,
                Err(problem) => problem.to_string(),
            };
            lock(&self.between).problem = Some(problem);
            let again = Instant::now() + AGAIN;
            while Instant::now() < again && !self.stop.load(Ordering::Relaxed) {
                std::thread::sleep(LISTEN);
            }
        }
    }

    /// One connection, from its beginning to its end.
    fn converse(&self) -> Result<(), Failure> {
        let ServerSpec { address, key } = &self.order;
        let mut client = Client::connect(address, key, CONNECT)?;
        client.send(&ControlRequest::Join { tile: self.tile })?;
        {
            let mut between = lock(&self.between);
            between.problem = None;
            between.said.clear();
        }
        let listen = if self.barrier { LISTEN_AT_A_BARRIER } else { LISTEN };
        let mut reported = Instant::now();
        while !self.stop.load(Ordering::Relaxed) {
            self.say(&mut client, &mut reported)?;
            if let Some(message) = client.next(listen)? {
                let mut between = lock(&self.between);
                if between.heard.len() < MOST_HEARD {
                    between.heard.push_back(message);
                }
                drop(between);
                // One that waits is enough.
                let _ = self.rope.send(&[1]);
            }
        }
        // The last word: how it all ended.
        reported = Instant::now().checked_sub(REPORT).unwrap_or(reported);
        self.say(&mut client, &mut reported)
    }

    fn say(&self, client: &mut Client, reported: &mut Instant) -> Result<(), Failure> {
        loop {
            let request = lock(&self.between).said.pop_front();
            let Some(request) = request else { break };
            client.send(&request)?;
        }
        if reported.elapsed() < REPORT {
            return Ok(());
        }
        let report = lock(&self.between).report.take();
        if let Some(report) = report {
            *reported = Instant::now();
            client.send(&ControlRequest::Report(report))?;
        }
        Ok(())
    }
}
