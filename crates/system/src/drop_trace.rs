//! Why the kernel dropped packets, by its own reasons: the tracepoint `skb:kfree_skb`
//! (`include/trace/events/skb.h`, reasons since Linux 5.17), recorded in a tracefs instance of our own, which
//! is removed again. Of the whole host, all network namespaces. Needs root and a mounted tracefs; nothing is
//! mounted here.
//!
//! A thread takes the records out while they come (`trace_pipe`), so that a buffer of a moment is enough;
//! what the kernel had to overwrite all the same it counts, and so do we.

use crate::lock;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Where distributions mount it.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const EVENT: &str = "events/skb/kfree_skb";
/// Of each CPU; holds some 15,000 drops.
const BUFFER_KB: &str = "1024";
/// Pause of the thread: the buffer holds the drops of so long up to 3 million a second.
const READ_PAUSE: Duration = Duration::from_millis(5);
/// A storm of drops is read for so long at a time.
const TURN: Duration = Duration::from_millis(500);
/// A forced end waits so long for a turn of the thread.
const PATIENCE: Duration = Duration::from_millis(700);
const PREFIX: &str = "linerate-";

static INSTANCES: AtomicU32 = AtomicU32::new(0);
/// What a forced end of the process has to remove.
static RUNNING: Mutex<Vec<Weak<Trace>>> = Mutex::new(Vec::new());

/// A trace that runs until it is dropped.
#[derive(Debug)]
pub struct DropTrace(Arc<Trace>);

#[derive(Debug)]
struct Trace {
    instance: PathBuf,
    /// None once it is over.
    taker: Mutex<Option<Taker>>,
}

/// What was dropped since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Packets by reason (`SOCKET_RCVBUFF`, `NO_SOCKET`, `QDISC_DROP`); trains as one.
    pub reasons: BTreeMap<String, u64>,
    /// Packets whose records were overwritten before they were taken, are not taken yet, or could not be
    /// read: of no known reason.
    pub missed: u64,
}

impl DropTrace {
    /// Starts to record. The error says what is missing.
    pub fn start() -> io::Result<DropTrace> {
        let tracefs = PLACES.iter().map(Path::new).find(|tracefs| tracefs.join(EVENT).is_dir());
        let tracefs = tracefs
            .ok_or_else(|| io::Error::new(ErrorKind::NotFound, "no tracefs with skb:kfree_skb is mounted"))?;
        remove_left(tracefs);
        let number = INSTANCES.fetch_add(1, Ordering::Relaxed);
        let instance = tracefs.join("instances").join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&instance)?;
        // From here on it is removed whatever fails, and also by `remove_all`.
        let trace = DropTrace(Arc::new(Trace { instance, taker: Mutex::new(None) }));
        lock(&RUNNING).push(Arc::downgrade(&trace.0));
        let instance = &trace.0.instance;
        fs::write(instance.join("buffer_size_kb"), BUFFER_KB)?;
        let pipe =
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(instance.join("trace_pipe"))?;
        *lock(&trace.0.taker) = Some(Taker { pipe, room: vec![0; 64 << 10], taken: Taken::default() });
        fs::write(instance.join(EVENT).join("enable"), "1")?;
        let watched = Arc::downgrade(&trace.0);
        std::thread::Builder::new().name("drops".into()).spawn(move || take_as_they_come(&watched))?;
        Ok(trace)
    }

    /// What was dropped since the start.
    pub fn read(&self) -> io::Result<Drops> {
        let mut taker = lock(&self.0.taker);
        let taker = taker.as_mut().ok_or_else(|| io::Error::other("the trace is over"))?;
        taker.take()?;
        let missed = self.0.missed().saturating_add(taker.taken.unread);
        Ok(Drops { reasons: taker.taken.reasons.clone(), missed })
    }
}

impl Trace {
    /// Of all CPUs, by the kernel's own count: overwritten, refused, and still there.
    fn missed(&self) -> u64 {
        let Ok(processors) = fs::read_dir(self.instance.join("per_cpu")) else { return 0 };
        let texts = processors.flatten().filter_map(|one| fs::read_to_string(one.path().join("stats")).ok());
        texts.map(|text| missed_by(&text)).fold(0, u64::saturating_add)
    }

    fn remove(&self) {
        let _ = fs::write(self.instance.join(EVENT).join("enable"), "0");
        // The kernel keeps an instance whose pipe is open (EBUSY).
        let patience = Instant::now() + PATIENCE;
        loop {
            match self.taker.try_lock() {
                Ok(mut taker) => break drop(taker.take()),
                Err(std::sync::TryLockError::Poisoned(taker)) => break drop(taker.into_inner().take()),
                Err(_) if Instant::now() > patience => break,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        // An instance is one directory, whatever it shows inside.
        let _ = fs::remove_dir(&self.instance);
    }
}

impl Drop for DropTrace {
    fn drop(&mut self) {
        self.0.remove();
        lock(&RUNNING).retain(|one| !std::ptr::eq(one.as_ptr(), Arc::as_ptr(&self.0)));
    }
}

/// For a process that is about to end without running destructors: removes the instances of all traces of it,
/// within a second each.
pub fn remove_all() {
    let running = std::mem::take(&mut *lock(&RUNNING));
    running.iter().filter_map(Weak::upgrade).for_each(|trace| trace.remove());
}

/// Until the trace is over.
fn take_as_they_come(trace: &Weak<Trace>) {
    loop {
        let Some(trace) = trace.upgrade() else { return };
        match lock(&trace.taker).as_mut().map(Taker::take) {
            Some(Ok(())) => {}
            _ => return,
        }
        drop(trace);
        std::thread::sleep(READ_PAUSE);
    }
}

/// Instances of processes of our own that were killed.
fn remove_left(tracefs: &Path) {
    let Ok(entries) = fs::read_dir(tracefs.join("instances")) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            let _ = fs::write(entry.path().join(EVENT).join("enable"), "0");
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Takes records from the pipe and counts them.
#[derive(Debug)]
struct Taker {
    pipe: File,
    room: Vec<u8>,
    taken: Taken,
}

impl Taker {
    /// Everything that is there now, for a turn at most.
    fn take(&mut self) -> io::Result<()> {
        let until = Instant::now() + TURN;
        while Instant::now() < until {
            match self.pipe.read(&mut self.room) {
                Ok(0) => break,
                Ok(length) => self.taken.feed(&self.room[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// What the pipe gave.
#[derive(Debug, Default)]
struct Taken {
    reasons: BTreeMap<String, u64>,
    /// Records whose reason is none that we can read.
    unread: u64,
    /// The begin of a line whose end did not come yet.
    begun: Vec<u8>,
}

impl Taken {
    fn feed(&mut self, bytes: &[u8]) {
        let mut begun = std::mem::take(&mut self.begun);
        begun.extend_from_slice(bytes);
        let whole = begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        begun[..whole]
            .split(|byte| *byte == b'\n')
            .for_each(|line| self.count(&String::from_utf8_lossy(line)));
        begun.drain(..whole);
        // No line of the kernel's is that long.
        if begun.len() > 1 << 16 {
            begun.clear();
        }
        self.begun = begun;
    }

    /// A line of a drop ends in `reason: NAME`. Lines of the pipe's own (`CPU:1 [LOST 12 EVENTS]`) say what
    /// `stats` says, too.
    fn count(&mut self, line: &str) {
        let Some((_, record)) = line.split_once("kfree_skb:") else { return };
        let reason = record.rsplit_once("reason: ").map_or("", |(_, reason)| reason.trim());
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        // The kernel has some 120 reasons.
        let known = (1..=64).contains(&reason.len()) && reason.chars().all(plain);
        if let Some(count) = self.reasons.get_mut(reason) {
            *count = count.saturating_add(1);
        } else if known && self.reasons.len() < 1024 {
            self.reasons.insert(reason.to_string(), 1);
        } else {
            self.unread = self.unread.saturating_add(1);
        }
    }
}

/// Records of a CPU that nobody has taken (Documentation/trace/ftrace.rst, `stats`).
fn missed_by(stats: &str) -> u64 {
    let value = |name: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    ["entries", "overrun", "dropped events"].into_iter().map(value).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PIPE: &str = "          <idle>-0       [001] ..s2.  100.1: kfree_skb: skbaddr=0000000012345678 \
                        rx_sk=0 protocol=2048 location=__udp4_lib_rcv+0x4 reason: NO_SOCKET\n\
        CPU:1 [LOST 12 EVENTS]\n\
        \x20          iperf3-77      [000] b.s2.  100.2: kfree_skb: skbaddr=0000000012345679 rx_sk=0 \
        protocol=2048 location=udp_queue_rcv+0x4 reason: SOCKET_RCVBUFF\n\
        \x20          a reason: X-1  [000] b.s2.  100.3: kfree_skb: skbaddr=0000000012345679 protocol=2048 \
        location=x reason: NO_SOCKET\n\
        \x20          iperf3-77      [000] b.s2.  100.4: kfree_skb: skbaddr=0000000012345679 protocol=2048 \
        location=x reason: 0x70001\u{fffd}\n";

    #[test]
    fn lines_are_counted_however_they_are_cut() {
        for piece in [1, 7, 64, 4096] {
            let mut taken = Taken::default();
            PIPE.as_bytes().chunks(piece).for_each(|bytes| taken.feed(bytes));
            let expected =
                [("NO_SOCKET", 2), ("SOCKET_RCVBUFF", 1)].map(|(name, count)| (name.to_string(), count));
            assert_eq!(taken.reasons, expected.into_iter().collect());
            assert_eq!((taken.unread, taken.begun.len()), (1, 0));
        }
    }

    #[test]
    fn what_nobody_took_is_missed() {
        let stats = "entries: 3\noverrun: 40\ncommit overrun: 0\nbytes: 5408\noldest event ts:   \
                     87.4\ndropped events: 500\nread events: 9\n";
        assert_eq!(missed_by(stats), 543);
        assert_eq!(missed_by("entries: many\n"), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_left_out(text in "((CPU:[0-9]{0,3} .LOST [0-9]{0,30} EVENTS.|x kfree_skb: \
                                                   reason: [A-Zé_]{0,9})\n){0,9}", bytes: Vec<u8>) {
            let mut taken = Taken::default();
            taken.feed(&bytes);
            taken.feed(text.as_bytes());
            prop_assert!(taken.reasons.len() <= 10);
        }
    }
}
