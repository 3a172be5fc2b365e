//! `linerate probe --capture`: the files that the probe reads, laid down in a tarball that probes to the same
//! machine, without what reveals whose machine it is: hosts, addresses, the owner's folders and users. By the same rules
//! a saved product is made anonymous, on its JSON.
//!
//! What files cannot say (ethtool, limits of the process, the timing of a checksum) lies beside them in
//! `linerate/machine.json`: only what a probe of the tarball would lack, never what it reads itself. So a
//! later linerate reads more from the same files, and a reader that was wrong is put right.
//!
//! The tarball has the same bytes for the same entries, no time and no owner in it.

mod addresses;
mod files;
mod identities;
mod names;
mod passing;
mod private_names;
#[cfg(test)]
mod tests;

use crate::probe::{Machine, SYSCALL_FACTS_FILE, lacking, probe, route};
use flate2::{Compression, GzBuilder};
use linerate_facts::sysroot::{Archive, ArchiveError, ArchiveLimits, Recorded, Sysroot, UNREAD};
use linerate_facts::usage;
pub use names::Replaced;
use names::{NameKind, Names};
use private_names::PrivateNames;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

/// A recorded machine, anonymous.
#[derive(Clone, Debug)]
pub struct Capture {
    /// What lies at each path (without a leading slash).
    pub entries: BTreeMap<PathBuf, Recorded>,
    /// What was replaced, and how often different things were.
    pub replaced: Replaced,
}

/// Why there is no capture.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    #[error("the machine cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the tarball could not be made: {0}")]
    Tarball(#[from] std::io::Error),
    /// What was recorded, read again to see what it lacks.
    #[error(transparent)]
    Replay(#[from] ArchiveError),
}

/// Records a machine.
pub fn capture(sysroot: &Sysroot) -> Result<Capture, CaptureError> {
    let machine = probe(sysroot);
    let found = record(sysroot, &machine);
    let mut names = Names::default();
    identities::note(sysroot, &found, &machine, &mut names);
    // The first pass notes what there is to replace, so that the second cannot give a name that somebody else
    // has.
    files::rewrite(&found, &mut names);
    names.settle();
    let mut entries = files::rewrite(&found, &mut names);
    let asked = missing_answers(&machine, &entries, &mut names)?;
    entries.insert(PathBuf::from(SYSCALL_FACTS_FILE), Recorded::File(asked));
    Ok(Capture { entries, replaced: names.replaced() })
}

/// Everything that readers ask the tree for.
fn record(sysroot: &Sysroot, machine: &Machine) -> BTreeMap<PathBuf, Recorded> {
    let (recorder, recording) = sysroot.record();
    // A tree of which nothing is read is still one.
    for root in ["/sys", "/proc"] {
        recorder.is_directory(root);
    }
    probe(&recorder);
    usage::CpuTimes::read(&recorder);
    usage::Throttle::read(&recorder);
    // Documentation addresses: whatever route they take, all routes are read.
    for peer in [
        IpAddr::from(Ipv4Addr::new(203, 0, 113, 1)),
        IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    ] {
        route::path_to(&recorder, machine, peer);
    }
    let mut entries = recording.entries();
    // A tree that was captured before has its own; this one gets a new one.
    entries.retain(|path, _| !path.starts_with("linerate"));
    entries
}

/// What a probe of the entries would lack, as JSON. Addresses of interfaces are reported whole: files show them
/// only in part.
fn missing_answers(
    machine: &Machine,
    entries: &BTreeMap<PathBuf, Recorded>,
    names: &mut Names,
) -> Result<Vec<u8>, CaptureError> {
    let mut plain = Vec::new();
    write_tar(entries, &mut plain)?;
    let replayed = probe(&Sysroot::archive(Archive::read_from(plain.as_slice(), &ArchiveLimits::default())?));
    let text = serde_json::to_string(machine)?;
    let mut live: Value = serde_json::from_str(&names.text(&text))?;
    let mut part = serde_json::to_value(&replayed)?;
    // What the tarball itself says has no folder's name in it: where that is a word of ours (`over`), it stays.
    let mut replayed = HashMap::new();
    reasons(&mut part, &mut |why| drop(replayed.insert(names.words_in(why), why.clone())));
    reasons(&mut live, &mut |why| {
        if !private_names::is_kernels(why) {
            let replaced = names.words_in(why);
            *why = replayed.get(&replaced).cloned().unwrap_or(replaced);
        }
    });
    for nic in part.get_mut("nics").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(addresses) = nic.get_mut("addresses") {
            *addresses = Value::Null;
        }
    }
    let mut lacking = lacking(&part, &live).unwrap_or_else(|| Value::Object(Default::default()));
    hold_back(&mut lacking, names);
    Ok(serde_json::to_vec_pretty(&lacking)?)
}

/// What was left out as a file does not come back as what a probe made of it; true where something is left.
fn hold_back(value: &mut Value, names: &Names) -> bool {
    match value {
        Value::String(text) => !names.repeats_what_was_left_out(text),
        Value::Array(list) => list.iter_mut().all(|value| hold_back(value, names)),
        Value::Object(fields) => {
            fields.retain(|_, value| hold_back(value, names));
            !fields.is_empty()
        }
        _ => true,
    }
}

/// Each reason, which may name a file system or a folder.
fn reasons(value: &mut Value, each: &mut impl FnMut(&mut String)) {
    match value {
        Value::Object(fields) => match fields.get_mut("unknown") {
            Some(Value::String(why)) => each(why),
            _ => fields.values_mut().for_each(|value| reasons(value, each)),
        },
        Value::Array(list) => list.iter_mut().for_each(|value| reasons(value, each)),
        _ => {}
    }
}

/// Writes the capture as a tarball compressed with gzip.
pub fn write(capture: &Capture, out: impl Write) -> io::Result<()> {
    let gzip = write_tar(&capture.entries, GzBuilder::new().mtime(0).write(out, Compression::best()))?;
    gzip.finish()?.flush()
}

fn write_tar<W: Write>(entries: &BTreeMap<PathBuf, Recorded>, out: W) -> io::Result<W> {
    let mut tarball = Builder::new(out);
    let mut unread: BTreeMap<&Path, String> = BTreeMap::new();
    for (path, entry) in entries.iter().filter(|(path, _)| path.file_name().is_some()) {
        match entry {
            Recorded::File(bytes) => file(&mut tarball, path, bytes)?,
            Recorded::Unread(why) => {
                unread.insert(path, why.to_string());
                file(&mut tarball, path, b"")?;
            }
            Recorded::Link(target) => {
                tarball.append_link(&mut header(EntryType::Symlink, 0o777, 0), path, target)?;
            }
            Recorded::Directory => {
                tarball.append_data(&mut header(EntryType::Directory, 0o755, 0), path, io::empty())?;
            }
        }
    }
    let unread = serde_json::to_vec_pretty(&unread)?;
    file(&mut tarball, Path::new(UNREAD), &unread)?;
    tarball.into_inner()
}

fn file<W: Write>(tarball: &mut Builder<W>, path: &Path, bytes: &[u8]) -> io::Result<()> {
    tarball.append_data(&mut header(EntryType::Regular, 0o644, bytes.len() as u64), path, bytes)
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Words of linerate's own are there, and figures; what has a blank is a sentence.
const OURS: &str = "\
    schema version started kind stage protocol origin severity verdict held_by direction method level";

/// Replaces all of it, everywhere by the same.
pub fn anonymise(product: &mut Value, machine: &Machine) {
    let mut names = Names::default();
    for nic in &machine.nics {
        for (address, _) in &nic.addresses {
            names.address(*address);
        }
        note_hardware_address(&nic.name, &mut names);
    }
    machine.host.known().into_iter().for_each(|host| identities::host_name(host, &mut names));
    let mut kernel: HashSet<String> = HashSet::new();
    kernel.extend(machine.nics.iter().map(|nic| nic.name.clone()));
    kernel.extend(machine.disks.iter().map(|disk| disk.name.clone()));
    // As of a capture: all is noted first, so that no name is given that somebody else has.
    let mut private = PrivateNames { names: &mut names, kernel };
    note_name(product, "", private.names);
    rewrite(&mut product.clone(), "", &mut private);
    private.names.settle();
    rewrite(product, "", &mut private);
}

/// `enx001b216ab2c1` is called after the interface's hardware address.
fn note_hardware_address(name: &str, names: &mut Names) {
    let digits = name.strip_prefix("enx").unwrap_or_default();
    if digits.len() == 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let bytes: Vec<&str> = (0..6).filter_map(|byte| digits.get(byte * 2..byte * 2 + 2)).collect();
        names.of(NameKind::Mac, &bytes.join(":"));
    }
}

/// Hosts and addresses, which are in sentences and names of others, too.
fn note_name(value: &Value, key: &str, names: &mut Names) {
    match value {
        Value::String(text) if key == "host" => identities::host_name(text, names),
        Value::String(text) if key == "receiver" => {
            identities::host_name(text.strip_prefix("receiver:").unwrap_or(text), names);
        }
        Value::String(text)
            if ["peers", "peer", "local", "server", "address", "addresses"].contains(&key) =>
        {
            note_peer(text, names);
        }
        Value::Array(list) => list.iter().for_each(|value| note_name(value, key, names)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| note_name(value, key, names)),
        _ => {}
    }
}

/// `192.0.2.7:7411`, `[2001:db8::7]`, `ssh://user@host`.
fn note_peer(text: &str, names: &mut Names) {
    let text = text.strip_prefix("ssh://").unwrap_or(text);
    let host = match text.split_once('@') {
        Some((user, host)) => {
            names.of(NameKind::Word, user);
            host
        }
        None => text,
    };
    let address = host.parse::<SocketAddr>().map(|address| address.ip());
    if let Ok(address) = address.or_else(|_| host.trim_matches(['[', ']']).parse::<IpAddr>()) {
        names.address(address);
        return;
    }
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    // Addresses of PCI are not a host's.
    if !host.contains(':') {
        identities::host_name(host, names);
    }
}

fn rewrite(value: &mut Value, key: &str, private: &mut PrivateNames<'_>) {
    match value {
        Value::String(text) if !passing::is_among(OURS, key) || text.contains(' ') => {
            let replaced = match text.split_once("://") {
                // Of a transfer; others are where linerate has something from.
                Some((scheme, rest)) if ["url", "name"].contains(&key) => {
                    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                    format!("{scheme}://{}{}", private.names.text(host), private.path(path))
                }
                None if is_path(key, text) => private.path(text),
                _ => private.names.text(text),
            };
            // `user@host` is two words here.
            let words = replaced.split('@').map(|part| private.names.words_in(part));
            *text = words.collect::<Vec<_>>().join("@");
        }
        Value::Array(list) => list.iter_mut().for_each(|value| rewrite(value, key, private)),
        Value::Object(fields) => {
            rewrite_mount(fields, private);
            fields.iter_mut().for_each(|(key, value)| rewrite(value, key, private));
        }
        _ => {}
    }
}

/// What is mounted, and its options: hosts, users and labels are there.
fn rewrite_mount(fields: &mut Map<String, Value>, private: &mut PrivateNames<'_>) {
    let text = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_string);
    if let (Some(kind), Some(source), Some(options)) = (text("kind"), text("source"), text("options")) {
        fields.insert("source".into(), private.source(&source, &kind).into());
        fields.insert("options".into(), private.options(&options).into());
    }
}

/// It names a file, or a volume by a relative path (`pool/volume`).
fn is_path(key: &str, text: &str) -> bool {
    match key {
        "sources" | "sinks" | "mount_point" | "backing_file" => true,
        _ if text.starts_with('/') => !text.contains(' '),
        "path" | "source" | "name" => text.contains('/') && !text.contains([' ', ':']),
        _ => false,
    }
}
