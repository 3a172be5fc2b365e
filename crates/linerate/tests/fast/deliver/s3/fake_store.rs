//! An object store on a port of 127.0.0.1, with the requests that linerate makes: signatures are verified, sums are
//! compared, answers in XML come in chunks, and a function may spoil any answer.

use super::fake_answers::{Answer, answer, fault, shown_sum};
use super::signed::{KnownKeys, refused};
use crate::support::process::{Ends, until};
use crate::support::served::listener;
use crate::support::{linerate, text};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};

pub const KEYS: KnownKeys =
    KnownKeys { access: "AKIATEST", secret: "top+secret/", token: None, region: "eu-test-1" };
/// A request.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub method: String,
    /// As it came, encoded.
    pub path: String,
    pub query: Vec<(String, String)>,
    pub lines: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Asked {
    pub fn line(&self, name: &str) -> Option<&str> {
        self.lines.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub fn word(&self, name: &str) -> Option<String> {
        let found = self.query.iter().find(|(own, _)| own == name)?;
        Some(decoded(&found.1))
    }

    /// As `GET part`, `POST complete`: what is asked, in two words.
    pub fn what(&self) -> String {
        let has = |name: &str| self.query.iter().any(|(own, _)| own == name);
        let of = match () {
            () if has("list-type") => "list",
            () if has("uploads") && self.method == "GET" => "uploads",
            () if has("uploads") => "create",
            () if has("partNumber") => "part",
            () if has("uploadId") && self.method == "GET" => "parts",
            () if has("uploadId") && self.method == "POST" => "complete",
            () if has("uploadId") => "abort",
            () => "object",
        };
        format!("{} {of}", self.method)
    }

    pub fn key(&self) -> (String, String) {
        let path = decoded(self.path.trim_start_matches('/'));
        path.split_once('/')
            .map_or((path.clone(), String::new()), |(bucket, key)| (bucket.into(), key.into()))
    }
}

/// What is done in place of the right answer.
#[derive(Clone, Debug)]
pub enum Spoilt {
    /// This status, with this code in XML.
    Refuse(u16, &'static str),
    /// The same, with further header lines.
    RefuseWith(u16, &'static str, &'static str),
    /// The connection is closed without an answer.
    Close,
    /// The answer, of which only so many bytes of the body come.
    Short(usize),
    /// The answer, with this as its body.
    Body(&'static str),
    /// The answer, with one bit of its body changed.
    Flip(usize),
}

#[derive(Clone, Debug, Default)]
pub struct StoredObject {
    pub content: Vec<u8>,
    pub modified_line: Option<String>,
    /// CRC64NVME of the content, computed once: each range of it is answered with its tag.
    crc: u64,
}

impl StoredObject {
    pub fn of(content: &[u8]) -> Self {
        StoredObject::new(content.to_vec(), None)
    }

    pub fn new(content: Vec<u8>, modified_line: Option<String>) -> Self {
        let crc = linerate_sums::crc(linerate_sums::CrcAlgorithm::Crc64Nvme, &content);
        StoredObject { content, modified_line, crc }
    }

    pub fn sum(&self) -> String {
        shown_sum(self.crc)
    }

    pub fn tag(&self) -> String {
        format!("\"{:016x}\"", self.crc)
    }
}

/// An upload that is neither completed nor aborted.
#[derive(Clone, Debug, Default)]
pub struct OpenUpload {
    pub place: (String, String),
    /// What the object will have of lines.
    pub modified_line: Option<String>,
    /// Its object is to have a CRC64NVME.
    pub is_summed: bool,
    pub parts: BTreeMap<u32, Vec<u8>>,
}

/// Everything that is there, and everything that was asked.
#[derive(Debug, Default)]
pub struct StoreContent {
    pub objects: BTreeMap<(String, String), StoredObject>,
    /// By their names.
    pub uploads: BTreeMap<String, OpenUpload>,
    pub asked: Vec<Asked>,
    pub made: u32,
}

type Spoil = dyn Fn(&Asked) -> Option<Spoilt> + Send + Sync;

pub struct FakeStore {
    pub port: u16,
    content: Arc<Mutex<StoreContent>>,
}

impl FakeStore {
    pub fn start() -> Self {
        FakeStore::with(Some(KEYS), |_| None)
    }

    /// None of the keys: everybody may do everything.
    pub fn with(
        keys: Option<KnownKeys>,
        spoil: impl Fn(&Asked) -> Option<Spoilt> + Send + Sync + 'static,
    ) -> Self {
        let content = Arc::new(Mutex::new(StoreContent::default()));
        let shared = Arc::downgrade(&content);
        let address = listener(move |stream| {
            if let Some(content) = shared.upgrade() {
                serve(&stream, &content, &spoil, keys.as_ref());
            }
        });
        let port = address.port();
        FakeStore { port, content }
    }

    pub fn content(&self) -> MutexGuard<'_, StoreContent> {
        self.content.lock().expect("no thread panicked")
    }

    /// Until what was sent over connections that are gone has its effect.
    pub fn settles(&self) {
        until("no connection is open", || Arc::strong_count(&self.content) == 1);
    }

    pub fn add(&self, bucket: &str, key: &str, content: &[u8]) {
        self.content().objects.insert((bucket.into(), key.into()), StoredObject::of(content));
    }

    pub fn get(&self, bucket: &str, key: &str) -> Option<StoredObject> {
        self.content().objects.get(&(bucket.into(), key.into())).cloned()
    }

    /// How often this was asked, as [`Asked::what`] has it.
    pub fn count(&self, what: &str) -> usize {
        self.content().asked.iter().filter(|asked| asked.what() == what).count()
    }

    /// linerate, with this store's endpoint and the keys that it knows.
    pub fn command(&self, home: &std::path::Path) -> Command {
        let mut command = linerate();
        for name in ["AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_ENDPOINT_URL_S3"] {
            command.env_remove(name);
        }
        command
            .env("HOME", text(home))
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port))
            .env("AWS_DEFAULT_REGION", KEYS.region)
            .env("AWS_ACCESS_KEY_ID", KEYS.access)
            .env("AWS_SECRET_ACCESS_KEY", KEYS.secret);
        command
    }

    /// Its exit status, the result, and what it says beside.
    pub fn json(&self, home: &std::path::Path, words: &[&str]) -> (Option<i32>, serde_json::Value, String) {
        ended(self.command(home).args(words))
    }
}

pub fn ended(command: &mut Command) -> (Option<i32>, serde_json::Value, String) {
    command.arg("--json").ended().json_parts()
}

fn decoded(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        let mut digit = || (bytes.next().expect("a digit") as char).to_digit(16).expect("a digit") as u8;
        out.push(if byte == b'%' { digit() * 16 + digit() } else { byte });
    }
    String::from_utf8(out).expect("UTF-8")
}

fn read_request(reader: &mut impl BufRead) -> Option<Asked> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_string(), words.next()?.to_string());
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query = query.split('&').filter(|word| !word.is_empty());
    let query =
        query.map(|word| word.split_once('=').unwrap_or((word, ""))).map(|(a, b)| (a.into(), b.into()));
    let mut asked = Asked { method, path: path.into(), query: query.collect(), ..Asked::default() };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        asked.lines.push((name.to_ascii_lowercase(), value.trim().into()));
    }
    let length = asked.line("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    asked.body = vec![0; length];
    reader.read_exact(&mut asked.body).ok()?;
    Some(asked)
}

fn serve(stream: &TcpStream, content: &Mutex<StoreContent>, spoil: &Spoil, keys: Option<&KnownKeys>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a second end"));
    while let Some(asked) = read_request(&mut reader) {
        let spoilt = spoil(&asked);
        content.lock().expect("whole").asked.push(Asked { body: Vec::new(), ..asked.clone() });
        let answer = match (&spoilt, keys.and_then(|keys| refused(&asked, keys))) {
            (Some(Spoilt::Close), _) => return,
            (Some(Spoilt::Refuse(status, code)), _) => fault(*status, code),
            (Some(Spoilt::RefuseWith(status, code, lines)), _) => {
                let (status, own, body) = fault(*status, code);
                (status, own + lines, body)
            }
            (_, Some(code)) => fault(403, code),
            (_, None) => answer(&asked, &mut content.lock().expect("whole")),
        };
        if !send(stream, &asked, answer, spoilt.as_ref()) {
            return;
        }
    }
}

/// Whether the connection is kept.
fn send(mut stream: &TcpStream, asked: &Asked, answer: Answer, spoilt: Option<&Spoilt>) -> bool {
    let (status, lines, mut body) = answer;
    let mut comes = body.len();
    match spoilt {
        Some(Spoilt::Short(bytes)) => comes = *bytes.min(&comes),
        Some(Spoilt::Body(text)) => (body, comes) = (text.as_bytes().to_vec(), text.len()),
        Some(Spoilt::Flip(at)) if *at < body.len() => body[*at] ^= 1,
        _ => {}
    }
    // As AWS does: XML in chunks, objects with their lengths.
    let is_xml = body.starts_with(b"<") && body.ends_with(b">");
    let is_chunked = is_xml && asked.method != "HEAD" && comes == body.len();
    let mut bytes = format!("HTTP/1.1 {status} S\r\n{lines}").into_bytes();
    if is_chunked {
        bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        for chunk in body.chunks(100) {
            bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"0\r\n\r\n");
    } else {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
        if asked.method != "HEAD" {
            bytes.extend_from_slice(&body[..comes]);
        }
    }
    stream.write_all(&bytes).is_ok() && comes == body.len()
}
