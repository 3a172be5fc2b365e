//! One receiving lane: its counters, its thread's life, and how it is ended from outside.

use super::admission::{Place, lock};
use super::protocol::LaneSample;
use crate::flow::receive::Received;
use crate::plan::Protocol;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A lane of a session, from its ticket to its last byte.
pub struct Lane {
    pub protocol: Protocol,
    /// Checksum the bytes (TCP).
    pub verify: bool,
    /// SO_RCVBUF asked for, bytes.
    pub receive_buffer_bytes: Option<u64>,
    /// The ticket is not taken after this moment.
    pub expires: Instant,
    /// What its thread counts.
    pub received: Received,
    stop: AtomicBool,
    life: Mutex<Life>,
    changed: Condvar,
    _place: Place,
}

struct Life {
    phase: Phase,
    /// The stream in its receiver's hands, to cut it.
    stream: Option<TcpStream>,
    error: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The ticket is out.
    Waiting,
    /// A thread receives.
    Running,
    /// Nothing more will come.
    Finished,
}

/// Ends the lane when its thread does, be it by a panic.
struct Finish<'a>(&'a Lane);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        let error = std::thread::panicking()
            .then(|| "the receiver failed (a defect of linerate: please report it)".into());
        self.0.finish(error);
    }
}

impl Lane {
    /// A lane whose ticket is good for `life`; `start` is the clock of its session.
    pub fn new(protocol: Protocol, start: Instant, life: Duration, place: Place) -> Self {
        Lane {
            protocol,
            verify: false,
            receive_buffer_bytes: None,
            expires: Instant::now() + life,
            received: Received::new(start),
            stop: AtomicBool::new(false),
            life: Mutex::new(Life { phase: Phase::Waiting, stream: None, error: None }),
            changed: Condvar::new(),
            _place: place,
        }
    }

    /// Receives on the calling thread until the stream ends or the lane is stopped. `stream`: a handle to cut it by.
    pub fn run(
        &self,
        stream: Option<TcpStream>,
        receive: impl FnOnce(&Received, &AtomicBool) -> io::Result<()>,
    ) {
        let mut life = lock(&self.life);
        if life.phase != Phase::Waiting {
            return;
        }
        life.phase = Phase::Running;
        life.stream = stream;
        drop(life);
        let _finish = Finish(self);
        // After `stop` an error is only the way in which the receiver was ended.
        if let Err(error) = receive(&self.received, &self.stop)
            && !self.stop.load(Ordering::Acquire)
        {
            self.finish(Some(error.to_string()));
        }
    }

    /// No more will come; the first reason stays.
    pub fn finish(&self, error: Option<String>) {
        let mut life = lock(&self.life);
        life.phase = Phase::Finished;
        life.stream = None;
        life.error = life.error.take().or(error);
        self.received.ended.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// Ends a lane whose ticket nobody used in time.
    pub fn expire(&self) {
        if Instant::now() < self.expires {
            return;
        }
        let unused = "its token was not used in time";
        let mut life = lock(&self.life);
        match life.phase {
            Phase::Waiting => {
                drop(life);
                self.finish(Some(unused.into()));
            }
            // A UDP receiver runs from the start; that it admitted somebody shows in its counters.
            Phase::Running if self.protocol == Protocol::Udp && self.untouched() => {
                life.error.get_or_insert_with(|| unused.into());
                self.stop.store(true, Ordering::Release);
            }
            _ => {}
        }
    }

    fn untouched(&self) -> bool {
        self.received.datagrams.load(Ordering::Relaxed) == 0 && self.received.progress.mark().bytes == 0
    }

    /// Asks the receiver to end; a lane that nobody came to ends at once.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        if lock(&self.life).phase == Phase::Waiting {
            self.finish(None);
        }
    }

    /// Cuts the stream under a receiver that does not look at `stop`.
    pub fn cut(&self) {
        if let Some(stream) = &lock(&self.life).stream {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Waits for the end of its thread, at most until `deadline`.
    pub fn await_end(&self, deadline: Instant) -> bool {
        let life = lock(&self.life);
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(life, left, |life| life.phase != Phase::Finished);
        waited.unwrap_or_else(PoisonError::into_inner).0.phase == Phase::Finished
    }

    /// How far it is.
    pub fn sample(&self) -> LaneSample {
        let received = &self.received;
        // First, so that the figures of an ended lane are final.
        let ended = received.ended.load(Ordering::Acquire);
        let mark = received.progress.mark();
        LaneSample {
            bytes: mark.bytes,
            bytes_nanos: mark.nanos,
            datagrams: received.datagrams.load(Ordering::Relaxed),
            socket_drops: received.socket_drops.load(Ordering::Relaxed),
            cpu_nanos: received.cpu_nanos.load(Ordering::Relaxed),
            checksum: received.checksum.load(Ordering::Relaxed),
            buffer_bytes: received.buffer_bytes.load(Ordering::Relaxed),
            ended,
            error: lock(&self.life).error.clone(),
        }
    }
}
