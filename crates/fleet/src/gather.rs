//! The members come: each connection shows the key, says who it is, and has its clock read, on a thread of its
//! own; who does not come in time is named.

use crate::error::JoinError;
use crate::link::MemberLink;
use crate::protocol::{FLEET_MAGIC, FLEET_PROTOCOL, MemberHello, MemberReply, MemberRequest};
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

/// A member at the door.
pub(crate) struct JoiningMember {
    pub link: MemberLink,
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
pub(crate) type Joining = Result<Box<JoiningMember>, JoinError>;

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

/// None: it showed no key, and is no business of the user's.
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
        offset_nanos: nanos - (asked + half),
        error_nanos: half,
        time_of_day_nanos: unix_nanos - (now.map_or(0, |now| now.as_nanos() as i64) - half),
    })
}

/// Names in the order of the list, then by rank, then by name; no two are alike.
pub(crate) fn named(joined: Vec<JoiningMember>, listed: &[String]) -> Vec<(String, JoiningMember)> {
    let mut named: Vec<(String, JoiningMember)> = Vec::new();
    for member in joined {
        let taken = |name: &str| named.iter().any(|(other, _)| other == name);
        let host = &member.hello.host;
        let of_list = || {
            let matches = |name: &&String| {
                let plain = name.rsplit('@').next().unwrap_or(name);
                let short = |text: &str| text.split('.').next().unwrap_or_default().to_string();
                (plain == host || short(plain) == short(host)) && !taken(name)
            };
            listed.iter().find(matches).cloned()
        };
        let base = member.hello.name.clone().or_else(of_list).unwrap_or_else(|| match host.as_str() {
            "" => "member".to_string(),
            host => host.to_string(),
        });
        let ranked = member.hello.rank.map(|rank| format!("{base}:{rank}"));
        let numbered = (2..).map(|number| format!("{base}#{number}"));
        let name = std::iter::once(base.clone()).chain(ranked).chain(numbered).find(|name| !taken(name));
        named.push((name.unwrap_or(base), member));
    }
    let place = |name: &String| listed.iter().position(|listed| listed == name).unwrap_or(usize::MAX);
    named.sort_by_key(|(name, member)| (place(name), member.hello.rank, name.clone()));
    named
}

#[cfg(test)]
mod tests;
