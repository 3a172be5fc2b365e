//! A saved product without what reveals whose machine it is: hosts, addresses, the owner's folders and users.
//! The same rules as of a capture, on the JSON of the product.

use super::identities;
use super::names::{NameKind, Names};
use super::private_names::PrivateNames;
use crate::probe::Machine;
use serde_json::Value;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

/// Words of linerate's own are there, and figures.
const OURS: [&str; 13] = [
    "schema",
    "version",
    "started",
    "kind",
    "stage",
    "protocol",
    "origin",
    "severity",
    "verdict",
    "held_by",
    "direction",
    "method",
    "level",
];
/// Paths are there, or what names a volume.
const PATHS: [&str; 6] = ["mount_point", "backing_file", "path", "sources", "source", "name"];

/// Replaces all of it, everywhere by the same.
pub fn anonymise(product: &mut Value, machine: &Machine) {
    let mut names = Names::default();
    for nic in &machine.nics {
        for (address, _) in &nic.addresses {
            names.address(*address);
        }
        hardware_address(&nic.name, &mut names);
    }
    machine.host.known().into_iter().for_each(|host| identities::host_name(host, &mut names));
    let mut kernel: HashSet<String> = HashSet::new();
    kernel.extend(machine.nics.iter().map(|nic| nic.name.clone()));
    kernel.extend(machine.disks.iter().map(|disk| disk.name.clone()));
    // As of a capture: all is noted first, so that no name is given that somebody else has.
    let mut private = PrivateNames { names: &mut names, kernel };
    note(product, "", private.names);
    rewrite(&mut product.clone(), "", &mut private);
    private.names.settle();
    rewrite(product, "", &mut private);
}

/// `enx001b216ab2c1` is called after the interface's hardware address.
fn hardware_address(name: &str, names: &mut Names) {
    let digits = name.strip_prefix("enx").unwrap_or_default();
    if digits.len() == 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let bytes: Vec<&str> = (0..6).filter_map(|byte| digits.get(byte * 2..byte * 2 + 2)).collect();
        names.of(NameKind::Mac, &bytes.join(":"));
    }
}

/// Hosts and addresses, which are in sentences and names of others, too.
fn note(value: &Value, key: &str, names: &mut Names) {
    match value {
        Value::String(text) if key == "host" => identities::host_name(text, names),
        Value::String(text) if key == "receiver" => {
            identities::host_name(text.strip_prefix("receiver:").unwrap_or(text), names);
        }
        Value::String(text)
            if ["peers", "peer", "local", "server", "address", "addresses"].contains(&key) =>
        {
            peer(text, names);
        }
        Value::Array(list) => list.iter().for_each(|value| note(value, key, names)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| note(value, key, names)),
        _ => {}
    }
}

/// `192.0.2.7:7411`, `[2001:db8::7]`, `ssh://user@host`.
fn peer(text: &str, names: &mut Names) {
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
        Value::String(text) if !OURS.contains(&key) => {
            let is_path = text.starts_with('/') && !text.contains(' ') || is_volume(key, text);
            let replaced = if is_path { private.path(text) } else { private.names.text(text) };
            // `user@host` is two words here.
            let words = replaced.split('@').map(|part| private.names.words_in(part));
            *text = words.collect::<Vec<_>>().join("@");
        }
        Value::Array(list) => list.iter_mut().for_each(|value| rewrite(value, key, private)),
        Value::Object(fields) => fields.iter_mut().for_each(|(key, value)| rewrite(value, key, private)),
        _ => {}
    }
}

/// `pool/volume`, a relative path.
fn is_volume(key: &str, text: &str) -> bool {
    PATHS.contains(&key) && text.contains('/') && !text.contains([' ', ':'])
}
