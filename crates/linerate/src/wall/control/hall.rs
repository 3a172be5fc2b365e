//! What all connections of a hub share: who is there, the barrier, and the newest status and timeline as text.

use super::barrier::{Barrier, Verdict};
use super::limits::{STRANGERS, known_places};
use super::outbox::{Outbox, Slot};
use super::{Conductor, Message};
use crate::agent::{Key, lock};
use crate::wall::geometry::TileId;
use crate::web::Places;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// A status younger than this is not asked for again, however many watch.
const FRESH: Duration = Duration::from_millis(40);

/// Shared by the listeners, the connections and the hub's keeper.
pub struct Hall {
    pub conductor: Arc<dyn Conductor>,
    pub key: Key,
    pub strangers: Arc<Places>,
    pub known: Arc<Places>,
    /// The conductor says that the timeline changed.
    pub changed: Notify,
    /// Somebody waits at the barrier.
    pub waited: Notify,
    next_number: AtomicU64,
    guests: Mutex<HashMap<u64, Guest>>,
    barrier: Mutex<Barrier>,
    /// The newest tick that the screens were told to show.
    shown: Mutex<Option<u64>>,
    status: Mutex<Option<Kept>>,
    /// The generation that was told last.
    told: Mutex<Option<u64>>,
}

/// A status that was asked for.
struct Kept {
    at: Instant,
    text: Arc<str>,
    tiles: Vec<TileId>,
}

struct Guest {
    outbox: Arc<Outbox>,
    joined: bool,
    watches: bool,
    /// It is a server that follows.
    follows: bool,
}

/// A message as text; what cannot be written as JSON (there is no such message) says so.
pub fn text(message: &Message) -> Arc<str> {
    let text = serde_json::to_string(message);
    text.unwrap_or_else(|_| "{\"is\":\"refused\",\"why\":\"the answer cannot be written\"}".into()).into()
}

/// A refusal as text.
pub fn refusal(why: impl Into<String>) -> Arc<str> {
    text(&Message::Refused { why: why.into() })
}

impl Hall {
    /// Nobody is there yet.
    pub fn new(conductor: Arc<dyn Conductor>, key: Key) -> Hall {
        let tiles = conductor.status().tiles.len();
        Hall {
            key,
            strangers: Places::new(STRANGERS),
            known: Places::new(known_places(tiles)),
            changed: Notify::new(),
            waited: Notify::new(),
            next_number: AtomicU64::new(1),
            guests: Mutex::default(),
            barrier: Mutex::default(),
            shown: Mutex::default(),
            status: Mutex::default(),
            told: Mutex::new(Some(conductor.timeline().generation)),
            conductor,
        }
    }

    /// Places of the page's connections: a browser takes up to six for a moment, and one for good.
    pub fn strangers_of_page(&self) -> Arc<Places> {
        Places::new(STRANGERS)
    }

    /// A connection that knows the key comes in; its number and what will be sent to it.
    pub fn enter(&self) -> (u64, Arc<Outbox>) {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let outbox = Arc::new(Outbox::default());
        let guest = Guest { outbox: outbox.clone(), joined: false, watches: false, follows: false };
        lock(&self.guests).insert(number, guest);
        (number, outbox)
    }

    /// It is gone; the barrier does not wait for it.
    pub fn leave(&self, number: u64) {
        lock(&self.guests).remove(&number);
        let verdict = lock(&self.barrier).leave(number);
        self.act(number, &verdict);
    }

    /// It is a screen now.
    pub fn joined(&self, number: u64) {
        if let Some(guest) = lock(&self.guests).get_mut(&number) {
            guest.joined = true;
        }
    }

    /// It watches, or not any more.
    pub fn watches(&self, number: u64, watches: bool) {
        if let Some(guest) = lock(&self.guests).get_mut(&number) {
            guest.watches = watches;
        }
    }

    /// It is a server that follows. False: it was that before.
    pub fn follows(&self, number: u64) -> bool {
        let mut guests = lock(&self.guests);
        guests.get_mut(&number).is_some_and(|guest| !std::mem::replace(&mut guest.follows, true))
    }

    /// The status as text, and the tiles in it.
    pub fn status(&self) -> (Arc<str>, Vec<TileId>) {
        let mut kept = lock(&self.status);
        match &*kept {
            Some(kept) if kept.at.elapsed() < FRESH => (kept.text.clone(), kept.tiles.clone()),
            _ => {
                let status = self.conductor.status();
                let tiles: Vec<TileId> = status.tiles.iter().map(|tile| tile.tile).collect();
                let text = text(&Message::Status(Box::new(status)));
                *kept = Some(Kept { at: Instant::now(), text: text.clone(), tiles: tiles.clone() });
                (text, tiles)
            }
        }
    }

    /// Something was done: the next status is asked for anew, and a changed timeline is told to all who joined or watch.
    pub fn tell(&self) {
        *lock(&self.status) = None;
        let timeline = self.conductor.timeline();
        if lock(&self.told).replace(timeline.generation) == Some(timeline.generation) {
            return;
        }
        let text = text(&Message::Timeline(timeline));
        let guests = lock(&self.guests);
        for guest in guests.values().filter(|guest| guest.joined || guest.watches) {
            guest.outbox.newest(Slot::Timeline, text.clone());
        }
        if guests.values().any(|guest| guest.follows) {
            let lead = self.lead();
            for guest in guests.values().filter(|guest| guest.follows) {
                guest.outbox.newest(Slot::Lead, lead.clone());
            }
        }
    }

    /// What a server that follows plays, as text.
    pub fn lead(&self) -> Arc<str> {
        text(&Message::Lead(self.conductor.lead()))
    }

    /// A screen holds a tick. The sentence says why that cannot be.
    pub fn ready(&self, number: u64, tick: u64) -> Result<(), String> {
        // A screen whose clock is wrong would otherwise show all others their future.
        let rate = self.conductor.timeline().frames_per_second;
        let now = rate.tick_at(std::time::SystemTime::now());
        if tick.abs_diff(now) as f64 > rate.per_second() * 60.0 {
            return Err(format!(
                "tick {tick} is more than a minute away from {now}, which the server's clock shows: set the clocks of both hosts (NTP)"
            ));
        }
        let verdict = lock(&self.barrier).ready(number, tick, Instant::now());
        self.act(number, &verdict);
        self.waited.notify_one();
        Ok(())
    }

    /// When somebody will have waited too long at the barrier.
    pub fn barrier_deadline(&self) -> Option<Instant> {
        lock(&self.barrier).deadline()
    }

    /// Leaves behind who lets others wait.
    pub fn pass_barrier(&self) {
        let verdict = lock(&self.barrier).pass(Instant::now());
        self.act(0, &verdict);
    }

    /// All that take part hold this tick: screens and servers that follow are told.
    pub fn show(&self, tick: u64) {
        let mut shown = lock(&self.shown);
        if *shown >= Some(tick) {
            return;
        }
        *shown = Some(tick);
        let text = text(&Message::Show { tick });
        for guest in lock(&self.guests).values().filter(|guest| guest.joined || guest.follows) {
            guest.outbox.newest(Slot::Show, text.clone());
        }
    }

    fn act(&self, number: u64, verdict: &Verdict) {
        match verdict {
            Verdict::Wait => {}
            Verdict::Show(tick) if self.conductor.waits_for_leader(*tick) => {}
            Verdict::Show(tick) => self.show(*tick),
            // What the screens of another server still wait for is not shown by one that is late here.
            Verdict::Late(_) => {
                let Some(tick) = *lock(&self.shown) else { return };
                if let Some(guest) = lock(&self.guests).get(&number) {
                    guest.outbox.newest(Slot::Show, text(&Message::Show { tick }));
                }
            }
        }
    }
}
