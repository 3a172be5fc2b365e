//! `linerate network`: the words made into an order, the library called, the result printed and saved.

use super::arguments::NetworkArgs;
use super::progress::Progress;
use super::saving::Saving;
use super::stop::stop_on_signals;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_measure::run::RunContext;
use linerate_measure::run::network::{NetworkSpec, conduct_iperf3, conduct_network};

/// Measures, prints, saves.
pub(super) fn network(words: &NetworkArgs) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let order = order(words);
    let mut saving = Saving::as_told(&words.output, &stop)?;
    let mut progress = Progress::new("network", &words.live);
    let context = RunContext {
        sysroot: &Sysroot::live(),
        stop: &stop,
        listener: &mut progress,
        save: &mut |run| saving.save(run),
    };
    let conducted = match &words.iperf3 {
        Some(server) => conduct_iperf3(context, &order, server),
        None => conduct_network(context, &order),
    };
    progress.finish();
    saving.finish(conducted?)
}

fn order(words: &NetworkArgs) -> NetworkSpec {
    NetworkSpec {
        name: words.name.clone(),
        peers: words.peer.clone(),
        key_file: words.key_file.clone(),
        protocols: words.protocol.protocols(),
        directions: words.direction.iter().map(|word| word.direction()).collect(),
        streams: words.streams,
        source: words.source.clone(),
        method: words.method.map(super::arguments::NetworkMethodArg::method),
        write_bytes: words.write,
        datagram_bytes: words.datagram,
        bytes_per_second: words.rate,
        find_rate: words.find_rate,
        congestion_control: words.congestion_control.clone(),
        send_buffer_bytes: words.send_buffer,
        receive_buffer_bytes: words.receive_buffer,
        pin: words.pin.clone(),
        compare_pinning: words.compare_pinning,
        verify: words.verify,
        latency: !words.no_latency,
        bind_device: words.bind_device,
        trace_drops: words.trace_drops,
        seconds: words.seconds,
        repeats: words.repeats,
    }
}
