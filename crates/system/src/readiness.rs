//! Waiting for sockets and for a terminal: poll(2) with a time-out, so that a thread which serves several of
//! them sleeps while nothing happens.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// Waits until one of these can be read (or accepted from, or has failed); says which. None within the time:
/// all false.
pub fn wait_readable(sockets: &[BorrowedFd<'_>], timeout: Duration) -> io::Result<Vec<bool>> {
    let mut entries: Vec<PollFd<'_>> =
        sockets.iter().map(|socket| PollFd::from_borrowed_fd(*socket, PollFlags::IN)).collect();
    wait(&mut entries, timeout)?;
    Ok(entries.iter().map(|entry| !entry.revents().is_empty()).collect())
}

/// Waits until this can be written to (a connection that is being opened: until it is open or refused).
pub fn wait_writable(socket: &impl AsFd, timeout: Duration) -> io::Result<bool> {
    let mut entries = [PollFd::new(socket, PollFlags::OUT)];
    wait(&mut entries, timeout)?;
    Ok(!entries[0].revents().is_empty())
}

/// Waits until a terminal has a key to give. An error where it was hung up (its window was closed, its ssh
/// has ended): who goes on to read it gets nothing at once, for ever.
pub fn wait_key(terminal: &impl AsFd, timeout: Duration) -> io::Result<bool> {
    let mut entries = [PollFd::new(terminal, PollFlags::IN)];
    wait(&mut entries, timeout)?;
    let events = entries[0].revents();
    if events.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::Error::new(io::ErrorKind::BrokenPipe, "it was hung up"));
    }
    Ok(!events.is_empty())
}

/// Begins to open a connection on a socket that does not block; `wait_writable` tells when it is open or has
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

fn wait(entries: &mut [PollFd<'_>], timeout: Duration) -> io::Result<()> {
    let limit = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    match poll(entries, Some(&limit)) {
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
