//! One program of perftest while it runs: what it prints, how it ends, and that it does end.
//!
//! What it prints is the table of perftest's text. Its `--out_json` is not JSON in perftest 4.5 (Debian 12: no
//! quotes around names and words, a comma before each closing brace), and older ones have none; the table has
//! been the same for ten years.
//!
//! ```text
//!  #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
//!  65536      912              0.00               0.24               0.000456
//! ```

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

/// Columns of the table, of which the first two are counts.
const MESSAGE_BYTES: usize = 0;
const MESSAGES: usize = 1;
const AVERAGE: usize = 3;
const MESSAGE_RATE: usize = 4;
/// Half of the last digit that is printed: of the average, Gb/s, and of the messages, millions a second.
const AVERAGE_ROUNDING: f64 = 0.005;
const MESSAGE_RATE_ROUNDING: f64 = 0.5e-6;
/// By so much two columns of one figure may differ beyond their rounding.
const TOLERANCE: f64 = 0.01;
/// No link carries more; what says so is not read right.
const MOST_GIGABITS: f64 = 1e6;

/// What one end counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerftestFigure {
    /// Of one message.
    pub message_bytes: u64,
    /// Messages whose end was seen while it counted.
    pub messages: u64,
    /// Payload, bytes per second; the sum of both directions where both were asked for.
    pub bytes_per_second: f64,
    /// Payload of a full packet (RDMA's path MTU); none: not printed.
    pub packet_bytes: Option<u32>,
}

/// Why it is not a figure: a phrase.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutputError {
    #[error("printed no table of results")]
    NoTable,
    #[error("printed a table with other columns than linerate knows")]
    OtherColumns,
    #[error("moved no message within its time")]
    NoMessages,
    #[error("printed a rate that does not agree with its messages")]
    Contradiction,
}

impl PerftestFigure {
    /// Reads the whole output of one end.
    ///
    /// # Errors
    /// There is no table, or one that cannot be true.
    pub fn parse(text: &str) -> Result<PerftestFigure, OutputError> {
        let mut lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with("#bytes"));
        let header = lines.next().ok_or(OutputError::NoTable)?;
        if !header.contains("BW average[Gb/sec]") || !header.contains("MsgRate[Mpps]") {
            return Err(OutputError::OtherColumns);
        }
        let line = lines.next().ok_or(OutputError::NoTable)?;
        let cells: Vec<&str> = line.split_whitespace().collect();
        let count = |column: usize| cells.get(column).and_then(|cell| cell.parse::<u64>().ok());
        let number = |column: usize, most: f64| {
            let number = cells.get(column).and_then(|cell| cell.parse::<f64>().ok());
            number.filter(|number| (0.0..=most).contains(number))
        };
        let (Some(message_bytes), Some(messages), Some(average), Some(rate)) = (
            count(MESSAGE_BYTES),
            count(MESSAGES),
            number(AVERAGE, MOST_GIGABITS),
            number(MESSAGE_RATE, MOST_GIGABITS),
        ) else {
            return Err(OutputError::NoTable);
        };
        if messages == 0 || message_bytes == 0 {
            return Err(OutputError::NoMessages);
        }
        let bytes_per_second =
            finer(average, rate, message_bytes as f64).ok_or(OutputError::Contradiction)?;
        Ok(PerftestFigure { message_bytes, messages, bytes_per_second, packet_bytes: packet_bytes(text) })
    }
}

/// Bytes per second by the column that is rounded less; none where the two do not agree, or where there is no rate.
fn finer(average: f64, message_rate: f64, message_bytes: f64) -> Option<f64> {
    let gigabits = message_bytes * 8.0 / 1e3;
    let (by_messages, rounding) = (message_rate * gigabits, MESSAGE_RATE_ROUNDING * gigabits);
    let allowed = AVERAGE_ROUNDING + rounding + TOLERANCE * average.max(by_messages);
    let finer = if rounding < AVERAGE_ROUNDING { by_messages } else { average };
    ((average - by_messages).abs() <= allowed && finer > 0.0).then_some(finer * 1e9 / 8.0)
}

/// ` Mtu             : 4096[B]`.
fn packet_bytes(text: &str) -> Option<u32> {
    let value = |line: &str| {
        line.trim().strip_prefix("Mtu")?.trim().strip_prefix(':')?.trim().strip_suffix("[B]")?.parse().ok()
    };
    text.lines().find_map(value).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
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

    /// ib_write_bw 6.06 (perftest 4.5) over rxe in a guest, without its lines of addresses.
    const TEXT: &str = "
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : rxe0
 Number of qps   : 1\t\tTransport type : IB
 TX depth        : 128
 CQ Moderation   : 1
 Mtu             : 1024[B]
 Link type       : Ethernet
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      912              0.00               0.24   \t\t   0.000456
---------------------------------------------------------------------------------------
";

    fn with(row: &str) -> Result<PerftestFigure, OutputError> {
        PerftestFigure::parse(
            &TEXT.replace("65536      912              0.00               0.24   \t\t   0.000456", row),
        )
    }

    #[test]
    fn the_table_is_read_by_its_finer_column() {
        let figure = PerftestFigure::parse(TEXT).expect("a figure");
        assert_eq!((figure.message_bytes, figure.messages, figure.packet_bytes), (65536, 912, Some(1024)));
        assert!((figure.bytes_per_second - 456.0 * 65536.0).abs() < 1.0, "{figure:?}");
        // Large messages: their rate is rounded more than the average.
        let figure = with("16777216 120 0.00 96.55 0.000719").expect("a figure");
        assert!((figure.bytes_per_second - 96.55e9 / 8.0).abs() < 1.0, "{figure:?}");
        // Both ways at once it prints more digits.
        assert!(with("65536      64           0.000000            0.020746            0.000040").is_ok());
    }

    #[test]
    fn what_is_no_figure_is_refused() {
        let error = |text: &str| PerftestFigure::parse(text).expect_err("no figure");
        assert_eq!(error(""), OutputError::NoTable);
        assert_eq!(error("Couldn't connect to 192.0.2.1:18515"), OutputError::NoTable);
        assert_eq!(error(&TEXT.replace("Gb/sec", "MB/sec")), OutputError::OtherColumns);
        assert_eq!(error(TEXT.split_once(" 65536").expect("the row").0), OutputError::NoTable);
        assert_eq!(
            with("1048576    0                0.00               0.00   0.000000"),
            Err(OutputError::NoMessages)
        );
        assert_eq!(with("65536 912 0.00 24.00 0.000456"), Err(OutputError::Contradiction));
        assert_eq!(with("65536 912 0.00 0.00 0.000000"), Err(OutputError::Contradiction));
        for cell in ["nan", "inf", "-0.24", "1e30"] {
            assert_eq!(with(&format!("65536 912 0.00 {cell} 0.000456")), Err(OutputError::NoTable), "{cell}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_figure_or_none(text in "[ -~\\n]{0,400}", row in "[0-9a-z. \\-]{0,60}") {
            let _ = PerftestFigure::parse(&text);
            if let Ok(figure) = with(&row) {
                prop_assert!(figure.bytes_per_second.is_finite() && figure.bytes_per_second > 0.0);
                prop_assert!(figure.messages > 0 && figure.message_bytes > 0);
            }
        }

        #[test]
        fn a_printed_rate_is_read_back(rate in 1e6_f64..1e11, message in prop::sample::select(vec![4096_u64, 65536, 1 << 20, 8 << 20])) {
            let (gigabits, mpps) = (rate * 8.0 / 1e9, rate / message as f64 / 1e6);
            let read = with(&format!("{message} 1000 0.00 {gigabits:.2} {mpps:.6}"));
            let least = (0.01_f64 * 1e9 / 8.0).max(1e-6 * 1e6 * message as f64);
            if rate > 2.0 * least {
                let read = read.expect("a figure").bytes_per_second;
                prop_assert!((read - rate).abs() <= 0.01 * rate + 0.005e9 / 8.0 + 0.5 * message as f64, "{read} {rate}");
            }
        }
    }
}
