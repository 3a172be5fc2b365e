//! What each file of a capture becomes. Mounts, control groups and the network's tables have rules of their
//! own; any other text is searched for what reveals whose it is.
//!
//! Two files are binary: the firmware's table (SMBIOS) and the configuration space of PCI functions. What
//! reveals whose they are is written over in place, so that every length and offset stays.

use super::names::{NameKind, Names};
use super::private_names::{PrivateNames, is_owned};
use super::{identities, passing};
use crate::probe::{chosen_options, container_of};
use linerate_facts::sysroot::{Recorded, UnreadReason};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// Bytes of a function's configuration space: as much as everybody may read, of PCI, of PCIe.
const CONFIGURATION_BYTES: [usize; 3] = [64, 256, 4096];
/// The word of IDENTIFY data with a bit for each SATA generation.
const SATA_GENERATIONS: usize = 76;
/// Lines of the network's tables have as many columns at least.
const LEAST_COLUMNS: usize = 6;

const LEFT_OUT: &str = "left out of the capture, it may reveal whose machine it is";

/// All entries, with what reveals whose machine it is replaced (or noted, in the first pass).
pub(crate) fn rewrite(
    entries: &BTreeMap<PathBuf, Recorded>,
    names: &mut Names,
) -> BTreeMap<PathBuf, Recorded> {
    // What the kernel calls its own files reveals nothing, block devices among them.
    let kernels = entries
        .keys()
        .filter(|path| ["sys", "proc"].iter().any(|tree| path.starts_with(tree)) && !is_owned(path));
    let parts = kernels.flat_map(|path| path.components()).filter_map(|part| part.as_os_str().to_str());
    let kernel = parts.map(str::to_string).collect();
    let mut words = PrivateNames { names, kernel };
    let mut rewritten = BTreeMap::new();
    for (path, entry) in entries {
        let entry = match entry {
            Recorded::File(bytes) => file(path, bytes, &mut words),
            Recorded::Unread(why) => Recorded::Unread(words.names.text(&why.to_string()).into()),
            Recorded::Link(target) => Recorded::Link(words.place(path, target)),
            Recorded::Directory => Recorded::Directory,
        };
        rewritten.insert(words.place(path, path), entry);
    }
    rewritten
}

fn file(path: &Path, bytes: &[u8], private_names: &mut PrivateNames) -> Recorded {
    let is = |name: &str| path.ends_with(name);
    if is("dmi/tables/DMI") {
        return Recorded::File(rewrite_smbios(bytes, private_names.names));
    }
    if is("config") && path.starts_with("sys/devices") && CONFIGURATION_BYTES.contains(&bytes.len()) {
        return Recorded::File(rewrite_configuration(bytes));
    }
    let left_out = |private_names: &mut PrivateNames| {
        private_names.names.leave_out(bytes);
        Recorded::Unread(UnreadReason::Other(LEFT_OUT.into()))
    };
    let Ok(text) = std::str::from_utf8(bytes) else { return left_out(private_names) };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let lines = |of: &mut dyn FnMut(&str) -> String| -> String {
        text.split('\n').map(of).collect::<Vec<_>>().join("\n")
    };
    let rewritten = match name {
        "hostname" | "domainname" if path.starts_with("proc/sys/kernel") => whole(text, |host| match host {
            "" | "(none)" | "localhost" => host.to_string(),
            _ => private_names.names.of(NameKind::Host, host),
        }),
        "mountinfo" => lines(&mut |line| private_names.mountinfo(line)),
        "mounts" => lines(&mut |line| private_names.mounts(line)),
        "cgroup" => lines(&mut |line| match line.rsplit_once(':') {
            Some((controllers, path)) => format!("{controllers}:{}", private_names.path(path)),
            None => String::new(),
        }),
        // Whatever a container's passwords are called, they are there.
        "environ" => container_of(text).map_or_else(String::new, |name| format!("container={name}\0")),
        "uevent" => lines(&mut |line| match line.split_once('=') {
            Some(("INTERFACE" | "IFINDEX" | "DEVTYPE", _)) => private_names.names.text(line),
            _ => String::new(),
        }),
        "id" if path.components().any(|part| part.as_os_str() == "ata_device") => generations(text),
        "backing_file" => whole(text, |file| private_names.path(file)),
        "name" if is("dm/name") => whole(text, |name| private_names.word(name)),
        "route" | "ipv6_route" | "if_inet6" => lines(&mut |line| match line.split_whitespace().count() {
            ..LEAST_COLUMNS => String::new(),
            _ => hexadecimal(line, private_names.names),
        }),
        "fib_trie" => lines(&mut |line| match is_trie(line) {
            true => private_names.names.dotted(line),
            false => String::new(),
        }),
        // Some installations put secrets on that line.
        "cmdline" => private_names.names.text(&chosen_options(text).join(" ")),
        "version" => text
            .split(' ')
            .map(|word| if word.contains('@') { "(user@host)" } else { word })
            .collect::<Vec<_>>()
            .join(" "),
        "address" => {
            let text = private_names.names.dotted(text);
            let text = private_names.names.text(&text);
            // Of a drive behind a network, `traddr=192.0.2.7,trsvcid=4420` and more.
            text.split_inclusive(passing::is_between).map(address_part).collect()
        }
        _ if identities::is_identity(path) => {
            identities::serial(text, private_names.names);
            match identities::is_serial(text.trim()) && private_names.names.text(text) == text {
                // Written in a form that the list of what is searched for does not have.
                true => whole(text, |text| private_names.names.of(NameKind::Serial, text.trim())),
                false => private_names.names.text(text),
            }
        }
        _ if passing::passes(name, text) => private_names.names.text(text),
        _ => return left_out(private_names),
    };
    Recorded::File(rewritten.into_bytes())
}

/// The content without the line break at its end.
fn whole(text: &str, of: impl FnOnce(&str) -> String) -> String {
    let content = text.trim_end_matches(['\n', '\0']);
    of(content) + &text[content.len()..]
}

/// A part of an address and what is behind it; a dash for what is none.
fn address_part(part: &str) -> String {
    let word = part.trim_end_matches(passing::is_between);
    match passing::is_figure(word) || ["traddr", "trsvcid", "host_traddr", "src_addr"].contains(&word) {
        true => part.to_string(),
        false => format!("-{}", &part[word.len()..]),
    }
}

/// A drive's IDENTIFY data, words of four hexadecimal digits: the SATA generations alone. Elsewhere in it
/// stand its serial number and world-wide name (ACS-3, 7.12.7).
fn generations(text: &str) -> String {
    let word_kept = |(at, word): (usize, &str)| match at == SATA_GENERATIONS && word.len() == 4 {
        true if passing::is_figure(word) => word.to_string(),
        _ => "0000".to_string(),
    };
    text.split_ascii_whitespace().enumerate().map(word_kept).collect::<Vec<_>>().join(" ") + "\n"
}

/// A line of `/proc/net/fib_trie`: a table, a node, a leaf or a route.
fn is_trie(line: &str) -> bool {
    let trimmed = line.trim_start();
    ["+--", "|--", "/"].iter().any(|start| trimmed.starts_with(start))
        || line.ends_with(':') && ["Main", "Local", "Id "].iter().any(|start| line.starts_with(start))
}

/// Words of 8 or 32 digits are addresses, but netmasks, which say how long a network's part is.
fn hexadecimal(line: &str, names: &mut Names) -> String {
    let mut column = 0;
    let mut of = |word: &str| -> String {
        column += usize::from(!word.is_empty());
        let digits = word.bytes().all(|byte| byte.is_ascii_hexdigit());
        match (word.len(), column) {
            // /proc/net/route: interface, destination, gateway; in the byte order of x86 and of ARM servers.
            (8, 2 | 3) if digits => match u32::from_str_radix(word, 16) {
                Ok(bits) => match names.address(Ipv4Addr::from(bits.swap_bytes()).into()) {
                    IpAddr::V4(address) => format!("{:08X}", address.to_bits().swap_bytes()),
                    IpAddr::V6(_) => word.to_string(),
                },
                Err(_) => word.to_string(),
            },
            (32, _) if digits => match u128::from_str_radix(word, 16) {
                Ok(bits) => match names.address(Ipv6Addr::from(bits).into()) {
                    IpAddr::V6(address) => format!("{:032x}", address.to_bits()),
                    IpAddr::V4(_) => word.to_string(),
                },
                Err(_) => word.to_string(),
            },
            _ => names.text(word),
        }
    };
    line.split([' ', '\t']).zip(separators(line)).map(|(word, after)| of(word) + after).collect()
}

/// What stands after each word of a line: a blank, a tab, at the end nothing.
fn separators(line: &str) -> impl Iterator<Item = &str> {
    line.matches([' ', '\t']).chain(std::iter::once(""))
}

/// Structures whose contents are known, with the offsets of their strings that name one thing (serial number,
/// asset tag), by type: DMTF DSP0134. Others (OEM strings, management controllers, makers' own) are emptied.
const KNOWN_STRUCTURES: [(u8, &[usize]); 14] = [
    (0, &[]),
    (1, &[0x07]),
    (2, &[0x07, 0x08]),
    (3, &[0x07, 0x08]),
    (4, &[0x20, 0x21]),
    (7, &[]),
    (8, &[]),
    (9, &[]),
    (16, &[]),
    (17, &[0x18, 0x19]),
    (19, &[]),
    (20, &[]),
    (41, &[]),
    (127, &[]),
];

/// The firmware's table without serial numbers, asset tags and the system's UUID.
pub(crate) fn rewrite_smbios(table: &[u8], names: &mut Names) -> Vec<u8> {
    let mut table = table.to_vec();
    let mut at = 0;
    // Each structure takes at least its four bytes of header.
    while let Some(&[kind, length, ..]) = table.get(at..).filter(|rest| rest.len() >= 4) {
        let strings = at + usize::from(length);
        if length < 4 || strings > table.len() {
            // What cannot be taken apart cannot be cleaned.
            table.truncate(at);
            break;
        }
        let end = strings_end(&table, strings);
        structure(&mut table[at..end], kind, usize::from(length), names);
        at = end;
        if kind == 127 {
            table.truncate(at);
            break;
        }
    }
    table
}

/// After the two zero bytes that end a structure's strings.
fn strings_end(table: &[u8], from: usize) -> usize {
    let pair = table[from..].windows(2).position(|pair| pair == [0, 0]);
    pair.map_or(table.len(), |pair| from + pair + 2)
}

fn structure(bytes: &mut [u8], kind: u8, length: usize, names: &mut Names) {
    let (formatted, strings) = bytes.split_at_mut(length);
    let Some((_, telling)) = KNOWN_STRUCTURES.iter().find(|(known, _)| *known == kind) else {
        formatted[4..].fill(0);
        strings.iter_mut().filter(|byte| **byte != 0).for_each(|byte| *byte = b'x');
        return;
    };
    if let (1, Some(uuid)) = (kind, formatted.get_mut(8..24))
        && uuid.iter().any(|byte| *byte != uuid[0])
    {
        uuid.fill(0);
        uuid[15] = 1;
    }
    for offset in *telling {
        let Some(number) = formatted.get(*offset).filter(|number| **number > 0) else { continue };
        let mut all = strings.split_mut(|byte| *byte == 0);
        let Some(string) = all.nth(usize::from(*number) - 1) else { continue };
        let text = String::from_utf8_lossy(string).into_owned();
        let trimmed = text.trim();
        if trimmed.len() == text.len() && text.is_ascii() && identities::is_serial(trimmed) {
            let name = names.of(NameKind::Serial, trimmed);
            if name.len() == string.len() {
                string.copy_from_slice(name.as_bytes());
                continue;
            }
        }
        // Padded, short or not text: what is there is no name of its own any more.
        if identities::is_serial(trimmed) {
            names.of(NameKind::Serial, trimmed);
            string.fill(b'x');
        }
    }
}

/// Configuration space without the device's serial number (for many NICs, the hardware address): extended
/// capability 3, PCIe base specification 7.9.3.
pub(crate) fn rewrite_configuration(space: &[u8]) -> Vec<u8> {
    let mut space = space.to_vec();
    let mut at = 0x100;
    // Each capability takes four bytes at least: a chain in a circle ends.
    for _ in 0..space.len() / 4 {
        let Some(header) =
            space.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes)
        else {
            break;
        };
        if header & 0xffff == 0x0003
            && let Some(serial) = space.get_mut(at + 4..at + 12)
        {
            serial.fill(0);
        }
        at = (header >> 20) as usize & 0xffc;
        if at < 0x100 {
            break;
        }
    }
    space
}
