//! The other servers of the wall, as this one knows them: who follows it, or whom it follows; when each was
//! heard; what is wrong.

use super::ServeSettings;
use crate::control::Refusal;
use crate::geometry::TileId;
use crate::status::ServerStatus;
use linerate_facts::printable::{printable, shortened};
use linerate_system::{clock, lock};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Columns of a name that is not known, as a refusal repeats it.
pub(super) const NAME_COLUMNS: usize = 80;

/// Each is heard every second: so long without a word, and it is gone.
const SILENT: Duration = Duration::from_secs(3);
/// So long after the last tick that they held, screens with a barrier are still reckoned with.
const AT_BARRIER: Duration = Duration::from_secs(2);
/// Tiles that a sentence names.
const MOST_TILES: usize = 4;

/// All of them.
#[derive(Debug)]
pub(crate) struct Others {
    since: Instant,
    all: Mutex<Vec<Other>>,
    barrier: Mutex<BarrierScreens>,
}

/// What this server's screens with a barrier hold, for the one that leads.
#[derive(Debug, Default)]
struct BarrierScreens {
    /// The newest tick that all of them hold, and when they did.
    tick: Option<(u64, Instant)>,
    /// The server that leads knows of it.
    is_reported: bool,
}

#[derive(Debug)]
struct Other {
    name: String,
    leads: bool,
    tiles: Vec<TileId>,
    heard: Option<Instant>,
    /// What it said, or why it cannot be reached.
    trouble: Option<String>,
}

impl Others {
    /// None was heard yet.
    pub(crate) fn new(settings: &ServeSettings) -> Others {
        let other = |name: &str, leads: bool, tiles: &[TileId]| Other {
            name: name.into(),
            leads,
            tiles: tiles.to_vec(),
            heard: None,
            trouble: None,
        };
        let mut all: Vec<Other> =
            settings.followers.iter().map(|(name, tiles)| other(name, false, tiles)).collect();
        all.extend(settings.leader.as_ref().map(|leader| other(&leader.address, true, &[])));
        Others { since: clock::now(), all: Mutex::new(all), barrier: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Other>> {
        lock(&self.all)
    }

    /// One that follows is there.
    pub(crate) fn heard(&self, name: &str) -> Result<(), Refusal> {
        let mut all = self.lock();
        match all.iter_mut().find(|other| !other.leads && other.name == name) {
            Some(other) => {
                other.heard = Some(clock::now());
                Ok(())
            }
            None => {
                let names: Vec<&str> = all.iter().map(|other| other.name.as_str()).collect();
                let name = shortened(&printable(name), NAME_COLUMNS);
                let names = if names.is_empty() { "no other".into() } else { names.join(", ") };
                Err(format!(
                    "no server “{name}” follows this one; its layout has {names}: give all servers the same \
                     layout"
                )
                .into())
            }
        }
    }

    /// The one that leads was heard, or why not.
    pub(crate) fn leader(&self, trouble: Option<String>) {
        if let Some(other) = self.lock().iter_mut().find(|other| other.leads) {
            if trouble.is_none() {
                other.heard = Some(clock::now());
            }
            other.trouble = trouble;
        }
    }

    /// This server's screens with a barrier hold a tick, which is to be reported to the server that leads. False:
    /// that one is not there.
    pub(crate) fn hold(&self, tick: u64) -> bool {
        let followed =
            self.lock().iter().any(|other| other.leads && other.heard.is_some() && other.trouble.is_none());
        *self.held() = BarrierScreens { tick: Some((tick, clock::now())), is_reported: !followed };
        followed
    }

    /// The tick of that which the server that leads does not know of yet: it does from now on.
    pub(crate) fn newly_held(&self) -> Option<u64> {
        let mut held = self.held();
        let was_reported = std::mem::replace(&mut held.is_reported, true);
        held.tick.filter(|_| !was_reported).map(|(tick, _)| tick)
    }

    /// This server has screens with a barrier.
    pub(crate) fn at_barrier(&self) -> bool {
        self.held().tick.is_some_and(|(_, at)| clock::since(at) < AT_BARRIER)
    }

    fn held(&self) -> MutexGuard<'_, BarrierScreens> {
        lock(&self.barrier)
    }

    /// How they do.
    pub(crate) fn status(&self) -> Vec<ServerStatus> {
        let status = |other: &Other| ServerStatus {
            name: other.name.clone(),
            leads: other.leads,
            heard_seconds_ago: other.heard.map(|heard| clock::since(heard).as_secs_f64()),
            problem: self.problem(other),
        };
        self.lock().iter().map(status).collect()
    }

    fn problem(&self, other: &Other) -> Option<String> {
        let Other { name, leads, heard, trouble, .. } = other;
        if *leads {
            let trouble = trouble.as_ref()?;
            let so = heard.map_or("so nothing is played yet", |_| "so its last word counts");
            return Some(format!("the leading server {name} is not followed, {so}: {trouble}"));
        }
        if clock::since(heard.unwrap_or(self.since)) < SILENT {
            return None;
        }
        let tiles = tiles(&other.tiles);
        Some(match heard {
            Some(heard) => format!(
                "server {name} has not been heard for {} s, so {tiles} may be frozen: did it end?",
                clock::since(*heard).as_secs()
            ),
            None => format!(
                "server {name} was never heard, so {tiles} may be dark: start it with --server {name}"
            ),
        })
    }
}

fn tiles(all: &[TileId]) -> String {
    let named: Vec<String> = all.iter().take(MOST_TILES).map(TileId::to_string).collect();
    let more = if all.len() > MOST_TILES { format!(" … ({} tiles)", all.len()) } else { String::new() };
    format!("{} {}{more}", if all.len() == 1 { "tile" } else { "tiles" }, named.join(", "))
}
