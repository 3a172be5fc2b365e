//! Request and response: the latency of the path, alone or beside the bulk.
//!
//! With a rate the requests have a timetable: each goes out at its time, also while others are still under way, as on a
//! path of 100 ms a hundred of a thousand a second always are. Who waited for an answer before the next request would
//! leave out just the bad moments (what HdrHistogram's author calls coordinated omission), or count its own delay as the
//! path's.
//! A UDP request that is not answered within a second is lost.

use super::super::access::Pace;
use super::super::access::schedule::Schedule;
use super::super::wire::StreamToken;
use super::datagram::{DatagramMessage, HEADER_BYTES, Header, Tags};
use super::{StreamThread, bump, is_waiting, other_end_gone};
use crate::flow::wire;
use hdrhistogram::Histogram;
use linerate_system::segmentation::{MOST_TRAIN_BYTES, is_busy};
use linerate_system::stop::Stop;
use linerate_system::{affinity, clock};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// A UDP request that is not answered for this long is lost.
const LOST_AFTER: Duration = Duration::from_secs(1);
/// The end is said so many times: the other end hears one of them.
const END_TIMES: u32 = 5;
/// The longest request.
const MOST_REQUEST_BYTES: usize = 1 << 20;
/// Requests under way: a second of a thousand a second.
const MOST_OPEN: usize = 1024;
/// Round trips are kept to three digits, up to a minute.
const LONGEST_TRIP_NANOS: u64 = 60_000_000_000;

/// When requests go out, and how long they took.
struct RequestPacer<'a, 'b> {
    thread: &'a mut StreamThread<'b>,
    requests_per_second: Option<f64>,
    /// From the other end's first answer on, where there is a rate: what waits for it to begin says nothing of the path.
    schedule: Option<Schedule>,
    /// Zero of the schedule's clock.
    begun: Instant,
    request_bytes: usize,
    left: Option<u64>,
    /// Not answered yet, the oldest first.
    open: VecDeque<OpenRequest>,
    next_number: u64,
    most_answered: u64,
}

/// A request under way.
#[derive(Clone, Copy)]
struct OpenRequest {
    number: u64,
    /// When it was to go out: its time runs from then.
    due: Instant,
    asked: Instant,
}

/// What an asker does next.
enum NextStep {
    /// A request that was due then.
    Ask(Instant),
    /// For this long at most.
    Listen(Duration),
}

impl<'a, 'b> RequestPacer<'a, 'b> {
    fn new(thread: &'a mut StreamThread<'b>, request_bytes: usize) -> Self {
        affinity::wake_on_time();
        let spec = thread.spec;
        if let Ok(mut trips) = thread.counters.round_trips.lock() {
            *trips = Histogram::new_with_bounds(1, LONGEST_TRIP_NANOS, 3).ok();
        }
        RequestPacer {
            thread,
            requests_per_second: spec.bytes_per_second.map(|rate| rate / request_bytes as f64),
            schedule: None,
            begun: clock::now(),
            request_bytes,
            left: spec.limit_bytes,
            open: VecDeque::new(),
            next_number: 0,
            most_answered: 0,
        }
    }

    fn now_nanos(&self) -> u64 {
        clock::since(self.begun).as_nanos() as u64
    }

    /// Without a rate, and until the other end has answered once, one request at a time; then each at its time, whatever
    /// is still under way. None at the end.
    fn next(&mut self) -> Option<NextStep> {
        if self.thread.stop.is_ended() {
            return None;
        }
        let now = clock::now();
        self.thread.tick(now);
        if self.left == Some(0) {
            return (!self.open.is_empty()).then_some(NextStep::Listen(LOST_AFTER));
        }
        let nanos = self.now_nanos();
        Some(match &self.schedule {
            None if self.open.is_empty() => NextStep::Ask(now),
            Some(schedule) if self.open.len() < MOST_OPEN => match schedule.due(nanos) {
                Some(due) => NextStep::Ask(self.begun + Duration::from_nanos(due)),
                None => NextStep::Listen(Duration::from_nanos(schedule.wait(nanos))),
            },
            // One that has no place has been due all the same: its time runs.
            _ => NextStep::Listen(LOST_AFTER),
        })
    }

    /// It went out.
    fn asked(&mut self, due: Instant) {
        self.open.push_back(OpenRequest { number: self.next_number, due, asked: clock::now() });
        let nanos = self.now_nanos();
        self.schedule.iter_mut().for_each(|schedule| schedule.sent(nanos));
        self.next_number += 1;
        bump(&self.thread.counters.datagrams, 1);
        self.left = self.left.map(|left| left.saturating_sub(self.request_bytes as u64));
    }

    /// The answer to the oldest one is here.
    fn oldest_answered(&mut self) {
        if let Some(request) = self.open.pop_front() {
            self.answered(request.due);
        }
    }

    /// The answer to this one is here; false: it was given up, or answered before.
    fn number_answered(&mut self, number: u64) -> bool {
        let Some(index) = self.open.iter().position(|request| request.number == number) else { return false };
        if number < self.most_answered {
            bump(&self.thread.counters.reordered, 1);
        }
        self.most_answered = self.most_answered.max(number);
        if let Some(request) = self.open.remove(index) {
            self.answered(request.due);
        }
        true
    }

    /// Until the oldest is lost, at most so long.
    fn until_lost(&self, most: Duration) -> Duration {
        let left = |oldest: &OpenRequest| LOST_AFTER.saturating_sub(clock::since(oldest.asked));
        self.open.front().map_or(most, |oldest| most.min(left(oldest)))
    }

    /// Those that had no answer for too long are lost.
    fn give_up(&mut self) {
        while self.open.front().is_some_and(|request| clock::since(request.asked) >= LOST_AFTER) {
            self.open.pop_front();
            bump(&self.thread.counters.lost, 1);
        }
    }

    fn answered(&mut self, due: Instant) {
        self.thread.counters.progress.add(self.request_bytes as u64);
        if let (None, Some(requests_per_second)) = (&self.schedule, self.requests_per_second) {
            let pace = Pace::Open { requests_per_second };
            self.schedule = Some(Schedule::new(pace, self.request_bytes, self.now_nanos(), 0.0));
            return;
        }
        bump(&self.thread.counters.calls, 1);
        self.took(due);
    }

    fn took(&self, due: Instant) {
        let nanos =
            u64::try_from(clock::since(due).as_nanos()).unwrap_or(u64::MAX).clamp(1, LONGEST_TRIP_NANOS);
        if let Ok(mut held) = self.thread.counters.round_trips.lock()
            && let Some(trips) = held.as_mut()
        {
            trips.saturating_record(nanos);
        }
    }

    /// Those that wait for longer than any answer took would be the worst: they count with the time they have waited.
    fn end(&self) {
        let longest = match self.thread.counters.round_trips.lock() {
            Ok(held) => held.as_ref().map_or(0, Histogram::max),
            Err(_) => return,
        };
        let longest = Duration::from_nanos(longest);
        let waiting = self.open.iter().filter(|request| clock::since(request.due) > longest);
        waiting.filter(|_| self.schedule.is_some()).for_each(|request| self.took(request.due));
    }
}

/// Sends requests of `write_bytes` on TCP.
pub(super) fn ask_tcp(thread: &mut StreamThread<'_>, stream: &TcpStream) -> io::Result<()> {
    let StreamThread { spec, stop, .. } = *thread;
    stream.set_nodelay(true)?;
    let request = vec![7; (spec.write_bytes as usize).clamp(1, MOST_REQUEST_BYTES)];
    let mut answers = vec![0; request.len().max(4096)];
    let mut filled = 0;
    let mut asker = RequestPacer::new(thread, request.len());
    while let Some(step) = asker.next() {
        match step {
            NextStep::Ask(due) => {
                if !write_whole(stream, &request, stop)? {
                    break;
                }
                asker.asked(due);
            }
            NextStep::Listen(patience) => {
                if !stop.wait_readable(stream, Some(patience))? {
                    continue;
                }
                filled += read_some(stream, &mut answers)?;
                while filled >= request.len() {
                    filled -= request.len();
                    asker.oldest_answered();
                }
            }
        }
    }
    asker.end();
    let _ = stream.shutdown(Shutdown::Write);
    Ok(())
}

/// Sends back whatever comes on TCP.
pub(super) fn echo_tcp(thread: &mut StreamThread<'_>, stream: &TcpStream) -> io::Result<()> {
    let StreamThread { spec, counters, stop, .. } = *thread;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; (spec.write_bytes as usize).clamp(4096, MOST_REQUEST_BYTES)];
    let mut reader = stream;
    while !stop.is_ended() {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => match write_whole(stream, &buffer[..length], stop) {
                Ok(true) => {
                    counters.progress.add(length as u64);
                    bump(&counters.calls, 1);
                }
                // An asker that has ended waits for no answer.
                Err(error) if !other_end_gone(&error) => return Err(error),
                _ => break,
            },
            Err(error) if is_waiting(&error) => {}
            Err(error) if other_end_gone(&error) => break,
            Err(error) => return Err(error),
        }
        thread.tick(clock::now());
    }
    Ok(())
}

/// False: stopped meanwhile.
fn write_whole(mut stream: &TcpStream, mut bytes: &[u8], stop: &Stop) -> io::Result<bool> {
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if is_waiting(&error) => {}
            Err(error) => return Err(error),
        }
        if stop.is_ended() && !bytes.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Bytes of answers that are there.
fn read_some(mut stream: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    match stream.read(buffer) {
        Ok(0) => {
            let why = "the other end closed the connection before it had answered";
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, why))
        }
        Err(error) if is_waiting(&error) => Ok(0),
        read => read,
    }
}

/// Sends datagrams of `write_bytes`, each of which comes back.
pub(super) fn ask_udp(
    thread: &mut StreamThread<'_>,
    socket: &UdpSocket,
    token: &StreamToken,
) -> io::Result<()> {
    let StreamThread { spec, counters, stop, .. } = *thread;
    let tags = Tags::of(token);
    let mut request = vec![7; (spec.write_bytes as usize).clamp(HEADER_BYTES, MOST_TRAIN_BYTES)];
    let mut answer = vec![0; MOST_TRAIN_BYTES];
    let start = clock::now();
    let mut asker = RequestPacer::new(thread, request.len());
    while let Some(step) = asker.next() {
        match step {
            NextStep::Ask(due) => {
                let sent_nanos = clock::since(start).as_nanos() as u64;
                tags.write(Header { number: asker.next_number, sent_nanos }, &mut request);
                match socket.send(&request) {
                    Ok(_) => asker.asked(due),
                    Err(error) if is_busy(&error) || other_end_gone(&error) => {
                        bump(&counters.refused_sends, 1);
                        stop.wait(Duration::from_millis(1));
                    }
                    Err(error) => return Err(error),
                }
            }
            NextStep::Listen(patience) => {
                if stop.wait_readable(socket, Some(asker.until_lost(patience)))? {
                    take_answer(socket, token, &tags, &mut answer, &mut asker)?;
                }
                asker.give_up();
            }
        }
    }
    asker.end();
    for _ in 0..END_TIMES {
        let _ = socket.send(&tags.message(DatagramMessage::End(asker.next_number)));
    }
    Ok(())
}

/// One datagram that is there.
fn take_answer(
    socket: &UdpSocket,
    token: &StreamToken,
    tags: &Tags,
    answer: &mut [u8],
    asker: &mut RequestPacer<'_, '_>,
) -> io::Result<()> {
    match socket.recv(answer) {
        Ok(length) => match tags.read(&answer[..length]) {
            Some(header) if asker.number_answered(header.number) => {}
            // The answer to one that was given up.
            Some(_) => bump(&asker.thread.counters.reordered, 1),
            None if wire::is_admission(&answer[..length], token) => wire::answer(socket, token, 0),
            None => bump(&asker.thread.counters.foreign, 1),
        },
        Err(error) if is_waiting(&error) => {}
        Err(error) if other_end_gone(&error) => drop(asker.thread.stop.wait(Duration::from_millis(1))),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Sends back what comes, if it is of this stream.
pub(super) fn echo_udp(
    thread: &mut StreamThread<'_>,
    socket: &UdpSocket,
    token: &StreamToken,
) -> io::Result<()> {
    let StreamThread { counters, stop, .. } = *thread;
    let tags = Tags::of(token);
    let mut datagram = vec![0; MOST_TRAIN_BYTES];
    while !stop.is_ended() {
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
                } else if wire::is_admission(datagram, token) {
                    wire::answer(socket, token, 0);
                } else {
                    bump(&counters.foreign, 1);
                }
            }
            Err(error) if is_waiting(&error) || other_end_gone(&error) => {}
            Err(error) => return Err(error),
        }
        thread.tick(clock::now());
    }
    Ok(())
}
