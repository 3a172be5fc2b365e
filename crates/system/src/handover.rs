//! Pages of a file to a socket without a copy through user space: sendfile(2), splice(2), and memory that
//! passes for a file (memfd).

use rustix::fs::MemfdFlags;
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

/// What a pipe is made to hold: as much as a user without privileges may ask (`fs.pipe-max-size`).
const PIPE_BYTES: usize = 1 << 20;

/// A file in memory alone that holds `content`.
pub fn memory_file(content: &[u8]) -> io::Result<File> {
    let mut file = File::from(rustix::fs::memfd_create("linerate-stream", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    Ok(file)
}

/// Hands up to `bytes` of the file from `offset` on to the socket; how many it took.
pub fn send_file(socket: &impl AsFd, file: &impl AsFd, offset: u64, bytes: usize) -> io::Result<usize> {
    let mut offset = offset;
    Ok(rustix::fs::sendfile(socket, file, Some(&mut offset), bytes)?)
}

/// The pipe that splice needs in between.
#[derive(Debug)]
pub struct Splice {
    out: OwnedFd,
    into: OwnedFd,
    /// Bytes that the pipe can hold.
    room: usize,
    held: usize,
}

impl Splice {
    /// A pipe of its own, as large as may be.
    pub fn new() -> io::Result<Self> {
        let (out, into) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // More than an unprivileged user may have in all pipes is refused: then it stays at 64 KiB.
        let room = rustix::pipe::fcntl_setpipe_size(&into, PIPE_BYTES).unwrap_or(64 << 10);
        Ok(Splice { out, into, room, held: 0 })
    }

    /// It holds more than the pipe that sendfile(2) has of its own, 16 pages: what is read of the page cache at a time.
    pub fn is_large(&self) -> bool {
        self.room == PIPE_BYTES
    }

    /// Nothing waits in it to go out.
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Moves up to `bytes` of the file from `offset` on to the socket; how many of them it took. What stays
    /// in the pipe after an error or a timeout goes out first at the next call, and counts then: go on at
    /// `offset` plus what was taken in all.
    pub fn send(
        &mut self,
        socket: &impl AsFd,
        file: &impl AsFd,
        offset: u64,
        bytes: usize,
    ) -> io::Result<usize> {
        if self.held == 0 {
            let mut from = offset;
            let length = bytes.min(self.room);
            self.held =
                rustix::pipe::splice(file, Some(&mut from), &self.into, None, length, SpliceFlags::empty())?;
            if self.held == 0 {
                return Ok(0);
            }
        }
        // Without SPLICE_F_MORE: what a pipe holds is pushed at its end. Held back for the next one, bbr's rate fell by a
        // third on loopback; cubic's was the same.
        let flags = SpliceFlags::empty();
        let sent = rustix::pipe::splice(&self.out, None, socket, None, self.held.min(bytes), flags)?;
        self.held -= sent;
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    fn through(move_all: impl FnOnce(&TcpStream, &File)) -> Vec<u8> {
        let content: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        let file = memory_file(&content).expect("a memory file");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let sender = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
        let (mut receiver, _) = listener.accept().expect("accepted");
        let taker = std::thread::spawn(move || {
            let mut received = Vec::new();
            receiver.read_to_end(&mut received).map(|_| received)
        });
        move_all(&sender, &file);
        drop(sender);
        let received = taker.join().expect("the taker").expect("received");
        assert_eq!(received, content);
        received
    }

    #[test]
    fn sendfile_moves_every_byte() {
        through(|socket, file| {
            let mut at = 0;
            while at < 300_000 {
                at += send_file(socket, file, at, 100_000).expect("sent") as u64;
            }
            assert_eq!(send_file(socket, file, at, 100_000).expect("the end"), 0);
        });
    }

    #[test]
    fn splice_moves_every_byte() {
        through(|socket, file| {
            let (mut pipe, mut at) = (Splice::new().expect("a pipe"), 0);
            while at < 300_000 {
                at += pipe.send(socket, file, at, 300_000).expect("sent") as u64;
            }
        });
    }
}
