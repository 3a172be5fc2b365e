//! The settings that linerate knows: one small entry each, checked against the source that it names. What
//! could not be checked is not here.

mod cpu;
mod disk;
mod entry;
mod memory;
mod nic;
mod nic_advice;
mod sockets;
mod spots;
mod tcp;

pub use entry::{Advice, CatalogueContext, Risk, Setting, SettingStage};
pub(crate) use spots::Spot;
pub use spots::Where;

use crate::setting_place::SettingPlace;
use std::path::Path;

/// All entries, in the order in which they are changed: what re-creates queues comes before what is set for
/// each queue.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    [sockets::ENTRIES, tcp::ENTRIES, memory::ENTRIES, cpu::ENTRIES, nic::ENTRIES, disk::ENTRIES]
        .into_iter()
        .flatten()
}

/// A setting of this name can be in this place, on whichever machine. A journal that says otherwise was
/// written by another linerate, or by somebody else.
pub(crate) fn knows(id: &str, place: &SettingPlace) -> bool {
    if let SettingPlace::DropIn(path) = place {
        return super::persist::FILES.iter().any(|file| path == Path::new(file));
    }
    let name = id.split_once(':').map_or(id, |(name, _)| name);
    all().any(|entry| entry.id == name && entry.at.holds(place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting_place::Knob;

    #[test]
    fn only_what_the_catalogue_has_is_known_and_only_in_its_place() {
        let file = |id: &str, path: &str| knows(id, &SettingPlace::Attribute(path.into()));
        assert!(file("rmem-max", "/proc/sys/net/core/rmem_max"));
        assert!(file("read-ahead:vda", "/sys/block/vda/queue/read_ahead_kb"));
        assert!(
            file("read-ahead:vdb", "/sys/block/renamed/queue/read_ahead_kb"),
            "a device has another name now"
        );
        for (id, path) in [
            ("hostname", "/proc/sys/kernel/hostname"),
            ("rmem-max", "/proc/sys/kernel/core_pattern"),
            ("read-ahead:vda", "/sys/block/vda/../../../proc/sys/kernel/core_pattern"),
            ("read-ahead:..", "/sys/block/../queue/read_ahead_kb"),
            ("read-ahead:vda", "/sys/block/vda/queue/read_ahead_kb/more"),
            ("read-ahead:vda", "sys/block/vda/queue/read_ahead_kb"),
        ] {
            assert!(!file(id, path), "{id} {path}");
        }
        let driver = |knob: Knob| SettingPlace::Driver { interface: "eth0".into(), knob };
        assert!(knows("rx-ring:eth0", &driver(Knob::RxRing)));
        assert!(!knows("rx-ring:eth0", &driver(Knob::TxRing)));
        assert!(!knows("rx-ring:eth0", &driver(Knob::Feature("rx-gro".into()))));
        let drop_in = |path: &str| knows("drop-in:x", &SettingPlace::DropIn(path.into()));
        assert!(drop_in("/etc/sysctl.d/90-linerate.conf"));
        assert!(!drop_in("/etc/systemd/system/mine.service") && !drop_in("/etc/sysctl.d/../passwd"));
    }

    #[test]
    fn every_entry_is_whole() {
        let mut ids = std::collections::BTreeSet::new();
        for entry in all() {
            assert!(ids.insert(entry.id), "{} stands twice", entry.id);
            assert!(
                entry
                    .id
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            );
            assert!(entry.source.starts_with("https://"), "{}: a public source", entry.id);
            assert!(!entry.what.is_empty() && !entry.harm.is_empty(), "{}", entry.id);
        }
        assert!(ids.len() > 70, "{}", ids.len());
    }
}
