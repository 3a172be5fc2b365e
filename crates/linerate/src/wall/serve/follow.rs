//! One of several servers of a wall: it takes over the timeline of the one that leads, over the control channel.
//!
//! Both count the same ticks on their clocks, so nothing else has to be said while it plays; without the leader it goes on by what it heard last.

use super::player::Player;
use crate::agent::Key;
use crate::failure::Failure;
use crate::wall::control::{Client, Message, Request};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A leader that cannot be reached is asked again this often.
const AGAIN: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_secs(3);
/// The end is looked for this often.
const LOOK: Duration = Duration::from_millis(100);
/// Statuses a second; the timeline comes with each change.
const WATCH: f64 = 0.5;

/// What keeps this server from following, if anything does.
#[derive(Clone, Debug, Default)]
pub struct Following(Arc<Mutex<Option<String>>>);

impl Following {
    /// The last trouble with the leader.
    pub fn problem(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell(&self, problem: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

/// Follows on a thread of its own until the player ends.
pub fn follow(player: &Arc<Player>, leader: String, key: Key) -> Result<Following, Failure> {
    let (following, player) = (Following::default(), Arc::clone(player));
    let told = following.clone();
    let thread = std::thread::Builder::new().name("follow".into()).spawn(move || {
        while !player.stopped() {
            if let Err(failure) = listen(&player, &leader, &key, &told) {
                told.tell(Some(format!(
                    "the leading server {leader} is not heard, so its last word counts: {failure}"
                )));
                std::thread::sleep(AGAIN);
            }
        }
    });
    thread.map_err(|error| Failure::Lacks(format!("no thread to follow the leading server: {error}")))?;
    Ok(following)
}

fn listen(player: &Player, leader: &str, key: &Key, told: &Following) -> Result<(), Failure> {
    let mut client = Client::connect(leader, key, CONNECT)?;
    client.ask(&Request::Watch { per_second: WATCH }, CONNECT)?;
    told.tell(None);
    while !player.stopped() {
        match client.next(LOOK)? {
            Some(Message::Timeline(timeline)) => player.follow(timeline)?,
            Some(Message::Status(status)) => player.follow_scene(&status.movie, status.view),
            _ => {}
        }
    }
    Ok(())
}
