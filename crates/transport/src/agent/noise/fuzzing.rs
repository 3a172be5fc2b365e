//! The readers of what comes over a control connection, without a socket: for the targets in `fuzz/` and for
//! the replay of what they found. No part of the library's interface.

use super::*;
use crate::agent::clients::deal;
use crate::agent::network_stream;
use crate::agent::protocol::{AgentRequest, OpenRequest, Reply, StreamTicket};
use crate::flow::stream::{StreamRole, StreamSpec};
use linerate_facts::counters::NetworkCounters;
use serde::Serialize;
use std::os::unix::net::UnixStream;

/// Somebody who speaks once, and counts what is said to him.
pub(super) struct Script<'a>(pub(super) &'a [u8], pub(super) usize);

impl Read for Script<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Script<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.1 += buffer.len();
        Ok(buffer.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) fn key() -> Key {
    Key::from_hex(&"5a".repeat(32)).expect("64 hex digits")
}

/// Both ends of one channel: the client's, and the server's.
pub fn pair(magic: &Magic) -> (Channel, Channel) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    std::thread::scope(|scope| {
        let client = scope.spawn(|| initiate_as(magic, &ours, &key()).expect("the client's channel"));
        let mut shown = [0; 4];
        (&theirs).read_exact(&mut shown).expect("the magic");
        assert_eq!(shown, *magic);
        let server = respond_as(magic, &theirs, &key()).expect("the server's channel");
        (client.join().expect("the client"), server)
    })
}

/// What a client without the key sends to an agent, after the magic. It is never admitted.
pub fn stranger(bytes: &[u8]) {
    assert!(respond(Script(bytes, 0), &key()).is_err(), "admitted without the key");
}

/// What a server without the key answers to a client.
pub fn impostor(bytes: &[u8]) {
    assert!(initiate(Script(bytes, 0), &key()).is_err(), "trusted without the key");
}

/// Frames with these plaintexts from somebody who holds the key, as the agent and as the client read them:
/// never more than the limit is kept.
pub fn insider(frames: &[&[u8]]) {
    for limit in [HELLO_LIMIT_BYTES, REQUEST_LIMIT_BYTES] {
        let (mut client, mut agent) = pair(&CONTROL_MAGIC);
        let mut sealed = Vec::new();
        for plain in frames.iter().map(|plain| &plain[..plain.len().min(FRAME_LIMIT_BYTES - TAG_BYTES)]) {
            client.sender.add_frame(plain, &mut sealed).expect("a frame within the limit");
        }
        let mut rest = sealed.as_slice();
        while let Ok(text) = agent.receiver.decrypt(&mut rest, limit) {
            assert!(text.len() <= limit);
            message(&text);
        }
    }
}

/// The text of a message, in either direction: what is understood can be said again.
pub fn message(text: &[u8]) {
    fn again<T: Serialize + DeserializeOwned>(text: &[u8]) -> Option<T> {
        let message: T = serde_json::from_slice(text).ok()?;
        let said = serde_json::to_vec(&message).expect("a message is JSON");
        Some(serde_json::from_slice(&said).expect("what was said is understood"))
    }
    if let Some(AgentRequest::Open(request)) = again(text) {
        wishes(&request);
    }
    match again(text) {
        Some(Reply::Sample(sample) | Reply::Closed(sample)) => {
            let host = sample.host.since(&Default::default());
            assert!(host.cpus.is_empty() && host.throttled >= 0.0);
        }
        Some(Reply::Counters { counters }) => {
            // A peer may tell counters that run backwards.
            let none = counters.since(&counters);
            assert!(none.count("Udp", "InDatagrams").unwrap_or(0) == 0);
            let _ = NetworkCounters::default().since(&counters);
        }
        Some(Reply::Opened { tickets: opened }) => tickets(&opened),
        _ => {}
    }
}

/// A wish that passes is within its bounds, and what is dealt to all is not more than there is.
fn wishes(request: &OpenRequest) {
    const LIMIT: f64 = 1e9;
    let controls = ["cubic".to_string()];
    let passed: Vec<_> =
        request.streams.iter().filter(|spec| network_stream::check_stream(spec, &controls).is_ok()).collect();
    let wished: Vec<f64> = passed.iter().map(|spec| network_stream::rate_of_stream(spec, LIMIT)).collect();
    for (spec, wished) in passed.iter().zip(&wished) {
        let is_dealt = *wished > 0.0 || spec.role == StreamRole::Worker;
        assert!(is_dealt && network_stream::memory_of_stream(spec) < 4 << 30, "{spec:?}");
    }
    let dealt: f64 = deal(LIMIT, &wished).iter().sum();
    assert!(dealt <= LIMIT * 1.000_001, "{dealt}");
}

/// A client keeps within the rate that its ticket names, whatever that is.
fn tickets(tickets: &[StreamTicket]) {
    let spec = || -> Option<StreamSpec> {
        let text = "{\"protocol\":\"tcp\",\"role\":\"send\",\"method\":\"write\",\"write_bytes\":1,\"datagram_bytes\":64,\"verify\":false}";
        serde_json::from_str(text).ok()
    };
    for ticket in tickets {
        let held = spec().map(|spec| ticket.held(spec)).expect("a stream");
        if let StreamTicket::Granted { bytes_per_second, .. } = ticket {
            assert_eq!(held.bytes_per_second, *bytes_per_second);
        }
    }
}

/// `--peer` by its form alone: host and port. Nothing is resolved.
pub fn peer_form(text: &str) -> Option<(String, u16)> {
    crate::address::to_connect(text, crate::agent::DEFAULT_PORT).ok()
}
