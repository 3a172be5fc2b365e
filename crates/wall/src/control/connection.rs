//! One connection that knows the key, whatever carries it: hears its requests, and sees to what it watches.

use super::outbox::{Item, Outbox, Slot};
use super::state::{ControlState, refusal, text};
use super::{
    ControlMessage, ControlRequest, IDLE_CONNECTION, Preview, REQUESTS_AHEAD, REQUESTS_PER_SECOND,
    SEND_PATIENCE, WATCH_PER_SECOND,
};
use crate::geometry::TileId;
use linerate_system::clock;
use linerate_transport::admission::Permit;
use linerate_transport::flow::rate_limit::Allowance;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Checksums that are asked for at once.
const MOST_SUMS: u32 = 4096;
/// Of what was not understood so much is repeated.
const REPEATED_CHARS: usize = 200;

/// The connection has ended.
pub(crate) struct Disconnected;

/// What carries the messages. `receive` may be dropped while it waits, and loses nothing.
pub(crate) trait Wire {
    fn receive(&mut self) -> impl Future<Output = Result<Vec<u8>, Disconnected>> + Send;
    fn send(&mut self, item: Item) -> impl Future<Output = Result<(), Disconnected>> + Send;
    /// Lets the last words arrive.
    fn end(&mut self) -> impl Future<Output = ()> + Send;
}

/// A connection that has shown the key; dropping it disconnects.
pub(crate) struct ControlConnection {
    state: Arc<ControlState>,
    number: u64,
    outbox: Arc<Outbox>,
    /// Requests, of which each counts as a byte.
    allowance: Allowance,
    heard: Instant,
    watch: Option<(Duration, Instant)>,
    joined: Option<TileId>,
    /// It is a server that follows.
    follows: bool,
    /// It can show previews; and what it was sent of each tile.
    previews: Option<HashMap<TileId, Preview>>,
    _permit: Permit,
}

/// Hears and sends until one side ends.
pub(crate) async fn serve(wire: &mut impl Wire, mut connection: ControlConnection) {
    let outbox = connection.outbox.clone();
    loop {
        let due = tokio::time::Instant::from_std(connection.due());
        tokio::select! {
            // What was answered is sent before more is heard: who does not read is not listened to.
            biased;
            item = outbox.next() => {
                let Some(item) = item else { break };
                if !matches!(tokio::time::timeout(SEND_PATIENCE, wire.send(item)).await, Ok(Ok(()))) {
                    return;
                }
            }
            heard = wire.receive(), if !outbox.closed() => match heard {
                Ok(text) => connection.hear(&text),
                Err(Disconnected) => return,
            },
            () = tokio::time::sleep_until(due) => connection.on_time(),
        }
    }
    let _ = tokio::time::timeout(Duration::from_secs(1), wire.end()).await;
}

impl ControlConnection {
    /// With its permit; `previews`: it is the page, which can show them.
    pub(crate) fn new(state: &Arc<ControlState>, permit: Permit, previews: bool) -> ControlConnection {
        let (number, outbox) = state.connect();
        let now = clock::now();
        ControlConnection {
            state: state.clone(),
            number,
            outbox,
            allowance: Allowance::new(REQUESTS_PER_SECOND, now),
            heard: now,
            watch: None,
            joined: None,
            follows: false,
            previews: previews.then(HashMap::new),
            _permit: permit,
        }
    }

    /// One message of the other side; an empty one asks for nothing.
    pub(crate) fn hear(&mut self, text: &[u8]) {
        self.heard = clock::now();
        if self.allowance.charge(1, self.heard) > REQUESTS_AHEAD {
            return self.close(
                "this connection sends too many requests: 300 a second are taken; a joystick needs 60",
            );
        }
        if text.is_empty() {
            return;
        }
        match serde_json::from_slice::<ControlRequest>(text) {
            Ok(request) => self.grant(request),
            Err(error) => {
                let why: String = error.to_string().chars().take(REPEATED_CHARS).collect();
                self.answer(&ControlMessage::Refused {
                    why: format!("the request is not understood: {why}"),
                });
            }
        }
    }

    /// When [`ControlConnection::on_time`] wants to be called.
    pub(crate) fn due(&self) -> Instant {
        self.watch.map_or(self.heard + IDLE_CONNECTION, |(_, next)| next)
    }

    /// Sends what is watched; ends who neither watches nor speaks.
    pub(crate) fn on_time(&mut self) {
        let now = clock::now();
        if let Some((every, next)) = &mut self.watch {
            if *next <= now {
                // Not from `next`: what was missed is not made up for.
                *next = now + *every;
                self.show_status();
            }
        } else if now.duration_since(self.heard) >= IDLE_CONNECTION && self.joined.is_none() {
            self.close("nothing was said for two minutes: send “watch” to stay");
        } else if self.joined.is_some() {
            self.heard = now;
        }
    }

    fn grant(&mut self, request: ControlRequest) {
        let conductor = self.state.conductor.clone();
        match request {
            ControlRequest::Movies => self.answer(&ControlMessage::Movies { movies: conductor.movies() }),
            ControlRequest::Status => {
                let (text, _) = self.state.status();
                self.answer_text(text);
            }
            ControlRequest::Watch { per_second } => self.set_watch(per_second),
            ControlRequest::Join { tile } => self.join(tile),
            ControlRequest::Report(mut report) => match self.joined {
                Some(tile) => {
                    report.tile = Some(tile);
                    conductor.report(&report);
                }
                None => self.close("a report is for a screen that has joined: send “join” first"),
            },
            ControlRequest::Follow { server } => self.follow(&server),
            ControlRequest::Ready { tile, tick } if self.joined == Some(tile) => {
                if let Err(why) = self.state.ready(self.number, tick) {
                    self.close(&why.to_string());
                }
            }
            ControlRequest::Ready { .. } => {
                self.close("“ready” is for a screen that has joined: send “join” first")
            }
            ControlRequest::AllReady { tick } if self.follows => {
                if let Err(why) = self.state.ready(self.number, tick) {
                    self.close(&why.to_string());
                }
            }
            ControlRequest::AllReady { .. } => {
                self.close("“all-ready” is for a server that follows: send “follow” first");
            }
            ControlRequest::Sums { tile, from, count } => {
                let sums = conductor.sums(tile, from, count.min(MOST_SUMS));
                self.answer(&ControlMessage::Sums { tile, from, sums });
            }
            other => {
                let answer = match conductor.ask(&other) {
                    Ok(()) => ControlMessage::Done,
                    Err(why) => ControlMessage::Refused { why: why.to_string() },
                };
                self.answer(&answer);
                self.state.tell();
                // The status that waits is older than the answer. A joystick's next one comes soon enough.
                if self.watch.is_some() && !matches!(other, ControlRequest::Pan { .. }) {
                    self.outbox.newest(Slot::Status, self.state.status().0);
                }
            }
        }
    }

    fn set_watch(&mut self, per_second: f64) {
        let every = Duration::try_from_secs_f64(1.0 / per_second.min(WATCH_PER_SECOND));
        // Zero, what is below, and less than once an hour: none.
        self.watch =
            every.ok().filter(|every| *every <= Duration::from_secs(3600)).map(|every| (every, clock::now()));
        self.state.watches(self.number, self.watch.is_some());
        self.answer(&ControlMessage::Done);
        if self.watch.is_some() {
            self.outbox
                .newest(Slot::Timeline, text(&ControlMessage::Timeline(self.state.conductor.timeline())));
        }
    }

    fn join(&mut self, tile: TileId) {
        match self.state.conductor.assignment(tile) {
            Ok(assignment) => {
                self.joined = Some(tile);
                self.state.joined(self.number);
                self.answer(&ControlMessage::Assignment(assignment));
            }
            Err(why) => self.answer(&ControlMessage::Refused { why: why.to_string() }),
        }
    }

    fn follow(&mut self, server: &str) {
        match self.state.conductor.followed(server) {
            Ok(()) => {
                self.follows = true;
                self.answer(&ControlMessage::Done);
                if self.state.follows(self.number) {
                    self.outbox.newest(Slot::Lead, self.state.lead());
                }
            }
            Err(why) => self.answer(&ControlMessage::Refused { why: why.to_string() }),
        }
    }

    fn show_status(&mut self) {
        let (text, tiles) = self.state.status();
        self.outbox.newest(Slot::Status, text);
        let Some(sent) = &mut self.previews else { return };
        for preview in tiles.into_iter().filter_map(|tile| self.state.conductor.preview(tile)) {
            if sent.get(&preview.tile) != Some(&preview) {
                self.outbox.preview(preview.tile, binary(&preview));
                sent.insert(preview.tile, preview);
            }
        }
    }

    fn answer(&self, message: &ControlMessage) {
        self.answer_text(text(message));
    }

    fn answer_text(&self, text: Arc<str>) {
        if !self.outbox.answer(text) {
            self.close("this connection asks and does not read the answers");
        }
    }

    fn close(&self, why: &str) {
        self.outbox.close(refusal(why));
    }
}

impl Drop for ControlConnection {
    fn drop(&mut self) {
        self.state.disconnect(self.number);
    }
}

/// Row, column, width and height as u16, big endian; then 8-bit RGB, line by line.
fn binary(preview: &Preview) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + preview.rgb.len());
    for number in [preview.tile.row, preview.tile.column, preview.width, preview.height] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(&preview.rgb);
    bytes
}
