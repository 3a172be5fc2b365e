//! Ranges of one file, one after another, to a connection that stays open: what a file server needs of the
//! read-ahead.

use super::ahead::ReadAhead;
use super::content::Range;
use super::is_waiting;
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

/// Reads a file past the page cache at depth and sends what it read.
pub struct FileSender(ReadAhead);

impl FileSender {
    /// `file` was opened with O_DIRECT; `label` is what errors call it. Nothing is sent before [`FileSender::begin`].
    pub fn new(stream: &TcpStream, file: Arc<File>, label: String) -> io::Result<Self> {
        ReadAhead::new(stream, Range { file, label, offset: 0 }, 1, 0).map(FileSender)
    }

    /// A range that is sent from now on; the one before was sent to its end, or the connection is lost.
    pub fn begin(&mut self, offset: u64, length: u64) {
        self.0.begin(offset, length);
    }

    /// Sends the next bytes; gives those that went out, none of the range's end and where nothing could be sent
    /// within a tenth of a second. `seen` looks at them.
    pub fn send(&mut self, most: usize, seen: impl FnOnce(&[u8])) -> io::Result<usize> {
        let sent = match self.0.send(most) {
            Err(error) if is_waiting(&error) => return Ok(0),
            sent => sent?,
        };
        seen(self.0.last(sent));
        self.0.consume(sent);
        Ok(sent)
    }

    /// Nothing could be sent: calls back what is under way, so that this can be dropped. Gives the bytes that the socket
    /// has taken of it; none where it is the file that is waited for, or the kernel calls nothing back: then go on.
    pub fn call_back(&mut self) -> Option<io::Result<usize>> {
        self.0.call_back()
    }

    /// How long the file has kept it waiting since this was asked last.
    pub fn take_waited(&mut self) -> std::time::Duration {
        self.0.take_waited()
    }

    /// What moves the bytes, for the report.
    pub fn method(&self) -> String {
        self.0.method()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    /// So many bytes, and a file of them that is read past the page cache; none, with a message, where that cannot be.
    fn direct_file(bytes: u32) -> Option<(Vec<u8>, File)> {
        let content: Vec<u8> = (0..bytes).map(|i| ((i * 7) >> 3) as u8).collect();
        let place = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(place.path(), &content).expect("written");
        let Ok(file) = linerate_system::file::open_to_read(place.path(), true) else {
            eprintln!("skipped: no O_DIRECT here");
            return None;
        };
        Some((content, file))
    }

    /// A peer that takes nothing: the bytes that the socket has are known, and the rest can be sent by another.
    #[test]
    fn a_send_that_waits_for_the_peer_is_called_back() {
        let Some((content, file)) = direct_file(48_000_000) else { return };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        near.set_write_timeout(Some(std::time::Duration::from_millis(100))).expect("a timeout");
        let (mut far, _) = listener.accept().expect("accepted");
        let file = Arc::new(file);
        let mut sender = FileSender::new(&near, Arc::clone(&file), "f".into()).expect("a sender");
        sender.begin(0, content.len() as u64);
        let mut sent = 0;
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let went = sender.send(1 << 20, |_| {}).expect("sent");
            sent += went;
            if went == 0
                && let Some(called_back) = sender.call_back()
            {
                sent += called_back.expect("called back");
                break;
            }
            assert!(std::time::Instant::now() < patience && sent < content.len(), "{sent}");
        }
        drop(sender);
        let reader = std::thread::spawn(move || {
            let mut received = Vec::new();
            far.read_to_end(&mut received).map(|_| received)
        });
        let mut next = FileSender::new(&near, file, "f".into()).expect("another sender");
        next.begin(sent as u64, (content.len() - sent) as u64);
        while sent < content.len() {
            sent += next.send(1 << 20, |_| {}).expect("sent");
        }
        near.shutdown(std::net::Shutdown::Write).expect("shut");
        assert!(reader.join().expect("the reader").expect("received") == content);
    }

    #[test]
    fn ranges_come_one_after_another_over_one_connection() {
        let Some((content, file)) = direct_file(5_000_000) else { return };
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (mut far, _) = listener.accept().expect("accepted");
        let ranges = [(0u64, 5_000_000u64), (4_999_999, 1), (1, 2_000_003), (3_000_000, 1_000_000)];
        let reader = std::thread::spawn(move || {
            let mut received = Vec::new();
            far.read_to_end(&mut received).map(|_| received)
        });
        let mut sender = FileSender::new(&near, Arc::new(file), "f".into()).expect("a sender");
        let (mut expected, mut seen) = (Vec::new(), 0);
        for (offset, length) in ranges {
            sender.begin(offset, length);
            let mut left = length;
            while left > 0 {
                left -= sender.send(1 << 20, |bytes| seen += bytes.len()).expect("sent") as u64;
            }
            expected.extend_from_slice(&content[offset as usize..(offset + length) as usize]);
        }
        near.shutdown(std::net::Shutdown::Write).expect("shut");
        assert!(reader.join().expect("the reader").expect("received") == expected);
        assert_eq!(seen, expected.len());
    }
}
