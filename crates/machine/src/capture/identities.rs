//! Where a machine shows who it is: serial numbers, world-wide names, labels, its own name. They are read
//! whether or not the probe reads them, because other files repeat them.

use super::names::{NameKind, Names};
use crate::probe::Machine;
use linerate_facts::sysroot::{Recorded, Sysroot};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Shorter ones are no serial number: `1`, `None`.
const SHORTEST: usize = 5;
/// What makers write where nothing stands.
const PLACEHOLDERS: [&str; 10] = [
    "none",
    "not specified",
    "not available",
    "to be filled by o.e.m.",
    "default string",
    "system serial number",
    "0123456789",
    "1234567890",
    "unknown",
    "chassis serial number",
];
/// Attributes that name one thing in the world, and folders that hold them.
const ATTRIBUTES: [&str; 24] = [
    "serial",
    "wwid",
    "uuid",
    "nguid",
    "eui",
    "unique_id",
    "sas_address",
    "port_name",
    "node_name",
    "fabric_name",
    "symbolic_name",
    "hostnqn",
    "hostid",
    "subsysnqn",
    "node_guid",
    "sys_image_guid",
    "node_desc",
    "phys_switch_id",
    "phys_port_id",
    "label",
    "product_serial",
    "board_serial",
    "chassis_serial",
    "product_uuid",
];
const FOLDERS: [&str; 7] = [
    "/sys/class/block",
    "/sys/class/nvme",
    "/sys/class/nvme-subsystem",
    "/sys/class/net",
    "/sys/class/fc_host",
    "/sys/class/sas_device",
    "/sys/class/infiniband",
];

/// True where a file's whole content is such a thing.
pub(crate) fn is_identity(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    ATTRIBUTES.contains(&name) || name.ends_with("asset_tag")
}

/// Notes all that is found.
pub(crate) fn note(
    sysroot: &Sysroot,
    entries: &BTreeMap<PathBuf, Recorded>,
    machine: &Machine,
    names: &mut Names,
) {
    let hosts = [machine.host.known().cloned(), sysroot.text("/proc/sys/kernel/domainname").ok()];
    for host in hosts.into_iter().flatten() {
        host_name(&host, names);
    }
    for place in FOLDERS {
        for name in sysroot.list(place) {
            for folder in ["", "device"] {
                for attribute in ATTRIBUTES {
                    value(sysroot, &Path::new(place).join(&name).join(folder).join(attribute), names);
                }
            }
            names.text(&sysroot.text(Path::new(place).join(&name).join("address")).unwrap_or_default());
        }
    }
    for attribute in sysroot.list("/sys/class/dmi/id") {
        if is_identity(Path::new(&attribute)) || attribute.ends_with("_serial") {
            value(sysroot, &Path::new("/sys/class/dmi/id").join(attribute), names);
        }
    }
    for (path, entry) in entries.iter().filter(|(path, _)| is_identity(path)) {
        if let Recorded::File(bytes) = entry {
            serial(&String::from_utf8_lossy(bytes), names);
        }
        // btrfs: /sys/fs/btrfs/UUID/label.
        names.text(&path.to_string_lossy());
    }
    // A host may be called what the kernel calls a file.
    for part in entries.keys().flat_map(|path| path.components()).filter_map(|part| part.as_os_str().to_str())
    {
        if names.has(NameKind::Host, part) {
            names.spare(part);
        }
    }
    for nic in &machine.nics {
        for (address, _) in &nic.addresses {
            names.address(*address);
        }
    }
}

/// This host's name, alone and without its domain.
pub(crate) fn host_name(name: &str, names: &mut Names) {
    let name = name.trim();
    let nobody = ["", "(none)", "localhost", "localhost.localdomain"].contains(&name);
    // A name of one letter would replace that letter; two are enough for a rare word.
    for part in [name, name.split('.').next().unwrap_or_default()] {
        if !nobody && part.len() > 1 && part.parse::<std::net::IpAddr>().is_err() {
            names.of(NameKind::Host, part);
        }
    }
}

fn value(sysroot: &Sysroot, path: &Path, names: &mut Names) {
    if let Ok(text) = sysroot.text(path) {
        serial(&text, names);
    }
}

/// Notes a serial number or a world-wide name; what is left of it without the prefix that shows its kind,
/// too.
pub(crate) fn serial(text: &str, names: &mut Names) {
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    // Forms are noted as what they are.
    names.text(text);
    let kinds = ["eui.", "naa.", "t10.", "nvme.", "uuid.", "0x"];
    let kind = kinds.iter().find(|kind| text.starts_with(**kind)).copied().unwrap_or_default();
    let bare = &text[kind.len()..];
    // The serial number within: `t10.ATA MODEL SERIAL`, `nvme.VENDOR-SERIAL-MODEL-NAMESPACE` in hexadecimal.
    let within = match kind {
        "t10." => bare.split_ascii_whitespace().next_back(),
        "nvme." => bare.split('-').nth(1),
        _ => None,
    };
    for part in [Some(bare), within].into_iter().flatten().filter(|part| is_serial(part)) {
        names.of(NameKind::Serial, part);
        if kind.is_empty() {
            names.of(NameKind::Encoded, &part.bytes().map(|byte| format!("{byte:02x}")).collect::<String>());
        }
    }
}

/// It names one thing, and is no placeholder.
pub(crate) fn is_serial(text: &str) -> bool {
    let same = text.bytes().all(|byte| Some(byte) == text.bytes().next());
    text.len() >= SHORTEST && !same && !PLACEHOLDERS.contains(&text.to_ascii_lowercase().as_str())
}
