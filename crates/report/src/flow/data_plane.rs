//! What linerate needs to send a flow: workers, CPUs, memory.

use super::put;
use linerate_facts::fact::Fact;
use linerate_facts::units::{show_bits_rate, show_size};
use linerate_facts::wording::counted;
use linerate_model::plan::flow::{DataPlane, NicWorkers};
use linerate_model::plan::wording::ids;

/// Lines for workers, CPUs and memory.
pub(super) fn data_plane(lines: &mut Vec<String>, plane: &DataPlane, width: usize) {
    lines.push(String::new());
    let total: u32 = plane.workers.iter().map(|nic| nic.workers).sum();
    put(lines, "workers", &format!("{}: {}", counted(total, "worker"), plane.why), width, str::to_string);
    for group in alike(&plane.workers) {
        let names: Vec<&str> = group.iter().map(|nic| nic.nic.as_str()).collect();
        let node = group[0]
            .node
            .filter(|_| plane.nodes > 1)
            .map_or(String::new(), |node| format!(" on CPUs of node {node}"));
        let (workers, rate) =
            (counted(group[0].workers, "worker"), show_bits_rate(group[0].bytes_per_second));
        let each = if group.len() > 1 { "each of " } else { "" };
        let text = format!("{each}{}: {workers}{node}, {rate}", ids(&names));
        put(lines, "", &text, width, str::to_string);
    }
    let there = match &plane.cores {
        Fact::Known(cores) if *cores > 0.0 && plane.cpus > *cores => {
            format!(" of {cores}: more than there are")
        }
        Fact::Known(cores) => format!(" of {cores}"),
        Fact::Unknown { .. } => String::new(),
    };
    let touches = plane.memory_touches;
    let text = format!(
        "{:.1}{there}, busy with sending; each byte crosses the memory bus {touches} times",
        plane.cpus
    );
    put(lines, "CPUs", &text, width, str::to_string);
    let reads = format!(
        ": {} of {} in flight (what is under way while a disk answers), the rest being sent",
        counted(plane.reads_in_flight, "read"),
        show_size(plane.block_bytes)
    );
    let reads = if plane.reads_in_flight > 0 { reads } else { ", always the same bytes".into() };
    let text = format!("{} of buffers{reads}", show_size(plane.pool_bytes));
    put(lines, "memory", &text, width, str::to_string);
}

/// NICs with the same figures together.
fn alike(workers: &[NicWorkers]) -> Vec<Vec<&NicWorkers>> {
    let mut groups: Vec<Vec<&NicWorkers>> = Vec::new();
    for nic in workers {
        let same = |other: &NicWorkers| {
            (other.node, other.workers) == (nic.node, nic.workers)
                && (other.bytes_per_second - nic.bytes_per_second).abs() < 0.01 * nic.bytes_per_second
        };
        match groups.iter_mut().find(|group| same(group[0])) {
            Some(group) => group.push(nic),
            None => groups.push(vec![nic]),
        }
    }
    groups
}
