//! `--peer ssh://[USER@]HOST[:PORT]`: an agent that is started over ssh for one run, and ends with it.
//!
//! ssh admits us there; the key of the control channel is made here and goes over ssh's standard input, so
//! that no list of processes shows it. The agent listens on a port that its kernel picks and ends when its
//! standard input does: also when we are killed.

use super::key::{KEY_VARIABLE, Key};
use super::own::ADDRESS_PREFIX;
use crate::address::resolve_host;
use crate::ssh::SshHost;
use linerate_facts::failure::Failure;
use linerate_system::lock;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Logging in and starting the program may take so long in all.
const START: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(20);
/// A greeting of the host may come before the address, at most this much.
const LARGEST_OUTPUT_BYTES: u64 = 64 << 10;
/// Of what it complains about, the end is kept.
const KEPT_LINES: usize = 3;
/// After ssh has ended, its last words have this long to come.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// An agent that was started over ssh; dropping this ends it.
pub(crate) struct SshAgent {
    child: Child,
    _stdin: ChildStdin,
    address: SocketAddr,
    key: Key,
}

impl SshAgent {
    /// Logs in, starts an agent, learns its port.
    pub(crate) fn start(host: &SshHost, stop: &AtomicBool) -> Result<SshAgent, Failure> {
        let key = Key::random()?;
        let mut command = host.command();
        // A group of its own: Ctrl-C at our terminal is for us; the agent is needed until the results are
        // saved.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command.env_remove(KEY_VARIABLE);
        let mut child = command.spawn().map_err(|error| {
            host.lacks(format!("ssh cannot be started here: {error}; is OpenSSH installed?"))
        })?;
        match SshAgent::greet(host, &mut child, &key, stop) {
            Ok((stdin, address)) => Ok(SshAgent { child, _stdin: stdin, address, key }),
            Err(failure) => {
                end(&mut child);
                Err(failure)
            }
        }
    }

    /// Gives it the key and waits for its port.
    fn greet(
        host: &SshHost,
        child: &mut Child,
        key: &Key,
        stop: &AtomicBool,
    ) -> Result<(ChildStdin, SocketAddr), Failure> {
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(host.lacks("ssh has no pipes"));
        };
        let (tell, told) = channel();
        spawn(host, move || read_address(stdout, &tell))?;
        let complaints = Complaints::of(host, stderr)?;
        // If it has ended already, its complaint says why.
        let _ = writeln!(stdin, "{}", key.to_hex()).and_then(|()| stdin.flush());
        let listens = await_address(host, child, &told, &complaints, stop)?;
        let address = resolve_host(&host.host, listens.port()).map_err(|why| {
            host.lacks(format!(
                "ssh reaches it, but {} has no address for data: {why}; an alias of ssh's configuration is \
                 none",
                host.host
            ))
        })?;
        Ok((stdin, address))
    }

    /// Where it listens, as this host reaches it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its key, made for this one run.
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }
}

impl Drop for SshAgent {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// The agent there ends because its standard input does.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn spawn(host: &SshHost, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Failure> {
    let thread = std::thread::Builder::new().name("ssh".into()).spawn(work);
    thread.map_err(|error| host.lacks(format!("no thread to listen to ssh: {error}")))
}

/// Tells the address once it is there; then swallows what may come, so that nobody there waits for us.
fn read_address(output: impl Read, tell: &Sender<SocketAddr>) {
    let mut output = BufReader::new(output);
    let lines = (&mut output).take(LARGEST_OUTPUT_BYTES).split(b'\n').map_while(Result::ok);
    let mut told = lines.filter_map(|line| {
        String::from_utf8_lossy(&line).trim().strip_prefix(ADDRESS_PREFIX)?.trim().parse().ok()
    });
    if let Some(address) = told.next() {
        let _ = tell.send(address);
    }
    drop(told);
    let _ = std::io::copy(&mut output, &mut std::io::sink());
}

/// The last lines of what ssh and the shell there complain about.
struct Complaints {
    lines: Arc<Mutex<VecDeque<String>>>,
    reader: JoinHandle<()>,
}

impl Complaints {
    fn of(host: &SshHost, output: impl Read + Send + 'static) -> Result<Complaints, Failure> {
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let kept = lines.clone();
        let reader = spawn(host, move || {
            let mut output = BufReader::new(output);
            let mut line = Vec::new();
            while let Ok(1..) = (&mut output).take(1024).read_until(b'\n', &mut line) {
                let text = String::from_utf8_lossy(&line).trim().to_string();
                let mut kept = lock(&kept);
                kept.extend((!text.is_empty()).then_some(text));
                while kept.len() > KEPT_LINES {
                    kept.pop_front();
                }
                line.clear();
            }
        })?;
        Ok(Complaints { lines, reader })
    }

    /// All that came until now. A connection that ssh shares with later ones may hold the pipe open for long.
    fn last_words(&self) -> String {
        let patience = Instant::now() + LAST_WORDS;
        while !self.reader.is_finished() && Instant::now() < patience {
            std::thread::sleep(LOOK);
        }
        lock(&self.lines).iter().map(String::as_str).collect::<Vec<_>>().join("; ")
    }
}

fn await_address(
    host: &SshHost,
    child: &mut Child,
    told: &Receiver<SocketAddr>,
    complaints: &Complaints,
    stop: &AtomicBool,
) -> Result<SocketAddr, Failure> {
    let began = Instant::now();
    while began.elapsed() < START {
        let ended = child.try_wait().ok().flatten();
        if let Ok(address) = told.try_recv() {
            return Ok(address);
        }
        if let Some(status) = ended {
            return Err(host.lacks(why_it_ended(host, status, &complaints.last_words())));
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::Interrupted);
        }
        std::thread::sleep(LOOK);
    }
    Err(host.lacks(format!(
        "no agent there reported its port within {} s{}; does ssh, or a login script there, wait for \
         something? Try `ssh -o BatchMode=yes {} linerate --version`",
        START.as_secs(),
        in_brackets(&complaints.last_words()),
        host.host
    )))
}

fn in_brackets(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(" ({said})") }
}

fn why_it_ended(host: &SshHost, status: ExitStatus, said: &str) -> String {
    let words = in_brackets(said);
    match status.code() {
        Some(255) => format!(
            "ssh cannot log in there{words}; it must work without a question: try `ssh -o BatchMode=yes {} \
             true`",
            host.host
        ),
        Some(126 | 127) => format!(
            "linerate is not installed there, or not in the PATH of its shell{words}: copy the program to a \
             folder of that PATH"
        ),
        Some(0) => format!(
            "what ran there ended without telling a port{words}: is `linerate` there this program, of this \
             version?"
        ),
        Some(code) => format!("the agent there ended with status {code}{words}"),
        None => format!("ssh was killed{words}"),
    }
}
