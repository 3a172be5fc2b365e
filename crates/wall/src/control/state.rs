//! What all connections of a hub share: who is there, the barrier, and the newest status and timeline as
//! text.

use super::barrier::{Barrier, ReadyResult};
use super::outbox::{Outbox, Slot};
use super::{Conductor, ControlMessage, most_connections};
use crate::geometry::TileId;
use linerate_system::{clock, lock};
use linerate_transport::admission::{PENDING_CONNECTIONS, Permits, SharedPending, TIME_TO_PROVE};
use linerate_transport::agent::Key;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// A status younger than this is not asked for again, however many watch.
const FRESH: Duration = Duration::from_millis(40);

/// Shared by the listeners, the connections and the hub's keeper.
pub(crate) struct ControlState {
    pub conductor: Arc<dyn Conductor>,
    pub key: Key,
    /// Connections that have not shown the key yet, each a task, which ends where the sender is dropped.
    pub pending: SharedPending<oneshot::Sender<()>>,
    /// Of those that have shown it, the page's as well.
    pub admitted: Arc<Permits>,
    /// The conductor says that the timeline changed.
    pub changed: Notify,
    /// Somebody waits at the barrier.
    pub waited: Notify,
    next_number: AtomicU64,
    connected: Mutex<HashMap<u64, Connected>>,
    barrier: Mutex<Barrier>,
    /// The newest tick that the screens were told to show.
    shown: Mutex<Option<u64>>,
    status: Mutex<Option<Kept>>,
    /// The generation that was announced last.
    announced: Mutex<Option<u64>>,
}

/// A tick that a screen cannot hold: its clock, or ours, is wrong.
#[derive(Debug, thiserror::Error)]
#[error(
    "tick {tick} is more than a minute away from {now}, which the server's clock shows: set the clocks of both \
     hosts (NTP)"
)]
pub(crate) struct FarTick {
    tick: u64,
    now: u64,
}

/// A status that was asked for.
struct Kept {
    at: Instant,
    text: Arc<str>,
    tiles: Vec<TileId>,
}

struct Connected {
    outbox: Arc<Outbox>,
    joined: bool,
    watches: bool,
    /// It is a server that follows.
    follows: bool,
}

/// A message as text; what cannot be written as JSON (there is no such message) says so.
pub(crate) fn text(message: &ControlMessage) -> Arc<str> {
    let text = serde_json::to_string(message);
    text.unwrap_or_else(|_| "{\"is\":\"refused\",\"why\":\"the answer cannot be written\"}".into()).into()
}

/// A refusal as text.
pub(crate) fn refusal(why: impl Into<String>) -> Arc<str> {
    text(&ControlMessage::Refused { why: why.into() })
}

impl ControlState {
    /// Nobody is connected yet.
    pub(crate) fn new(conductor: Arc<dyn Conductor>, key: Key) -> ControlState {
        let tiles = conductor.status().tiles.len();
        ControlState {
            key,
            pending: SharedPending::new(PENDING_CONNECTIONS, TIME_TO_PROVE),
            admitted: Permits::shared(most_connections(tiles)),
            changed: Notify::new(),
            waited: Notify::new(),
            next_number: AtomicU64::new(1),
            connected: Mutex::default(),
            barrier: Mutex::default(),
            shown: Mutex::default(),
            status: Mutex::default(),
            announced: Mutex::new(Some(conductor.timeline().generation)),
            conductor,
        }
    }

    /// A connection that knows the key comes in; its number and what will be sent to it.
    pub(crate) fn connect(&self) -> (u64, Arc<Outbox>) {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let outbox = Arc::new(Outbox::default());
        let one = Connected { outbox: outbox.clone(), joined: false, watches: false, follows: false };
        lock(&self.connected).insert(number, one);
        (number, outbox)
    }

    /// It is gone; the barrier does not wait for it.
    pub(crate) fn disconnect(&self, number: u64) {
        lock(&self.connected).remove(&number);
        let verdict = lock(&self.barrier).leave(number);
        self.act(number, &verdict);
    }

    /// It is a screen now.
    pub(crate) fn joined(&self, number: u64) {
        if let Some(one) = lock(&self.connected).get_mut(&number) {
            one.joined = true;
        }
    }

    /// It watches, or not any more.
    pub(crate) fn watches(&self, number: u64, watches: bool) {
        if let Some(one) = lock(&self.connected).get_mut(&number) {
            one.watches = watches;
        }
    }

    /// It is a server that follows. False: it was that before.
    pub(crate) fn follows(&self, number: u64) -> bool {
        let mut connected = lock(&self.connected);
        connected.get_mut(&number).is_some_and(|one| !std::mem::replace(&mut one.follows, true))
    }

    /// The status as text, and the tiles in it.
    pub(crate) fn status(&self) -> (Arc<str>, Vec<TileId>) {
        let mut kept = lock(&self.status);
        match &*kept {
            Some(kept) if clock::since(kept.at) < FRESH => (kept.text.clone(), kept.tiles.clone()),
            _ => {
                let status = self.conductor.status();
                let tiles: Vec<TileId> = status.tiles.iter().map(|tile| tile.tile).collect();
                let text = text(&ControlMessage::Status(Box::new(status)));
                *kept = Some(Kept { at: clock::now(), text: text.clone(), tiles: tiles.clone() });
                (text, tiles)
            }
        }
    }

    /// Something was done: the next status is asked for again, and a changed timeline is sent to all who
    /// joined or watch.
    pub(crate) fn tell(&self) {
        *lock(&self.status) = None;
        let timeline = self.conductor.timeline();
        if lock(&self.announced).replace(timeline.generation) == Some(timeline.generation) {
            return;
        }
        let text = text(&ControlMessage::Timeline(timeline));
        let connected = lock(&self.connected);
        for one in connected.values().filter(|one| one.joined || one.watches) {
            one.outbox.newest(Slot::Timeline, text.clone());
        }
        if connected.values().any(|one| one.follows) {
            let lead = self.lead();
            for one in connected.values().filter(|one| one.follows) {
                one.outbox.newest(Slot::Lead, lead.clone());
            }
        }
    }

    /// What a server that follows plays, as text.
    pub(crate) fn lead(&self) -> Arc<str> {
        text(&ControlMessage::Lead(self.conductor.lead()))
    }

    /// A screen holds a tick.
    pub(crate) fn ready(&self, number: u64, tick: u64) -> Result<(), FarTick> {
        // A screen whose clock is wrong would otherwise show all others their future.
        let rate = self.conductor.timeline().frames_per_second;
        let now = rate.tick_at(clock::date());
        if tick.abs_diff(now) as f64 > rate.per_second() * 60.0 {
            return Err(FarTick { tick, now });
        }
        let verdict = lock(&self.barrier).ready(number, tick, clock::now());
        self.act(number, &verdict);
        self.waited.notify_one();
        Ok(())
    }

    /// When somebody will have waited too long at the barrier.
    pub(crate) fn barrier_deadline(&self) -> Option<Instant> {
        lock(&self.barrier).deadline()
    }

    /// Leaves behind who lets others wait.
    pub(crate) fn pass_barrier(&self) {
        let verdict = lock(&self.barrier).pass(clock::now());
        self.act(0, &verdict);
    }

    /// All that take part hold this tick: screens and servers that follow are told.
    pub(crate) fn show(&self, tick: u64) {
        let mut shown = lock(&self.shown);
        if *shown >= Some(tick) {
            return;
        }
        *shown = Some(tick);
        let text = text(&ControlMessage::Show { tick });
        for one in lock(&self.connected).values().filter(|one| one.joined || one.follows) {
            one.outbox.newest(Slot::Show, text.clone());
        }
    }

    fn act(&self, number: u64, verdict: &ReadyResult) {
        match verdict {
            ReadyResult::Wait => {}
            ReadyResult::Show(tick) if self.conductor.waits_for_leader(*tick) => {}
            ReadyResult::Show(tick) => self.show(*tick),
            // What the screens of another server still wait for is not shown by one that is late here.
            ReadyResult::Late(_) => {
                let Some(tick) = *lock(&self.shown) else { return };
                if let Some(one) = lock(&self.connected).get(&number) {
                    one.outbox.newest(Slot::Show, text(&ControlMessage::Show { tick }));
                }
            }
        }
    }
}
