//! `linerate plan`: the machine read or described, the changes made, the flow solved, the answer printed. Two of its
//! commands need no flow: `plan raid` with chunk, stripe and command lines of an array, or a check of the arrays that are
//! there; `plan rates` with the published rates as tables.

use super::arguments::{
    ClientRate, FLOWS, PlanArgs, PlanWhat, RaidArgs, RatesArgs, are_listings, described, sources, sysroot_of,
};
use super::measured;
use super::output::Output;
use linerate_facts::fact::Fact;
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_machine::probe::{Machine, probe};
use linerate_machine::rates::table::{KINDS, Table, tables};
use linerate_measure::diagnose::map_findings;
use linerate_model::plan::demand::{ClientSpec, clients};
use linerate_model::plan::flow::{Flow, FlowEnd, FlowEndError, FlowPlan, likely_rate, plan_flow};
use linerate_model::plan::long_path::{CongestionControl, LongPath, LongPathSpec, StreamWindow, long_path};
use linerate_model::plan::parts::{ByteDevice, JointKind, MachineParts, MeasuredParts, from_machine};
use linerate_model::plan::raid::{RaidSpec, check, raid as layout_of};
use linerate_model::plan::sizing::size;
use linerate_model::plan::whatif::{WhatIfChange, apply, best_placement, cards_in_slots};
use linerate_model::plan::{Bound, machine_file};
use linerate_report as report;
use linerate_report::{FlowReport, MeasuredOn, WhatIfStep, gate, results};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A saved machine or run that is larger is neither.
const LARGEST_FILE_BYTES: u64 = 256 << 20;

/// What an application asks for at once where the user does not say, bytes: what linerate itself reads.
const DEFAULT_REQUEST_BYTES: u64 = linerate_model::plan::DEFAULT_BLOCK_BYTES;

/// Narrower screens wrap the lines themselves.
const LEAST_WIDTH: usize = 80;

/// Does `linerate plan`, or what stands below it.
pub(super) fn plan(args: &PlanArgs, output: &Output) -> Result<u8, Failure> {
    match &args.what {
        Some(PlanWhat::Raid(args)) => return raid(args, output),
        Some(PlanWhat::Rates(args)) => return rates(args, output),
        None => {}
    }
    let (mut parts, machine) = planned_machine(&args.machine, output)?;
    let measured = match measured_parts(args, machine.as_ref())? {
        Some((found, on)) => {
            parts = parts.with_measured(found);
            Some(on)
        }
        None => None,
    };
    let Planned { report, flow, parts } = flow_report(args, parts, machine.as_ref(), measured)?;
    if let Some(file) = &args.svg {
        write_picture(file, &linerate_report::plan_svg(&parts, &report.plan))?;
    }
    if args.expectations {
        // Of what is there nothing holds for what a change would make of it.
        let unchanged = machine.as_ref().filter(|_| report.steps.is_empty());
        output.print(&gate::expectations_of_plan(&report.plan, &flow, unchanged))?;
    } else if args.json {
        output.print(&report.json())?;
    } else {
        output.print(&report.screen(output.width(), output.colour()))?;
    }
    Ok(0)
}

/// A flow that was planned, on the parts after all changes.
pub(super) struct Planned {
    pub(super) report: FlowReport,
    flow: Flow,
    parts: MachineParts,
}

/// `--svg`, of a plan and of a probe.
pub(super) fn write_picture(file: &Path, svg: &str) -> Result<(), Failure> {
    std::fs::write(file, svg).map_err(|error| {
        Failure::Lacks(format!(
            "{}: the picture cannot be written: {error}; name a file in a folder that you may write to",
            file.display()
        ))
    })
}

/// The flow that the words ask for, and what it comes to with these parts.
pub(super) fn flow_report(
    args: &PlanArgs,
    mut parts: MachineParts,
    machine: Option<&Machine>,
    measured: Option<MeasuredOn>,
) -> Result<Planned, Failure> {
    // A machine that lacks an end of the flow may get it by a change.
    let solved = |parts: &MachineParts| flow(parts, args).map(|flow| plan_flow(parts, &flow));
    let changes = changes(args, &parts)?;
    let before = (!changes.is_empty()).then(|| solved(&parts));
    let likely_before = before.as_ref().map(|plan| bound_of(plan, |plan| &plan.likely));
    let before = before.as_ref().map(|plan| bound_of(plan, |plan| &plan.ceiling));
    let mut last = before.as_ref().and_then(|bound| bound.likely_bytes_per_second);
    let mut steps = Vec::new();
    for one in &changes {
        let notes = change(&mut parts, one)?;
        let planned = solved(&parts);
        let now = bound_of(&planned, |plan| &plan.ceiling);
        let gain = now.likely_bytes_per_second.zip(last).map(|(now, last)| now - last);
        last = now.likely_bytes_per_second;
        let bytes_per_second = match now.likely_bytes_per_second {
            Some(rate) => Fact::Known(rate),
            None if planned.is_ok_and(|plan| plan.missing.is_some()) => {
                Fact::unknown("a rate on the path is unknown")
            }
            None => now.bytes_per_second,
        };
        steps.push(WhatIfStep { change: one.to_string(), notes, bytes_per_second, gain });
    }
    let flow = flow(&parts, args)?;
    let flow_plan = plan_flow(&parts, &flow);
    let in_bits = flow.in_bits();
    if args.rtt.is_some() && (!in_bits || args.protocol == Protocol::Udp) {
        return Err(Failure::usage(
            "--rtt is about TCP's windows: plan a flow over NICs with --protocol tcp",
        ));
    }
    let sizing = args.target.map(|target| size(&parts, &flow, target));
    let report = FlowReport {
        processors: parts.processors.clone(),
        before,
        likely_before,
        steps,
        demand: client_spec(args).map(|spec| clients(&flow_plan, &flow, &spec)),
        long_path: way(args, &parts, &flow_plan, &flow, machine),
        plan: flow_plan,
        sizing,
        // Of what is there: what a change would make of it, the model says.
        findings: machine.map(map_findings).unwrap_or_default(),
        in_bits,
        measured,
    };
    Ok(Planned { report, flow, parts })
}

/// `--each`, `--busy` and `--over`.
fn client_spec(args: &PlanArgs) -> Option<ClientSpec> {
    let (bytes_per_second, load) = match args.each? {
        ClientRate::Rate(rate) => (rate, None),
        ClientRate::Load(load) => (load.bytes_per_second(), Some(load)),
    };
    let busy = args.busy.or(load.map(|load| load.busy)).unwrap_or(1.0);
    Some(ClientSpec { bytes_per_second, load, busy, over_all_ports: args.over })
}

/// What a run that was named has measured, or kept runs of this very machine without being asked for.
fn measured_parts(
    args: &PlanArgs,
    machine: Option<&Machine>,
) -> Result<Option<(MeasuredParts, MeasuredOn)>, Failure> {
    match &args.measured {
        Some(Some(word)) if word.as_os_str() == "none" => Ok(None),
        Some(word) => {
            let run = measured::run_of(word.as_deref(), machine)?;
            let parts = measured::parts_of_named(&run, machine, args.protocol)?;
            Ok(Some((parts, MeasuredOn { host: run.host, started: run.started, runs: 1, asked: true })))
        }
        None if args.machine.is_empty() => {
            Ok(machine.and_then(|machine| measured::usual(machine, args.protocol)))
        }
        None => Ok(None),
    }
}

/// What TCP carries over the long path that was asked about: with this machine's buffers, both hosts being set alike.
fn way(
    args: &PlanArgs,
    parts: &MachineParts,
    plan: &FlowPlan,
    flow: &Flow,
    machine: Option<&Machine>,
) -> Option<LongPath> {
    let round_trip_seconds = args.rtt?.as_secs_f64();
    let kernel = machine.map(|machine| &machine.kernel);
    let known = |fact: &Fact<u64>| fact.known().map(|bytes| *bytes as f64);
    let of_host = || {
        let send = kernel.and_then(|kernel| known(&kernel.tcp_wmem_max_bytes)).map(StreamWindow::SendBuffer);
        let receive =
            kernel.and_then(|kernel| known(&kernel.tcp_rmem_max_bytes)).map(StreamWindow::ReceiveBuffer);
        send.into_iter()
            .chain(receive)
            .min_by(|one, other| one.usable_bytes().total_cmp(&other.usable_bytes()))
    };
    let given = args.window.map(|bytes| StreamWindow::Given(bytes as f64));
    let control = args.congestion_control.as_deref();
    let of_kernel = || kernel.and_then(|kernel| kernel.tcp_congestion_control.known()).map(String::as_str);
    let spec = LongPathSpec {
        round_trip_seconds,
        loss: args.loss,
        streams: args.streams.unwrap_or(1),
        window: given.or_else(of_host),
        congestion_control: control.or_else(of_kernel).map(CongestionControl::named),
    };
    Some(long_path(parts, plan, flow, &spec))
}

/// A bound of a plan; where the machine has no such flow, why not.
fn bound_of(plan: &Result<FlowPlan, Failure>, of: fn(&FlowPlan) -> &Bound) -> Bound {
    match plan {
        Ok(plan) => of(plan).clone(),
        Err(why) => Bound::unknown(why),
    }
}

/// The parts of a machine that was probed, and the machine: a description holds no settings that could be
/// wrong. `file`: where it was read from; empty of this one.
fn probed(machine: Machine, file: &str) -> (MachineParts, Option<Machine>) {
    let mut parts = from_machine(&machine);
    if machine.host.known().is_none() && !file.is_empty() {
        parts.name = format!("the machine of {file}");
    }
    (parts, Some(machine))
}

/// The changes in the order in which they are made: room first, then what fills it, then into the best slots.
fn changes(args: &PlanArgs, parts: &MachineParts) -> Result<Vec<WhatIfChange>, Failure> {
    let remove = args.remove.iter().cloned().map(WhatIfChange::Remove);
    let moves = args.moves.iter().cloned().map(WhatIfChange::Move);
    let add = args.add.iter().cloned().map(WhatIfChange::Add);
    let mut changes: Vec<WhatIfChange> = remove.chain(moves).chain(add).collect();
    if args.place {
        placed(args, parts.clone(), &mut changes)?;
    }
    changes.extend(args.set.iter().cloned().map(WhatIfChange::Set));
    Ok(changes)
}

/// `--place`: what is added without a place, or else the cards of the flow, into the slots in which it is fastest.
fn placed(args: &PlanArgs, mut parts: MachineParts, changes: &mut Vec<WhatIfChange>) -> Result<(), Failure> {
    let mut added = Vec::new();
    for one in changes.iter_mut() {
        let before: Vec<String> = parts.joints.iter().map(|joint| joint.name.clone()).collect();
        let anywhere = match one {
            WhatIfChange::Add(words) if !words.contains('@') => in_free_slot(&parts, words),
            _ => None,
        };
        *one = anywhere.unwrap_or_else(|| one.clone());
        change(&mut parts, one)?;
        let new = cards_in_slots(&parts, &|_| true).into_iter().filter(|name| !before.contains(name));
        added.extend(new);
    }
    let flow = flow(&parts, args)?;
    let is_end = |device: &ByteDevice| {
        let id = FlowEnd::Device(device.id());
        flow.from.contains(&id) || flow.to.contains(&id)
    };
    let cards = if added.is_empty() { cards_in_slots(&parts, &is_end) } else { added };
    if cards.is_empty() {
        return Err(Failure::Lacks(
            "--place: no card of this flow is in a slot that is known, and none is added; `linerate probe` as root shows \
             the slots"
                .into(),
        ));
    }
    let rate = |parts: &MachineParts| likely_rate(parts, &flow);
    let found = best_placement(&parts, &cards, &is_end, &rate);
    if rate(&parts).is_none() {
        return Err(Failure::Lacks(format!("--place: {}", plan_flow(&parts, &flow).sentence)));
    }
    changes.push(WhatIfChange::Place(found));
    Ok(())
}

/// The part in the first slot that takes it; the best one is looked for afterwards.
fn in_free_slot(parts: &MachineParts, words: &str) -> Option<WhatIfChange> {
    let slots = parts.joints.iter().filter(|joint| joint.kind == JointKind::Slot);
    let there = slots.map(|slot| WhatIfChange::Add(format!("{words}@{}", slot.name)));
    there.into_iter().find(|one| apply(&mut parts.clone(), one).is_ok())
}

fn change(parts: &mut MachineParts, one: &WhatIfChange) -> Result<Vec<String>, Failure> {
    let before = parts.clone();
    let notes = apply(parts, one).map_err(Failure::usage)?;
    parts.forget_changed(&before);
    Ok(notes)
}

fn flow(parts: &MachineParts, args: &PlanArgs) -> Result<Flow, Failure> {
    let (from, to) = args.flow;
    let named = |given: &[String], usual: &str| match given {
        [] => vec![usual.to_string()],
        given => given.to_vec(),
    };
    let ends = [&named(&args.from, from)[..], &named(&args.to, to)];
    let flow = Flow::between(parts, ends, args.protocol, args.method).map_err(|why| match why {
        FlowEndError::Absent { .. } | FlowEndError::NoKind(_) => {
            Failure::Lacks(format!("{why}{}", flows_there(parts)))
        }
        FlowEndError::MemoryToo | FlowEndError::InCommon(..) => Failure::usage(why),
    })?;
    if flow.from == [FlowEnd::Memory] && flow.to == [FlowEnd::Memory] {
        return Err(Failure::Usage("from memory to memory nothing moves: name a device at one end".into()));
    }
    if let Some(FlowEnd::Device(id)) =
        flow.from.iter().find(|end| **end != FlowEnd::Memory && flow.to.contains(end))
    {
        return Err(Failure::Usage(format!("{id} is both source and sink: name it at one end")));
    }
    if let Some(FlowEnd::Device(id)) = flow.from.iter().find(|end| end.is("gpu:")) {
        return Err(Failure::Usage(format!("{id} is not a source: a GPU takes bytes")));
    }
    Ok(flow)
}

/// Which flows the machine has both ends of, for one that was asked for and that lacks an end.
fn flows_there(parts: &MachineParts) -> String {
    let has = |word: &str| word == "memory" || parts.devices.iter().any(|device| device.what.word() == word);
    let there: Vec<&str> =
        FLOWS.iter().filter(|(_, _, (from, to))| has(from) && has(to)).map(|(name, ..)| *name).collect();
    match there.is_empty() {
        true => "; describe its parts in a file, or add one, like --add nic=10G:pcie2x8".into(),
        false => format!("; it has the ends of --flow {}", there.join(", ")),
    }
}

/// This machine, one that is described in a file, or the one of listings.
pub(super) fn planned_machine(
    files: &[PathBuf],
    output: &Output,
) -> Result<(MachineParts, Option<Machine>), Failure> {
    match files {
        [file] if !are_listings(files) => read(file),
        _ => Ok(probed(described(files, output)?.machine, &sources(files))),
    }
}

/// A description, a machine or a run; which, the file itself tells.
pub(super) fn read(file: &Path) -> Result<(MachineParts, Option<Machine>), Failure> {
    if file.to_str().is_some_and(|word| word.starts_with('@')) {
        return Ok(probed(results::read(file)?.machine, &file.display().to_string()));
    }
    let shown = file.display();
    let mut bytes = Vec::new();
    let open =
        std::fs::File::open(file).and_then(|file| file.take(LARGEST_FILE_BYTES + 1).read_to_end(&mut bytes));
    open.map_err(|error| {
        Failure::Lacks(format!("{shown} cannot be read: {error}; check the path of --machine"))
    })?;
    if bytes.len() as u64 > LARGEST_FILE_BYTES {
        return Err(Failure::Usage(format!("{shown} is larger than 256 MiB: no description of a machine")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        Failure::Usage(format!("{shown} is not text: byte {} is not UTF-8", error.utf8_error().valid_up_to()))
    })?;
    if text.trim_start().starts_with('{') {
        return Ok(probed(machine(&text, file)?, &shown.to_string()));
    }
    let parts = machine_file::parse(&text).map_err(|error| Failure::Usage(format!("{shown}, {error}")))?;
    Ok((parts, None))
}

/// The machine of `linerate probe --json`, or that of a run.
fn machine(text: &str, file: &Path) -> Result<Machine, Failure> {
    let shown = file.display();
    let wrong = |error: String| {
        Failure::Usage(format!(
            "{shown} is neither a machine as `linerate probe --json` prints it nor a run.json: {error}"
        ))
    };
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    Machine::of_json(value.get("machine").unwrap_or(&value))
        .map_err(|error| wrong(linerate_report::without_position(&error)))
}

/// Does `linerate plan raid`.
pub(super) fn raid(args: &RaidArgs, output: &Output) -> Result<u8, Failure> {
    if let Some(root) = &args.check {
        return check_arrays(root.as_deref(), args, output);
    }
    let Some(level) = args.level else {
        return Err(Failure::Usage(
            "--level is missing: say how data is spread, such as --level raid6".into(),
        ));
    };
    let count = args.disks.first().filter(|_| args.disks.len() == 1).and_then(|count| count.parse().ok());
    let devices = if count.is_some() { Vec::new() } else { args.disks.clone() };
    let layout = layout_of(&RaidSpec {
        level,
        disks: count.unwrap_or(devices.len() as u32),
        block_bytes: args.block,
        request_bytes: args.request.unwrap_or(DEFAULT_REQUEST_BYTES.max(args.block)),
        pattern: args.pattern,
        chunk_bytes: args.chunk,
        devices,
    })
    .map_err(Failure::usage)?;
    output.show(args.json, &layout, || report::raid(&layout, output.text_width(), output.colour()))?;
    Ok(0)
}

fn check_arrays(root: Option<&Path>, args: &RaidArgs, output: &Output) -> Result<u8, Failure> {
    let machine = probe(&sysroot_of(root, output)?);
    let requests = args.request.map(|bytes| (bytes, args.pattern));
    let arrays = check(&machine, requests);
    if arrays.is_empty() {
        let place = root.map_or("this machine".to_string(), |root| root.display().to_string());
        return Err(Failure::Lacks(format!(
            "{place} shows no array (md, striped LVM, btrfs or ZFS over several disks); what a hardware \
             controller makes \
             looks like one disk: compute it with --level and --disks"
        )));
    }
    output.show(args.json, &arrays, || report::raid_check(&arrays, output.text_width(), output.colour()))?;
    Ok(0)
}

/// Does `linerate plan rates`.
pub(super) fn rates(args: &RatesArgs, output: &Output) -> Result<u8, Failure> {
    let kinds = args.table.map_or(KINDS.to_vec(), |kind| vec![kind]);
    let tables: Vec<Table> = kinds.into_iter().flat_map(tables).collect();
    let width = output.width().max(LEAST_WIDTH);
    output.show(args.json, &tables, || report::rates(&tables, width, output.colour()))?;
    Ok(0)
}
