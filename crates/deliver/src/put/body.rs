//! The bytes of a file to the server or the store: past the page cache at depth where they are cold, without a
//! copy where they are hot and nobody has to see them, else through user space. What the other host has of
//! them comes to be known little by little.

use super::PutStream;
use super::sources::{PutError, SourceFile};
use crate::blocks::{BlockSum, FileId};
use crate::body_paths::{BodyPaths, call_bytes, next_run};
use crate::client::{HttpConnection, TransferError};
use crate::file_bytes::{Afterwards, FileBytes};
use crate::stream_windows::{ALONE_BYTES, StreamWindows};
use linerate_system::{Errno, clock};
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::ops::Range;
use std::time::{Duration, Instant};

/// What is sent of a file.
struct FileBody<'b> {
    file: &'b SourceFile,
    content: &'b File,
    id: FileId,
    end: u64,
    /// Sees each byte that is sent.
    sum: Option<&'b mut BlockSum>,
    paths: BodyPaths,
    /// When the server took something last, or did not have to.
    taken: Instant,
}

impl PutStream<'_> {
    /// Sends these bytes of a file; `sum` sees each of them.
    pub(crate) fn body(
        &mut self,
        file: &SourceFile,
        content: &File,
        bytes: Range<u64>,
        sum: Option<&mut BlockSum>,
    ) -> Result<(), PutError> {
        let id = FileId::of(content).map_err(|error| file.failed(error))?;
        let (end, paths, taken) = (bytes.end, BodyPaths::default(), clock::now());
        let mut body = FileBody { file, content, id, end, sum, paths, taken };
        self.connection.iter().for_each(HttpConnection::waits_for_reader);
        self.sent.begin(self.acknowledged_bytes());
        let mut at = bytes.start;
        while at < end {
            let (length, _) = next_run(content, at..end);
            let connection = self.connection.as_ref().ok_or_else(|| TransferError::closed(&file.url))?;
            match connection.plain_socket() {
                Some(socket) if body.goes_direct(socket, at, length) => {
                    self.send_direct(&mut body, at, length)?
                }
                Some(_) if body.sum.is_none() => self.send_cached(&mut body, at, length)?,
                _ => self.send_copied(&mut body, at, length)?,
            }
            at += length;
        }
        self.sent.end();
        Ok(())
    }

    /// Past the page cache, at depth.
    fn send_direct(&mut self, body: &mut FileBody<'_>, at: u64, length: u64) -> Result<(), PutError> {
        let sender = body.paths.direct().map_err(|error| body.file.failed(error))?;
        self.work.moved_by(|| format!("O_DIRECT, {}", sender.method()));
        sender.begin(at, length);
        let mut left = length;
        while left > 0 {
            let FileBody { sum, paths, .. } = body;
            let sees = |bytes: &[u8]| sum.iter_mut().for_each(|sum| sum.add(bytes));
            let sender = paths.direct().map_err(|error| body.file.failed(error))?;
            let sent = sender.send(call_bytes(self.work.rate.as_ref()), sees);
            let waited = sender.take_waited();
            self.tally.add_waited_disk(waited);
            if !waited.is_zero() {
                body.taken = clock::now();
            }
            let sent = sent.map_err(|error| body.failed(error))?;
            self.sent_by_socket(sent);
            self.went_out(body, sent)?;
            left -= sent as u64;
        }
        Ok(())
    }

    /// From the page cache, without a copy.
    fn send_cached(&mut self, body: &mut FileBody<'_>, at: u64, length: u64) -> Result<(), PutError> {
        self.work.moved_by(|| "from the page cache without a copy".into());
        let (mut at, to) = (at, at + length);
        body.paths.begin_cached(true);
        while at < to {
            let most = (to - at).min(call_bytes(self.work.rate.as_ref()) as u64) as usize;
            let socket = self.connection.as_ref().and_then(|connection| connection.plain_socket());
            let socket = socket.ok_or_else(|| TransferError::closed(&body.file.url))?;
            let call = body.paths.send_cached(socket, body.content, at, most, true);
            let call = call.map_err(|error| body.failed(error))?;
            self.sent_by_socket(call.sent);
            self.tally.add_waited_disk(call.waited_disk);
            self.went_out(body, call.sent)?;
            at += call.sent as u64;
        }
        body.paths.end_cached();
        Ok(())
    }

    /// Through user space: what is encrypted here, hot bytes that are summed, and small files.
    fn send_copied(&mut self, body: &mut FileBody<'_>, at: u64, length: u64) -> Result<(), PutError> {
        let file = body.file;
        let mut bytes = FileBytes::of(body.content, at..at + length, Afterwards::Gone);
        self.work.moved_by(|| bytes.method());
        while !bytes.is_over() {
            let most = call_bytes(self.work.rate.as_ref());
            let next = self.tally.at_disk(|| bytes.next(most)).map_err(|error| file.failed(error))?;
            body.sum.iter_mut().for_each(|sum| sum.add(next));
            let connection = self.connection.as_mut().ok_or_else(|| TransferError::closed(&file.url))?;
            // It has a patience of its own.
            connection.write(next, &file.url)?;
            body.taken = clock::now();
            let sent = next.len();
            self.went_out(body, sent)?;
        }
        Ok(())
    }

    fn acknowledged_bytes(&self) -> u64 {
        self.connection.as_ref().map_or(0, HttpConnection::acknowledged_bytes)
    }

    fn sent_by_socket(&self, bytes: usize) {
        self.connection.iter().for_each(|connection| connection.sent_by_socket(bytes));
    }

    /// Counts what went out and keeps to the rate; a server that takes nothing for too long is given up.
    fn went_out(&mut self, body: &mut FileBody<'_>, bytes: usize) -> Result<(), PutError> {
        if self.is_stopped() {
            return Err(PutError::Interrupted);
        }
        self.sent.acknowledged_now(self.acknowledged_bytes());
        if bytes == 0 && clock::since(body.taken) > self.settings.timeout {
            return Err(broken(body.file, io::ErrorKind::TimedOut.into()));
        }
        if bytes > 0 {
            self.tally.add_moved(bytes as u64);
            self.count(bytes as u64);
            if let Some(rate) = &self.work.rate {
                self.tally.paced(|| rate.pay(bytes as u64, |time| self.settings.stop.wait(time)));
            }
            body.taken = clock::now();
        }
        Ok(())
    }
}

impl FileBody<'_> {
    fn goes_direct(&mut self, socket: &TcpStream, at: u64, length: u64) -> bool {
        // How a piece before was sent says nothing of these: `next_run` has asked for each of them.
        self.paths.begin();
        self.paths.goes_direct(socket, (self.content, self.id, "it"), (at, length))
    }

    /// Of a call that reads and sends: what the socket says is the connection's fault, all else the file's.
    fn failed(&self, error: io::Error) -> PutError {
        let is_shorter = FileId::of(self.content).is_ok_and(|now| now.bytes < self.end);
        match error.get_ref() {
            _ if is_shorter => self.file.failed(io::ErrorKind::UnexpectedEof.into()),
            None if is_of_socket(&error) => broken(self.file, error),
            _ => self.file.failed(error),
        }
    }
}

/// What a connection fails of (tcp(7), ip(7)); files and the disks below them fail of other things.
fn is_of_socket(error: &io::Error) -> bool {
    const FAILURES: [Errno; 10] = [
        Errno::PIPE,
        Errno::CONNRESET,
        Errno::CONNABORTED,
        Errno::CONNREFUSED,
        Errno::NOTCONN,
        Errno::TIMEDOUT,
        Errno::NETDOWN,
        Errno::NETUNREACH,
        Errno::HOSTDOWN,
        Errno::HOSTUNREACH,
    ];
    match Errno::from_io_error(error) {
        Some(errno) => FAILURES.contains(&errno),
        None => matches!(
            error.kind(),
            io::ErrorKind::TimedOut | io::ErrorKind::BrokenPipe | io::ErrorKind::WriteZero
        ),
    }
}

fn broken(file: &SourceFile, error: io::Error) -> PutError {
    TransferError::broken(&file.url, error).into()
}

/// The first bytes that a stream sends go into buffers on the way, whatever the other host takes.
const BUFFER_FILL_TIME: Duration = Duration::from_millis(50);

/// What the other host has of the bytes that a stream sends, as it comes to be known: in steps, where its window is full
/// and opens by a part of its buffer at a time.
pub(crate) struct SentBytes<'a> {
    windows: &'a StreamWindows,
    /// When the first bytes of this body went out.
    first: Instant,
    /// Of the connection at hand, when it was looked last.
    acknowledged: u64,
    /// Of this body, before the windows count it.
    filled: u64,
    is_counted: bool,
}

impl<'a> SentBytes<'a> {
    pub(crate) fn new(windows: &'a StreamWindows) -> Self {
        SentBytes { windows, first: clock::now(), acknowledged: 0, filled: 0, is_counted: false }
    }

    /// A body follows on a connection of which so much is acknowledged.
    pub(crate) fn begin(&mut self, acknowledged: u64) {
        self.end();
        (self.first, self.acknowledged, self.filled) = (clock::now(), acknowledged, 0);
    }

    /// The last bytes of the body are on their way.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.is_counted) {
            self.windows.stream_ended();
        }
    }

    /// So much is acknowledged now; a window ends with a step.
    fn acknowledged_now(&mut self, acknowledged: u64) {
        let came = acknowledged.saturating_sub(std::mem::replace(&mut self.acknowledged, acknowledged));
        self.filled += came;
        match came {
            0 => {}
            _ if self.is_counted => self.windows.add_bytes(came),
            _ if clock::since(self.first) >= BUFFER_FILL_TIME => {
                self.is_counted = true;
                self.windows.stream_started();
            }
            _ if self.filled >= ALONE_BYTES => self.windows.let_others_start(),
            _ => {}
        }
    }
}

impl Drop for SentBytes<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::super::PutWork;
    use super::*;
    use crate::body_paths::PIECE_BYTES;
    use crate::client::ClientSettings;
    use crate::stream_tally::StreamTally;
    use crate::stream_windows::StreamWindows;
    use crate::tls::TlsTrust;
    use linerate_system::clock::simulated::SimulatedClock;
    use linerate_system::file::{drop_pages, lies_in_memory};
    use linerate_system::lock;
    use linerate_system::stop::Stop;
    use socket2::SockRef;
    use std::io::Read;
    use std::net::TcpListener;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    const BYTES: usize = (9 << 20) + 77;

    fn file() -> (Vec<u8>, File) {
        let content: Vec<u8> = (0..BYTES).map(|at| (at * 31 + (at >> 9)) as u8).collect();
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&content, 0).and_then(|()| file.sync_all()).expect("written");
        (content, file)
    }

    /// Sends these bytes of the file: what came of it, what arrived, and what moved it.
    fn sent(
        content: &File,
        bytes: Range<u64>,
        sum: Option<&mut BlockSum>,
    ) -> (Result<(), PutError>, Vec<u8>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let url = format!("http://{}/f", listener.local_addr().expect("an address"));
        let came = std::thread::spawn(move || {
            let mut came = Vec::new();
            listener.accept().and_then(|(mut far, _)| far.read_to_end(&mut came)).map(|_| came).expect("read")
        });
        let (there, stop) = (AtomicU64::new(0), Stop::new());
        let settings =
            || ClientSettings::new(&stop, Duration::from_secs(20), 64 << 10, None, TlsTrust::default());
        let windows = StreamWindows::new(false);
        let work = PutWork::of_test(settings(), &windows, &there);
        let (settings, tally) = (settings(), StreamTally::default());
        let mut stream = PutStream::new(&work, &settings, &tally);
        let file = SourceFile { path: "f".into(), url: url.parse().expect("a URL"), bytes: bytes.end };
        stream.connection = Some(HttpConnection::open(&settings, &file.url).expect("a connection"));
        let ended = stream.body(&file, content, bytes, sum);
        let socket = stream.connection.as_ref().and_then(HttpConnection::plain_socket).expect("in the clear");
        let patience = SockRef::from(socket).tcp_user_timeout().expect("an option");
        assert_eq!(patience, Some(settings.timeout), "a server that takes nothing for seconds is not gone");
        stream.connection = None;
        let came = came.join().expect("read");
        assert_eq!(there.load(Ordering::Relaxed), tally.moved(), "what went out is counted once");
        let methods = lock(&work.methods).iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        (ended, came, methods)
    }

    /// Cold and hot, summed and not.
    #[test]
    fn each_byte_goes_out_once_and_is_summed() {
        let (whole, content) = file();
        for (is_cold, is_summed, method) in [
            (true, true, "O_DIRECT"),
            (true, false, "O_DIRECT"),
            (false, true, "read through"),
            (false, false, "without a copy"),
        ] {
            if is_cold && lies_in_memory(&content) {
                eprintln!("skipped: the temporary folder is in memory");
                continue;
            }
            match is_cold {
                true => drop_pages(&content).expect("dropped"),
                false => content.read_exact_at(&mut vec![0; BYTES], 0).expect("read"),
            }
            let mut sum = BlockSum::begin();
            let (ended, came, methods) = sent(&content, 5..BYTES as u64, is_summed.then_some(&mut sum));
            assert!(ended.is_ok() && came == whole[5..], "{method}: {ended:?}");
            assert!(methods.contains(method), "{method}: {methods}");
            let mut own = BlockSum::begin();
            own.add(if is_summed { &whole[5..] } else { &[] });
            assert_eq!(sum.end(), own.end(), "{method}");
        }
    }

    #[test]
    fn a_cold_piece_behind_a_hot_one_is_read_past_the_page_cache() {
        let (hot, mib) = (PIECE_BYTES as usize, 1 << 20);
        let pieces = (0..(hot / mib + 32) as u8).map(|number| vec![number; mib]);
        let whole = pieces.collect::<Vec<_>>().concat();
        let content = tempfile::tempfile().expect("a file");
        content.write_all_at(&whole, 0).and_then(|()| content.sync_all()).expect("written");
        if lies_in_memory(&content) {
            eprintln!("skipped: the temporary folder is in memory");
            return;
        }
        drop_pages(&content).expect("dropped");
        // What is read ahead behind it is less than half of the next piece.
        content.read_exact_at(&mut vec![0; hot], 0).expect("read");
        let (ended, came, methods) = sent(&content, 0..whole.len() as u64, None);
        assert!(ended.is_ok() && came == whole, "{ended:?}");
        assert!(methods.contains("without a copy") && methods.contains("O_DIRECT"), "{methods}");
    }

    #[test]
    fn what_a_file_fails_of_is_no_fault_of_the_connection() {
        for errno in [Errno::PIPE, Errno::CONNRESET, Errno::TIMEDOUT] {
            assert!(is_of_socket(&errno.into()), "{errno:?}");
        }
        for errno in [Errno::IO, Errno::STALE, Errno::ACCESS, Errno::NODATA, Errno::NOMEM, Errno::INVAL] {
            assert!(!is_of_socket(&errno.into()), "{errno:?}");
        }
    }

    #[test]
    fn a_file_that_became_shorter_has_changed() {
        let (whole, content) = file();
        content.set_len(7 << 20).expect("cut");
        for is_cold in [true, false] {
            for is_summed in [true, false] {
                if is_cold {
                    drop_pages(&content).expect("dropped");
                }
                let mut sum = BlockSum::begin();
                let (ended, came, _) = sent(&content, 0..BYTES as u64, is_summed.then_some(&mut sum));
                assert!(matches!(ended, Err(PutError::Changed { .. })), "{is_cold}: {ended:?}");
                assert!(came.len() <= 7 << 20 && came == whole[..came.len()]);
            }
        }
    }

    /// A stream alone whose server takes 5 MB/s in steps, then two; looked at every 100 ms.
    #[test]
    fn what_fills_buffers_on_the_way_is_in_no_window_of_a_sender() {
        let clock = SimulatedClock::new();
        let _entered = clock.enter();
        let windows = StreamWindows::new(true);
        let looks = |streams: &mut [SentBytes<'_>]| {
            streams.iter_mut().for_each(|stream| stream.begin(1_000));
            let mut acknowledged = 1_000;
            for came in [3_000_000, 0, 1_000_000, 500_000, 500_000] {
                clock.advance(Duration::from_millis(100));
                acknowledged += came;
                streams.iter_mut().for_each(|stream| stream.acknowledged_now(acknowledged));
            }
        };
        looks(&mut [SentBytes::new(&windows)]);
        windows.wait_for_first(|| panic!("three windows"));
        looks(&mut [SentBytes::new(&windows), SentBytes::new(&windows)]);
        let shown = windows.windows();
        let rates =
            shown.iter().map(|window| (window.streams, (window.bytes as f64 / window.seconds / 1e6).round()));
        let expected = [(1, 5.0), (1, 5.0), (1, 5.0), (2, 5.0), (2, 15.0), (2, 10.0)];
        assert_eq!(rates.collect::<Vec<_>>(), expected, "{shown:?}");
    }
}
