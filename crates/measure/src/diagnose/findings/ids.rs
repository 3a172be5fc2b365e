//! The names of all findings, so that a rule that names one is known to be right before anything is measured.

const IDS: [&str; 78] = [
    "above-rated",
    "array-busy",
    "array-degraded",
    "burst",
    "bytes-changed",
    "checksum-generic",
    "cloud-allowance",
    "congestion-control",
    "counted-drops",
    "deeper-is-faster",
    "device-busy",
    "disk-port",
    "drift",
    "durable-writes",
    "figures-disagree",
    "generator-cpu",
    "interrupts-one-core",
    "interrupts-other-node",
    "io-uring-off",
    "ip-fragments",
    "link-errors",
    "listen-queue",
    "load-levels-off",
    "loss-over-time",
    "memlock",
    "memory-channels",
    "memory-clock",
    "memory-one-node",
    "misaligned",
    "mtu-mismatch",
    "never-trimmed",
    "nic-down",
    "nic-queues",
    "nic-ring",
    "nic-speed",
    "no-huge-pages",
    "no-route",
    "node-apart",
    "not-seen",
    "one-core-saturated",
    "others-busy",
    "others-hidden",
    "others-on-disk",
    "page-cache",
    "partial-sectors",
    "path-below-prediction",
    "path-mtu",
    "pcie-card-older",
    "pcie-idle",
    "pcie-max-payload",
    "pcie-max-read-request",
    "pcie-ports",
    "pcie-slot-narrower",
    "pcie-slot-older",
    "pcie-speed",
    "pcie-width",
    "qdisc-drops",
    "queue-too-deep",
    "queue-too-shallow",
    "read-again",
    "read-ahead",
    "receiver-core-busy",
    "request-limit",
    "rotational-claim",
    "scheduler",
    "shared-uplink",
    "softnet-dropped",
    "stalled",
    "steal",
    "straggler",
    "stripe-mismatch",
    "tcp-memory",
    "tcp-receive-buffer",
    "tcp-retransmits",
    "tcp-window",
    "udp-loss",
    "udp-no-socket",
    "udp-receive-buffer",
];

/// The finding of this name.
pub fn finding_id(name: &str) -> Option<&'static str> {
    IDS.into_iter().find(|id| *id == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn they_are_those_of_the_documents() {
        let text = include_str!("../../../../../docs/run-json.md");
        let (_, list) = text.split_once("**findings** so far").expect("the list");
        let (list, _) = list.split_once("\n\n").expect("its end");
        let documented: BTreeSet<&str> =
            list.split('`').filter_map(|word| word.strip_prefix('"')?.strip_suffix('"')).collect();
        assert_eq!(IDS.into_iter().collect::<BTreeSet<_>>(), documented);
        assert_eq!((finding_id("nic-speed"), finding_id("nic")), (Some("nic-speed"), None));
    }
}
