//! Who does not get in: wrong keys, other services, random bytes, half-open connections. A flood of them is simulated
//! beside the agent, and comes to the program in `bad_input`.

use super::running::{COUNTING, PATIENCE, RunningAgent, heard, refusal};
use linerate::agent::{Agent, AgentLimits, AgentSession, AgentSettings, CONTROL_MAGIC, DATA_MAGIC, Key};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

#[test]
fn a_port_in_use_and_a_strange_address_are_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = taken.local_addr().expect("an address");
    let bind = |address: SocketAddr| {
        let key = Key::random().expect("a key");
        match Agent::bind(&[address], key, AgentSettings::default()) {
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
fn another_key_an_absent_peer_and_another_service_are_distinguished() {
    let running = RunningAgent::start();
    let other = Key::random().expect("a key");
    let text = refusal(AgentSession::connect(running.address, &other));
    assert!(text.contains("refused the key") && text.contains(&running.address.to_string()), "{text}");
    running.awaits_load((0, 0, 0));

    let closed =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let text = refusal(AgentSession::connect(closed, &other));
    assert!(text.contains(&closed.to_string()) && text.contains("start `linerate agent` there"), "{text}");

    for (says, wanted) in [("SSH-2.0-x\r\n", "not an agent"), ("LRc2", "version 2"), ("", "did not answer")] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let service = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.write_all(says.as_bytes()).expect("said");
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let began = Instant::now();
        let text = refusal(AgentSession::connect(address, &other));
        assert!(text.contains(wanted) && text.contains(&address.to_string()), "{text}");
        assert!(began.elapsed() < PATIENCE);
        service.join().expect("the service");
    }
}

#[test]
fn unknown_clients_get_no_byte_but_another_version_learns_which_this_is() {
    let running = RunningAgent::start();
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
    let limits = AgentLimits { admission: Duration::from_millis(300), ..AgentLimits::default() };
    let running = RunningAgent::with(limits, COUNTING, "127.0.0.1:0");
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
