//! `linerate network`: the words made into an order, the library called, the result printed and saved.

use super::arguments::NetworkArgs;
use super::gate::Gate;
use super::output::Output;
use super::run::gentle;
use super::saving::{ResultTarget, conducted};
use linerate_facts::failure::Failure;
use linerate_measure::run::network::{
    NetworkSpec, NoReceiverSpec, conduct_iperf3, conduct_network, conduct_no_receiver,
};

/// Measures, prints, saves.
pub(super) fn network(args: &NetworkArgs, output: &Output) -> Result<u8, Failure> {
    gentle(&args.gentle)?;
    let gate = Gate::open(&args.output.expect)?;
    // Several descriptors for each stream.
    linerate_system::storage::raise_open_files();
    let spec = spec_of(args);
    conducted(ResultTarget::of(&args.output, &gate), "network", &args.live, true, output, |context| {
        match &args.iperf3 {
            Some(server) => conduct_iperf3(context, &spec, server),
            None => match no_receiver(args) {
                Some(wanted) => conduct_no_receiver(context, &spec, &wanted),
                None => conduct_network(context, &spec),
            },
        }
    })
}

/// Where to, if nobody is to receive.
fn no_receiver(args: &NetworkArgs) -> Option<NoReceiverSpec> {
    let (to, nics) = (args.no_receiver.clone(), args.nic.clone());
    (!to.is_empty()).then_some(NoReceiverSpec { to, nics, agreed: args.yes })
}

fn spec_of(args: &NetworkArgs) -> NetworkSpec {
    NetworkSpec {
        name: args.name.clone(),
        peers: args.peer.clone(),
        key_file: args.key_file.clone(),
        protocols: args.protocol.engines.to_vec(),
        rdma: args.protocol.rdma,
        directions: args.direction.clone(),
        streams: args.streams,
        source: args.source.clone(),
        method: args.method,
        write_bytes: args.write,
        datagram_bytes: args.datagram,
        bytes_per_second: args.rate,
        rate_limit: args.gentle.rate_limit,
        idle: args.gentle.idle,
        find_rate: args.find_rate,
        congestion_control: args.congestion_control.clone(),
        window_bytes: args.window,
        pin: args.pin.clone(),
        skip_receive_copy: args.skip_receive_copy,
        verify: args.verify,
        latency: !args.no_latency,
        bind_device: args.bind_device,
        trace_drops: args.trace_drops,
        seconds: args.seconds,
        repeats: args.repeats,
    }
}
