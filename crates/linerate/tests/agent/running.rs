//! What the tests of the agent share: an agent on a thread, receivers that only count, and patience.

use linerate::agent::{
    Agent, Interface, InterfaceOf, Key, LaneRequest, Limits, OpenRequest, Receivers, Sample, Session,
    Settings, StreamSocket,
};
use linerate::failure::Failure;
use linerate::flow::receive::Received;
use linerate::flow::stream::{StreamCounters, StreamSpec};
use linerate::plan::Protocol;
use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Generous: the machine that tests may be busy.
pub const PATIENCE: Duration = Duration::from_secs(20);

fn nothing_came(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn count_tcp(mut stream: TcpStream, verify: bool, received: &Received, stop: &AtomicBool) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(50)))?;
    let mut buffer = [0; 64 << 10];
    while !stop.load(Ordering::Acquire) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(bytes) => {
                if verify {
                    let sum: u64 = buffer[..bytes].iter().map(|byte| u64::from(*byte)).sum();
                    received.checksum.fetch_add(sum, Ordering::Relaxed);
                }
                received.progress.add(bytes as u64);
            }
            Err(error) if nothing_came(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Admits the address that shows the token, and answers only there.
pub fn count_udp(
    socket: UdpSocket,
    token: &[u8; 32],
    received: &Received,
    stop: &AtomicBool,
) -> io::Result<()> {
    socket.set_read_timeout(Some(Duration::from_millis(50)))?;
    let mut buffer = [0; 2048];
    let mut sender = None;
    while !stop.load(Ordering::Acquire) {
        match socket.recv_from(&mut buffer) {
            Ok((bytes, from)) if sender.is_none() && buffer[..bytes] == *token => {
                sender = Some(from);
                socket.send_to(b"in", from)?;
            }
            Ok((bytes, from)) if sender == Some(from) => {
                received.datagrams.fetch_add(1, Ordering::Relaxed);
                received.progress.add(bytes as u64);
            }
            Ok(_) => {}
            Err(error) if nothing_came(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Stands where the engine of `flow::stream` would.
pub fn no_stream(_: &StreamSpec, _: StreamSocket, _: &StreamCounters, _: &AtomicBool) -> io::Result<()> {
    Err(io::Error::other("no stream in this test"))
}

pub const COUNTING: Receivers = Receivers { tcp: count_tcp, udp: count_udp, stream: no_stream };

/// An agent on a thread of this process.
pub struct Running {
    pub agent: Arc<Agent>,
    pub address: SocketAddr,
    pub key: Key,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    pub fn start() -> Running {
        Running::with(Limits::default(), COUNTING, "127.0.0.1:0")
    }

    pub fn with(settings: impl Into<Settings>, receivers: Receivers, listen: &str) -> Running {
        let key = Key::random().expect("a key");
        let loopback = || Interface { name: "lo".into(), mtu: Some(65_536), cores: vec![0, 1] };
        let interface_of: InterfaceOf = Arc::new(move |ip| ip.is_loopback().then(loopback));
        let listen = [listen.parse().expect("an address")];
        let agent = Agent::bind_with(&listen, key.clone(), receivers, interface_of, settings.into());
        let agent = Arc::new(agent.expect("an agent"));
        let stop = Arc::new(AtomicBool::new(false));
        let (serving, ended) = (agent.clone(), stop.clone());
        let thread = std::thread::spawn(move || serving.serve(&ended));
        let address = agent.local_addresses()[0];
        Running { agent, address, key, stop, thread: Some(thread) }
    }

    pub fn connect(&self) -> Session {
        Session::connect(self.address, &self.key).expect("a session")
    }

    pub fn awaits_load(&self, load: (usize, usize, usize)) {
        until("the load", || self.agent.load() == load);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the agent ends without a panic");
        }
    }
}

pub fn until(what: &str, reached: impl Fn() -> bool) {
    let began = Instant::now();
    while !reached() {
        assert!(began.elapsed() < PATIENCE, "{what} was not reached");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn lanes(protocols: &[Protocol]) -> OpenRequest {
    let lanes = protocols.iter().map(|protocol| LaneRequest { protocol: *protocol }).collect();
    OpenRequest { lanes, verify: true, receive_buffer_bytes: Some(128 << 10), ..OpenRequest::default() }
}

pub fn sample_when(session: &Session, reached: impl Fn(&Sample) -> bool) -> Sample {
    let began = Instant::now();
    loop {
        let sample = session.sample().expect("a sample");
        if reached(&sample) {
            return sample;
        }
        assert!(began.elapsed() < PATIENCE, "{sample:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a stranger's connection gets: the bytes until it is closed.
pub fn heard(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "closed, not left open"),
    }
    bytes
}

pub fn refusal(result: Result<Session, Failure>) -> String {
    match result {
        Ok(_) => panic!("it was let in"),
        Err(failure) => {
            assert_eq!(failure.exit_status(), 3);
            failure.to_string()
        }
    }
}
