//! What a server did: counted by its connections, reported at its end; the access log, a line for each
//! answer, in the combined format of Apache and nginx, which their tools read; and what limited its transfers: what its
//! connections did with their time, and what the host did while they had something to do.

use crate::evidence::{held_by, measurement_of};
use crate::flow_sockets::FlowSockets;
use crate::http::head::RequestHead;
use crate::stream_tally::StreamTally;
use linerate_facts::host::{HostSample, HostSampler, HostUse};
use linerate_facts::sysroot::Sysroot;
use linerate_machine::flow_devices::FlowDevices;
use linerate_measure::measure::{Measurement, Stage};
use linerate_measure::run::ServedResult;
use linerate_system::{clock, lock};
use std::collections::BTreeSet;
use std::fmt::{Debug, Write as _};
use std::io::Write;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// Longer words of a client are cut.
const MOST_WORD: usize = 2048;

/// Time between two looks at the host.
const EVERY: Duration = Duration::from_millis(250);

/// Counters that the connections share.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) connections: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) from_cache: AtomicU64,
    pub(super) from_disk: AtomicU64,
    pub(super) encrypted: AtomicU64,
    pub(super) encrypted_by_kernel: AtomicU64,
    pub(super) cut_short: AtomicU64,
    pub(super) taken: AtomicU64,
    pub(super) files_taken: AtomicU64,
}

impl Tally {
    pub(super) fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }

    pub(super) fn summary(&self, time: Duration, method: Option<String>) -> ServedResult {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServedResult {
            seconds: time.as_secs_f64(),
            connections: read(&self.connections),
            refused_connections: read(&self.refused),
            requests: read(&self.requests),
            failed_requests: read(&self.failed),
            cut_short: read(&self.cut_short),
            bytes: read(&self.from_cache) + read(&self.from_disk) + read(&self.encrypted),
            bytes_from_page_cache: read(&self.from_cache),
            bytes_past_cache: read(&self.from_disk),
            bytes_encrypted: read(&self.encrypted),
            bytes_encrypted_by_kernel: read(&self.encrypted_by_kernel),
            encrypts_here: None,
            direct_method: method,
            taken_bytes: read(&self.taken),
            taken_files: read(&self.files_taken),
        }
    }
}

/// How the bytes went, in words.
pub(super) fn method(served: &ServedResult) -> String {
    let ways = [
        (served.bytes_from_page_cache, "page cache"),
        (served.bytes_past_cache, served.direct_method.as_deref().unwrap_or("O_DIRECT")),
        (served.bytes_encrypted, "TLS in user space"),
        (served.bytes_encrypted_by_kernel, "TLS in the kernel"),
        (served.taken_bytes, "PUT of clients"),
    ];
    let used: Vec<&str> = ways.iter().filter(|(bytes, _)| *bytes > 0).map(|(_, way)| *way).collect();
    format!("HTTP/1.1 server, {}", used.join(", "))
}

/// Where the lines go.
pub struct AccessLog(Mutex<Box<dyn Write + Send>>);

impl AccessLog {
    pub fn to(lines: impl Write + Send + 'static) -> Self {
        AccessLog(Mutex::new(Box::new(lines)))
    }
}

/// What is written of an answer once it is over, whole or cut short.
pub(super) struct AccessLine {
    log: Arc<AccessLog>,
    client: IpAddr,
    /// `GET /file HTTP/1.1`, then where the client comes from, and what it is.
    words: [String; 3],
    status: u16,
    /// Of the body, as far as they went out.
    pub(super) bytes: u64,
}

impl AccessLine {
    pub(super) fn new(log: &Arc<AccessLog>, client: IpAddr, request: &RequestHead, status: u16) -> Self {
        let version = if request.is_1_1 { "1.1" } else { "1.0" };
        let first = format!("{} {} HTTP/{version}", request.method, request.target);
        let of =
            |name| request.headers.all(name).next().map(|value| String::from_utf8_lossy(value).into_owned());
        let words = [Some(first), of("referer"), of("user-agent")]
            .map(|word| word.as_deref().map_or("-".into(), quotable));
        AccessLine { log: log.clone(), client, words, status, bytes: 0 }
    }

    fn text(&self, now: SystemTime) -> String {
        let [request, referer, agent] = &self.words;
        // The client as people write it: an IPv4 address that came over a socket of IPv6, too.
        let (client, status, bytes) = (self.client.to_canonical(), self.status, self.bytes);
        format!("{client} - - [{}] \"{request}\" {status} {bytes} \"{referer}\" \"{agent}\"\n", log_time(now))
    }
}

impl Drop for AccessLine {
    fn drop(&mut self) {
        let text = self.text(clock::date());
        // A full disk ends the log, not the service.
        let _ = lock(&self.log.0).write_all(text.as_bytes());
    }
}

/// Nothing in it ends the quotes or the line (as Apache does it).
fn quotable(word: &str) -> String {
    let mut text = String::new();
    for byte in word.bytes().take(MOST_WORD) {
        match byte {
            b'"' | b'\\' => text.extend(['\\', byte.into()]),
            b' '..=b'~' => text.push(byte.into()),
            // To write to a string cannot fail.
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text
}

/// `06/Nov/1994:08:49:37 +0000`.
fn log_time(now: SystemTime) -> String {
    // Sun, 06 Nov 1994 08:49:37 GMT
    let date = httpdate::fmt_http_date(now);
    let words: Vec<&str> = date.split(' ').collect();
    match words[..] {
        [_, day, month, year, time, _] => format!("{day}/{month}/{year}:{time} +0000"),
        _ => "-".into(),
    }
}

/// What all connections together did.
#[derive(Debug, Default)]
pub(super) struct ServedFlow {
    /// Files that went out, and files that came in.
    pub(super) sent: StreamTally,
    pub(super) taken: StreamTally,
    /// What the connections that moved something use of this host.
    pub(super) sockets: FlowSockets,
    /// Connections that have something to do.
    pub(super) at_work: AtomicUsize,
}

impl ServedFlow {
    /// Does a connection's work on files that go out.
    pub(super) fn sends<T>(&self, work: impl FnOnce() -> T) -> T {
        self.works(&self.sent, work)
    }

    /// The same of files that come in.
    pub(super) fn takes<T>(&self, work: impl FnOnce() -> T) -> T {
        self.works(&self.taken, work)
    }

    fn works<T>(&self, tally: &StreamTally, work: impl FnOnce() -> T) -> T {
        self.at_work.fetch_add(1, Ordering::Relaxed);
        let done = tally.active(work);
        self.at_work.fetch_sub(1, Ordering::Relaxed);
        done
    }

    pub(super) fn moved(&self) -> u64 {
        self.sent.moved().saturating_add(self.taken.moved())
    }
}

/// Looks at the host, as long as something is moved.
pub(super) struct HostWatch<'a> {
    sampler: HostSampler,
    flow: &'a ServedFlow,
    last: Option<HostSample>,
    looked: Instant,
    moved: u64,
    seen: HostUse,
}

impl<'a> HostWatch<'a> {
    pub(super) fn new(flow: &'a ServedFlow) -> Self {
        let sampler = HostSampler::of_cpus(&Sysroot::live()).and_devices();
        let looked = clock::now();
        HostWatch { sampler, flow, last: None, looked, moved: 0, seen: HostUse::default() }
    }

    /// A client came: from here on something may be moved.
    pub(super) fn begin(&mut self) {
        if self.last.is_none() {
            (self.last, self.looked) = (Some(self.sampler.begin()), clock::now());
        }
    }

    /// Something may be moved now.
    pub(super) fn is_on(&self) -> bool {
        self.last.is_some()
    }

    /// Looks where it is time to.
    pub(super) fn tick(&mut self) {
        if clock::since(self.looked) >= EVERY {
            self.look();
        }
    }

    fn look(&mut self) {
        self.looked = clock::now();
        let moved = self.flow.moved();
        let is_at_work = self.flow.at_work.load(Ordering::Relaxed) > 0 || moved > self.moved;
        self.moved = moved;
        if !is_at_work {
            self.last = None;
            return;
        }
        let now = self.last.as_ref().map_or_else(|| self.sampler.begin(), |last| self.sampler.after(last));
        if let Some(last) = &self.last {
            self.seen.join(now.since(last));
        }
        self.last = Some(now);
    }

    /// How files were moved, in the time in which some were: of what went out (`Put`), or of what came in (`Get`) where
    /// that is more; none where nothing was moved, or it was not seen.
    pub(super) fn end(mut self, disks: &BTreeSet<String>) -> Option<Measurement> {
        self.look();
        let (sent, taken) = (&self.flow.sent, &self.flow.taken);
        let (stage, tally) = match taken.moved() > sent.moved() {
            true => (Stage::Get, taken),
            false => (Stage::Put, sent),
        };
        let seconds = self.seen.seconds;
        if tally.moved() == 0 || seconds <= 0.0 {
            return None;
        }
        // As many as there were at a time on the average.
        let active = tally.figures().active as f64 / 1e9;
        let count = (active / seconds).round().clamp(1.0, 4096.0);
        let mut worker = tally.worker(0, seconds, stage == Stage::Get);
        worker.bytes_per_second /= count;
        worker.sending_seconds /= count;
        let workers = vec![worker; count as usize];
        let held_by = held_by(&[tally.figures()]);
        let used = FlowDevices { disks: disks.clone(), ..self.flow.sockets.devices(stage == Stage::Get) };
        let measured = measurement_of(&self.seen, stage, workers, tally.moved(), &used);
        Some(Measurement { held_by, ..measured })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::parse_request;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_line_is_in_the_combined_format_and_nothing_of_a_client_ends_it() {
        let head = b"GET /a\"b HTTP/1.1\r\nHost: h\r\nUser-Agent: x\\\ty\r\n\r\n";
        let (request, _) = parse_request(head).expect("a head").expect("all of it");
        let log = Arc::new(AccessLog::to(std::io::sink()));
        let client = "::ffff:192.0.2.7".parse().expect("an address");
        let mut line = AccessLine::new(&log, client, &request, 200);
        line.bytes = 7;
        assert_eq!(
            line.text(UNIX_EPOCH + Duration::from_secs(784_111_777)),
            "192.0.2.7 - - [06/Nov/1994:08:49:37 +0000] \"GET /a\\\"b HTTP/1.1\" 200 7 \"-\" \"x\\\\\\x09y\"\n"
        );
    }
}
