//! What the user named with `--peer`, made ready to be sent to: a control session each, and the interface that leads there.

use crate::agent::{Key, OwnAgent, Peer, Session, find_peers};
use crate::fact::Fact;
use crate::failure::Failure;
use crate::plan::PathPlan;
use crate::probe::{Machine, route::path_to};
use crate::sysroot::Sysroot;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The ways to the peers. Dropping it ends the agents that were started for it.
#[derive(Default)]
pub struct Paths {
    pub plans: Vec<PathPlan>,
    pub sessions: Vec<Session>,
    /// The receiver on loopback, where no peer was named.
    pub own: Option<OwnAgent>,
    /// Those that were named.
    peers: Vec<Peer>,
}

/// Connects to every peer, or starts a receiver of our own on loopback where none is named.
pub fn prepare(
    sysroot: &Sysroot,
    machine: &Machine,
    peers: &[String],
    key_file: Option<&Path>,
    stop: &AtomicBool,
) -> Result<Paths, Failure> {
    let mut paths = Paths::default();
    if peers.is_empty() {
        let own = OwnAgent::start()?;
        paths.connect(sysroot, machine, own.address(), own.key())?;
        paths.own = Some(own);
        return Ok(paths);
    }
    for peer in find_peers(peers, key_file, stop)? {
        paths.connect(sysroot, machine, peer.address, &peer.key)?;
        paths.peers.push(peer);
    }
    Ok(paths)
}

/// Asks the kernel for the congestion control on a socket of its own: a name that it lacks would fail every stream later.
pub fn check_congestion_control(sysroot: &Sysroot, name: &str) -> Result<(), Failure> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let Err(error) = socket.and_then(|socket| socket.set_tcp_congestion(name.as_bytes())) else {
        return Ok(());
    };
    let names = |setting: &str| {
        let listed = sysroot.text(format!("/proc/sys/net/ipv4/tcp_{setting}_congestion_control"));
        listed.unwrap_or_else(|why| format!("a list that cannot be read: {why}"))
    };
    Err(Failure::Lacks(match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "--congestion-control {name}: not for this user, who may take one of: {}; run as root, or add it to the sysctl \
             net.ipv4.tcp_allowed_congestion_control",
            names("allowed")
        ),
        _ => format!(
            "--congestion-control {name}: the kernel refuses it ({error}) and has these: {}; take one of them, or load its \
             module with `modprobe tcp_{name}`",
            names("available")
        ),
    }))
}

impl Paths {
    fn connect(
        &mut self,
        sysroot: &Sysroot,
        machine: &Machine,
        address: SocketAddr,
        key: &Key,
    ) -> Result<(), Failure> {
        let session = Session::connect(address, key)?;
        let (nic, local) = match path_to(sysroot, machine, address.ip()) {
            Fact::Known((nic, local)) => (Some(nic), local),
            Fact::Unknown { .. } => {
                let unspecified = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
                (None, session.local_address().map_or(unspecified, |local| local.ip()))
            }
        };
        let interface = nic.as_ref().and_then(|name| machine.nics.iter().find(|nic| nic.name == *name));
        let name = nic.clone().unwrap_or_else(|| address.ip().to_string());
        let hello = session.hello();
        let unread = || Fact::unknown("the interface to the peer could not be read");
        let node = interface.map_or_else(unread, |nic| nic.node.clone());
        let mtu = interface.map_or_else(
            || Fact::unknown("the interface to the peer could not be read"),
            |nic| nic.mtu.clone(),
        );
        let receiver = self.receiver(&hello.instance, &hello.host);
        self.plans.push(PathPlan {
            resource: format!("nic:{name}"),
            name,
            peer: address,
            local,
            nic,
            receiver,
            node,
            mtu,
            peer_mtu: Fact::from_option(hello.interface_mtu, "the agent could not read it"),
            rate: Fact::unknown("not planned yet"),
        });
        self.sessions.push(session);
        Ok(())
    }

    /// One receiver a host: addresses of one agent are one; two agents that call themselves the same are not.
    fn receiver(&self, instance: &str, host: &str) -> String {
        let same_agent = self.sessions.iter().position(|session| session.hello().instance == instance);
        if let Some(index) = same_agent {
            return self.plans[index].receiver.clone();
        }
        let plain = format!("receiver:{host}");
        if self.plans.iter().any(|plan| plan.receiver == plain) {
            return format!("{plain}-{}", instance.get(..4).unwrap_or(instance));
        }
        plain
    }
}
