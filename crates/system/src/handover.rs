//! Pages of a file to a socket without a copy through user space: sendfile(2), splice(2), tee(2), and memory
//! that passes for a file (memfd).

use rustix::fs::MemfdFlags;
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

/// The most that a pipe is made to hold: as much as a user without privileges may ask (`fs.pipe-max-size`).
pub const MOST_PIPE_BYTES: usize = 1 << 20;

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

/// Pages of a file that stay in a pipe, to be sent again and again ([`Splice::send_kept`]): tee(2) takes another
/// reference of each, where splice(2) and sendfile(2) look each up in the page cache. The file must not be written
/// to meanwhile.
#[derive(Debug)]
pub struct KeptPages {
    out: OwnedFd,
}

impl KeptPages {
    /// The first `bytes` of the file.
    ///
    /// # Errors
    /// The user may have no pipe for so many, or the file is shorter.
    pub fn of(file: &impl AsFd, bytes: usize) -> io::Result<Self> {
        let (out, into) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::pipe::fcntl_setpipe_size(&into, bytes)?;
        let mut from = 0;
        while from < bytes as u64 {
            let left = bytes - from as usize;
            // Never waits: what does not fit is an error.
            let flags = SpliceFlags::NONBLOCK;
            if rustix::pipe::splice(file, Some(&mut from), &into, None, left, flags)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(KeptPages { out })
    }
}

/// The pipe that splice needs in between.
#[derive(Debug)]
pub struct Splice {
    out: OwnedFd,
    into: OwnedFd,
    /// Bytes that the pipe can hold.
    room: usize,
    /// Bytes in it that are still to go out.
    waiting: usize,
}

impl Splice {
    /// A pipe of its own for `bytes` at a time, at most [`MOST_PIPE_BYTES`].
    pub fn new(bytes: usize) -> io::Result<Self> {
        let (out, into) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // More than an unprivileged user may have in all pipes (`fs.pipe-user-pages-soft`) is refused: then it stays
        // at 64 KiB, or less.
        let room = rustix::pipe::fcntl_setpipe_size(&into, bytes.min(MOST_PIPE_BYTES))
            .or_else(|_| rustix::pipe::fcntl_getpipe_size(&into))?;
        Ok(Splice { out, into, room, waiting: 0 })
    }

    /// It holds more than the pipe that sendfile(2) has of its own, 16 pages: what is read of the page cache at a time.
    pub fn is_large(&self) -> bool {
        self.room >= MOST_PIPE_BYTES
    }

    /// Nothing waits in it to go out.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
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
        self.fill(file, offset, bytes)?;
        self.send_rest(socket, bytes)
    }

    /// The first half of [`Splice::send`], which waits for the disk alone: up to `bytes` of the file from `offset` on,
    /// unless some still wait to go out.
    pub fn fill(&mut self, file: &impl AsFd, offset: u64, bytes: usize) -> io::Result<()> {
        if self.is_empty() {
            let (mut from, length) = (offset, bytes.min(self.room));
            self.waiting =
                rustix::pipe::splice(file, Some(&mut from), &self.into, None, length, SpliceFlags::empty())?;
        }
        Ok(())
    }

    /// The same of the first `bytes` of pages that are kept, unless some still wait to go out.
    pub fn send_kept(&mut self, socket: &impl AsFd, pages: &KeptPages, bytes: usize) -> io::Result<usize> {
        if self.is_empty() {
            let length = bytes.min(self.room);
            self.waiting = rustix::pipe::tee(&pages.out, &self.into, length, SpliceFlags::empty())?;
        }
        self.send_rest(socket, bytes)
    }

    /// The second half of [`Splice::send`], which waits for room in the socket alone: what the pipe holds, up to `bytes`.
    pub fn send_rest(&mut self, socket: &impl AsFd, bytes: usize) -> io::Result<usize> {
        if self.is_empty() {
            return Ok(0);
        }
        // Without SPLICE_F_MORE: what a pipe holds is pushed at its end. Held back for the next one, bbr's rate fell by a
        // third on loopback; cubic's was the same.
        let flags = SpliceFlags::empty();
        let sent = rustix::pipe::splice(&self.out, None, socket, None, self.waiting.min(bytes), flags)?;
        self.waiting -= sent;
        Ok(sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::tests::connected;
    use std::io::Read;
    use std::net::TcpStream;

    fn through(move_all: impl FnOnce(&TcpStream, &File)) -> Vec<u8> {
        let content: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
        let file = memory_file(&content).expect("a memory file");
        let (sender, mut receiver) = connected();
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
            let (mut pipe, mut at) = (Splice::new(MOST_PIPE_BYTES).expect("a pipe"), 0);
            while at < 300_000 {
                at += pipe.send(socket, file, at, 300_000).expect("sent") as u64;
            }
        });
    }

    #[test]
    fn kept_pages_go_out_as_often_as_asked() {
        through(|socket, file| {
            let pages = KeptPages::of(file, 100_000).expect("kept");
            let mut pipe = Splice::new(MOST_PIPE_BYTES).expect("a pipe");
            // Of a shorter piece the rest comes from the file, as after a short write.
            let mut at = pipe.send_kept(socket, &pages, 60_001).expect("sent") as u64;
            while at < 300_000 {
                at += pipe.send(socket, file, at, 70_000).expect("sent") as u64;
            }
        });
        let (mut taker, sender) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let file = memory_file(&[7; 8192]).expect("a memory file");
        let pages = KeptPages::of(&file, 8192).expect("kept");
        drop(file);
        let mut pipe = Splice::new(MOST_PIPE_BYTES).expect("a pipe");
        for bytes in [8192, 5000, 8192] {
            assert_eq!(pipe.send_kept(&sender, &pages, bytes).expect("sent"), bytes);
        }
        drop(sender);
        let mut received = Vec::new();
        taker.read_to_end(&mut received).expect("received");
        assert_eq!(received, [7; 8192 + 5000 + 8192]);
    }

    #[test]
    fn more_than_a_file_has_is_not_kept() {
        let file = memory_file(&[7; 5000]).expect("a memory file");
        assert_eq!(KeptPages::of(&file, 256 << 10).expect_err("short").kind(), io::ErrorKind::UnexpectedEof);
    }
}
