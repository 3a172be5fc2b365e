//! Request and response: the latency of the path, alone or beside the bulk.
//!
//! With a rate the requests have a timetable, and one that is held up by the answer before it is late by its
//! own fault, not by ours: its time runs from when it was due (what HdrHistogram's author calls coordinated
//! omission would hide just the bad moments). A UDP request that is not answered within a second is lost.

use super::super::wire::StreamToken;
use super::datagram::{DatagramMessage, HEADER_BYTES, Header, Tags};
use super::open;
use super::{CpuClock, STOP_CHECK, StreamCounters, StreamSpec, bump, only_waiting, other_end_gone};
use crate::pace::Pace;
use hdrhistogram::Histogram;
use linerate_system::affinity;
use linerate_system::segmentation::{MOST_TRAIN_BYTES, is_busy};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A UDP request that is not answered for this long is lost.
const LOST_AFTER: Duration = Duration::from_secs(1);
/// The end is said so many times: the other end hears one of them.
const END_TIMES: u32 = 5;
/// The longest request.
const MOST_REQUEST_BYTES: usize = 1 << 20;
/// Round trips are kept to three digits, up to a minute.
const LONGEST_TRIP_NANOS: u64 = 60_000_000_000;

/// When requests go out, and how long they took.
struct RequestPacer<'a> {
    counters: &'a StreamCounters,
    stop: &'a AtomicBool,
    clock: &'a mut CpuClock,
    pace: Option<Pace>,
    request_bytes: usize,
    left: Option<u64>,
}

impl<'a> RequestPacer<'a> {
    fn new(
        spec: &StreamSpec,
        request_bytes: usize,
        counters: &'a StreamCounters,
        stop: &'a AtomicBool,
        clock: &'a mut CpuClock,
    ) -> Self {
        affinity::wake_on_time();
        if let Ok(mut trips) = counters.round_trips.lock() {
            *trips = Histogram::new_with_bounds(1, LONGEST_TRIP_NANOS, 3).ok();
        }
        let pace = spec.bytes_per_second.map(|rate| Pace::new(rate, Instant::now()));
        RequestPacer { counters, stop, clock, pace, request_bytes, left: spec.limit_bytes }
    }

    /// Waits for the next request's time; when that is, or none at the end.
    fn next(&mut self) -> Option<Instant> {
        loop {
            if self.stop.load(Ordering::Relaxed) || self.left == Some(0) {
                return None;
            }
            let now = Instant::now();
            self.clock.tick(now, &self.counters.cpu_nanos);
            let Some(pace) = &mut self.pace else { return Some(now) };
            let wait = pace.wait(now);
            if wait.is_zero() {
                let due = pace.due().min(now);
                pace.sent(self.request_bytes, now);
                return Some(due);
            }
            std::thread::sleep(wait.min(STOP_CHECK));
        }
    }

    fn asked(&mut self) {
        bump(&self.counters.datagrams, 1);
        self.left = self.left.map(|left| left.saturating_sub(self.request_bytes as u64));
    }

    fn answered(&mut self, due: Instant) {
        let nanos = u64::try_from(due.elapsed().as_nanos()).unwrap_or(u64::MAX).clamp(1, LONGEST_TRIP_NANOS);
        if let Ok(mut held) = self.counters.round_trips.lock()
            && let Some(trips) = held.as_mut()
        {
            trips.saturating_record(nanos);
        }
        self.counters.progress.add(self.request_bytes as u64);
        bump(&self.counters.calls, 1);
    }
}

/// Sends requests of `write_bytes` on TCP, one at a time.
pub(super) fn ask_tcp(
    spec: &StreamSpec,
    stream: &TcpStream,
    counters: &StreamCounters,
    stop: &AtomicBool,
    clock: &mut CpuClock,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![7; (spec.write_bytes as usize).clamp(1, MOST_REQUEST_BYTES)];
    let mut asker = RequestPacer::new(spec, buffer.len(), counters, stop, clock);
    while let Some(due) = asker.next() {
        if !write_whole(stream, &buffer, stop)? {
            break;
        }
        asker.asked();
        match read_whole(stream, &mut buffer, stop) {
            Ok(true) => asker.answered(due),
            Ok(false) => break,
            Err(error) => return Err(error),
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    Ok(())
}

/// Sends back whatever comes on TCP.
pub(super) fn echo_tcp(
    spec: &StreamSpec,
    stream: &TcpStream,
    counters: &StreamCounters,
    stop: &AtomicBool,
    clock: &mut CpuClock,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; (spec.write_bytes as usize).clamp(4096, MOST_REQUEST_BYTES)];
    let mut reader = stream;
    while !stop.load(Ordering::Relaxed) {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => {
                if !write_whole(stream, &buffer[..length], stop)? {
                    break;
                }
                counters.progress.add(length as u64);
                bump(&counters.calls, 1);
            }
            Err(error) if only_waiting(&error) => {}
            Err(error) => return Err(error),
        }
        clock.tick(Instant::now(), &counters.cpu_nanos);
    }
    Ok(())
}

/// False: stopped meanwhile.
fn write_whole(mut stream: &TcpStream, mut bytes: &[u8], stop: &AtomicBool) -> io::Result<bool> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if only_waiting(&error) => {}
            Err(error) => return Err(error),
        }
        if stop.load(Ordering::Relaxed) && !bytes.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// False: stopped meanwhile.
fn read_whole(mut stream: &TcpStream, buffer: &mut [u8], stop: &AtomicBool) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => {
                let why = "the other end closed the connection before it had answered";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
            }
            Ok(length) => filled += length,
            Err(error) if only_waiting(&error) => {}
            Err(error) => return Err(error),
        }
        if stop.load(Ordering::Relaxed) && filled < buffer.len() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sends datagrams of `write_bytes`, one at a time, and waits for each to come back.
pub(super) fn ask_udp(
    spec: &StreamSpec,
    socket: &UdpSocket,
    token: &StreamToken,
    counters: &StreamCounters,
    stop: &AtomicBool,
    clock: &mut CpuClock,
) -> io::Result<()> {
    let tags = Tags::of(token);
    let mut request = vec![7; (spec.write_bytes as usize).clamp(HEADER_BYTES, MOST_TRAIN_BYTES)];
    let mut answer = vec![0; MOST_TRAIN_BYTES];
    let (start, mut number) = (Instant::now(), 0);
    let mut asker = RequestPacer::new(spec, request.len(), counters, stop, clock);
    while let Some(due) = asker.next() {
        let sent_nanos = start.elapsed().as_nanos() as u64;
        tags.write(Header { number, sent_nanos }, &mut request);
        match socket.send(&request) {
            Ok(_) => asker.asked(),
            Err(error) if is_busy(&error) || other_end_gone(&error) => {
                bump(&counters.refused_sends, 1);
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            Err(error) => return Err(error),
        }
        match wait_for_answer(socket, token, &tags, number, &mut answer, asker.counters, stop)? {
            Some(true) => asker.answered(due),
            Some(false) => bump(&counters.lost, 1),
            None => break,
        }
        number += 1;
    }
    for _ in 0..END_TIMES {
        let _ = socket.send(&tags.message(DatagramMessage::End(number)));
    }
    Ok(())
}

/// Whether the answer with this number came in time; none: stopped.
fn wait_for_answer(
    socket: &UdpSocket,
    token: &StreamToken,
    tags: &Tags,
    number: u64,
    answer: &mut [u8],
    counters: &StreamCounters,
    stop: &AtomicBool,
) -> io::Result<Option<bool>> {
    let patience = Instant::now() + LOST_AFTER;
    loop {
        match socket.recv(answer) {
            Ok(length) => match tags.read(&answer[..length]) {
                Some(header) if header.number == number => return Ok(Some(true)),
                // The answer to one that was given up.
                Some(_) => bump(&counters.reordered, 1),
                None if open::is_admission(&answer[..length], token) => open::answer(socket, token),
                None => bump(&counters.foreign, 1),
            },
            Err(error) if only_waiting(&error) => {}
            Err(error) if other_end_gone(&error) => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => return Err(error),
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if Instant::now() >= patience {
            return Ok(Some(false));
        }
    }
}

/// Sends back what comes, if it is of this stream.
pub(super) fn echo_udp(
    socket: &UdpSocket,
    token: &StreamToken,
    counters: &StreamCounters,
    stop: &AtomicBool,
    clock: &mut CpuClock,
) -> io::Result<()> {
    let tags = Tags::of(token);
    let mut datagram = vec![0; MOST_TRAIN_BYTES];
    while !stop.load(Ordering::Relaxed) {
        match socket.recv(&mut datagram) {
            Ok(length) => {
                let datagram = &datagram[..length];
                if tags.read(datagram).is_some() {
                    let _ = socket.send(datagram);
                    counters.progress.add(length as u64);
                    bump(&counters.datagrams, 1);
                    bump(&counters.calls, 1);
                } else if matches!(tags.read_message(datagram), Some(DatagramMessage::End(_))) {
                    break;
                } else if open::is_admission(datagram, token) {
                    open::answer(socket, token);
                } else {
                    bump(&counters.foreign, 1);
                }
            }
            Err(error) if only_waiting(&error) || other_end_gone(&error) => {}
            Err(error) => return Err(error),
        }
        clock.tick(Instant::now(), &counters.cpu_nanos);
    }
    Ok(())
}
