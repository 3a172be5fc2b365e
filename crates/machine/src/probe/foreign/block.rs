//! `lsblk -J`, `nvme list -o json` and `mdadm --detail`: block devices, what is mounted from them, the
//! controllers of NVMe drives, the arrays of Linux' software RAID and their members.

use crate::probe::machine::{Array, Controller, ControllerKind, Disk, DiskKind, FileSystem, Machine};
use crate::probe::storage::md::{copies, data_disks, with_stripe};
use linerate_facts::fact::Fact;
use serde_json::Value;
use std::path::PathBuf;

/// Devices of one listing.
const MOST_DEVICES: usize = 65_536;

/// Devices with what they are made of. Which columns there are depends on the options: `-O` has all.
pub(super) fn from_lsblk(document: &Value) -> Option<Machine> {
    let mut machine = Machine::default();
    for one in document.get("blockdevices")?.as_array()? {
        device(one, None, &mut machine);
    }
    (!machine.disks.is_empty()).then_some(machine)
}

/// A value that old versions write as text.
fn text(one: &Value, key: &str) -> Option<String> {
    match one.get(key)? {
        Value::String(text) if !text.is_empty() => Some(text.trim().to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(u8::from(*flag).to_string()),
        _ => None,
    }
}

fn device(one: &Value, above: Option<&str>, machine: &mut Machine) {
    let Some(name) = text(one, "kname").or_else(|| text(one, "name")) else { return };
    let name = name.trim_start_matches("/dev/").to_string();
    if machine.disks.len() >= MOST_DEVICES {
        return;
    }
    match machine.disks.iter_mut().find(|disk| disk.name == name) {
        // An array is listed below each of its members, and so is what lies on it.
        Some(known) => {
            let another = above.filter(|above| known.members.iter().all(|member| member != above));
            known.members.extend(another.map(str::to_string));
        }
        None => {
            let disk = disk(one, &name, above);
            machine.file_systems.extend(mounted(one, &name));
            machine.disks.push(disk);
        }
    }
    for below in one.get("children").and_then(Value::as_array).into_iter().flatten() {
        device(below, Some(&name), machine);
    }
}

fn disk(one: &Value, name: &str, above: Option<&str>) -> Disk {
    let absent = "lsblk does not list it";
    let bytes = |key: &str| Fact::from_option(text(one, key).and_then(|text| size(&text)), absent);
    let small = |key: &str| Fact::from_option(text(one, key).and_then(|text| text.parse().ok()), absent);
    let kind = text(one, "type").unwrap_or_default();
    Disk {
        kind: of_type(&kind, name),
        number: Fact::from_option(text(one, "maj:min"), absent),
        size_bytes: bytes("size"),
        model: Fact::from_option(text(one, "model").map(|model| model.replace('_', " ")), absent),
        rotational: Fact::from_option(text(one, "rota").map(|rota| rota == "1"), absent),
        logical_block_bytes: small("log-sec"),
        physical_block_bytes: small("phy-sec"),
        minimum_io_bytes: bytes("min-io"),
        optimal_io_bytes: bytes("opt-io"),
        scheduler: Fact::from_option(text(one, "sched"), absent),
        read_ahead_bytes: small("ra").map(|kib: u32| u64::from(kib) * 1024),
        requests: small("rq-size"),
        discard: bytes("disc-max").map(|most| most > 0),
        members: above.map(str::to_string).into_iter().collect(),
        mapped_name: text(one, "name").filter(|mapped| name.starts_with("dm-") && mapped != name),
        name: name.to_string(),
        ..Disk::default()
    }
}

fn of_type(kind: &str, name: &str) -> DiskKind {
    match kind {
        "part" => DiskKind::Partition,
        "loop" => DiskKind::Loop,
        "lvm" | "crypt" | "mpath" | "dm" => DiskKind::Dm,
        _ if name.starts_with("md") => DiskKind::Md,
        _ if name.starts_with("nvme") => DiskKind::Nvme,
        _ if name.starts_with("vd") => DiskKind::Virtio,
        _ if name.starts_with("sd") || name.starts_with("sr") => DiskKind::Scsi,
        _ => DiskKind::Other,
    }
}

/// Bytes (`-b`), or a size as it is shown: `931.5G`, in powers of 1024.
fn size(text: &str) -> Option<u64> {
    if let Ok(bytes) = text.parse() {
        return Some(bytes);
    }
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let power = "BKMGTPE".find(unit)?;
    let bytes = number.replace(',', ".").parse::<f64>().ok()? * 1024f64.powi(i32::try_from(power).ok()?);
    (0.0..1e19).contains(&bytes).then_some(bytes as u64)
}

fn mounted(one: &Value, name: &str) -> Vec<FileSystem> {
    let points: Vec<String> = match one.get("mountpoints").and_then(Value::as_array) {
        Some(all) => all.iter().filter_map(Value::as_str).map(str::to_string).collect(),
        None => text(one, "mountpoint").into_iter().collect(),
    };
    let source = format!("/dev/{name}");
    let mount = |point: String| FileSystem {
        mount_point: PathBuf::from(point),
        kind: text(one, "fstype").unwrap_or_default(),
        source: source.clone(),
        devices: vec![name.to_string()],
        ..FileSystem::default()
    };
    points.into_iter().filter(|point| point.starts_with('/')).take(64).map(mount).collect()
}

/// Drives, in the flat form and in that of `-v`, which has the controllers with their addresses.
pub(super) fn from_nvme(document: &Value) -> Option<Machine> {
    let mut machine = Machine::default();
    for one in document.get("Devices")?.as_array()?.iter().take(MOST_DEVICES) {
        drive(one, &mut machine);
        for subsystem in
            one.get("Subsystems").and_then(Value::as_array).into_iter().flatten().take(MOST_DEVICES)
        {
            let list = |key: &str| subsystem.get(key).and_then(Value::as_array).into_iter().flatten();
            list("Controllers").for_each(|one| controller(one, &mut machine));
            list("Namespaces").for_each(|one| drive(one, &mut machine));
        }
    }
    machine.disks.sort_by(|a, b| a.name.cmp(&b.name));
    machine.disks.dedup_by(|a, b| a.name == b.name);
    let listed = !machine.disks.is_empty() || !machine.controllers.is_empty();
    listed.then_some(machine)
}

fn drive(one: &Value, machine: &mut Machine) {
    let path = text(one, "DevicePath").or_else(|| text(one, "NameSpace"));
    let Some(name) = path.map(|path| path.trim_start_matches("/dev/").to_string()) else { return };
    let absent = "nvme list does not report it";
    let number = |key: &str| one.get(key).and_then(Value::as_u64);
    if machine.disks.len() < MOST_DEVICES {
        machine.disks.push(Disk {
            kind: DiskKind::Nvme,
            size_bytes: Fact::from_option(number("PhysicalSize"), absent),
            model: Fact::from_option(text(one, "ModelNumber"), absent),
            logical_block_bytes: Fact::from_option(
                number("SectorSize").and_then(|size| size.try_into().ok()),
                absent,
            ),
            rotational: Fact::Known(false),
            name,
            ..Disk::default()
        });
    }
}

fn controller(one: &Value, machine: &mut Machine) {
    let (Some(name), absent) = (text(one, "Controller"), "nvme list does not report it") else { return };
    if machine.controllers.len() >= MOST_DEVICES {
        return;
    }
    let address = text(one, "Address").map(|address| address.to_ascii_lowercase());
    let first = machine.disks.len();
    one.get("Namespaces").and_then(Value::as_array).into_iter().flatten().for_each(|one| drive(one, machine));
    let transport = text(one, "Transport");
    let pci = address.clone().filter(|_| transport.as_deref() == Some("pcie"));
    let model = text(one, "ModelNumber");
    for disk in &mut machine.disks[first..] {
        disk.controller = Some(name.clone());
        disk.pci.clone_from(&pci);
        if let (Fact::Unknown { .. }, Some(model)) = (&disk.model, &model) {
            disk.model = Fact::Known(model.clone());
        }
    }
    machine.controllers.push(Controller {
        kind: ControllerKind::Nvme,
        model: Fact::from_option(model, absent),
        firmware: Fact::from_option(text(one, "Firmware"), absent),
        transport: Fact::from_option(transport, absent),
        address: Fact::from_option(address, absent),
        state: Fact::from_option(text(one, "State"), absent),
        disks: machine.disks[first..].iter().map(|disk| disk.name.clone()).collect(),
        pci,
        name,
        ..Controller::default()
    });
}

/// Members of one array: md takes 384.
const MOST_MEMBERS: usize = 1024;

/// `/dev/md0:` and the lines below it.
pub(super) fn from_mdadm(text: &str) -> Option<Machine> {
    let name = text.lines().next()?.strip_prefix("/dev/")?.strip_suffix(':')?;
    let of = |key: &str| {
        text.lines().find_map(|line| {
            let (name, value) = line.split_once(" : ")?;
            (name.trim() == key).then(|| value.trim())
        })
    };
    let number = |key: &str| of(key).and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    let small = |key: &str| number(key).and_then(|number| u32::try_from(number).ok());
    let level = of("Raid Level")?.to_string();
    let absent = "mdadm does not report it";
    let disks = small("Raid Devices");
    let layout = of("Layout").map(str::to_string);
    // `near=2`, `far=2`, `offset=2`: copies within a row, copies in others.
    let all = layout
        .as_deref()
        .and_then(|layout| layout.split_once('=')?.1.split(' ').next()?.parse().ok())
        .unwrap_or(1);
    let near = if layout.as_deref().is_some_and(|layout| layout.starts_with("near")) { all } else { 1 };
    let chunk =
        of("Chunk Size").and_then(|size| size.strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1024));
    let state = of("State").map(|state| state.split(',').next().unwrap_or(state).trim().to_string());
    let working = small("Active Devices").zip(disks).map(|(active, disks)| disks.saturating_sub(active));
    let array = with_stripe(Array {
        chunk_bytes: Fact::from_option(chunk, absent),
        data_disks: Fact::from_option(disks.and_then(|disks| data_disks(&level, disks, near)), absent),
        copies: Fact::from_option(disks.and_then(|disks| copies(&level, disks, all)), absent),
        disks: Fact::from_option(disks, absent),
        degraded: Fact::from_option(working, absent),
        layout: Fact::from_option(layout, absent),
        state: Fact::from_option(state, absent),
        level,
        ..Array::default()
    });
    let size = number("Array Size").and_then(|kib| kib.checked_mul(1024));
    let disk = Disk {
        name: name.to_string(),
        kind: DiskKind::Md,
        size_bytes: Fact::from_option(size, absent),
        members: text.lines().filter_map(member).take(MOST_MEMBERS).collect(),
        array: Some(array),
        ..Disk::default()
    };
    Some(Machine { disks: vec![disk], ..Machine::default() })
}

/// `       0       8       16        0      active sync   /dev/sdb`; spares and failed ones are not members.
fn member(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let place = words.get(3)?.parse::<u32>().is_ok() && words.first()?.parse::<u32>().is_ok();
    let path = words.last()?.strip_prefix("/dev/")?;
    (place && words.contains(&"active")).then(|| path.to_string())
}
