//! Another protocol version, in either place; with a client and an agent written against the wire alone: they
//! also keep the framing from changing unseen.

use super::running::{PATIENCE, RunningAgent, refusal};
use crate::support::process::Ends;
use linerate::agent::{AgentSession, Key};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";

/// One end of a control connection.
pub struct Line {
    stream: TcpStream,
    noise: snow::TransportState,
}

impl Line {
    /// A message in one frame.
    pub fn says(&mut self, text: &str) {
        self.frame(1, text.as_bytes()).expect("said");
    }

    /// A part of a message that goes on.
    pub fn part(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.frame(0, bytes)
    }

    fn frame(&mut self, flag: u8, bytes: &[u8]) -> io::Result<()> {
        // The largest message of these tests takes two frames.
        let (head, rest) = bytes.split_at(bytes.len().min(60_000));
        let last = if rest.is_empty() { flag } else { 0 };
        let mut buffer = [0; 65_535];
        let plain = [&[last], head].concat();
        let length = self.noise.write_message(&plain, &mut buffer).expect("a message");
        write_frame(&mut self.stream, &buffer[..length])?;
        if rest.is_empty() { Ok(()) } else { self.frame(flag, rest) }
    }

    /// The next message.
    pub fn hears(&mut self) -> String {
        let mut text = Vec::new();
        loop {
            let mut buffer = [0; 65_535];
            let frame = read_frame(&mut self.stream);
            let length = self.noise.read_message(&frame, &mut buffer).expect("the other side's");
            text.extend(&buffer[1..length]);
            if buffer[0] == 1 {
                return String::from_utf8(text).expect("text");
            }
        }
    }

    /// The other side has closed.
    pub fn closed(&mut self) -> bool {
        self.stream.set_read_timeout(Some(std::time::Duration::from_millis(100))).expect("a timeout");
        match self.stream.read(&mut [0]) {
            Ok(bytes) => bytes == 0,
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        }
    }
}

/// A client's line to an agent, before its first message.
pub fn connect(running: &RunningAgent) -> Line {
    let key = key_bytes(&running.key);
    let builder = snow::Builder::new(PATTERN.parse().expect("a pattern"));
    let builder = builder.prologue(b"LRc1").expect("a prologue").psk(0, &key).expect("the key");
    let mut state = builder.build_initiator().expect("a state");
    let mut stream = TcpStream::connect(running.address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut buffer = [0; 65_535];
    let length = state.write_message(&[], &mut buffer).expect("a message");
    stream.write_all(b"LRc1").expect("the magic");
    write_frame(&mut stream, &buffer[..length]).expect("the client's half");
    state.read_message(&read_frame(&mut stream), &mut buffer).expect("the agent's half");
    Line { stream, noise: state.into_transport_mode().expect("a channel") }
}

/// An agent's line to its next client.
fn accept(listener: &TcpListener, key: &Key) -> Line {
    let key = key_bytes(key);
    let builder = snow::Builder::new(PATTERN.parse().expect("a pattern"));
    let builder = builder.prologue(b"LRc1").expect("a prologue").psk(0, &key).expect("the key");
    let mut state = builder.build_responder().expect("a state");
    let (mut stream, _) = listener.accept().expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.read_exact(&mut [0; 4]).expect("the magic");
    let mut buffer = [0; 65_535];
    state.read_message(&read_frame(&mut stream), &mut buffer).expect("the client's half");
    let length = state.write_message(&[], &mut buffer).expect("a message");
    write_frame(&mut stream, &buffer[..length]).expect("the agent's half");
    Line { stream, noise: state.into_transport_mode().expect("a channel") }
}

#[test]
fn a_client_of_another_version_is_reported_with_both_versions() {
    let running = RunningAgent::start();
    for (hello, theirs) in [
        // One that says no more than this, and one that says more.
        ("{\"ask\":\"hello\",\"protocol\":1,\"version\":\"0.0.9\"}", ["agent protocol 1", "0.0.9"]),
        (
            "{\"ask\":\"hello\",\"protocol\":99,\"version\":\"9.9.9\",\"more\":[1]}",
            ["agent protocol 99", "9.9.9"],
        ),
    ] {
        let mut line = connect(&running);
        line.says(hello);
        let text = line.hears();
        for part in theirs.iter().copied().chain([
            "\"answer\":\"error\"",
            "agent protocol 3",
            env!("CARGO_PKG_VERSION"),
            "install the same version",
        ]) {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(line.closed());
    }
    running.awaits_load((0, 0, 0));
}

#[test]
fn an_agent_of_another_version_is_reported_with_both_versions() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let key = Key::random().expect("a key");
    // One that refuses by itself, and one that did not look.
    let refuses = concat!(
        "{\"answer\":\"error\",\"text\":\"it runs linerate 0.0.9 (agent protocol 1), this is linerate ",
        env!("CARGO_PKG_VERSION"),
        " (agent protocol 3); install the same version on both hosts\"}"
    );
    let greets = "{\"answer\":\"hello\",\"protocol\":1,\"version\":\"0.0.9\",\"host\":\"h\",\"instance\":\"00\",\"cores\":2}";
    for answer in [refuses, greets] {
        let text = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut line = accept(&listener, &key);
                let hello = line.hears();
                assert!(hello.contains("\"ask\":\"hello\"") && hello.contains("\"protocol\":3"), "{hello}");
                line.says(answer);
            });
            refusal(AgentSession::connect(address, &key))
        });
        for part in ["0.0.9", "agent protocol 1", "agent protocol 3", "same version", &address.to_string()] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}

#[test]
fn an_agent_that_knows_no_sink_is_one_sentence_of_a_run_to_it() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let [key_file, source] = ["key", "source"].map(|name| folder.path().join(name));
    let key = Key::random().expect("a key");
    std::fs::write(&source, vec![1; 1 << 20]).expect("written");
    std::fs::write(&key_file, format!("{}\n", key.to_hex())).expect("written");
    std::fs::set_permissions(&key_file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("ours");
    let hello = |protocol: u32| {
        format!(
            "{{\"answer\":\"hello\",\"protocol\":{protocol},\"version\":\"0.0.9\",\"host\":\"h\",\"instance\":\"00\",\"cores\":2}}"
        )
    };
    for (answer, says) in [
        (
            hello(linerate::agent::PROTOCOL),
            ["(linerate 0.0.9) throws away what it receives", "in the same version as here"],
        ),
        (hello(1), ["runs linerate 0.0.9 (agent protocol 1)", "install the same version on both hosts"]),
    ] {
        let mut run = crate::support::linerate();
        run.args(["run", "--flow", "disk-to-disk", "--no-save", "--stages", "path", "--peer", &address]);
        run.arg("--key-file").arg(&key_file).arg("--source").arg(&source);
        let output = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut line = accept(&listener, &key);
                assert!(line.hears().contains("\"ask\":\"hello\""));
                line.says(&answer);
                // It leaves without a word more.
                while !line.closed() {}
            });
            run.ended()
        });
        let said = &output.stderr;
        assert!(output.status.code() == Some(3) && said.trim().lines().count() == 1, "{said}");
        assert!(says.iter().all(|part| said.contains(part)) && said.contains(&address), "{said}");
    }
}

fn key_bytes(key: &Key) -> [u8; 32] {
    let digits: Vec<u8> = key.to_hex().as_bytes().chunks(2).map(hex_byte).collect();
    digits.try_into().expect("32 bytes")
}

fn hex_byte(digits: &[u8]) -> u8 {
    u8::from_str_radix(std::str::from_utf8(digits).expect("digits"), 16).expect("hex")
}

fn write_frame(stream: &mut TcpStream, frame: &[u8]) -> io::Result<()> {
    stream.write_all(&(frame.len() as u16).to_be_bytes())?;
    stream.write_all(frame)
}

fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).expect("a length");
    let mut frame = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut frame).expect("a frame");
    frame
}
