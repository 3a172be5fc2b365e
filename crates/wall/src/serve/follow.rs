//! One of several servers of a wall: it plays what the one that leads says, over the control channel.
//!
//! Both count the same ticks on their clocks, so nothing else has to be said while it plays; without the
//! leader it goes on by what it heard last. Only screens with a barrier need more: each tick that all of this
//! server's hold is told to the leader, and shown at its word.

use super::conduct::LeadRefusal;
use super::player::Player;
use super::settings::Leader;
use crate::control::{Client, ControlMessage, ControlRequest, News};
use linerate_facts::failure::Failure;
use linerate_system::clock;
use linerate_transport::agent::Key;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// A leader that cannot be reached is asked again this often; and it is told this often that this one is
/// there.
const AGAIN: Duration = Duration::from_secs(1);
const CONNECT: Duration = Duration::from_secs(3);
/// The end, and ticks that all of this server's screens hold, are looked for this often.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// With a barrier all screens wait for what is said and heard here.
const LOOK_AT_A_BARRIER: Duration = Duration::from_millis(2);
/// Words without an answer, a second each: then the leader is gone.
const MOST_UNANSWERED: usize = 3;

/// Follows on a thread of its own until the player ends; `tell` is called with what its screens must know.
pub fn follow(
    player: &Arc<Player>,
    leader: Leader,
    key: Key,
    tell: impl Fn(News) + Send + 'static,
) -> Result<(), Failure> {
    let player = Arc::clone(player);
    let thread = std::thread::Builder::new().name("follow".into()).spawn(move || {
        while !player.stopped() {
            if let Err(why) = listen(&player, &leader, &key, &tell) {
                player.others.leader(Some(why.to_string()));
                player.rest(AGAIN);
            }
        }
    });
    thread
        .map(drop)
        .map_err(|error| Failure::Lacks(format!("no thread to follow the leading server: {error}")))
}

/// Why the leader is not heard.
#[derive(Debug, Error)]
enum FollowError {
    #[error(transparent)]
    Connection(#[from] Failure),
    #[error(transparent)]
    Lead(#[from] LeadRefusal),
    #[error("it says: {0}")]
    Refused(String),
    #[error("it does not answer: is its host down, or the cable out?")]
    Silent,
}

fn listen(player: &Player, leader: &Leader, key: &Key, tell: &impl Fn(News)) -> Result<(), FollowError> {
    let mut client = Client::connect(&leader.address, key, CONNECT)?;
    let here = ControlRequest::Follow { server: leader.name.clone() };
    let mut said_at = clock::now();
    client.send(&here)?;
    while !player.stopped() {
        if let Some(tick) = player.others.newly_held() {
            client.send(&ControlRequest::AllReady { tick })?;
        }
        let look = if player.others.at_barrier() { LOOK_AT_A_BARRIER } else { POLL_INTERVAL };
        match client.next(look)? {
            Some(ControlMessage::Lead(lead)) => {
                player.follow(lead)?;
                player.others.leader(None);
                tell(News::Timeline);
            }
            Some(ControlMessage::Show { tick }) => tell(News::Show(tick)),
            Some(ControlMessage::Done) => player.others.leader(None),
            Some(ControlMessage::Refused { why }) => return Err(FollowError::Refused(why)),
            _ => {}
        }
        if clock::since(said_at) >= AGAIN {
            if client.awaited() >= MOST_UNANSWERED {
                return Err(FollowError::Silent);
            }
            said_at = clock::now();
            client.send(&here)?;
        }
    }
    Ok(())
}
