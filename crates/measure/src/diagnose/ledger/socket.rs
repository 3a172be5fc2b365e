//! Why a receiving socket's buffer was full: too small, or its reader did not get its core.

use super::product::{LedgerHost, Streams};
use linerate_facts::units::show_size;
use linerate_model::verdict;
use linerate_model::verdict::thresholds::CPU_OF_OTHERS;

/// Buffers that hold less than this of the stream do not outlast a scheduler's tick.
const SHORT_SECONDS: f64 = 0.004;
const SMALL_BYTES: u64 = 1 << 20;

/// The cause, with its finding's id, what it means, and its cure.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cause {
    pub id: &'static str,
    pub meaning: String,
    pub cure: String,
}

/// All causes that the figures show, the first the one to cure first; at least one.
pub(super) fn causes(receiver: &LedgerHost, streams: &Streams) -> Vec<Cause> {
    let mut causes: Vec<Cause> = core(receiver, streams).into_iter().collect();
    let buffer = streams.received.receive_buffer_bytes;
    if causes.is_empty() || small(streams) {
        let size = if buffer == 0 { String::new() } else { format!(" of {}", show_size(buffer)) };
        // The kernel doubles what is asked for, and the limit is on what is asked for.
        let wanted = (64u64 << 20).max(buffer.saturating_mul(2)).min(1 << 30);
        causes.push(Cause {
            id: "udp-receive-buffer",
            meaning: format!("the receiving socket's buffer{size} was full"),
            cure: format!(
                "`sysctl -w net.core.rmem_max={wanted}` on {}, and ask for as much",
                name(receiver)
            ),
        });
    }
    causes
}

/// The buffer holds little of what comes.
fn small(streams: &Streams) -> bool {
    let received = &streams.received;
    let rate = if streams.seconds > 0.0 { received.bytes as f64 / streams.seconds } else { 0.0 };
    let buffer = received.receive_buffer_bytes;
    buffer > 0 && (buffer < SMALL_BYTES || (buffer as f64) < rate * SHORT_SECONDS)
}

/// The reader's core was others', or was all used up by itself.
fn core(receiver: &LedgerHost, streams: &Streams) -> Option<Cause> {
    let thread = streams.received.thread?;
    let core = receiver.cores.iter().find(|core| core.core == thread.core)?;
    let own = thread.cpu_seconds / streams.seconds;
    // A peer's shares may be no numbers.
    let saturated = own.is_finite() && verdict::is_full(core);
    if !saturated {
        return None;
    }
    let others = (core.user + core.nice + core.system + core.steal - own).max(0.0);
    let (own, all) = (own * 100.0, core.busy() * 100.0);
    if others > CPU_OF_OTHERS {
        return Some(Cause {
            id: "receiver-core-busy",
            meaning: format!(
                "the reader had {own:.0} % of core {}, and others {:.0} %: datagrams waited until the buffer \
                 was full",
                thread.core,
                others * 100.0
            ),
            cure: format!(
                "another core for the reader (`--pin`), or move the other work off core {}",
                thread.core
            ),
        });
    }
    Some(Cause {
        id: "one-core-saturated",
        meaning: format!("the reader's core {} was {all:.0} % busy, {own:.0} % with reading", thread.core),
        cure:
            "more streams on more cores; UDP_GRO and larger datagrams; interrupts on another core than the \
               reader"
                .into(),
    })
}

fn name(end: &LedgerHost) -> &str {
    if end.host.is_empty() { "the receiver" } else { &end.host }
}
