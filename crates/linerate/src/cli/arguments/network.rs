//! `linerate network`, and `linerate agent`, its other end.

use super::output::{GentleArgs, LiveArgs, OutputArgs};
use super::values::{Choices, bytes, one_of, rate, seconds, size};
use clap::Args;
use linerate_facts::protocol::Protocol;
use linerate_measure::measure::streams::StreamDirection;
use linerate_model::plan::Pin;
use linerate_transport::agent::Network;
use linerate_transport::flow::stream::SendMethod;
use std::path::PathBuf;

/// `linerate network`.
#[derive(Debug, Args)]
pub struct NetworkArgs {
    /// Address of an agent, one for each path; repeat for several NICs or hosts [default: a built-in
    /// receiver on loopback]
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    pub peer: Vec<String>,
    /// File with the agents' key [default: the digits in LINERATE_KEY, else
    /// $XDG_CONFIG_HOME/linerate/key]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Measure against an iperf3 server instead of an agent; port 5201 where none is given
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with_all = ["peer", "key_file", "source", "method", "find_rate", "verify"])]
    pub iperf3: Option<String>,
    /// Send this file as well, whole, each stream a byte range: from the page cache, and past it (TCP)
    #[arg(long, value_name = "FILE")]
    pub source: Option<PathBuf>,
    /// Send UDP to an address where nobody receives, such as behind a switch that drops it, at --rate, for a
    /// minute at most; counted by --nic, and only within a network that it is connected to; port 9 (discard)
    /// where none is given; repeat for several NICs, all at once
    #[arg(long, value_name = "ADDRESS[:PORT]", requires_all = ["nic"], conflicts_with_all = ["peer", "key_file", "iperf3", "direction", "source", "write", "find_rate", "congestion_control", "verify", "trace_drops"])]
    pub no_receiver: Vec<String>,
    /// The NIC by which --no-receiver sends, one for each in the same order
    #[arg(long, value_name = "NAME", requires = "no_receiver")]
    pub nic: Vec<String>,
    /// Send without a receiver: this network may have it
    #[arg(long, requires = "no_receiver")]
    pub yes: bool,
    /// What to measure
    #[arg(long, value_parser = one_of(PROTOCOLS), default_value = "both")]
    pub protocol: NetworkProtocols,
    /// Which way the bytes go, seen from here; both: at once
    #[arg(long, value_parser = one_of(DIRECTIONS), value_delimiter = ',', default_values = ["send", "receive"])]
    pub direction: Vec<StreamDirection>,
    /// Streams in each direction over all paths (of RDMA: queue pairs of each path), dealt to the NICs by their rates
    /// [default: one a path; over a far way that loses packets, as many as trials find better, 16 a path at most]
    #[arg(short = 'P', long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub streams: Option<u32>,
    /// How the bytes are handed to the kernel [default: the best of some short trials]
    #[arg(long, value_parser = one_of(METHODS))]
    pub method: Option<SendMethod>,
    /// Bytes a call, such as 128k (TCP), or a message (RDMA) [default: chosen with the method, 512k where that is
    /// given; 64k by RDMA]
    #[arg(long, value_name = "SIZE", value_parser = bytes(1024..=16 << 20))]
    pub write: Option<u32>,
    /// Payload of a UDP datagram, such as 1472 [default: what the path carries in one packet]
    #[arg(long, value_name = "BYTES", value_parser = bytes(64..=65_507))]
    pub datagram: Option<u32>,
    /// Payload to send over all streams of a direction, such as 5G (bits) or 600MB/s [default: as fast as it
    /// goes]
    #[arg(long, value_name = "RATE", value_parser = rate(1000.0..=1.25e14))]
    pub rate: Option<f64>,
    /// Search the highest rate of UDP without loss on each path (as RFC 2544 does)
    #[arg(long, conflicts_with = "rate")]
    pub find_rate: bool,
    /// Length of one window, such as 2 (seconds) or 500ms
    #[arg(short = 't', long, value_name = "TIME", value_parser = seconds, default_value = "1")]
    pub seconds: f64,
    /// Windows of a figure; its rate is their median
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeats: u32,
    #[command(flatten)]
    pub gentle: GentleArgs,
    /// What to call the result [default: the peers]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    #[command(flatten)]
    pub live: LiveArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    /// TCP congestion control of the senders, such as cubic [default: the system's]
    #[arg(long, value_name = "NAME")]
    pub congestion_control: Option<String>,
    /// Socket buffers to ask for at both ends, which bound the window of TCP [default: the kernel's]
    #[arg(long, value_name = "SIZE", value_parser = size(1024..=1 << 30))]
    pub window: Option<u64>,
    /// Where threads run: auto (next to their NIC, at both ends), none, or a list of CPUs such as 2,4,6; repeat to
    /// measure each figure each way
    #[arg(long, value_name = "auto|none|LIST", value_parser = pin, default_value = "auto")]
    pub pin: Vec<Pin>,
    /// Measure each figure of TCP once more with receivers that count and do not copy (MSG_TRUNC): the network alone
    #[arg(long, conflicts_with_all = ["iperf3", "no_receiver", "verify", "find_rate"])]
    pub skip_receive_copy: bool,
    /// Bind the sockets of a path to its interface (SO_BINDTODEVICE; needs root)
    #[arg(long)]
    pub bind_device: bool,
    /// Have the kernel tell its own reasons of packets dropped on this host (skb:kfree_skb; needs root, and
    /// makes a tracefs instance that is removed again)
    #[arg(long)]
    pub trace_drops: bool,
    /// Checksum what is sent and what arrives
    #[arg(long)]
    pub verify: bool,
    /// Do not measure round trips, idle and beside the bulk
    #[arg(long)]
    pub no_latency: bool,
}

/// `--protocol`.
#[derive(Clone, Copy, Debug)]
pub struct NetworkProtocols {
    /// Those that linerate moves bytes by itself.
    pub engines: &'static [Protocol],
    /// By perftest's programs, before them.
    pub rdma: bool,
}

const PROTOCOLS: Choices<NetworkProtocols> = &[
    ("tcp", "", NetworkProtocols { engines: &[Protocol::Tcp], rdma: false }),
    ("udp", "", NetworkProtocols { engines: &[Protocol::Udp], rdma: false }),
    ("both", "TCP first", NetworkProtocols { engines: &[Protocol::Tcp, Protocol::Udp], rdma: false }),
    (
        "rdma",
        "RDMA by perftest, which both hosts need, and TCP beside it",
        NetworkProtocols { engines: &[Protocol::Tcp], rdma: true },
    ),
];

/// `--direction`.
const DIRECTIONS: Choices<StreamDirection> = &[
    ("send", "", StreamDirection::Send),
    ("receive", "", StreamDirection::Receive),
    ("both", "", StreamDirection::Both),
];

/// `--method`.
const METHODS: Choices<SendMethod> = &[
    ("write", "send(2) of a buffer; of a file: read(2), then send(2)", SendMethod::Write),
    ("sendfile", "sendfile(2) from the page cache (TCP)", SendMethod::Sendfile),
    ("splice", "splice(2) through a pipe (TCP)", SendMethod::Splice),
    ("zerocopy", "MSG_ZEROCOPY (TCP)", SendMethod::Zerocopy),
    ("trains", "Datagrams in trains that the kernel or the NIC cuts, UDP_SEGMENT (UDP)", SendMethod::Trains),
    ("datagrams", "sendmmsg(2) of single datagrams (UDP)", SendMethod::Datagrams),
];

fn pin(text: &str) -> Result<Pin, String> {
    match text {
        "auto" => Ok(Pin::Auto),
        "none" => Ok(Pin::None),
        list => {
            let cores: Result<Vec<u32>, _> = list.split(',').map(|core| core.trim().parse()).collect();
            cores.map(Pin::Cores).map_err(|_| {
                format!("“{list}” is not a list of CPUs: write auto, none, or numbers like 2,4,6")
            })
        }
    }
}

/// `linerate agent`.
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Address to listen on; repeat for several [default: every address, port 7411]
    #[arg(short = 'p', long, value_name = "[ADDRESS:]PORT")]
    pub listen: Vec<String>,
    /// File with the key; made, mode 0600, where it is absent [default: the digits in LINERATE_KEY,
    /// else $XDG_CONFIG_HOME/linerate/key]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Take connections from these hosts only, whether with the key; repeat for several [default: every host]
    #[arg(long, value_name = "ADDRESS[/PREFIX]")]
    pub allow: Vec<Network>,
    /// Payload that all streams of one client together may move, such as 10G [default: as fast as it goes]
    #[arg(long, value_name = "RATE", value_parser = rate(1000.0..=1.25e14))]
    pub rate_limit: Option<f64>,
    /// Length of one test; then it is ended [default: as long as the client likes]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub time_limit: Option<f64>,
    /// Buffers of all clients' streams together, such as 512M [default: a quarter of the memory that is
    /// available at the start, 8G at most]
    #[arg(long, value_name = "SIZE", value_parser = size(1..=1 << 60))]
    pub memory_limit: Option<u64>,
    /// Store what `linerate run --flow disk-to-disk` sends in this directory, in files without a name that end
    /// with each measurement; no file that is there is touched [default: all is thrown away]
    #[arg(long, value_name = "DIR", conflicts_with = "own")]
    pub sink: Option<PathBuf>,
    /// All files in the sink together [default: what is free, but a tenth of the file system, 16G at most]
    #[arg(long, value_name = "SIZE", value_parser = size(1..=1 << 60), requires = "sink")]
    pub sink_limit: Option<u64>,
    /// Answer iperf3's clients as well, on port 5201 of the same addresses, one test at a time. Its protocol
    /// knows no key: anyone who can connect can test, within the limits above
    #[arg(long)]
    pub iperf3: bool,
    /// Let no client take of the CPUs here. While it runs, `linerate run` has the agent compute for up to a tenth of
    /// the time on the CPUs that receive from it, to measure whether they limit it; without, that is unknown
    #[arg(long)]
    pub no_experiment: bool,
    /// For linerate's own use: key from standard input, ends with it
    #[arg(long, hide = true, conflicts_with = "key_file")]
    pub own: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_as_they_are_written() {
        assert_eq!(pin("2, 4,6"), Ok(Pin::Cores(vec![2, 4, 6])));
        assert_eq!(pin("auto"), Ok(Pin::Auto));
        assert!(pin("0-3").is_err() && pin("").is_err());
    }
}
