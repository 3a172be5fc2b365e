//! `linerate serve`, a raw client of it, files of known content, and servers that do as they are told.

use super::linerate;
use super::process::{Ends, PATIENCE, ProcessEnd, Running, signal};
#[allow(unused_imports, reason = "each program takes the part that it needs")]
pub use linerate_testing::content;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A running `linerate serve`; ended with the value.
pub struct Served {
    child: Running,
    /// As `http://127.0.0.1:1234`.
    origin: String,
    pub port: u16,
    /// Of its certificate; empty without TLS.
    pub fingerprint: String,
    /// What follows on standard output.
    rest: Option<JoinHandle<String>>,
}

impl Served {
    /// These folders and files, on a port of 127.0.0.1.
    pub fn start(paths: &[&Path], options: &[&str]) -> Self {
        Self::start_at(paths, "127.0.0.1:0", options)
    }

    pub fn start_at(paths: &[&Path], listen: &str, options: &[&str]) -> Self {
        let mut command = linerate();
        // These tests ask for `Host: h`.
        command.arg("serve").args(paths).args(["--listen", listen, "--name", "h"]).args(options);
        Self::of(&mut command)
    }

    /// Any command that serves, as it is.
    pub fn of(command: &mut Command) -> Self {
        Self::until(command.stderr(Stdio::null()), "")
            .unwrap_or_else(|ended| panic!("the server does not start: {ended}"))
    }

    /// Under TLS; none, with a message, where this CPU cannot do it.
    pub fn tls(folder: &Path, options: &[&str]) -> Option<Self> {
        let mut command = linerate();
        command.arg("serve").arg(folder).args(["--listen", "127.0.0.1:0", "--tls"]).args(options);
        Self::until(command.stderr(Stdio::piped()), "--fingerprint: ")
            .map_err(|ended| {
                ended.mentions(&["TLS needs a CPU"]);
                eprintln!("skipped: {}", ended.stderr.trim());
            })
            .ok()
    }

    /// Reads up to its URL, and to what follows this mark; or how it ended.
    fn until(command: &mut Command, mark: &str) -> Result<Self, ProcessEnd> {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output"));
        let (mut origin, mut marked, mut line) = (None, None, String::new());
        while (origin.is_none() || marked.is_none()) && lines.read_line(&mut line).expect("a line") > 0 {
            origin = origin.or_else(|| origin_in(&line));
            let after = line.split_once(mark).filter(|_| origin.is_some());
            marked = marked.or(after.map(|(_, rest)| rest.trim().to_string()));
            line.clear();
        }
        let (Some(origin), Some(marked)) = (origin, marked) else { return Err(child.ended()) };
        let port = origin.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        let fingerprint = if mark.is_empty() { String::new() } else { marked };
        let rest = std::thread::spawn(move || {
            let mut text = String::new();
            lines.read_to_string(&mut text).map(|_| text).unwrap_or_default()
        });
        Ok(Served { child: Running(child), origin, port, fingerprint, rest: Some(rest) })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.origin)
    }

    /// As the kernel does when memory is short.
    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("it ends");
    }

    /// Ctrl-C; how long it took, and what it printed.
    pub fn stop(mut self) -> (Duration, String) {
        let begun = Instant::now();
        signal(&self.child, "INT");
        assert!(self.child.wait().expect("it ends").success());
        let text = self.rest.take().expect("its output").join().expect("read");
        (begun.elapsed(), text)
    }

    /// One request on a connection of its own.
    pub fn ask(&self, request: &str) -> HttpAnswer {
        HttpAnswer::read(self.send(request.as_bytes()))
    }

    pub fn get(&self, path: &str, lines: &str) -> HttpAnswer {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{lines}\r\n"))
    }

    pub fn send(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        // It may be refused before all of it is sent.
        let _ = stream.write_all(bytes);
        stream
    }
}

/// As `http://127.0.0.1:1234`.
fn origin_in(line: &str) -> Option<String> {
    let url = line.split_whitespace().find(|word| word.starts_with("http"))?;
    let (scheme, rest) = url.split_once("://")?;
    Some(format!("{scheme}://{}", rest.split('/').next()?))
}

/// A response, until the server closed the connection.
#[derive(Debug)]
pub struct HttpAnswer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl HttpAnswer {
    pub fn read(mut stream: TcpStream) -> Self {
        let mut bytes = Vec::new();
        // A reset after the answer takes nothing from what was read.
        let _ = stream.read_to_end(&mut bytes);
        HttpAnswer::parse(&bytes)
            .unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(&bytes)))
    }

    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(HttpAnswer { status, head, body: bytes[end + 4..].to_vec() })
    }

    pub fn line(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (own, value) = line.split_once(": ")?;
            own.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// `linerate get` to its end.
pub fn get(words: &[&str]) -> ProcessEnd {
    linerate().arg("get").args(words).ended()
}

/// The result as JSON, whatever the exit status.
pub fn get_json(words: &[&str]) -> (Option<i32>, Value, String) {
    get(&[words, &["--json"]].concat()).json_parts()
}

/// It fails with this status, and a sentence that says why.
#[track_caller]
pub fn fails(words: &[&str], status: i32, says: &str) {
    let ended = get(words);
    ended.gives(status).mentions(&[says]);
    assert!(ended.stderr.starts_with("linerate: "), "{ended}");
}

/// Does this with each connection to a port of 127.0.0.1, on a thread of its own.
pub fn listener(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// A port that leads to this one; each connection brings so many bytes per second either way, however many there are.
pub fn limited_connections(port: u16, bytes_per_second: f64) -> u16 {
    let relay = move |mut from: TcpStream, mut to: TcpStream| {
        let (mut chunk, mut due) = ([0; 16 << 10], Instant::now());
        while let Ok(read @ 1..) = from.read(&mut chunk)
            && to.write_all(&chunk[..read]).is_ok()
        {
            due = due.max(Instant::now()) + Duration::from_secs_f64(read as f64 / bytes_per_second);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        to.shutdown(Shutdown::Write).ok();
    };
    let serve = move |near: TcpStream| {
        let far = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        let ends = (near.try_clone().expect("a clone"), far.try_clone().expect("a clone"));
        std::thread::spawn(move || relay(ends.0, ends.1));
        relay(far, near);
    };
    listener(serve).port()
}

/// One request, and all that comes back.
pub fn http(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    String::from_utf8_lossy(&answer).into_owned()
}

/// A port that nobody has now. It lies below those that the kernel gives to connections, so that no neighbour gets it by
/// chance before it is listened on.
pub fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let next = || std::process::id().wrapping_mul(7).wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed));
    let mut ports = std::iter::repeat_with(|| 12_000 + (next() % 16_000) as u16);
    ports.find(|port| TcpListener::bind(("::", *port)).is_ok()).expect("endless")
}

/// A server of the test's own: each request on its own connection is answered by a function of its head.
pub struct FakeServer {
    pub port: u16,
}

impl FakeServer {
    pub fn start(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        FakeServer { port: listener(move |stream| one_request(stream, &answer)).port() }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }
}

fn one_request(mut stream: TcpStream, answer: &dyn Fn(&str, &mut TcpStream)) {
    let mut bytes = Vec::new();
    let mut one = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        match stream.read(&mut one) {
            Ok(1) => bytes.push(one[0]),
            _ => return,
        }
    }
    answer(&String::from_utf8_lossy(&bytes), &mut stream);
}

/// A folder with a file of this content below `data`.
pub fn place(content: &[u8]) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let place = tempfile::tempdir().expect("a folder");
    let (data, out) = (place.path().join("data"), place.path().join("out"));
    std::fs::create_dir(&data).expect("a folder");
    std::fs::write(data.join("file"), content).expect("written");
    (place, data, out)
}
