//! The coordinator: starts the members or awaits those of its job, gathers them, runs the windows of the pattern,
//! and gives the product, also where members are lost on the way.

use crate::error::{FleetError, JoinError};
use crate::gather::{Joining, JoiningMember, accept, named};
use crate::launch::{LaunchedMembers, start_own};
use crate::member::own_addresses;
use crate::names::NameLookup;
use crate::protocol::DEFAULT_COORDINATOR_PORT;
use crate::rounds::measure;
use crate::spec::{FleetEvent, FleetSpec, FleetStart, LEAST_MEMBERS};
use crate::window::{Conversation, GatheredMember, WindowSettings};
use linerate_facts::failure::Failure;
use linerate_measure::run::fleet::{AbsentHost, FleetGrouping, FleetPattern, FleetResult};
use linerate_system::clock;
use linerate_system::side_file::ReplacingFile;
use linerate_system::stop::Stop;
use linerate_transport::admission::listen;
use linerate_transport::agent::{AllowList, Key};
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

/// Before each window of flows, not counted: this share of its length, and no more seconds than these.
const WARM_UP_SHARE: f64 = 0.6;
const MOST_WARM_UP_SECONDS: f64 = 0.3;
/// A time to look at `stop` while members come.
const LOOK: Duration = Duration::from_millis(50);
/// Where nobody says how many there are: no more are awaited when none has come for this long.
const NO_MORE: Duration = Duration::from_secs(3);
/// Who has not come after this is named, though it may still come.
const NAMED: Duration = Duration::from_secs(4);

/// Runs a fleet to its end. Members that are lost and hosts that never come are in the result; an error only where
/// nothing can be measured.
pub fn coordinate(
    spec: &FleetSpec,
    key: &Key,
    stop: &Stop,
    listening: &mut dyn FnMut(FleetEvent<'_>),
) -> Result<FleetResult, FleetError> {
    let zero = clock::now();
    let (tcp, addresses) = open(spec)?;
    let closed = Stop::new();
    let rendezvous = spec.rendezvous.as_ref().map(|file| Rendezvous::write(file, &addresses)).transpose()?;
    // Where it cannot be written, members have the launcher's host.
    let home_file = spec.home_file.as_ref().and_then(|file| Rendezvous::write(file, &addresses).ok());
    let (sender, joins) = mpsc::channel();
    std::thread::scope(|scope| {
        // Whatever ends this, the accepting thread ends too.
        let closing = closed.ends_at_drop();
        let (tcp, accepting) = (&tcp, &closed);
        scope.spawn(move || accept(scope, tcp, key, zero, accepting, sender));
        let listed = match &spec.start {
            FleetStart::Launch { hosts, .. } => hosts.as_slice(),
            FleetStart::Job => &[],
        };
        let lookup = NameLookup::start(listed);
        let mut launched = launch(spec, &addresses, key)?;
        let gathered = gather(spec, &joins, &mut launched, stop, listening);
        drop(closing);
        drop((rendezvous, home_file));
        let (joined, absent, errors) = gathered?;
        let members = named(joined, listed)
            .into_iter()
            .map(|(name, member)| {
                data_address(spec, &member, &name).map(|at| GatheredMember::new(name, member, at))
            })
            .collect::<Result<Vec<_>, _>>()?;
        one_family(&members)?;
        let mut result = FleetResult {
            pattern: spec.pattern,
            seconds: spec.seconds,
            streams: spec.streams,
            fabric: spec.fabric.clone(),
            group: (spec.pattern == FleetPattern::Bisection && !spec.fabric.is_empty())
                .then_some(FleetGrouping::Rack),
            servers: spec.servers.clone(),
            rate_limit_bytes_per_second: spec.rate_limit,
            absent,
            errors,
            ..FleetResult::default()
        };
        let settings = WindowSettings {
            seconds: spec.seconds,
            warm_up_seconds: (spec.seconds * WARM_UP_SHARE).min(MOST_WARM_UP_SECONDS),
            streams: spec.streams,
            rate_limit: spec.rate_limit,
            asks: spec.pattern == FleetPattern::Incast,
        };
        let mut conversation = Conversation::begin(scope, members, zero, settings);
        measure(spec, &lookup, &mut conversation, &mut result, stop, listening);
        conversation.leave();
        launched.end();
        Ok(result)
    })
}

/// The file that tells the other ranks the address; it goes with the value.
struct Rendezvous(PathBuf);

impl Rendezvous {
    fn write(file: &std::path::Path, addresses: &[String]) -> Result<Rendezvous, FleetError> {
        let written = ReplacingFile::beside(file, 0o644).and_then(|mut new| {
            new.file.write_all((addresses.join("\n") + "\n").as_bytes())?;
            new.put(file)
        });
        written.map_err(|error| FleetError::Rendezvous { file: file.into(), error })?;
        Ok(Rendezvous(file.into()))
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        // Who reads it later would look for a coordinator that is gone.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Listens; also the words by which members reach it.
fn open(spec: &FleetSpec) -> Result<(TcpListener, Vec<String>), FleetError> {
    let in_job = matches!(spec.start, FleetStart::Job);
    let (at, words) = match &spec.coordinator {
        Some(text) => {
            let text =
                if text.contains(':') { text.clone() } else { format!("{text}:{DEFAULT_COORDINATOR_PORT}") };
            let resolved = text.to_socket_addrs().ok().and_then(|mut all| all.next());
            let port = resolved.ok_or(FleetError::NoAddress)?.port();
            (port, Some(text))
        }
        None if in_job && spec.rendezvous.is_none() => (DEFAULT_COORDINATOR_PORT, None),
        None => (0, None),
    };
    let every = [SocketAddr::from((Ipv6Addr::UNSPECIFIED, at))];
    let in_use = "another fleet may have it; choose another with --coordinator HOST:PORT";
    let listeners = listen(&every).or_else(|error| match &spec.home_file {
        // Its members read the port, too.
        Some(_) => listen(&[SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0))]),
        None => Err(error),
    });
    let listeners = listeners.map_err(|error| FleetError::Listen(error.advise("--coordinator", in_use)))?;
    let tcp = listeners.into_iter().next().ok_or(FleetError::NoAddress)?;
    let port = tcp.local_addr().map_err(|error| FleetError::Listen(Failure::lacks(error)))?.port();
    let words = match words {
        Some(text) => vec![match text.strip_suffix(":0") {
            Some(host) => format!("{host}:{port}"),
            None => text,
        }],
        None => own_addresses().into_iter().map(|ip| SocketAddr::new(ip, port).to_string()).collect(),
    };
    if words.is_empty() {
        return Err(FleetError::NoAddress);
    }
    Ok((tcp, words))
}

fn launch(spec: &FleetSpec, addresses: &[String], key: &Key) -> Result<LaunchedMembers, FleetError> {
    let member = [spec.program.clone(), "fleet-member".into(), "--join".into(), addresses.join(",")];
    Ok(match &spec.start {
        FleetStart::Launch { plan, .. } => plan.start(&member, key)?,
        FleetStart::Job => start_own(&member, key)?,
    })
}

type Gathered = (Vec<JoiningMember>, Vec<AbsentHost>, Vec<String>);

/// Awaits the members.
fn gather(
    spec: &FleetSpec,
    joins: &mpsc::Receiver<Joining>,
    launched: &mut LaunchedMembers,
    stop: &Stop,
    listening: &mut dyn FnMut(FleetEvent<'_>),
) -> Result<Gathered, FleetError> {
    let hosts: &[String] = match &spec.start {
        FleetStart::Launch { hosts, .. } => hosts,
        FleetStart::Job => &[],
    };
    let listed = (!hosts.is_empty()).then_some(hosts.len());
    let (mut joined, mut absent, mut errors): Gathered = Default::default();
    let (began, mut last) = (clock::now(), clock::now());
    let (mut over, mut named) = (false, false);
    loop {
        match joins.recv_timeout(LOOK) {
            Ok(Ok(member)) => {
                joined.push(*member);
                last = clock::now();
            }
            Ok(Err(JoinError::Broken(broken))) => {
                tracing::info!(%broken, "a member was lost while it joined")
            }
            Ok(Err(error)) => errors.push(error.to_string()),
            Err(_) => {}
        }
        if stop.is_ended() {
            return Err(FleetError::Stopped);
        }
        for end in launched.ended() {
            tracing::info!(host = ?end.host, why = end.why, "a launcher ended");
            match end.host {
                Some(name) if !joined.iter().any(|member| member.hello.name.as_ref() == Some(&name)) => {
                    absent.push(AbsentHost { name, why: end.why });
                }
                Some(_) => {}
                // It ran for all of them: those that are not there will not come.
                None => {
                    over = true;
                    errors.push(end.why);
                }
            }
        }
        let of_job = joined.iter().find_map(|member| member.hello.size).map(|size| size as usize);
        let expected = spec.members.or(listed).or(of_job);
        let all = expected.is_some_and(|expected| {
            joined.len() + absent.len() + errors_of_members(&errors, over) >= expected
        });
        let quiet = expected.is_none() && joined.len() >= LEAST_MEMBERS && clock::since(last) > NO_MORE;
        let late = clock::since(began) > spec.patience;
        if !named && !all && clock::since(began) > NAMED {
            named = true;
            listening(FleetEvent::Waiting(&missing(hosts, &joined, &absent)));
        }
        if all || quiet || over || late {
            let named = missing(hosts, &joined, &absent);
            // Names that no member bears may be aliases of those that came.
            if late && joined.len() + absent.len() < expected.unwrap_or(0) {
                let why = format!("it did not connect within {:.0} s", spec.patience.as_secs_f64());
                absent.extend(named.into_iter().map(|name| AbsentHost { name, why: why.clone() }));
                if hosts.is_empty() {
                    let expected = expected.unwrap_or_default();
                    errors.push(format!("{} of {expected} members {why}", expected - joined.len()));
                }
            }
            absent.iter().for_each(|host| listening(FleetEvent::Absent(host)));
            if joined.len() >= LEAST_MEMBERS {
                return Ok((joined, absent, errors));
            }
            let first = absent.first().map(|host| format!("{}: {}", host.name, host.why));
            return Err(FleetError::TooFew {
                joined: joined.len(),
                expected: expected.map_or("an unknown number".into(), |count| count.to_string()),
                seconds: clock::since(began).as_secs_f64(),
                why: first.or_else(|| errors.first().cloned()).unwrap_or_else(|| {
                    "do the hosts reach this one, and did LINERATE_KEY arrive there?".into()
                }),
            });
        }
    }
}

/// Hosts of the list that are neither there nor known to be absent.
fn missing(hosts: &[String], joined: &[JoiningMember], absent: &[AbsentHost]) -> Vec<String> {
    let missing = hosts.iter().filter(|name| {
        let came =
            |member: &JoiningMember| member.hello.name.as_ref() == Some(name) || member.hello.host == **name;
        !joined.iter().any(came) && !absent.iter().any(|one| one.name == **name)
    });
    missing.cloned().collect()
}

/// Members that were refused count as having come.
fn errors_of_members(errors: &[String], over: bool) -> usize {
    if over { 0 } else { errors.len() }
}

/// Where a member takes data.
fn data_address(spec: &FleetSpec, member: &JoiningMember, name: &str) -> Result<SocketAddr, FleetError> {
    let port = member.hello.data_port;
    let Some(network) = spec.network else {
        let came_from = member.link.peer().map(|peer| peer.ip().to_canonical());
        let ip = came_from.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        return Ok(SocketAddr::new(ip, port));
    };
    let wanted = AllowList::new([network]);
    let inside = member.hello.addresses.iter().find(|address| wanted.admits(**address));
    let ip =
        inside.ok_or_else(|| FleetError::NotInNetwork { name: name.into(), network: network.to_string() })?;
    Ok(SocketAddr::new(*ip, port))
}

fn one_family(members: &[GatheredMember]) -> Result<(), FleetError> {
    let of = |ipv4: bool| members.iter().find(|member| member.address.is_ipv4() == ipv4);
    match (of(true), of(false)) {
        (Some(one), Some(other)) => {
            Err(FleetError::MixedFamilies { ipv4: one.name.clone(), ipv6: other.name.clone() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another user of a shared file system may plant links under names that can be guessed.
    #[test]
    fn a_rendezvous_is_written_through_no_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("victim"), "victim").expect("written");
        for link in ["meet", "meet.new"] {
            std::os::unix::fs::symlink(at("victim"), at(link)).expect("a link");
        }
        let written = Rendezvous::write(&at("meet"), &["192.0.2.1:7411".into()]).expect("written");
        assert_eq!(std::fs::read(at("meet")).expect("read"), b"192.0.2.1:7411\n");
        assert_eq!(std::fs::read(at("victim")).expect("read"), b"victim");
        drop(written);
        let names = std::fs::read_dir(folder.path()).expect("a list").count();
        assert_eq!(names, 2, "nothing of it is left");
    }
}
