//! MSG_ZEROCOPY on TCP: sends that the kernel reads from our pages later, and its word on when it is done and
//! whether it copied. See <https://docs.kernel.org/networking/msg_zerocopy.html>.
//!
//! A block that was sent may not change until the kernel is done with it: it stays here as a lease, out of
//! reach.

use crate::buffers::Lease;
use crate::lock;
use std::collections::VecDeque;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// At the end the newest sends, of which the kernel has reported nothing yet, are waited for this long.
const LAST_WAIT: Duration = Duration::from_millis(300);

/// Held from looking whether a socket is set up until it is.
static SETTING: Mutex<()> = Mutex::new(());

/// What became of the sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZeroCopyReport {
    /// Sends that the kernel is done with.
    pub sends: u64,
    /// Those of them that it had copied all the same.
    pub copied: u64,
}

/// Zerocopy sends on one socket and the blocks that are under way. A socket has one of them in its life: see
/// [`ZeroCopy::new`].
#[derive(Debug)]
pub struct ZeroCopy<S: AsFd> {
    socket: S,
    /// The number of each send that is under way, and its block where it was the last of it.
    under_way: VecDeque<UnderWay>,
    /// The block that is being sent.
    current: Option<Current>,
    next: u32,
    report: ZeroCopyReport,
}

#[derive(Debug)]
struct Current {
    lease: Lease,
    from: usize,
    length: usize,
}

/// From `linux/errqueue.h`.
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

/// A send that the kernel may still read from.
#[derive(Debug)]
struct UnderWay {
    number: u32,
    /// The block, with the send that took its last byte.
    lease: Option<Lease>,
    /// The kernel has reported it.
    done: bool,
}

impl<S: AsFd> ZeroCopy<S> {
    /// Sets SO_ZEROCOPY (TCP since Linux 4.14). Refused where it is set already: the kernel numbers the sends
    /// of a socket from 0 through all its life and reports each once, so a second one would take reports of the
    /// first one's sends for its own, and give back blocks that the kernel still reads from.
    pub fn new(socket: S) -> io::Result<Self> {
        let _one_at_a_time = lock(&SETTING);
        if is_set(&socket)? {
            let why = "zerocopy sends were set up on this socket before, and it has one count of them";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        let on = 1i32;
        // SAFETY: the pointer and length describe one i32 that lives through the call.
        let answer = unsafe {
            libc::setsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ZEROCOPY,
                std::ptr::from_ref(&on).cast(),
                size_of::<i32>() as libc::socklen_t,
            )
        };
        if answer != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(ZeroCopy {
            socket,
            under_way: VecDeque::new(),
            current: None,
            next: 0,
            report: ZeroCopyReport::default(),
        })
    }

    /// Takes a block of which `length` bytes are to be sent; only when nothing of the one before is `left`.
    pub fn give(&mut self, lease: Lease, length: usize) {
        debug_assert!(self.current.is_none(), "a block before the last one was sent");
        let length = length.min(lease.len());
        self.current = Some(Current { lease, from: 0, length });
    }

    /// Bytes of the current block that were not sent yet.
    pub fn left(&self) -> usize {
        self.current.as_ref().map_or(0, |current| current.length - current.from)
    }

    /// Sends what is left of the current block; how much of it the kernel took.
    ///
    /// ENOBUFS means that the kernel will not track more sends (`net.core.optmem_max`, RLIMIT_MEMLOCK):
    /// `reap` some, then try again.
    pub fn send(&mut self) -> io::Result<usize> {
        let Some(current) = &mut self.current else { return Ok(0) };
        let part = &current.lease.bytes()[current.from..current.length];
        let flags = libc::MSG_ZEROCOPY | libc::MSG_NOSIGNAL;
        // SAFETY: the part lies within the lease; the kernel may read it until it says so in the error queue,
        // and until then the lease stays in `current` or in `under_way`.
        let sent =
            unsafe { libc::send(self.socket.as_fd().as_raw_fd(), part.as_ptr().cast(), part.len(), flags) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        current.from += sent as usize;
        let over = current.from >= current.length;
        let lease = if over { self.current.take().map(|current| current.lease) } else { None };
        self.under_way.push_back(UnderWay { number: self.next, lease, done: false });
        self.next = self.next.wrapping_add(1);
        Ok(sent as usize)
    }

    /// Sends that the kernel is not done with.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// What became of the sends so far.
    pub fn report(&self) -> ZeroCopyReport {
        self.report
    }

    /// Takes what the kernel has reported, and gives back the blocks that it is done with. Never waits.
    ///
    /// The kernel reports sends in ranges, on TCP in their order but for retransmissions; a block is given
    /// back when all older ones are.
    pub fn reap(&mut self, blocks: &mut Vec<Lease>) -> io::Result<()> {
        while let Some(done) = read_done(&self.socket)? {
            let count = done.last.wrapping_sub(done.first).wrapping_add(1);
            self.report.sends += u64::from(count);
            self.report.copied += if done.copied { u64::from(count) } else { 0 };
            for send in &mut self.under_way {
                // Serial numbers (RFC 1982): within the range, neither before its first nor after its last.
                send.done |= send.number.wrapping_sub(done.first) < count;
            }
            // What was reported out of order waits for the sends before it: their range is still to come.
            while self.under_way.front().is_some_and(|send| send.done) {
                blocks.extend(self.under_way.pop_front().and_then(|send| send.lease));
            }
        }
        Ok(())
    }

    /// Waits until the kernel has reported something, at most so long.
    pub fn wait(&self, time: Duration) -> io::Result<()> {
        // A socket with something in its error queue polls as POLLERR, which need not be asked for.
        let mut poll = libc::pollfd { fd: self.socket.as_fd().as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: one pollfd that lives through the call.
        let answer = unsafe { libc::poll(&mut poll, 1, i32::try_from(time.as_millis()).unwrap_or(i32::MAX)) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl<S: AsFd> Drop for ZeroCopy<S> {
    /// Waits a moment for what is under way; what the kernel may still read keeps its memory for ever rather
    /// than be reused.
    fn drop(&mut self) {
        let (patience, mut blocks) = (Instant::now() + LAST_WAIT, Vec::new());
        while !self.under_way.is_empty() && Instant::now() < patience {
            if self.reap(&mut blocks).is_err() {
                break;
            }
            if !self.under_way.is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        if !self.under_way.is_empty()
            && let Some(current) = self.current.take()
        {
            std::mem::forget(current.lease);
        }
        self.under_way.drain(..).filter_map(|send| send.lease).for_each(std::mem::forget);
    }
}

/// Whether zerocopy was set up on the socket, through whichever descriptor.
fn is_set(socket: &impl AsFd) -> io::Result<bool> {
    let (mut on, mut bytes) = (0i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: the pointers and the length describe one i32 that lives through the call.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ZEROCOPY,
            std::ptr::from_mut(&mut on).cast(),
            &mut bytes,
        )
    };
    if answer == 0 { Ok(on != 0) } else { Err(io::Error::last_os_error()) }
}

/// Sends `first..=last` are done.
struct CompletedSends {
    first: u32,
    last: u32,
    copied: bool,
}

fn read_done(socket: &impl AsFd) -> io::Result<Option<CompletedSends>> {
    let mut control = [0u64; 16];
    // SAFETY: msghdr is plain data for which all zeros is a valid value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the header points at a control area of the stated length, which lives through the call.
    let answer = unsafe { libc::recvmsg(socket.as_fd().as_raw_fd(), &mut header, flags) };
    if answer < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        };
    }
    // SAFETY: the control area was filled by the kernel, which keeps the chain of messages within
    // msg_controllen.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(&header);
        while !message.is_null() {
            let kind = ((*message).cmsg_level, (*message).cmsg_type);
            if matches!(kind, (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)) {
                let error = libc::CMSG_DATA(message).cast::<libc::sock_extended_err>().read_unaligned();
                if error.ee_errno == 0 && error.ee_origin == SO_EE_ORIGIN_ZEROCOPY {
                    let copied = error.ee_code & SO_EE_CODE_ZEROCOPY_COPIED != 0;
                    return Ok(Some(CompletedSends { first: error.ee_info, last: error.ee_data, copied }));
                }
            }
            message = libc::CMSG_NXTHDR(&header, message);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::Pool;
    use crate::socket::tests::connected;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_is_set_up_once() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let sender = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let refused = |what: &str| {
            let error = ZeroCopy::new(&sender).map(drop).expect_err(what);
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{what}: {error}");
            let again = sender.try_clone().expect("another descriptor");
            assert!(ZeroCopy::new(again).is_err(), "{what}, by another descriptor");
        };
        let first = ZeroCopy::new(&sender).expect("zerocopy on TCP");
        refused("two at once would release each other's blocks");
        drop(first);
        refused("the kernel's count goes on where the first one's ended");
    }

    #[test]
    fn every_send_is_reported_of_and_every_block_comes_back() {
        let (sender, mut receiver) = connected();
        let taker = std::thread::spawn(move || {
            let mut received = Vec::new();
            receiver.read_to_end(&mut received).map(|_| received)
        });
        let mut pool = Pool::new(4, 1 << 16).expect("a pool");
        let mut free: Vec<Lease> = std::iter::from_fn(|| pool.take()).collect();
        let mut zerocopy = ZeroCopy::new(&sender).expect("zerocopy on TCP");
        let mut sends = 0;
        for round in 0..32u8 {
            let mut block = loop {
                if let Some(block) = free.pop() {
                    break block;
                }
                zerocopy.wait(Duration::from_millis(100)).expect("polled");
                zerocopy.reap(&mut free).expect("told");
            };
            block.bytes_mut().fill(round);
            zerocopy.give(block, 1 << 16);
            while zerocopy.left() > 0 {
                zerocopy.send().expect("sent");
                sends += 1;
            }
        }
        let patience = Instant::now() + Duration::from_secs(5);
        while zerocopy.under_way() > 0 && Instant::now() < patience {
            zerocopy.wait(Duration::from_millis(100)).expect("polled");
            zerocopy.reap(&mut free).expect("told");
        }
        assert_eq!((zerocopy.report().sends, free.len()), (sends, 4));
        assert!(zerocopy.report().copied <= sends, "{:?}", zerocopy.report());
        drop(zerocopy);
        drop(sender);
        let received = taker.join().expect("the taker").expect("received");
        assert!(
            received.chunks(1 << 16).zip(0..32u8).all(|(block, round)| block.iter().all(|b| *b == round))
        );
        assert_eq!(received.len(), 32 << 16);
    }
}
