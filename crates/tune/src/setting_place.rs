//! Where a setting is, and the device that it belongs to: named by what does not change when an interface
//! is renamed. And how the kernel writes its value, how that is compared and written back.

use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::cpu_list;
use linerate_system::Errno;
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

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Words or numbers, however they are spaced: `4096 131072 6291456`.
    Words,
    /// All that can be chosen, the choice in brackets: `none [mq-deadline] kyber`.
    Choice,
    /// A set of CPUs in hexadecimal words: `00000000,000000ff`.
    Mask,
    /// A set of CPUs as a list: `0-3,8`.
    List,
    /// A whole file, byte for byte.
    File,
}

impl Shape {
    /// The value that a reading means: equal for two readings that mean the same.
    pub fn value(self, raw: &[u8]) -> String {
        let text = String::from_utf8_lossy(raw);
        let words = || text.split_whitespace().collect::<Vec<_>>().join(" ");
        match self {
            Shape::File => text.into_owned(),
            Shape::Words => words(),
            Shape::Choice => chosen_word(&text).map_or_else(words, str::to_string),
            Shape::Mask => cpu_list::parse_mask(&text).map_or_else(words, |ids| cpu_list::show(&ids)),
            Shape::List => cpu_list::parse_list(&text).map_or_else(words, |ids| cpu_list::show(&ids)),
        }
    }

    /// Two readings mean the same.
    pub fn same(self, one: &[u8], other: &[u8]) -> bool {
        match self {
            Shape::File => one == other,
            _ => self.value(one) == self.value(other),
        }
    }

    /// The bytes that bring back what was read before: a choice by its word, anything else as it was.
    pub(crate) fn restoring(self, before: &[u8]) -> Vec<u8> {
        match self {
            Shape::Choice => self.value(before).into_bytes(),
            _ => before.to_vec(),
        }
    }

    /// The bytes that ask the kernel for a value as a user writes it: a set of CPUs is a list.
    pub fn asking(self, value: &str) -> Vec<u8> {
        match self {
            Shape::Mask => match cpu_list::parse_list(value) {
                Some(ids) => cpu_mask(&ids).into_bytes(),
                None => value.as_bytes().to_vec(),
            },
            Shape::File => value.as_bytes().to_vec(),
            _ => format!("{value}\n").into_bytes(),
        }
    }

    /// What the kernel would show after `written` was written in place of `before`; for a tree of plain files
    /// in place of a machine. The error is what the kernel would say.
    pub(crate) fn rehearsed(self, before: &[u8], written: &[u8]) -> Result<Vec<u8>, Errno> {
        let before = String::from_utf8_lossy(before);
        let Some(old) = chosen_word(&before).filter(|_| self == Shape::Choice) else {
            return Ok(written.to_vec());
        };
        let new = String::from_utf8_lossy(written).trim().to_string();
        let word = |text: &str| text.trim_matches(['[', ']']).to_string();
        if !before.split_whitespace().any(|other| word(other) == new) {
            return Err(Errno::INVAL);
        }
        let shown = before.split_whitespace().map(|other| match word(other) {
            same if same == new => format!("[{new}]"),
            other => other,
        });
        debug_assert!(!old.is_empty());
        let line_end = if before.ends_with('\n') { "\n" } else { "" };
        Ok((shown.collect::<Vec<_>>().join(" ") + line_end).into_bytes())
    }
}

/// The word in brackets.
fn chosen_word(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    Some(word.trim()).filter(|word| !word.is_empty() && !word.contains('['))
}

/// Ascending ids as the kernel writes a mask: hexadecimal words of 32 bits, the highest first.
fn cpu_mask(ids: &[u32]) -> String {
    let count = ids.iter().max().map_or(1, |highest| *highest as usize / 32 + 1);
    let mut words = vec![0u32; count];
    for id in ids {
        words[*id as usize / 32] |= 1 << (id % 32);
    }
    words.iter().rev().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn what_means_the_same_is_the_same() {
        assert!(Shape::Words.same(b"4096\t131072\t6291456\n", b"4096 131072 6291456"));
        assert!(Shape::Choice.same(b"none [mq-deadline] kyber\n", b"[mq-deadline] none"));
        assert!(Shape::Choice.same(b"[none] mq-deadline\n", b"none"));
        assert!(Shape::Mask.same(b"00000000,000000ff\n", b"ff"));
        assert!(Shape::List.same(b"0-3,8\n", b"0,1,2,3,8"));
        assert!(!Shape::File.same(b"a\n", b"a"));
    }

    #[test]
    fn a_choice_comes_back_by_its_word_and_the_rest_byte_for_byte() {
        let before = b"none [mq-deadline] kyber\n";
        assert_eq!(Shape::Choice.restoring(before), b"mq-deadline");
        let changed = Shape::Choice.rehearsed(before, b"none\n").expect("one of them");
        assert_eq!(changed, b"[none] mq-deadline kyber\n");
        assert_eq!(Shape::Choice.rehearsed(&changed, &Shape::Choice.restoring(before)).expect("one"), before);
        assert_eq!(Shape::Choice.rehearsed(before, b"bfq"), Err(Errno::INVAL));
        assert_eq!(Shape::Words.restoring(b"4096\t1\t2\n"), b"4096\t1\t2\n");
    }

    #[test]
    fn masks_are_written_as_the_kernel_does() {
        assert_eq!(Shape::Mask.asking("0-7"), b"000000ff");
        assert_eq!(Shape::Mask.asking("0,32"), b"00000001,00000001");
        assert_eq!(cpu_mask(&[]), "00000000");
    }

    proptest! {
        #[test]
        fn a_mask_is_read_back(ids in proptest::collection::btree_set(0u32..4096, 0..40)) {
            let ids: Vec<u32> = ids.into_iter().collect();
            prop_assert_eq!(cpu_list::parse_mask(&cpu_mask(&ids)), Some(ids));
        }

        #[test]
        fn any_reading_has_a_value_that_is_its_own(raw in proptest::collection::vec(any::<u8>(), 0..60)) {
            for shape in [Shape::Words, Shape::Choice, Shape::Mask, Shape::List, Shape::File] {
                prop_assert!(shape.same(&raw, &raw));
            }
        }
    }
}
