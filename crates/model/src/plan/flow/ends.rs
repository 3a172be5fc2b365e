//! The ends of a flow from the words of the user: `disk:ssd0`, `disk:ssd` for all of that entry, `nic:eth*`,
//! `disk` for all, `volume:md0` for the disks of a volume, `memory`.

use super::product::{Flow, FlowEnd, Method};
use crate::plan::parts::{ByteDevice, DeviceKind, MachineParts};
use linerate_facts::protocol::Protocol;
use linerate_facts::wording::counted;

/// Names that an error lists at most.
const MOST_NAMES: usize = 12;

/// Why a word is not an end of a flow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowEndError {
    #[error("“{0}” is not an end of a flow: write memory, disk:NAME, volume:NAME, nic:NAME or gpu:NAME")]
    NoKind(String),
    /// `there`: what the machine has instead.
    #[error("there is no {word}: {there}")]
    Absent { word: String, there: String },
    #[error("memory is an end by itself: name it or devices, not both")]
    MemoryToo,
    #[error("the volumes {0} and {1} have disks in common: name one of them")]
    InCommon(String, String),
}

impl FlowEnd {
    /// The device of these parts; none: memory, or not there.
    pub fn device<'p>(&self, parts: &'p MachineParts) -> Option<&'p ByteDevice> {
        match self {
            FlowEnd::Device(id) => parts.device(id),
            FlowEnd::Memory => None,
        }
    }
}

impl Flow {
    /// The flow between the ends that these words name, each list at one end.
    pub fn between<S: AsRef<str>>(
        parts: &MachineParts,
        [from, to]: [&[S]; 2],
        protocol: Protocol,
        method: Method,
    ) -> Result<Flow, FlowEndError> {
        let volumes = volumes(parts, from.iter().chain(to).map(AsRef::as_ref))?;
        Ok(Flow { from: all(parts, from)?, to: all(parts, to)?, volumes, protocol, method })
    }
}

/// All ends that the words name, each once.
fn all<S: AsRef<str>>(parts: &MachineParts, words: &[S]) -> Result<Vec<FlowEnd>, FlowEndError> {
    let mut all: Vec<FlowEnd> = Vec::new();
    for word in words {
        for end in ends(parts, word.as_ref())? {
            if !all.contains(&end) {
                all.push(end);
            }
        }
    }
    if all.len() > 1 && all.contains(&FlowEnd::Memory) { Err(FlowEndError::MemoryToo) } else { Ok(all) }
}

/// The volumes that the words name; of all disks those that are not alternatives to one another. A disk that is
/// named by itself is read past its volume.
fn volumes<'a>(
    parts: &MachineParts,
    words: impl Iterator<Item = &'a str>,
) -> Result<Vec<String>, FlowEndError> {
    let mut found: Vec<String> = Vec::new();
    for word in words {
        let these = match word.split_once(':') {
            None if word == "disk" => parts.usual_volumes(),
            Some(("volume", name)) => vec![name.to_string()],
            _ => Vec::new(),
        };
        found.extend(these);
    }
    found.sort_unstable();
    found.dedup();
    let disks = |name: &String| parts.volume(name).map(|volume| volume.disks.as_slice()).unwrap_or_default();
    for (index, one) in found.iter().enumerate() {
        let common = |other: &&String| disks(other).iter().any(|disk| disks(one).contains(disk));
        if let Some(other) = found[index + 1..].iter().find(common) {
            return Err(FlowEndError::InCommon(one.clone(), other.clone()));
        }
    }
    Ok(found)
}

/// What a word stands for.
pub fn ends(parts: &MachineParts, word: &str) -> Result<Vec<FlowEnd>, FlowEndError> {
    if word == "memory" {
        return Ok(vec![FlowEnd::Memory]);
    }
    let (kind, name) = word.split_once(':').map_or((word, None), |(kind, name)| (kind, Some(name)));
    if let ("volume", Some(name)) = (kind, name) {
        return of_volume(parts, word, name);
    }
    if !["disk", "nic", "gpu"].contains(&kind) {
        return Err(FlowEndError::NoKind(word.into()));
    }
    let of_kind = || parts.devices.iter().filter(|device| device.what.word() == kind);
    let found: Vec<FlowEnd> = match name {
        None | Some("*") => usable(of_kind().collect()).into_iter().map(end).collect(),
        Some(name) => of_kind().filter(|device| is_called(device, name)).map(end).collect(),
    };
    if found.is_empty() {
        let mut why = absent(word, kind, of_kind().map(ByteDevice::id).collect());
        // Nothing is listed, and yet something may be there.
        if let (FlowEndError::Absent { there, .. }, "disk", [first, ..]) =
            (&mut why, kind, parts.controllers_without_disks.as_slice())
        {
            *there = format!(
                "disks may be behind {} of which none is listed, {first} first: describe them in a file ([[disk]]), \
                 or add one, like --add disk=500MB/s:pcie3x4",
                counted(parts.controllers_without_disks.len(), "storage controller")
            );
        }
        return Err(why);
    }
    Ok(found)
}

/// The disks of a volume.
fn of_volume(parts: &MachineParts, word: &str, name: &str) -> Result<Vec<FlowEnd>, FlowEndError> {
    let Some(volume) = parts.volume(name) else {
        return Err(absent(word, "volume", parts.volumes.iter().map(|volume| volume.id()).collect()));
    };
    let disks: Vec<FlowEnd> = parts.devices.iter().filter(|device| volume.has(device)).map(end).collect();
    if disks.is_empty() { Err(absent(word, "disk left", Vec::new())) } else { Ok(disks) }
}

fn absent(word: &str, kind: &str, mut names: Vec<String>) -> FlowEndError {
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    let there = match (names.is_empty(), more) {
        (true, _) => format!("the machine has no {kind}"),
        (false, 0) => format!("there is {}", names.join(", ")),
        (false, more) => format!("there is {} and {more} more", names.join(", ")),
    };
    FlowEndError::Absent { word: word.into(), there }
}

fn end(device: &ByteDevice) -> FlowEnd {
    FlowEnd::Device(device.id())
}

fn is_called(device: &ByteDevice, name: &str) -> bool {
    match name.strip_suffix('*') {
        Some(beginning) => device.name.starts_with(beginning),
        None => device.name == name || device.group == name,
    }
}

/// Of all NICs those with a cable, where some have one.
fn usable(devices: Vec<&ByteDevice>) -> Vec<&ByteDevice> {
    let up = |device: &&ByteDevice| !matches!(device.what, DeviceKind::Nic { down: true, .. });
    let plugged: Vec<&ByteDevice> = devices.iter().copied().filter(up).collect();
    if plugged.is_empty() { devices } else { plugged }
}
