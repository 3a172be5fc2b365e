//! Between the thread that receives and the one that shows: one frame, the newest. anyone who gives never
//! waits.

use crate::geometry::Size;
use hdrhistogram::Histogram;
use linerate_system::clock;
use linerate_system::lock;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// A frame that takes longer counts as so long, microseconds: a minute.
const MOST_MICROS: u64 = 60_000_000;

/// A frame on its way to the window.
#[derive(Debug)]
pub(crate) struct Frame {
    pub bytes: Vec<u8>,
    pub size: Size,
    /// When it was due, and given.
    pub given: Instant,
}

/// What a window's title tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WindowTitle {
    /// The tile, or where the screen listens.
    pub name: String,
    /// Frames a second that there should be, as it is written.
    pub rate: Option<String>,
    /// Frames that were torn or did not come at all.
    pub lost: u64,
}

/// How the window ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WindowEnd {
    /// By anyone who looked: the window was closed, or q was pressed.
    Closed,
    /// The display has gone; a sentence.
    Failed(String),
    /// Because no more frames come.
    Over,
}

/// What the window has done so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WindowProgress {
    pub given: u64,
    /// Frames that the display has taken.
    pub shown: u64,
    /// Frames that a newer one took the place of.
    pub dropped: u64,
    /// Pixels of the window.
    pub size: Option<Size>,
    pub full_screen: bool,
    /// Pixels go through shared memory.
    pub shared: bool,
}

/// The letter box of one window.
#[derive(Debug)]
pub(crate) struct Mailbox {
    inside: Mutex<Inside>,
    /// A byte in it wakes the window's thread.
    bell: UnixStream,
    heard: UnixStream,
}

#[derive(Debug)]
struct Inside {
    frame: Option<Frame>,
    /// A buffer to give in exchange for the next frame.
    spare: Vec<u8>,
    last_title: WindowTitle,
    over: bool,
    ended: Option<WindowEnd>,
    done: WindowProgress,
    /// From given to taken by the display, microseconds.
    delays: Option<Histogram<u64>>,
}

impl Mailbox {
    /// An empty one.
    pub(crate) fn new(last_title: WindowTitle) -> std::io::Result<Mailbox> {
        let (bell, heard) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        let delays = Histogram::new_with_bounds(1, MOST_MICROS, 3).ok();
        let (over, ended, done) = (false, None, WindowProgress::default());
        let inside =
            Mutex::new(Inside { frame: None, spare: Vec::new(), last_title, over, ended, done, delays });
        Ok(Mailbox { inside, bell, heard })
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        lock(&self.inside)
    }

    fn ring(&self) {
        // Full: it rings already.
        let _ = (&self.bell).write(&[1]);
    }

    /// Gives a frame and gets another buffer of its length for it.
    pub(crate) fn give(&self, bytes: &mut Vec<u8>, size: Size) {
        let mut inside = self.lock();
        inside.done.given += 1;
        let mut other = match inside.frame.take() {
            Some(overtaken) => {
                inside.done.dropped += 1;
                overtaken.bytes
            }
            None => std::mem::take(&mut inside.spare),
        };
        if other.len() != bytes.len() {
            other = vec![0; bytes.len()];
        }
        std::mem::swap(bytes, &mut other);
        inside.frame = Some(Frame { bytes: other, size, given: clock::now() });
        drop(inside);
        self.ring();
    }

    /// Takes the newest frame in exchange for the one before; false: there is none.
    pub(crate) fn take(&self, current: &mut Option<Frame>) -> bool {
        let mut inside = self.lock();
        let Some(frame) = inside.frame.take() else { return false };
        if let Some(before) = current.replace(frame) {
            inside.spare = before.bytes;
        }
        true
    }

    /// The display has taken a frame that was given then.
    pub(crate) fn shown(&self, given: Instant) {
        let mut inside = self.lock();
        inside.done.shown += 1;
        let micros = u64::try_from(clock::since(given).as_micros()).unwrap_or(u64::MAX);
        if let Some(delays) = &mut inside.delays {
            delays.saturating_record(micros.clamp(1, MOST_MICROS));
        }
    }

    /// The window's thread tells how its window is.
    pub(crate) fn is_now(&self, size: Size, full_screen: bool, shared: bool) {
        let done = &mut self.lock().done;
        (done.size, done.full_screen, done.shared) = (Some(size), full_screen, shared);
    }

    pub(crate) fn done(&self) -> WindowProgress {
        self.lock().done.clone()
    }

    /// A quantile of the time from a frame's deadline until the display had taken it, milliseconds.
    pub(crate) fn delay_ms(&self, quantile: f64) -> Option<f64> {
        let inside = self.lock();
        let delays = inside.delays.as_ref().filter(|delays| !delays.is_empty())?;
        Some(delays.value_at_quantile(quantile) as f64 / 1000.0)
    }

    /// What the title is to say.
    pub(crate) fn tell(&self, title: WindowTitle) {
        self.lock().last_title = title;
    }

    pub(crate) fn last_title(&self) -> WindowTitle {
        self.lock().last_title.clone()
    }

    /// No more frames come.
    pub(crate) fn end(&self) {
        self.lock().over = true;
        self.ring();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// The window's thread has ended.
    pub(crate) fn ended(&self, how: WindowEnd) {
        self.lock().ended.get_or_insert(how);
    }

    pub(crate) fn how_it_ended(&self) -> Option<WindowEnd> {
        self.lock().ended.clone()
    }

    /// What to wait for.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.heard.as_fd()
    }

    /// It was heard.
    pub(crate) fn silence(&self) {
        let mut rings = [0; 64];
        while (&self.heard).read(&mut rings).is_ok_and(|count| count == rings.len()) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { width: 2, height: 1 };

    #[test]
    fn the_newest_frame_wins_and_buffers_go_round() {
        let mailbox = Mailbox::new(WindowTitle::default()).expect("a mailbox");
        let (mut bytes, mut current) = (vec![1; 6], None);
        assert!(!mailbox.take(&mut current));
        mailbox.give(&mut bytes, SIZE);
        assert_eq!(bytes, [0; 6], "a new buffer of its length");
        bytes.fill(2);
        mailbox.give(&mut bytes, SIZE);
        assert_eq!(bytes, [1; 6], "the overtaken one's");
        assert!(mailbox.take(&mut current));
        assert_eq!(current.as_ref().map(|frame| frame.bytes.clone()), Some(vec![2; 6]));
        mailbox.give(&mut bytes, SIZE);
        assert!(mailbox.take(&mut current));
        mailbox.shown(current.as_ref().expect("one").given);
        bytes.fill(3);
        mailbox.give(&mut bytes, SIZE);
        assert_eq!(bytes, [2; 6], "the one that was shown before");
        let done = mailbox.done();
        assert_eq!((done.given, done.shown, done.dropped), (4, 1, 1));
        assert!(mailbox.delay_ms(0.5).is_some_and(|ms| ms < 10_000.0));
        mailbox.silence();
        assert!((&mailbox.heard).read(&mut [0]).is_err(), "nothing rings any more");
    }
}
