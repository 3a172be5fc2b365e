//! A host of the kernel's SCSI layer, whatever is behind it.

use super::numbered;
use linerate_facts::sysroot::{Sysroot, Unreadable};
use std::path::{Path, PathBuf};

/// One SCSI host.
pub(super) struct Host {
    /// `host2`.
    pub(super) name: String,
    /// The device's real directory, `/sys/devices/…/host2`.
    pub(super) directory: PathBuf,
}

impl Host {
    /// Directory of the ATA port that this host stands for.
    pub(super) fn ata_port(&self) -> Option<&Path> {
        self.directory.parent().filter(|parent| numbered(parent, "ata").is_some())
    }

    /// An attribute of one of the host's classes. Recorded trees may have only one of the two ways there.
    pub(super) fn text(&self, sysroot: &Sysroot, class: &str, file: &str) -> Result<String, Unreadable> {
        let inside = || sysroot.text(self.directory.join(class).join(&self.name).join(file));
        sysroot
            .text(format!("/sys/class/{class}/{}/{file}", self.name))
            .or_else(|why| inside().map_err(|_| why))
    }
}
