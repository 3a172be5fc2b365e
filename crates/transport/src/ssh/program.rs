//! A program on another host, started over ssh: its standard streams are ours, and it loses them when we end.
//!
//! It may be this very program, on a host where it is not installed: then it goes there over ssh's standard
//! input, into a file without a name. The private folder in which the file began is gone before the first byte
//! comes, so that nothing stays there whatever ends the copy, a kill or a power cut too.

use super::SshHost;
use crate::agent::KEY_VARIABLE;
use linerate_sums::{Crc, CrcAlgorithm};
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::lock;
use linerate_system::process::end_of;
use linerate_system::stop::Stop;
use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
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

/// Before what the shell there reports.
const REPORT_MARK: &str = "linerate brought:";
/// The shell there is ready for the program.
const SHELL_READY: &str = "ready";
/// The program is whole there, and starts.
const PROGRAM_WHOLE: &str = "whole";
/// Logging in, or the last bytes and their sum, may take so long.
const BRING_PATIENCE: Duration = Duration::from_secs(15);
/// Once its output has ended ssh has this long to end.
const SSH_END: Duration = Duration::from_millis(500);
/// A pipe that poll(2) reports as writable has room for a page (pipe(7)).
const PIECE_BYTES: usize = 4096;
/// Greetings of the host may come before, at most this much.
const LARGEST_GREETING_BYTES: usize = 64 << 10;
/// Status of the shell there where the program cannot be brought; it has complained why.
const REFUSED_STATUS: i32 = 79;

/// What the shell there does; the program comes by its standard input. It has no quote and no exclamation mark in it, for
/// shells of any kind hand it to `sh`. A file that can be run from the folder shows that it is not mounted noexec.
const SHELL: &str = "umask 077; no() { echo \"$*\" >&2; exit STATUS; }; is=$(uname -sm); \
    [ \"$is\" = \"PLATFORM\" ] || no \"it is $is, and this program is for PLATFORM: install linerate there\"; \
    for under in \"${TMPDIR:-/tmp}\" /var/tmp /dev/shm \"$HOME\"; do \
    into=$(mktemp -d \"$under/linerate.XXXXXX\" 2>/dev/null) || continue; program=$into/linerate; \
    : >\"$program\" && chmod 700 \"$program\" && \"$program\" 2>/dev/null && \
    exec 3>\"$program\" 4<\"$program\"; runs=$?; rm -rf \"$into\"; [ $runs = 0 ] && break; done; \
    [ \"$runs\" = 0 ] || no \"${TMPDIR:-/tmp}, /var/tmp, /dev/shm and its home are full, closed to this user, or \
    mounted noexec: install linerate there, or set TMPDIR there\"; \
    echo MARK READY; head -c BYTES >&3; exec 3>&-; came=$(cksum </proc/self/fd/4); \
    [ \"${came#* }\" = BYTES ] || no \"${came#* } of BYTES bytes of the program came: is there no room left in $under?\"; \
    [ \"$came\" = \"SUM BYTES\" ] || no \"the program changed on its way: copy again, or install linerate there\"; \
    echo MARK WHOLE; exec /proc/self/fd/4 WORDS";

/// Why this program does not run there.
#[derive(Debug, thiserror::Error)]
pub enum BringError {
    #[error(transparent)]
    NotStarted(#[from] SshProgramError),
    #[error("linerate's own file cannot be read, to bring it there: {0}")]
    NotRead(io::Error),
    #[error("linerate cannot be brought there{complaints}")]
    Refused { complaints: String },
    #[error("linerate was brought there, and cannot be run{complaints}")]
    NotRun { complaints: String },
    #[error(transparent)]
    Ended(SshEnd),
    #[error(
        "the shell there did not answer within {} s{complaints}; does ssh, or a login script there, wait for something? \
         Try `ssh -o BatchMode=yes {host} true`",
        BRING_PATIENCE.as_secs()
    )]
    Silent { host: String, complaints: String },
    #[error("interrupted")]
    Interrupted,
}

impl SshProgram {
    /// As [`SshProgram::start`], but of this program, which is brought there, with these words.
    pub fn bring(
        host: &SshHost,
        words: &str,
        stop: &Stop,
    ) -> Result<(SshProgram, ChildStdin, ChildStdout), BringError> {
        let program = std::env::current_exe().and_then(std::fs::read).map_err(BringError::NotRead)?;
        let (mut ssh, mut stdin, mut stdout) = SshProgram::start(host, &shell(&program, words))?;
        ssh.await_word(&mut stdout, SHELL_READY, stop)?;
        // What has ended meanwhile says why.
        let _ = send(&mut stdin, &program, stop);
        ssh.await_word(&mut stdout, PROGRAM_WHOLE, stop)?;
        Ok((ssh, stdin, stdout))
    }

    /// Until the shell there reports this. Nothing after it is read.
    fn await_word(&mut self, stdout: &mut ChildStdout, word: &str, stop: &Stop) -> Result<(), BringError> {
        let wanted = format!("{REPORT_MARK} {word}");
        let (mut line, mut length, began) = (Vec::new(), 0, clock::now());
        while length < LARGEST_GREETING_BYTES && clock::since(began) < BRING_PATIENCE {
            if stop.is_ended() {
                return Err(BringError::Interrupted);
            }
            if !stop.wait_readable(stdout, Some(POLL_INTERVAL)).unwrap_or(false) {
                continue;
            }
            let mut byte = [0];
            match (stdout.read(&mut byte), byte) {
                (Ok(1..), [b'\n']) if line == wanted.as_bytes() => return Ok(()),
                (Ok(1..), [b'\n']) => line.clear(),
                (Ok(1..), [byte]) => line.push(byte),
                _ => return Err(self.why_it_was_not_brought()),
            }
            length += 1;
        }
        Err(BringError::Silent { host: self.host().into(), complaints: self.complaints() })
    }

    fn why_it_was_not_brought(&mut self) -> BringError {
        let Some(status) = self.ended_within(SSH_END) else {
            return BringError::Refused { complaints: self.complaints() };
        };
        match self.why_it_ended(status) {
            SshEnd::Status { status: REFUSED_STATUS, complaints } => BringError::Refused { complaints },
            SshEnd::NotInstalled { complaints } => BringError::NotRun { complaints },
            end => BringError::Ended(end),
        }
    }
}

/// All of it, or as much as is taken before `stop`.
fn send(stdin: &mut ChildStdin, program: &[u8], stop: &Stop) -> io::Result<()> {
    for piece in program.chunks(PIECE_BYTES) {
        while !stop.wait_writable(stdin, None)? {
            if stop.is_ended() {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        stdin.write_all(piece)?;
    }
    stdin.flush()
}

/// What ssh has the login shell there do.
fn shell(program: &[u8], words: &str) -> String {
    let (bytes, sum) = (program.len().to_string(), cksum(program).to_string());
    let platform = format!("Linux {}", std::env::consts::ARCH);
    let values = [
        ("STATUS", REFUSED_STATUS.to_string()),
        ("PLATFORM", platform),
        ("MARK", REPORT_MARK.into()),
        ("READY", SHELL_READY.into()),
        ("WHOLE", PROGRAM_WHOLE.into()),
        ("BYTES", bytes),
        ("SUM", sum),
        ("WORDS", words.into()),
    ];
    let filled = values.iter().fold(SHELL.to_string(), |text, (name, value)| text.replace(name, value));
    format!("exec sh -c '{filled}'")
}

/// As cksum(1) of POSIX has it: of the bytes, and then of their number, the lowest byte first, without zeros at its end.
fn cksum(bytes: &[u8]) -> u64 {
    let mut crc = Crc::new(CrcAlgorithm::Crc32Cksum);
    crc.update(bytes);
    let length = (bytes.len() as u64).to_le_bytes();
    let used = length.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    crc.update(&length[..used]);
    crc.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_the_command() {
        // `printf %s 123456789 | cksum`, the same of nothing, and of so many bytes that their number takes three.
        assert_eq!((cksum(b"123456789"), cksum(b"")), (930_766_865, 4_294_967_295));
        assert_eq!(cksum(&[b'x'; 70_000]), 4_215_398_528);
    }

    #[test]
    fn any_login_shell_hands_it_on_as_one_word() {
        let line = shell(b"program", "copy-half");
        let inner = line.strip_prefix("exec sh -c '").and_then(|rest| rest.strip_suffix('\'')).expect("sh");
        assert!(!inner.contains(['\'', '!', '\n', '\\']), "{inner}");
        assert!(
            inner.ends_with("exec /proc/self/fd/4 copy-half") && inner.contains("head -c 7 >&3"),
            "{inner}"
        );
    }
}
