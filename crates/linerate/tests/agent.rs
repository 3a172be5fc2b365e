//! The agent from outside, on loopback: who gets in, what it counts, how it ends, and what it withstands.
//!
//! The receivers are stand-ins that only count; those of `flow` have their own tests.

use linerate::agent::{
    Agent, CONTROL_MAGIC, DATA_MAGIC, Key, LaneRequest, Limits, MtuOf, OpenRequest, Opened, OwnAgent,
    Receivers, Sample, Session, serve_own, serve_own_on,
};
use linerate::failure::Failure;
use linerate::flow::receive::Received;
use linerate::plan::Protocol;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Generous: the machine that tests may be busy.
const PATIENCE: Duration = Duration::from_secs(20);

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
fn count_udp(socket: UdpSocket, token: &[u8; 32], received: &Received, stop: &AtomicBool) -> io::Result<()> {
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

const COUNTING: Receivers = Receivers { tcp: count_tcp, udp: count_udp };

/// An agent on a thread of this process.
struct Running {
    agent: Arc<Agent>,
    address: SocketAddr,
    key: Key,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn start() -> Running {
        Running::with(Limits::default(), COUNTING, "127.0.0.1:0")
    }

    fn with(limits: Limits, receivers: Receivers, listen: &str) -> Running {
        let key = Key::random().expect("a key");
        let mtu_of: MtuOf = Arc::new(|ip| ip.is_loopback().then(|| ("lo".to_string(), 65_536)));
        let listen = [listen.parse().expect("an address")];
        let agent =
            Arc::new(Agent::bind_with(&listen, key.clone(), receivers, mtu_of, limits).expect("an agent"));
        let stop = Arc::new(AtomicBool::new(false));
        let (serving, ended) = (agent.clone(), stop.clone());
        let thread = std::thread::spawn(move || serving.serve(&ended));
        let address = agent.local_addresses()[0];
        Running { agent, address, key, stop, thread: Some(thread) }
    }

    fn connect(&self) -> Session {
        Session::connect(self.address, &self.key).expect("a session")
    }

    fn awaits_load(&self, load: (usize, usize, usize)) {
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

fn until(what: &str, reached: impl Fn() -> bool) {
    let began = Instant::now();
    while !reached() {
        assert!(began.elapsed() < PATIENCE, "{what} was not reached");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn lanes(protocols: &[Protocol]) -> OpenRequest {
    let lanes = protocols.iter().map(|protocol| LaneRequest { protocol: *protocol }).collect();
    OpenRequest { lanes, verify: true, receive_buffer_bytes: Some(128 << 10) }
}

fn sample_when(session: &Session, reached: impl Fn(&Sample) -> bool) -> Sample {
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
fn heard(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "closed, not left open"),
    }
    bytes
}

fn refusal(result: Result<Session, Failure>) -> String {
    match result {
        Ok(_) => panic!("it was let in"),
        Err(failure) => {
            assert_eq!(failure.exit_status(), 3);
            failure.to_string()
        }
    }
}

#[test]
fn tests_over_tcp_and_udp_follow_one_another_on_one_session() {
    let running = Running::start();
    let session = running.connect();
    let hello = session.hello().clone();
    assert_eq!((hello.interface.as_deref(), hello.interface_mtu), (Some("lo"), Some(65_536)));
    assert!(hello.instance.len() == 16 && hello.cores > 0 && !hello.host.is_empty(), "{hello:?}");
    assert_eq!(running.connect().hello().instance, hello.instance, "one agent, two connections");

    for round in 1..=3u64 {
        let opened = session.open(lanes(&[Protocol::Tcp, Protocol::Udp])).expect("opened");
        let mut tcp =
            session.connect_tcp(&opened.lanes[0], |socket| socket.set_tcp_nodelay(true)).expect("a stream");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        udp.connect(session.udp_address(&opened.lanes[1]).expect("a port")).expect("connected");
        udp.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        udp.send(opened.lanes[1].token.bytes()).expect("the token");
        udp.recv(&mut [0; 16]).expect("admitted");
        tcp.write_all(&vec![1; 100_000 * round as usize]).expect("bytes");
        tcp.shutdown(std::net::Shutdown::Write).expect("the end");
        for _ in 0..10 {
            udp.send(&[2; 100]).expect("a datagram");
        }
        let sample = sample_when(&session, |sample| sample.lanes[0].ended && sample.lanes[1].datagrams == 10);
        assert_eq!((sample.lanes[0].bytes, sample.lanes[0].checksum), (100_000 * round, 100_000 * round));
        assert_eq!((sample.lanes[1].bytes, sample.lanes[1].ended), (1000, false));
        assert!(sample.lanes.iter().all(|lane| lane.buffer_bytes >= 128 << 10 && lane.error.is_none()));
        assert!(sample.lanes[0].bytes_nanos <= sample.nanos && sample.process_cpu_nanos > 0);
        let last = session.close().expect("closed");
        assert!(last.lanes.iter().all(|lane| lane.ended), "{last:?}");
        assert!(session.sample().expect("a sample").lanes.is_empty());
    }
}

#[test]
fn ipv4_and_ipv6_reach_an_agent_on_every_address() {
    let running = Running::with(Limits::default(), COUNTING, "[::]:0");
    for local in ["127.0.0.1", "::1"] {
        let address = SocketAddr::new(local.parse().expect("an address"), running.address.port());
        if local == "::1" && UdpSocket::bind("[::1]:0").is_err() {
            println!("skipped: this host has no IPv6");
            continue;
        }
        let session = Session::connect(address, &running.key).expect("a session");
        assert_eq!(
            session.hello().interface.as_deref(),
            Some("lo"),
            "mapped addresses are looked up as IPv4"
        );
        let opened = session.open(lanes(&[Protocol::Udp])).expect("opened");
        let udp = UdpSocket::bind((local, 0)).expect("a socket");
        udp.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let to = session.udp_address(&opened.lanes[0]).expect("a port");
        udp.send_to(opened.lanes[0].token.bytes(), to).expect("the token");
        udp.recv(&mut [0; 16]).expect("admitted");
    }
}

#[test]
fn a_port_in_use_and_a_strange_address_are_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = taken.local_addr().expect("an address");
    let bind = |address: SocketAddr| {
        let key = Key::random().expect("a key");
        match Agent::bind(&[address], key, COUNTING, Arc::new(|_| None)) {
            Ok(_) => panic!("it listens"),
            Err(failure) => failure.to_string(),
        }
    };
    let text = bind(address);
    assert!(text.contains(&address.port().to_string()) && text.contains("--listen"), "{text}");
    let text = bind("192.0.2.1:0".parse().expect("an address"));
    assert!(text.contains("192.0.2.1") && text.contains("no interface"), "{text}");
}

#[test]
fn another_key_an_absent_peer_and_another_service_are_told_apart() {
    let running = Running::start();
    let other = Key::random().expect("a key");
    let text = refusal(Session::connect(running.address, &other));
    assert!(text.contains("refused the key") && text.contains(&running.address.to_string()), "{text}");
    running.awaits_load((0, 0, 0));

    let closed =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let text = refusal(Session::connect(closed, &other));
    assert!(text.contains(&closed.to_string()) && text.contains("start `linerate agent` there"), "{text}");

    for (says, wanted) in [("SSH-2.0-x\r\n", "no agent"), ("LRc2", "version 2"), ("", "did not answer")] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let service = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.write_all(says.as_bytes()).expect("said");
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let began = Instant::now();
        let text = refusal(Session::connect(address, &other));
        assert!(text.contains(wanted) && text.contains(&address.to_string()), "{text}");
        assert!(began.elapsed() < PATIENCE);
        service.join().expect("the service");
    }
}

#[test]
fn strangers_get_no_byte_but_another_version_learns_which_this_is() {
    let running = Running::start();
    let mut random = vec![0; 600];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut random))
        .expect("random bytes");
    let mut openings: Vec<Vec<u8>> = random.chunks(60).map(<[u8]>::to_vec).collect();
    openings.push(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec());
    openings.push([CONTROL_MAGIC.as_slice(), &[0xff; 70]].concat());
    openings.push([CONTROL_MAGIC.as_slice(), &[0, 48], &random[..48]].concat());
    openings.push([DATA_MAGIC.as_slice(), &random[..32]].concat());
    openings.push([DATA_MAGIC.as_slice(), &random[..5]].concat());
    openings.push(b"LR".to_vec());
    for opening in openings {
        let mut stream = TcpStream::connect(running.address).expect("a connection");
        let _ = stream.write_all(&opening);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        assert_eq!(heard(&mut stream), b"", "{opening:?}");
    }
    let mut newer = TcpStream::connect(running.address).expect("a connection");
    newer.write_all(b"LRc7").expect("a magic");
    assert_eq!(heard(&mut newer), CONTROL_MAGIC);
    running.awaits_load((0, 0, 0));
    running.connect();
}

#[test]
fn half_open_connections_are_dropped_in_time() {
    let limits = Limits { admission: Duration::from_millis(300), ..Limits::default() };
    let running = Running::with(limits, COUNTING, "127.0.0.1:0");
    let mut silent: Vec<TcpStream> = [b"".as_slice(), b"L", &CONTROL_MAGIC, &DATA_MAGIC, b"LRc1\x00\x30abc"]
        .iter()
        .map(|opening| {
            let mut stream = TcpStream::connect(running.address).expect("a connection");
            stream.write_all(opening).expect("an opening");
            stream
        })
        .collect();
    for stream in &mut silent {
        assert_eq!(heard(stream), b"");
    }
    running.awaits_load((0, 0, 0));
}

/// A connection from an address of 127.0.0.0/8.
fn connect_from(origin: [u8; 4], address: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((origin, 0)).into()).expect("bound");
    socket.connect(&address.into()).expect("a connection");
    socket.into()
}

#[test]
fn a_thousand_connections_admit_nobody_and_keep_no_owner_out() {
    // Nobody is dropped for lateness here: what makes room is that newcomers drive out the oldest.
    let limits = Limits { admission: Duration::from_secs(120), ..Limits::default() };
    let running = Running::with(limits, COUNTING, "127.0.0.1:0");
    let mut held = std::collections::VecDeque::new();
    for number in 0..1000u32 {
        let mut stream = connect_from([127, 0, 0, 2], running.address);
        let opening: &[u8] = match number % 4 {
            0 => b"",
            1 => &CONTROL_MAGIC,
            2 => &DATA_MAGIC,
            _ => b"\x16\x03\x01",
        };
        let _ = stream.write_all(opening);
        held.push_back(stream);
        // Fewer than a process may have files open.
        if held.len() > 300 {
            held.pop_front();
        }
        let (sessions, lanes, unknown) = running.agent.load();
        assert!(sessions == 0 && lanes == 0 && unknown <= 64);
    }
    // In the middle of a flood from elsewhere.
    let flooding = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while flooding.load(Ordering::Acquire) {
                drop(connect_from([127, 0, 0, 2], running.address));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        for _ in 0..5 {
            running.connect().sample().expect("a sample");
        }
        flooding.store(false, Ordering::Release);
    });
    // And after 64 that hold every place, from the flooder's own address.
    for _ in 0..64 {
        held.push_back(connect_from([127, 0, 0, 1], running.address));
    }
    let session = running.connect();
    let opened = session.open(lanes(&[Protocol::Tcp])).expect("opened");
    session.connect_tcp(&opened.lanes[0], |_| Ok(())).expect("a stream");
    for mut stream in held {
        stream.set_nonblocking(true).expect("non-blocking");
        match stream.read(&mut [0; 16]) {
            Ok(bytes) => assert_eq!(bytes, 0, "closed without a byte"),
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionReset), "{error}")
            }
        }
    }
}

fn try_token(running: &Running, opened: &Opened) -> Vec<u8> {
    let mut stream = TcpStream::connect(running.address).expect("a connection");
    stream.write_all(&DATA_MAGIC).expect("the magic");
    stream.write_all(opened.lanes[0].token.bytes()).expect("the token");
    heard(&mut stream)
}

#[test]
fn a_token_works_once_and_only_while_its_test_is_open() {
    let running = Running::start();
    let session = running.connect();
    let opened = session.open(lanes(&[Protocol::Tcp])).expect("opened");
    let stream = session.connect_tcp(&opened.lanes[0], |_| Ok(())).expect("a stream");
    let text = session.connect_tcp(&opened.lanes[0], |_| Ok(())).expect_err("used").to_string();
    assert!(text.contains("used before"), "{text}");
    assert_eq!(try_token(&running, &opened), b"");
    drop(stream);
    session.close().expect("closed");
    let unused = session.open(lanes(&[Protocol::Tcp])).expect("opened");
    session.close().expect("closed");
    assert_eq!(try_token(&running, &unused), b"");
}

#[test]
fn an_unused_token_expires_also_under_forged_datagrams() {
    let limits = Limits { token_life: Duration::from_millis(400), ..Limits::default() };
    let running = Running::with(limits, COUNTING, "127.0.0.1:0");
    let session = running.connect();
    let opened = session.open(lanes(&[Protocol::Tcp, Protocol::Udp])).expect("opened");
    let forger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let target = session.udp_address(&opened.lanes[1]).expect("a port");
    for length in [0, 1, 31, 32, 33, 1400] {
        forger.send_to(&vec![0xa5; length], target).expect("a datagram");
    }
    let sample = sample_when(&session, |sample| sample.lanes.iter().all(|lane| lane.ended));
    for lane in &sample.lanes {
        assert!(lane.error.as_deref().is_some_and(|why| why.contains("not used in time")), "{lane:?}");
        assert_eq!((lane.bytes, lane.datagrams), (0, 0));
    }
    forger.set_nonblocking(true).expect("non-blocking");
    let answer = forger.recv(&mut [0; 64]).expect_err("nothing is sent to who did not show the token");
    assert_eq!(answer.kind(), ErrorKind::WouldBlock);
    assert!(session.connect_tcp(&opened.lanes[0], |_| Ok(())).is_err(), "too late");
    session.close().expect("closed");
    assert_eq!(running.agent.load(), (1, 0, 0));
}

#[test]
fn a_client_that_dies_takes_its_lanes_with_it() {
    let running = Running::start();
    let session = running.connect();
    let opened = session.open(lanes(&[Protocol::Tcp, Protocol::Udp, Protocol::Tcp])).expect("opened");
    let mut stream = session.connect_tcp(&opened.lanes[0], |_| Ok(())).expect("a stream");
    assert_eq!(running.agent.load().1, 3);
    drop(session);
    let died = Instant::now();
    running.awaits_load((0, 0, 0));
    assert!(died.elapsed() < Duration::from_secs(6), "two seconds are meant: {:?}", died.elapsed());
    assert_eq!(heard(&mut stream), b"", "the data stream is closed");
}

/// A receiver that never looks at `stop`.
fn stubborn(mut stream: TcpStream, _: bool, received: &Received, _: &AtomicBool) -> io::Result<()> {
    let bytes = io::copy(&mut stream, &mut io::sink())?;
    received.progress.add(bytes);
    Ok(())
}

#[test]
fn a_receiver_that_does_not_stop_is_cut() {
    let running =
        Running::with(Limits::default(), Receivers { tcp: stubborn, udp: count_udp }, "127.0.0.1:0");
    let session = running.connect();
    let opened = session.open(lanes(&[Protocol::Tcp])).expect("opened");
    let _stream = session.connect_tcp(&opened.lanes[0], |_| Ok(())).expect("a stream");
    until("the receiver runs", || running.agent.load() == (1, 1, 0));
    let last = session.close().expect("closed within the time of a call");
    assert!(last.lanes[0].ended);
}

fn panicking(_: TcpStream, _: bool, _: &Received, _: &AtomicBool) -> io::Result<()> {
    panic!("a receiver's defect (wanted by this test)")
}

#[test]
fn a_panic_ends_its_lane_or_session_and_nothing_else() {
    let running =
        Running::with(Limits::default(), Receivers { tcp: panicking, udp: count_udp }, "127.0.0.1:0");
    let session = running.connect();
    let opened = session.open(lanes(&[Protocol::Tcp])).expect("opened");
    session.connect_tcp(&opened.lanes[0], |_| Ok(())).expect("admitted");
    let sample = sample_when(&session, |sample| sample.lanes[0].ended);
    assert!(sample.lanes[0].error.as_deref().is_some_and(|why| why.contains("defect")), "{sample:?}");
    session.close().expect("closed");

    let key = Key::random().expect("a key");
    let sick: MtuOf = Arc::new(|_| panic!("a session's defect (wanted by this test)"));
    let listen = ["127.0.0.1:0".parse().expect("an address")];
    let agent = Agent::bind(&listen, key.clone(), COUNTING, sick).expect("an agent");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| agent.serve(&stop));
        for _ in 0..10 {
            let text = refusal(Session::connect(agent.local_addresses()[0], &key));
            assert!(text.contains("gone"), "{text}");
        }
        until("no session is left", || agent.load() == (0, 0, 0));
        stop.store(true, Ordering::Release);
    });
}

#[test]
fn sessions_and_lanes_are_bounded_and_the_refusal_says_so() {
    let limits = Limits { sessions: 2, lanes: 3, ..Limits::default() };
    let running = Running::with(limits, COUNTING, "127.0.0.1:0");
    let (one, two) = (running.connect(), running.connect());
    let text = refusal(Session::connect(running.address, &running.key));
    assert!(text.contains("2 clients already"), "{text}");
    let text = one.open(lanes(&[Protocol::Tcp; 4])).expect_err("too many").to_string();
    assert!(text.contains("1 to 3"), "{text}");
    assert!(one.open(lanes(&[])).is_err());
    one.open(lanes(&[Protocol::Udp; 3])).expect("as many as allowed");
    let text = one.open(lanes(&[Protocol::Tcp])).expect_err("one test at a time").to_string();
    assert!(text.contains("close it first"), "{text}");
    two.open(lanes(&[Protocol::Tcp; 3])).expect("each session has its own");
    drop(one);
    until("a place is free", || running.agent.load() == (1, 3, 0));
    running.connect();
}

#[test]
fn the_largest_test_fits() {
    let running = Running::start();
    let session = running.connect();
    let opened = session.open(lanes(&[Protocol::Tcp; 256])).expect("opened");
    assert_eq!(opened.lanes.len(), 256);
    assert_eq!(session.sample().expect("a sample").lanes.len(), 256);
    session.close().expect("closed");
}

#[test]
fn an_idle_session_is_dropped_and_the_client_is_told() {
    let limits = Limits { idle: Duration::from_millis(300), ..Limits::default() };
    let running = Running::with(limits, COUNTING, "127.0.0.1:0");
    let session = running.connect();
    session.sample().expect("in time");
    running.awaits_load((0, 0, 0));
    let text = session.sample().expect_err("dropped").to_string();
    assert!(text.contains(&running.address.to_string()) && text.contains("gone"), "{text}");
    let text = session.sample().expect_err("still").to_string();
    assert!(text.contains("gone"), "{text}");
}

#[test]
fn an_agent_that_stops_or_freezes_in_the_middle_is_named_within_seconds() {
    let running = Running::start();
    let address = running.address;
    let session = running.connect();
    session.open(lanes(&[Protocol::Udp])).expect("opened");
    drop(running);
    let text = session.sample().expect_err("gone").to_string();
    assert!(
        text.contains(&address.to_string()) && text.contains("Start `linerate agent` there again"),
        "{text}"
    );

    // A relay that stops to relay: the connection stays, nothing comes.
    let running = Running::start();
    let relay = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = relay.local_addr().expect("an address");
    let frozen = Arc::new(AtomicBool::new(false));
    let (target, freeze) = (running.address, frozen.clone());
    let relaying = std::thread::spawn(move || {
        let (client, _) = relay.accept().expect("a connection");
        let agent = TcpStream::connect(target).expect("a connection");
        std::thread::scope(|scope| {
            for (mut from, mut to) in [(&client, &agent), (&agent, &client)] {
                let freeze = &freeze;
                scope.spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
                        if !freeze.load(Ordering::Acquire) {
                            to.write_all(&buffer[..bytes]).expect("relayed");
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        });
    });
    let session = Session::connect(address, &running.key).expect("a session");
    session.sample().expect("a sample");
    frozen.store(true, Ordering::Release);
    let began = Instant::now();
    let text = session.sample().expect_err("frozen").to_string();
    assert!(text.contains(&address.to_string()) && text.contains("no answer"), "{text}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    drop(session);
    relaying.join().expect("the relay");
}

#[test]
fn another_protocol_version_is_told_with_both_versions() {
    let running = Running::start();
    let text = future_client(&running);
    for part in ["agent protocol 1", "agent protocol 99", "9.9.9", env!("CARGO_PKG_VERSION")] {
        assert!(text.contains(part), "{part} in {text}");
    }
    running.awaits_load((0, 0, 0));
}

/// A client of a later version, written against the wire alone: it also keeps the framing from changing unseen.
fn future_client(running: &Running) -> String {
    let key: Vec<u8> = running.key.to_hex().as_bytes().chunks(2).map(hex_byte).collect();
    let key: [u8; 32] = key.try_into().expect("32 bytes");
    let builder = snow::Builder::new("Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s".parse().expect("a pattern"));
    let builder = builder.prologue(b"LRc1").expect("a prologue").psk(0, &key).expect("the key");
    let mut state = builder.build_initiator().expect("a state");
    let mut stream = TcpStream::connect(running.address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut buffer = [0; 65_535];
    let length = state.write_message(&[], &mut buffer).expect("a message");
    stream.write_all(b"LRc1").expect("the magic");
    write_frame(&mut stream, &buffer[..length]);
    state.read_message(&read_frame(&mut stream), &mut buffer).expect("the agent's half");
    let mut noise = state.into_transport_mode().expect("a channel");
    let hello = b"\x01{\"ask\":\"hello\",\"protocol\":99,\"version\":\"9.9.9\",\"more\":[1]}";
    let length = noise.write_message(hello, &mut buffer).expect("a message");
    write_frame(&mut stream, &buffer[..length]);
    let length = noise.read_message(&read_frame(&mut stream), &mut buffer).expect("the answer");
    assert_eq!(buffer[0], 1);
    String::from_utf8(buffer[1..length].to_vec()).expect("text")
}

fn hex_byte(digits: &[u8]) -> u8 {
    u8::from_str_radix(std::str::from_utf8(digits).expect("digits"), 16).expect("hex")
}

fn write_frame(stream: &mut TcpStream, frame: &[u8]) {
    stream.write_all(&(frame.len() as u16).to_be_bytes()).expect("a length");
    stream.write_all(frame).expect("a frame");
}

fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).expect("a length");
    let mut frame = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut frame).expect("a frame");
    frame
}

/// No test by itself: the process that `OwnAgent` starts below.
#[test]
fn own_agent_process() {
    if std::env::var_os("LINERATE_TEST_OWN_AGENT").is_none() {
        return;
    }
    println!();
    let listen = ["127.0.0.1:0".parse().expect("an address")];
    serve_own(&listen, COUNTING, Arc::new(|_| None)).expect("served");
}

fn own_agent_command() -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "own_agent_process", "--nocapture", "--test-threads=1"]);
    command.env("LINERATE_TEST_OWN_AGENT", "1");
    command
}

#[test]
fn an_agent_of_our_own_serves_and_goes_with_us() {
    let own = OwnAgent::start_command(own_agent_command()).expect("an agent");
    let session = Session::connect(own.address(), own.key()).expect("a session");
    session.sample().expect("a sample");
    let process = std::path::PathBuf::from(format!("/proc/{}", own.process_id()));
    assert!(process.exists());
    drop(own);
    assert!(!process.exists(), "ended and waited for");
    assert!(session.sample().is_err());
}

#[test]
fn an_agent_of_our_own_that_cannot_start_says_why() {
    for program in ["/nonexistent/linerate", "/bin/false"] {
        let text = match OwnAgent::start_command(std::process::Command::new(program)) {
            Ok(_) => panic!("it started"),
            Err(failure) => failure.to_string(),
        };
        assert!(text.contains("cannot start") && text.contains("--peer"), "{text}");
    }
}

#[test]
fn an_agent_of_our_own_ends_with_its_standard_input() {
    let (input, mut to_agent) = io::pipe().expect("a pipe");
    let (from_agent, output) = io::pipe().expect("a pipe");
    let listen = ["127.0.0.1:0".parse().expect("an address")];
    let serving = std::thread::spawn(move || {
        serve_own_on(BufReader::new(input), output, &listen, COUNTING, Arc::new(|_| None))
    });
    let key = Key::random().expect("a key");
    writeln!(to_agent, "{}", key.to_hex()).expect("the key");
    let mut line = String::new();
    BufReader::new(from_agent).read_line(&mut line).expect("a line");
    let address = line.trim().rsplit(' ').next().expect("a word").parse().expect("an address");
    Session::connect(address, &key).expect("a session");
    drop(to_agent);
    serving.join().expect("the agent ends").expect("without a failure");

    let refused = serve_own_on(&b"no key\n"[..], io::sink(), &listen, COUNTING, Arc::new(|_| None));
    assert!(matches!(refused, Err(Failure::Usage(text)) if text.contains("standard input")));
}
