//! How an agent is set up on this host, and what a client learns of it when it comes: who it is, what its kernel grants,
//! and what it may have of its sink.

use super::allow::AllowList;
use super::clients::AgentLimits;
use super::protocol::{Hello, OpenRequest, PROTOCOL, SinkOffer};
use super::session_stream::{Receivers, SessionStream, StoreReceiver};
use crate::flow::sink::{SinkError, SinkFolder, SinkStore};
use crate::flow::stream::StreamRole;
use linerate_facts::counters::AgentProcess;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::usage::CpuTimes;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Differs between any two kernels that were started, and is the same in all namespaces of one.
pub const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The interface that holds an address of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    /// Bytes.
    pub mtu: Option<u32>,
    /// Logical processors on its NUMA node; empty where it is on none.
    pub cores: Vec<u32>,
}

/// Finds the interface of an address; the caller knows (it has the probe).
pub type InterfaceOf = Arc<dyn Fn(IpAddr) -> Option<Interface> + Send + Sync>;

/// How an agent behaves beyond its defaults.
#[derive(Clone)]
pub struct AgentSettings {
    pub limits: AgentLimits,
    /// Who may connect; empty: everybody (and show the key).
    pub allow: AllowList,
    /// Where bytes that a client sends may be stored; none: nothing is.
    pub sink: Option<Arc<SinkFolder>>,
    /// A client's experiment may take a little of the CPUs that receive from it.
    pub experiments: bool,
    pub receivers: Receivers,
    /// By default no interface is known.
    pub interface_of: InterfaceOf,
}

impl Default for AgentSettings {
    fn default() -> Self {
        AgentLimits::default().into()
    }
}

impl From<AgentLimits> for AgentSettings {
    fn from(limits: AgentLimits) -> Self {
        AgentSettings {
            limits,
            allow: AllowList::default(),
            sink: None,
            experiments: true,
            receivers: Receivers::default(),
            interface_of: Arc::new(|_| None),
        }
    }
}

/// The greeting.
pub(crate) fn hello(
    sysroot: &Sysroot,
    local: IpAddr,
    interface: Option<Interface>,
    instance: &str,
    settings: &AgentSettings,
) -> Hello {
    let cores = interface.as_ref().map(|interface| interface.cores.clone());
    Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").into(),
        host: sysroot.text("/proc/sys/kernel/hostname").unwrap_or_else(|_| local.to_string()),
        instance: instance.into(),
        cores: u32::try_from(CpuTimes::read(sysroot).cores()).unwrap_or(u32::MAX),
        interface_mtu: interface.as_ref().and_then(|interface| interface.mtu),
        interface: interface.map(|interface| interface.name),
        interface_cores: cores.unwrap_or_default(),
        kernel: sysroot.text("/proc/sys/kernel/osrelease").ok(),
        congestion_control: sysroot.text("/proc/sys/net/ipv4/tcp_congestion_control").ok(),
        congestion_controls: congestion_controls(sysroot),
        receive_buffer_max_bytes: sysroot.parse("/proc/sys/net/core/rmem_max").known().copied(),
        send_buffer_max_bytes: sysroot.parse("/proc/sys/net/core/wmem_max").known().copied(),
        rate_limit: settings.limits.client.bytes_per_second,
        discards: true,
        rdma: true,
        takes_cpu: settings.experiments,
        boot_id: sysroot.text(BOOT_ID).ok(),
        sink: settings.sink.as_ref().map(|sink| sink_offer(sink)),
        time_limit_seconds: settings.limits.test_time.map(|time| time.as_secs_f64()),
        process: AgentProcess::current(sysroot),
    }
}

/// Congestion controls that are there. Others would have the kernel load a module, for a name that came from
/// outside.
pub(crate) fn congestion_controls(sysroot: &Sysroot) -> Vec<String> {
    let names = sysroot.text("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    names.split_whitespace().map(str::to_string).collect()
}

/// What a client learns of it.
fn sink_offer(sink: &SinkFolder) -> SinkOffer {
    SinkOffer { disk: sink.disk().map(str::to_string), bytes: sink.free_bytes() }
}

/// The files that a test asks for; none where it stores nothing.
pub(crate) fn stores_for(
    sink: Option<&Arc<SinkFolder>>,
    request: &OpenRequest,
) -> Result<Vec<SinkStore>, SinkError> {
    if request.sink.is_none() {
        return Ok(Vec::new());
    }
    let workers = || request.streams.iter().filter(|spec| spec.role == StreamRole::Worker);
    if workers().any(|spec| spec.protocol != Protocol::Tcp) {
        return Err(SinkError::Datagrams);
    }
    sink.ok_or(SinkError::None)?.take(workers().count(), request.sink_workers)
}

/// Has a worker write blocks of its own, on a thread of its own.
pub(crate) fn write_alone(
    stream: &Arc<SessionStream>,
    store: StoreReceiver,
    allow: &AllowList,
) -> io::Result<()> {
    let (stream, terms) = (Arc::clone(stream), stream.terms(allow));
    let write = move || {
        stream.run(None, |stop| match &stream.store {
            Some(into) => store(None, into.file(), &terms, &stream.counters, stop),
            None => Ok(()),
        });
    };
    std::thread::Builder::new().name("sink".into()).spawn(write).map(drop)
}
