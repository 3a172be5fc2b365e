//! SCSI hosts, whatever is behind: SATA ports, SAS and Fibre Channel hosts, parallel SCSI, RAID cards
//! (`/sys/class/scsi_host`).

use super::scsi_host::{self, Host};
use super::{above, ata, name, numbered, sas};
use crate::probe::machine::{Controller, ControllerKind, Disk, DiskKind};
use crate::probe::pci;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Transport classes of hosts (drivers/scsi/scsi_transport_*.c).
const CLASSES: [(&str, &str); 4] =
    [("sas_host", "sas"), ("fc_host", "fc"), ("spi_host", "spi"), ("iscsi_host", "iscsi")];

/// All hosts with the disks behind them; SATA and SAS disks learn their links.
pub(super) fn read(sysroot: &Sysroot, disks: &mut [(Disk, PathBuf)]) -> Vec<Controller> {
    let mut classes: HashMap<String, (&str, &str)> = HashMap::new();
    for (class, transport) in CLASSES {
        classes.extend(
            sysroot.list(format!("/sys/class/{class}")).into_iter().map(|host| (host, (class, transport))),
        );
    }
    let targets = scsi_host::targets(sysroot);
    let hosts = hosts(sysroot, disks, &classes);
    let mut behind: BTreeMap<String, Vec<&mut (Disk, PathBuf)>> = BTreeMap::new();
    for entry in disks.iter_mut().filter(|(disk, _)| disk.kind != DiskKind::Partition) {
        if let Some(host) = above(&entry.1, "host") {
            behind.entry(name(host)).or_default().push(entry);
        }
    }
    let read = |(name, directory): (String, PathBuf)| {
        let mut disks = behind.remove(&name).unwrap_or_default();
        let transport = classes.get(&name).map(|(_, transport)| *transport);
        let host = Host { name, directory };
        let controller = plain(sysroot, &host, transport, &disks);
        match (transport, host.ata_port().filter(|_| controller.kind == ControllerKind::Sata)) {
            (Some("sas"), _) => sas::read(sysroot, &host, controller, &mut disks),
            (Some("fc"), _) => scsi_host::fibre_channel(sysroot, &host, controller),
            (Some("spi"), _) => {
                let targets = targets.get(&host.name).map(Vec::as_slice).unwrap_or_default();
                scsi_host::parallel(sysroot, targets, controller)
            }
            (_, Some(port)) => ata::read(sysroot, port, controller, &mut disks),
            _ => controller,
        }
    };
    hosts.into_iter().map(read).collect()
}

/// Names and directories of the hosts: those that the path of a disk shows, and those without a disk, of any
/// class.
fn hosts(
    sysroot: &Sysroot,
    disks: &[(Disk, PathBuf)],
    classes: &HashMap<String, (&str, &str)>,
) -> BTreeMap<String, PathBuf> {
    let mut hosts = BTreeMap::new();
    for (_, directory) in disks {
        if let Some(host) = above(directory, "host") {
            hosts.entry(name(host)).or_insert_with(|| host.to_path_buf());
        }
    }
    let all = sysroot.list("/sys/class/scsi_host").into_iter().map(|host| ("scsi_host", host));
    for (class, host) in all.chain(classes.iter().map(|(host, (class, _))| (*class, host.clone()))) {
        let link = Path::new("/sys/class").join(class).join(&host);
        if numbered(&link, "host").is_none() || hosts.contains_key(&host) {
            continue;
        }
        // `…/host2/scsi_host/host2`: the device is two above.
        let place = sysroot.follow(&link).unwrap_or(link);
        let device = place.ancestors().nth(2).filter(|device| device.ends_with(&host)).unwrap_or(&place);
        hosts.insert(host, device.to_path_buf());
    }
    hosts
}

/// What every host reports.
fn plain(
    sysroot: &Sysroot,
    host: &Host,
    transport: Option<&str>,
    disks: &[&mut (Disk, PathBuf)],
) -> Controller {
    let driver = host.text(sysroot, "scsi_host", "proc_name");
    let port = host.ata_port();
    let kind = kind(transport, port.is_some(), driver.as_deref().unwrap_or_default());
    let why = match (transport, &driver) {
        (Some("iscsi"), _) => "it comes over a network: the NIC's rate holds".to_string(),
        (_, Ok(driver)) => format!("{driver} shows no link of what is behind it"),
        _ => "the kernel shows no link of this host".to_string(),
    };
    Controller {
        name: port.map_or_else(|| host.name.clone(), name),
        kind,
        pci: pci::nearest(&host.directory),
        firmware: Fact::unknown("linerate does not read the firmware of SCSI hosts"),
        transport: match (transport, kind) {
            (Some(transport), _) => Fact::Known(transport.into()),
            (None, ControllerKind::Sata) => Fact::Known("sata".into()),
            (None, ControllerKind::Other) => Fact::Known("pata".into()),
            (None, _) => Fact::unknown("the driver reports no transport"),
        },
        address: Fact::unknown("only NVMe over fabrics has one"),
        state: host.text(sysroot, "scsi_host", "state").into(),
        link_bits_per_second: Fact::unknown(&why),
        link_max_bits_per_second: Fact::unknown(&why),
        lanes: Fact::unknown(&why),
        lanes_max: Fact::unknown(&why),
        ports: Vec::new(),
        queues: match host.text(sysroot, "scsi_host", "nr_hw_queues").map(|text| text.parse()) {
            Ok(Ok(queues)) => Fact::Known(queues),
            _ => Fact::unknown("this kernel does not report the queues of a SCSI host"),
        },
        disks: disks.iter().map(|entry| entry.0.name.clone()).collect(),
        model: driver.into(),
    }
}

/// Before 2.6.37 SATA ports had no directory of their own: the driver's name shows it.
fn kind(transport: Option<&str>, port: bool, driver: &str) -> ControllerKind {
    match transport {
        Some("sas") => ControllerKind::Sas,
        Some("fc") => ControllerKind::FibreChannel,
        Some(_) => ControllerKind::Scsi,
        None if driver.starts_with("pata_") => ControllerKind::Other,
        None if port || driver == "ahci" || driver == "ata_piix" || driver.starts_with("sata_") => {
            ControllerKind::Sata
        }
        None => ControllerKind::Scsi,
    }
}
