//! A wall that is served: a server with a control channel, and screens that keep what they got.

use super::process::{Running, signal};
use linerate::agent::Key;
use linerate::wall::control::{Client, ControlMessage, ControlRequest};
use linerate::wall::rtp::parse;
use serde_json::Value;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

pub const PATIENCE: Duration = Duration::from_secs(20);

/// What a screen got.
#[derive(Default)]
pub struct Got {
    /// In the order in which they began: timestamp, pixels, when the first datagram came.
    pub frames: Vec<(u32, Vec<u8>, SystemTime)>,
    pub sequences: Vec<u32>,
}

/// A screen that keeps everything until it is asked.
pub struct TestScreen {
    pub port: u16,
    pub stop: Arc<AtomicBool>,
    pub thread: JoinHandle<Got>,
}

impl TestScreen {
    pub fn new() -> TestScreen {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        linerate_system::socket::set_receive_buffer(&socket, 16 << 20).expect("a buffer");
        socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a time-out");
        let port = socket.local_addr().expect("an address").port();
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut got, mut datagram) = (Got::default(), vec![0; 65_536]);
            loop {
                let Ok(length) = socket.recv(&mut datagram) else {
                    if theirs.load(Ordering::Relaxed) {
                        return got;
                    }
                    continue;
                };
                let packet = parse(&datagram[..length]).expect("RTP video");
                got.sequences.push(packet.sequence);
                if got.frames.last().is_none_or(|(timestamp, ..)| *timestamp != packet.timestamp) {
                    got.frames.push((packet.timestamp, Vec::new(), SystemTime::now()));
                }
                if let Some((_, pixels, _)) = got.frames.last_mut() {
                    packet.lines().for_each(|line| pixels.extend_from_slice(line.bytes));
                }
            }
        });
        TestScreen { port, stop, thread }
    }

    pub fn got(self) -> Got {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the screen")
    }
}

impl Got {
    /// Nothing is missing between the first and the last datagram.
    pub fn is_without_gap(&self) -> bool {
        self.sequences.windows(2).all(|pair| pair[0].wrapping_add(1) == pair[1])
    }
}

/// A server with a control channel.
pub struct Played {
    pub child: Running,
    pub client: Client,
    pub _key: tempfile::TempDir,
}

impl Played {
    pub fn start(serve: Command) -> Played {
        Played::start_with(serve, &[])
    }

    /// With words behind those that this adds.
    pub fn start_with(mut serve: Command, last: &[&str]) -> Played {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
        serve.args(["--listen", &port.to_string(), "--page", "none", "--key-file"]).arg(&path).args(last);
        let mut child = serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("linerate");
        let since = Instant::now();
        let client = loop {
            let key = path.exists().then(|| Key::find(Some(&path)));
            if let Some(Ok(key)) = key
                && let Ok(client) = Client::connect(&port.to_string(), &key, Duration::from_secs(2))
            {
                break Some(client);
            }
            if since.elapsed() > PATIENCE {
                break None;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let Some(client) = client else {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the server does not listen");
        };
        Played { child: Running(child), client, _key: folder }
    }

    pub fn ask(&mut self, request: &ControlRequest) -> ControlMessage {
        self.client.ask(request, PATIENCE).expect("an answer")
    }

    pub fn status(&mut self) -> linerate::wall::status::WallStatus {
        match self.ask(&ControlRequest::Status) {
            ControlMessage::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    pub fn until(&mut self, what: &str, so: impl Fn(&linerate::wall::status::WallStatus) -> bool) {
        let since = Instant::now();
        loop {
            let status = self.status();
            if so(&status) {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "{what}: {status:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ctrl-C: it ends within a second (here: on a busy machine, too).
    pub fn end(mut self) -> Value {
        signal(&self.child, "INT");
        let began = Instant::now();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut self.child.stdout.take().expect("its output"), &mut text)
            .expect("text");
        self.child.wait().expect("its end");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        serde_json::from_str(&text).expect("JSON")
    }
}

/// More runs than there are cores: times say little then.
pub fn busy() -> bool {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
    load > std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64)
}
