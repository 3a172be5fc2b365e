//! The way to the server: a thread that keeps the control channel, and connects again when it is lost. The
//! picture does not wait for it. What the server says over it to a screen, and what the screen asks of it.

use super::check::{Against, Checker, ServerSums};
use super::gate::Expected;
use super::screen::{Origin, Screen};
use crate::control::{Assignment, Client, ControlMessage, ControlRequest, ScreenReport};
use crate::geometry::TileId;
use crate::timeline::Timeline;
use linerate_facts::failure::Failure;
use linerate_system::stop::Stop;
use linerate_system::{clock, lock};
use linerate_transport::agent::Key;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A server that does not answer is asked again after this.
const AGAIN: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_secs(3);
/// How often a report goes out.
const REPORT: Duration = Duration::from_millis(500);
/// What is said while there is no server is forgotten beyond this.
const MOST_SAID: usize = 64;
/// Messages that wait for the screen at most: a signal wakes it.
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
    requests: VecDeque<ControlRequest>,
    report: Option<ScreenReport>,
    /// Why there is no connection.
    problem: Option<String>,
}

/// A control channel that is kept.
pub(crate) struct Link {
    between: Arc<Mutex<Between>>,
    stop: Arc<Stop>,
    /// Readable when there is something to hear; what is sent there wakes the thread.
    signal: UnixDatagram,
    thread: Option<JoinHandle<()>>,
}

impl Link {
    /// Connects and asks for the tile, in the background.
    pub(crate) fn start(order: ServerSpec, tile: TileId) -> std::io::Result<Link> {
        let between = Arc::new(Mutex::new(Between::default()));
        let stop = Arc::new(Stop::new());
        let (signal, keeper_signal) = UnixDatagram::pair()?;
        signal.set_nonblocking(true)?;
        keeper_signal.set_nonblocking(true)?;
        let keeper =
            Keeper { between: Arc::clone(&between), stop: Arc::clone(&stop), keeper_signal, order, tile };
        let thread = std::thread::Builder::new().name("server".into()).spawn(move || keeper.keep())?;
        Ok(Link { between, stop, signal, thread: Some(thread) })
    }

    /// What the server has said since the last call, into `messages`.
    pub(crate) fn hear(&self, messages: &mut Vec<ControlMessage>) {
        // Before the messages are taken, so that none that comes now is slept over.
        while self.signal.recv(&mut [0]).is_ok() {}
        messages.extend(lock(&self.between).heard.drain(..));
    }

    /// What to wait for beside the socket.
    pub(crate) fn signal(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    /// Says something as soon as possible.
    pub(crate) fn say(&self, request: ControlRequest) {
        let mut between = lock(&self.between);
        if between.requests.len() >= MOST_SAID {
            between.requests.pop_front();
        }
        between.requests.push_back(request);
        drop(between);
        self.wake();
    }

    /// The newest report goes out at its time.
    pub(crate) fn report(&self, report: ScreenReport) {
        lock(&self.between).report = Some(report);
        self.wake();
    }

    fn wake(&self) {
        // One that waits is enough.
        let _ = self.signal.send(&[1]);
    }

    /// Why there is no connection just now.
    pub(crate) fn problem(&self) -> Option<String> {
        lock(&self.between).problem.clone()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.end();
        if let Some(thread) = self.thread.take() {
            // It waits on its stop; while it connects it may hang: left behind then.
            let patience = clock::now() + Duration::from_millis(300);
            while !thread.is_finished() && clock::now() < patience {
                // It has ended: no stop ends this sleep.
                clock::sleep(Duration::from_millis(5));
            }
        }
    }
}

struct Keeper {
    between: Arc<Mutex<Between>>,
    stop: Arc<Stop>,
    keeper_signal: UnixDatagram,
    order: ServerSpec,
    tile: TileId,
}

impl Keeper {
    fn keep(&self) {
        while !self.stop.is_ended() {
            let problem = match self.converse() {
                Ok(()) => return,
                Err(problem) => problem.to_string(),
            };
            lock(&self.between).problem = Some(problem);
            self.stop.wait(AGAIN);
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
            between.requests.clear();
        }
        let mut reported = clock::now();
        while !self.stop.is_ended() {
            // Before anything is taken, so that what comes now is not slept over.
            while self.keeper_signal.recv(&mut [0]).is_ok() {}
            self.say(&mut client, &mut reported)?;
            if let Some(message) = client.next(Duration::ZERO)? {
                let mut between = lock(&self.between);
                if between.heard.len() < MOST_HEARD {
                    between.heard.push_back(message);
                }
                drop(between);
                // One that waits is enough.
                let _ = self.keeper_signal.send(&[1]);
                continue;
            }
            // A report that is due went out, if there was one: the next one wakes this thread.
            let due = Some(REPORT.saturating_sub(clock::since(reported))).filter(|due| !due.is_zero());
            let waited = self.stop.wait_any_readable(&[client.as_fd(), self.keeper_signal.as_fd()], due);
            waited.map_err(|error| Failure::Lacks(format!("the server cannot be waited for: {error}")))?;
        }
        // The last word: how it all ended.
        reported = clock::now().checked_sub(REPORT).unwrap_or(reported);
        self.say(&mut client, &mut reported)
    }

    fn say(&self, client: &mut Client, reported: &mut Instant) -> Result<(), Failure> {
        loop {
            let request = lock(&self.between).requests.pop_front();
            let Some(request) = request else { break };
            client.send(&request)?;
        }
        if clock::since(*reported) < REPORT {
            return Ok(());
        }
        let report = lock(&self.between).report.take();
        if let Some(report) = report {
            *reported = clock::now();
            client.send(&ControlRequest::Report(report))?;
        }
        Ok(())
    }
}

impl Screen {
    /// What the server says.
    pub fn hear(&mut self, message: ControlMessage, now: i64) {
        match message {
            ControlMessage::Assignment(assignment) => self.assign(assignment),
            ControlMessage::Timeline(timeline) => self.follow(timeline),
            // For servers that follow.
            ControlMessage::Lead(_) => {}
            ControlMessage::Show { tick } => self.released = self.released.max(Some(tick)),
            ControlMessage::Sums { from, sums, .. } => {
                if let Some(checker) = &mut self.checker {
                    checker.take_sums(from, &sums);
                }
            }
            ControlMessage::Refused { why } => self.tally.problem(format!("the server says: {why}")),
            ControlMessage::Done | ControlMessage::Status(_) | ControlMessage::Movies { .. } => {}
        }
        if let Some(checker) = &mut self.checker {
            checker.look_again(self.timeline.as_ref(), now);
        }
    }

    fn assign(&mut self, assignment: Assignment) {
        let Assignment { tile, size, ssrc, from, timeline, stamped } = assignment;
        self.tile = Some(tile);
        self.tally.assigned = true;
        self.gate.expect(Expected { ssrc, from });
        if self.order.rate.is_none() || self.order.rate == Some(timeline.frames_per_second) {
            self.set_rate(timeline.frames_per_second, Origin::Server);
        }
        if size.width == 0 || size.height == 0 || self.order.size.is_some_and(|expected| expected != size) {
            self.tally.problem(format!("the server sends {size}, another size was given here: that is kept"));
        } else if self.size.is_none_or(|(known, _)| known != size) {
            self.set_size(size, Origin::Server);
        }
        if self.order.verify && self.checker.as_ref().is_none_or(|checker| checker.by() == "stamp") {
            let server = || Against::Server(ServerSums::default());
            let fresh = self.checker.as_ref().is_none_or(|checker| checker.proven + checker.wrong == 0);
            if !stamped && fresh {
                self.checker = Some(Checker::new(server(), size, Some(tile)));
            }
        }
        self.timeline = Some(timeline);
    }

    fn follow(&mut self, timeline: Timeline) {
        if self.timeline.as_ref().is_some_and(|known| known.generation != timeline.generation)
            && let Some(checker) = &mut self.checker
        {
            checker.forget_sums();
        }
        self.timeline = Some(timeline);
    }

    /// What is to be said to the server.
    pub fn requests(&mut self) -> impl Iterator<Item = ControlRequest> + use<'_> {
        if let (Some(checker), Some(tile)) = (&mut self.checker, self.tile) {
            self.requests.extend(checker.wants().map(|(from, count)| ControlRequest::Sums {
                tile,
                from,
                count,
            }));
        }
        self.requests.drain(..)
    }

    /// What has waited too long for news is judged now.
    pub(crate) fn look_again(&mut self, now: i64) {
        if let Some(checker) = self.checker.as_mut().filter(|checker| checker.is_waiting()) {
            checker.look_again(self.timeline.as_ref(), now);
        }
    }
}
