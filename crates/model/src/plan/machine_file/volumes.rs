//! The volumes of a machine file.

use super::Wrong;
use super::build::Builder;
use super::tables::{File, VolumeTable};
use super::values::Rate;
use crate::plan::parts::{ByteDevice, DeviceKind, Volume, VolumeLimit};
use toml::Spanned;

impl Builder {
    pub(super) fn volumes(&mut self, file: &File) -> Result<(), Wrong> {
        for table in &file.volume {
            let disks = self.disks_of(table)?;
            let (read, write) = limits(table)?;
            let words = table.kind.clone().unwrap_or_default();
            self.parts.volumes.push(Volume { name: table.name.get_ref().clone(), words, disks, read, write });
        }
        Ok(())
    }

    /// The names of its disks, each once.
    fn disks_of(&self, table: &VolumeTable) -> Result<Vec<String>, Wrong> {
        let is_disk = |device: &&ByteDevice| matches!(device.what, DeviceKind::Disk { .. });
        let mut disks: Vec<String> = Vec::new();
        for word in &table.over.get_ref().0 {
            let called = |device: &&ByteDevice| device.name == *word || device.group == *word;
            let found =
                self.parts.devices.iter().filter(is_disk).filter(called).map(|disk| disk.name.clone());
            let before = disks.len();
            disks.extend(found);
            if disks.len() == before {
                let shown: String = word.escape_debug().take(super::LONGEST_NAME).collect();
                let message = format!("there is no [[disk]] called “{shown}”: a volume lies over disks");
                return Err((table.over.span(), message));
            }
        }
        disks.sort_unstable();
        disks.dedup();
        if disks.is_empty() {
            return Err((table.over.span(), "name at least one disk".into()));
        }
        Ok(disks)
    }
}

/// What it reads and writes.
fn limits(table: &VolumeTable) -> Result<(VolumeLimit, VolumeLimit), Wrong> {
    let rate = |rate: &Option<Spanned<Rate>>| {
        rate.as_ref().map_or(VolumeLimit::Unknown, |rate| VolumeLimit::Rate(rate.get_ref().0))
    };
    let Some(share) = &table.efficiency else { return Ok((rate(&table.read), rate(&table.write))) };
    if table.read.is_some() || table.write.is_some() {
        return Err((share.span(), "efficiency replaces read and write: give one of them".into()));
    }
    let given = *share.get_ref();
    if !(given > 0.0 && given <= 1.0) {
        let message =
            format!("an efficiency of {given} cannot be: a share of its disks is above 0 and at most 1");
        return Err((share.span(), message));
    }
    Ok((VolumeLimit::Share(given), VolumeLimit::Share(given)))
}
