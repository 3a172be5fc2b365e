//! What these tests share: a server, a raw client, files of known content, a server that does as it is told.

use crate::support::linerate;
use linerate_system::lock;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Generous: the machine that tests may be busy.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The same bytes in each run: xorshift64.
pub fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed * 2 + 1;
    let mut all = Vec::with_capacity(bytes + 8);
    while all.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        all.extend_from_slice(&state.to_le_bytes());
    }
    all.truncate(bytes);
    all
}

/// Four scenarios at once: they mostly wait, for a pause before the next try or for a time-out.
pub fn beside_each_other<S: Send>(
    scenarios: impl IntoIterator<Item = S, IntoIter: Send>,
    check: impl Fn(S) + Sync,
) {
    let left = Mutex::new(scenarios.into_iter());
    let next = || lock(&left).next();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| std::iter::from_fn(&next).for_each(&check));
        }
    });
}

/// A running `linerate serve` on a port of 127.0.0.1.
pub struct Served {
    child: Child,
    pub port: u16,
    /// What follows the URLs on standard output.
    rest: Option<std::thread::JoinHandle<String>>,
}

impl Served {
    pub fn start(paths: &[&Path], options: &[&str]) -> Self {
        Self::start_at(paths, "127.0.0.1:0", options)
    }

    pub fn start_at(paths: &[&Path], listen: &str, options: &[&str]) -> Self {
        let mut command = linerate();
        // These tests ask for `Host: h`.
        command.arg("serve").args(paths).args(["--listen", listen, "--name", "h"]).args(options);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output"));
        let mut port = None;
        let mut line = String::new();
        while port.is_none() && lines.read_line(&mut line).expect("a line") > 0 {
            let after = line.split("http://127.0.0.1:").nth(1);
            port = after.and_then(|rest| rest.split('/').next()?.trim().parse().ok());
            line.clear();
        }
        let Some(port) = port else { panic!("the server does not start: {:?}", child.wait()) };
        let rest = std::thread::spawn(move || {
            let mut text = String::new();
            lines.read_to_string(&mut text).map(|_| text).unwrap_or_default()
        });
        Served { child, port, rest: Some(rest) }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
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
        self.child.wait().expect("it ends");
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

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
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
pub fn get(words: &[&str]) -> Output {
    linerate().arg("get").args(words).output().expect("it runs")
}

/// The result as JSON, whatever the exit status.
pub fn get_json(words: &[&str]) -> (Option<i32>, serde_json::Value, String) {
    let output = get(&[words, &["--json"]].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let json = serde_json::from_slice(&output.stdout).unwrap_or(serde_json::Value::Null);
    (output.status.code(), json, errors)
}

/// It fails with this status, and a sentence that says why.
pub fn fails(words: &[&str], status: i32, says: &str) {
    let output = get(words);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{words:?}: {errors}");
    assert!(errors.contains(says) && errors.starts_with("linerate: "), "{words:?}: {errors}");
    assert!(!errors.contains("panicked"), "{errors}");
}

/// All names in a folder.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A server of the test's own: each request on its own connection is answered by a function of its head.
pub struct FakeServer {
    pub port: u16,
}

impl FakeServer {
    pub fn start(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = listener.local_addr().expect("an address").port();
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || one_request(stream, &*answer));
            }
        });
        FakeServer { port }
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
