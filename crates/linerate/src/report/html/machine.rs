//! The machine as the probe saw it, and how to do the run again.

use super::findings::with_code;
use super::text::{escape, letter_tag, section as card};
use crate::fact::Fact;
use crate::plan::Origin;
use crate::probe::{Disk, Machine, Nic};
use crate::report::figure::{Figure, Unit, quantity};
use crate::run::Run;
use crate::units;
use std::path::Path;

/// Rows of a table that are shown at once; more are behind a heading that opens.
const ROWS_SHOWN: usize = 12;

/// The section with the facts.
pub(super) fn section(machine: &Machine) -> String {
    let mut body = format!("<dl class=\"facts\">{}{}</dl>", processor(machine), kernel(machine));
    let nics: Vec<String> = machine.nics.iter().map(nic).collect();
    let head = format!("interface|speed {}|MTU|state|driver|queues|node|PCI", letter_tag(Origin::Rated));
    body += &table("Network interfaces", &head, &nics);
    let disks: Vec<String> = machine.disks.iter().map(disk).collect();
    body += &table("Block devices", "device|kind|size|model|node|PCI|on", &disks);
    let mounts: Vec<String> = machine
        .file_systems
        .iter()
        .map(|fs| {
            let devices = if fs.devices.is_empty() { "–".to_string() } else { fs.devices.join(", ") };
            cells(&[&path(&fs.mount_point), &fs.kind, &fs.source, &devices])
        })
        .collect();
    body += &table("File systems", "mounted at|kind|source|devices", &mounts);
    card("machine", "Machine", "As the kernel shows it; what cannot be read says why.", &body)
}

fn fact<T>(name: &str, fact: &Fact<T>, show: impl Fn(&T) -> String) -> String {
    match fact {
        Fact::Known(value) => item(name, &escape(&show(value))),
        Fact::Unknown { why } => item(
            name,
            &format!("{} <span class=\"none\">{}</span>", letter_tag(Origin::Unknown), escape(why)),
        ),
    }
}

fn item(name: &str, html: &str) -> String {
    format!("<div><dt>{name}</dt><dd>{html}</dd></div>")
}

fn processor(machine: &Machine) -> String {
    let cpu = &machine.cpu;
    let memory = &machine.memory;
    let rated = Figure::of_fact(&memory.rated_bytes_per_second, Origin::Rated);
    let online = cpu.logical.iter().filter(|cpu| cpu.online).count();
    [
        fact("virtualisation", &machine.virtualisation, String::clone),
        fact("processor", &cpu.model, String::clone),
        fact("packages", &cpu.packages, u32::to_string),
        fact("physical cores", &cpu.physical_cores, u32::to_string),
        item("logical processors online", &online.to_string()),
        fact("multithreading", &cpu.smt, |on| if *on { "on" } else { "off" }.into()),
        fact("CPU quota", &cpu.quota_cores, |cores| {
            if *cores > 0.0 { format!("{} cores", quantity(*cores)) } else { "none".into() }
        }),
        fact("governor", &cpu.governor, String::clone),
        fact("memory", &memory.total_bytes, |bytes| units::show_size(*bytes)),
        item("NUMA nodes", &memory.nodes.len().to_string()),
        match rated.value {
            Some(_) => item("memory bandwidth", &super::text::tagged(&rated, Unit::Bytes)),
            None => fact("memory bandwidth", &memory.rated_bytes_per_second, |_| "unknown".into()),
        },
    ]
    .concat()
}

fn kernel(machine: &Machine) -> String {
    let kernel = &machine.kernel;
    let size = |bytes: &u64| if *bytes == u64::MAX { "unlimited".into() } else { units::show_size(*bytes) };
    [
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
    ]
    .concat()
}

/// A known value, or a dash; the reasons of many rows would drown the table.
fn or_dash<T>(fact: &Fact<T>, show: impl Fn(&T) -> String) -> String {
    fact.known().map_or("–".into(), show)
}

fn nic(nic: &Nic) -> String {
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

fn disk(disk: &Disk) -> String {
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

fn cells(values: &[&str]) -> String {
    values.iter().map(|value| format!("<td>{}</td>", escape(value))).collect()
}

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A table; `heads` are separated by `|` and are ours.
fn table(title: &str, heads: &str, rows: &[String]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let heads: String = heads.split('|').map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
    let rows_html: String = rows.iter().map(|row| format!("<tr>{row}</tr>")).collect();
    let table = format!(
        "<div class=\"scroll\"><table class=\"plain\"><thead><tr>{heads}</tr></thead><tbody>{rows_html}</tbody></table></div>"
    );
    if rows.len() > ROWS_SHOWN {
        format!("<details><summary>{title}: {}</summary>{table}</details>", rows.len())
    } else {
        format!("<h3>{title}</h3>{table}")
    }
}

/// How to do it again, what was chosen, what was changed.
pub(super) fn reproduce(run: &Run) -> String {
    let mut body = format!("<pre class=\"command\">{}</pre>", escape(&command(run)));
    if let Some(plan) = &run.plan {
        let schedule = &plan.schedule;
        body += &format!(
            "<p>Each measurement: {} repeats after {} s of warm-up; {} s a device alone, {} s all together, {} s the path. {} lanes, \
             {} of buffers.</p>",
            schedule.repeats,
            quantity(schedule.warm_up_seconds),
            quantity(schedule.alone_seconds),
            quantity(schedule.together_seconds),
            quantity(schedule.path_seconds),
            plan.lanes.len(),
            units::show_size(plan.pool_bytes)
        );
        body += &list("Notes of the plan", &plan.notes);
    }
    body += &list("What linerate changed on this machine", &run.changes);
    body += "<p>The same page from the file alone: <code>linerate report run.json</code>; a new diagnosis of the same figures: \
             <code>linerate diagnose run.json</code>.</p>";
    card("again", "How to do this again", "", &body)
}

pub(super) fn list(title: &str, items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|item| format!("<li>{}</li>", with_code(item))).collect();
    format!("<h3>{title}</h3><ul>{items}</ul>")
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
