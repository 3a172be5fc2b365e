//! The ways by which streams fetch, each a server by a NIC: what each brought and how fast, and which of them carry
//! nothing any more.

use super::client::ClientSettings;
use super::dealing::Deal;
use super::error::GetError;
use super::nic::LocalNic;
use super::pace::WayPace;
use super::product::{NicReport, WayReport};
use crate::TransferLimit;
use crate::flow_sockets::FlowSockets;
use crate::http::url::HttpUrl;
use linerate_facts::units::show_bytes_rate;
use linerate_facts::wording::counted;
use linerate_model::verdict::LimitKind;
use linerate_model::verdict::thresholds::WAITING;
use linerate_system::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Tries of each stream of a way that bring next to nothing before it is left out.
const MOST_FAILURES: u32 = 5;
/// What comes of a try that is no failure of the way, bytes.
const SOMETHING_BYTES: u64 = 4 << 20;
/// Files that a mirror has otherwise, or not at all, more than it has as the first server does, before it is left out.
const MOST_REFUSED: usize = 8;

/// All ways of a transfer.
pub(super) struct Ways<'a> {
    ways: Vec<Way<'a>>,
    /// The one that the user named first, then the mirrors.
    servers: Vec<Server>,
    streams: u32,
    begun: Instant,
}

struct Server {
    /// `http://HOST:PORT`.
    name: String,
    /// Files that it has otherwise than the first server, and those that it has as that does.
    refused: AtomicUsize,
    same: AtomicUsize,
    first_refusal: Mutex<Option<String>>,
}

struct Way<'a> {
    settings: ClientSettings<'a>,
    server: usize,
    nic: Option<String>,
    /// Streams that use it.
    streams: AtomicU32,
    /// Tries in a row that brought next to nothing.
    failures: AtomicU32,
    is_lost: AtomicBool,
    pace: WayPace,
    /// Why it was left out.
    why: Mutex<Option<String>>,
}

impl<'a> Ways<'a> {
    /// One for each server by each NIC, or by the one that the routes say; each has a stream at least. `urls`: one of
    /// each server.
    pub(super) fn new(
        settings: ClientSettings<'a>,
        urls: &[HttpUrl],
        nics: &[LocalNic],
        streams: u32,
    ) -> Self {
        let by_nic: Vec<ClientSettings<'a>> = match nics {
            [] => vec![settings],
            nics => nics.iter().map(|nic| settings.through(nic)).collect(),
        };
        let pairs = pairs(&by_nic, urls);
        let count = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
        let streams = streams.max(count);
        let way = |(number, (server, nic)): (usize, (usize, usize))| Way {
            nic: by_nic[nic].nic.as_ref().map(|nic| nic.name.clone()),
            settings: by_nic[nic].clone(),
            server,
            streams: AtomicU32::new(streams / count + u32::from((number as u32) < streams % count)),
            failures: AtomicU32::new(0),
            is_lost: AtomicBool::new(false),
            pace: WayPace::default(),
            why: Mutex::new(None),
        };
        let server = |url: &HttpUrl| Server {
            name: format!("{}://{}", url.scheme(), url.authority()),
            refused: AtomicUsize::new(0),
            same: AtomicUsize::new(0),
            first_refusal: Mutex::new(None),
        };
        Ways {
            ways: pairs.into_iter().enumerate().map(way).collect(),
            servers: urls.iter().map(server).collect(),
            streams,
            begun: Instant::now(),
        }
    }

    /// What the connections of all ways use of this host.
    pub(super) fn sockets(&self) -> &FlowSockets {
        &self.ways[0].settings.sockets
    }

    /// Streams of all ways together.
    pub(super) fn streams(&self) -> u32 {
        self.streams
    }

    /// Servers, the first one included.
    pub(super) fn servers(&self) -> usize {
        self.servers.len()
    }

    /// The way of a stream at its start: dealt in turn.
    pub(super) fn of_stream(&self, stream: usize) -> usize {
        stream % self.ways.len()
    }

    pub(super) fn settings(&self, way: usize) -> &ClientSettings<'a> {
        &self.ways[way].settings
    }

    pub(super) fn server_of(&self, way: usize) -> usize {
        self.ways[way].server
    }

    /// Does something over the first way, and with the first server, that is not to blame where it fails; with the
    /// number of that server.
    pub(super) fn by_any<T>(
        &'a self,
        mut work: impl FnMut(&'a ClientSettings<'a>, usize) -> Result<T, GetError>,
    ) -> Result<(T, usize), GetError> {
        let mut first = None;
        for way in &self.ways {
            match work(&way.settings, way.server) {
                Err(error @ GetError::Unreachable { .. }) => {
                    lock(&way.why).get_or_insert_with(|| error.to_string());
                    first.get_or_insert(error);
                }
                done => return done.map(|done| (done, way.server)),
            }
        }
        Err(first.unwrap_or(GetError::Interrupted))
    }

    /// Why the first way of all did not lead to its server.
    pub(super) fn first_failure(&self) -> Option<String> {
        lock(&self.ways.first()?.why).clone()
    }

    /// Bytes came over a way, for which a stream had waited and worked this long.
    pub(super) fn came(&self, way: usize, bytes: u64, time: Duration) {
        self.ways[way].pace.add(bytes, time, self.begun);
    }

    /// A try over a way brought what was asked for.
    pub(super) fn succeeded(&self, way: usize) {
        self.ways[way].failures.store(0, Ordering::Relaxed);
    }

    /// A try over a way failed after it had brought so many bytes. True: the way is to blame, not the file, for there
    /// are others to servers that have it; after some tries in a row it is left out. `reference`: the server that says
    /// what the file is; of any other it is also to blame that the server gives nothing just now.
    pub(super) fn blames(
        &self,
        way: usize,
        (error, came): (&GetError, u64),
        reference: usize,
        has_it: impl Fn(usize) -> bool,
    ) -> bool {
        let own = &self.ways[way];
        if came >= SOMETHING_BYTES {
            self.succeeded(way);
        }
        let is_to_blame = error.is_of_way() || own.server != reference && error.is_of_server();
        if !is_to_blame || !self.has_other(way, has_it) {
            return false;
        }
        let failures = own.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures >= MOST_FAILURES * self.streams_of(way) && !own.is_lost.swap(true, Ordering::Relaxed) {
            *lock(&own.why) = Some(format!("{} was left out: {error}", self.name(way)));
        }
        true
    }

    /// How the user knows it: by the server, where there are several, and by the NIC, where one was named.
    fn name(&self, way: usize) -> String {
        let Way { server, nic, .. } = &self.ways[way];
        let server = (self.servers.len() > 1).then(|| self.servers[*server].name.clone());
        match (server, nic) {
            (Some(server), Some(nic)) => format!("{server} by {nic}"),
            (Some(name), None) => name,
            (None, nic) => nic.clone().unwrap_or_else(|| "this way".into()),
        }
    }

    /// Tries of each stream in a row that brought next to nothing: the next waits longer.
    pub(super) fn failures(&self, way: usize) -> u32 {
        self.ways[way].failures.load(Ordering::Relaxed).div_ceil(self.streams_of(way))
    }

    /// It was left out, and others carry: its streams go over to them.
    pub(super) fn is_lost(&self, way: usize) -> bool {
        self.ways[way].is_lost.load(Ordering::Relaxed) && self.has_other(way, |_| true)
    }

    /// The way that a stream uses in place of one that is lost: that with the fewest.
    pub(super) fn instead_of(&self, way: usize) -> usize {
        let living = (0..self.ways.len()).filter(|other| !self.is_lost(*other));
        let Some(next) = living.min_by_key(|other| self.streams_of(*other)) else { return way };
        self.ways[way].streams.fetch_sub(1, Ordering::Relaxed);
        self.ways[next].streams.fetch_add(1, Ordering::Relaxed);
        next
    }

    fn has_other(&self, way: usize, has_it: impl Fn(usize) -> bool) -> bool {
        let lives = |(number, other): (usize, &Way<'_>)| {
            number != way && !other.is_lost.load(Ordering::Relaxed) && has_it(other.server)
        };
        self.ways.iter().enumerate().any(lives)
    }

    fn streams_of(&self, way: usize) -> u32 {
        self.ways[way].streams.load(Ordering::Relaxed).max(1)
    }

    /// Some way leads to it.
    pub(super) fn lives(&self, server: usize) -> bool {
        self.way_to(server, 0).is_some()
    }

    /// The first server that some way leads to, of those that have it.
    pub(super) fn first_server(&self, has_it: impl Fn(usize) -> bool) -> Option<usize> {
        (0..self.servers.len()).find(|server| self.lives(*server) && has_it(*server))
    }

    /// A way to a server: this one, or one by the same NIC, or another.
    pub(super) fn way_to(&self, server: usize, way: usize) -> Option<usize> {
        let nic = &self.ways[way].nic;
        let leads = |other: &usize| self.ways[*other].server == server && !self.is_lost(*other);
        let all = (0..self.ways.len()).filter(leads);
        all.min_by_key(|other| (*other != way, self.ways[*other].nic != *nic))
    }

    /// A server is not used any more, as long as there is another.
    pub(super) fn leave_out(&self, server: usize, why: &str) {
        for (number, way) in self.ways.iter().enumerate().filter(|(_, way)| way.server == server) {
            let goes_on = self.has_other(number, |other| other != server);
            if goes_on && !way.is_lost.swap(true, Ordering::Relaxed) {
                *lock(&way.why) = Some(format!("{} was left out: {why}", self.servers[server].name));
            }
        }
    }

    /// A mirror has a file otherwise than the first server, or not at all; `files`: how many there are.
    pub(super) fn refused(&self, server: usize, why: &GetError, files: usize) {
        let own = &self.servers[server];
        lock(&own.first_refusal).get_or_insert_with(|| why.to_string());
        let refused = own.refused.fetch_add(1, Ordering::Relaxed) + 1;
        if refused >= own.same.load(Ordering::Relaxed) + MOST_REFUSED.min(files) {
            self.leave_out(server, &why.to_string());
        }
    }

    /// A mirror has a file as the first server does.
    pub(super) fn has_same(&self, server: usize) {
        self.servers[server].same.fetch_add(1, Ordering::Relaxed);
    }

    /// What a stream of this way should take of what is left.
    pub(super) fn deal(&self, way: usize) -> Deal {
        let stream_rate = self.ways[way].pace.stream_rate();
        let carries = |other: &usize| !self.is_lost(*other) && self.failures(*other) == 0;
        // One that brought nothing yet is taken for as fast as this one.
        let rate = |other: usize| self.ways[other].pace.stream_rate().or(stream_rate).unwrap_or(0.0);
        let rates = (0..self.ways.len()).filter(carries).map(|other| (rate(other), self.streams_of(other)));
        let (mut total_rate, mut fastest_rate) = (0.0, 0.0f64);
        for (rate, streams) in rates {
            total_rate += rate * f64::from(streams);
            fastest_rate = fastest_rate.max(rate);
        }
        let streams = u64::from(self.streams);
        Deal { server: self.ways[way].server, streams, stream_rate, total_rate, fastest_rate }
    }

    /// A piece of this way was so slow that another stream has it now: what came before says nothing of what comes.
    pub(super) fn was_late(&self, way: usize, rate: f64) {
        self.ways[way].pace.was_late(rate, self.begun);
    }

    /// Which servers, and which NICs, limit a transfer whose streams wait for the network; each with its rate. `waits`:
    /// the way of each stream, and the share of its time in which it waited for it.
    pub(super) fn name_limits(&self, limit: TransferLimit, waits: &[(usize, f64)]) -> TransferLimit {
        if self.ways.len() < 2 || limit.kind != Some(LimitKind::Sender) {
            return limit;
        }
        let waited = |way: &usize| {
            let own = waits.iter().filter(|(other, _)| other == way).map(|(_, share)| *share);
            let (count, sum) = own.fold((0u32, 0.0), |(count, sum), share| (count + 1, sum + share));
            count > 0 && sum >= WAITING * f64::from(count)
        };
        let ways: Vec<usize> = (0..self.ways.len()).filter(waited).collect();
        let shown = |way: &usize| {
            format!("{} ({})", self.name(*way), show_bytes_rate(self.ways[*way].pace.mean_rate()))
        };
        let shown: Vec<String> = ways.iter().map(shown).collect();
        let sentence = match shown.is_empty() {
            true => limit.sentence,
            false => format!("{}: {}", limit.sentence, shown.join(", ")),
        };
        TransferLimit { ways: ways.iter().map(|way| self.name(*way)).collect(), sentence, ..limit }
    }

    /// What each brought; nothing where there is one alone and nobody named its NIC.
    pub(super) fn reports(&self) -> Vec<WayReport> {
        let is_named = self.servers.len() > 1 || self.ways.iter().any(|way| way.nic.is_some());
        let report = |way: &Way<'_>| WayReport {
            server: self.servers[way.server].name.clone(),
            nic: way.nic.clone(),
            bytes: way.pace.bytes(),
            bytes_per_second: way.pace.mean_rate(),
            left_out: lock(&way.why).clone(),
        };
        if is_named { self.ways.iter().map(report).collect() } else { Vec::new() }
    }

    /// Of the NICs that were named, over all servers.
    pub(super) fn nic_reports(&self) -> Vec<NicReport> {
        let mut reports: Vec<NicReport> = Vec::new();
        for way in &self.ways {
            let Some(nic) = way.nic.clone() else { continue };
            let (bytes, left_out) = (way.pace.bytes(), lock(&way.why).clone());
            match reports.iter_mut().find(|report| report.nic == nic) {
                Some(report) => {
                    report.bytes += bytes;
                    report.left_out = report.left_out.take().and(left_out);
                }
                None => reports.push(NicReport { nic, bytes, left_out }),
            }
        }
        reports
    }

    /// A sentence for each mirror that was used, but not for all files.
    pub(super) fn notes(&self) -> Vec<String> {
        let used = self.servers.iter().enumerate().filter(|(number, _)| self.lives(*number));
        let note = |(_, server): (usize, &Server)| {
            let first = lock(&server.first_refusal).clone()?;
            let more = server.refused.load(Ordering::Relaxed).saturating_sub(1);
            let more = if more > 0 {
                format!("; and for {}", counted(more as u64, "more file"))
            } else {
                String::new()
            };
            Some(format!("{} was not used for one file: {first}{more}", server.name))
        };
        used.filter_map(note).collect()
    }
}

/// Which server by which NIC. Where a server is in a network of some of the NICs, and a NIC in that of some of the
/// servers, they do not take the long way round.
fn pairs(by_nic: &[ClientSettings<'_>], urls: &[HttpUrl]) -> Vec<(usize, usize)> {
    let all = (0..urls.len()).flat_map(|server| (0..by_nic.len()).map(move |nic| (server, nic)));
    if urls.len() < 2 || by_nic.len() < 2 {
        return all.collect();
    }
    let near: Vec<Vec<bool>> =
        urls.iter().map(|url| by_nic.iter().map(|nic| nic.is_near(url)).collect()).collect();
    let server_is_near = |server: usize| near[server].contains(&true);
    let nic_is_near = |nic: usize| near.iter().any(|server| server[nic]);
    all.filter(|(server, nic)| near[*server][*nic] || !server_is_near(*server) || !nic_is_near(*nic))
        .collect()
}

#[cfg(test)]
mod tests;
