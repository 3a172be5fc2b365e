//! Why the kernel dropped packets, by its own reasons: the tracepoint `skb:kfree_skb` (`include/trace/events/skb.h`, reasons since Linux 5.17),
//! recorded in a tracefs instance of our own, which is removed again. Of the whole host, all network namespaces. Needs root and a mounted
//! tracefs; nothing is mounted here.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Where distributions mount it.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
const EVENT: &str = "events/skb/kfree_skb";
/// Of each processor; holds some 20,000 drops. More are counted, and their reasons taken from the newest.
const BUFFER_KB: &str = "1024";
/// What is read of a trace at most: text is four times as long as its record.
const MOST_TRACE_BYTES: u64 = 256 << 20;
const PREFIX: &str = "linerate-";

static INSTANCES: AtomicU32 = AtomicU32::new(0);

/// A trace that runs until it is dropped.
#[derive(Debug)]
pub struct DropTrace {
    instance: PathBuf,
}

/// What a trace holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Packets by reason (`SOCKET_RCVBUFF`, `NO_SOCKET`, `QDISC_DROP`); trains as one.
    pub reasons: BTreeMap<String, u64>,
    /// The buffer was too small: the reasons are those of the newest, in proportion for all.
    pub in_proportion: bool,
}

impl DropTrace {
    /// Starts to record. The error says what is missing.
    pub fn start() -> io::Result<DropTrace> {
        let place = PLACES.iter().map(Path::new).find(|place| place.join(EVENT).is_dir());
        let place = place.ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "no tracefs with skb:kfree_skb is mounted")
        })?;
        remove_left(place);
        let number = INSTANCES.fetch_add(1, Ordering::Relaxed);
        let instance = place.join("instances").join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&instance)?;
        // From here on it is removed whatever fails.
        let trace = DropTrace { instance };
        fs::write(trace.instance.join("buffer_size_kb"), BUFFER_KB)?;
        fs::write(trace.instance.join(EVENT).join("enable"), "1")?;
        Ok(trace)
    }

    /// What was dropped since the start.
    pub fn read(&self) -> io::Result<Drops> {
        let mut text = Vec::new();
        File::open(self.instance.join("trace"))?.take(MOST_TRACE_BYTES).read_to_end(&mut text)?;
        Ok(parse(&String::from_utf8_lossy(&text)))
    }
}

impl Drop for DropTrace {
    fn drop(&mut self) {
        let _ = fs::write(self.instance.join(EVENT).join("enable"), "0");
        // An instance is one directory, whatever it shows inside.
        let _ = fs::remove_dir(&self.instance);
    }
}

/// Instances of processes of ours that were killed.
fn remove_left(place: &Path) {
    let Ok(entries) = fs::read_dir(place.join("instances")) else { return };
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

/// Reads a trace: `# entries-in-buffer/entries-written: 12/34   #P:2`, and a line a drop that ends in `reason: NAME`.
pub fn parse(text: &str) -> Drops {
    let mut drops = Drops::default();
    let (mut held, mut written) = (0u64, 0u64);
    for line in text.lines() {
        if let Some(counts) = line.trim_start().strip_prefix("# entries-in-buffer/entries-written:") {
            let mut numbers =
                counts.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
            (held, written) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
            continue;
        }
        let Some((_, reason)) = line.rsplit_once("reason: ").filter(|_| line.contains("kfree_skb:")) else {
            continue;
        };
        let reason = reason.trim();
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        // The kernel has some 120 reasons.
        if reason.is_empty() || reason.len() > 64 || !reason.chars().all(plain) || drops.reasons.len() >= 1024
        {
            continue;
        }
        *drops.reasons.entry(reason.to_string()).or_default() += 1;
    }
    if held > 0 && written > held {
        drops.in_proportion = true;
        for count in drops.reasons.values_mut() {
            let all = u128::from(*count) * u128::from(written) / u128::from(held);
            *count = u64::try_from(all).unwrap_or(u64::MAX);
        }
    }
    drops
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACE: &str = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 3/12   #P:2\n#\n\
        \x20          <idle>-0       [001] ..s2.  100.1: kfree_skb: skbaddr=0000000012345678 rx_sk=0 protocol=2048 location=__udp4_lib_rcv+0x4 reason: NO_SOCKET\n\
        \x20          iperf3-77      [000] b.s2.  100.2: kfree_skb: skbaddr=0000000012345679 rx_sk=0 protocol=2048 location=udp_queue_rcv+0x4 reason: SOCKET_RCVBUFF\n\
        \x20          a reason: X-1  [000] b.s2.  100.3: kfree_skb: skbaddr=0000000012345679 protocol=2048 location=x reason: NO_SOCKET\n";

    #[test]
    fn reasons_in_proportion() {
        let drops = parse(TRACE);
        let expected =
            [("NO_SOCKET", 8), ("SOCKET_RCVBUFF", 4)].map(|(name, count)| (name.to_string(), count));
        assert_eq!(drops, Drops { reasons: expected.into_iter().collect(), in_proportion: true });
        assert_eq!(parse(&TRACE.replace("3/12", "3/3")).reasons["NO_SOCKET"], 2);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_left_out(text in "((# entries-in-buffer/entries-written: [0-9/]{0,40}|x kfree_skb: reason: [A-Zé_]{0,9})\n){0,9}") {
            prop_assert!(parse(&text).reasons.len() <= 9);
        }
    }
}
