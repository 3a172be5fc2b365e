//! Controllers, arrays and queues of the recorded trees, against what libnvme, node_exporter and the trees'
//! own projects say of them.

use super::{files, hwloc, node_exporter, read, root_within};
use crate::support::place::{captures, unpack, unpack_ttar, unpack_ttar_gz};
use linerate::fact::Fact;
use linerate::probe::{Array, Controller, ControllerKind, Disk, Machine};
use std::collections::{BTreeMap, BTreeSet};

fn controller<'a>(machine: &'a Machine, name: &str) -> &'a Controller {
    machine.controllers.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("{name} is missing"))
}

fn disk<'a>(machine: &'a Machine, name: &str) -> &'a Disk {
    machine.disks.iter().find(|disk| disk.name == name).unwrap_or_else(|| panic!("{name} is missing"))
}

/// Controllers by name with transport, address and namespaces, from what libnvme prints of a tree: each
/// namespace names its controllers, directly or one for each path.
fn listed(
    value: &serde_json::Value,
    namespace: Option<&str>,
    found: &mut BTreeMap<String, (String, String, BTreeSet<String>)>,
) {
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_string();
    let namespace = match value.get("nsid") {
        Some(_) => value["name"].as_str(),
        None => namespace,
    };
    if let (Some(_), Some(namespace)) = (value.get("traddr"), namespace) {
        let entry = found.entry(text("name"));
        entry.or_insert((text("transport"), text("traddr"), BTreeSet::new())).2.insert(namespace.to_string());
    }
    for below in value
        .as_array()
        .into_iter()
        .flatten()
        .chain(value.as_object().into_iter().flat_map(|map| map.values()))
    {
        listed(below, namespace, found);
    }
}

#[test]
fn nvme_controllers_as_libnvme_lists_them() {
    let Some(captures) = captures() else { return };
    let mut compared = 0;
    for archive in files(&captures.join("libnvme"), ".tar.xz") {
        let Some(place) = unpack(&archive, &[]) else { return };
        let machine = read(&root_within(place.path()).expect("a tree in the archive"));
        let listing = archive.to_string_lossy().replace(".tar.xz", ".out");
        let listing = std::fs::read_to_string(listing).expect("the listing");
        let mut expected = BTreeMap::new();
        listed(&serde_json::from_str(&listing).expect("JSON"), None, &mut expected);
        let own: BTreeMap<_, _> = machine
            .controllers
            .iter()
            .map(|one| {
                let known = |fact: &Fact<String>| fact.known().cloned().unwrap_or_default();
                let disks: BTreeSet<String> = one.disks.iter().cloned().collect();
                (one.name.clone(), (known(&one.transport), known(&one.address), disks))
            })
            .collect();
        assert_eq!(own, expected, "{}", archive.display());
        compared += own.len();
        assert!(machine.controllers.iter().all(|one| one.kind == ControllerKind::Nvme));
    }
    assert_eq!(compared, 4, "three controllers on PCIe, one of Apple's");
}

/// The tree of the Prometheus project's `procfs`.
fn procfs() -> Option<Machine> {
    let place = unpack_ttar_gz(&captures()?.join("procfs/fixtures.ttar.gz"))?;
    Some(read(&place.path().join("fixtures")))
}

#[test]
fn a_sas_host_with_two_expanders_and_a_drive() {
    let Some(machine) = procfs() else { return };
    let host = controller(&machine, "host11");
    assert_eq!((host.kind, host.pci.as_deref()), (ControllerKind::Sas, Some("0000:03:00.0")));
    assert_eq!(host.model.known().map(String::as_str), Some("mpt3sas"));
    assert_eq!((host.lanes.known(), host.lanes_max.known()), (Some(&9), Some(&9)));
    let giga = |fact: &Fact<u64>| fact.known().map(|bits| bits / 1_000_000_000);
    let ports: Vec<_> = host
        .ports
        .iter()
        .map(|port| {
            (
                port.name.as_str(),
                port.lanes,
                giga(&port.link_bits_per_second),
                giga(&port.link_max_bits_per_second),
            )
        })
        .collect();
    // The second expander is an older one: half the speed on a host that could do more.
    assert_eq!(
        ports,
        [
            ("port-11:0", 4, Some(48), Some(48)),
            ("port-11:1", 4, Some(24), Some(48)),
            ("port-11:2", 1, Some(12), Some(12))
        ]
    );
}

#[test]
fn fibre_channel_hosts_arrays_and_queues_of_procfs() {
    let Some(machine) = procfs() else { return };
    let host = controller(&machine, "host0");
    assert_eq!(host.kind, ControllerKind::FibreChannel);
    assert_eq!(host.state.known().map(String::as_str), Some("Online"));
    assert_eq!(host.link_bits_per_second.known(), Some(&14_025_000_000));
    assert_eq!(host.link_max_bits_per_second.known(), Some(&14_025_000_000));
    assert!(controller(&machine, "host1").link_bits_per_second.why().is_some());
    assert_eq!(
        controller(&machine, "nvme0").model.known().map(String::as_str),
        Some("Samsung SSD 970 PRO 512GB")
    );

    let sda = disk(&machine, "sda");
    assert_eq!(sda.scheduler.known().map(String::as_str), Some("bfq"));
    assert_eq!((sda.discard.known(), sda.requests.known()), (Some(&false), Some(&64)));
    assert_eq!(
        (sda.read_ahead_bytes.known(), sda.max_request_bytes.known()),
        (Some(&131_072), Some(&1_310_720))
    );
    assert_eq!(sda.write_cache.known().map(String::as_str), Some("write back"));

    let array = |name: &str| disk(&machine, name).array.clone();
    let shown = |name: &str| {
        let Array { level, disks, data_disks, degraded, .. } = array(name).expect("an array");
        (level, disks.known().copied(), data_disks.known().copied(), degraded.known().copied())
    };
    assert_eq!(shown("md0"), ("raid0".into(), Some(2), Some(2), Some(0)));
    assert_eq!(shown("md1"), ("raid1".into(), Some(2), Some(1), Some(0)));
    assert_eq!(shown("md4"), ("raid4".into(), Some(3), Some(2), Some(0)));
    assert_eq!(shown("md5"), ("raid5".into(), Some(3), Some(2), Some(1)));
    assert_eq!(shown("md6"), ("raid6".into(), Some(4), Some(2), Some(1)));
    assert_eq!(array("md7"), None, "a container holds no data itself");
    // "11 (10)": it is being widened.
    assert_eq!(shown("md8"), ("raid5".into(), Some(11), Some(10), Some(0)));
    assert_eq!(array("md8").and_then(|array| array.sync_action.known().cloned()).as_deref(), Some("reshape"));
    assert_eq!(array("md0").and_then(|array| array.stripe_bytes.known().copied()), Some(1 << 20));
    assert_eq!(disk(&machine, "md5").members, ["sdn", "sdo", "sdp"], "by place");
    let paths = disk(&machine, "dm-1");
    assert_eq!((paths.mapped_name.as_deref(), paths.mapped_by.as_deref()), (Some("mpathA"), Some("mpath")));
    assert_eq!((paths.members.len(), &paths.array), (2, &None), "two paths to one device are not an array");
}

#[test]
fn hosts_of_older_servers() {
    let Some(machine) = hwloc("fakepcilocalities") else { return };
    let card = controller(&machine, "host0");
    assert_eq!((card.kind, card.pci.as_deref()), (ControllerKind::Scsi, Some("0000:01:00.0")));
    assert_eq!(
        (card.model.known().map(String::as_str), card.disks.as_slice()),
        (Some("megaraid_sas"), &["sda".to_string()][..])
    );
    assert!(card.link_bits_per_second.why().is_some_and(|why| why.contains("megaraid_sas")));
    assert_eq!(disk(&machine, "sda6").controller.as_deref(), Some("host0"));
    // A kernel that gave SATA ports no directory yet.
    assert_eq!(controller(&machine, "host1").kind, ControllerKind::Sata);
    let Some(machine) = hwloc("2pa-pcidomain32bits") else { return };
    assert_eq!(disk(&machine, "vda").controller.as_deref(), Some("virtio1"));
    assert_eq!(controller(&machine, "virtio1").pci.as_deref(), Some("10000:00:04.0"));
    assert_eq!(controller(&machine, "ata2").kind, ControllerKind::Sata);
}

#[test]
fn what_node_exporter_reads_of_arrays_and_ports() {
    let Some((machine, text)) = node_exporter() else { return };
    let mut compared = 0;
    for line in text.lines() {
        let Some((metric, value)) = line.rsplit_once(' ') else { continue };
        let label = |key: &str| metric.split_once(&format!("{key}=\""))?.1.split('"').next();
        let own = match metric.split('{').next() {
            Some("node_md_raid_disks") => {
                let disk = disk(&machine, label("device").expect("a device"));
                disk.array.as_ref().and_then(|array| array.disks.known()).map(u32::to_string)
            }
            Some("node_md_degraded") => {
                let disk = disk(&machine, label("device").expect("a device"));
                disk.array.as_ref().and_then(|array| array.degraded.known()).map(u32::to_string)
            }
            Some("node_fibrechannel_info") => {
                let host = controller(&machine, label("fc_host").expect("a host"));
                assert_eq!(host.state.known().map(String::as_str), label("port_state"), "{line}");
                // 16 of 4, 8 and 16.
                assert_eq!(host.link_bits_per_second.known().is_some(), label("speed") != Some(""), "{line}");
                Some("1".to_string())
            }
            _ => continue,
        };
        assert_eq!(own.as_deref(), Some(value), "{line}");
        compared += 1;
    }
    assert!(compared >= 12, "only {compared} figures were compared");
}

/// Two btrfs of which node_exporter tells how much space a byte takes. The tree has neither their mounts nor
/// their devices: they are added.
#[test]
fn btrfs_profiles_as_node_exporter_reads_them() {
    let Some(captures) = captures() else { return };
    let Some(place) = unpack(&captures.join("node_exporter/node_exporter-fixtures.tar.xz"), &[]) else {
        return;
    };
    let root = place.path().join("collector/fixtures");
    unpack_ttar(&std::fs::read(root.join("sys.ttar")).expect("the tree in text form"), &root);
    for device in ["loop22", "loop26"] {
        std::fs::create_dir_all(root.join("sys/block").join(device)).expect("a directory");
    }
    let mounts = "1 0 0:40 / /a rw - btrfs /dev/loop26 rw\n2 1 0:41 / /b rw - btrfs /dev/loop22 rw\n";
    std::fs::write(root.join("proc/self/mountinfo"), mounts).expect("a file");
    let machine = read(&root);
    let text = std::fs::read_to_string(root.join("e2e-output.txt")).expect("its output");
    let arrays: Vec<&Array> = machine.file_systems.iter().filter_map(|fs| fs.array.as_ref()).collect();
    assert_eq!(arrays.iter().map(|array| array.level.as_str()).collect::<Vec<_>>(), ["raid0", "raid5"]);
    for array in arrays {
        let key = format!("node_btrfs_allocation_ratio{{block_group_type=\"data\",mode=\"{}\"", array.level);
        let line = text.lines().find(|line| line.starts_with(&key)).expect("the ratio");
        let expected: f64 =
            line.rsplit_once(' ').and_then(|(_, value)| value.parse().ok()).expect("a number");
        let (disks, data) =
            (array.disks.known().expect("disks"), array.data_disks.known().expect("data disks"));
        assert!((f64::from(*disks) / f64::from(*data) - expected).abs() < 1e-9, "{array:?}");
        assert_eq!(array.chunk_bytes.known(), Some(&65_536));
    }
}
