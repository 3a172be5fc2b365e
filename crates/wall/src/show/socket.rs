//! The socket of a screen, its buffer as the kernel grants it, and what to do where that is too small; and how
//! long to let datagrams gather, since waking up for each burst costs a screen more than copying it.
//!
//! The same thought as in `flow::receive`, with longer naps: video is paced by its sender, who waits for no
//! answer. What comes during a nap must be a small part of the socket's buffer, also when a sender sends a
//! frame at once.

use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::show_size;
use linerate_system::stop::Stop;
use linerate_system::trains::TrainReceiver;
use linerate_system::{Errno, socket};
use socket2::{Domain, InterfaceIndexOrAddress, SockRef, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

/// Trains a call.
const BATCH: usize = 16;
/// Asked for where the size of the frames is not known, and at least.
const LEAST_BUFFER_BYTES: usize = 16 << 20;
const MOST_BUFFER_BYTES: usize = 64 << 20;

/// What the kernel gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub asked_bytes: u64,
    pub bytes: u64,
}

impl Granted {
    /// What to do, where it is less than a frame and less than was asked for: a sender may send a frame at
    /// once.
    pub(crate) fn remedy(self, frame_bytes: u64) -> Option<String> {
        let wanted = frame_bytes.min(self.asked_bytes);
        (self.bytes < wanted).then(|| {
            format!(
                "the receive buffer is {} of {} that were asked for, less than a frame: datagrams are lost \
                 while this process waits for a core; as root: \
                 sysctl -w net.core.rmem_max={}",
                show_size(self.bytes),
                show_size(self.asked_bytes),
                self.asked_bytes
            )
        })
    }
}

fn bind(listen: SocketAddr) -> io::Result<UdpSocket> {
    if !listen.ip().is_multicast() {
        return UdpSocket::bind(listen);
    }
    let socket = Socket::new(Domain::for_address(listen), Type::DGRAM, None)?;
    // Several screens of one host may show the same group.
    socket.set_reuse_address(true)?;
    socket.bind(&listen.into())?;
    Ok(socket.into())
}

/// Tells the network (IGMP, MLD) that this host wants what is sent to the group; it is left when the socket
/// is closed.
fn join(socket: &UdpSocket, group: SocketAddr, interface: Option<&str>) -> Result<(), Failure> {
    let index = interface.map(interface_index).transpose()?;
    let socket = SockRef::from(socket);
    let joined = match group {
        SocketAddr::V4(group) => {
            let by = InterfaceIndexOrAddress::Index(index.unwrap_or(0));
            socket.join_multicast_v4_n(group.ip(), &by)
        }
        SocketAddr::V6(group) => {
            socket.join_multicast_v6(group.ip(), index.unwrap_or_else(|| group.scope_id()))
        }
    };
    joined.map_err(|error| {
        let why = match error.kind() {
            _ if Errno::from_io_error(&error) == Some(Errno::NODEV) => {
                "no route says by which NIC; name it with --interface".to_string()
            }
            _ => format!("{error}; name the NIC with --interface"),
        };
        Failure::Lacks(format!("--listen {group}: the multicast group cannot be joined: {why}"))
    })
}

fn interface_index(name: &str) -> Result<u32, Failure> {
    let place = Path::new("/sys/class/net").join(name).join("ifindex");
    Sysroot::live().parse(place).known().copied().ok_or_else(|| {
        Failure::Usage(format!(
            "--interface {name}: there is no such interface; `ip link` lists those of this host"
        ))
    })
}

/// A bound socket and the buffers of its batches.
#[derive(Debug)]
pub(crate) struct Ear {
    socket: UdpSocket,
    pub batch: TrainReceiver,
    granted: Granted,
}

impl Ear {
    /// Listens; frames of `frame_bytes` are expected where that is known.
    pub(crate) fn open(
        listen: SocketAddr,
        interface: Option<&str>,
        frame_bytes: Option<usize>,
    ) -> Result<Ear, Failure> {
        let named_error = |error: io::Error| {
            let why = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "another program receives there; stop it or choose another port".into()
                }
                io::ErrorKind::AddrNotAvailable => {
                    "no address of this machine; leave it out to listen on all".into()
                }
                io::ErrorKind::PermissionDenied => {
                    "ports below 1024 are for root; choose a higher one".into()
                }
                _ => error.to_string(),
            };
            Failure::Lacks(format!("--listen {listen}: {why}"))
        };
        let socket = bind(listen).map_err(named_error)?;
        if listen.ip().is_multicast() {
            join(&socket, listen, interface)?;
        }
        let asked = (frame_bytes.unwrap_or(0) * 2).clamp(LEAST_BUFFER_BYTES, MOST_BUFFER_BYTES);
        let bytes = socket::set_receive_buffer(&socket, asked).map_err(named_error)?;
        // Without UDP_GRO (before Linux 5.0) the same loop receives datagram by datagram.
        let _ = socket::set_receive_trains(&socket);
        let _ = socket::set_drop_reports(&socket);
        let _ = socket::set_arrival_times(&socket);
        socket.set_nonblocking(true).map_err(named_error)?;
        let granted = Granted { asked_bytes: asked as u64, bytes: bytes as u64 };
        Ok(Ear { socket, batch: TrainReceiver::new(BATCH), granted })
    }

    /// Where it listens, also where the kernel chose the port.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// The buffer.
    pub(crate) fn granted(&self) -> Granted {
        self.granted
    }

    /// Takes what is there into `batch`; how many trains. 0: nothing for now.
    pub(crate) fn receive(&mut self) -> io::Result<usize> {
        match self.batch.receive(&self.socket) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(0)
            }
            other => other,
        }
    }

    /// The last call filled the batch: there may be more.
    pub(crate) fn is_full(&self, taken: usize) -> bool {
        taken == BATCH
    }

    /// Waits for something to come, here or at the `signal`, or for the end.
    pub(crate) fn wait(
        &self,
        signal: Option<BorrowedFd<'_>>,
        stop: &Stop,
        timeout: Duration,
    ) -> io::Result<()> {
        let sockets: Vec<_> = signal.into_iter().chain([self.socket.as_fd()]).collect();
        stop.wait_any_readable(&sockets, Some(timeout)).map(drop)
    }
}

/// Fifteen screens on two cores wake up 3,750 times a second, not 100,000 times.
const LONGEST_NAP: Duration = Duration::from_millis(4);
/// A shorter nap is none: the timer's slack is as long.
const SHORTEST_NAP: Duration = Duration::from_micros(60);
/// Of the buffer: what may lie there after a nap, and what is too much.
const SMALL_PART: u64 = 32;
const LARGE_PART: u64 = 16;

/// The nap of one receiver.
#[derive(Debug)]
pub(crate) struct Nap {
    small_bytes: u64,
    large_bytes: u64,
    length: Duration,
}

impl Nap {
    /// For a socket whose buffer holds so much payload.
    pub(crate) fn new(buffer_bytes: u64) -> Nap {
        Nap {
            small_bytes: buffer_bytes / SMALL_PART,
            large_bytes: buffer_bytes / LARGE_PART,
            length: SHORTEST_NAP,
        }
    }

    /// So much was there after the last one: the next one; none where it had better wait in the kernel.
    pub(crate) fn after(&mut self, bytes: u64) -> Option<Duration> {
        if bytes >= self.large_bytes {
            self.length /= 2;
        } else if bytes < self.small_bytes {
            self.length = self.length * 3 / 2;
        }
        self.length = self.length.clamp(SHORTEST_NAP / 2, LONGEST_NAP);
        (self.length >= SHORTEST_NAP).then_some(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_long_at_low_rates_and_none_where_the_buffer_fills() {
        let mut nap = Nap::new(16 << 20);
        let long = (0..50).fold(None, |_, _| nap.after(70_000));
        assert_eq!(long, Some(LONGEST_NAP));
        // A whole frame at once.
        let short = (0..50).fold(None, |_, _| nap.after(12_288_000));
        assert_eq!(short, None);
        assert!(nap.after(1000).is_none_or(|nap| nap < Duration::from_millis(1)));
    }
}
