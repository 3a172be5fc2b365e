//! The volumes of a machine file.

use super::Wrong;
use super::build::Builder;
use super::tables::{File, VolumeTable};
use super::values::{PlaceValue, Rate};
use crate::plan::parts::{ByteDevice, DeviceKind, Volume, VolumeLimit};
use toml::Spanned;

impl Builder {
    pub(super) fn volumes(&mut self, file: &File) -> Result<(), Wrong> {
        for table in &file.volume {
            let disks = self.disks_of(&table.over)?;
            let (mut read, write) = limits(table)?;
            if let Some(tiers) = self.tiers(table, &disks)? {
                read = tiers;
            }
            let words = table.kind.clone().unwrap_or_default();
            self.parts.volumes.push(Volume { name: table.name.get_ref().clone(), words, disks, read, write });
        }
        Ok(())
    }

    /// A cache or a pool of its own before slower disks.
    fn tiers(&self, table: &VolumeTable, disks: &[String]) -> Result<Option<VolumeLimit>, Wrong> {
        let (tier, hits) = match (&table.tier, &table.hits) {
            (None, None) => return Ok(None),
            (Some(tier), Some(hits)) => (tier, hits),
            (Some(one), None) => {
                return Err((one.span(), "say with hits what share comes from the tier".into()));
            }
            (None, Some(one)) => return Err((one.span(), "say with tier which disks these are".into())),
        };
        if table.read.is_some() || table.efficiency.is_some() {
            return Err((hits.span(), "hits replaces read and efficiency: give one of them".into()));
        }
        let share = *hits.get_ref();
        if !(share > 0.0 && share < 1.0) {
            return Err((hits.span(), format!("hits of {share} cannot be: a share is above 0 and below 1")));
        }
        let faster = self.disks_of(tier)?;
        if let Some(absent) = faster.iter().find(|name| !disks.contains(name)) {
            return Err((tier.span(), format!("{absent} is not one of the volume's disks: add it to over")));
        }
        if faster.len() == disks.len() {
            return Err((tier.span(), "the tier has all disks of the volume: name the faster ones".into()));
        }
        Ok(Some(VolumeLimit::Tiers { faster, share }))
    }

    /// The names of these disks, each once.
    fn disks_of(&self, over: &Spanned<PlaceValue>) -> Result<Vec<String>, Wrong> {
        let is_disk = |device: &&ByteDevice| matches!(device.what, DeviceKind::Disk { .. });
        let mut disks: Vec<String> = Vec::new();
        for word in &over.get_ref().0 {
            let called = |device: &&ByteDevice| device.name == *word || device.group == *word;
            let found =
                self.parts.devices.iter().filter(is_disk).filter(called).map(|disk| disk.name.clone());
            let before = disks.len();
            disks.extend(found);
            if disks.len() == before {
                let shown: String = word.escape_debug().take(super::LONGEST_NAME).collect();
                let message = format!("there is no [[disk]] called “{shown}”: a volume lies over disks");
                return Err((over.span(), message));
            }
        }
        disks.sort_unstable();
        disks.dedup();
        if disks.is_empty() {
            return Err((over.span(), "name at least one disk".into()));
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
    let stated = *share.get_ref();
    if !(stated > 0.0 && stated <= 1.0) {
        let message =
            format!("an efficiency of {stated} cannot be: a share of its disks is above 0 and at most 1");
        return Err((share.span(), message));
    }
    Ok((VolumeLimit::Share(stated), VolumeLimit::Share(stated)))
}
