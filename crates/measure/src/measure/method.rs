//! How a flow moved its bytes, in a line for the report.

use super::Stages;
use super::flow::{Flow, MEMORY_BLOCK_BYTES, WorkerSource};
use super::observed::{Observed, Pacing};
use super::product::ZeroCopyUse;
use linerate_facts::protocol::Protocol;
use linerate_facts::units::{show_bits_rate, show_size};
use linerate_facts::wording::counted;

/// How a flow from here moved its bytes.
pub(super) fn of_transfer(stages: &Stages<'_>, flow: &Flow, observed: &Observed) -> String {
    let (segmentation, zero_copy, engine) = (observed.segmentation, observed.zero_copy, &observed.engine);
    if flow.behind == WorkerSource::Sink {
        return format!("the peer writes {} of its own", counted(flow.workers.len(), "file"));
    }
    let source = match flow.behind {
        WorkerSource::Sink | WorkerSource::Peer | WorkerSource::Written => String::new(),
        WorkerSource::Memory => format!("{} from memory", show_size(MEMORY_BLOCK_BYTES)),
        WorkerSource::Cached => "cached file".to_string(),
        WorkerSource::Disk => {
            let first = &stages.plan.sources[flow.workers[0].source];
            let how = if first.direct { "O_DIRECT" } else { "buffered" };
            format!("{how} {} × {}", show_size(first.block_bytes), stages.reads_of(&flow.workers[0]))
        }
    };
    let sink = match flow.protocol {
        Protocol::Tcp => match &stages.goal.congestion_control {
            Some(name) => format!("TCP {name}"),
            None => format!("TCP {}", stages.machine.kernel.tcp_congestion_control),
        },
        Protocol::Udp if segmentation => "UDP with segmentation offload, window by feedback".into(),
        Protocol::Udp => "UDP datagram by datagram (no segmentation offload), window by feedback".into(),
    };
    let workers = counted(flow.workers.len(), "worker");
    let sink = sink
        + &zero_copy.map(zero_copy_words).unwrap_or_default()
        + &observed.pacing.map(pacing_words).unwrap_or_default();
    let stored = if flow.sink(stages.goal).is_some() { " → sink" } else { "" };
    format!("{source} → {sink}{stored}, {workers}, {engine}")
}

fn zero_copy_words(zero_copy: ZeroCopyUse) -> String {
    let sent = match zero_copy.copied_share() {
        _ if zero_copy.refused => ", zero copy refused".into(),
        _ if zero_copy.sends == 0 => ", no zero copy".into(),
        copied => format!(", {:.0} % without a copy", 100.0 * (1.0 - copied)),
    };
    match zero_copy.unexpected {
        0 => sent,
        unexpected => {
            format!("{sent}, {} of the kernel's dropped", counted(unexpected, "unexpected notification"))
        }
    }
}

fn pacing_words(pacing: Pacing) -> String {
    match pacing {
        Pacing::Kernel => ", paced by the kernel".into(),
        Pacing::Workers => ", paced by the workers alone".into(),
        Pacing::Streams(rate) => format!(", each stream paced by the kernel at {}", show_bits_rate(rate)),
    }
}
