//! The hosts on the page, with what a flow or a disk could depend on.

use crate::document::{Block, Media, Part, Table, TableRow};
use crate::grid::headed;
use linerate_facts::units::{bytes_per_second, show_bits_rate, show_size};
use linerate_machine::probe::{Machine, Nic};
use linerate_measure::run::fleet::{FleetMember, FleetResult};

/// Disks of a host that are written out.
const MOST_DISKS: usize = 4;

const HEADS: [&str; 10] = [
    "member",
    "address",
    "kernel",
    "CPUs",
    "memory",
    "disks",
    "NIC",
    "busiest CPU",
    "clock known within",
    "notes",
];

/// The hosts with what a flow or a disk could depend on.
pub(super) fn part(result: &FleetResult) -> Part<'static> {
    let members = result.members.iter().map(|member| member_cells(result, member));
    let absent = result.absent.iter().map(|host| {
        let mut cells = <[String; 10]>::default();
        (cells[0], cells[9]) = (host.name.clone(), host.why.clone());
        cells
    });
    let table = Table::new(headed(&HEADS, HEADS.len(), false), members.chain(absent).map(TableRow::of));
    let blocks = vec![Block::Table(table)];
    Part { id: "members", title: "The members", on: Media::Page, blocks, ..Part::default() }
}

fn member_cells(result: &FleetResult, member: &FleetMember) -> [String; 10] {
    let machine = member.machine.as_deref();
    let unknown = || "unknown".to_string();
    let kernel = machine.and_then(|machine| machine.kernel.release.known().cloned());
    let memory = machine.and_then(|machine| machine.memory.total_bytes.known().copied());
    let evidence = result.verdict.members.iter().filter(|slow| slow.name == member.name);
    let mut notes: Vec<&str> = evidence.flat_map(|slow| &slow.evidence).map(String::as_str).collect();
    notes.dedup();
    notes.extend(member.lost.as_deref());
    [
        member.name.clone(),
        member.address.clone(),
        kernel.unwrap_or_else(unknown),
        machine.map_or_else(unknown, |machine| machine.cpu.logical.len().to_string()),
        memory.map_or_else(unknown, show_size),
        machine.map_or_else(unknown, disk_words),
        member.nic().map_or_else(unknown, nic_words),
        busiest(result, &member.name).unwrap_or_default(),
        format!("{:.0} µs", member.clock_error_seconds * 1e6),
        notes.join("; "),
    ]
}

/// Those that hold bytes themselves: no volume of others, and no file.
fn disk_words(machine: &Machine) -> String {
    let own = machine.disks.iter().filter(|disk| disk.members.is_empty() && disk.backing_file.is_none());
    let names: Vec<&str> = own.map(|disk| disk.name.as_str()).collect();
    match names.len() {
        few if few <= MOST_DISKS => names.join(", "),
        many => format!("{} and {} more", names[..MOST_DISKS].join(", "), many - MOST_DISKS),
    }
}

fn nic_words(nic: &Nic) -> String {
    let rate = nic.speed_bits_per_second.known().map(|bits| show_bits_rate(bytes_per_second(*bits)));
    let queues = nic.rx_queues.known().map(|queues| match queues {
        1 => "1 RX queue".to_string(),
        queues => format!("{queues} RX queues"),
    });
    let words = [Some(nic.name.clone()), rate, queues];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The fullest that a CPU of this member was in any window.
fn busiest(result: &FleetResult, name: &str) -> Option<String> {
    let of = result.hosts.iter().filter(|host| host.member == name);
    let cores = of.filter_map(|host| host.load.busiest);
    let most = cores.max_by(|one, other| one.busy().total_cmp(&other.busy()))?;
    Some(format!("CPU {}: {:.0} %, softirq {:.0} %", most.core, most.busy() * 100.0, most.softirq * 100.0))
}
