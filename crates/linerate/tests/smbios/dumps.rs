//! `linuxhw-dmi`: every text of dmidecode against `summary.csv`, column by column, and what share of the machines tells its channels.

use super::captures;
use linerate::probe::smbios::{Firmware, apply, from_dmidecode};
use linerate::probe::{Confidence, Machine, MemoryModule};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The dumps unpacked; `None` (and a message) where this machine cannot.
fn unpack(captures: &Path) -> Option<tempfile::TempDir> {
    let place = tempfile::tempdir().expect("a temporary directory");
    let archive = captures.join("linuxhw-dmi/linuxhw-DMI-Server-2049.tar.xz");
    let tar = Command::new("tar").arg("--extract").arg("--file").arg(archive).arg("--directory").arg(place.path()).status();
    if tar.is_ok_and(|status| status.success()) {
        return Some(place);
    }
    println!("skipped: tar cannot unpack linuxhw-dmi");
    None
}

/// Name and text of every dump, in order.
fn texts(place: &Path) -> Vec<(String, String)> {
    let root = place.join("Server");
    let mut pending = vec![root.clone()];
    let mut texts = Vec::new();
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
                continue;
            }
            let name = path.strip_prefix(&root).expect("below the root").to_string_lossy().into_owned();
            let bytes = std::fs::read(&path).expect("a dump");
            texts.push((name, String::from_utf8_lossy(&bytes).into_owned()));
        }
    }
    texts.sort();
    texts
}

#[test]
fn survey() {
    let Some(captures) = captures() else { return };
    let Some(place) = unpack(&captures) else { return };
    let started = std::time::Instant::now();
    let texts = texts(place.path());
    println!("read {:?}", started.elapsed());
    let mut shapes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, text) in &texts {
        let Ok(firmware) = from_dmidecode(text) else { println!("{name}: {:?}", from_dmidecode(text).err()); continue };
        let mut machine = Machine::default();
        let cpu = firmware.sockets.iter().find(|s| s.populated).and_then(|s| s.version.known().cloned()).unwrap_or_default();
        let f2 = firmware.clone();
        apply(Ok(firmware), &mut machine);
        let m = &machine.memory;
        let loc: Vec<String> = f2.modules.iter().take(40).zip(&m.modules).map(|(x, y)| format!("{}|{}{}={}", x.locator, x.bank, if x.populated() {"*"} else {""}, y.channel.known().map_or("?".into(), |c| format!("{}.{}", c.socket, c.channel)))).collect();
        println!("@@ {:?}\t{:?}\t{}\t{}\t{}\t{}\t{}\t{}", m.channels_confidence, m.channels.known(), m.channels.why().unwrap_or(""), m.rated_bytes_per_second, f2.sockets.len(), cpu, name, loc.join(" ; "));
        shapes.entry(format!("{:?} {}", m.channels_confidence, m.channels.why().unwrap_or(""))).or_default().push(name.clone());
    }
    for (k, v) in shapes { println!("{} {k}   {}", v.len(), v[0]); }
    println!("all {:?}", started.elapsed());
}
