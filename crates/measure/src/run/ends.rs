//! The ends of a flow that the user named, made ready: sources (`--source`) to be read, and sinks (`--sink`) to be
//! written, checked and traced to the device behind them; peers (`--peer`) to be sent to, with a control session each
//! and the interface that leads there; a server of another program, where no agent is at the other end.

use super::scratch::{Scratch, ScratchSpec};
use linerate_facts::fact::Fact;
use linerate_facts::failure::Failure;
use linerate_facts::room::StorageLimits;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::show_size;
use linerate_machine::probe::Machine;
use linerate_machine::probe::route::path_to;
use linerate_machine::probe::source::devices_behind;
use linerate_model::plan::{DEFAULT_BLOCK_BYTES, Goal, PathPlan, Plan, SourcePlan, is_received_by_tcp, plan};
use linerate_system::buffers::Pool;
use linerate_system::file::{open_to_read, size_of};
use linerate_system::stop::Stop;
use linerate_transport::agent::{AgentSession, Key, OwnAgent, Peer, find_peers};
use linerate_transport::flow::sink::{SinkFolder, SinkSettings};
use std::fs::File;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes in flight of a worker that stores.
const WRITES: u32 = 8;

/// Sources of a run, and the scratch files that must live as long as it.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub plans: Vec<SourcePlan>,
    /// Open as long as this lives; workers reach them through `/proc/self/fd`.
    pub scratch: Vec<Scratch>,
    /// What the user should know of them.
    pub notes: Vec<String>,
}

/// Opens and checks the files and devices that the goal names, and writes scratch files in `scratch_in`.
pub(crate) fn prepare_sources(
    sysroot: &Sysroot,
    machine: &Machine,
    goal: &Goal,
    scratch_in: &[PathBuf],
    scratch: ScratchSpec,
    stop: &Stop,
) -> Result<Sources, Failure> {
    let mut sources = Sources::default();
    for path in goal.sources.iter().filter(|path| !path.is_dir()) {
        sources.plans.push(source_at(sysroot, machine, goal, path)?);
    }
    for (directory, scratch) in scratch_in.iter().zip(Scratch::write_all(scratch_in, scratch, stop)?) {
        let mut plan = plan_of(sysroot, machine, goal, &scratch.path(), directory, scratch.length_bytes);
        (plan.scratch, plan.writing) = (true, Some(scratch.writing.clone()));
        sources.notes.extend(scratch.note.clone());
        sources.plans.push(plan);
        sources.scratch.push(scratch);
    }
    Ok(sources)
}

fn source_at(sysroot: &Sysroot, machine: &Machine, goal: &Goal, path: &Path) -> Result<SourcePlan, Failure> {
    let named = path.display();
    let lacks = |why: String| Failure::Lacks(format!("source {named}: {why}"));
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => lacks("not there; check the path".into()),
        std::io::ErrorKind::PermissionDenied => {
            lacks("a directory above it is closed to this user; run as its owner or as root".into())
        }
        _ => lacks(format!("{error}; check the path")),
    })?;
    let kind = metadata.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(lacks("neither a file nor a block device; name a file to read".into()));
    }
    let file = open_to_read(path, false).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied if kind.is_block_device() => lacks(
            "no permission to read this device; run as root or join the group that owns it (often `disk`)"
                .into(),
        ),
        std::io::ErrorKind::PermissionDenied => {
            lacks("no permission to read it; run as its owner or as root, or `chmod a+r` it".into())
        }
        _ => lacks(format!("it cannot be opened: {error}; name another file")),
    })?;
    let length = size_of(&file)
        .map_err(|error| lacks(format!("its size cannot be read: {error}; name another file")))?;
    let block = goal.read_bytes().unwrap_or(DEFAULT_BLOCK_BYTES);
    if length == 0 {
        return Err(lacks(
            "empty: there is nothing to read; name a file of at least a few hundred MiB".into(),
        ));
    }
    if length < block {
        return Err(lacks(format!(
            "{} is less than one block of {}; name a larger file, or a smaller one with --transfer",
            show_size(length),
            show_size(block)
        )));
    }
    Ok(plan_of(sysroot, machine, goal, path, path, length))
}

/// Directories among the sources: each gets a scratch file; without any source the current one.
pub(crate) fn scratch_directories(goal: &Goal) -> Vec<PathBuf> {
    match goal.sources.is_empty() {
        true => vec![PathBuf::from(".")],
        false => goal.sources.iter().filter(|path| path.is_dir()).cloned().collect(),
    }
}

/// `opened` is the path that workers open; `placed` tells where it lies.
fn plan_of(
    sysroot: &Sysroot,
    machine: &Machine,
    goal: &Goal,
    opened: &Path,
    placed: &Path,
    length: u64,
) -> SourcePlan {
    let block = goal.read_bytes().unwrap_or(DEFAULT_BLOCK_BYTES);
    let behind =
        devices_behind(sysroot, machine, &placed.canonicalize().unwrap_or_else(|_| placed.to_path_buf()));
    let (device, sector) = match &behind {
        Fact::Known(behind) => (behind.disk().to_string(), behind.logical_block_bytes.known().copied()),
        Fact::Unknown { .. } => (placed.display().to_string(), None),
    };
    let node = machine.disk(&device).map(|disk| disk.node.clone());
    let sector = u64::from(sector.unwrap_or(4096)).max(1);
    let received_by_tcp = is_received_by_tcp(machine, &device);
    SourcePlan {
        path: opened.to_path_buf(),
        resource: format!("disk:{device}"),
        node: node.unwrap_or_else(|| Fact::unknown("the device has no node")),
        length_bytes: length / block * block,
        block_bytes: block,
        queue_depth: goal.queue_depth.unwrap_or(0),
        direct: block.is_multiple_of(sector) && direct_works(opened, block),
        received_by_tcp,
        scratch: false,
        writing: None,
    }
}

/// O_DIRECT is refused by some file systems at open and by others at the first read: try both.
fn direct_works(path: &Path, block: u64) -> bool {
    let read = |file: File| -> std::io::Result<usize> {
        let mut pool = Pool::new(1, block as usize)?;
        let mut lease = pool.take().ok_or(std::io::ErrorKind::OutOfMemory)?;
        file.read_at(lease.bytes_mut(), 0)
    };
    open_to_read(path, true).and_then(read).is_ok()
}

/// A directory in which a flow that comes in is stored.
pub(crate) struct RunSink {
    pub folder: Arc<SinkFolder>,
    pub plan: SourcePlan,
}

/// Opens and checks those that the goal names.
pub(crate) fn prepare_sinks(
    sysroot: &Sysroot,
    machine: &Machine,
    goal: &Goal,
    limits: StorageLimits,
) -> Result<Vec<RunSink>, Failure> {
    goal.sinks.iter().map(|directory| open_sink(sysroot, machine, directory, limits)).collect()
}

/// A directory of this host as a sink, with the device below it.
pub fn open_folder(
    sysroot: &Sysroot,
    machine: &Machine,
    directory: &Path,
    limits: StorageLimits,
) -> Result<Arc<SinkFolder>, Failure> {
    let placed = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
    let behind = devices_behind(sysroot, machine, &placed);
    let settings = SinkSettings {
        directory: directory.to_path_buf(),
        limits,
        disk: behind.known().map(|behind| behind.disk().to_string()),
    };
    SinkFolder::open(settings).map_err(|error| Failure::lacks(format!("--sink: {error}")))
}

fn open_sink(
    sysroot: &Sysroot,
    machine: &Machine,
    directory: &Path,
    limits: StorageLimits,
) -> Result<RunSink, Failure> {
    let folder = open_folder(sysroot, machine, directory, limits)?;
    let device = folder.disk().map_or_else(|| directory.display().to_string(), str::to_string);
    let node = machine.disk(&device).map(|disk| disk.node.clone());
    let plan = SourcePlan {
        path: directory.to_path_buf(),
        resource: format!("disk:{device}"),
        node: node.unwrap_or_else(|| Fact::unknown("the device has no node")),
        length_bytes: folder.free_bytes(),
        block_bytes: DEFAULT_BLOCK_BYTES,
        queue_depth: WRITES,
        direct: folder.is_direct(),
        received_by_tcp: false,
        scratch: false,
        writing: None,
    };
    Ok(RunSink { folder, plan })
}

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
pub(crate) fn prepare_paths(
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

/// What is known of it before anything comes.
pub struct ServerFlow {
    pub plan: Plan,
    /// Where it is stored, by the plan's sources; none: it is thrown away.
    pub sinks: Vec<Arc<SinkFolder>>,
}

/// Plans it; the goal's sinks are opened and checked.
pub fn plan_from_server(
    sysroot: &Sysroot,
    machine: &Machine,
    goal: &Goal,
    server: SocketAddr,
    space: StorageLimits,
) -> Result<ServerFlow, Failure> {
    let mut way = way_to(sysroot, machine, server);
    way.receiver = format!("sender:{}", server.ip());
    let ways = vec![way];
    let sinks = prepare_sinks(sysroot, machine, goal, space)?;
    let mut ends: Vec<SourcePlan> = sinks.iter().map(|sink| sink.plan.clone()).collect();
    if ends.is_empty() {
        ends.push(SourcePlan::memory());
    }
    let loopback = all_over_loopback(machine, &ways);
    let plan = plan(machine, goal, ends, ways, loopback);
    Ok(ServerFlow { plan, sinks: sinks.into_iter().map(|sink| sink.folder).collect() })
}
