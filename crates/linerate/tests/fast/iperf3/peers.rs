//! The other ends: Debian's iperf3 as a child process, our server in a thread.

use crate::support::process::{Ends, Running};
use crate::support::served::free_port;
use linerate::iperf3::{
    Iperf3Limits, Iperf3Server, Iperf3Test, ServerEvent, StreamFigures, TestOutcome, run_client,
};
use linerate::protocol::Protocol;
use linerate_system::stop::Stop;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Debian's server for one test; killed when dropped.
pub struct Theirs {
    pub child: Running,
    pub address: SocketAddr,
}

impl Theirs {
    pub fn start() -> Theirs {
        for _ in 0..10 {
            let port = free_port();
            let mut child = Command::new("iperf3")
                .args(["-s", "-1", "--forceflush", "-B", "127.0.0.1", "-p", &port.to_string()])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .expect("iperf3 -s");
            let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
            let mut listening = false;
            for line in lines.map_while(Result::ok) {
                if line.contains("Server listening") {
                    listening = true;
                    break;
                }
            }
            if listening {
                return Theirs { child: Running(child), address: SocketAddr::from(([127, 0, 0, 1], port)) };
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        panic!("iperf3 -s does not listen");
    }
}

/// Our server in a thread.
pub struct Ours {
    pub address: SocketAddr,
    stop: Arc<Stop>,
    events: Receiver<ServerEvent>,
    thread: Option<JoinHandle<()>>,
}

impl Ours {
    pub fn start(limits: Iperf3Limits) -> Ours {
        let server = Iperf3Server::bind(&["127.0.0.1:0".parse().expect("an address")]).expect("a server");
        let address = server.local_addresses()[0];
        let stop = Arc::new(Stop::new());
        let (send, events) = channel();
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut hear = |event: &ServerEvent| {
                let copy = match event {
                    ServerEvent::Started { client, parameters } => {
                        ServerEvent::Started { client: *client, parameters: parameters.clone() }
                    }
                    ServerEvent::Progress(progress) => ServerEvent::Progress(progress.clone()),
                    ServerEvent::Ended(outcome) => ServerEvent::Ended(outcome.clone()),
                    ServerEvent::Refused { client, why } => {
                        ServerEvent::Refused { client: *client, why: why.clone() }
                    }
                };
                let _ = send.send(copy);
            };
            server.serve(&stopped, &limits, &mut hear).expect("served");
        });
        Ours { address, stop, events, thread: Some(thread) }
    }

    /// The next event of a kind.
    fn next<T>(&self, pick: impl Fn(ServerEvent) -> Option<T>) -> T {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(20) {
            let event = self.events.recv_timeout(Duration::from_secs(20)).expect("an event");
            if let Some(found) = pick(event) {
                return found;
            }
        }
        panic!("the event does not come");
    }

    pub fn started(&self) {
        self.next(|event| matches!(event, ServerEvent::Started { .. }).then_some(()));
    }

    /// What the next test gave.
    pub fn ended(&self) -> TestOutcome {
        self.next(|event| match event {
            ServerEvent::Ended(outcome) => Some(*outcome),
            ServerEvent::Refused { why, .. } => panic!("refused: {why}"),
            _ => None,
        })
    }

    /// Why the next one was refused.
    pub fn refused(&self) -> String {
        self.next(|event| match event {
            ServerEvent::Refused { why, .. } => Some(why),
            ServerEvent::Ended(outcome) => panic!("a test took place: {outcome:?}"),
            _ => None,
        })
    }

    pub fn stop(&self) {
        self.stop.end();
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

/// Debian's client; its JSON.
pub fn their_client(address: SocketAddr, words: &str) -> Value {
    let port = address.port().to_string();
    Command::new("iperf3")
        .args(["-c", "127.0.0.1", "-p", &port, "-J"])
        .args(words.split_whitespace())
        .ended()
        .json()
}

/// Our client, without listener and without stop.
pub fn our_client(address: SocketAddr, test: &Iperf3Test) -> TestOutcome {
    run_client(address, None, test, &Stop::new(), &mut |_| {}).expect("a test")
}

/// A short test at a rate that loopback carries also while other things run.
pub fn short(protocol: Protocol) -> Iperf3Test {
    Iperf3Test { protocol, seconds: 1.0, bits_per_second: Some(100_000_000), ..Iperf3Test::default() }
}

/// Both ends of each stream tell the same within 1 %: bytes, and the rate that they make of them (not of a
/// test by bytes, which is over in milliseconds). What differs, in words.
pub fn disagreement(outcome: &TestOutcome) -> Option<String> {
    if let Some(error) = &outcome.error {
        return Some(error.clone());
    }
    if outcome.remote.len() != outcome.local.len() {
        return Some(format!("{} streams here, {} there", outcome.local.len(), outcome.remote.len()));
    }
    let differs = |ours: &StreamFigures| {
        let theirs = outcome.remote_of(ours.id)?;
        let near = |a: f64, b: f64| (a - b).abs() <= 0.01 * a.max(b);
        let same = ours.bytes > 0
            && theirs.sender != ours.sender
            && near(ours.bytes as f64, theirs.bytes as f64)
            && (outcome.test.bytes.is_some() || near(ours.bits_per_second(), theirs.bits_per_second()));
        (!same).then(|| format!("{ours:?}\n{theirs:?}"))
    };
    outcome.local.iter().find_map(differs)
}

/// Some other program's burst may starve one end at the very end of a test: one of a few tries shows whether
/// the ends agree.
pub fn in_a_few_tries(attempt: impl Fn() -> Result<(), String>) {
    let mut why = String::new();
    for _ in 0..5 {
        match attempt() {
            Ok(()) => return,
            Err(error) => why = error,
        }
    }
    panic!("{why}");
}
