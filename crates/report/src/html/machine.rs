//! The machine as the probe saw it, and how to do the run again.

use super::letter_tag;
use crate::document::{Block, Media, Part, Table, TableRow, bold, list, plain};
use crate::figure::{Unit, quantity};
use crate::grid::headed;
use crate::machine_facts::of_page;
use crate::markup::{Markup, html};
use linerate_facts::fact::Fact;
use linerate_facts::units;
use linerate_facts::wording::counted;
use linerate_machine::probe::{Disk, FileSystem, Machine, Nic};
use linerate_measure::run::Run;
use linerate_model::plan::Origin;
use linerate_model::plan::raid::quoted;
use std::path::Path;

/// Rows of a table that are shown at once; more are behind a heading that opens.
const ROWS_SHOWN: usize = 12;

const NIC_HEADS: [&str; 8] = ["interface", "rated speed", "MTU", "state", "driver", "queues", "node", "PCI"];
const DISK_HEADS: [&str; 7] = ["device", "kind", "size", "model", "node", "PCI", "on"];
const MOUNT_HEADS: [&str; 4] = ["mounted at", "kind", "source", "devices"];

/// The facts, and what a flow may cross.
pub(crate) fn part(machine: &Machine) -> Part<'static> {
    let mount =
        |fs: &FileSystem| [path(&fs.mount_point), fs.kind.clone(), fs.source.clone(), listed(&fs.devices)];
    let mut blocks = vec![Block::Picture(facts(machine))];
    blocks.extend(table("Network interfaces", &NIC_HEADS, machine.nics.iter().map(nic)));
    blocks.extend(table("Block devices", &DISK_HEADS, machine.disks.iter().map(disk)));
    blocks.extend(table("File systems", &MOUNT_HEADS, machine.file_systems.iter().map(mount)));
    let intro = "As the kernel shows it; what cannot be read says why.".into();
    Part { id: "machine", title: "Machine", intro, on: Media::Page, blocks, ..Part::default() }
}

fn facts(machine: &Machine) -> Markup {
    html! {
        dl class="facts" {
            @for (what, fact) in of_page(machine) {
                div {
                    dt { (what) }
                    @match fact {
                        Fact::Known(value) => { dd { (value) } }
                        Fact::Unknown { why } => {
                            dd { (letter_tag(Origin::Unknown)) " " span class="none" { (why) } }
                        }
                    }
                }
            }
        }
    }
}

/// A known value, or a dash; the reasons of many rows would drown the table.
fn or_dash<T>(fact: &Fact<T>, show: impl Fn(&T) -> String) -> String {
    fact.known().map_or("–".into(), show)
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "–".into() } else { names.join(", ") }
}

fn nic(nic: &Nic) -> [String; 8] {
    let queues = match (nic.rx_queues.known(), nic.tx_queues.known()) {
        (Some(rx), Some(tx)) => format!("{rx} rx, {tx} tx"),
        _ => "–".into(),
    };
    [
        nic.name.clone(),
        or_dash(&nic.speed_bits_per_second, |bits| Unit::Bits.show(units::bytes_per_second(*bits))),
        or_dash(&nic.mtu, u32::to_string),
        or_dash(&nic.state, String::clone),
        or_dash(&nic.driver, String::clone),
        queues,
        or_dash(&nic.node, u32::to_string),
        nic.pci.clone().unwrap_or("–".into()),
    ]
}

fn disk(disk: &Disk) -> [String; 7] {
    [
        disk.name.clone(),
        format!("{:?}", disk.kind).to_lowercase(),
        or_dash(&disk.size_bytes, |bytes| units::show_size(*bytes)),
        or_dash(&disk.model, String::clone),
        or_dash(&disk.node, u32::to_string),
        disk.pci.clone().unwrap_or("–".into()),
        listed(&disk.members),
    ]
}

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A table, behind a heading that opens where it is long.
fn table<const N: usize>(
    title: &str,
    heads: &[&'static str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Vec<Block<'static>> {
    let rows: Vec<TableRow> = rows.map(TableRow::of).collect();
    let (count, table) = (rows.len(), |rows| Block::Table(Table::new(headed(heads, N, false), rows)));
    match count {
        0 => Vec::new(),
        1..=ROWS_SHOWN => vec![Block::Text(bold(title)), table(rows)],
        _ => {
            let heading = format!("{title}: {count}");
            vec![Block::Fold { heading, result: String::new(), open: false, blocks: vec![table(rows)] }]
        }
    }
}

/// How to do it again, what was chosen, what was changed.
pub(crate) fn reproduce(run: &Run) -> Part<'_> {
    let mut blocks = vec![Block::Command(command(run))];
    if let Some(plan) = &run.plan {
        let schedule = &plan.schedule;
        blocks.push(Block::Text(plain(format!(
            "Each measurement: {} repeats after {} s of warm-up; {} s a device alone, {} s all together, {} s the path. {}, \
             {} of buffers.",
            schedule.repeats,
            quantity(schedule.warm_up_seconds),
            quantity(schedule.alone_seconds),
            quantity(schedule.together_seconds),
            quantity(schedule.path_seconds),
            counted(plan.workers.len(), "worker"),
            units::show_size(plan.pool_bytes)
        ))));
        blocks.extend(titled("Workers by NIC", &plan.worker_map()));
        blocks.extend(titled("Notes of the plan", &plan.notes));
    }
    blocks.extend(titled("What linerate changed on this machine", &run.changes));
    blocks.push(Block::Text(plain(
        "The same page from the file alone, judged again: `linerate report run.json --html page.html`.",
    )));
    Part { id: "again", title: "How to do this again", on: Media::Page, blocks, ..Part::default() }
}

/// A heading and a list, where there is something in it.
fn titled(title: &str, items: &[String]) -> Vec<Block<'static>> {
    if items.is_empty() { Vec::new() } else { vec![Block::Text(bold(title)), list(items)] }
}

/// The words of the command line that the goal stands for.
fn command(run: &Run) -> Vec<String> {
    let goal = &run.goal;
    let mut words = vec!["linerate run".to_string()];
    words.extend(goal.sources.iter().map(|source| format!("--source {}", quoted(&path(source)))));
    words.extend(goal.peers.iter().map(|peer| format!("--peer {}", quoted(peer))));
    if let Some(seconds) = goal.seconds.filter(|seconds| seconds.is_finite()) {
        words.push(format!("--seconds {seconds}"));
    }
    words.push(format!("--repeats {}", goal.repeats));
    words
}
