//! A screen at work: the socket, the clock, the server and the end.
//!
//! One thread receives, proves and shows. It sleeps: until something comes, until enough has come, or until a
//! frame is due.

use super::deadline::nanos;
use super::link::{Link, ServerSpec};
use super::live::{LatestScreen, ScreenPublisher};
use super::screen::Screen;
use super::socket::{Ear, Nap};
use super::summary::ScreenSummary;
use super::{Output, ScreenSpec};
use crate::control::ControlMessage;
use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_system::counters::thread_cpu;
use linerate_system::stop::Stop;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The longest sleep: then it looks at its windows and its end, and a report is due.
const LONGEST_WAIT: Duration = REPORT;
/// Batches before it looks at the clock again.
const MOST_BATCHES: usize = 4;
/// A server that was named is given so long to say what to expect; until then nothing is believed.
const ASSIGNMENT_PATIENCE: Duration = Duration::from_secs(3);
/// How often a report is made.
const REPORT: Duration = Duration::from_millis(250);

/// A screen that listens and has not begun.
pub struct Listening {
    ear: Ear,
    screen: Screen,
    listen: SocketAddr,
    publisher: ScreenPublisher,
}

impl Listening {
    /// Opens the socket, makes the buffers.
    pub fn open(spec: ScreenSpec, outputs: Vec<Box<dyn Output>>) -> Result<Listening, Failure> {
        let frame_bytes = spec.size.map(|size| size.frame_bytes());
        let ear = Ear::open(spec.listen, spec.interface.as_deref(), frame_bytes)?;
        let listen = ear.address().unwrap_or(spec.listen);
        let (screen, publisher) = (Screen::new(spec, outputs), ScreenPublisher::new(listen));
        Ok(Listening { ear, screen, listen, publisher })
    }

    /// Its server, where it came after the socket: it says what to expect, and hears reports.
    pub fn join(&mut self, server: ServerSpec) {
        self.screen.order.server = Some(server);
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listen
    }

    /// How it does while it works.
    pub fn latest(&self) -> LatestScreen {
        self.publisher.latest()
    }

    /// Works until its end or until `stop`.
    pub fn run(self, stop: &Stop) -> Result<Finished, Failure> {
        let cpu = thread_cpu();
        let Listening { ear, screen, listen, publisher } = self;
        let link = match (&screen.order.server, screen.tile) {
            (Some(server), Some(tile)) => {
                let started = Link::start(server.clone(), tile);
                Some(started.map_err(|error| Failure::Lacks(format!("no thread for the server: {error}")))?)
            }
            _ => None,
        };
        let naps = Nap::new(ear.granted().bytes);
        let begun = clock::now();
        let mut work =
            ScreenWork { ear, screen, link, publisher, naps, begun, reported: begun, messages: Vec::new() };
        // What came until then is reported also when an output has gone.
        let failure = work.go(stop).err();
        work.screen.finish();
        let problem = work.link.as_ref().and_then(Link::problem);
        if let Some(link) = &work.link {
            link.report(work.screen.report());
        }
        let server = work.link.is_some().then_some(problem);
        let cpu = thread_cpu().saturating_sub(cpu);
        let mut summary = ScreenSummary::of(&work.screen, listen, work.ear.granted(), server, cpu);
        summary.problems.extend(failure.as_ref().map(Failure::to_string));
        Ok(Finished { summary, failure })
    }
}

/// A screen that has ended.
#[derive(Debug)]
pub struct Finished {
    pub summary: ScreenSummary,
    /// It could not go on: its output has gone, or its socket.
    pub failure: Option<Failure>,
}

/// What a look at the socket brought.
struct Came {
    bytes: u64,
    /// There is more: all that arrived until this time was taken.
    until: Option<i64>,
}

struct ScreenWork {
    ear: Ear,
    screen: Screen,
    link: Option<Link>,
    publisher: ScreenPublisher,
    naps: Nap,
    begun: Instant,
    reported: Instant,
    messages: Vec<ControlMessage>,
}

impl ScreenWork {
    fn go(&mut self, stop: &Stop) -> Result<(), Failure> {
        while !stop.is_ended() {
            let Came { bytes, until: heard } = self.receive()?;
            self.converse();
            self.screen.look_at_outputs();
            let now = nanos(clock::date());
            let next = self.screen.present_due(now, heard.unwrap_or(now));
            // At a barrier all others wait for what is said here.
            self.ask();
            if let Some(failure) = self.screen.failed.take() {
                return Err(failure);
            }
            if self.is_over(now) {
                return Ok(());
            }
            if heard.is_some() {
                continue;
            }
            let due =
                next.map(|next| Duration::from_nanos(u64::try_from(next.saturating_sub(now)).unwrap_or(0)));
            let end = self.screen.order.end.after.map(|after| after.saturating_sub(clock::since(self.begun)));
            let until = due.into_iter().chain(end).fold(LONGEST_WAIT, Duration::min);
            match self.naps.after(bytes).filter(|_| bytes > 0) {
                Some(nap) => drop(stop.wait(nap.min(until))),
                None => self.wait(stop, until)?,
            }
        }
        Ok(())
    }

    fn wait(&self, stop: &Stop, until: Duration) -> Result<(), Failure> {
        self.ear
            .wait(self.link.as_ref().map(Link::signal), stop, until)
            .map_err(|error| Failure::Lacks(format!("the socket cannot be waited for: {error}")))
    }

    /// Takes what is there, or some of it.
    fn receive(&mut self) -> Result<Came, Failure> {
        let (mut bytes, mut until) = (0, None);
        // A named server is heard first: what comes before that is nobody's stream.
        let believed = self.link.is_none()
            || self.screen.tally.assigned
            || clock::since(self.begun) > ASSIGNMENT_PATIENCE;
        for _ in 0..MOST_BATCHES {
            let taken = self
                .ear
                .receive()
                .map_err(|error| Failure::Lacks(format!("nothing can be received any more: {error}")))?;
            if taken == 0 {
                until = None;
                break;
            }
            let now = nanos(clock::date());
            for train in self.ear.batch.trains() {
                bytes += train.bytes.len() as u64;
                let arrived = train.arrived.map_or(now, nanos);
                until = Some(arrived);
                let datagrams = train.bytes.chunks(train.datagram_bytes.max(1));
                for datagram in datagrams.filter(|_| believed) {
                    self.screen.take(datagram, train.from, arrived);
                }
            }
            if !self.ear.is_full(taken) {
                until = None;
                break;
            }
        }
        self.screen.tally.socket_drops = u64::from(self.ear.batch.drops());
        Ok(Came { bytes, until })
    }

    /// Hears the server and tells it how it goes.
    fn converse(&mut self) {
        if let Some(link) = &self.link {
            link.hear(&mut self.messages);
            let now = nanos(clock::date());
            for message in self.messages.drain(..) {
                self.screen.hear(message, now);
            }
        }
        self.ask();
        if clock::since(self.reported) >= REPORT {
            self.reported = clock::now();
            self.screen.look_again(nanos(clock::date()));
            let report = self.screen.report();
            self.screen.tell(&report);
            self.publisher.show(&self.screen, &report, self.link.as_ref(), self.reported);
            if let Some(link) = &self.link {
                link.report(report);
            }
        }
    }

    /// Says to the server what the screen has to say.
    fn ask(&mut self) {
        if let Some(link) = &self.link {
            self.screen.requests().for_each(|request| link.say(request));
        }
    }

    fn is_over(&self, now: i64) -> bool {
        let Screen { order, tally, closed, .. } = &self.screen;
        let end = order.end;
        let silent = |silence: Duration| {
            tally.span.is_some_and(|(_, last)| u128::try_from(now - last).unwrap_or(0) > silence.as_nanos())
                && !self.screen.is_busy()
        };
        *closed
            || end.after.is_some_and(|after| clock::since(self.begun) >= after)
            || end.silence.is_some_and(silent)
    }
}
