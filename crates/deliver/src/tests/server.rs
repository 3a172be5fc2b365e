//! `linerate serve` that a seed lets fail, lie and go away, and that holds its clients to their manners.

use super::network::{Answers, FarEnd, Sent};
use crate::http::head::{RequestHead, parse_request};
use crate::serve::{ServingConnection, ServingFolder};
use linerate_facts::random::Random;
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_testing::{content, folder_in_memory};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The shortest wait before a file is asked for again that failed.
const LEAST_WAIT: Duration = Duration::from_millis(100);
/// Longer than any transfer.
const DAY: Duration = Duration::from_secs(86_400);
/// Connections of one start; more are no end.
const MOST_CONNECTIONS: u32 = 2_000;
/// All contents of files are parts of so many bytes.
const POOL_BYTES: usize = 8 << 20;

/// What goes wrong with a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Ends,
    Resets,
    Silent,
    /// It is away for a while.
    Dies,
    NoHttp,
    Code403,
    Code404,
    Code500,
    Code503,
    /// It asks to be asked again.
    Busy,
    /// What comes, or goes, ends somewhere.
    Cut,
    /// A byte of that is another.
    Flipped,
    Dribbles,
    /// The file gets another content meanwhile.
    Changes,
    /// The user ends the client.
    Interrupt,
}

/// Answers of a head alone.
const CODES: [Fault; 4] = [Fault::Code403, Fault::Code404, Fault::Code500, Fault::Code503];

/// Shared by all connections to it.
pub(crate) struct Server {
    pub(crate) random: Random,
    pub(crate) fault: f64,
    pub(crate) faults: u32,
    serving: ServingFolder,
    /// Where the files are that change: what they had, by their paths.
    changing: PathBuf,
    pub(crate) versions: BTreeMap<String, Vec<&'static [u8]>>,
    possible: &'static [Fault],
    /// It takes files, whose client goes on where it says nothing of one.
    takes: bool,
    /// Failures of a file in a row; more are no end.
    most_failures: u32,
    /// Of the start at hand.
    pub(crate) start: Start,
}

/// What a start of a client has done and seen.
#[derive(Default)]
pub(crate) struct Start {
    connections: u32,
    down_until: Option<Instant>,
    due: BTreeMap<String, Instant>,
    failures: BTreeMap<String, u32>,
    /// Requests that came while an answer was on its way.
    pub(crate) ahead: usize,
    /// Ends the client.
    pub(crate) stop: Arc<Stop>,
    /// What a client did that none may.
    pub(crate) wrong: Option<String>,
}

impl Server {
    /// Clients fetch from it, or put on it from that folder.
    pub(crate) fn new(
        seed: u32,
        serving: ServingFolder,
        changing: &Path,
        takes: bool,
        (most_failures, possible): (u32, &'static [Fault]),
    ) -> Self {
        Server {
            random: Random::new(u64::from(seed)),
            fault: 0.0,
            faults: 0,
            serving,
            changing: changing.into(),
            versions: BTreeMap::new(),
            possible,
            takes,
            most_failures,
            start: Start::default(),
        }
    }

    /// A start begins, with this probability of a fault: it knows nothing of those before.
    pub(crate) fn begins(&mut self, fault: f64) {
        (self.fault, self.start) = (fault, Start::default());
    }

    /// A file gets another content of this length, in place.
    pub(crate) fn change(&mut self, path: &str, bytes: usize) {
        static POOL: OnceLock<Vec<u8>> = OnceLock::new();
        let from = self.random.below((POOL_BYTES - bytes) as u64) as usize;
        let content = &POOL.get_or_init(|| content(1, POOL_BYTES))[from..from + bytes];
        let versions = self.versions.entry(path.into()).or_default();
        let mut opening = File::options();
        let file = opening.create(true).write(true).truncate(false).open(self.changing.join(&path[1..]));
        let modified = UNIX_EPOCH + Duration::from_secs(1_000_000 + versions.len() as u64);
        let written =
            file.and_then(|file| file.write_all_at(content, 0).and_then(|()| file.set_modified(modified)));
        written.expect("written");
        versions.push(content);
    }

    /// Something is wrong with this request, or not.
    fn strikes(&mut self, request: &RequestHead, (path, query): (&str, &str)) -> Option<Fault> {
        if self.start.due.remove(path).is_some_and(|due| clock::now() < due) {
            self.start.wrong = Some(format!("{path} is asked for again too soon"));
        }
        let (strikes, index) =
            (self.random.chance(self.fault), self.random.below(self.possible.len() as u64));
        let fault = self.possible[index as usize];
        let can = match fault {
            Fault::Busy => match request.method.as_str() {
                "PUT" => query.starts_with("linerate=hold"),
                method => method == "HEAD" || !query.is_empty(),
            },
            Fault::Flipped => request.method == "GET" || query.starts_with("linerate=hold"),
            Fault::Dribbles => request.method == "GET" && query.is_empty(),
            Fault::Changes => !self.takes || query.starts_with("linerate=hold"),
            _ => true,
        };
        let fault = Some(fault).filter(|_| strikes && can);
        self.faults += u32::from(fault.is_some());
        fault
    }

    /// A try of the file failed: it is tried again after a wait, or not at all.
    fn failed(&mut self, path: &str, wait: Option<Duration>) {
        self.start.due.extend(wait.map(|wait| (path.into(), clock::now() + wait)));
        let failures = self.start.failures.entry(path.into()).or_default();
        *failures += 1;
        if *failures > self.most_failures {
            self.start.wrong = Some(format!("{path} is never given up"));
        }
    }

    fn dies(&mut self) {
        self.start.down_until = Some(clock::now() + Duration::from_millis(self.random.below(3000)));
    }
}

/// One connection to it.
struct Connection {
    server: Rc<RefCell<Server>>,
    /// None: it is over.
    own: Option<ServingConnection>,
    /// It had an answer before: a server may close it at any time.
    is_kept: bool,
    path: String,
    /// So many bytes of the body at hand come before this.
    strikes: Option<(u64, Fault)>,
}

pub(crate) fn accepted(server: &Rc<RefCell<Server>>) -> Option<Box<dyn FarEnd>> {
    let mut own = server.borrow_mut();
    own.start.connections += 1;
    assert!(own.start.connections <= MOST_CONNECTIONS, "connections without end");
    let is_down = own.start.down_until.is_some_and(|until| clock::now() < until);
    let (serving, server) = (Some(own.serving.accepted()), Rc::clone(server));
    let connection = Connection { server, own: serving, is_kept: false, path: String::new(), strikes: None };
    (!is_down).then(|| Box::new(connection) as Box<dyn FarEnd>)
}

impl FarEnd for Connection {
    fn came(&mut self, bytes: &mut Vec<u8>, answers: &mut Answers) {
        while let Some(own) = &mut self.own {
            let Some(wants) = own.wants() else {
                let Ok(Some((request, length))) = parse_request(bytes) else { return };
                bytes.drain(..length);
                self.asked(&request, answers);
                self.is_kept = true;
                continue;
            };
            if bytes.is_empty() && wants > 0 {
                return;
            }
            let most = self.strikes.map_or(wants, |(until, _)| until.min(wants));
            let now = most.min(bytes.len() as u64) as usize;
            let answer = own.came(&bytes[..now]);
            answers.extend(answer.map(|(head, _)| Sent::from(head)));
            bytes.drain(..now);
            self.strikes = self.strikes.map(|(until, fault)| (until - now as u64, fault));
            if let Some((0, fault)) = self.strikes.filter(|_| !bytes.is_empty()) {
                self.strike(fault, bytes, answers);
            }
        }
        bytes.clear();
    }
}

impl Connection {
    fn asked(&mut self, request: &RequestHead, answers: &mut Answers) {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        self.path = path.into();
        let mut server = self.server.borrow_mut();
        server.start.ahead += usize::from(!answers.is_empty());
        answers.push_back(Sent::Wait(Duration::from_millis(1)));
        let fault = server.strikes(request, (path, query));
        let Some(own) = &mut self.own else { return };
        if fault == Some(Fault::Changes) && !server.takes {
            let bytes = server.versions[path][0].len();
            server.change(path, bytes);
        }
        let answer = match fault {
            None
            | Some(Fault::Cut | Fault::Flipped | Fault::Dribbles | Fault::Changes | Fault::Interrupt) => {
                own.asked(request)
            }
            _ => None,
        };
        let (head, mut body) = answer.unwrap_or_default();
        let (wants, random) = (own.wants().filter(|bytes| *bytes > 0), &mut server.random);
        match (fault, wants) {
            (None | Some(Fault::Changes | Fault::Flipped | Fault::Interrupt), None) => {
                if fault == Some(Fault::Flipped) && !body.is_empty() {
                    let at = random.below(body.len() as u64) as usize;
                    body[at] ^= 1;
                }
                if fault == Some(Fault::Interrupt) {
                    server.start.stop.end();
                }
                if !server.takes && fault != Some(Fault::Flipped) {
                    server.start.failures.remove(path);
                }
                return answers.extend([head, body].map(Sent::from));
            }
            // Something happens in the middle of a body that comes.
            (None | Some(Fault::Changes | Fault::Flipped | Fault::Interrupt | Fault::Cut), Some(bytes)) => {
                self.strikes = fault.map(|fault| (random.below(bytes), fault));
                return answers.push_back(head.into());
            }
            (Some(Fault::Busy), _) => {
                let seconds = [0, 1, 3, 100][random.below(4) as usize];
                // Of a body that it does not take it reads nothing.
                let close = if request.method == "PUT" { "Connection: close\r\n" } else { "" };
                let lines =
                    format!("Server: linerate/1\r\n{close}Retry-After: {seconds}\r\nContent-Length: 0\r\n");
                answers.push_back(head_of(503, &lines));
                if !close.is_empty() {
                    answers.push_back(Sent::End);
                    self.own = None;
                }
                let wait = LEAST_WAIT.max(Duration::from_secs(seconds.min(10)));
                server.start.due.insert(path.into(), clock::now() + wait);
                return;
            }
            (Some(Fault::Cut), None) => {
                // Of what says that a file is not taken the head is enough.
                let most = head.len() + if server.takes { 0 } else { body.len() };
                let mut answer = [head, body].concat();
                answer.truncate(server.random.below(most as u64) as usize);
                answers.push_back(answer.into());
            }
            (Some(Fault::Dribbles), _) => {
                answers.push_back(head.into());
                for byte in body.drain(..body.len().min(200)) {
                    answers.extend([Sent::from(vec![byte]), Sent::Wait(Duration::from_secs(1))]);
                }
            }
            (Some(Fault::NoHttp), _) => answers.push_back(b"SSH-2.0-OpenSSH_9.2\r\n\r\n".to_vec().into()),
            (Some(Fault::Silent), _) => answers.push_back(Sent::Wait(DAY)),
            (Some(Fault::Dies), _) => server.dies(),
            _ => {}
        }
        let code = [403, 404, 500, 503].into_iter().zip(CODES).find(|(_, own)| fault == Some(*own));
        if let Some((code, _)) = code {
            answers.push_back(head_of(code, "Content-Length: 0\r\nConnection: close\r\n"));
        }
        answers.push_back(if fault == Some(Fault::Resets) { Sent::Reset } else { Sent::End });
        self.own = None;
        let wait = match fault {
            // What it does not say of a file that is put is not waited for.
            _ if code.is_some() && server.takes && request.method != "PUT" => return,
            // What was kept is asked for again at once.
            _ if self.is_kept && !server.takes => None,
            Some(Fault::Code403 | Fault::Code404) => Some(DAY),
            _ => Some(LEAST_WAIT),
        };
        server.failed(path, wait);
    }

    /// In the middle of a body: of what came the server has all when it dies.
    fn strike(&mut self, fault: Fault, bytes: &mut [u8], answers: &mut Answers) {
        self.strikes = None;
        let mut server = self.server.borrow_mut();
        match fault {
            Fault::Flipped => bytes[0] ^= 1,
            Fault::Interrupt => server.start.stop.end(),
            Fault::Changes => {
                let bytes = server.versions[&self.path][0].len();
                server.change(&self.path, bytes);
            }
            _ => {
                self.own = None;
                answers.clear();
                answers.push_back(Sent::Reset);
                server.failed(&self.path, Some(LEAST_WAIT));
                if server.random.chance(0.5) {
                    server.dies();
                }
            }
        }
    }
}

/// A folder with `data`, which is served, and `own`, a client's.
pub(crate) fn place() -> (tempfile::TempDir, ServingFolder) {
    let folder = folder_in_memory();
    for name in ["data", "own"] {
        std::fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    let serving = ServingFolder::new(&folder.path().join("data"));
    (folder, serving)
}

/// Both have so many files, which go; or what they have.
pub(crate) fn cleared(folder: &Path, count: usize) -> Result<(), String> {
    for name in ["data", "own"] {
        let files: Vec<_> = std::fs::read_dir(folder.join(name)).expect("a list").flatten().collect();
        if files.len() != count {
            return Err(format!("of {count} files are left {files:?}"));
        }
        files.iter().for_each(|file| std::fs::remove_file(file.path()).expect("removed"));
    }
    Ok(())
}

pub(crate) fn head_of(status: u16, lines: &str) -> Sent {
    format!("HTTP/1.1 {status} Status\r\n{lines}\r\n").into_bytes().into()
}
