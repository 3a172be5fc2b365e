//! Opening connections and streams as a client: each step bounded in time, and left within a moment when the
//! user wants to stop.

use super::Iperf3Test;
use super::control::Cookie;
use super::data::{DataSocket, connect_message, is_reply};
use crate::address::resolve_named;
use crate::agent::connect_within;
use crate::flow::stream::set_congestion_control;
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_system::readiness::is_waiting;
use linerate_system::stop::Stop;
use linerate_system::{clock, socket};
use socket2::{Domain, Socket, Type};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// iperf3's port.
pub const DEFAULT_PORT: u16 = 5201;
/// A connection is opened within this time or not at all.
const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// A UDP stream likewise; its message goes out again in between, since it may be lost.
const ADMISSION_WAIT: Duration = Duration::from_secs(5);
const ADMISSION_AGAIN: Duration = Duration::from_secs(1);
/// The port of a stream that is not open yet is asked again after this.
const REFUSED_AGAIN: Duration = Duration::from_millis(50);
/// Room for bursts; the kernel may grant less.
const UDP_BUFFER_BYTES: usize = 8 << 20;
const ALL_UDP_BUFFERS: usize = 64 << 20;

/// The address of `host[:port]`; a name is looked up, and its first address taken.
pub fn parse_address(text: &str) -> Result<SocketAddr, Failure> {
    resolve_named("--iperf3", text, DEFAULT_PORT)
}

/// Where connections come from and go to.
#[derive(Debug)]
pub(crate) struct Route<'a> {
    pub address: SocketAddr,
    pub local: Option<IpAddr>,
    pub device: Option<&'a str>,
    pub stop: &'a Stop,
}

impl Route<'_> {
    fn socket(&self, kind: Type) -> io::Result<Socket> {
        let socket = Socket::new(Domain::for_address(self.address), kind, None)?;
        if let Some(device) = self.device {
            socket.bind_device(Some(device.as_bytes()))?;
        }
        if let Some(local) = self.local {
            socket.bind(&SocketAddr::new(local, 0).into())?;
        }
        Ok(socket)
    }

    /// A TCP connection; `set_up` sees its socket before it is opened, when buffers still shape the window.
    pub(crate) fn connect(&self, set_up: impl FnOnce(&Socket) -> io::Result<()>) -> io::Result<TcpStream> {
        let socket = self.socket(Type::STREAM)?;
        set_up(&socket)?;
        connect_within(socket, self.address, CONNECT_WAIT, self.stop)
    }

    /// One stream of a test, admitted by the server.
    pub(crate) fn stream(&self, test: &Iperf3Test, cookie: &Cookie) -> io::Result<DataSocket> {
        match test.protocol {
            Protocol::Tcp => {
                let mut stream = self.connect(|socket| set_up(socket, test))?;
                stream.write_all(&cookie.0)?;
                Ok(DataSocket::Tcp(stream))
            }
            Protocol::Udp => self.udp_stream(test).map(DataSocket::Udp),
        }
    }

    fn udp_stream(&self, test: &Iperf3Test) -> io::Result<UdpSocket> {
        let socket = self.socket(Type::DGRAM)?;
        socket.connect(&self.address.into())?;
        let socket: UdpSocket = socket.into();
        udp_buffers(&socket, udp_buffer_bytes(test.window_bytes, test.parallel));
        // A datagram whose checksum is wrong can be read, and then is none (select(2), BUGS).
        socket.set_read_timeout(Some(REFUSED_AGAIN))?;
        let (start, mut asked) = (clock::now(), None::<Instant>);
        let mut datagram = [0; 64];
        while clock::since(start) < ADMISSION_WAIT {
            if self.stop.is_ended() {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "stopped"));
            }
            if asked.is_none_or(|asked| clock::since(asked) >= ADMISSION_AGAIN) {
                socket.send(&connect_message())?;
                asked = Some(clock::now());
            }
            let left = ADMISSION_WAIT.saturating_sub(clock::since(start));
            if !self.stop.wait_readable(&socket, Some(ADMISSION_AGAIN.min(left)))? {
                continue;
            }
            match socket.recv(&mut datagram) {
                Ok(length) if is_reply(&datagram[..length]) => {
                    receive_trains(&socket);
                    return Ok(socket);
                }
                // Data of a stream that is already open, or a port that is not open yet.
                Ok(_) => {}
                Err(error) if is_waiting(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.stop.wait(REFUSED_AGAIN);
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the server did not answer the datagram that opens a stream: does a firewall drop UDP to its \
             port?",
        ))
    }
}

/// What a TCP connection wants to be told before it is opened.
fn set_up(socket: &Socket, test: &Iperf3Test) -> io::Result<()> {
    if let Some(bytes) = test.window_bytes {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        socket::set_send_buffer(socket, bytes)?;
        socket::set_receive_buffer(socket, bytes)?;
    }
    test.congestion_control.as_ref().map_or(Ok(()), |name| set_congestion_control(socket, name))
}

/// What a UDP stream asks for as its buffers: the kernel's default holds a tenth of a millisecond at 10 Gb/s.
pub(crate) fn udp_buffer_bytes(window_bytes: Option<u64>, streams: u32) -> usize {
    let share = ALL_UDP_BUFFERS / streams.max(1) as usize;
    let own = share.clamp(256 << 10, UDP_BUFFER_BYTES);
    window_bytes.map_or(own, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Sets them.
pub(crate) fn udp_buffers(socket: &UdpSocket, bytes: usize) {
    // What is granted stands in the figures.
    let _ = socket::set_send_buffer(socket, bytes);
    let _ = socket::set_receive_buffer(socket, bytes);
}

/// Lets datagrams come in trains, with the times at which they came.
pub(crate) fn receive_trains(socket: &UdpSocket) {
    // Without them datagrams come one by one and are timed by us.
    let _ = socket::set_receive_trains(socket);
    let _ = socket::set_arrival_times(socket);
}
