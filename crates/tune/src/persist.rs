//! Drop-ins that bring the settings back after a boot: what is applied and open in the journal, in the form
//! that its own program reads. Sysctls go to sysctl.d, what belongs to a NIC or a disk to udev, other files
//! of sysfs to tmpfiles.d. What no program reads from a file (rings, channels, offloads, interrupts) a unit
//! of systemd sets through `linerate tune apply`, journal and all.

use super::apply::WantedValue;
use super::journal::{Followed, JournalState, SettingState};
use super::setting_place::{DeviceClass, NamedDevice, SettingPlace, Shape};
use std::collections::BTreeMap;
use std::path::Path;
use thiserror::Error;

const SYSCTL: &str = "/etc/sysctl.d/90-linerate.conf";
const UDEV: &str = "/etc/udev/rules.d/90-linerate.rules";
const TMPFILES: &str = "/etc/tmpfiles.d/90-linerate.conf";
const UNIT: &str = "/etc/systemd/system/linerate-tune.service";
/// Asks for the unit at boot: a file, where enabling it would make a link.
const WANTS: &str = "/etc/systemd/system/multi-user.target.d/90-linerate.conf";
/// All that is ever written.
pub(crate) const FILES: [&str; 5] = [SYSCTL, UDEV, TMPFILES, UNIT, WANTS];
const HEAD: &str = "# Written by `linerate tune persist`; `linerate tune undo` takes it away.\n";

/// What can be made to last, and what not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Persistence {
    /// Files to write.
    pub changes: Vec<WantedValue>,
    /// Settings that are applied and cannot be made to last this way, with the reason.
    pub left: Vec<(String, String)>,
}

/// The drop-ins for everything that the journal has as changed. `program` is this one's path, for the unit.
pub fn persistence(state: &JournalState, program: &Path) -> Persistence {
    let mut files: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    let mut left = Vec::new();
    // The last change of a place is the one that holds.
    for (_, followed) in state.open() {
        let SettingState::Done(now) = &followed.step else { continue };
        if matches!(followed.entry.place, SettingPlace::DropIn(_)) {
            continue;
        }
        match line(followed, now.as_slice()) {
            Ok((file, key, line)) => drop(files.entry(file).or_default().insert(key, line)),
            Err(why) => left.push((followed.entry.id.clone(), why.to_string())),
        }
    }
    let mut changes = Vec::new();
    for (file, lines) in files {
        if file != UNIT {
            changes.push(item(file, std::iter::once(HEAD.to_string()).chain(lines.into_values()).collect()));
            continue;
        }
        match plain(&program.to_string_lossy()) && program.is_absolute() {
            true => {
                changes.push(item(UNIT, unit(program, lines.values())));
                changes.push(item(WANTS, format!("{HEAD}[Unit]\nWants=linerate-tune.service\n")));
            }
            false => left.extend(
                lines.into_keys().map(|id| (id, "linerate's own path does not fit into a unit".into())),
            ),
        }
    }
    Persistence { changes, left }
}

fn item(file: &str, value: String) -> WantedValue {
    WantedValue {
        id: format!("drop-in:{file}"),
        place: SettingPlace::DropIn(file.into()),
        shape: Shape::File,
        device: None,
        value,
    }
}

fn unit<'a>(program: &Path, settings: impl Iterator<Item = &'a String>) -> String {
    let settings: Vec<String> = settings.map(|setting| format!(" --setting \"{setting}\"")).collect();
    format!(
        "{HEAD}[Unit]\n\
         Description=Settings of linerate tune that no other program reads from a file\n\
         After=network.target\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         ExecStart=\"{}\" tune apply --yes{}\n",
        program.display(),
        settings.concat()
    )
}

/// It can be written into a line as it is, for every program that reads such files.
fn plain(text: &str) -> bool {
    !text.chars().any(|c| c.is_control() || matches!(c, '"' | '%' | '\\' | '$'))
}

/// Why a setting cannot last over a reboot: a phrase.
#[derive(Debug, Error)]
enum LineError {
    #[error("its name or value does not fit into a line")]
    DoesNotFit,
    #[error("its path has a space")]
    Space,
    #[error("no program reads it from a file")]
    NoProgram,
    #[error("it is not below its device")]
    NotBelowDevice,
}

/// File, what distinguishes the line from others, and the line.
type PersistedLine = (&'static str, String, String);

fn line(followed: &Followed, now: &[u8]) -> Result<PersistedLine, LineError> {
    let entry = &followed.entry;
    let value = match entry.shape {
        Shape::Mask => String::from_utf8_lossy(now).trim().to_string(),
        shape => shape.value(now),
    };
    let unit = |setting: String| Ok((UNIT, setting.clone(), setting));
    if !plain(&entry.id) || !plain(&value) || !plain(&entry.place.to_string()) {
        return Err(LineError::DoesNotFit);
    }
    let SettingPlace::Attribute(path) = &entry.place else { return unit(format!("{}={value}", entry.id)) };
    match &entry.device {
        None if path.starts_with("/proc/sys") => {
            Ok((SYSCTL, entry.place.to_string(), format!("{} = {value}\n", entry.place)))
        }
        None if path.starts_with("/sys") => {
            let text = path.display().to_string();
            if text.contains(' ') {
                return Err(LineError::Space);
            }
            Ok((TMPFILES, text.clone(), format!("w {text} - - - - {value}\n")))
        }
        Some(device) if device.kind != DeviceClass::Interrupt => udev(device, path, &value),
        // Their numbers change from boot to boot: the cores are chosen again.
        Some(_) => unit(entry.id.split(':').next().unwrap_or_default().to_string()),
        None => Err(LineError::NoProgram),
    }
}

/// A rule that names the device by what stays the same.
fn udev(device: &NamedDevice, path: &Path, value: &str) -> Result<PersistedLine, LineError> {
    let (folder, subsystem) = match device.kind {
        DeviceClass::Nic => ("/sys/class/net", "net"),
        _ => ("/sys/block", "block"),
    };
    let below =
        path.strip_prefix(Path::new(folder).join(&device.name)).map_err(|_| LineError::NotBelowDevice)?;
    let below = below.display();
    let keys = match (&device.address, device.kind) {
        (Some(address), DeviceClass::Nic) => {
            format!("ATTR{{address}}==\"{address}\", ATTR{{addr_assign_type}}==\"0\"")
        }
        _ => format!("KERNEL==\"{}\"", device.name),
    };
    let key = format!("{subsystem} {} {below}", device.name);
    let rule =
        format!("ACTION==\"add|change\", SUBSYSTEM==\"{subsystem}\", {keys}, ATTR{{{below}}}=\"{value}\"\n");
    Ok((UDEV, key, rule))
}

#[cfg(test)]
mod tests {
    use super::super::journal::{Bytes, Host, JournalEntry, Record};
    use super::*;

    fn applied(entries: &[(&str, Shape, Option<NamedDevice>, &str)]) -> JournalState {
        let entry = |(path, shape, device, value): &(&str, Shape, Option<NamedDevice>, &str)| JournalEntry {
            id: match *path {
                "/proc/irq/33/smp_affinity_list" => "irq-affinity:eth0/33".into(),
                "/proc/irq/41/smp_affinity_list" => "disk-irq-affinity:nvme0n1/41".into(),
                path => path.into(),
            },
            place: SettingPlace::Attribute(path.into()),
            shape: *shape,
            device: device.clone(),
            old: Some(Bytes::of(b"old\n")),
            wanted: Bytes::of(value.as_bytes()),
        };
        let begin = Record::Begin {
            schema: 1,
            version: "0".into(),
            started: String::new(),
            host: Host::default(),
            entries: entries.iter().map(entry).collect(),
        };
        let done = entries
            .iter()
            .enumerate()
            .map(|(n, (.., value))| Record::Done { n, now: Bytes::of(value.as_bytes()) });
        JournalState::of(std::iter::once(begin).chain(done).collect()).expect("a journal")
    }

    #[test]
    fn each_setting_goes_where_its_program_reads() {
        let nic = NamedDevice {
            kind: DeviceClass::Nic,
            name: "eth0".into(),
            hardware: None,
            address: Some("02:00:00:00:00:01".into()),
            number: Some(2),
        };
        let disk = NamedDevice {
            kind: DeviceClass::Disk,
            name: "nvme0n1".into(),
            hardware: None,
            address: None,
            number: Some(9),
        };
        let irq = |number: &str| NamedDevice {
            kind: DeviceClass::Interrupt,
            name: number.into(),
            hardware: None,
            address: None,
            number: None,
        };
        let state = applied(&[
            ("/proc/sys/net/ipv4/tcp_rmem", Shape::Words, None, "4096\t131072\t1000\n"),
            ("/proc/sys/net/ipv4/tcp_rmem", Shape::Words, None, "4096\t131072\t67108864\n"),
            ("/sys/kernel/mm/transparent_hugepage/enabled", Shape::Choice, None, "always [madvise] never\n"),
            ("/sys/class/net/eth0/mtu", Shape::Words, Some(nic), "9000\n"),
            ("/sys/block/nvme0n1/queue/scheduler", Shape::Choice, Some(disk), "[none] mq-deadline\n"),
            ("/proc/irq/33/smp_affinity_list", Shape::List, Some(irq("33")), "3\n"),
            ("/proc/irq/41/smp_affinity_list", Shape::List, Some(irq("41")), "2-3\n"),
        ]);
        let lasting = persistence(&state, Path::new("/usr/bin/linerate"));
        let text = |file: &str| {
            lasting
                .changes
                .iter()
                .find(|change| change.place == SettingPlace::DropIn(file.into()))
                .map(|change| change.value.clone())
                .expect("a file")
        };
        assert_eq!(text(SYSCTL), format!("{HEAD}net.ipv4.tcp_rmem = 4096 131072 67108864\n"));
        assert_eq!(
            text(TMPFILES),
            format!("{HEAD}w /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n")
        );
        assert!(
            text(UDEV)
                .contains("SUBSYSTEM==\"block\", KERNEL==\"nvme0n1\", ATTR{queue/scheduler}=\"none\"\n")
        );
        assert!(text(UDEV).contains(
            "SUBSYSTEM==\"net\", ATTR{address}==\"02:00:00:00:00:01\", \
                                     ATTR{addr_assign_type}==\"0\", ATTR{mtu}=\"9000\"\n"
        ));
        let apply = "ExecStart=\"/usr/bin/linerate\" tune apply --yes";
        let settings = "--setting \"disk-irq-affinity\" --setting \"irq-affinity\"";
        assert!(text(UNIT).ends_with(&format!("{apply} {settings}\n")), "{}", text(UNIT));
        assert!(text(WANTS).ends_with("[Unit]\nWants=linerate-tune.service\n"));
        assert_eq!(lasting.left, []);
        let relative = persistence(&state, Path::new("linerate"));
        assert_eq!(relative.left.len(), 2, "a unit needs a whole path");
    }
}
