//! The ends of a flow from the words of the user: `disk:ssd0`, `disk:ssd` for all of that entry, `nic:eth*`,
//! `disk` for all, `memory`.

use super::product::FlowEnd;
use crate::plan::parts::{ByteDevice, DeviceKind, MachineParts};

/// Names that an error lists at most.
const MOST_NAMES: usize = 12;

/// Why a word is no end of a flow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowEndError {
    #[error("“{0}” is no end of a flow: write memory, disk:NAME, nic:NAME or gpu:NAME")]
    NoKind(String),
    /// `there`: what the machine has instead.
    #[error("there is no {word}: {there}")]
    Absent { word: String, there: String },
}

/// What a word stands for.
pub fn ends(parts: &MachineParts, word: &str) -> Result<Vec<FlowEnd>, FlowEndError> {
    if word == "memory" {
        return Ok(vec![FlowEnd::Memory]);
    }
    let (kind, name) = word.split_once(':').map_or((word, None), |(kind, name)| (kind, Some(name)));
    if !["disk", "nic", "gpu"].contains(&kind) {
        return Err(FlowEndError::NoKind(word.into()));
    }
    let of_kind = || parts.devices.iter().filter(|device| device.what.word() == kind);
    let found: Vec<FlowEnd> = match name {
        None | Some("*") => usable(of_kind().collect()).into_iter().map(end).collect(),
        Some(name) => of_kind().filter(|device| is_called(device, name)).map(end).collect(),
    };
    if found.is_empty() {
        let mut names: Vec<String> = of_kind().map(ByteDevice::id).collect();
        let more = names.len().saturating_sub(MOST_NAMES);
        names.truncate(MOST_NAMES);
        let there = match (names.is_empty(), more) {
            (true, _) => format!("the machine has no {kind}"),
            (false, 0) => format!("there is {}", names.join(", ")),
            (false, more) => format!("there is {} and {more} more", names.join(", ")),
        };
        return Err(FlowEndError::Absent { word: word.into(), there });
    }
    Ok(found)
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
