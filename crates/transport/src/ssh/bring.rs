//! This very program on a host where it is not installed: it goes there over ssh's standard input, into a file without a
//! name. The private folder in which the file began is gone before the first byte comes, so that nothing stays there
//! whatever ends the copy, a kill or a power cut too.

use super::host::SshHost;
use super::program::{SshEnd, SshProgram, SshProgramError};
use linerate_sums::{Crc, CrcAlgorithm};
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::stop::Stop;
use std::io::{self, Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::time::Duration;

/// Before what the shell there reports.
const MARK: &str = "linerate brought:";
/// The shell there is ready for the program.
const READY: &str = "ready";
/// The program is whole there, and starts.
const WHOLE: &str = "whole";
/// Logging in, or the last bytes and their sum, may take so long.
const PATIENCE: Duration = Duration::from_secs(15);
/// Once its output has ended ssh has this long to end.
const ENDING: Duration = Duration::from_millis(500);
/// A pipe that poll(2) reports as writable has room for a page (pipe(7)).
const PIECE_BYTES: usize = 4096;
/// Greetings of the host may come before, at most this much.
const LARGEST_GREETING_BYTES: usize = 64 << 10;
/// Status of the shell there where the program cannot be brought; it has complained why.
const REFUSED: i32 = 79;

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
        PATIENCE.as_secs()
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
        ssh.await_word(&mut stdout, READY, stop)?;
        // What has ended meanwhile says why.
        let _ = send(&mut stdin, &program, stop);
        ssh.await_word(&mut stdout, WHOLE, stop)?;
        Ok((ssh, stdin, stdout))
    }

    /// Until the shell there reports this. Nothing after it is read.
    fn await_word(&mut self, stdout: &mut ChildStdout, word: &str, stop: &Stop) -> Result<(), BringError> {
        let wanted = format!("{MARK} {word}");
        let (mut line, mut length, began) = (Vec::new(), 0, clock::now());
        while length < LARGEST_GREETING_BYTES && clock::since(began) < PATIENCE {
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
        let Some(status) = self.ended_within(ENDING) else {
            return BringError::Refused { complaints: self.complaints() };
        };
        match self.why_it_ended(status) {
            SshEnd::Status { status: REFUSED, complaints } => BringError::Refused { complaints },
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
        ("STATUS", REFUSED.to_string()),
        ("PLATFORM", platform),
        ("MARK", MARK.into()),
        ("READY", READY.into()),
        ("WHOLE", WHOLE.into()),
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
