//! Tests of the points: the default programme, the grid, what is refused.

use super::*;
use linerate_facts::fact::Fact;
use linerate_machine::probe::{Cache, LogicalCpu, NumaNode};

fn known<T>(value: T) -> Fact<T> {
    Fact::Known(value)
}

/// Two nodes of two cores, 32 KiB L1, 1 MiB L2, 16 MiB L3 a node; 64 GiB.
fn machine(nodes: u32) -> Machine {
    let mut machine = Machine::default();
    for id in 0..2 * nodes {
        machine.cpu.logical.push(LogicalCpu {
            id,
            node: known(id / 2),
            siblings: known(vec![id]),
            online: true,
            ..LogicalCpu::default()
        });
        for (level, kind, size, cpus) in [
            (1, "Data", 32 << 10, vec![id]),
            (1, "Instruction", 64 << 10, vec![id]),
            (2, "Unified", 1 << 20, vec![id]),
            (3, "Unified", 16 << 20, vec![id / 2 * 2, id / 2 * 2 + 1]),
        ] {
            let cache = Cache { level, kind: kind.into(), size_bytes: known(size), cpus, ..Cache::default() };
            if !machine.cpu.caches.contains(&cache) {
                machine.cpu.caches.push(cache);
            }
        }
    }
    for id in 0..nodes {
        machine.memory.nodes.push(NumaNode {
            id,
            cpus: vec![2 * id, 2 * id + 1],
            total_bytes: known(32 << 30),
            ..NumaNode::default()
        });
    }
    machine.memory.available_bytes = known(64 << 30);
    machine
}

#[test]
fn the_programme_goes_through_all_levels_stores_and_strides() {
    let points = points(&machine(1), &MemorySpec::default()).expect("points");
    let of = |kernel, cores: usize, level: &str| {
        let fits = |point: &&Point| {
            point.kernel == kernel
                && point.cores.len() == cores
                && point.level == level
                && point.stride_bytes == CONTIGUOUS_BYTES
        };
        points.iter().filter(fits).count()
    };
    for cores in [1, 2] {
        for level in ["L1", "L2", "L3"] {
            assert_eq!(of(MemoryKernel::Triad, cores, level), 1, "plain only in {level}");
        }
        assert_eq!(of(MemoryKernel::Triad, cores, "memory"), 1 + usize::from(has_streaming()));
        assert_eq!(of(MemoryKernel::Read, cores, "memory"), 1);
    }
    assert_eq!(points.iter().filter(|point| point.stride_bytes > 4).count(), STRIDES.len() - 1);
    assert!(points.iter().all(|point| point.nodes.is_none()), "one node has no pairs");
    let first_chase = points.iter().position(|point| point.kernel == MemoryKernel::Latency).expect("latency");
    assert_eq!(points.len() - first_chase, 4, "the chases come last");
    let total = MemorySpec { repeats: 3, ..MemorySpec::default() }.windows(points.len()).total();
    assert!(total.as_secs_f64() * points.len() as f64 <= 20.0, "{total:?} each");
}

#[test]
fn arrays_are_four_times_the_last_level_where_there_is_room() {
    let order = MemorySpec { kernels: vec![MemoryKernel::Copy], ..MemorySpec::default() };
    let mut machine = machine(1);
    let copy = |machine: &Machine| {
        let points = points(machine, &order).expect("points");
        points.into_iter().rfind(|point| point.level == "memory").expect("memory")
    };
    let point = copy(&machine);
    assert_eq!((point.array_bytes * 2, point.small_arrays), (64 << 20, false), "of both cores");
    machine.memory.available_bytes = known(128 << 20);
    let point = copy(&machine);
    assert!(point.working_set_bytes() <= 43 << 20 && point.small_arrays, "a third, and it says so");
}

#[test]
fn pairs_of_nodes_are_measured_both_ways() {
    let machine = machine(2);
    let points = points(&machine, &MemorySpec::default()).expect("points");
    let pairs: std::collections::BTreeSet<(u32, u32)> =
        points.iter().filter_map(|point| point.nodes).collect();
    assert_eq!(pairs.len(), 4);
    let across = points.iter().find(|point| point.nodes == Some((1, 0))).expect("a pair");
    assert!(across.cores.iter().all(|core| [2, 3].contains(core)));
    assert_eq!(across.memory_node(0), Some(0));
    let all = points.iter().find(|point| point.cores.len() == 4).expect("all cores");
    assert_eq!(all.memory_node(3), Some(1), "each core works on its own node's memory");
}

#[test]
fn an_order_is_a_grid() {
    let order = MemorySpec {
        kernels: vec![MemoryKernel::Read, MemoryKernel::Write],
        strides: vec![4, 64],
        working_sets: vec![WorkingSet::Bytes(1 << 20), WorkingSet::Level(2)],
        cores: vec![Cores::Some(1), Cores::All],
        ..MemorySpec::default()
    };
    let points = points(&machine(1), &order).expect("points");
    let writes = 1 + usize::from(has_streaming());
    // Strided writes have plain stores only. On two cores half of L2 is the 1 MiB that was named as well:
    // measured once.
    assert_eq!(points.len(), 3 * ((1 + writes) + 2));
    assert!(points.iter().all(|point| point.level == "L2"), "1 MiB fits into the second level");
    let names: std::collections::BTreeSet<String> = points.iter().map(Point::name).collect();
    assert_eq!(names.len(), points.len(), "each has a name of its own");
}

#[test]
fn what_does_not_fit_is_refused_with_the_numbers() {
    let machine = machine(1);
    let refused = |order: MemorySpec| points(&machine, &order).expect_err("refused").to_string();
    let set = |set| MemorySpec { working_sets: vec![set], ..MemorySpec::default() };
    assert!(refused(set(WorkingSet::Bytes(1 << 40))).contains("third of the available memory"));
    assert!(refused(set(WorkingSet::Bytes(100))).contains("name at least"));
    assert!(refused(set(WorkingSet::Level(4))).contains("L4"));
    let cores = MemorySpec { cores: vec![Cores::Some(9)], ..MemorySpec::default() };
    assert!(refused(cores).contains("this process may use 2"));
    let nothing =
        MemorySpec { kernels: vec![MemoryKernel::Latency], strides: vec![64], ..MemorySpec::default() };
    assert!(refused(nothing).contains("latency has neither"));
}
