//! `ss -ti`: what the TCP connections of a host have waited for, and what they retransmitted.

/// Connections of one listing.
const MOST_CONNECTIONS: u64 = 1 << 20;
/// A connection that waited for less of its busy time than this is not limited by it.
const WAITED: f64 = 0.1;

/// All connections together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ListedSockets {
    pub connections: u64,
    pub sent_bytes: u64,
    pub retransmitted_bytes: u64,
    /// Connections that waited for the receiver's window for a tenth of their busy time or more, and the most that one did.
    pub by_receiver: (u64, f64),
    /// The same of the sender's own buffer.
    pub by_send_buffer: (u64, f64),
}

/// The words below each connection: `bytes_sent:34433 rwnd_limited:260ms(80.2%)`.
pub fn ss_sockets(text: &str) -> Option<ListedSockets> {
    let mut all = ListedSockets::default();
    for line in text.lines().filter(|line| line.contains(" rto:") || line.contains("\trto:")) {
        if all.connections >= MOST_CONNECTIONS {
            break;
        }
        all.connections += 1;
        for (name, value) in line.split_ascii_whitespace().filter_map(|word| word.split_once(':')) {
            let bytes = || value.parse::<u64>().unwrap_or(0);
            let share = || {
                let (_, percent) = value.split_once('(')?;
                let share = percent.strip_suffix("%)")?.parse::<f64>().ok()? / 100.0;
                (0.0..=1.0).contains(&share).then_some(share)
            };
            match name {
                "bytes_sent" => all.sent_bytes = all.sent_bytes.saturating_add(bytes()),
                "bytes_retrans" => all.retransmitted_bytes = all.retransmitted_bytes.saturating_add(bytes()),
                "rwnd_limited" => waited(&mut all.by_receiver, share()),
                "sndbuf_limited" => waited(&mut all.by_send_buffer, share()),
                _ => {}
            }
        }
    }
    (all.connections > 0).then_some(all)
}

fn waited((connections, most): &mut (u64, f64), share: Option<f64>) {
    if let Some(share) = share.filter(|share| *share >= WAITED) {
        *connections += 1;
        *most = most.max(share);
    }
}
