//! Admitting the streams of a client: TCP connections with its cookie, UDP from its address.

use super::{Arrived, Iperf3Limits, Phase, SharedPhase, buffers};
use crate::admission::canonical;
use crate::iperf3::TestDirection;
use crate::iperf3::control::Control;
use crate::iperf3::data_stream::{DataSocket, DataStream};
use crate::iperf3::open::{receive_trains, udp_buffers};
use crate::iperf3::parameters::{Parameters, number};
use crate::iperf3::state::Cookie;
use crate::iperf3::udp::answer;
use crate::iperf3::workers::stream_id;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::lock;
use linerate_system::readiness::is_waiting;
use linerate_system::socket;
use linerate_system::stop::Stop;
use socket2::{Domain, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Why streams could not be had: iperf3's number, the kernel's, and words.
pub(super) struct NotAdmitted {
    pub number: i32,
    pub errno: i32,
    pub why: String,
}

impl NotAdmitted {
    fn because(number: i32, why: &str, error: &io::Error) -> NotAdmitted {
        NotAdmitted { number, errno: error.raw_os_error().unwrap_or(0), why: format!("{why}: {error}") }
    }
}

/// Where streams come from.
pub(super) enum Gate<'a> {
    Tcp { cookie: Cookie, streams: &'a Receiver<Arrived>, phase: &'a SharedPhase },
    Udp { next: UdpSocket, local: SocketAddr, client: IpAddr },
}

impl<'a> Gate<'a> {
    /// Open before the client is told to come.
    pub(crate) fn open(
        protocol: Protocol,
        control: &Control,
        cookie: Cookie,
        streams: &'a Receiver<Arrived>,
        phase: &'a SharedPhase,
    ) -> Result<Self, NotAdmitted> {
        match protocol {
            Protocol::Tcp => {
                *lock(phase) = Phase::Opening(cookie);
                Ok(Gate::Tcp { cookie, streams, phase })
            }
            Protocol::Udp => {
                let failed =
                    |error| NotAdmitted::because(number::STREAM_LISTEN, "no UDP socket for streams", &error);
                let local = canonical(control.local().map_err(failed)?);
                let client = canonical(control.peer().map_err(failed)?).ip();
                Ok(Gate::Udp { next: bind(local).map_err(failed)?, local, client })
            }
        }
    }

    /// The next stream, or none within the moment that is waited for it.
    fn next(
        &mut self,
        parameters: &Parameters,
        limits: &Iperf3Limits,
        sender: bool,
    ) -> io::Result<Option<DataSocket>> {
        match self {
            Gate::Tcp { cookie, streams, .. } => match streams.recv_timeout(POLL_INTERVAL) {
                // One of the client before may have been on its way when its test ended.
                Ok((shown, stream)) if shown == *cookie => {
                    stream.set_nonblocking(false)?;
                    set_up(&stream, parameters);
                    tcp_buffers(&stream, parameters, limits, sender);
                    Ok(Some(DataSocket::Tcp(stream)))
                }
                _ => Ok(None),
            },
            Gate::Udp { next, local, client } => {
                let mut datagram = [0; 64];
                let (length, from) = match next.recv_from(&mut datagram) {
                    Ok(received) => received,
                    Err(error) if is_waiting(&error) => return Ok(None),
                    Err(error) => return Err(error),
                };
                // Whose address does not stand behind a control connection may be forged: nothing is sent
                // there.
                let Some(reply) = answer(&datagram[..length]).filter(|_| from.ip() == *client) else {
                    return Ok(None);
                };
                next.connect(from)?;
                let admitted = std::mem::replace(next, bind(*local)?);
                if let Some(bytes) = buffers::wanted(parameters, limits, sender) {
                    udp_buffers(&admitted, usize::try_from(bytes).unwrap_or(usize::MAX));
                }
                receive_trains(&admitted);
                admitted.send(&reply)?;
                Ok(Some(DataSocket::Udp(admitted)))
            }
        }
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        if let Gate::Tcp { phase, streams, .. } = self {
            *lock(phase) = Phase::Busy;
            // More than it was asked for.
            while streams.try_recv().is_ok() {}
        }
    }
}

/// All streams of a test, in the order in which iperf3 opens them: those that the client sends on come first.
pub(super) fn admit(
    mut gate: Gate<'_>,
    control: &mut Control,
    parameters: &Parameters,
    limits: &Iperf3Limits,
    stop: &Stop,
) -> Result<Vec<DataStream>, NotAdmitted> {
    let ways: &[bool] = match parameters.direction {
        TestDirection::Send => &[false],
        TestDirection::Receive => &[true],
        TestDirection::Both => &[false, true],
    };
    let wanted: Vec<bool> =
        ways.iter().flat_map(|sender| (0..parameters.parallel).map(move |_| *sender)).collect();
    let (start, mut streams) = (clock::now(), Vec::new());
    let refuse = |why: String| Err(NotAdmitted { number: number::STREAM_ACCEPT, errno: 0, why });
    while let Some(sender) = wanted.get(streams.len()) {
        if clock::since(start) > limits.opening || stop.is_ended() {
            return refuse(format!("the client opened {} of {} streams", streams.len(), wanted.len()));
        }
        let failed =
            |error| NotAdmitted::because(number::STREAM_ACCEPT, "a stream could not be admitted", &error);
        match gate.next(parameters, limits, *sender).map_err(failed)? {
            Some(socket) => {
                streams.push(DataStream { id: stream_id(streams.len()), sender: *sender, socket });
            }
            // The client says nothing before its streams are open, unless it goes.
            None => match control.poll_state(Duration::ZERO, stop) {
                Ok(None) => {}
                Ok(Some(state)) => {
                    return refuse(format!("the client said {state:?} before its streams were open"));
                }
                Err(error) => return refuse(format!("the client is gone: {error}")),
            },
        }
    }
    Ok(streams)
}

/// A name that is not there would have the kernel load a module, for a word of a stranger's.
fn is_loaded(congestion_control: &str) -> bool {
    let names = Sysroot::live().text("/proc/sys/net/ipv4/tcp_available_congestion_control");
    names.is_ok_and(|names| names.split_whitespace().any(|name| name == congestion_control))
}

/// What the client asked for its connections. What cannot be had shows in the figures.
fn set_up(stream: &TcpStream, parameters: &Parameters) {
    let socket = SockRef::from(stream);
    if let Some(name) = &parameters.congestion_control
        && is_loaded(name)
    {
        // iperf3 goes on with its own where it does not have it; the results name the one that was used.
        let _ = socket.set_tcp_congestion(name.as_bytes());
    }
    let _ = stream.set_nodelay(parameters.no_delay);
    if parameters.type_of_service > 0 {
        let _ = socket.set_tos_v4(parameters.type_of_service);
        let _ = socket.set_tclass_v6(parameters.type_of_service);
    }
}

/// The direction in which nothing flows keeps the buffer that the kernel gives at first, unless the client
/// asks for another.
fn tcp_buffers(stream: &TcpStream, parameters: &Parameters, limits: &Iperf3Limits, sender: bool) {
    let both = parameters.window_bytes.is_some();
    let wanted = |way| buffers::wanted(parameters, limits, way).map(|bytes| bytes.min(1 << 30) as usize);
    if let Some(bytes) = wanted(true).filter(|_| sender || both) {
        let _ = socket::set_send_buffer(stream, bytes);
    }
    if let Some(bytes) = wanted(false).filter(|_| !sender || both) {
        let _ = socket::set_receive_buffer(stream, bytes);
    }
}

/// A UDP socket beside others of the same address: each stream is one of them, connected to its client.
fn bind(local: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&local.into())?;
    let socket: UdpSocket = socket.into();
    socket.set_read_timeout(Some(POLL_INTERVAL))?;
    Ok(socket)
}
