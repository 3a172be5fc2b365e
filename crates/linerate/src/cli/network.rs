//! `linerate network`: the words made into an order, the library called, the result printed and saved.

use super::arguments::NetworkArgs;
use super::output::Output;
use super::run::gentle;
use super::saving::{ResultTarget, conducted};
use linerate_facts::failure::Failure;
use linerate_measure::run::network::{
    NetworkSpec, NoReceiverSpec, conduct_iperf3, conduct_network, conduct_no_receiver,
};

/// Measures, prints, saves.
pub(super) fn network(words: &NetworkArgs, output: &Output) -> Result<u8, Failure> {
    gentle(&words.gentle)?;
    // Several descriptors for each stream.
    linerate_system::storage::raise_open_files();
    let order = order(words);
    conducted(
        ResultTarget::of(&words.output),
        "network",
        &words.live,
        Some(&words.power),
        output,
        |context| match &words.iperf3 {
            Some(server) => conduct_iperf3(context, &order, server),
            None => match no_receiver(words) {
                Some(wanted) => conduct_no_receiver(context, &order, &wanted),
                None => conduct_network(context, &order),
            },
        },
    )
}

/// Where to, if nobody is to receive.
fn no_receiver(words: &NetworkArgs) -> Option<NoReceiverSpec> {
    let (to, nic) = (words.no_receiver.clone()?, words.nic.clone()?);
    Some(NoReceiverSpec { to, nic, agreed: words.yes })
}

fn order(words: &NetworkArgs) -> NetworkSpec {
    NetworkSpec {
        name: words.name.clone(),
        peers: words.peer.clone(),
        key_file: words.key_file.clone(),
        protocols: words.protocol.engines.to_vec(),
        rdma: words.protocol.rdma,
        directions: words.direction.clone(),
        streams: words.streams,
        source: words.source.clone(),
        method: words.method,
        write_bytes: words.write,
        datagram_bytes: words.datagram,
        bytes_per_second: words.rate,
        rate_limit: words.gentle.rate_limit,
        idle: words.gentle.idle,
        find_rate: words.find_rate,
        congestion_control: words.congestion_control.clone(),
        send_buffer_bytes: words.send_buffer,
        receive_buffer_bytes: words.receive_buffer,
        pin: words.pin.clone(),
        compare_pinning: words.compare_pinning,
        skip_receive_copy: words.skip_receive_copy,
        verify: words.verify,
        latency: !words.no_latency,
        bind_device: words.bind_device,
        trace_drops: words.trace_drops,
        seconds: words.seconds,
        repeats: words.repeats,
    }
}
