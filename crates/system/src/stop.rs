//! The one way to end what works or waits: a flag that loops look at, and an eventfd(2) that ends every wait at once.
//!
//! The owner of a piece of work has a [`Stop`] for it, and the work waits on that instead of sleeping. A wait for
//! sockets takes it as one descriptor more, so that no thread wakes only to look whether to stop.

use crate::clock;
use crate::readiness::{readable, wait};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A process that is out of descriptors gets no eventfd: such a stop is looked at this often.
const WITHOUT_DESCRIPTOR: Duration = Duration::from_millis(20);

/// How long a thread sleeps in the kernel, in a call that no stop ends, before it looks whether to stop.
pub const STOP_CHECK: Duration = Duration::from_millis(100);

/// Not ended yet, or ended for ever.
#[derive(Debug)]
pub struct Stop {
    ended: AtomicBool,
    /// Readable once it has ended: nobody reads it, so that it stays so for all who wait.
    event: Option<OwnedFd>,
}

impl Default for Stop {
    fn default() -> Self {
        Stop::new()
    }
}

impl Stop {
    /// One that has not ended.
    pub fn new() -> Stop {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        Stop { ended: AtomicBool::new(false), event: event.ok() }
    }

    /// Ends it: every wait returns now. A signal handler may do this: it is a store and one system call, which rustix
    /// makes without libc's `errno`.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        if let Some(event) = &self.event {
            // It fails only where it was ended as often as 64 bits can count.
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }

    /// Looks at the flag alone: cheap enough for a loop that moves bytes.
    #[inline]
    pub fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The flag, for loops that only look at it and never wait.
    pub fn flag(&self) -> &AtomicBool {
        &self.ended
    }

    /// Sleeps so long; true as soon as it has ended.
    pub fn wait(&self, duration: Duration) -> bool {
        match clock::now().checked_add(duration) {
            Some(moment) => self.wait_until(moment),
            None => self.wait_ended(),
        }
    }

    /// Sleeps until then; true as soon as it has ended.
    pub fn wait_until(&self, moment: Instant) -> bool {
        self.rest(Some(moment))
    }

    /// Sleeps until it has ended, which is what it returns.
    pub fn wait_ended(&self) -> bool {
        self.rest(None)
    }

    /// Allocates nothing, as a thread that paces its bytes comes here for each burst.
    fn rest(&self, moment: Option<Instant>) -> bool {
        let poll = |limit| match self.descriptor() {
            Some(event) => wait(&mut [readable(event)], limit),
            None => wait(&mut [], self.limit(limit)),
        };
        wait_for(|| self.is_ended(), moment, poll)
    }

    /// Waits until this can be read (or accepted from, or has failed). False: it has ended, the time is over (none:
    /// there is no limit), or a signal came; look which, and come back.
    pub fn wait_readable(&self, socket: &impl AsFd, timeout: Option<Duration>) -> io::Result<bool> {
        self.wait_one(readable(socket.as_fd()), timeout)
    }

    /// As [`Stop::wait_readable`], for several of which each is reported.
    pub fn wait_any_readable(
        &self,
        sockets: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> io::Result<Vec<bool>> {
        let mut entries: Vec<PollFd<'_>> = sockets.iter().copied().map(readable).collect();
        entries.extend(self.descriptor().map(readable));
        wait(&mut entries, self.limit(timeout))?;
        Ok(entries[..sockets.len()].iter().map(|entry| !entry.revents().is_empty()).collect())
    }

    /// As [`Stop::wait_readable`], until this can be written to.
    pub fn wait_writable(&self, socket: &impl AsFd, timeout: Option<Duration>) -> io::Result<bool> {
        self.wait_one(PollFd::new(socket, PollFlags::OUT), timeout)
    }

    fn wait_one(&self, socket: PollFd<'_>, timeout: Option<Duration>) -> io::Result<bool> {
        let is_reported = |entry: &PollFd<'_>| !entry.revents().is_empty();
        match self.descriptor() {
            Some(event) => {
                let mut both = [socket, readable(event)];
                wait(&mut both, timeout).map(|()| is_reported(&both[0]))
            }
            None => {
                let mut alone = [socket];
                wait(&mut alone, self.limit(timeout)).map(|()| is_reported(&alone[0]))
            }
        }
    }

    /// Readable once it has ended; for a poll or an epoll. None where the process had no descriptor left.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.event.as_ref().map(AsFd::as_fd)
    }

    /// Ends it when the guard goes, also in a panic.
    pub fn ends_at_drop(&self) -> EndsAtDrop<'_> {
        EndsAtDrop(self)
    }

    /// Ends with this input, which whoever started this process holds open. Without a thread to look at it: an error.
    pub fn end_with(self: &Arc<Self>, mut input: impl io::Read + Send + 'static) -> io::Result<()> {
        let stop = Arc::clone(self);
        let until_its_end = move || {
            let _ = io::copy(&mut input, &mut io::sink());
            stop.end();
        };
        std::thread::Builder::new().name("starter".into()).spawn(until_its_end).map(drop)
    }

    /// Ends it with each of these signals, for as long as the process lives.
    pub fn end_at_signals(self: &Arc<Self>, signals: &[i32]) -> io::Result<()> {
        for signal in signals {
            let stop = Arc::clone(self);
            // SAFETY: the action runs in a signal handler, and is async-signal-safe: see `end`. It drops nothing.
            unsafe { signal_hook::low_level::register(*signal, move || stop.end()) }?;
        }
        Ok(())
    }

    fn limit(&self, timeout: Option<Duration>) -> Option<Duration> {
        let looks = self.event.is_none().then_some(WITHOUT_DESCRIPTOR);
        timeout.into_iter().chain(looks).min()
    }
}

/// See [`Stop::ends_at_drop`].
#[must_use]
pub struct EndsAtDrop<'a>(&'a Stop);

impl Drop for EndsAtDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Sleeps until one of these has ended (true), or until then; no moment: until one has ended.
pub fn any_ended(stops: &[&Stop], moment: Option<Instant>) -> bool {
    let poll = |limit| {
        let events = stops.iter().filter_map(|stop| stop.descriptor());
        let limit = stops.iter().fold(limit, |limit, stop| stop.limit(limit));
        wait(&mut events.map(readable).collect::<Vec<_>>(), limit)
    };
    wait_for(|| stops.iter().any(|stop| stop.is_ended()), moment, poll)
}

fn wait_for(
    is_ended: impl Fn() -> bool,
    moment: Option<Instant>,
    poll: impl Fn(Option<Duration>) -> io::Result<()>,
) -> bool {
    while !is_ended() {
        let left = moment.map(|moment| moment.saturating_duration_since(clock::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return false;
        }
        #[cfg(any(test, feature = "testing"))]
        if left.is_some_and(clock::simulated::sleep) {
            continue;
        }
        if poll(left).is_err() {
            // poll(2) fails where the kernel has no memory: a moment later it may have.
            clock::sleep(WITHOUT_DESCRIPTOR);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::simulated::SimulatedClock;
    use crate::readiness::ManySockets;
    use std::io::Write;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn every_wait_returns_when_it_ends_and_none_sleeps_after_that() {
        let (stop, other, begun) = (Stop::new(), Stop::new(), Instant::now());
        let (read, _write) = std::io::pipe().expect("a pipe");
        std::thread::scope(|scope| {
            let waits = [
                scope.spawn(|| stop.wait(LONG)),
                scope.spawn(|| stop.wait(Duration::MAX)),
                scope.spawn(|| stop.wait_ended()),
                scope.spawn(|| any_ended(&[&other, &stop], None)),
                scope.spawn(|| !stop.wait_readable(&read, None).expect("poll")),
            ];
            std::thread::sleep(Duration::from_millis(20));
            assert!(!stop.is_ended() && waits.iter().all(|wait| !wait.is_finished()));
            stop.end();
            for wait in waits {
                assert!(wait.join().expect("no panic"));
            }
        });
        assert!(stop.wait(LONG) && stop.is_ended() && !other.is_ended());
        assert!(begun.elapsed() < LONG / 2);
        assert!(!other.wait(Duration::from_millis(1)));
    }

    #[test]
    fn without_a_descriptor_it_still_ends_every_wait() {
        let stop = Stop { event: None, ..Stop::new() };
        let (read, write) = std::io::pipe().expect("a pipe");
        std::thread::scope(|scope| {
            let (waits, reads) =
                (scope.spawn(|| stop.wait(LONG)), scope.spawn(|| stop.wait_readable(&read, None)));
            assert!(!reads.join().expect("no panic").expect("poll"), "it looks again and again");
            stop.end();
            assert!(waits.join().expect("no panic"));
        });
        (&write).write_all(b"x").expect("written");
        assert!(stop.wait_readable(&read, Some(LONG)).expect("poll"));
        assert!(stop.wait_writable(&write, Some(LONG)).expect("poll"));
    }

    #[test]
    fn an_epoll_reports_it_as_often_as_it_is_asked() {
        let (stop, many) = (Stop::new(), ManySockets::new().expect("epoll"));
        many.watch(&stop.descriptor().expect("an eventfd"), 3).expect("watched");
        let mut numbers = Vec::new();
        many.wait(Some(Duration::ZERO), &mut numbers).expect("a wait");
        assert!(numbers.is_empty());
        drop(stop.ends_at_drop());
        for _ in 0..2 {
            many.wait(None, &mut numbers).expect("a wait");
        }
        assert_eq!(numbers, [3, 3]);
    }

    #[test]
    fn a_signal_ends_it() {
        let stop = Arc::new(Stop::new());
        stop.end_at_signals(&[libc::SIGURG]).expect("registered");
        // SAFETY: raising a signal that has a handler.
        unsafe { libc::raise(libc::SIGURG) };
        assert!(stop.wait(LONG));
    }

    #[test]
    fn simulated_time_passes_in_a_wait() {
        let (clock, stop) = (SimulatedClock::new(), Stop::new());
        let _entered = clock.enter();
        assert!(!stop.wait(LONG));
        assert_eq!(clock.passed(), LONG);
        stop.end();
        assert!(stop.wait(LONG) && clock.passed() == LONG);
    }
}
