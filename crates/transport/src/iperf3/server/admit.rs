//! Admitting the streams of a client: TCP connections with its cookie, UDP from its address; their socket
//! buffers within the memory that one may take.

use super::{Arrived, Iperf3Limits, Phase, SharedPhase};
use crate::admission::canonical;
use crate::iperf3::TestDirection;
use crate::iperf3::control::{Control, Cookie};
use crate::iperf3::data::{DataSocket, DataStream, answer};
use crate::iperf3::open::{receive_trains, udp_buffer_bytes, udp_buffers};
use crate::iperf3::parameters::{Parameters, number};
use crate::iperf3::workers::stream_id;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::readiness::is_waiting;
use linerate_system::stop::Stop;
use linerate_system::{lock, socket};
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
                if let Some(bytes) = wanted_buffers(parameters, limits, sender) {
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
    let wanted = |way| wanted_buffers(parameters, limits, way).map(|bytes| bytes.min(1 << 30) as usize);
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

/// A receiver that is read no faster than a limit holds so much of a second: more would only hide from the
/// sender that it must wait.
const HELD_SECONDS: f64 = 0.05;
const LEAST_HELD_BYTES: u64 = 128 << 10;

/// Streams of a test, both ways.
pub(super) fn streams(parameters: &Parameters) -> u32 {
    let ways = if parameters.direction == TestDirection::Both { 2 } else { 1 };
    parameters.parallel.max(1) * ways
}

/// What one stream may ask for, in each direction, bytes: the kernel grants twice that (socket(7)).
pub(super) fn most(parameters: &Parameters, limits: &Iperf3Limits) -> u64 {
    limits.buffer_bytes / u64::from(streams(parameters)) / 4
}

/// What to ask for of one direction of a stream; none: TCP may size its buffer by itself, for all that it may
/// grow to is within the limit.
fn wanted_buffers(parameters: &Parameters, limits: &Iperf3Limits, sender: bool) -> Option<u64> {
    let most = most(parameters, limits);
    match (parameters.protocol, parameters.window_bytes) {
        (Protocol::Udp, window) => Some((udp_buffer_bytes(window, parameters.parallel) as u64).min(most)),
        (Protocol::Tcp, Some(window)) => Some(window.min(most)),
        (Protocol::Tcp, None) => {
            let for_rate = limits.bits_per_second.filter(|_| !sender).map(|bits| {
                let for_rate = bits as f64 / 8.0 * HELD_SECONDS / f64::from(streams(parameters));
                (for_rate as u64).max(LEAST_HELD_BYTES)
            });
            let free = (grows_to(sender) / 2 > most).then_some(most);
            match (for_rate, free) {
                (Some(for_rate), Some(free)) => Some(for_rate.min(free)),
                (for_rate, free) => for_rate.or(free),
            }
        }
    }
}

/// What TCP may size a buffer to, bytes (tcp(7): the third of tcp_rmem and tcp_wmem); where it cannot be
/// read, anything.
fn grows_to(sender: bool) -> u64 {
    let name = if sender { "tcp_wmem" } else { "tcp_rmem" };
    let text = Sysroot::live().text(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    text.split_whitespace().nth(2).and_then(|word| word.parse().ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Parameters {
        Parameters::from_json(&serde_json::from_str(text).expect("JSON")).expect("parameters")
    }

    #[test]
    fn whatever_is_asked_for_all_buffers_fit_the_limit() {
        for limit in [1 << 20, 64 << 20, 256 << 20] {
            let limits = Iperf3Limits { buffer_bytes: limit, ..Iperf3Limits::default() };
            for text in [
                r#"{"udp":true,"time":1,"len":1000,"parallel":64}"#,
                r#"{"udp":true,"time":1,"len":1000,"parallel":1,"window":500000000}"#,
                r#"{"tcp":true,"time":1,"parallel":128}"#,
                r#"{"tcp":true,"time":1,"parallel":8,"bidirectional":1,"window":100000000}"#,
                r#"{"tcp":true,"time":1,"parallel":1}"#,
            ] {
                let parameters = asked(text);
                // Granted: twice what is asked for; TCP's own: what it may grow to.
                let granted = |sender| {
                    wanted_buffers(&parameters, &limits, sender).map_or(grows_to(sender), |bytes| 2 * bytes)
                };
                let all = u64::from(streams(&parameters)) * (granted(true) + granted(false));
                assert!(all <= limit, "{text}: {all} of {limit}");
            }
        }
    }

    #[test]
    fn a_receiver_under_a_rate_holds_little() {
        let limits = Iperf3Limits { bits_per_second: Some(80_000_000), ..Iperf3Limits::default() };
        let parameters = asked(r#"{"tcp":true,"time":1,"parallel":2}"#);
        assert_eq!(wanted_buffers(&parameters, &limits, false), Some(250_000));
    }
}
