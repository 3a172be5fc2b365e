//! The coordinator: starts the members or awaits those of its job, gathers them, runs the windows of the pattern,
//! and gives the product, also where members are lost on the way.

use crate::conversation::{Conversation, GatheredMember};
use crate::gather::{Gathering, JoiningMember, accept};
use crate::hosts::NameLookup;
use crate::launch::{LaunchedMembers, start_own};
use crate::member::own_addresses;
use crate::protocol::{DEFAULT_COORDINATOR_PORT, MemberLinks};
use crate::rounds::measure;
use crate::spec::{FleetError, FleetEvent, FleetSpec, FleetStart};
use linerate_facts::failure::Failure;
use linerate_measure::run::fleet::{FleetGrouping, FleetPattern, FleetResult};
use linerate_system::clock;
use linerate_system::side_file::ReplacingFile;
use linerate_system::stop::Stop;
use linerate_transport::admission::listen;
use linerate_transport::agent::{AllowList, Key};
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::mpsc;

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
        let lookup = NameLookup::start(spec.start.hosts());
        let mut launched = launch(spec, &addresses, key)?;
        let mut gathering = Gathering::begin(spec);
        let receive = &mut |within| joins.recv_timeout(within).ok();
        let launchers_ended = &mut || launched.ended();
        let gathered = gathering.await_members(receive, launchers_ended, stop, listening);
        drop(closing);
        drop((rendezvous, home_file));
        gathering.absent.iter().for_each(|host| listening(FleetEvent::Absent(host)));
        let (mut members, mut links) = (Vec::new(), Vec::new());
        for (name, member) in gathered? {
            let address = data_address(spec, &member, &name)?;
            let JoiningMember { link, hello, clock } = member;
            members.push(GatheredMember { name, address, hello, clock, machine: None, lost: None });
            links.push(link);
        }
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
            absent: gathering.absent,
            errors: gathering.errors,
            ..FleetResult::default()
        };
        let wire = Box::new(MemberLinks::listen(scope, links));
        let mut conversation = Conversation::begin(members, wire, zero);
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
            let unknown = || FleetError::UnknownCoordinator { text: text.clone() };
            (resolved.ok_or_else(unknown)?.port(), Some(text))
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
