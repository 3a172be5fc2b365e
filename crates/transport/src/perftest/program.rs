//! One program of perftest while it runs: what it prints, how it ends, and that it does end.

use super::output::OutputError;
use linerate_facts::printable::printable;
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::process::{end_of, end_with_starter, kill_group};
use linerate_system::stop::Stop;
use std::io::{self, ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

/// It prints two lines for each queue pair, and a table.
const MOST_OUTPUT_BYTES: u64 = 1 << 20;
/// Once it has ended, its output ends within this, unless a program that it started has the pipe: that one is killed.
const OUTPUT_END: Duration = Duration::from_millis(500);
/// Of its last words in a sentence.
const LAST_LINES: usize = 2;
const LAST_LETTERS: usize = 240;

/// Why a program gave nothing: a phrase that begins with its name.
#[derive(Debug, thiserror::Error)]
pub enum PerftestError {
    #[error("{program} is not installed: install perftest (`apt install perftest`, `dnf install perftest`)")]
    NotInstalled { program: &'static str },
    #[error("{program} cannot be started: {error}")]
    Start { program: &'static str, error: io::Error },
    #[error("the end of {program} cannot be waited for: {error}")]
    Wait { program: &'static str, error: io::Error },
    /// Somebody wants it to end: Ctrl-C, or another end that is gone.
    #[error("{program} was stopped")]
    Stopped { program: &'static str },
    #[error("{program} did not end within {seconds:.0} s and was killed{last}")]
    Late { program: &'static str, seconds: f64, last: String },
    #[error("{program} failed ({status}){last}")]
    Failed { program: &'static str, status: ExitStatus, last: String },
    #[error("{program} failed ({status}){last}; RDMA locks its memory: raise `ulimit -l`")]
    Memory { program: &'static str, status: ExitStatus, last: String },
    #[error("{program} {why}")]
    Output { program: &'static str, why: OutputError },
}

/// A program that was started. Dropping it kills it, and so does the end of the thread that started it.
#[derive(Debug)]
pub struct RunningPerftest {
    name: &'static str,
    child: Child,
    /// All that it prints, once it is whole; none once that was taken.
    output: Option<Receiver<String>>,
}

impl RunningPerftest {
    /// Starts it, in a process group of its own: Ctrl-C at our terminal is for us.
    ///
    /// # Errors
    /// It is not installed, or the kernel does not start it.
    pub fn start(name: &'static str, arguments: &[String]) -> Result<RunningPerftest, PerftestError> {
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => PerftestError::NotInstalled { program: name },
            _ => PerftestError::Start { program: name, error },
        };
        let (reader, writer) = io::pipe().map_err(failed)?;
        let mut command = Command::new(name);
        command.args(arguments).stdin(Stdio::null()).process_group(0).env("LC_ALL", "C");
        command.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
        end_with_starter(&mut command);
        let child = command.spawn().map_err(failed)?;
        // Its ends of the pipe are the only ones from here on.
        drop(command);
        let (sender, output) = sync_channel(1);
        let program = RunningPerftest { name, child, output: Some(output) };
        let collect = move || {
            let mut text = Vec::new();
            let _ = reader.take(MOST_OUTPUT_BYTES).read_to_end(&mut text);
            let _ = sender.send(String::from_utf8_lossy(&text).into_owned());
        };
        std::thread::Builder::new().name("perftest".into()).spawn(collect).map_err(failed)?;
        Ok(program)
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end, so long at most; `go_on` is asked meanwhile. The whole of what it printed, where it ended well;
    /// else it is killed where it still ran.
    ///
    /// # Errors
    /// It failed, was late, or was stopped: `go_on` said no.
    pub fn finish(
        mut self,
        patience: Duration,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<String, PerftestError> {
        let (deadline, never) = (clock::now() + patience, Stop::new());
        loop {
            // Its end is seen at once; whether to go on is asked this often.
            match end_of(&mut self.child, &never, deadline.min(clock::now() + POLL_INTERVAL)) {
                Ok(Some(status)) => return self.ended(status),
                Ok(None) => {}
                Err(error) => return Err(PerftestError::Wait { program: self.name, error }),
            }
            if !go_on() {
                return Err(PerftestError::Stopped { program: self.name });
            }
            if clock::now() >= deadline {
                self.kill();
                let (program, seconds, last) =
                    (self.name, patience.as_secs_f64(), last_words(&self.printed()));
                return Err(PerftestError::Late { program, seconds, last });
            }
        }
    }

    fn ended(&mut self, status: ExitStatus) -> Result<String, PerftestError> {
        let text = self.printed();
        if status.success() {
            return Ok(text);
        }
        let (program, last) = (self.name, last_words(&text));
        Err(match text.contains("allocate MR") {
            true => PerftestError::Memory { program, status, last },
            false => PerftestError::Failed { program, status, last },
        })
    }

    fn kill(&mut self) {
        kill_group(self.child.id());
        let _ = self.child.wait();
    }

    /// All that it printed; it has ended.
    fn printed(&mut self) -> String {
        let Some(output) = self.output.take() else { return String::new() };
        let whole = output.recv_timeout(OUTPUT_END).or_else(|_| {
            kill_group(self.child.id());
            // One that left the group keeps the pipe: what was printed is lost then.
            output.recv_timeout(OUTPUT_END)
        });
        whole.unwrap_or_default()
    }
}

impl Drop for RunningPerftest {
    fn drop(&mut self) {
        if self.output.is_some() {
            self.kill();
        }
    }
}

/// `: its last lines`, fit for a sentence; nothing where it printed nothing.
fn last_words(text: &str) -> String {
    let is_word = |line: &&str| line.chars().any(char::is_alphanumeric);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(is_word).collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("; ");
    let last: String = printable(&last).chars().take(LAST_LETTERS).collect();
    if last.is_empty() { last } else { format!(": {last}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn shell(words: &str) -> RunningPerftest {
        RunningPerftest::start("sh", &["-c".into(), words.into()]).expect("a shell")
    }

    fn finish(words: &str, patience: Duration) -> Result<String, PerftestError> {
        shell(words).finish(patience, || true)
    }

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn what_it_printed_is_whole() {
        assert_eq!(finish("echo one; echo two >&2", LONG).expect("an output"), "one\ntwo\n");
        // More than a pipe holds.
        let lines = finish("yes 0123456789abcdef | head -n 20000", LONG).expect("an output");
        assert_eq!(lines.lines().count(), 20000);
    }

    #[test]
    fn one_that_fails_says_so_with_its_last_words() {
        let why = finish("echo ----; echo first; echo ' no device'; echo ----; exit 3", LONG)
            .expect_err("it failed");
        assert_eq!(why.to_string(), "sh failed (exit status: 3): first; no device");
        let why = finish("kill -9 $$", LONG).expect_err("it was killed").to_string();
        assert!(why.starts_with("sh failed (signal: 9"), "{why}");
        let why = finish("echo \"Couldn't allocate MR\"; exit 1", LONG).expect_err("no memory").to_string();
        assert!(why.contains("ulimit -l"), "{why}");
        let why = RunningPerftest::start("perftest-that-is-not-there", &[]).expect_err("absent").to_string();
        assert!(why.contains("is not installed") && why.contains("apt install perftest"), "{why}");
    }

    #[test]
    fn one_that_hangs_is_killed_with_what_it_started() {
        let begun = Instant::now();
        let why = finish("echo waiting; sleep 600 & wait", Duration::from_millis(300))
            .expect_err("it hangs")
            .to_string();
        assert!(why.contains("did not end within 0 s and was killed: waiting"), "{why}");
        // One that ends, and leaves a program that keeps its output open.
        assert_eq!(finish("echo done; sleep 600 & exit 0", LONG).expect("an output"), "done\n");
        assert!(begun.elapsed() < LONG);
    }

    #[test]
    fn one_that_is_not_wanted_any_more_ends() {
        let mut stopped = shell("sleep 600");
        let id = stopped.child.id();
        assert!(stopped.is_running());
        assert!(matches!(stopped.finish(LONG, || false), Err(PerftestError::Stopped { .. })));
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists(), "it is gone");
        let dropped = shell("sleep 600");
        let id = dropped.child.id();
        drop(dropped);
        assert!(!std::path::Path::new(&format!("/proc/{id}")).exists(), "it is gone");
    }
}
