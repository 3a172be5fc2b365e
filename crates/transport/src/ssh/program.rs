//! A program on another host, started over ssh: its standard streams are ours, and it loses them when we end.

use super::host::SshHost;
use crate::agent::KEY_VARIABLE;
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::lock;
use linerate_system::process::end_of;
use linerate_system::stop::Stop;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Of what it complains about, the end is kept.
const KEPT_LINES: usize = 3;
const LONGEST_LINE_BYTES: u64 = 1024;
/// After ssh has ended, its last words have this long to come.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// ssh could not be started here.
#[derive(Debug, thiserror::Error)]
pub enum SshProgramError {
    #[error("ssh cannot be started here: {0}; is OpenSSH installed?")]
    NotStarted(io::Error),
    #[error("ssh has no pipes")]
    NoPipes,
    #[error("no thread to listen to ssh: {0}")]
    NoThread(io::Error),
}

/// Why a program ended that was to go on, with what was complained about last, in brackets; empty where nothing was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SshEnd {
    /// ssh's own status for all that goes wrong on its way (ssh(1), exit status).
    #[error(
        "ssh cannot log in there{complaints}; it must work without a question: try `ssh -o BatchMode=yes {host} true`"
    )]
    NoLogin { host: String, complaints: String },
    #[error(
        "linerate is not installed there, or not in the PATH of its shell{complaints}: copy the program to a folder of \
         that PATH"
    )]
    NotInstalled { complaints: String },
    #[error("linerate there ended with status {status}{complaints}")]
    Status { status: i32, complaints: String },
    #[error("ssh was killed{complaints}")]
    Killed { complaints: String },
}

/// ssh, and what it started; dropping this ends both.
pub struct SshProgram {
    host: SshHost,
    child: Child,
    complaints: Complaints,
}

impl SshProgram {
    /// Logs in and has the shell there run these words.
    pub fn start(
        host: &SshHost,
        there: &str,
    ) -> Result<(SshProgram, ChildStdin, ChildStdout), SshProgramError> {
        let mut command = host.command(there);
        // A group of its own: Ctrl-C at our terminal is for us; what is there has to report yet.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        // A key of ours is for agents that were named.
        command.env_remove(KEY_VARIABLE);
        let mut child = command.spawn().map_err(SshProgramError::NotStarted)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let started = match pipes {
            (Some(stdin), Some(stdout), Some(stderr)) => {
                Complaints::of(stderr).map(|complaints| (stdin, stdout, complaints))
            }
            _ => Err(SshProgramError::NoPipes),
        };
        match started {
            Ok((stdin, stdout, complaints)) => {
                Ok((SshProgram { host: host.clone(), child, complaints }, stdin, stdout))
            }
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    /// How ssh ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The same, once it has ended or this time is over.
    pub fn ended_within(&mut self, time: Duration) -> Option<ExitStatus> {
        end_of(&mut self.child, &Stop::new(), clock::now() + time).ok().flatten()
    }

    /// As ssh's command line has it.
    pub(super) fn host(&self) -> &str {
        &self.host.host
    }

    /// What that means of a program that has not answered yet.
    pub fn why_it_ended(&self, status: ExitStatus) -> SshEnd {
        let complaints = self.complaints();
        match status.code() {
            Some(255) => SshEnd::NoLogin { host: self.host.host.clone(), complaints },
            Some(126 | 127) => SshEnd::NotInstalled { complaints },
            Some(status) => SshEnd::Status { status, complaints },
            None => SshEnd::Killed { complaints },
        }
    }

    /// The last lines of what ssh and the shell there complained about, in brackets after a blank; empty where there
    /// is none.
    pub fn complaints(&self) -> String {
        let lines = self.complaints.last_lines();
        if lines.is_empty() { String::new() } else { format!(" ({lines})") }
    }
}

impl Drop for SshProgram {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// What is there ends because its standard input does.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// The last lines of what ssh and the shell there complain about.
struct Complaints {
    lines: Arc<Mutex<VecDeque<String>>>,
    reader: JoinHandle<()>,
}

impl Complaints {
    fn of(output: impl Read + Send + 'static) -> Result<Complaints, SshProgramError> {
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let kept = lines.clone();
        let thread = std::thread::Builder::new().name("ssh".into());
        let reader = thread
            .spawn(move || keep_last_lines(output, LONGEST_LINE_BYTES, &kept))
            .map_err(SshProgramError::NoThread)?;
        Ok(Complaints { lines, reader })
    }

    /// All that came until now. A connection that ssh shares with later ones may hold the pipe open for long.
    fn last_lines(&self) -> String {
        let patience = clock::now() + LAST_WORDS;
        while !self.reader.is_finished() && clock::now() < patience {
            // ssh has ended: no stop shortens what its last words need.
            clock::sleep(POLL_INTERVAL);
        }
        lock(&self.lines).iter().map(String::as_str).collect::<Vec<_>>().join("; ")
    }
}

/// Keeps the last lines of an output until its end; longer ones in pieces of these bytes.
pub fn keep_last_lines(output: impl Read, longest_bytes: u64, kept: &Mutex<VecDeque<String>>) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while let Ok(1..) = (&mut output).take(longest_bytes).read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line).trim().to_string();
        let mut kept = lock(kept);
        kept.extend((!text.is_empty()).then_some(text));
        while kept.len() > KEPT_LINES {
            kept.pop_front();
        }
        line.clear();
    }
}
