//! The ways by which streams fetch, one for each NIC: what each brought, and which of them carry nothing any more.

use super::client::ClientSettings;
use super::error::GetError;
use super::nic::LocalNic;
use super::product::WayReport;
use linerate_system::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Tries of each stream of a way that bring next to nothing before it is left out.
const MOST_FAILURES: u32 = 5;
/// What comes of a try that is no failure of the way, bytes.
const SOMETHING_BYTES: u64 = 4 << 20;

/// All ways of a transfer.
pub(super) struct Ways<'a> {
    ways: Vec<Way<'a>>,
    streams: u32,
}

struct Way<'a> {
    settings: ClientSettings<'a>,
    nic: Option<String>,
    /// Tries in a row that brought next to nothing.
    failures: AtomicU32,
    is_lost: AtomicBool,
    bytes: AtomicU64,
    /// Why it was left out.
    why: Mutex<Option<String>>,
}

impl<'a> Ways<'a> {
    /// One for each NIC, or the one that the routes say; each has a stream at least.
    pub(super) fn new(settings: ClientSettings<'a>, nics: &[LocalNic], streams: u32) -> Self {
        let way = |settings, nic| Way {
            settings,
            nic,
            failures: AtomicU32::new(0),
            is_lost: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            why: Mutex::new(None),
        };
        let by_nic = |nic: &LocalNic| way(settings.through(nic), Some(nic.name.clone()));
        let mut ways: Vec<Way<'a>> = nics.iter().map(by_nic).collect();
        if ways.is_empty() {
            ways.push(way(settings, None));
        }
        let streams = streams.max(u32::try_from(ways.len()).unwrap_or(u32::MAX));
        Ways { ways, streams }
    }

    /// Streams of all ways together.
    pub(super) fn streams(&self) -> u32 {
        self.streams
    }

    /// The way of a stream: dealt in turn.
    pub(super) fn of_stream(&self, stream: usize) -> usize {
        stream % self.ways.len()
    }

    pub(super) fn settings(&self, way: usize) -> &ClientSettings<'a> {
        &self.ways[way].settings
    }

    /// Does something over the first way that is not to blame where it fails.
    pub(super) fn by_any<T>(
        &'a self,
        mut work: impl FnMut(&'a ClientSettings<'a>) -> Result<T, GetError>,
    ) -> Result<T, GetError> {
        let mut last = None;
        for way in &self.ways {
            match work(&way.settings) {
                Err(error @ GetError::Unreachable { .. }) => last = Some(error),
                done => return done,
            }
        }
        Err(last.unwrap_or(GetError::Interrupted))
    }

    pub(super) fn came(&self, way: usize, bytes: u64) {
        self.ways[way].bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A try over a way ended; `came`: the bytes that it brought. True: the way is to blame where it failed, not
    /// the file, for there are others; after some tries in a row it is left out.
    pub(super) fn blames(&self, way: usize, error: Option<&GetError>, came: u64) -> bool {
        let own = &self.ways[way];
        if came >= SOMETHING_BYTES || error.is_none() {
            own.failures.store(0, Ordering::Relaxed);
        }
        let is_of_way = |error: &&GetError| {
            use GetError::{Broken, CutShort, Stalled, Unreachable};
            matches!(error, Broken { .. } | CutShort { .. } | Stalled { .. } | Unreachable { .. })
        };
        let Some(error) = error.filter(is_of_way) else { return false };
        if !self.has_other(way) {
            return false;
        }
        let failures = own.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures >= MOST_FAILURES * self.streams_of(way) && !own.is_lost.swap(true, Ordering::Relaxed) {
            let nic = own.nic.as_deref().unwrap_or("this way");
            *lock(&own.why) = Some(format!("{nic} was left out: {error}"));
        }
        true
    }

    /// Tries of each stream in a row that brought next to nothing: the next waits longer.
    pub(super) fn failures(&self, way: usize) -> u32 {
        self.ways[way].failures.load(Ordering::Relaxed).div_ceil(self.streams_of(way))
    }

    /// It was left out, and others carry: its streams end.
    pub(super) fn is_lost(&self, way: usize) -> bool {
        self.ways[way].is_lost.load(Ordering::Relaxed) && self.has_other(way)
    }

    fn has_other(&self, way: usize) -> bool {
        let lives =
            |(number, other): (usize, &Way<'_>)| number != way && !other.is_lost.load(Ordering::Relaxed);
        self.ways.iter().enumerate().any(lives)
    }

    fn streams_of(&self, way: usize) -> u32 {
        let count = u32::try_from(self.ways.len()).unwrap_or(u32::MAX);
        let more = u32::from((way as u32) < self.streams % count);
        (self.streams / count + more).max(1)
    }

    /// What each brought; nothing where nobody named any.
    pub(super) fn reports(&self) -> Vec<WayReport> {
        let named = self.ways.iter().filter_map(|way| Some((way, way.nic.clone()?)));
        let report = |(way, nic): (&Way<'_>, String)| WayReport {
            nic,
            bytes: way.bytes.load(Ordering::Relaxed),
            left_out: lock(&way.why).clone(),
        };
        named.map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::TlsTrust;
    use std::time::Duration;

    fn ways(stop: &AtomicBool, nics: usize, streams: u32) -> Ways<'_> {
        let settings = ClientSettings::new(stop, Duration::from_secs(1), 1, None, TlsTrust::Host);
        let lo = LocalNic::find("127.0.0.1").expect("loopback");
        Ways::new(settings, &vec![lo; nics], streams)
    }

    fn unreachable() -> GetError {
        GetError::Unreachable { authority: "h".into(), why: "no answer".into() }
    }

    #[test]
    fn streams_are_dealt_to_the_nics_in_turn_and_each_has_one() {
        let stop = AtomicBool::new(false);
        let three = ways(&stop, 3, 2);
        assert_eq!((three.streams(), three.of_stream(2)), (3, 2));
        let two = ways(&stop, 2, 5);
        assert_eq!((two.streams_of(0), two.streams_of(1)), (3, 2));
        assert!(ways(&stop, 0, 4).reports().is_empty());
    }

    #[test]
    fn a_way_that_brings_nothing_is_left_out_and_the_last_one_never() {
        let stop = AtomicBool::new(false);
        let ways = ways(&stop, 2, 2);
        for failure in 1..=MOST_FAILURES {
            assert!(ways.blames(0, Some(&unreachable()), 0));
            assert_eq!(ways.is_lost(0), failure == MOST_FAILURES, "{failure}");
        }
        let why = ways.reports()[0].left_out.clone().expect("a sentence");
        assert!(why.contains("lo was left out") && why.contains("no answer"), "{why}");
        // The file's own failures count where there is no other way.
        assert!(!ways.blames(1, Some(&unreachable()), 0) && !ways.is_lost(1));
    }

    #[test]
    fn what_brings_bytes_between_its_failures_stays() {
        let stop = AtomicBool::new(false);
        let ways = ways(&stop, 2, 2);
        for _ in 0..3 * MOST_FAILURES {
            ways.blames(0, Some(&unreachable()), SOMETHING_BYTES);
        }
        assert!(!ways.is_lost(0));
        assert!(!ways.blames(0, Some(&GetError::Interrupted), 0), "no fault of a way");
    }
}
