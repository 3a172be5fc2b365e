//! What a server answers, and what it does with a client's bytes, without threads and a socket that moves any.

use super::super::answer::{Answer, Asking, answer};
use super::super::{FileServerSettings, ServedTree};
use super::*;
use crate::http::head::{parse_request, parse_response};
use linerate_facts::room::StorageLimits;
use linerate_system::stop::Stop;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A server of this folder, which stays until the process ends.
#[derive(Clone, Copy)]
pub(crate) struct ServingFolder {
    shared: &'static Shared<'static>,
    /// Stands for any client's, and is open.
    socket: &'static (TcpStream, TcpListener),
}

fn kept<T: 'static>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

impl ServingFolder {
    pub(crate) fn new(folder: &Path) -> Self {
        let writable = Some(StorageLimits { keep_bytes: Some(0), limit_bytes: None });
        let settings = FileServerSettings { connections: 8, handshakes: 1, writable, ..Default::default() };
        let tree = ServedTree::open(&[folder.into()]).expect("a tree");
        let listener = TcpListener::bind((CLIENT, 0)).expect("a listener");
        let socket = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let shared = Shared::new(kept(tree), kept(settings), kept(Stop::new()));
        ServingFolder { shared: kept(shared), socket: kept((socket, listener)) }
    }

    /// A connection to it; with its end goes what its client did not put.
    pub(crate) fn accepted(self) -> ServingConnection {
        ServingConnection { server: self, held: None, arriving: None }
    }
}

pub(crate) struct ServingConnection {
    server: ServingFolder,
    held: Option<HeldFile>,
    arriving: Option<Arriving>,
}

/// A file whose bytes come.
struct Arriving {
    request: RequestHead,
    destination: Destination,
    permit: Permit,
    at: u64,
    end: u64,
}

/// A head, and its body.
type Answered = (Vec<u8>, Vec<u8>);

impl ServingConnection {
    /// Bytes of a body that are still to come; none: the next is a head.
    pub(crate) fn wants(&self) -> Option<u64> {
        self.arriving.as_ref().map(|arriving| arriving.end - arriving.at)
    }

    /// The answer to a request; none: its body comes first.
    pub(crate) fn asked(&mut self, request: &RequestHead) -> Option<Answered> {
        let query = request.target.split_once('?').map_or("", |(_, query)| query);
        if request.method != "PUT" {
            return Some(self.found(request));
        }
        let sum = query.strip_prefix("linerate=land&sum=").and_then(parse_sum);
        if sum.is_some() {
            return Some(replied(request, &land_held(request, self.held.take(), sum, self.server.shared)));
        }
        drop(self.held.take());
        let from = query.strip_prefix("linerate=hold&from=").and_then(|from| from.parse().ok());
        match self.begins(request, from) {
            Ok(arriving) => self.arriving = Some(arriving),
            Err(refused) => return Some(replied(request, &refused.closing())),
        }
        let expects = request.headers.has_word("expect", "100-continue");
        expects.then(|| (b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), Vec::new()))
    }

    fn found(&self, request: &RequestHead) -> Answered {
        let (shared, socket) = (self.server.shared, &self.server.socket.0);
        let asking = Asking { shared, socket, client: CLIENT, moves: false };
        let Answer::Reply(reply, part) = answer(request, None, &asking) else {
            panic!("it is answered at once")
        };
        let (head, mut body) = replied(request, &reply);
        if let Some(part) = part {
            body = vec![0; part.length as usize];
            part.opened.file.read_exact_at(&mut body, part.offset).expect("as long as it was");
        }
        (head, body)
    }

    fn begins(&self, request: &RequestHead, from: Option<u64>) -> Result<Arriving, Reply> {
        let (length, shared) = (body_length(request)?, self.server.shared);
        let permit = shared.incoming.permit(CLIENT).map_err(|_| Reply::busy("As many files come as may."))?;
        let destination = begin(request, length, from, shared)?;
        let at = from.unwrap_or(0);
        Ok(Arriving { request: request.clone(), destination, permit, at, end: at + length.least() })
    }

    /// Bytes of the body, no more than it wants; the answer once it is whole.
    pub(crate) fn came(&mut self, bytes: &[u8]) -> Option<Answered> {
        let arriving = self.arriving.as_mut()?;
        arriving.destination.sum.add(bytes);
        arriving.destination.file.write(bytes, arriving.at, arriving.end).expect("written");
        arriving.at += bytes.len() as u64;
        if arriving.at < arriving.end {
            return None;
        }
        let Arriving { request, destination: Destination { file, sum, .. }, permit, .. } =
            self.arriving.take()?;
        let modified = request.headers.text("last-modified").and_then(parse_date);
        let target = request.target.split('?').next().unwrap_or_default().to_string();
        self.held = Some(HeldFile { target, sum: sum.end(), sha256: None, modified, file, _permit: permit });
        Some(replied(&request, &Reply::new(202).line("Content-Length", 0)))
    }
}

fn replied(request: &RequestHead, reply: &Reply) -> Answered {
    let body = if request.method == "HEAD" { Vec::new() } else { reply.body.clone() };
    (reply.head(true), body)
}

#[test]
fn a_file_that_is_held_gets_its_name_by_its_sum_alone() {
    let (folder, serving) = crate::tests::server::place();
    let data = folder.path().join("data");
    let names = || std::fs::read_dir(&data).expect("a list").count();
    let status = |connection: &mut ServingConnection, target: &str, body: &[u8]| {
        let lines = format!("Host: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        let text = format!("PUT {target} HTTP/1.1\r\n{lines}");
        let (request, _) = parse_request(text.as_bytes()).expect("HTTP").expect("whole");
        let answer = connection.asked(&request).or_else(|| connection.came(body)).expect("an answer");
        parse_response(&answer.0).expect("HTTP").expect("whole").0.status
    };
    let hold = |connection: &mut ServingConnection| status(connection, "/new?linerate=hold", b"abc");
    let mut sum = BlockSum::begin();
    sum.add(b"abc");
    let right = format!("/new?linerate=land&sum={:016x}", sum.end());
    let wrong = "/new?linerate=land&sum=0000000000000000".to_string();
    for (target, expected) in [(wrong, 422), (right.replace("/new", "/other"), 409)] {
        let mut connection = serving.accepted();
        assert_eq!((hold(&mut connection), names()), (202, 1));
        assert_eq!((status(&mut connection, &target, b""), names()), (expected, 0));
    }
    let mut connection = serving.accepted();
    assert_eq!((hold(&mut connection), names()), (202, 1));
    drop(connection);
    assert_eq!(names(), 0, "gone with its connection");
    let mut connection = serving.accepted();
    assert_eq!((hold(&mut connection), status(&mut connection, &right, b"")), (202, 201));
    assert_eq!(status(&mut connection, &right, b""), 409, "nothing is held any more");
    assert_eq!(std::fs::read(data.join("new")).expect("there"), b"abc");
}
