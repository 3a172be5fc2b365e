//! One control connection of a client that holds the key: its tests one after another, its lanes, its samples.

use super::admission::Place;
use super::lane::Lane;
use super::noise::{Broken, Channel, REQUEST_LIMIT_BYTES};
use super::protocol::{Hello, LaneTicket, OpenRequest, Opened, PROTOCOL, Reply, Request, Sample};
use super::secret::Token;
use super::server::{Shared, size_buffer};
use super::wire::Timed;
use crate::plan::Protocol;
use crate::probe::usage::{CpuTimes, Throttle};
use crate::sysroot::Sysroot;
use socket2::SockRef;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often an idle session looks after its lanes.
const TICK: Duration = Duration::from_millis(200);
/// A request that began must be whole, and its answer taken, within this.
const MESSAGE: Duration = Duration::from_secs(5);
/// Receivers that were asked to stop end by themselves within this; then their streams are cut.
const GENTLE_END: Duration = Duration::from_millis(700);
/// All lanes have ended within this.
const END: Duration = Duration::from_millis(1700);

struct Session<'a> {
    shared: &'a Shared,
    /// Our end of the control connection, as a client knows it.
    local: SocketAddr,
    sysroot: Sysroot,
    start: Instant,
    lanes: Vec<Arc<Lane>>,
    _place: Place,
}

/// Serves a client that has shown the key, from its `Hello` until it is gone or idle for too long.
pub fn serve(stream: &TcpStream, mut channel: Channel, hello: &Request, shared: &Shared) {
    let mut answer = |reply: &Reply| channel.send(Timed::new(stream, MESSAGE), reply);
    let session = match welcome(stream, hello, shared) {
        Ok((session, hello)) => answer(&Reply::Hello(hello)).map(|()| session),
        Err(text) => {
            let _ = answer(&Reply::Error { text });
            return;
        }
    };
    // Whatever ends this, also a panic, drops the session, and with it its lanes.
    if let Ok(mut session) = session {
        while session.await_request(stream).is_some() {
            if session.answer(stream, &mut channel).is_err() {
                return;
            }
        }
    }
}

fn welcome<'a>(
    stream: &TcpStream,
    hello: &Request,
    shared: &'a Shared,
) -> Result<(Session<'a>, Hello), String> {
    let ours = env!("CARGO_PKG_VERSION");
    let Request::Hello { protocol, version } = hello else {
        return Err("the first request must be a hello".into());
    };
    if *protocol != PROTOCOL {
        return Err(format!(
            "it runs linerate {ours} (agent protocol {PROTOCOL}), this is linerate {} (agent protocol {protocol}); install the \
             same version on both hosts",
            printable(version)
        ));
    }
    let local =
        stream.local_addr().map_err(|error| format!("its end of the connection has no address: {error}"))?;
    let local = canonical(local);
    let place = shared.sessions.take().ok_or_else(|| {
        format!("it serves {} clients already; wait until one has finished", shared.sessions.bound())
    })?;
    let sysroot = Sysroot::live();
    let (interface, interface_mtu) = (shared.mtu_of)(local.ip()).unzip();
    let hello = Hello {
        protocol: PROTOCOL,
        version: ours.into(),
        host: sysroot.text("/proc/sys/kernel/hostname").unwrap_or_else(|_| local.ip().to_string()),
        instance: shared.instance.clone(),
        cores: u32::try_from(CpuTimes::read(&sysroot).cores()).unwrap_or(u32::MAX),
        interface,
        interface_mtu,
    };
    let session = Session { shared, local, sysroot, start: Instant::now(), lanes: Vec::new(), _place: place };
    Ok((session, hello))
}

/// An IPv4 address that came through an IPv6 socket, as IPv4; a link-local IPv6 address keeps its interface.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => (v4, address.port()).into(),
        IpAddr::V6(_) => address,
    }
}

/// What a client says of itself, fit for a sentence.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| letter.is_ascii_graphic()).take(32).collect()
}

impl Session<'_> {
    /// Waits for the first byte of a request and looks after the lanes meanwhile; none: the session is over.
    fn await_request(&self, stream: &TcpStream) -> Option<()> {
        let idle_since = Instant::now();
        stream.set_read_timeout(Some(TICK)).ok()?;
        loop {
            match stream.peek(&mut [0]) {
                Ok(0) => return None,
                Ok(_) => return Some(()),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return None,
            }
            self.expire_tokens();
            if self.shared.stopping() || idle_since.elapsed() > self.shared.limits.idle {
                return None;
            }
        }
    }

    /// Reads one request, does it, answers it.
    fn answer(&mut self, stream: &TcpStream, channel: &mut Channel) -> Result<(), Broken> {
        self.expire_tokens();
        let request = channel.receive(Timed::new(stream, MESSAGE), REQUEST_LIMIT_BYTES);
        let reply = match request {
            Ok(Request::Open(request)) => {
                self.open(&request).map_or_else(|text| Reply::Error { text }, Reply::Opened)
            }
            Ok(Request::Sample) => Reply::Sample(self.sample()),
            Ok(Request::Close) => {
                self.end_lanes();
                let last = self.sample();
                self.lanes.clear();
                Reply::Closed(last)
            }
            Ok(Request::Hello { .. }) => Reply::Error { text: "a second hello".into() },
            Err(Broken::Message(error)) => {
                Reply::Error { text: format!("a request is not understood: {error}") }
            }
            Err(broken) => return Err(broken),
        };
        channel.send(Timed::new(stream, MESSAGE), &reply)
    }

    fn open(&mut self, request: &OpenRequest) -> Result<Opened, String> {
        let bound = self.shared.limits.lanes;
        if !self.lanes.is_empty() {
            return Err("a test is running on this session; close it first".into());
        }
        if request.lanes.is_empty() || request.lanes.len() > bound {
            return Err(format!(
                "{} lanes were asked for; it takes 1 to {bound} at once",
                request.lanes.len()
            ));
        }
        let mut tickets = Vec::with_capacity(request.lanes.len());
        for wanted in &request.lanes {
            match self.open_lane(wanted.protocol, request) {
                Ok(ticket) => tickets.push(ticket),
                Err(why) => {
                    self.end_lanes();
                    self.lanes.clear();
                    return Err(why);
                }
            }
        }
        Ok(Opened { lanes: tickets })
    }

    fn open_lane(&mut self, protocol: Protocol, request: &OpenRequest) -> Result<LaneTicket, String> {
        let place = self
            .shared
            .lanes
            .take()
            .ok_or("all its lanes are taken; wait until another client has finished")?;
        let mut lane = Lane::new(protocol, self.start, self.shared.limits.token_life, place);
        lane.verify = request.verify;
        lane.receive_buffer_bytes = request.receive_buffer_bytes;
        let lane = Arc::new(lane);
        let token = Token::random().map_err(|error| format!("/dev/urandom cannot be read there: {error}"))?;
        let udp_port = match protocol {
            Protocol::Tcp => {
                self.shared.tokens.issue(token.clone(), lane.clone());
                None
            }
            Protocol::Udp => Some(self.receive_udp(lane.clone(), token.clone()).map_err(|error| {
                format!("it cannot receive UDP: {error}; too many open files? Raise `ulimit -n` there")
            })?),
        };
        self.lanes.push(lane);
        Ok(LaneTicket { token, udp_port })
    }

    /// A socket and a thread for a UDP lane; gives its port.
    fn receive_udp(&self, lane: Arc<Lane>, token: Token) -> io::Result<u16> {
        let mut address = self.local;
        address.set_port(0);
        let socket = UdpSocket::bind(address)?;
        size_buffer(SockRef::from(&socket), &lane)?;
        let port = socket.local_addr()?.port();
        let receive = self.shared.receivers.udp;
        std::thread::Builder::new().name("udp lane".into()).spawn(move || {
            lane.run(None, |received, stop| receive(socket, token.bytes(), received, stop));
        })?;
        Ok(port)
    }

    fn sample(&self) -> Sample {
        Sample {
            lanes: self.lanes.iter().map(|lane| lane.sample()).collect(),
            process_cpu_nanos: nanos(linerate_system::counters::process_cpu()),
            throttle: Throttle::read(&self.sysroot),
            cpu_times: CpuTimes::read(&self.sysroot),
            nanos: nanos(self.start.elapsed()),
        }
    }

    fn expire_tokens(&self) {
        for lane in &self.lanes {
            lane.expire();
        }
        let now = Instant::now();
        self.shared.tokens.withdraw(|lane| lane.expires <= now);
    }

    /// Takes back unused tokens, stops all receivers, and cuts the streams of those that do not stop.
    fn end_lanes(&self) {
        if self.lanes.is_empty() {
            return;
        }
        let began = Instant::now();
        self.shared.tokens.withdraw(|lane| self.lanes.iter().any(|ours| std::ptr::eq(&**ours, lane)));
        for lane in &self.lanes {
            lane.stop();
        }
        let all_ended = |deadline| self.lanes.iter().all(|lane| lane.await_end(deadline));
        if !all_ended(began + GENTLE_END) {
            for lane in &self.lanes {
                lane.cut();
            }
            all_ended(began + END);
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.end_lanes();
    }
}

/// Nanoseconds that fit 584 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
