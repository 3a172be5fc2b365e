//! What the user named with `--peer`, made ready to be sent to: a control session each, and the interface
//! that leads there.

use linerate_facts::fact::Fact;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::{Machine, route::path_to};
use linerate_model::plan::PathPlan;
use linerate_system::stop::Stop;
use linerate_transport::agent::{AgentSession, Key, OwnAgent, Peer, find_peers};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// The ways to the peers. Dropping it ends the agents that were started for it.
#[derive(Default)]
pub(crate) struct Paths {
    pub plans: Vec<PathPlan>,
    pub sessions: Vec<AgentSession>,
    /// The receiver on loopback, where no peer was named.
    pub own: Option<OwnAgent>,
    /// Those that were named.
    peers: Vec<Peer>,
}

/// Connects to every peer, or starts a receiver of our own on loopback where none is named.
pub(crate) fn prepare(
    sysroot: &Sysroot,
    machine: &Machine,
    peers: &[String],
    key_file: Option<&Path>,
    stop: &Stop,
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

/// An address of this very host leads over loopback, anyone who named it: no NIC takes part.
pub(crate) fn all_over_loopback(machine: &Machine, paths: &[PathPlan]) -> bool {
    let own =
        |path: &PathPlan| machine.nics.iter().any(|nic| nic.loopback && path.nic.as_ref() == Some(&nic.name));
    paths.iter().all(own)
}

/// Asks the kernel for the congestion control on a socket of its own: a name that it lacks would fail every
/// stream later.
pub(crate) fn check_congestion_control(sysroot: &Sysroot, name: &str) -> Result<(), Failure> {
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
            "--congestion-control {name}: not for this user, who may take one of: {}; run as root, or add it \
             to the sysctl \
             net.ipv4.tcp_allowed_congestion_control",
            names("allowed")
        ),
        _ => format!(
            "--congestion-control {name}: the kernel refuses it ({error}) and has these: {}; take one of \
             them, or load its \
             module with `modprobe tcp_{name}`",
            names("available")
        ),
    }))
}

/// The way to an address by this host's routes: interface, its node and MTU, our address on it. Nothing of
/// the other end is known.
pub(crate) fn way_to(sysroot: &Sysroot, machine: &Machine, address: SocketAddr) -> PathPlan {
    let (nic, local) = match path_to(sysroot, machine, address.ip()) {
        Fact::Known((nic, local)) => (Some(nic), local),
        Fact::Unknown { .. } if address.is_ipv6() => (None, Ipv6Addr::UNSPECIFIED.into()),
        Fact::Unknown { .. } => (None, Ipv4Addr::UNSPECIFIED.into()),
    };
    let interface = nic.as_ref().and_then(|name| machine.nic(name));
    let name = nic.clone().unwrap_or_else(|| address.ip().to_string());
    let unread = "the interface to the peer could not be read";
    PathPlan {
        resource: format!("nic:{name}"),
        name,
        peer: address,
        local,
        nic,
        receiver: format!("receiver:{}", address.ip()),
        node: interface.map_or_else(|| Fact::unknown(unread), |nic| nic.node.clone()),
        mtu: interface.map_or_else(|| Fact::unknown(unread), |nic| nic.mtu.clone()),
        peer_mtu: Fact::unknown("the other end reports nothing about it"),
        rate: Fact::unknown("not planned yet"),
        worker_cost: None,
    }
}

impl Paths {
    fn connect(
        &mut self,
        sysroot: &Sysroot,
        machine: &Machine,
        address: SocketAddr,
        key: &Key,
    ) -> Result<(), Failure> {
        let session = AgentSession::connect(address, key)?;
        let mut way = way_to(sysroot, machine, address);
        let hello = session.hello();
        if let (true, Some(local)) = (way.local.is_unspecified(), session.local_address()) {
            way.local = local.ip();
        }
        way.receiver = self.receiver(&hello.instance, &hello.host);
        // Two peers behind one NIC are two paths.
        if self.plans.iter().any(|plan| plan.name == way.name) {
            way.name = format!("{} to {}", way.name, address.ip());
        }
        way.peer_mtu = Fact::from_option(hello.interface_mtu, "the agent could not read it");
        self.plans.push(way);
        self.sessions.push(session);
        Ok(())
    }

    /// The peers send: what stands at the far ends is not a receiver.
    pub(crate) fn come_in(&mut self) {
        for plan in &mut self.plans {
            if let Some(host) = plan.receiver.strip_prefix("receiver:") {
                plan.receiver = format!("sender:{host}");
            }
        }
    }

    /// The peer stores, and is one host: the sink is one part of the path.
    pub(crate) fn check_sink(&self) -> Result<(), Failure> {
        let first = self.sessions.first().map(|session| &session.hello().instance);
        for session in &self.sessions {
            let (address, hello) = (session.address(), session.hello());
            if hello.sink.is_none() {
                let version = match hello.version == env!("CARGO_PKG_VERSION") {
                    true => String::new(),
                    false => format!(" (linerate {})", hello.version),
                };
                return Err(Failure::Lacks(format!(
                    "the agent at {address}{version} throws away what it receives; start it with `linerate \
                     agent --sink DIR`, in the same version as here, to have it stored"
                )));
            }
            if Some(&hello.instance) != first {
                return Err(Failure::usage(format!(
                    "--flow disk-to-disk stores on one host, and {address} is another one than {}; name the \
                     addresses of one peer",
                    self.sessions[0].address()
                )));
            }
        }
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
