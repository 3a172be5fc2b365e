//! Waiting for sockets and for a terminal: poll(2) with a time-out, so that a thread which serves several of
//! them sleeps while nothing happens; and epoll(7) for thousands.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Events that one wait brings at most; the others come with the next.
const MOST_EVENTS: usize = 256;

/// Nothing came for now, or nothing could be handed over: a time-out of the socket, or a signal. Look whether to stop,
/// and go on.
pub fn is_waiting(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// What is waited for at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    Read,
    Write,
}

/// Any number of sockets, of which those with news are found without a look at the others. A socket leaves it by being
/// closed.
#[derive(Debug)]
pub struct ManySockets {
    epoll: OwnedFd,
}

impl ManySockets {
    /// None yet.
    pub fn new() -> io::Result<Self> {
        Ok(ManySockets { epoll: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Reports that this can be read, or accepted from, as often as it is so.
    pub fn watch(&self, socket: &impl AsFd, number: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(number), EventFlags::IN)?)
    }

    /// Reports once that this can be read or written, was closed or has failed; from any thread.
    pub fn watch_once(&self, socket: &impl AsFd, number: u64, interest: Interest) -> io::Result<()> {
        let what = match interest {
            Interest::Read => EventFlags::IN | EventFlags::RDHUP,
            Interest::Write => EventFlags::OUT,
        };
        let (data, flags) = (EventData::new_u64(number), what | EventFlags::ONESHOT);
        match epoll::modify(&self.epoll, socket, data, flags) {
            Err(rustix::io::Errno::NOENT) => Ok(epoll::add(&self.epoll, socket, data, flags)?),
            modified => Ok(modified?),
        }
    }

    /// Appends the numbers of those that have news; none within the time, where there is a limit.
    pub fn wait(&self, timeout: Option<Duration>, numbers: &mut Vec<u64>) -> io::Result<()> {
        let mut events = Vec::with_capacity(MOST_EVENTS);
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut events),
            timeout.map(limit).as_ref(),
        ) {
            // A signal: the caller looks at its flags and comes back.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        numbers.extend(events.iter().map(|event| event.data.u64()));
        Ok(())
    }
}

/// To be read, in a poll.
pub(crate) fn readable(socket: BorrowedFd<'_>) -> PollFd<'_> {
    PollFd::from_borrowed_fd(socket, PollFlags::IN)
}

fn limit(timeout: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    }
}

/// Waits until one of these can be read (or accepted from, or has failed); says which. None within the time:
/// all false.
pub fn wait_readable(sockets: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<bool>> {
    let mut entries: Vec<PollFd<'_>> = sockets.iter().copied().map(readable).collect();
    wait(&mut entries, Some(timeout))?;
    Ok(entries.iter().map(|entry| !entry.revents().is_empty()).collect())
}

/// Waits until this can be written to (a connection that is being opened: until it is open or refused).
pub fn wait_writable(socket: &impl AsFd, timeout: Duration) -> io::Result<bool> {
    let mut entries = [PollFd::new(socket, PollFlags::OUT)];
    wait(&mut entries, Some(timeout))?;
    Ok(!entries[0].revents().is_empty())
}

/// Its peer has closed it, or it has failed; one that only ended its own direction counts as well. Nothing is read.
pub fn has_hung_up(socket: &impl AsFd) -> bool {
    let mut entries = [PollFd::new(socket, PollFlags::RDHUP)];
    let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    wait(&mut entries, Some(Duration::ZERO)).is_ok() && entries[0].revents().intersects(ended)
}

/// Waits until a terminal has a key to give. An error where it was hung up (its window was closed, its ssh
/// has ended): who goes on to read it gets nothing at once, for ever.
pub fn wait_key(terminal: &impl AsFd, timeout: Duration) -> io::Result<bool> {
    let mut entries = [PollFd::new(terminal, PollFlags::IN)];
    wait(&mut entries, Some(timeout))?;
    let events = entries[0].revents();
    if events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::Error::new(io::ErrorKind::BrokenPipe, "it was hung up"));
    }
    Ok(!events.is_empty())
}

/// Begins to open a connection on a socket that does not block; `wait_writable` returns when it is open or has
/// failed (`Socket::take_error`).
pub fn begin_connect(socket: &socket2::Socket, address: std::net::SocketAddr) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if error.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// poll(2), without a limit where there is no time-out.
pub(crate) fn wait(entries: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    match poll(entries, timeout.map(limit).as_ref()) {
        // A signal: the caller looks at its flags and comes back.
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn what_was_hung_up_is_an_error() {
        let (read, write) = std::io::pipe().expect("a pipe");
        assert!(!wait_key(&read, Duration::ZERO).expect("poll"));
        (&write).write_all(b"q").expect("written");
        assert!(wait_key(&read, Duration::from_secs(5)).expect("poll"));
        drop(write);
        let why = wait_key(&read, Duration::ZERO).expect_err("hung up");
        assert_eq!(why.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_connection_opens_or_reports_why_not() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let open = |address| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
            begin_connect(&socket, address)?;
            assert!(wait_writable(&socket, Duration::from_secs(5))?);
            socket.take_error()
        };
        assert!(open(address).expect("opened").is_none());
        drop(listener);
        let refused = open(address).expect("begun").expect("refused");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn of_many_sockets_those_with_news_are_reported_once() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let many = ManySockets::new().expect("epoll");
        many.watch(&listener, 7).expect("watched");
        let mut here = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let news = || {
            let mut numbers = Vec::new();
            many.wait(Some(Duration::from_millis(20)), &mut numbers).expect("a wait");
            numbers
        };
        assert_eq!((news(), news()), (vec![7], vec![7]), "until it is accepted");
        let (there, _) = listener.accept().expect("accepted");
        many.watch_once(&there, 9, Interest::Read).expect("watched");
        assert!(news().is_empty());
        here.write_all(b"x").expect("sent");
        assert_eq!((news(), news()), (vec![9], vec![]), "once");
        many.watch_once(&there, 9, Interest::Write).expect("watched");
        assert_eq!((news(), news()), (vec![9], vec![]));
        many.watch_once(&there, 9, Interest::Read).expect("watched");
        assert_eq!(news(), [9], "what is still there");
        drop(there);
        drop(here);
        assert!(news().is_empty(), "it left");
    }

    #[test]
    fn what_can_be_read_is_reported() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut here = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (there, _) = listener.accept().expect("accepted");
        let both = [listener.as_fd(), there.as_fd()];
        assert_eq!(wait_readable(&both, Duration::ZERO).expect("poll"), [false, false]);
        here.write_all(b"x").expect("sent");
        assert_eq!(wait_readable(&both, Duration::from_secs(5)).expect("poll"), [false, true]);
        assert!(wait_writable(&here, Duration::from_secs(5)).expect("poll"));
    }
}
