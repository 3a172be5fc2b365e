//! What waits to be sent to one connection. It is bounded: of what is only worth something while it is new
//! (status, timeline, `Show`, previews) the newest is kept; answers are kept in order, and who does not fetch
//! them is closed.

use crate::geometry::TileId;
use linerate_system::lock;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Answers that may wait; more means that somebody asks and does not read.
const MOST_ANSWERS: usize = 256;
/// Bytes of them.
const MOST_ANSWER_BYTES: usize = 4 << 20;

/// One thing to send.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    /// A message as JSON.
    Text(Arc<str>),
    /// A preview, for the page alone.
    Binary(Vec<u8>),
}

/// What is only worth something while it is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// Screens wait for it.
    Show,
    Timeline,
    Lead,
    Status,
}

/// Filled by anybody, emptied by the connection's task.
#[derive(Default)]
pub(crate) struct Outbox {
    inside: Mutex<Inside>,
    filled: Notify,
}

#[derive(Default)]
struct Inside {
    answers: VecDeque<Arc<str>>,
    answer_bytes: usize,
    newest: BTreeMap<Slot, Arc<str>>,
    previews: BTreeMap<TileId, Vec<u8>>,
    closed: bool,
}

impl Outbox {
    /// Adds an answer. False: too many wait.
    pub(crate) fn answer(&self, text: Arc<str>) -> bool {
        let mut inside = lock(&self.inside);
        if inside.answers.len() >= MOST_ANSWERS || inside.answer_bytes + text.len() > MOST_ANSWER_BYTES {
            return false;
        }
        inside.answer_bytes += text.len();
        inside.answers.push_back(text);
        drop(inside);
        self.filled.notify_one();
        true
    }

    /// Puts this in the place of an older one.
    pub(crate) fn newest(&self, slot: Slot, text: Arc<str>) {
        lock(&self.inside).newest.insert(slot, text);
        self.filled.notify_one();
    }

    /// Puts a tile's preview in the place of an older one.
    pub(crate) fn preview(&self, tile: TileId, bytes: Vec<u8>) {
        lock(&self.inside).previews.insert(tile, bytes);
        self.filled.notify_one();
    }

    /// Throws away all that waits but for these last words, and ends after them.
    pub(crate) fn close(&self, last: Arc<str>) {
        let mut inside = lock(&self.inside);
        if !inside.closed {
            *inside = Inside { answers: VecDeque::from([last]), closed: true, ..Inside::default() };
        }
        drop(inside);
        self.filled.notify_one();
    }

    /// It ends once it is empty.
    pub(crate) fn closed(&self) -> bool {
        lock(&self.inside).closed
    }

    /// The next thing to send, when there is one; none: it was closed, and is empty. May be dropped while it
    /// waits.
    pub(crate) async fn next(&self) -> Option<Item> {
        loop {
            {
                let mut inside = lock(&self.inside);
                if let Some(item) = inside.pop() {
                    return Some(item);
                }
                if inside.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }
}

impl Inside {
    fn pop(&mut self) -> Option<Item> {
        if let Some(text) = self.answers.pop_front() {
            self.answer_bytes = self.answer_bytes.saturating_sub(text.len());
            return Some(Item::Text(text));
        }
        if let Some((_, text)) = self.newest.pop_first() {
            return Some(Item::Text(text));
        }
        self.previews.pop_first().map(|(_, bytes)| Item::Binary(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(outbox: &Outbox) -> Vec<Item> {
        std::iter::from_fn(|| lock(&outbox.inside).pop()).collect()
    }

    #[test]
    fn of_what_is_new_the_newest_is_kept_and_answers_are_all_kept_in_order() {
        let outbox = Outbox::default();
        for n in 0..1000 {
            outbox.newest(Slot::Status, format!("status {n}").into());
            outbox.newest(Slot::Show, format!("show {n}").into());
            outbox.preview(TileId { row: 0, column: n % 2 }, vec![n as u8]);
        }
        assert!(outbox.answer("first".into()) && outbox.answer("second".into()));
        let text = |text: &str| Item::Text(text.into());
        let expected = [text("first"), text("second"), text("show 999"), text("status 999")];
        let found = all(&outbox);
        assert_eq!(found[..4], expected);
        assert_eq!(found[4..], [Item::Binary(vec![998u16 as u8]), Item::Binary(vec![999u16 as u8])]);
    }

    #[test]
    fn answers_that_nobody_fetches_are_bounded_in_number_and_bytes() {
        let outbox = Outbox::default();
        let kept = (0..1000).take_while(|_| outbox.answer("x".into())).count();
        assert_eq!(kept, MOST_ANSWERS);
        let outbox = Outbox::default();
        let large: Arc<str> = "x".repeat(1 << 20).into();
        assert_eq!((0..100).take_while(|_| outbox.answer(large.clone())).count(), 4);
        outbox.close("last words".into());
        outbox.newest(Slot::Status, "too late, but harmless".into());
        assert_eq!(all(&outbox)[0], Item::Text("last words".into()));
    }
}
