//! What reveals a machine. By its place: serial numbers, world-wide names, labels, its own name. They are read
//! whether or not the probe reads them, because other files repeat them. By its form, anywhere in a text:
//! hardware addresses, GUIDs, UUIDs, IPv6 addresses; and what was noted elsewhere: hosts, serials, IPv4
//! addresses.

use super::names::{NameKind, Names, is_in_word};
use super::passing::is_among;
use crate::probe::Machine;
use linerate_facts::sysroot::{Recorded, Sysroot};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
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
const ATTRIBUTES: &str = "\
    serial wwid uuid nguid eui unique_id sas_address port_name node_name fabric_name symbolic_name hostnqn \
    hostid subsysnqn node_guid sys_image_guid node_desc phys_switch_id phys_port_id label product_serial \
    board_serial chassis_serial product_uuid";
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
    is_among(ATTRIBUTES, name) || name.ends_with("asset_tag")
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
                for attribute in ATTRIBUTES.split_ascii_whitespace() {
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

/// It names one thing, and is not a placeholder.
pub(crate) fn is_serial(text: &str) -> bool {
    let same = text.bytes().all(|byte| Some(byte) == text.bytes().next());
    text.len() >= SHORTEST && !same && !PLACEHOLDERS.contains(&text.to_ascii_lowercase().as_str())
}

impl Names {
    /// The text with everything replaced.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let mut rewritten = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(next) = text[at..].chars().next() {
            // Long runs are tried once, at their start.
            let started = at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric();
            if let Some((length, name)) =
                self.starting(text, at).map(|(length, name)| (length, name.to_string()))
            {
                rewritten.push_str(&name);
                at += length;
            } else if let Some((length, name)) = started.then(|| self.form(&text[at..])).flatten() {
                rewritten.push_str(&name);
                at += length;
            } else {
                rewritten.push(next);
                at += next.len_utf8();
            }
        }
        rewritten
    }

    /// The text with every IPv4 address replaced, whether noted elsewhere or not: where four numbers are
    /// never a version.
    pub(crate) fn dotted(&mut self, text: &str) -> String {
        let is_part = |c: char| c.is_ascii_digit() || c == '.';
        let mut rewritten = String::new();
        let mut rest = text;
        while let Some(start) = rest.find(is_part) {
            let end = rest[start..].find(|c| !is_part(c)).map_or(rest.len(), |length| start + length);
            rewritten.push_str(&rest[..start]);
            match rest[start..end].parse::<Ipv4Addr>() {
                Ok(address) => rewritten.push_str(&self.address(address.into()).to_string()),
                Err(_) => rewritten.push_str(&rest[start..end]),
            }
            rest = &rest[end..];
        }
        rewritten + rest
    }

    /// The owner's words in a sentence or a path.
    pub(crate) fn words_in(&self, text: &str) -> String {
        let mut rewritten = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(is_in_word) {
            let end = rest[start..].find(|c| !is_in_word(c)).map_or(rest.len(), |length| start + length);
            let word = &rest[start..end];
            rewritten.push_str(&rest[..start]);
            rewritten.push_str(self.known(NameKind::Word, word).unwrap_or(word));
            rest = &rest[end..];
        }
        rewritten + rest
    }

    /// The whole text is a thing that is replaced for what it is, wherever it is.
    pub(crate) fn is_other(&mut self, text: &str) -> bool {
        let form = self.form(text).is_some_and(|(length, _)| length == text.len());
        form || self.has(NameKind::Host, text) || self.has(NameKind::Serial, text)
    }

    /// A thing that the text begins with: its length, and what replaces it.
    fn form(&mut self, text: &str) -> Option<(usize, String)> {
        let run = |of: fn(u8) -> bool| text.bytes().take_while(|byte| of(*byte)).take(64).count();
        let hex = &text[..run(|byte| byte.is_ascii_hexdigit() || byte == b':')];
        if let Some(found) = self.colons(hex.trim_end_matches(':')).or_else(|| self.colons(hex)) {
            return Some(found);
        }
        let uuid = &text[..run(|byte| byte.is_ascii_hexdigit() || byte == b'-')];
        if uuid.len() == 36 && uuid.split('-').map(str::len).eq([8, 4, 4, 4, 12]) {
            return is_telling(uuid).then(|| (36, self.of(NameKind::Uuid, uuid)));
        }
        let bare = &text[..run(|byte| byte.is_ascii_alphanumeric())];
        if let Some(found) = self.bare_mac(bare) {
            return Some(found);
        }
        let quad = text[..run(|byte| byte.is_ascii_digit() || byte == b'.')].trim_end_matches('.');
        let address = IpAddr::V4(quad.parse::<Ipv4Addr>().ok()?);
        Some((quad.len(), self.known_address(address)?.to_string()))
    }

    /// `00:1b:21:…` (six bytes or more), `0011:7500:0077:cfc8`, an IPv6 address.
    fn colons(&mut self, text: &str) -> Option<(usize, String)> {
        let groups = || text.split(':');
        let count = groups().count();
        let all = |length: usize| groups().all(|group| group.len() == length);
        if count >= 6 && all(2) {
            return is_telling(text).then(|| (text.len(), self.of(NameKind::Mac, text)));
        }
        if count == 4 && all(4) {
            return is_telling(text).then(|| (text.len(), self.of(NameKind::Guid, text)));
        }
        let address = text.parse::<Ipv6Addr>().ok().filter(|_| count > 2 && text.len() > 2)?;
        Some((text.len(), self.address(address.into()).to_string()))
    }

    /// A hardware address without colons, at the end of an interface's name (`enx001b216ab2c1`), if it was
    /// noted with them.
    fn bare_mac(&mut self, text: &str) -> Option<(usize, String)> {
        let start = text.len().checked_sub(12)?;
        let digits = &text[start..];
        let colons: Vec<&str> = (0..6).filter_map(|byte| digits.get(byte * 2..byte * 2 + 2)).collect();
        let name = self.known(NameKind::Mac, &colons.join(":"))?;
        Some((text.len(), format!("{}{}", &text[..start], name.replace(':', ""))))
    }
}

/// All zeros and all ones are nobody's.
fn is_telling(text: &str) -> bool {
    let mut digits = text.bytes().filter(u8::is_ascii_alphanumeric);
    let first = digits.next();
    !matches!(first, Some(b'0' | b'f' | b'F')) || digits.any(|digit| Some(digit) != first)
}
