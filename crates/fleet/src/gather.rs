//! The members come: each connection shows the key, says who it is, and has its clock read, on a thread of its
//! own; who does not come in time is named.

use crate::hosts::MOST_HOSTS;
use crate::launch::LaunchEnd;
use crate::protocol::{FLEET_MAGIC, FLEET_PROTOCOL, MemberHello, MemberLink, MemberReply, MemberRequest};
use crate::spec::{FleetError, FleetEvent, FleetSpec, JoinError, LEAST_MEMBERS};
use linerate_measure::run::fleet::AbsentHost;
use linerate_system::clock;
use linerate_system::stop::Stop;
use linerate_transport::admission::{Permits, TIME_TO_PROVE, accept_all, prepare_control};
use linerate_transport::agent::{DeadlineStream, Key, respond_as};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::Sender;
use std::thread::Scope;
use std::time::{Duration, Instant, SystemTime};

/// Connections that have not shown the key yet.
const MOST_PENDING: usize = 256;
/// Readings of a clock; the quickest is kept.
const CLOCK_READINGS: usize = 8;
/// An answer of a member that was just started, on a host that is busy starting others.
const ANSWER: Duration = Duration::from_secs(5);
/// Who does not look for so long did not run.
const STANDSTILL: Duration = Duration::from_millis(1000);
/// A time to look at `stop` while members come.
const LOOK: Duration = Duration::from_millis(50);
/// Who has not come after this is named, though it may still come.
const NAMED: Duration = Duration::from_secs(4);
/// Where nobody says how many there are: no more are awaited when none has come for this long.
const NO_MORE: Duration = Duration::from_secs(3);

/// Who has said hello.
pub(crate) struct JoiningMember<L = MemberLink> {
    pub link: L,
    pub hello: MemberHello,
    pub clock: ClockReading,
}

/// A member's clocks against the coordinator's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClockReading {
    /// Its monotonic clock less ours, nanoseconds.
    pub offset_nanos: i64,
    /// Half the round trip of the reading: it can be wrong by no more.
    pub error_nanos: i64,
    /// Its time of day less ours, nanoseconds.
    pub time_of_day_nanos: i64,
}

/// What came of one connection.
pub(crate) type Joining<L = MemberLink> = Result<Box<JoiningMember<L>>, JoinError>;

/// How long this process has run since then: a standstill of it says nothing of others.
pub(crate) struct AwakeTime {
    looked: Instant,
    /// After the last standstill.
    pub woke: Instant,
    passed: Duration,
}

impl AwakeTime {
    pub(crate) fn begin() -> AwakeTime {
        let now = clock::now();
        AwakeTime { looked: now, woke: now, passed: Duration::ZERO }
    }

    /// What has passed until now; to be asked often.
    pub(crate) fn look(&mut self) -> Duration {
        let now = clock::now();
        #[cfg(test)]
        planted!(StandstillCounts, self.passed += now.saturating_duration_since(self.looked));
        match now.saturating_duration_since(self.looked) {
            passed if passed > STANDSTILL => self.woke = now,
            passed => self.passed += passed,
        }
        self.looked = now;
        self.passed
    }
}

/// Accepts until `closed`; every member, and everyone with the key who cannot be one, goes to `joined`.
pub(crate) fn accept<'scope>(
    scope: &'scope Scope<'scope, '_>,
    listener: &'scope TcpListener,
    key: &'scope Key,
    zero: Instant,
    closed: &'scope Stop,
    joined: Sender<Joining>,
) {
    let pending = Permits::open(MOST_PENDING);
    accept_all(listener, closed, |stream, address| {
        // Too many who have shown nothing: a member comes again.
        let Ok(permit) = pending.take(address) else { return };
        let joined = joined.clone();
        let open = move || {
            let _permit = permit;
            if let Some(joining) = open(stream, key, zero) {
                // Nobody takes members any more: the connection ends here.
                let _ = joined.send(joining);
            }
        };
        // No thread to be had: dropped, and it comes again.
        let _ = std::thread::Builder::new().name("joining".into()).spawn_scoped(scope, open);
    });
}

/// None: it showed no key, and the user need not hear of it.
fn open(stream: TcpStream, key: &Key, zero: Instant) -> Option<Joining> {
    let mut wire = DeadlineStream::new(&stream, TIME_TO_PROVE);
    let mut magic = [0; 4];
    wire.read_exact(&mut magic).ok()?;
    if magic != FLEET_MAGIC {
        if magic[..3] == FLEET_MAGIC[..3] {
            // Another version of linerate learns which one this is.
            let _ = wire.write_all(&FLEET_MAGIC);
        }
        return None;
    }
    prepare_control(&stream).ok()?;
    let channel = respond_as(&FLEET_MAGIC, &mut wire, key)
        .inspect_err(|broken| tracing::info!(peer = ?stream.peer_addr().ok(), %broken, "no member"))
        .ok()?;
    let link = MemberLink::new(stream, channel).ok()?;
    Some(welcome(link, zero))
}

fn welcome(link: MemberLink, zero: Instant) -> Joining {
    let MemberReply::Hello(hello) = link.receive_within(ANSWER)? else { return Err(JoinError::NoHello) };
    if hello.protocol != FLEET_PROTOCOL {
        let name = hello.name.clone().unwrap_or_else(|| hello.host.clone());
        let MemberHello { version, protocol, .. } = hello;
        let error = JoinError::OtherProtocol { name, version, protocol, own: FLEET_PROTOCOL };
        let _ = link.send(&MemberRequest::Refused { why: error.to_string() });
        return Err(error);
    }
    let mut readings = Vec::new();
    for _ in 0..CLOCK_READINGS {
        readings.push(read_clock(&link, zero)?);
    }
    let best = readings.into_iter().min_by_key(|reading| reading.error_nanos);
    Ok(Box::new(JoiningMember { link, hello, clock: best.ok_or(JoinError::NoHello)? }))
}

/// One reading: the member read its clock somewhere between our question and its answer.
fn read_clock(link: &MemberLink, zero: Instant) -> Result<ClockReading, JoinError> {
    let asked = clock::since(zero).as_nanos() as i64;
    link.send(&MemberRequest::Clock)?;
    let (nanos, unix_nanos) = loop {
        match link.receive_within(ANSWER)? {
            MemberReply::Clock { nanos, unix_nanos } => break (nanos, unix_nanos),
            MemberReply::Alive => {}
            _ => return Err(JoinError::NoHello),
        }
    };
    let answered = clock::since(zero).as_nanos() as i64;
    let now = clock::date().duration_since(SystemTime::UNIX_EPOCH);
    let half = (answered - asked) / 2;
    Ok(ClockReading {
        offset_nanos: nanos.saturating_sub(asked + half),
        error_nanos: half,
        time_of_day_nanos: unix_nanos.saturating_sub(now.map_or(0, |now| now.as_nanos() as i64) - half),
    })
}

/// Who has come, and who will not.
pub(crate) struct Gathering<'a, L = MemberLink> {
    spec: &'a FleetSpec,
    joined: Vec<JoiningMember<L>>,
    pub absent: Vec<AbsentHost>,
    pub errors: Vec<String>,
    /// Names of members that came and were refused.
    refused: Vec<String>,
    /// A launcher that ran for all of them has ended: those that are not there will not come.
    over: bool,
    time: AwakeTime,
    /// When the last member came.
    last: Duration,
}

impl<'a, L> Gathering<'a, L> {
    pub(crate) fn begin(spec: &'a FleetSpec) -> Self {
        let (joined, absent, errors, refused) = Default::default();
        let (over, time, last) = (false, AwakeTime::begin(), Duration::ZERO);
        Gathering { spec, joined, absent, errors, refused, over, time, last }
    }

    /// Awaits all that will come; gives them their names.
    pub(crate) fn await_members(
        &mut self,
        receive: &mut dyn FnMut(Duration) -> Option<Joining<L>>,
        launchers_ended: &mut dyn FnMut() -> Vec<LaunchEnd>,
        stop: &Stop,
        listening: &mut dyn FnMut(FleetEvent<'_>),
    ) -> Result<Vec<(String, JoiningMember<L>)>, FleetError> {
        let mut named = false;
        loop {
            let passed = self.time.look();
            let is_silent = passed - self.last > NO_MORE && self.joined.len() >= LEAST_MEMBERS;
            let is_quiet = is_silent && self.expected().is_none();
            let is_over = is_quiet || self.over || passed > self.spec.patience;
            // Who is there by then is taken first; there is no end to those that come for ever.
            let joining = receive(if is_over { Duration::ZERO } else { LOOK });
            let is_over = is_over && joining.is_none() || passed > 2 * self.spec.patience;
            joining.into_iter().for_each(|joining| self.take(joining));
            if stop.is_ended() {
                return Err(FleetError::Stopped);
            }
            launchers_ended().into_iter().for_each(|end| self.launcher_ended(end));
            if self.lacking() == Some(0) || is_over {
                return self.end();
            }
            if !named && passed > NAMED {
                named = true;
                listening(FleetEvent::Waiting(&self.missing()));
            }
        }
    }

    fn take(&mut self, joining: Joining<L>) {
        let is_there = |MemberHello { name, rank, .. }: &MemberHello| {
            #[cfg(test)]
            planted!(TwiceCounts, return false);
            let is_same = |other: &MemberHello| (&other.name, other.rank) == (name, *rank);
            (name.is_some() || rank.is_some()) && self.joined.iter().any(|member| is_same(&member.hello))
        };
        match joining {
            Ok(member) if is_there(&member.hello) => {
                let MemberHello { name, host, .. } = member.hello;
                self.errors.push(JoinError::Twice { name: name.unwrap_or(host) }.to_string());
            }
            Ok(member) => {
                self.joined.push(*member);
                self.last = self.time.passed;
            }
            Err(JoinError::Broken(broken)) => tracing::info!(%broken, "a member was lost while it joined"),
            Err(error) => {
                self.errors.push(error.to_string());
                if let JoinError::OtherProtocol { name, .. } = error {
                    self.refused.push(name);
                }
            }
        }
        #[cfg(test)]
        planted!(AbsentStays, return);
        // Its launcher may have ended before it came.
        let mut absent = std::mem::take(&mut self.absent);
        absent.retain(|host| !self.has_come(&host.name));
        self.absent = absent;
    }

    /// A member of this name, or one that was refused.
    fn has_come(&self, name: &String) -> bool {
        self.joined.iter().any(|member| member.hello.name.as_ref() == Some(name))
            || self.refused.contains(name)
    }

    fn launcher_ended(&mut self, end: LaunchEnd) {
        tracing::info!(host = ?end.host, why = end.why, "a launcher ended");
        match end.host {
            Some(name) if self.has_come(&name) => {}
            Some(name) => self.absent.push(AbsentHost { name, why: end.why }),
            None => {
                self.over = true;
                self.errors.push(end.why);
            }
        }
    }

    fn expected(&self) -> Option<usize> {
        let sizes = self.joined.iter().filter_map(|member| Some(member.hello.size? as usize));
        let of_job = sizes.filter(|size| (LEAST_MEMBERS..=MOST_HOSTS).contains(size)).max();
        let hosts = self.spec.start.hosts().len();
        self.spec.members.or((hosts > 0).then_some(hosts)).or(of_job)
    }

    /// How many are still to come, where it is known. Members that were refused have come.
    fn lacking(&self) -> Option<usize> {
        Some(self.expected()?.saturating_sub(self.joined.len() + self.absent.len() + self.refused.len()))
    }

    /// Hosts of the list that are neither there, nor refused, nor known to be absent.
    fn missing(&self) -> Vec<String> {
        let mut known = [self.names(), self.refused.clone()].concat();
        known.extend(self.absent.iter().map(|host| host.name.clone()));
        self.spec.start.hosts().iter().filter(|host| !known.contains(host)).cloned().collect()
    }

    /// The members with their names; those that did not come are among the absent then.
    fn end(&mut self) -> Result<Vec<(String, JoiningMember<L>)>, FleetError> {
        let (expected, lacking, missing) = (self.expected(), self.lacking().unwrap_or(0), self.missing());
        if self.time.passed > self.spec.patience && lacking > 0 {
            let why = format!("did not connect within {:.0} s", self.spec.patience.as_secs_f64());
            // More names than members: some are aliases of members that came, and nobody knows which.
            let absent = missing.iter().filter(|_| missing.len() <= lacking).cloned();
            self.absent.extend(absent.map(|name| AbsentHost { name, why: format!("it {why}") }));
            if missing.len() != lacking {
                self.errors.push(format!("{lacking} of {} members {why}", expected.unwrap_or_default()));
            }
        }
        if self.joined.len() >= LEAST_MEMBERS {
            let (names, joined) = (self.names(), std::mem::take(&mut self.joined));
            let mut named: Vec<(String, JoiningMember<L>)> = names.into_iter().zip(joined).collect();
            let hosts = self.spec.start.hosts();
            let place = |name: &String| hosts.iter().position(|host| host == name).unwrap_or(usize::MAX);
            named.sort_by_cached_key(|(name, member)| (place(name), member.hello.rank, name.clone()));
            return Ok(named);
        }
        let first = self.absent.first().map(|host| format!("{}: {}", host.name, host.why));
        Err(FleetError::TooFew {
            joined: self.joined.len(),
            expected: expected.map_or("an unknown number".into(), |count| count.to_string()),
            seconds: self.time.passed.as_secs_f64(),
            why: first
                .or_else(|| self.errors.first().cloned())
                .unwrap_or_else(|| "do the hosts reach this one, and did LINERATE_KEY arrive there?".into()),
        })
    }

    /// Of those that have come, each by the list, its rank or its host; no two are alike.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for JoiningMember { hello, .. } in &self.joined {
            let host = &hello.host;
            let is_free = |name: &String| !names.contains(name);
            let of_list = || {
                let plain = |name: &'a String| name.rsplit('@').next().unwrap_or(name);
                let short = |text: &str| text.split('.').next().unwrap_or_default().to_string();
                let mut free = self.spec.start.hosts().iter().filter(|name| is_free(name));
                let exact = free.clone().find(|name| plain(name) == host);
                exact.or_else(|| free.find(|name| short(plain(name)) == short(host))).cloned()
            };
            let base = hello.name.clone().or_else(of_list).or((!host.is_empty()).then(|| host.clone()));
            let base = base.unwrap_or("member".into());
            let ranked = hello.rank.map(|rank| format!("{base}:{rank}"));
            let numbered = (2..).map(|number| format!("{base}#{number}"));
            let free = std::iter::once(base.clone()).chain(ranked).chain(numbered).find(is_free);
            names.extend(free);
        }
        names
    }
}

#[cfg(test)]
mod tests;
