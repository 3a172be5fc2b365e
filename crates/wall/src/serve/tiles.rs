//! The tiles of a server as its keeper sees them: where each screen is, which NIC carries it now, what its
//! worker counts, and whether the screen is there.
//!
//! A screen may come after the server and leave before it, so what was true is not what is: each answer has
//! its time, and what a screen says itself overrules what its host said before.

use super::counters::TileCounters;
use super::nics::{self, ScreenRoute, TileNic};
use super::start::Gate;
use super::{Sending, nanos_now};
use crate::control::ScreenReport;
use crate::geometry::{Size, TileId};
use linerate_facts::sysroot::Sysroot;
use linerate_system::{clock, lock};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// One tile.
#[derive(Debug)]
pub(crate) struct Tile {
    pub id: TileId,
    /// As the user named it.
    pub screen: String,
    pub ways: Vec<ScreenRoute>,
    pub ssrc: u32,
    pub counters: Arc<TileCounters>,
    pub gate: Arc<Gate>,
    /// Its file is fit to be played.
    pub plays: bool,
    /// What is wrong with its file.
    pub problem: Option<String>,
    /// The disk that its file lies on.
    pub disk: String,
    pub disk_node: Option<u32>,
    place: Mutex<TileRoute>,
    last_report: Mutex<Option<LastReport>>,
}

/// Which way a tile takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct TileRoute {
    /// Index among its ways.
    pub way: Option<usize>,
    /// Where the socket of each way sends from, once it was open.
    pub locals: Vec<Option<SocketAddr>>,
    /// UDP payload of a frame on this way.
    pub wire_bytes: usize,
    pub problem: Option<String>,
}

/// What a screen has reported last.
#[derive(Clone, Debug)]
pub(crate) struct LastReport {
    pub report: ScreenReport,
    pub at: Instant,
    /// When a report last had datagrams that were new, nanoseconds since 1970; 0: never.
    pub heard_at: u64,
    /// Datagrams that were lost between this report and the one before.
    pub newly_lost: u64,
}

/// What a tile is made of.
#[derive(Debug)]
pub(crate) struct TileParts {
    pub id: TileId,
    pub screen: String,
    pub ways: Vec<ScreenRoute>,
    pub ssrc: u32,
    pub problem: Option<String>,
    pub plays: bool,
    pub disk: String,
    pub disk_node: Option<u32>,
}

impl Tile {
    /// On no way yet.
    pub(crate) fn new(parts: TileParts) -> Tile {
        let TileParts { id, screen, ways, ssrc, problem, plays, disk, disk_node } = parts;
        let place = TileRoute { locals: vec![None; ways.len()], ..TileRoute::default() };
        Tile {
            id,
            screen,
            ways,
            ssrc,
            counters: Arc::default(),
            gate: Arc::default(),
            plays,
            problem,
            disk,
            disk_node,
            place: Mutex::new(place),
            last_report: Mutex::new(None),
        }
    }

    /// The way it takes now.
    pub(crate) fn place(&self) -> TileRoute {
        lock(&self.place).clone()
    }

    /// Index of the NIC that carries it now.
    pub(crate) fn nic(&self) -> Option<usize> {
        let way = lock(&self.place).way?;
        self.ways.get(way).map(|way| way.nic)
    }

    /// Sends it this way from its next frame on; false where the way cannot be opened.
    pub(crate) fn take_way(
        &self,
        sysroot: &Sysroot,
        nics: &[TileNic],
        way: Option<usize>,
        size: Size,
        sending: Sending,
    ) -> bool {
        let mut place = lock(&self.place);
        let Some((index, chosen)) = way.and_then(|index| Some((index, self.ways.get(index)?))) else {
            if place.way.take().is_some() || place.problem.is_none() {
                place.problem = Some(format!("screen {}: no NIC that is up reaches it", self.screen));
                self.gate.set(None);
            }
            return false;
        };
        let local = place.locals.get(index).copied().flatten();
        match nics::open(sysroot, &nics[chosen.nic], chosen.to, local, size, sending) {
            Ok(route) => {
                if let Some(local) = place.locals.get_mut(index) {
                    *local = route.socket.local_addr().ok();
                }
                (place.way, place.problem, place.wire_bytes) = (Some(index), None, route.layout.wire_bytes());
                self.gate.set(Some(route));
                true
            }
            Err(why) => {
                if place.way.take().is_some() {
                    self.gate.set(None);
                }
                place.problem = Some(format!("screen {}: {why}", self.screen));
                false
            }
        }
    }

    /// Keeps what its screen tells.
    pub(crate) fn tell(&self, report: &ScreenReport) {
        let mut last = lock(&self.last_report);
        let before = last.as_ref().map_or(report.datagrams_lost, |last| last.report.datagrams_lost);
        // A screen that was started again counts from zero.
        let (had, heard_at) = last.as_ref().map_or((0, 0), |last| (last.report.datagrams, last.heard_at));
        let hears = report.datagrams > 0 && report.datagrams != had;
        *last = Some(LastReport {
            report: report.clone(),
            at: clock::now(),
            heard_at: if hears { nanos_now() } else { heard_at },
            newly_lost: report.datagrams_lost.saturating_sub(before),
        });
    }

    /// What its screen has reported last.
    pub(crate) fn last_report(&self) -> Option<LastReport> {
        lock(&self.last_report).clone()
    }
}

/// After it was refused last a screen counts as one that does not listen for so long: a host tells of it once
/// a second only (<https://www.kernel.org/doc/html/latest/networking/ip-sysctl.html>, icmp_ratelimit).
const REFUSED_FOR: Duration = Duration::from_secs(2);
/// The same for what the network says: a neighbour that does not answer is given up after three seconds, and
/// asked again.
const UNREACHED_FOR: Duration = Duration::from_secs(4);
/// A screen that is started with its server may take so long; until then it is not called absent.
const START_PATIENCE: Duration = Duration::from_secs(5);

/// What has come back. Times are nanoseconds since 1970, 0 is never.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// When the server began.
    pub began_at: u64,
    /// When the host said last that nobody listens.
    pub refused_at: u64,
    /// When the screen last reported datagrams that it got.
    pub heard_at: u64,
    /// Why the network did not take something, and when.
    pub network: Option<(String, u64)>,
    /// The screen has reported something once, and then nothing for so long that it is to be named.
    pub silent: Option<Duration>,
}

impl Answers {
    /// What is wrong with the way to this screen now; in the account at the end: what was.
    pub(crate) fn problem(&self, screen: &str, account: bool, now: u64) -> Option<String> {
        let within = |at: u64, time: Duration| at > 0 && u128::from(now.saturating_sub(at)) < time.as_nanos();
        // The end of the play ends the time to start, too: who was not there then, missed it.
        let starting = self.heard_at == 0 && within(self.began_at, START_PATIENCE) && !account;
        if within(self.refused_at, REFUSED_FOR) && self.heard_at <= self.refused_at && !starting {
            return Some(format!("screen {screen} does not listen: its host refuses what is sent there"));
        }
        if let Some((why, at)) = &self.network
            && (account || within(*at, UNREACHED_FOR))
        {
            let now = within(*at, UNREACHED_FOR);
            let what = if now { "refuses what is sent" } else { "refused for a time what was sent" };
            return Some(format!("the network {what}: {why}"));
        }
        if let Some(silent) = self.silent {
            let seconds = silent.as_secs();
            return Some(format!("screen {screen} has reported nothing for {seconds} s: did it end?"));
        }
        let had_started = self.began_at.saturating_add(START_PATIENCE.as_nanos() as u64);
        (account && self.refused_at > had_started).then(|| {
            format!(
                "screen {screen} did not listen all the time: its host refused what was sent there meanwhile"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const NOW: u64 = 1_700_000_000 * SECOND;

    /// While it plays.
    fn live(answers: &Answers) -> String {
        answers.problem("here:5004", false, NOW).unwrap_or_default()
    }

    /// At the end.
    fn account(answers: &Answers) -> String {
        answers.problem("here:5004", true, NOW).unwrap_or_default()
    }

    #[test]
    fn a_screen_that_came_later_is_forgiven() {
        let absent = Answers { refused_at: NOW - SECOND, ..Answers::default() };
        assert!(live(&absent).contains("does not listen"));
        assert!(account(&absent).contains("does not listen"), "it is not there at the end either");
        let came = Answers { heard_at: NOW - SECOND / 2, ..absent };
        assert_eq!(live(&came), "", "it tells itself that it hears");
        assert!(account(&came).contains("did not listen all the time"));
        let stock = Answers { refused_at: NOW - 3 * SECOND, ..Answers::default() };
        assert_eq!(live(&stock), "", "a stock receiver tells nothing, but is not refused any more");
        let left = Answers { heard_at: NOW - SECOND, refused_at: NOW - SECOND / 2, ..Answers::default() };
        assert!(live(&left).contains("does not listen"));
        assert_eq!(account(&Answers::default()), "");
    }

    #[test]
    fn a_screen_has_time_to_start_until_the_play_ends() {
        let begun = |seconds: u64| Answers {
            began_at: NOW - seconds * SECOND,
            refused_at: NOW - SECOND / 2,
            ..Answers::default()
        };
        assert_eq!(live(&begun(3)), "", "it may be starting");
        assert!(account(&begun(3)).contains("does not listen"), "the play is over without it");
        assert!(live(&begun(6)).contains("does not listen"));
        let left = Answers { heard_at: NOW - SECOND, ..begun(3) };
        assert!(live(&left).contains("does not listen"), "it was there and has left");
        let came = Answers { refused_at: NOW - 57 * SECOND, heard_at: NOW, ..begun(60) };
        assert_eq!(account(&came), "", "it came within the time to start");
        let late = Answers { refused_at: NOW - 50 * SECOND, heard_at: NOW, ..begun(60) };
        assert!(account(&late).contains("did not listen all the time"));
        let short = Answers { refused_at: NOW - SECOND, heard_at: NOW, ..begun(2) };
        assert_eq!(account(&short), "", "it came, and the play was short");
    }

    #[test]
    fn what_the_network_did_not_take_is_named_while_it_lasts_and_at_the_end() {
        let of = |at: u64| Answers { network: Some(("no route".into(), at)), ..Answers::default() };
        assert_eq!(live(&of(NOW - 2 * SECOND)), "the network refuses what is sent: no route");
        assert_eq!(live(&of(NOW - 9 * SECOND)), "");
        assert_eq!(account(&of(NOW - 9 * SECOND)), "the network refused for a time what was sent: no route");
    }

    #[test]
    fn one_that_fell_silent_is_named() {
        let silent = Answers { silent: Some(Duration::from_secs(7)), ..Answers::default() };
        assert!(live(&silent).contains("has reported nothing for 7 s"));
    }
}
