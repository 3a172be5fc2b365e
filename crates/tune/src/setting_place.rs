//! Where a setting is, and the device that it belongs to: named by what does not change when an interface
//! is renamed.

use linerate_facts::sysroot::Sysroot;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where a setting is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SettingPlace {
    /// A file of `/sys` or `/proc`.
    Attribute(PathBuf),
    /// Something that the driver of an interface keeps.
    Driver { interface: String, knob: Knob },
    /// A file that another program reads at boot; it may be absent.
    DropIn(PathBuf),
}

/// What the driver of an interface keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Knob {
    /// Descriptors of the receive ring.
    RxRing,
    /// Descriptors of the transmit ring.
    TxRing,
    /// Channels that receive and transmit.
    CombinedChannels,
    /// The driver adapts the receive coalescing: 0 or 1.
    AdaptiveRx,
    /// The card heeds pause frames: 0 or 1.
    RxPause,
    /// The card sends pause frames: 0 or 1.
    TxPause,
    /// An offload by the kernel's name: 0 or 1.
    Feature(String),
}

impl SettingPlace {
    /// The same place after its device was renamed.
    pub fn renamed(&self, kind: DeviceClass, from: &str, to: &str) -> SettingPlace {
        match self {
            SettingPlace::Driver { interface, knob } if kind == DeviceClass::Nic && interface == from => {
                SettingPlace::Driver { interface: to.to_string(), knob: knob.clone() }
            }
            SettingPlace::Attribute(path) => match path.strip_prefix(Path::new(kind.folder()).join(from)) {
                Ok(rest) => SettingPlace::Attribute(Path::new(kind.folder()).join(to).join(rest)),
                Err(_) => self.clone(),
            },
            _ => self.clone(),
        }
    }
}

impl std::fmt::Display for SettingPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SettingPlace::Attribute(path) => {
                match path.strip_prefix("/proc/sys").map(|rest| rest.to_string_lossy()) {
                    Ok(rest) => f.write_str(&rest.replace('/', ".")),
                    Err(_) => path.display().fmt(f),
                }
            }
            SettingPlace::DropIn(path) => path.display().fmt(f),
            SettingPlace::Driver { interface, knob } => match knob {
                Knob::RxRing => write!(f, "ethtool -G {interface} rx"),
                Knob::TxRing => write!(f, "ethtool -G {interface} tx"),
                Knob::CombinedChannels => write!(f, "ethtool -L {interface} combined"),
                Knob::AdaptiveRx => write!(f, "ethtool -C {interface} adaptive-rx"),
                Knob::RxPause => write!(f, "ethtool -A {interface} rx"),
                Knob::TxPause => write!(f, "ethtool -A {interface} tx"),
                Knob::Feature(name) => write!(f, "ethtool -K {interface} {name}"),
            },
        }
    }
}

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceClass {
    Nic,
    Disk,
    Interrupt,
}

impl DeviceClass {
    fn folder(self) -> &'static str {
        match self {
            DeviceClass::Nic => "/sys/class/net",
            DeviceClass::Disk => "/sys/block",
            DeviceClass::Interrupt => "/proc/irq",
        }
    }
}

/// A device, described so that it is found again under another name, and so that another device under the same
/// name is not taken for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedDevice {
    pub kind: DeviceClass,
    /// Name when it was looked at; the number of an interrupt.
    pub name: String,
    /// Folder below `/sys/devices` of the hardware, with the port of a card that has several; `None` for what
    /// has no hardware.
    pub hardware: Option<String>,
    /// Permanent hardware address of an interface (`addr_assign_type` 0); what an interrupt is called.
    pub address: Option<String>,
    /// Number that the kernel gives to no other in one boot: `ifindex`, `diskseq`.
    pub number: Option<u64>,
}

/// What became of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DevicePresence {
    /// It is there, under this name.
    Named(String),
    /// It is not there, or another one is in its place: a phrase.
    Gone(String),
}

impl NamedDevice {
    /// A device that is there now.
    pub fn look(sysroot: &Sysroot, kind: DeviceClass, name: &str) -> NamedDevice {
        let at = Path::new(kind.folder()).join(name);
        let text = |below: &str| sysroot.text(at.join(below)).ok();
        let number = |below: &str| text(below).and_then(|text| text.parse().ok());
        let (hardware, address, number) = match kind {
            DeviceClass::Nic => {
                let device =
                    sysroot.exists(at.join("device")).then(|| sysroot.follow(at.join("device"))).flatten();
                let port = text("dev_port").unwrap_or_default();
                let permanent = text("addr_assign_type").as_deref() == Some("0");
                let hardware = device.map(|path| format!("{} port {port}", path.display()));
                (hardware, text("address").filter(|_| permanent), number("ifindex"))
            }
            DeviceClass::Disk => {
                let path =
                    sysroot.exists(at.join("device")).then(|| sysroot.follow(at.join("device"))).flatten();
                (path.map(|path| path.display().to_string()), None, number("diskseq"))
            }
            DeviceClass::Interrupt => {
                (None, sysroot.text(Path::new("/sys/kernel/irq").join(name).join("actions")).ok(), None)
            }
        };
        NamedDevice { kind, name: name.to_string(), hardware, address, number }
    }

    /// Looks for it. In the boot in which it was seen, its number identifies it; in another, its hardware, and
    /// without hardware its name.
    pub fn find(&self, sysroot: &Sysroot, same_boot: bool) -> DevicePresence {
        if self.kind == DeviceClass::Interrupt {
            let now = NamedDevice::look(sysroot, self.kind, &self.name);
            return match now.address == self.address {
                true => DevicePresence::Named(self.name.clone()),
                false => {
                    DevicePresence::Gone(format!("interrupt {} now belongs to something else", self.name))
                }
            };
        }
        let all = sysroot
            .list(self.kind.folder())
            .into_iter()
            .map(|name| NamedDevice::look(sysroot, self.kind, &name));
        let mut all: Vec<NamedDevice> = all.filter(|other| self.is(other, same_boot)).collect();
        // Two that fit differ by the name.
        all.sort_by_key(|other| other.name != self.name);
        match all.first() {
            Some(found) => DevicePresence::Named(found.name.clone()),
            None if sysroot.exists(Path::new(self.kind.folder()).join(&self.name)) => DevicePresence::Gone(
                format!("{} is now another device than the one that was changed", self.name),
            ),
            None => DevicePresence::Gone(format!("{} is not there", self.name)),
        }
    }

    fn is(&self, other: &NamedDevice, same_boot: bool) -> bool {
        match (self.number, other.number) {
            (Some(one), Some(other)) if same_boot => one == other,
            _ if self.hardware.is_none() && self.address.is_none() => {
                other.hardware.is_none() && self.name == other.name
            }
            _ => self.hardware == other.hardware && self.address == other.address,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(root: &Path, name: &str, slot: &str, index: u32) {
        let real = root.join(format!("sys/devices/pci0000:00/{slot}"));
        let net = real.join("net").join(name);
        std::fs::create_dir_all(&net).expect("directories");
        std::fs::create_dir_all(root.join("sys/class/net")).expect("directories");
        std::fs::write(net.join("ifindex"), format!("{index}\n")).expect("a file");
        std::fs::write(net.join("addr_assign_type"), "0\n").expect("a file");
        std::fs::write(net.join("address"), format!("02:00:00:00:00:{}\n", &slot[5..7])).expect("a file");
        std::os::unix::fs::symlink("../..", net.join("device")).expect("a link");
        let link = format!("../../devices/pci0000:00/{slot}/net/{name}");
        std::os::unix::fs::symlink(link, root.join("sys/class/net").join(name)).expect("a link");
    }

    #[test]
    fn a_renamed_card_is_found_and_another_under_its_name_is_not() {
        let before = tempfile::tempdir().expect("a temporary directory");
        card(before.path(), "eth0", "0000:03:00.0", 2);
        card(before.path(), "eth1", "0000:04:00.0", 3);
        let device = NamedDevice::look(&Sysroot::recorded(before.path()), DeviceClass::Nic, "eth0");
        assert_eq!(device.hardware.as_deref(), Some("/sys/devices/pci0000:00/0000:03:00.0 port "));
        let after = tempfile::tempdir().expect("a temporary directory");
        card(after.path(), "eth0", "0000:04:00.0", 2);
        card(after.path(), "ens3", "0000:03:00.0", 3);
        let after = Sysroot::recorded(after.path());
        assert_eq!(device.find(&after, false), DevicePresence::Named("ens3".into()));
        let gone = tempfile::tempdir().expect("a temporary directory");
        card(gone.path(), "eth0", "0000:04:00.0", 9);
        let gone = Sysroot::recorded(gone.path());
        for same_boot in [false, true] {
            assert!(
                matches!(device.find(&gone, same_boot), DevicePresence::Gone(why) if why.contains("another device"))
            );
        }
        assert_eq!(
            device.find(&Sysroot::recorded(before.path()), true),
            DevicePresence::Named("eth0".into())
        );
    }

    #[test]
    fn a_place_follows_its_device() {
        let place = SettingPlace::Attribute("/sys/class/net/eth0/mtu".into());
        assert_eq!(
            place.renamed(DeviceClass::Nic, "eth0", "ens3"),
            SettingPlace::Attribute("/sys/class/net/ens3/mtu".into())
        );
        assert_eq!(place.renamed(DeviceClass::Nic, "eth", "ens3"), place);
        assert_eq!(
            SettingPlace::Attribute("/proc/sys/net/core/rmem_max".into()).to_string(),
            "net.core.rmem_max"
        );
    }
}
