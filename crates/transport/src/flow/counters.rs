//! What a worker, and an end of a stream, counts while it works: bumped by its thread, read by the sampler; a stream's is
//! reported to the other host.

use super::progress::{Mark, Progress};
use serde::{Deserialize, Serialize};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Of round trips.
const PERCENTILES: [f64; 6] = [50.0, 90.0, 99.0, 99.9, 99.99, 100.0];

/// One worker's counters.
#[derive(Debug, Default)]
pub struct WorkerCounters {
    /// Bytes that reached the sink (for UDP: that left this host; of a flow that comes in: that its end took) and when
    /// the last did.
    pub progress: Progress,
    /// Nanoseconds in which the worker had nothing to send and waited for its source.
    pub waiting_source_nanos: AtomicU64,
    /// Nanoseconds in which the worker waited for its sink.
    pub waiting_sink_nanos: AtomicU64,
    /// CPU time of the worker's thread, and of those that do its blocking calls where there is no io_uring:
    /// nanoseconds, a few milliseconds old at most.
    pub cpu_nanos: AtomicU64,
    /// The fsync that ended what it stored, nanoseconds.
    pub sync_nanos: AtomicU64,
    /// UDP: bytes sent that the receiver did not get, as of its last feedback.
    pub lost_bytes: AtomicU64,
    /// UDP: nanoseconds in which the worker waited with a window as large as the receiver's buffer lets it be.
    pub full_window_nanos: AtomicU64,
    /// UDP: the latest round trip of the path, without what the hosts took, and the shortest: nanoseconds.
    pub trip_nanos: AtomicU64,
    pub least_trip_nanos: AtomicU64,
    /// Sends without a copy of which it is known what came of them, and those of them that the kernel copied all the
    /// same.
    pub zero_copy_sends: AtomicU64,
    pub zero_copy_copied: AtomicU64,
    /// Completions that belonged to no request under way, and were dropped.
    pub unexpected_completions: AtomicU64,
    /// It refused them, and the worker went on with copies.
    pub zero_copy_refused: AtomicBool,
    /// Checksum of all that was sent, or came (TCP with verification), valid when the worker has ended.
    pub checksum: AtomicU64,
    /// The worker has ended and nothing that it sent, or that came, is missing above; false where a send did not come
    /// back before the end.
    pub whole: AtomicBool,
}

impl WorkerCounters {
    /// Nothing done yet; `start` is common to all workers of a measurement.
    pub fn new(start: Instant) -> Self {
        WorkerCounters { progress: Progress::new(start), ..WorkerCounters::default() }
    }

    /// Adds time waited.
    pub fn waited(counter: &AtomicU64, time: Duration) {
        counter.store(counter.load(Ordering::Relaxed) + time.as_nanos() as u64, Ordering::Relaxed);
    }
}

/// Where a thread that takes a stream counts: in a stream, or in a worker of a run on this host.
#[derive(Clone, Copy)]
pub(crate) struct IncomingCounts<'a> {
    pub progress: &'a Progress,
    pub cpu_nanos: &'a AtomicU64,
    pub checksum: &'a AtomicU64,
    /// Nanoseconds; none: nobody asks for them.
    pub waiting_network: Option<&'a AtomicU64>,
    pub waiting_disk: Option<&'a AtomicU64>,
    /// The fsync at the end, nanoseconds.
    pub sync: Option<&'a AtomicU64>,
}

impl<'a> IncomingCounts<'a> {
    /// Of bytes that are not stored.
    pub(crate) fn of_stream(
        progress: &'a Progress,
        cpu_nanos: &'a AtomicU64,
        checksum: &'a AtomicU64,
    ) -> Self {
        IncomingCounts {
            progress,
            cpu_nanos,
            checksum,
            waiting_network: None,
            waiting_disk: None,
            sync: None,
        }
    }

    /// Of bytes that are stored.
    pub(super) fn of_store(counters: &'a StreamCounters) -> Self {
        IncomingCounts {
            waiting_network: Some(&counters.waiting_network_nanos),
            waiting_disk: Some(&counters.waiting_disk_nanos),
            sync: Some(&counters.sync_nanos),
            ..IncomingCounts::of_stream(&counters.progress, &counters.cpu_nanos, &counters.checksum)
        }
    }

    pub(super) fn of_worker(counters: &'a WorkerCounters) -> Self {
        IncomingCounts {
            progress: &counters.progress,
            cpu_nanos: &counters.cpu_nanos,
            checksum: &counters.checksum,
            waiting_network: Some(&counters.waiting_source_nanos),
            waiting_disk: Some(&counters.waiting_sink_nanos),
            sync: Some(&counters.sync_nanos),
        }
    }
}

/// One end's counters. Bumped with relaxed stores by one thread.
#[derive(Debug, Default)]
pub struct StreamCounters {
    /// Payload bytes (sender: handed to the kernel; receiver: taken), and when the last of them.
    pub progress: Progress,
    /// Datagrams sent or received (UDP), requests (`Ask`, `Echo`).
    pub datagrams: AtomicU64,
    /// Calls that moved bytes.
    pub calls: AtomicU64,
    /// Segmented trains sent, or received (UDP with offload).
    pub trains: AtomicU64,
    /// UDP receiver: datagrams that are missing as of now (highest number − received without duplicates).
    pub lost: AtomicU64,
    /// UDP receiver: came after one with a higher number (RFC 4737).
    pub reordered: AtomicU64,
    /// UDP receiver: came twice.
    pub duplicated: AtomicU64,
    /// UDP receiver: not of this stream (no tag of our own): counted, not believed.
    pub foreign: AtomicU64,
    /// UDP receiver: interarrival jitter (RFC 3550), nanoseconds.
    pub jitter_nanos: AtomicU64,
    /// UDP receiver: the largest one-way delay less the smallest (RFC 5481's packet delay variation),
    /// nanoseconds.
    pub delay_variation_nanos: AtomicU64,
    /// UDP receiver: drops by the socket's buffer (SO_RXQ_OVFL), in the kernel's unit: trains with GRO.
    pub socket_drops: AtomicU64,
    /// UDP sender: sends refused for a moment (ENOBUFS, EAGAIN), tried again.
    pub refused_sends: AtomicU64,
    /// CPU time of the thread, nanoseconds.
    pub cpu_nanos: AtomicU64,
    /// Storing: time that it waited for bytes, for the disk, and for the fsync at its end, nanoseconds.
    pub waiting_network_nanos: AtomicU64,
    pub waiting_disk_nanos: AtomicU64,
    pub sync_nanos: AtomicU64,
    /// CRC-64/NVME of the payload, valid when ended.
    pub checksum: AtomicU64,
    /// SO_SNDBUF and SO_RCVBUF as granted, bytes.
    pub send_buffer_bytes: AtomicU64,
    pub receive_buffer_bytes: AtomicU64,
    /// MSG_ZEROCOPY: sends that the kernel reported, and those of them that it copied.
    pub zerocopy_sends: AtomicU64,
    pub zerocopy_copied: AtomicU64,
    /// TCP: the kernel's own view, renewed some times a second.
    pub tcp: Mutex<Option<TcpSample>>,
    /// `Ask`: round trips.
    pub round_trips: Mutex<Option<hdrhistogram::Histogram<u64>>>,
    /// The stream has ended; everything above is final.
    pub ended: AtomicBool,
}

/// The kernel's view of a TCP connection (TCP_INFO). Times are sums since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpSample {
    pub retransmits: u64,
    pub rtt_micros: u32,
    pub rtt_variation_micros: u32,
    pub min_rtt_micros: u32,
    /// Congestion window, bytes.
    pub congestion_window_bytes: u64,
    /// Window that the receiver allows, bytes; 0 where the kernel does not report.
    pub send_window_bytes: u64,
    /// Bytes per second.
    pub delivery_rate: u64,
    pub busy_micros: u64,
    /// Time in which the receiver's window held it.
    pub receiver_limited_micros: u64,
    /// Time in which its own send buffer held it.
    pub send_buffer_limited_micros: u64,
    pub segment_bytes: u32,
    /// Path MTU, bytes.
    pub path_mtu: u32,
    pub congestion_control: String,
}

/// What became of zerocopy sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZeroCopyCounters {
    pub sends: u64,
    /// Copied all the same (SO_EE_CODE_ZEROCOPY_COPIED).
    pub copied: u64,
}

/// All of it at one moment: fields and units are those of [`StreamCounters`]. What does not apply is 0 or none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamSample {
    pub bytes: u64,
    /// When the last of them moved, on the clock that the counters were started with.
    pub bytes_nanos: u64,
    pub datagrams: u64,
    pub calls: u64,
    pub trains: u64,
    pub lost: u64,
    pub reordered: u64,
    pub duplicated: u64,
    pub foreign: u64,
    pub jitter_nanos: u64,
    pub delay_variation_nanos: u64,
    pub socket_drops: u64,
    pub refused_sends: u64,
    pub cpu_nanos: u64,
    pub waiting_network_nanos: u64,
    pub waiting_disk_nanos: u64,
    pub sync_nanos: u64,
    pub checksum: u64,
    pub send_buffer_bytes: u64,
    pub receive_buffer_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zerocopy: Option<ZeroCopyCounters>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpSample>,
    /// Round trips so far: count and percentiles, microseconds, as (percentile, value).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub round_trip_micros: Vec<(f64, f64)>,
    pub ended: bool,
    /// Why it ended, where it was not told to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl StreamSample {
    /// Bytes so far, and when the last of them moved.
    pub fn mark(&self) -> Mark {
        Mark { bytes: self.bytes, nanos: self.bytes_nanos }
    }
}

impl StreamCounters {
    /// Nothing done yet; `start` is the clock of `bytes_nanos`.
    pub fn new(start: Instant) -> Self {
        StreamCounters { progress: Progress::new(start), ..StreamCounters::default() }
    }

    /// Everything as it is now.
    pub fn sample(&self) -> StreamSample {
        // First, so that the figures of an ended stream are final.
        let ended = self.ended.load(Ordering::Acquire);
        let mark = self.progress.mark();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let zerocopy =
            ZeroCopyCounters { sends: read(&self.zerocopy_sends), copied: read(&self.zerocopy_copied) };
        StreamSample {
            bytes: mark.bytes,
            bytes_nanos: mark.nanos,
            datagrams: read(&self.datagrams),
            calls: read(&self.calls),
            trains: read(&self.trains),
            lost: read(&self.lost),
            reordered: read(&self.reordered),
            duplicated: read(&self.duplicated),
            foreign: read(&self.foreign),
            jitter_nanos: read(&self.jitter_nanos),
            delay_variation_nanos: read(&self.delay_variation_nanos),
            socket_drops: read(&self.socket_drops),
            refused_sends: read(&self.refused_sends),
            cpu_nanos: read(&self.cpu_nanos),
            waiting_network_nanos: read(&self.waiting_network_nanos),
            waiting_disk_nanos: read(&self.waiting_disk_nanos),
            sync_nanos: read(&self.sync_nanos),
            checksum: read(&self.checksum),
            send_buffer_bytes: read(&self.send_buffer_bytes),
            receive_buffer_bytes: read(&self.receive_buffer_bytes),
            zerocopy: (zerocopy.sends > 0).then_some(zerocopy),
            tcp: self.tcp.lock().ok().and_then(|tcp| tcp.clone()),
            round_trip_micros: self.round_trip_micros(),
            ended,
            error: None,
        }
    }

    fn round_trip_micros(&self) -> Vec<(f64, f64)> {
        let Ok(held) = self.round_trips.lock() else { return Vec::new() };
        let Some(trips) = held.as_ref().filter(|trips| !trips.is_empty()) else { return Vec::new() };
        let micros = |percentile| trips.value_at_quantile(percentile / 100.0) as f64 / 1e3;
        PERCENTILES.map(|percentile| (percentile, micros(percentile))).to_vec()
    }
}
