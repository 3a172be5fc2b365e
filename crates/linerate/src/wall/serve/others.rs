//! The other servers of the wall, as this one knows them: who follows it, or whom it follows; when each was heard; what is wrong.

use super::settings::Settings;
use crate::wall::geometry::TileId;
use crate::wall::status::ServerStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Each is heard every second: so long without a word, and it is gone.
const SILENT: Duration = Duration::from_secs(3);
/// Tiles that a sentence names.
const MOST_TILES: usize = 4;

/// All of them.
#[derive(Debug)]
pub struct Others {
    since: Instant,
    all: Mutex<Vec<Other>>,
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
    pub fn new(settings: &Settings) -> Others {
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
        Others { since: Instant::now(), all: Mutex::new(all) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Other>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that follows is there.
    pub fn heard(&self, name: &str) -> Result<(), String> {
        let mut all = self.lock();
        match all.iter_mut().find(|other| !other.leads && other.name == name) {
            Some(other) => {
                other.heard = Some(Instant::now());
                Ok(())
            }
            None => {
                let names: Vec<&str> = all.iter().map(|other| other.name.as_str()).collect();
                Err(format!(
                    "no server “{name}” follows this one; its layout has {}: give all servers the same layout",
                    if names.is_empty() { "no other".into() } else { names.join(", ") }
                ))
            }
        }
    }

    /// The one that leads was heard, or why not.
    pub fn leader(&self, trouble: Option<String>) {
        if let Some(other) = self.lock().iter_mut().find(|other| other.leads) {
            if trouble.is_none() {
                other.heard = Some(Instant::now());
            }
            other.trouble = trouble;
        }
    }

    /// How they do.
    pub fn status(&self) -> Vec<ServerStatus> {
        let status = |other: &Other| ServerStatus {
            name: other.name.clone(),
            leads: other.leads,
            heard_seconds_ago: other.heard.map(|heard| heard.elapsed().as_secs_f64()),
            problem: self.problem(other),
        };
        self.lock().iter().map(status).collect()
    }

    fn problem(&self, other: &Other) -> Option<String> {
        let Other { name, leads, heard, trouble, .. } = other;
        if *leads {
            let trouble = trouble.as_ref()?;
            let so = match heard {
                Some(_) => "so its last word counts",
                None => "so nothing is played yet",
            };
            return Some(format!("the leading server {name} is not followed, {so}: {trouble}"));
        }
        if heard.unwrap_or(self.since).elapsed() < SILENT {
            return None;
        }
        let tiles = tiles(&other.tiles);
        Some(match heard {
            Some(heard) => format!(
                "server {name} has not been heard for {} s, so {tiles} may stand still: did it end?",
                heard.elapsed().as_secs()
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
