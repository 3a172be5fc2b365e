//! An agent that clients flood, keep waiting, lie to and leave, without a socket and on a simulated clock: its bounds
//! hold, all that it gave comes back once, whom it refuses has to be refused, and nobody waits for ever.

use super::clients::{AHEAD, AHEAD_FACTOR};
use super::network_stream::memory_of_stream;
use super::protocol::AgentRequest;
use super::session_stream::SessionStream;
use super::shared::{Shared, TICK};
use super::trial::{AgentTest, TestOwner};
use super::*;
use crate::admission::{PendingEntry, Permit, SharedPending, origin};
use crate::flow::rate_limit::LONGEST_DEBT;
use crate::flow::stream::{StreamRole, StreamSpec};
use crate::tests::PlantedBug;
use linerate_facts::protocol::Protocol;
use linerate_facts::random::Random;
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use linerate_system::clock::simulated::SimulatedClock;
use linerate_testing::{find_each, simulated};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs of this test, of which a fifth is drawn, and how many a minute there are on one core at least.
const RUNS: u32 = 10_000;
const RUNS_A_MINUTE: f64 = 10_000.0;
const STEPS: u32 = 50;
/// Bytes a second of a client, where there is a limit.
const RATE: f64 = 1e6;
/// Longer than any debt, and any patience.
const LONG: Duration = Duration::from_secs(60);

/// What a connection shows.
enum Credential {
    Key(AgentRequest),
    Token([u8; SECRET_BYTES]),
    /// What nobody asked for: it is closed.
    Nonsense,
}

struct Connection {
    number: u64,
    peer: IpAddr,
    entry: PendingEntry<u64>,
    /// When it shows what; it waits until then.
    shows: Option<(Instant, Credential)>,
}

struct ClientSession<'a> {
    client: IpAddr,
    trial: Option<AgentTest<'a>>,
    /// Tokens that were not shown, each with its stream; and when that is over.
    tokens: Vec<([u8; SECRET_BYTES], Arc<SessionStream>)>,
    issued: Instant,
    running: Vec<Arc<SessionStream>>,
    _permit: Permit,
}

struct Clients<'a> {
    shared: &'a Shared,
    sysroot: &'a Sysroot,
    pending: SharedPending<u64>,
    random: Random,
    faults: u32,
    number: u64,
    connections: Vec<Connection>,
    sessions: Vec<ClientSession<'a>>,
    /// Tokens that are of no use any more.
    used: Vec<[u8; SECRET_BYTES]>,
    looked: Instant,
    /// By origin: seconds that it owed then.
    owed: HashMap<IpAddr, (Instant, f64)>,
}

impl<'a> Clients<'a> {
    fn peer(&mut self) -> IpAddr {
        // Half of all come from the first.
        match self.random.below(8) {
            0..4 => [192, 0, 2, 1].into(),
            4..6 => [0x2001, 0xdb8, 0, 0, self.random.word() as u16, 0, 0, 1].into(),
            6 => [192, 0, 2, 2].into(),
            _ => [198, 51, 100, 7].into(),
        }
    }

    /// Somebody connects.
    fn arrives(&mut self) {
        let peer = self.peer();
        let limits = &self.shared.settings.limits;
        let tokens: Vec<_> =
            self.sessions.iter().flat_map(|session| &session.tokens).map(|(token, _)| *token).collect();
        let hello = |protocol| Credential::Key(AgentRequest::Hello { protocol, version: "1".into() });
        let (is_fault, shown) = match self.random.below(12) {
            0 => (true, None),
            1 => (true, Some(Credential::Nonsense)),
            2 => (true, Some(hello(PROTOCOL + 1))),
            3 => (true, Some(Credential::Key(AgentRequest::Sample))),
            4 => (true, self.used.last().copied().map(Credential::Token)),
            5 => (true, Some(Credential::Token([self.random.word() as u8; SECRET_BYTES]))),
            6..9 if !tokens.is_empty() => {
                let token = tokens[self.random.below(tokens.len() as u64) as usize];
                (false, Some(Credential::Token(token)))
            }
            _ => (false, Some(hello(PROTOCOL))),
        };
        // One that is slow may be too late.
        let is_slow = self.random.chance(0.1);
        self.faults += u32::from(is_fault) + u32::from(is_slow);
        let after = Duration::from_millis(self.random.below(if is_slow { 4000 } else { 500 }));
        let (shows, number) = (shown.map(|shown| (clock::now() + after, shown)), self.number);
        self.number += 1;
        let is_full = self.connections.len() == limits.unknown_connections;
        let (entry, crowded_out) = self.pending.add(peer, number);
        assert!(crowded_out.is_some() == is_full, "{crowded_out:?} goes, with room for all");
        assert!(entry.deadline <= clock::now() + limits.admission, "it may wait for long");
        if let Some(crowded_out) = crowded_out {
            self.faults += 1;
            let crowd = |of: IpAddr| self.connections.iter().filter(|one| origin(one.peer) == of).count();
            let largest = self.connections.iter().map(|one| crowd(origin(one.peer))).max();
            let first = self.connections.iter().position(|one| Some(crowd(origin(one.peer))) == largest);
            let gone = self.connections.remove(first.expect("it was full"));
            assert!(gone.number == crowded_out, "{crowded_out} goes for {peer}, and not {}", gone.number);
            assert!(gone.entry.take().is_none(), "who was crowded out may stay");
        }
        self.connections.push(Connection { number, peer, entry, shows });
    }

    /// What pending connections show by now; those that are late are closed.
    fn show(&mut self) {
        let now = clock::now();
        let is_due = |one: &mut Connection| {
            one.entry.deadline <= now || one.shows.as_ref().is_some_and(|(at, _)| *at <= now)
        };
        let due: Vec<Connection> = self.connections.extract_if(.., is_due).collect();
        for Connection { peer, entry, shows, .. } in due {
            let deadline = entry.deadline;
            match shows.filter(|(at, _)| *at < deadline) {
                Some((_, Credential::Nonsense)) => {}
                Some(_) if entry.take().is_none() => panic!("one that was not crowded out may not stay"),
                Some((_, Credential::Key(hello))) => self.comes(peer, &hello),
                Some((_, Credential::Token(token))) => self.claims(token),
                None => self.faults += 1,
            }
        }
    }

    fn comes(&mut self, client: IpAddr, hello: &AgentRequest) {
        let bound = self.shared.settings.limits.sessions;
        let of_client = |one: &&ClientSession<'_>| origin(one.client) == origin(client);
        let (all, own) = (self.sessions.len(), self.sessions.iter().filter(of_client).count());
        let may = matches!(hello, AgentRequest::Hello { protocol: PROTOCOL, .. })
            && all < bound
            && own < bound.div_ceil(2);
        let permit = session::permit(hello, client, self.shared);
        assert!(
            permit.is_ok() == may,
            "a session beside {all}, {own} its own, of {bound}: {:?}",
            permit.as_ref().err()
        );
        if let Ok(permit) = permit {
            let (tokens, running, issued) = (Vec::new(), Vec::new(), clock::now());
            self.sessions.push(ClientSession {
                client,
                trial: None,
                tokens,
                issued,
                running,
                _permit: permit,
            });
        }
    }

    fn claims(&mut self, token: [u8; SECRET_BYTES]) {
        let life = self.shared.settings.limits.token_life;
        let of = self.sessions.iter_mut().find_map(|session| {
            let number = session.tokens.iter().position(|(own, _)| *own == token)?;
            Some((session.issued, session.tokens.remove(number).1, &mut session.running))
        });
        let claimed = self.shared.claim(&token);
        self.used.push(token);
        let Some((_, stream, running)) = of.filter(|(issued, ..)| clock::since(*issued) < life) else {
            assert!(claimed.is_none(), "a token works that was used, withdrawn, late or never there");
            return;
        };
        assert!(claimed.is_some_and(|claimed| Arc::ptr_eq(&claimed, &stream)), "a token does not work");
        // Its test may be over its time.
        let waits = !stream.sample().ended;
        assert!(stream.begins(None) == waits && !stream.begins(None), "a stream does not begin once");
        if waits {
            stream.met();
            running.push(stream);
        }
    }

    /// Of each stream.
    fn memory(&self) -> impl Iterator<Item = u64> {
        self.sessions.iter().flat_map(ClientSession::memory)
    }

    fn tests(&self) -> impl Iterator<Item = &ClientSession<'a>> {
        self.sessions.iter().filter(|session| session.trial.is_some())
    }

    /// A session asks for a test.
    fn opens(&mut self, number: usize) {
        let limits = self.shared.settings.limits;
        let client = self.sessions[number].client;
        let of_client = |one: &&ClientSession<'_>| origin(one.client) == origin(client);
        let (all, own) = (self.tests().count(), self.tests().filter(of_client).count());
        let count = self.random.below(limits.streams as u64 + 2) as usize;
        let spec = StreamSpec {
            receive_buffer_bytes: Some(64 << (10 + self.random.below(9))),
            ..StreamSpec::new(Protocol::Tcp, StreamRole::Receive)
        };
        let needs = memory_of_stream(&spec);
        let request = OpenRequest { streams: vec![spec; count], sink: None, sink_workers: 0 };
        let whose = TestOwner { local: ([127, 0, 0, 1], 1).into(), client, start: clock::now() };
        let used: Vec<u64> = self.memory().collect();
        let of_own: usize = self.sessions.iter().filter(of_client).map(|one| one.memory().count()).sum();
        // What it moved until now is known.
        self.shared.look_after(clock::now());
        let is_over =
            limits.client.bytes_per_second.is_some() && self.owes(client, 0) > AHEAD.as_secs_f64() + 0.001;
        let opened = AgentTest::open(self.shared, self.sysroot, whose, request);
        let may =
            (1..=limits.streams).contains(&count) && all < limits.tests && own < limits.tests.div_ceil(2);
        assert!(
            opened.is_ok() == may,
            "a test of {count} beside {all}, {own} its own: {:?}",
            opened.as_ref().err()
        );
        let Ok((trial, tickets)) = opened else {
            self.faults += 1;
            return;
        };
        let (mut memory, mut streams) = (used.iter().sum::<u64>(), [used.len(), of_own]);
        let mut granted = trial.all().cloned().collect::<Vec<_>>().into_iter();
        let session = &mut self.sessions[number];
        for ticket in tickets {
            let fits = memory + needs <= limits.client.memory_bytes
                && streams[1] < limits.client.streams
                && streams[0] < 4 * limits.streams;
            match ticket {
                StreamTicket::Granted { token, .. } => {
                    assert!(fits && !is_over, "a stream is granted beyond a bound");
                    memory += needs;
                    streams = streams.map(|count| count + 1);
                    session.tokens.push((*token.bytes(), granted.next().expect("a stream")));
                }
                // What is left of a rate, only the clients know.
                StreamTicket::Refused { why } => {
                    self.faults += 1;
                    assert!(!fits || why.contains("--rate-limit"), "a stream is refused: {why}");
                }
            }
        }
        (session.trial, session.issued) = (Some(trial), clock::now());
    }

    /// A test ends, with all of its threads.
    fn closes(&mut self, number: usize) {
        let session = &mut self.sessions[number];
        session.running.drain(..).for_each(|stream| stream.finish(None));
        self.used.extend(session.tokens.drain(..).map(|(token, _)| token));
        session.trial = None;
    }

    /// Seconds until a client is within its rate again, with so many bytes more.
    fn owes(&mut self, client: IpAddr, bytes: u64) -> f64 {
        let now = clock::now();
        let (since, owed) = self.owed.entry(origin(client)).or_insert((now, 0.0));
        let left = (*owed - (now - *since).as_secs_f64()).max(0.0);
        (*since, *owed) = (now, (left + bytes as f64 / RATE / AHEAD_FACTOR).min(LONGEST_DEBT.as_secs_f64()));
        *owed
    }

    /// What runs moves something; who is told to end does.
    fn moves(&mut self) {
        for number in 0..self.sessions.len() {
            let (client, running) = (self.sessions[number].client, &mut self.sessions[number].running);
            running.extract_if(.., |stream| stream.is_stopped()).for_each(|stream| stream.finish(None));
            for stream in running.clone() {
                let bytes = self.random.below(4 * RATE as u64);
                stream.counters.progress.add(bytes);
                self.owes(client, bytes);
            }
        }
    }

    /// The agent looks after its streams.
    fn looks(&mut self) {
        if clock::since(self.looked) < TICK {
            return;
        }
        self.looked = clock::now();
        self.shared.look_after(clock::now());
        let limits = &self.shared.settings.limits;
        for session in &self.sessions {
            let age = clock::since(session.issued);
            let is_over = |time: Option<Duration>| time.is_some_and(|time| age > time);
            let unused = || session.tokens.iter().all(|(_, stream)| stream.sample().ended);
            assert!(!is_over(Some(limits.token_life)) || unused(), "a stream that nobody came for stays");
            let stopped = || session.running.iter().all(|stream| stream.is_stopped());
            assert!(!is_over(limits.test_time) || stopped(), "a test goes on beyond its time");
        }
    }

    /// Bounds, and that what is taken is what somebody has.
    fn check(&self) {
        let (shared, limits) = (self.shared, &self.shared.settings.limits);
        let all = [
            ("pending", self.connections.len(), self.pending.len(), limits.unknown_connections),
            ("sessions", self.sessions.len(), shared.sessions.taken(), limits.sessions),
            ("tests", self.tests().count(), shared.tests.taken(), limits.tests),
            ("streams", self.memory().count(), shared.streams.taken(), 4 * limits.streams),
        ];
        for (what, there, taken, bound) in all {
            assert!(
                there == taken && taken <= bound,
                "{there} {what} are there, {taken} are taken, of {bound}"
            );
        }
    }

    fn step(&mut self) {
        let most = if self.random.chance(0.05) { 12_000 } else { 150 };
        clock::sleep(Duration::from_millis(self.random.below(most)));
        let some = |random: &mut Random, of: usize| random.below(of as u64) as usize;
        match self.random.below(10) {
            0..5 => self.arrives(),
            5..7 if !self.sessions.is_empty() => {
                let number = some(&mut self.random, self.sessions.len());
                if self.sessions[number].trial.is_none() {
                    self.opens(number)
                } else if self.random.chance(0.3) {
                    self.closes(number)
                }
            }
            7 if !self.sessions.is_empty() => {
                // The client is gone, whatever it was at.
                self.faults += 1;
                let number = some(&mut self.random, self.sessions.len());
                self.closes(number);
                drop(self.sessions.remove(number));
            }
            _ => {}
        }
        self.show();
        self.moves();
        self.looks();
        self.check()
    }

    /// All leave: nothing is left of them.
    fn leave(&mut self) {
        clock::sleep(LONG);
        self.show();
        (0..self.sessions.len()).for_each(|number| self.closes(number));
        self.sessions.clear();
        // What they owe is forgotten, too.
        clock::sleep(LONG);
        self.looks();
        self.check();
        let shared = self.shared;
        let is_left = self.used.iter().any(|token| shared.claim(token).is_some());
        let left = (self.connections.len(), shared.sessions.taken(), shared.clients.len(), is_left);
        assert!(left == (0, 0, 0, false) && shared.watched.is_empty(), "{left:?} are left");
    }
}

impl ClientSession<'_> {
    /// Of each of its streams.
    fn memory(&self) -> impl Iterator<Item = u64> {
        self.trial.iter().flat_map(AgentTest::all).map(|stream| memory_of_stream(&stream.spec))
    }
}

fn run(seed: u32, sysroot: &Sysroot) -> Result<u32, String> {
    let clock = SimulatedClock::new();
    let _entered = clock.enter();
    let mut random = Random::new(u64::from(seed));
    let mut some = |most: u64| 1 + random.below(most) as usize;
    let client = ClientLimits {
        streams: some(6),
        memory_bytes: 8 << (18 + some(6)),
        bytes_per_second: (some(2) == 1).then_some(RATE),
    };
    let limits = AgentLimits {
        unknown_connections: some(6),
        sessions: some(6),
        tests: some(5),
        streams: some(5),
        test_time: (some(2) == 1).then_some(Duration::from_secs(4)),
        client,
        ..AgentLimits::default()
    };
    let key = Key::from_hex(&"5a".repeat(32)).expect("a key");
    let shared = Shared::new(key, limits.into()).map_err(|error| error.to_string())?;
    let mut clients = Clients {
        shared: &shared,
        sysroot,
        pending: SharedPending::new(limits.unknown_connections, limits.admission),
        random,
        faults: 0,
        number: 0,
        connections: Vec::new(),
        sessions: Vec::new(),
        used: Vec::new(),
        looked: clock::now(),
        owed: HashMap::new(),
    };
    (0..STEPS).for_each(|_| clients.step());
    clients.leave();
    Ok(clients.faults)
}

fn runs() -> impl Fn(u32) -> Result<u32, String> {
    let sysroot = Sysroot::files([]);
    move |seed| run(seed, &sysroot)
}

#[test]
fn whatever_clients_do_the_bounds_of_an_agent_hold_and_all_comes_back() {
    simulated(
        ("linerate-transport", "whatever_clients_do_the_bounds_of_an_agent"),
        (RUNS, RUNS_A_MINUTE),
        runs(),
    );
}

#[test]
fn seeds_find_each_bug_that_is_planted_in_admission() {
    find_each(<PlantedBug as strum::VariantArray>::VARIANTS, RUNS / 20, runs);
}
