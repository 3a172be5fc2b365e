//! A fleet as one screen and as one page: the sentence, the matrix of rates, and the members with what a flow
//! or a disk could depend on.

mod matrix;
mod storage;

use crate::document::{Block, Document, Media, Part, Table, TableRow, bold, dim, errors, plain};
use crate::grid::headed;
use linerate_facts::units::{bytes_per_second, show_bits_rate, show_size};
use linerate_facts::wording::counted;
use linerate_machine::probe::{Machine, Nic};
use linerate_measure::run::Run;
use linerate_measure::run::fleet::{FleetMember, FleetPattern, FleetResult};

const STYLE: &str = "\
.heat .s0{fill:#b2182b}.heat .s1{fill:#ef8a62}.heat .s2{fill:#fddbc7}.heat .s3{fill:#e8efe8}\
.heat .s4{fill:#d1e5f0}.heat .s5{fill:#67a9cf}.heat .none{fill:none;stroke:#888;stroke-dasharray:2 2}\
.heat text{font-size:11px;fill:currentColor}";

pub(crate) fn document<'a>(run: &'a Run, result: &'a FleetResult) -> Document<'a> {
    let beside = vec![Block::Space, Block::Text(dim(conditions(result)))];
    let mut all = vec![Part { on: Media::Terminal, blocks: beside, ..Part::default() }];
    all.push(errors(&run.errors, usize::MAX));
    all.push(list("unlike", "How the members differ", &result.differences));
    let mut doubts = list("doubts", "What makes the figures doubtful", &result.verdict.doubts);
    doubts.late = 1;
    all.push(doubts);
    all.push(Part { blocks: vec![Block::Space], ..Part::default() });
    all.extend(parts(result));
    all.push(missing_members(result));
    Document {
        tab: format!("fleet of {} – linerate", result.members.len()),
        about: vec![conditions(result), format!("linerate {}", run.version), run.started.clone()],
        answer: vec![bold(&result.verdict.sentence)],
        sheet: STYLE.into(),
        parts: all,
        ..Document::default()
    }
}

/// `pairs of 4 members, windows of 5 s, 2 streams a flow`.
fn conditions(result: &FleetResult) -> String {
    let members = format!("{} of {}", result.pattern.name(), counted(result.members.len(), "member"));
    let flows = format!("windows of {} s, {} a flow", result.seconds, counted(result.streams, "stream"));
    match result.pattern {
        FleetPattern::Disk => members,
        FleetPattern::Storage => {
            format!("{members}, of which {} are servers, {flows}", result.servers.len())
        }
        _ => format!("{members}, {flows}"),
    }
}

/// Who was not measured, and why; the page has it in the table of the members.
fn missing_members(result: &FleetResult) -> Part<'_> {
    let lost = result.members.iter().filter_map(|member| Some((&member.name, member.lost.as_ref()?)));
    let all = lost.chain(result.absent.iter().map(|host| (&host.name, &host.why)));
    let lines = all.map(|(name, why)| Block::Text(plain(format!("not measured: {name}: {why}"))));
    Part { on: Media::Terminal, late: 1, blocks: lines.collect(), ..Part::default() }
}

/// What the pattern has to show.
fn parts(result: &FleetResult) -> Vec<Part<'_>> {
    let mut parts = match result.pattern {
        FleetPattern::Disk => storage::disk_parts(result).to_vec(),
        FleetPattern::Storage => storage::parts(result).to_vec(),
        FleetPattern::Incast => vec![matrix::incast(&result.verdict)],
        _ => Vec::new(),
    };
    if result.pattern != FleetPattern::Disk {
        parts.push(matrix::rates(result));
        parts.extend(matrix::predicted(result));
        let on = if result.pattern == FleetPattern::AllToAll { Media::Both } else { Media::Page };
        parts.push(matrix::hosts(result, on));
    }
    if matches!(result.pattern, FleetPattern::AllToAll | FleetPattern::Bisection) {
        parts.push(matrix::windows(result));
    }
    if !result.verdict.racks.is_empty() {
        parts.push(matrix::racks(result));
    }
    parts.push(members_part(result));
    parts
}

/// Sentences below a heading of the page.
fn list<'a>(id: &'static str, title: &'static str, sentences: &[String]) -> Part<'a> {
    let space = (!sentences.is_empty()).then_some(Block::Space);
    let sentences = sentences.iter().map(|sentence| Block::Text(plain(sentence)));
    Part { id, title, blocks: space.into_iter().chain(sentences).collect(), ..Part::default() }
}

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
fn members_part(result: &FleetResult) -> Part<'static> {
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
