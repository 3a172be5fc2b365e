//! What a plan is made of, beside the machine.
//!
//! The unit tests of `model` take this file in by its path: for them its types are those of their own crate.

use linerate_facts::fact::Fact;
use linerate_facts::protocol::Protocol;
use linerate_model::plan::{Goal, PathPlan, SourcePlan};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// What is asked for where nothing is.
pub fn goal() -> Goal {
    Goal {
        sources: Vec::new(),
        peers: Vec::new(),
        protocols: vec![Protocol::Tcp, Protocol::Udp],
        seconds: None,
        repeats: 6,
        budget_seconds: 50.0,
        block_bytes: None,
        queue_depth: None,
        workers: None,
        datagram_bytes: None,
        congestion_control: None,
        zero_copy: None,
        verify: false,
        rate_limit: None,
        idle: false,
        experiment: false,
        flow: Default::default(),
        sinks: Vec::new(),
    }
}

/// `/data/N/file` on `disk:loopN`.
pub fn sources(count: usize) -> Vec<SourcePlan> {
    let source = |n| SourcePlan {
        path: format!("/data/{n}/file").into(),
        resource: format!("disk:loop{n}"),
        node: Fact::unknown("not in this test"),
        length_bytes: 1 << 30,
        block_bytes: 0,
        queue_depth: 0,
        direct: true,
        received_by_tcp: false,
        scratch: true,
        writing: None,
    };
    (0..count).map(source).collect()
}

/// Ways to one peer over `nic:ethN`, of unknown rate.
pub fn paths(count: usize) -> Vec<PathPlan> {
    let path = |n: usize| PathPlan {
        name: format!("eth{n}"),
        peer: SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, n as u8, 2)), 7411),
        local: IpAddr::V4(Ipv4Addr::new(10, 0, n as u8, 1)),
        nic: Some(format!("eth{n}")),
        resource: format!("nic:eth{n}"),
        receiver: "receiver:peer".into(),
        node: Fact::unknown("not in this test"),
        mtu: Fact::Known(9000),
        peer_mtu: Fact::Known(9000),
        rate: Fact::unknown("not given"),
        worker_cost: None,
    };
    (0..count).map(path).collect()
}
