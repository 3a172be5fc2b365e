//! The routes by which streams fetch, one for each NIC: what each brought and how fast, and which of them bring nothing
//! any more.

use crate::client::{ClientSettings, LocalNic, TransferError};
use crate::flow_sockets::FlowSockets;
use linerate_facts::units::show_bytes_rate;
use linerate_measure::diagnose::Bottleneck;
use linerate_measure::run::TransferNic;
use linerate_model::verdict::LimitKind;
use linerate_model::verdict::thresholds::WAITING;
use linerate_system::clock;
use linerate_system::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Tries of each stream of a route that bring next to nothing before it is left out.
const MOST_FAILURES: u32 = 5;
/// A try that brought this many bytes is not a failure of the route.
const SOMETHING_BYTES: u64 = 4 << 20;

/// All routes of a transfer.
pub(super) struct Routes<'a> {
    routes: Vec<Route<'a>>,
    streams: u32,
    begun: Instant,
}

/// Connections by one NIC, or as the routing table says.
struct Route<'a> {
    settings: ClientSettings<'a>,
    /// Streams that use it.
    streams: AtomicU32,
    /// Tries in a row that brought next to nothing.
    failures: AtomicU32,
    is_lost: AtomicBool,
    /// Why it was left out.
    why: Mutex<Option<String>>,
    bytes: AtomicU64,
    /// Time of all its streams in which they received, ns.
    busy_ns: AtomicU64,
    /// Time from the start of the transfer to its first and to its last bytes, ns.
    first_ns: AtomicU64,
    last_ns: AtomicU64,
}

impl<'a> Route<'a> {
    fn new(settings: ClientSettings<'a>, streams: u32) -> Self {
        Route {
            settings,
            streams: AtomicU32::new(streams),
            failures: AtomicU32::new(0),
            is_lost: AtomicBool::new(false),
            why: Mutex::new(None),
            bytes: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            first_ns: AtomicU64::new(0),
            last_ns: AtomicU64::new(0),
        }
    }

    fn nic(&self) -> Option<&str> {
        self.settings.nic.as_ref().map(|nic| nic.name.as_str())
    }

    /// As the user knows it.
    fn name(&self) -> String {
        self.nic().unwrap_or("this NIC").to_string()
    }

    /// Bytes per second of one of its streams while it receives; none: nothing came yet.
    fn stream_rate(&self) -> Option<f64> {
        bytes_per_second(self.bytes.load(Ordering::Relaxed), self.busy_ns.load(Ordering::Relaxed))
    }

    /// Bytes per second of all its streams, from the first byte to the last.
    fn mean_rate(&self) -> f64 {
        let ns = self.last_ns.load(Ordering::Relaxed).saturating_sub(self.first_ns.load(Ordering::Relaxed));
        bytes_per_second(self.bytes.load(Ordering::Relaxed), ns).unwrap_or(0.0)
    }
}

fn bytes_per_second(bytes: u64, ns: u64) -> Option<f64> {
    (bytes > 0 && ns > 0).then(|| bytes as f64 / (ns as f64 * 1e-9))
}

impl<'a> Routes<'a> {
    /// One for each NIC, or the one that the routing table says; each has a stream at least.
    pub(super) fn new(settings: ClientSettings<'a>, nics: &[LocalNic], streams: u32) -> Self {
        let by_nic: Vec<ClientSettings<'a>> = match nics {
            [] => vec![settings],
            nics => nics.iter().map(|nic| settings.through(nic)).collect(),
        };
        let count = u32::try_from(by_nic.len()).unwrap_or(u32::MAX);
        let streams = streams.max(count);
        let of_route = |number: u32| streams / count + u32::from(number < streams % count);
        let routes = (0..).zip(by_nic).map(|(number, settings)| Route::new(settings, of_route(number)));
        Routes { routes: routes.collect(), streams, begun: clock::now() }
    }

    /// What the connections of all routes use of this host.
    pub(super) fn sockets(&self) -> &FlowSockets {
        &self.routes[0].settings.sockets
    }

    /// Streams of all routes together.
    pub(super) fn streams(&self) -> u32 {
        self.streams
    }

    /// The route of a stream at its start: each in turn.
    pub(super) fn of_stream(&self, stream: usize) -> usize {
        stream % self.routes.len()
    }

    pub(super) fn settings(&self, route: usize) -> &ClientSettings<'a> {
        &self.routes[route].settings
    }

    /// Does something over the first route that is not to blame where it fails.
    pub(super) fn by_any<T>(
        &'a self,
        mut work: impl FnMut(&'a ClientSettings<'a>) -> Result<T, TransferError>,
    ) -> Result<T, TransferError> {
        let mut first = None;
        for route in &self.routes {
            match work(&route.settings) {
                Err(error @ TransferError::Unreachable { .. }) => drop(first.get_or_insert(error)),
                done => return done,
            }
        }
        Err(first.unwrap_or(TransferError::Interrupted))
    }

    /// Bytes came over a route, for which a stream had waited and worked this long.
    pub(super) fn add_bytes(&self, route: usize, bytes: u64, time: Duration) {
        let (own, now) = (&self.routes[route], clock::nanos(clock::since(self.begun)));
        if own.bytes.fetch_add(bytes, Ordering::Relaxed) == 0 {
            own.first_ns.store(now.saturating_sub(clock::nanos(time)), Ordering::Relaxed);
        }
        own.busy_ns.fetch_add(clock::nanos(time), Ordering::Relaxed);
        own.last_ns.fetch_max(now, Ordering::Relaxed);
    }

    /// A try over a route brought what was asked for.
    pub(super) fn succeeded(&self, route: usize) {
        self.routes[route].failures.store(0, Ordering::Relaxed);
    }

    /// A try over a route failed after it had brought this many bytes. True: the route is to blame, not the file, for
    /// there are others; after some tries in a row it is left out.
    pub(super) fn blames(&self, route: usize, error: &TransferError, came: u64) -> bool {
        let own = &self.routes[route];
        if came >= SOMETHING_BYTES {
            self.succeeded(route);
        }
        if !error.is_of_route() || !self.has_other(route) {
            return false;
        }
        let failures = own.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures >= MOST_FAILURES * self.streams_of(route) && !own.is_lost.swap(true, Ordering::Relaxed) {
            *lock(&own.why) = Some(format!("{} was left out: {error}", own.name()));
        }
        true
    }

    /// Tries of each stream in a row that brought next to nothing: the next waits longer.
    pub(super) fn failures(&self, route: usize) -> u32 {
        self.routes[route].failures.load(Ordering::Relaxed).div_ceil(self.streams_of(route))
    }

    /// It was left out, and others work: its streams go over to them.
    pub(super) fn is_lost(&self, route: usize) -> bool {
        self.routes[route].is_lost.load(Ordering::Relaxed) && self.has_other(route)
    }

    /// That with the fewest streams of the routes that are not lost; this one where all are.
    pub(super) fn instead_of(&self, route: usize) -> usize {
        let living = (0..self.routes.len()).filter(|other| !self.is_lost(*other));
        living.min_by_key(|other| self.streams_of(*other)).unwrap_or(route)
    }

    /// A stream of one route uses another from now on.
    pub(super) fn move_stream(&self, from: usize, to: usize) {
        self.routes[from].streams.fetch_sub(1, Ordering::Relaxed);
        self.routes[to].streams.fetch_add(1, Ordering::Relaxed);
    }

    fn has_other(&self, route: usize) -> bool {
        let lives =
            |(number, other): (usize, &Route<'_>)| number != route && !other.is_lost.load(Ordering::Relaxed);
        self.routes.iter().enumerate().any(lives)
    }

    fn streams_of(&self, route: usize) -> u32 {
        self.routes[route].streams.load(Ordering::Relaxed).max(1)
    }

    /// The share of the remaining bytes that falls to one stream of this route, so that all streams end together: by
    /// its rate, where there are several routes. None: nobody knows yet how fast it is.
    pub(super) fn share(&self, route: usize) -> Option<f64> {
        if self.routes.len() < 2 {
            return Some(1.0 / f64::from(self.streams));
        }
        let own = self.routes[route].stream_rate()?;
        let living = (0..self.routes.len()).filter(|other| *other == route || !self.is_lost(*other));
        // One that brought nothing yet is taken for as fast as this one.
        let rate = |other: usize| self.routes[other].stream_rate().unwrap_or(own);
        let all: f64 = living.map(|other| rate(other) * f64::from(self.streams_of(other))).sum();
        Some(own / all)
    }

    /// Names the NICs that limit a transfer whose streams wait for the network, each with its rate. `waits`: the route
    /// of each stream, and the share of its time in which it waited for the network.
    pub(super) fn name_limits(&self, bottleneck: &mut Bottleneck, waits: &[(usize, f64)]) {
        if self.routes.len() < 2 || bottleneck.kind != LimitKind::Sender {
            return;
        }
        let waited = |number: usize| {
            let own = waits.iter().filter(|(other, _)| *other == number).map(|(_, share)| *share);
            let (count, sum) = own.fold((0u32, 0.0), |(count, sum), share| (count + 1, sum + share));
            count > 0 && sum >= WAITING * f64::from(count)
        };
        let limiting: Vec<&Route<'_>> =
            (0..).zip(&self.routes).filter(|(number, _)| waited(*number)).map(|(_, route)| route).collect();
        if limiting.is_empty() {
            return;
        }
        let shown = |route: &&Route<'_>| format!("{} ({})", route.name(), show_bytes_rate(route.mean_rate()));
        let shown: Vec<String> = limiting.iter().map(shown).collect();
        let nics = limiting.iter().map(|route| format!("nic:{}", route.name())).collect();
        let sentence = format!("{}: {}", bottleneck.sentence, shown.join(", "));
        *bottleneck = Bottleneck::new(bottleneck.kind, nics, vec![sentence], bottleneck.gain);
    }

    /// What each brought; nothing where nobody named a NIC.
    pub(super) fn reports(&self) -> Vec<TransferNic> {
        let report = |route: &Route<'_>| {
            Some(TransferNic {
                nic: route.nic()?.to_string(),
                bytes: route.bytes.load(Ordering::Relaxed),
                bytes_per_second: route.mean_rate(),
                left_out: lock(&route.why).clone(),
            })
        };
        self.routes.iter().filter_map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::TlsTrust;
    use linerate_system::stop::Stop;
    use std::sync::LazyLock;

    fn routes(nics: usize, streams: u32) -> Routes<'static> {
        static STOP: LazyLock<Stop> = LazyLock::new(Stop::new);
        let settings = ClientSettings::new(&STOP, Duration::from_secs(1), 1, None, TlsTrust::Host);
        let lo = LocalNic::find("127.0.0.1").expect("loopback");
        Routes::new(settings, &vec![lo; nics], streams)
    }

    fn unreachable() -> TransferError {
        TransferError::Unreachable { authority: "h".into(), why: "no answer".into() }
    }

    #[test]
    fn each_nic_has_a_stream_in_turn_and_one_at_least() {
        let three = routes(3, 2);
        assert_eq!((three.streams(), three.of_stream(2)), (3, 2));
        let two = routes(2, 5);
        assert_eq!((two.streams_of(0), two.streams_of(1)), (3, 2));
        assert!(routes(0, 4).reports().is_empty());
    }

    #[test]
    fn a_route_that_brings_nothing_is_left_out_and_the_last_one_never() {
        let routes = routes(2, 2);
        for failure in 1..=MOST_FAILURES {
            assert!(routes.blames(0, &unreachable(), 0));
            assert_eq!(routes.is_lost(0), failure == MOST_FAILURES, "{failure}");
        }
        let why = routes.reports()[0].left_out.clone().expect("a sentence");
        assert!(why.contains("lo was left out") && why.contains("no answer"), "{why}");
        // The file's own failures count where there is no other route.
        assert!(!routes.blames(1, &unreachable(), 0) && !routes.is_lost(1));
    }

    #[test]
    fn a_route_that_brings_bytes_between_its_failures_stays() {
        let routes = routes(2, 2);
        for _ in 0..3 * MOST_FAILURES {
            routes.blames(0, &unreachable(), SOMETHING_BYTES);
        }
        assert!(!routes.is_lost(0));
        assert!(!routes.blames(0, &TransferError::Interrupted, 0), "no fault of a route");
        let busy = TransferError::Overloaded { url: "http://h/f".into(), status: 503, retry_after: None };
        assert!(!routes.blames(0, &busy, 0), "the server says that of the file");
    }

    #[test]
    fn failures_with_successes_between_them_are_not_in_a_row() {
        let routes = routes(2, 2);
        for _ in 0..3 * MOST_FAILURES {
            assert!(routes.blames(0, &unreachable(), 0) && routes.failures(0) == 1);
            routes.succeeded(0);
        }
        assert!(!routes.is_lost(0) && routes.failures(0) == 0);
    }

    #[test]
    fn streams_of_a_lost_route_go_over_to_the_one_with_the_fewest() {
        let routes = routes(3, 4);
        assert_eq!((routes.streams_of(0), routes.streams_of(1), routes.streams_of(2)), (2, 1, 1));
        (0..MOST_FAILURES).for_each(|_| assert!(routes.blames(1, &unreachable(), 0)));
        assert!(routes.is_lost(1));
        assert_eq!(routes.instead_of(1), 2);
        routes.move_stream(1, 2);
        assert_eq!(routes.streams_of(2), 2);
    }

    #[test]
    fn a_stream_takes_its_share_by_the_rate_of_its_nic() {
        assert_eq!(routes(1, 4).share(0), Some(0.25), "one NIC: all alike");
        let two = routes(2, 2);
        assert_eq!(two.share(0), None, "nobody knows yet");
        two.add_bytes(0, 1_000_000, Duration::from_secs(1));
        assert_eq!((two.share(0), two.share(1)), (Some(0.5), None));
        two.add_bytes(1, 9_000_000, Duration::from_secs(1));
        assert_eq!((two.share(0), two.share(1)), (Some(0.1), Some(0.9)));
    }

    #[test]
    fn the_nics_that_streams_waited_for_are_named_with_their_rates() {
        let routes = routes(2, 2);
        routes.add_bytes(1, 3_000_000, Duration::from_secs(1));
        let named = |kind, waits: &[(usize, f64)]| {
            let mut found = Bottleneck::new(kind, Vec::new(), vec!["the network".into()], 0.0);
            routes.name_limits(&mut found, waits);
            (found.resources, found.sentence)
        };
        let (one, sentence) = named(LimitKind::Sender, &[(0, 0.1), (1, 0.9), (1, 0.95)]);
        assert_eq!(one, ["nic:lo"]);
        assert!(sentence.starts_with("the network: lo ("), "{sentence}");
        assert_eq!(named(LimitKind::Sender, &[(0, 0.9), (1, 0.9)]).0.len(), 2);
        assert_eq!(named(LimitKind::Disk, &[(0, 0.9)]), (Vec::new(), "the network".into()));
    }
}
