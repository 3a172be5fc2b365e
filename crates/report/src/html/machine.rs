//! The machine as the probe saw it, and how to do the run again.

use super::pieces::{card, heading, letter_tag, tagged, with_code};
use crate::figure::{Figure, Unit, quantity};
use crate::markup::{Markup, html};
use linerate_facts::fact::Fact;
use linerate_facts::units;
use linerate_machine::probe::{Disk, FileSystem, Machine, Nic};
use linerate_measure::run::Run;
use linerate_model::plan::Origin;
use std::path::Path;

/// Rows of a table that are shown at once; more are behind a heading that opens.
const ROWS_SHOWN: usize = 12;

/// The section with the facts.
pub(super) fn section(machine: &Machine) -> Markup {
    let mount = |fs: &FileSystem| {
        let devices = if fs.devices.is_empty() { "–".to_string() } else { fs.devices.join(", ") };
        cells(&[&path(&fs.mount_point), &fs.kind, &fs.source, &devices])
    };
    let nics: Vec<Markup> = machine.nics.iter().map(nic).collect();
    let disks: Vec<Markup> = machine.disks.iter().map(disk).collect();
    let mounts: Vec<Markup> = machine.file_systems.iter().map(mount).collect();
    let nic_heads = ["interface", "speed", "MTU", "state", "driver", "queues", "node", "PCI"];
    let disk_heads = ["device", "kind", "size", "model", "node", "PCI", "on"];
    let body = html! {
        dl class="facts" { (processor(machine)) (kernel(machine)) }
        (table("Network interfaces", &nic_heads, nics))
        (table("Block devices", &disk_heads, disks))
        (table("File systems", &["mounted at", "kind", "source", "devices"], mounts))
    };
    card("machine", "Machine", html! { "As the kernel shows it; what cannot be read says why." }, body)
}

fn fact<T>(name: &str, fact: &Fact<T>, show: impl Fn(&T) -> String) -> Markup {
    match fact {
        Fact::Known(value) => item(name, html! { (show(value)) }),
        Fact::Unknown { why } => {
            item(name, html! { (letter_tag(Origin::Unknown)) " " span class="none" { (why) } })
        }
    }
}

fn item(name: &str, value: Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

fn processor(machine: &Machine) -> Markup {
    let cpu = &machine.cpu;
    let memory = &machine.memory;
    let rated = Figure::of_fact(&memory.rated_bytes_per_second, Origin::Rated);
    let online = cpu.logical.iter().filter(|cpu| cpu.online).count();
    let facts = [
        fact("virtualisation", &machine.virtualisation, String::clone),
        fact("processor", &cpu.model, String::clone),
        fact("packages", &cpu.packages, u32::to_string),
        fact("physical cores", &cpu.physical_cores, u32::to_string),
        item("logical processors online", html! { (online) }),
        fact("multithreading", &cpu.smt, |on| if *on { "on" } else { "off" }.into()),
        fact("CPU quota", &cpu.quota_cores, |cores| {
            if *cores > 0.0 { format!("{} cores", quantity(*cores)) } else { "none".into() }
        }),
        fact("governor", &cpu.governor, String::clone),
        fact("memory", &memory.total_bytes, |bytes| units::show_size(*bytes)),
        item("NUMA nodes", html! { (memory.nodes.len()) }),
        match rated.value {
            Some(_) => item("memory bandwidth", tagged(&rated, Unit::Bytes)),
            None => fact("memory bandwidth", &memory.rated_bytes_per_second, |_| "unknown".into()),
        },
    ];
    html! { @for fact in facts { (fact) } }
}

fn kernel(machine: &Machine) -> Markup {
    let kernel = &machine.kernel;
    let size = |bytes: &u64| if *bytes == u64::MAX { "unlimited".into() } else { units::show_size(*bytes) };
    let facts = [
        fact("kernel", &kernel.release, String::clone),
        fact("io_uring", &kernel.io_uring_disabled, |value| {
            match value {
                0 => "allowed",
                1 => "for a group only",
                _ => "switched off",
            }
            .into()
        }),
        fact("locked memory", &kernel.memlock_bytes, size),
        fact("rmem_max", &kernel.rmem_max_bytes, size),
        fact("wmem_max", &kernel.wmem_max_bytes, size),
        fact("tcp_rmem maximum", &kernel.tcp_rmem_max_bytes, size),
        fact("tcp_wmem maximum", &kernel.tcp_wmem_max_bytes, size),
        fact("congestion control", &kernel.tcp_congestion_control, String::clone),
    ];
    html! { @for fact in facts { (fact) } }
}

/// A known value, or a dash; the reasons of many rows would drown the table.
fn or_dash<T>(fact: &Fact<T>, show: impl Fn(&T) -> String) -> String {
    fact.known().map_or("–".into(), show)
}

fn nic(nic: &Nic) -> Markup {
    let queues = match (nic.rx_queues.known(), nic.tx_queues.known()) {
        (Some(rx), Some(tx)) => format!("{rx} rx, {tx} tx"),
        _ => "–".into(),
    };
    cells(&[
        &nic.name,
        &or_dash(&nic.speed_bits_per_second, |bits| Unit::Bits.show(units::bytes_per_second(*bits))),
        &or_dash(&nic.mtu, u32::to_string),
        &or_dash(&nic.state, String::clone),
        &or_dash(&nic.driver, String::clone),
        &queues,
        &or_dash(&nic.node, u32::to_string),
        nic.pci.as_deref().unwrap_or("–"),
    ])
}

fn disk(disk: &Disk) -> Markup {
    cells(&[
        &disk.name,
        &format!("{:?}", disk.kind).to_lowercase(),
        &or_dash(&disk.size_bytes, |bytes| units::show_size(*bytes)),
        &or_dash(&disk.model, String::clone),
        &or_dash(&disk.node, u32::to_string),
        disk.pci.as_deref().unwrap_or("–"),
        &if disk.members.is_empty() { "–".to_string() } else { disk.members.join(", ") },
    ])
}

fn cells(values: &[&str]) -> Markup {
    html! { @for value in values { td { (value) } } }
}

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A table, behind a heading that opens where it is long.
fn table(title: &str, heads: &[&str], rows: Vec<Markup>) -> Markup {
    let speed = |head: &str| head == "speed";
    let head = html! {
        @for head in heads {
            (heading(false, html! { (head) @if speed(head) { " " (letter_tag(Origin::Rated)) } }))
        }
    };
    let count = rows.len();
    let table = super::pieces::table("plain", head, html! { tbody { @for row in rows { tr { (row) } } } });
    html! {
        @if count > ROWS_SHOWN {
            details { summary { (title) ": " (count) } (table) }
        } @else if count > 0 {
            h3 { (title) }
            (table)
        }
    }
}

/// How to do it again, what was chosen, what was changed.
pub(super) fn reproduce(run: &Run) -> Markup {
    let body = html! {
        pre class="command" { (command(run)) }
        @if let Some(plan) = &run.plan {
            @let schedule = &plan.schedule;
            p {
                "Each measurement: " (schedule.repeats) " repeats after " (quantity(schedule.warm_up_seconds))
                " s of warm-up; " (quantity(schedule.alone_seconds)) " s a device alone, "
                (quantity(schedule.together_seconds)) " s all together, " (quantity(schedule.path_seconds))
                " s the path. " (plan.workers.len()) " workers, " (units::show_size(plan.pool_bytes)) " of \
                    buffers."
            }
            (list("Workers by NIC", &plan.worker_map()))
            (list("Notes of the plan", &plan.notes))
        }
        (list("What linerate changed on this machine", &run.changes))
        p {
            "The same page from the file alone: " code { "linerate report run.json" }
            "; a new diagnosis of the same figures: " code { "linerate diagnose run.json" } "."
        }
    };
    card("again", "How to do this again", html! {}, body)
}

pub(super) fn list(title: &str, items: &[String]) -> Markup {
    html! {
        @if !items.is_empty() {
            h3 { (title) }
            ul { @for item in items { li { (with_code(item)) } } }
        }
    }
}

/// The words of the command line that the goal stands for.
fn command(run: &Run) -> String {
    let goal = &run.goal;
    let mut words = vec!["linerate run".to_string()];
    words.extend(goal.sources.iter().map(|source| format!("--source {}", quoted(&path(source)))));
    words.extend(goal.peers.iter().map(|peer| format!("--peer {}", quoted(peer))));
    if let Some(seconds) = goal.seconds.filter(|seconds| seconds.is_finite()) {
        words.push(format!("--seconds {seconds}"));
    }
    words.push(format!("--repeats {}", goal.repeats));
    words.join(" ")
}

/// A word for a shell: in single quotes unless it is plain.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:[]@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}
