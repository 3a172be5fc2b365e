//! What linerate needs for a flow, on machines that are described.

use super::*;

const SERVER: &str = include_str!("../../../../../../examples/machines/gen5-two-socket.toml");

#[test]
fn two_nics_of_400_gigabits_get_workers_at_both_nodes() {
    let parts = parse(SERVER).expect("a machine");
    let plan = planned(&parts, "disk", "nic");
    let plane = plan.data_plane.as_ref().expect("rates and costs are known");
    assert_eq!(plane.workers.iter().map(|nic| nic.node).collect::<Vec<_>>(), [Some(0), Some(1)]);
    for nic in &plane.workers {
        assert_eq!(nic.workers, 10, "{:.1} Gb/s ÷ 42 Gb/s", nic.bytes_per_second * 8e-9);
    }
    assert!((18.0..20.0).contains(&plane.cpus), "{}", plane.cpus);
    assert_eq!(plane.cores, linerate_facts::fact::Fact::Known(128.0));
    assert_eq!(plane.memory_touches, 4.0);
    let bytes = f64::from(plane.reads_in_flight) * plane.block_bytes as f64;
    let seconds = bytes / rate(&plan);
    assert!((1.2e-3..1.3e-3).contains(&seconds), "Little's law: {seconds} s of bytes are under way");
    assert!(plane.pool_bytes as f64 > bytes && plane.pool_bytes < 512 << 20, "{}", plane.pool_bytes);
}

#[test]
fn a_flow_without_nics_or_without_a_known_cost_has_none() {
    let parts = parse(SERVER).expect("a machine");
    assert_eq!(planned(&parts, "disk", "memory").data_plane, None);
    let free = Flow { method: Method::Rdma, ..flow(&parts, "disk", "nic") };
    assert_eq!(plan_flow(&parts, &free).data_plane, None, "no default cost where nothing is copied");
}

#[test]
fn what_a_worker_was_measured_to_carry_sets_their_number() {
    use crate::plan::WorkerCost;
    use crate::plan::parts::MeasuredParts;
    let parts = parse(SERVER).expect("a machine");
    let nics: Vec<String> =
        parts.devices.iter().map(|device| device.id()).filter(|id| id.starts_with("nic:")).collect();
    let cost = WorkerCost {
        seconds_per_gb: 0.4,
        at_peer: true,
        most_bytes_per_second: 1e9,
        started: "2026-11-25T11:00:00Z".into(),
    };
    let measured = MeasuredParts {
        cpu_seconds_per_gb: Some(0.9),
        workers: [(nics[0].clone(), cost)].into(),
        ..MeasuredParts::default()
    };
    let parts = parts.with_measured(measured);
    let plane = planned(&parts, "disk", &nics[0]).data_plane.expect("known");
    assert_eq!(plane.workers[0].workers, 20, "{:?}", plane.workers[0]);
    assert!(
        plane.why.contains("0.40 CPU seconds per GB at the peer, measured in the run of"),
        "{}",
        plane.why
    );
    let all = plane.workers[0].bytes_per_second * 0.9e-9;
    assert!((plane.cpus - all).abs() < 1e-9, "the whole host's cost: {} and {all}", plane.cpus);
    let from_memory = planned(&parts, "memory", &nics[0]).data_plane.expect("known");
    assert!(from_memory.why.contains("0.90 CPU seconds per GB"), "another flow: {}", from_memory.why);
}

#[test]
fn a_cost_that_is_given_sets_the_number_of_workers() {
    let given = SERVER.replace("cores = 64", "cores = 64\ncpu_seconds_per_gb = 0.1");
    let plane = planned(&parse(&given).expect("a machine"), "disk", "nic").data_plane.expect("known");
    assert!(plane.workers.iter().all(|nic| nic.workers == 5), "{plane:?}");
    assert!(plane.why.contains("0.10 CPU seconds per GB"), "{}", plane.why);
}
