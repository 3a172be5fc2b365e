//! A server with every kind of thing that reveals whose it is, and this machine.

use super::*;
use crate::probe::Nic;
use linerate_testing::Tree;
use proptest::prelude::*;
use serde_json::json;
use std::path::Path;

const CARD: &str = "sys/devices/pci0000:00/0000:00:03.0";
const DRIVE: &str = "sys/devices/pci0000:00/0000:04:00.0/nvme/nvme0";

/// What must not be found in the capture.
const TELLING: &str = "dtn7 surf filer1 00:1b:21:6a:b2:c1 001b216ab2c1 21b:21ff:fe6a 145.146.100.7 145.146.100.1 145.146 \
    64649291 07649291 2001:610 2001061000010 S4EVNF0M812345 533445564e46304d383132333435 \
    0025385b71b0a1c2 4c4c4544-0042 9f0b5d1e-77aa alice genomics vg_dtn7 CZ3412ABCD DIMM-9F8E7D \
    SECRET-OEM tank-of-bob 10.99.0.5 hunter2";

/// Stands in one file after the other.
const CANARY: &str = "DB_PASSWORD=Canary5ecret";

fn smbios() -> Vec<u8> {
    let mut system = vec![1, 27, 1, 0, 1, 2, 0, 3];
    system.extend([0x44, 0x45, 0x4c, 0x4c, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 6, 0, 0]);
    let mut dimm = vec![17, 0x1c, 2, 0];
    dimm.resize(0x1c, 0);
    dimm[0x10] = 1;
    dimm[0x18] = 2;
    let structures = [
        (system, "Dell\0R730\0CZ3412ABCD\0\0"),
        (dimm, "DIMM_A1\0DIMM-9F8E7D\0\0"),
        (vec![11, 5, 3, 0, 1], "SECRET-OEM\0\0"),
        (vec![127, 4, 4, 0], "\0\0"),
    ];
    structures
        .iter()
        .flat_map(|(formatted, strings)| [formatted.as_slice(), strings.as_bytes()].concat())
        .collect()
}

fn server() -> Tree {
    let nic = format!("{CARD}/net/enx001b216ab2c1");
    let mut tree = Tree::new(&[
        ("proc/sys/kernel/hostname", "dtn7.surf.nl\n"),
        ("proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"),
        (
            "proc/cmdline",
            "root=UUID=9f0b5d1e-77aa-4c0b-8000-0123456789ab iommu=pt token=tank-of-bob -- --key alice\n",
        ),
        ("proc/1/environ", "DB_PASSWORD=hunter2\0container=podman\0AWS_SECRET_ACCESS_KEY=hunter2\0"),
        ("proc/version", "Linux version 6.1.0 (root@dtn7) (gcc 12.2.0)\n"),
        ("proc/meminfo", "MemTotal:  1000 kB\nMemAvailable: 900 kB\n"),
        ("proc/self/cgroup", "0::/user.slice/user-alice.slice\n"),
        ("proc/self/status", "Cpus_allowed_list:\t0-3\nCapEff:\t0000000000000000\n"),
        ("proc/self/limits", "Max locked memory         65536   65536   bytes\n"),
        ("sys/fs/cgroup/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n"),
        ("sys/fs/cgroup/user.slice/user-alice.slice/cpu.max", "200000 100000\n"),
        (
            "proc/net/route",
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
            enx001b216ab2c1\t00000000\t01649291\t0003\t0\t0\t0\t00000000\n\
            enx001b216ab2c1\t00649291\t00000000\t0001\t0\t0\t0\t00FFFFFF\n",
        ),
        (
            "proc/net/fib_trie",
            "  |-- 145.146.100.0\n     /24 link UNICAST\n  |-- 145.146.100.7\n     /32 host LOCAL\n  |-- \
             127.0.0.1\n     /32 host LOCAL\n",
        ),
        (
            "proc/net/if_inet6",
            "2001061000010000000000000000002a 02 40 00 80 enx001b216ab2c1\n\
            fe80000000000000021b21fffe6ab2c1 02 40 20 80 enx001b216ab2c1\n00000000000000000000000000000001 \
            01 80 10 80 lo\n",
        ),
        (
            "proc/net/ipv6_route",
            "20010610000100000000000000000000 40 00000000000000000000000000000000 00 \
             00000000000000000000000000000000 00000100 00000001 00000000 00000001 enx001b216ab2c1\n",
        ),
        (
            "proc/self/mountinfo",
            "27 1 259:1 / / rw - ext4 /dev/disk/by-uuid/9f0b5d1e-77aa-4c0b-8000-0123456789ab rw\n\
            28 27 253:0 / /home/alice/genomics rw,noatime - xfs /dev/mapper/vg_dtn7-data \
            rw,sunit=128,swidth=512\n\
            29 27 0:41 / /net rw - nfs4 filer1.surf.nl:/export/alice \
            rw,vers=4.2,addr=10.99.0.5,clientaddr=145.146.100.7\n\
            30 27 0:42 / /shows rw - zfs tank-of-bob/alice rw\n",
        ),
        (&format!("{CARD}/class"), "0x020000\n"),
        (&format!("{CARD}/vendor"), "0x15b3\n"),
        (&format!("{CARD}/numa_node"), "1\n"),
        (&format!("{nic}/mtu"), "9000\n"),
        (&format!("{nic}/speed"), "100000\n"),
        (&format!("{nic}/operstate"), "up\n"),
        (&format!("{nic}/address"), "00:1b:21:6a:b2:c1\n"),
        (&format!("{nic}/uevent"), "INTERFACE=enx001b216ab2c1\nIFINDEX=2\n"),
        (&format!("{nic}/queues/rx-0/x"), ""),
        ("sys/devices/virtual/net/lo/type", "772\n"),
        (&format!("{DRIVE}/model"), "Samsung SSD 970\n"),
        (&format!("{DRIVE}/serial"), "S4EVNF0M812345      \n"),
        (&format!("{DRIVE}/subsysnqn"), "nqn.2014.08.org.nvmexpress:144d144dS4EVNF0M812345      Samsung\n"),
        (
            &format!("{DRIVE}/nvme0n1/wwid"),
            "nvme.144d-533445564e46304d383132333435-53616d73756e67-00000001\n",
        ),
        (&format!("{DRIVE}/nvme0n1/nguid"), "0025385b71b0a1c2\n"),
        (&format!("{DRIVE}/nvme0n1/size"), "2000\n"),
        (&format!("{DRIVE}/nvme0n1/dev"), "259:0\n"),
        (&format!("{DRIVE}/nvme0n1/nvme0n1p1/partition"), "1\n"),
        (&format!("{DRIVE}/nvme0n1/nvme0n1p1/dev"), "259:1\n"),
        ("sys/devices/virtual/block/dm-0/dev", "253:0\n"),
        ("sys/devices/virtual/block/dm-0/dm/name", "vg_dtn7-data\n"),
        ("sys/devices/virtual/block/loop0/loop/backing_file", "/home/alice/disk.img\n"),
        ("sys/devices/virtual/dmi/id/product_uuid", "4c4c4544-0042-3510-8056-b4c04f4e4d32\n"),
        ("sys/devices/virtual/dmi/id/chassis_serial", "CZ3412ABCD\n"),
        ("sys/devices/virtual/dmi/id/sys_vendor", "Dell Inc.\n"),
    ]);
    tree.put_bytes("sys/firmware/dmi/tables/DMI", &smbios());
    tree.link("sys/class/dmi/id", "../../devices/virtual/dmi/id");
    tree.link(&format!("{nic}/device"), "../../../0000:00:03.0");
    tree.link("sys/bus/pci/devices/0000:00:03.0", "../../../devices/pci0000:00/0000:00:03.0");
    tree.link("sys/bus/pci/devices/0000:04:00.0", "../../../devices/pci0000:00/0000:04:00.0");
    tree.link("sys/class/net/enx001b216ab2c1", "../../devices/pci0000:00/0000:00:03.0/net/enx001b216ab2c1");
    tree.link("sys/class/net/lo", "../../devices/virtual/net/lo");
    tree.link(&format!("{DRIVE}/nvme0n1/device"), "../../nvme0");
    for name in ["nvme0n1", "nvme0n1/nvme0n1p1"] {
        let last = name.rsplit('/').next().expect("a name");
        tree.link(&format!("sys/class/block/{last}"), &format!("../../../{DRIVE}/{name}"));
    }
    for name in ["dm-0", "loop0"] {
        tree.link(&format!("sys/class/block/{name}"), &format!("../../devices/virtual/block/{name}"));
    }
    tree.link("dev/disk/by-uuid/9f0b5d1e-77aa-4c0b-8000-0123456789ab", "../../nvme0n1p1");
    tree.link("dev/mapper/vg_dtn7-data", "../dm-0");
    tree
}

fn plain(capture: &Capture) -> Vec<u8> {
    let mut plain = Vec::new();
    write_tar(&capture.entries, &mut plain).expect("a tarball");
    plain
}

fn replay(capture: &Capture) -> Machine {
    let mut file = Vec::new();
    write(capture, &mut file).expect("a tarball");
    probe(&Sysroot::archive(
        Archive::read_from(file.as_slice(), &ArchiveLimits::default()).expect("an archive"),
    ))
}

/// A machine without what is replaced: what must stay the same.
fn facts(machine: &Machine) -> Machine {
    let mut machine = machine.clone();
    machine.host = machine.host.map(|_| "host".into());
    for nic in &mut machine.nics {
        nic.name = nic.name.chars().take(3).collect();
        nic.addresses = nic
            .addresses
            .iter()
            .map(|(address, prefix)| {
                (
                    match address {
                        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
                    },
                    *prefix,
                )
            })
            .collect();
    }
    for disk in &mut machine.disks {
        disk.backing_file = disk.backing_file.take().map(|_| "file".into());
        disk.mapped_name = disk.mapped_name.take().map(|_| "mapped".into());
    }
    for fs in &mut machine.file_systems {
        (fs.mount_point, fs.source, fs.options) = (PathBuf::new(), String::new(), String::new());
    }
    machine
}

/// `name7` as `name`.
fn nameless(text: &str) -> String {
    let mut parts = text.split("name");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |all, part| all + "name" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Where two machines differ, leaf by leaf.
fn differences(before: &Machine, after: &Machine) -> Vec<String> {
    fn leaves(at: &str, value: &Value, found: &mut BTreeMap<String, String>) {
        match value {
            Value::Object(fields) => {
                fields.iter().for_each(|(name, value)| leaves(&format!("{at}.{name}"), value, found))
            }
            Value::Array(list) => {
                list.iter()
                    .enumerate()
                    .for_each(|(index, value)| leaves(&format!("{at}.{index}"), value, found));
            }
            // A reason may name a pool.
            leaf => {
                drop(found.insert(at.to_string(), nameless(&leaf.to_string().replace("tank-of-bob", "name"))))
            }
        }
    }
    let of = |machine: &Machine| {
        let mut found = BTreeMap::new();
        leaves("", &serde_json::to_value(machine).expect("JSON"), &mut found);
        found
    };
    let (before, after) = (of(before), of(after));
    let all = before.keys().chain(after.keys()).collect::<std::collections::BTreeSet<_>>();
    all.into_iter()
        .filter(|leaf| before.get(*leaf) != after.get(*leaf))
        .map(|leaf| format!("{leaf}: {:?}, then {:?}", before.get(leaf), after.get(leaf)))
        .collect()
}

#[test]
fn nothing_reports_whose_it_is_and_the_machine_is_the_same() {
    let tree = server();
    let before = probe(&tree.sysroot());
    let capture = capture(&tree.sysroot()).expect("a capture");
    let bytes = String::from_utf8_lossy(&plain(&capture)).to_ascii_lowercase();
    for telling in TELLING.split(' ') {
        if let Some(at) = bytes.find(&telling.to_ascii_lowercase()) {
            let from = bytes[..at].rfind(['\n', '\0']).map_or(0, |at| at + 1);
            panic!("{telling} stands in the capture: {}", &bytes[from..(at + 60).min(bytes.len())]);
        }
    }
    let after = replay(&capture);
    let none: [String; 0] = [];
    assert_eq!(differences(&facts(&before), &facts(&after)), none);
    assert_eq!(after.host.known().map(String::as_str), Some("host2"));
    let nic = |machine: &Machine| {
        machine.nics.iter().find(|nic| nic.name.starts_with("enx")).expect("the NIC").clone()
    };
    assert_eq!(nic(&after).name, "enx020000000001");
    assert_eq!((nic(&after).addresses.len(), nic(&before).addresses.len()), (3, 3));
    let mounts: Vec<String> = after
        .file_systems
        .iter()
        .map(|fs| format!("{} {} {}", fs.mount_point.display(), fs.source, fs.devices.join(" ")))
        .collect();
    assert!(mounts[1].starts_with("/home/name") && mounts[1].ends_with(" dm-0"), "{mounts:?}");
    assert_eq!(mounts[0], "/ /dev/disk/by-uuid/00000000-0000-4000-8000-000000000002 nvme0n1p1");
    assert_eq!(after.kernel.boot_options.known(), Some(&vec!["iommu=pt".to_string()]));
    assert!(after.file_systems[1].options.contains("sunit=128,swidth=512"));
    assert!(after.file_systems[2].options.contains("vers=4.2"), "{}", after.file_systems[2].options);
    let replaced = capture.replaced;
    assert_eq!((replaced.hardware_addresses, replaced.uuids, replaced.left_out), (1, 2, 0), "{replaced:?}");
}

/// What file systems of networks write into the mount table beside `host:/path`.
#[test]
fn mounts_report_no_address_no_user_and_no_share() {
    let tree = Tree::new(&[(
        "proc/self/mountinfo",
        "20 1 0:20 / /mnt/a rw - ceph 192.0.2.7:6789,192.0.2.8:6789:/vol \
         rw,name=carol,mon_addr=192.0.2.9:6789\n\
         21 1 0:21 / /mnt/b rw - cifs //filer/share \
         rw,vers=3.1.1,unc=\\134\\134filer\\134share,prefixpath=payroll,username=carol\n\
         22 1 0:22 / /mnt/c rw - 9p hostshare rw,trans=virtio,version=9p2000.L,uname=carol,aname=payroll\n\
         23 1 0:23 / /mnt/d rw - gpfs payroll rw,relatime,dev=payroll\n\
         24 1 0:24 / /mnt/e rw - fuse.sshfs carol@filer:payroll rw,user_id=1000,max_read=131072\n\
         25 1 0:25 / /mnt/f rw - lustre 192.0.2.10@tcp:/payroll rw,flock\n\
         26 1 0:26 / /mnt/g rw - ecryptfs /home/carol/.Private \
         rw,ecryptfs_sig=9dbb5b8f1a2c3d4e,ecryptfs_cipher=aes\n\
         27 1 0:27 / /mnt/h rw - nfs4 [2001:DB8::7]:/payroll rw\n",
    )]);
    let capture = capture(&tree.sysroot()).expect("a capture");
    let Some(Recorded::File(bytes)) = capture.entries.get(Path::new("proc/self/mountinfo")) else {
        panic!("the mount table is in the capture");
    };
    let text = String::from_utf8_lossy(bytes);
    for telling in ["192.0.2", "DB8", "carol", "filer", "share", "payroll", "9dbb5b8f"] {
        assert!(!text.contains(telling), "{telling} stands in {text}");
    }
    for kept in ["vers=3.1.1", "trans=virtio,version=9p2000.L", "max_read=131072", ":6789", "aes", " gpfs "] {
        assert!(text.contains(kept), "{kept} is not in {text}");
    }
}

#[test]
fn a_product_reports_no_mount_no_file_and_no_url() {
    let mut product = json!({
        "machine": { "file_systems": [
            { "mount_point": "/media/alice/My Disk", "kind": "ext4", "source": "/dev/sdb1", "options": "rw" },
            { "mount_point": "/net", "kind": "nfs4", "source": "filer1.surf.nl:/genomics", "options": "rw,addr=10.99.0.5" },
        ] },
        "goal": { "sinks": ["genomics", "in box"] },
        "scaling": { "held_by": "9 MB/s: the file system ext4 at /media/alice/My Disk" },
        "transfer": { "files": [{ "url": "https://filer1.surf.nl:84/genomics/dna.bam", "path": "dna.bam" }] },
        "errors": ["/media/alice/My Disk/dna.bam: no space", "none of filer1.surf.nl"],
        "measurements": [{ "held_by": "cpu", "method": "UDP: counted by enx001b216ab2c1" }],
        "evidence": { "sources": ["https://etcd.io/docs/"] },
    });
    let nic = Nic { name: "enx001b216ab2c1".into(), ..Nic::default() };
    anonymise(&mut product, &Machine { nics: vec![nic], ..Machine::default() });
    let text = product.to_string();
    for telling in "alice My Disk box filer1 surf genomics dna 10.99.0.5 001b216ab2c1".split(' ') {
        assert!(!text.contains(telling), "{telling} stands in {text}");
    }
    assert!(text.contains("\"cpu\"") && text.contains("https://etcd.io/docs/"), "{text}");
}

/// The entries with other bytes in one of them.
fn with(entries: &BTreeMap<PathBuf, Recorded>, changes: &[(&PathBuf, Vec<u8>)]) -> Sysroot {
    let mut entries = entries.clone();
    for (path, bytes) in changes {
        entries.insert(path.to_path_buf(), Recorded::File(bytes.clone()));
    }
    let mut tar = Vec::new();
    write_tar(&entries, &mut tar).expect("a tarball");
    Sysroot::archive(Archive::read_from(tar.as_slice(), &ArchiveLimits::default()).expect("an archive"))
}

fn contents(entries: &BTreeMap<PathBuf, Recorded>) -> impl Iterator<Item = (&PathBuf, &Vec<u8>)> {
    entries.iter().filter_map(|(path, entry)| match entry {
        Recorded::File(bytes) => Some((path, bytes)),
        _ => None,
    })
}

/// It is in the tarball, as text of any case or in hexadecimal digits.
fn reveals(capture: &Capture, secret: &str) -> bool {
    let bytes = String::from_utf8_lossy(&plain(capture)).to_ascii_lowercase();
    let hexadecimal: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    bytes.contains(&secret.to_ascii_lowercase()) || bytes.contains(&hexadecimal)
}

fn may_reveal(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    passing::is_among(passing::WORDS, name)
}

/// In place of what each file holds, and behind it.
#[test]
fn a_secret_in_any_file_of_a_server_stays_there() {
    let tree = server();
    let entries = record(&tree.sysroot(), &probe(&tree.sysroot()));
    let secret = CANARY.split_once('=').expect("a password").1;
    let (mut passed, mut stopped) = (0, 0);
    for (path, bytes) in contents(&entries) {
        for content in [CANARY.into(), [bytes, &b"\n"[..], CANARY.as_bytes(), b"\n"].concat()] {
            let capture = capture(&with(&entries, &[(path, content)])).expect("a capture");
            let is_revealed = reveals(&capture, secret);
            assert!(!is_revealed || may_reveal(path), "{}", path.display());
            (passed, stopped) = (passed + usize::from(is_revealed), stopped + usize::from(!is_revealed));
        }
    }
    assert!(passed > 5 && stopped > 40, "{passed} passed, {stopped} stopped: the rest proves nothing");
}

/// All files of this machine at once, with a secret of its own in each.
#[test]
fn a_secret_in_any_file_of_this_machine_stays_there() {
    let live = Sysroot::live();
    let entries = record(&live, &probe(&live));
    let secret = |n: usize| format!("Canary{n:06}ecret");
    let changes: Vec<(&PathBuf, Vec<u8>)> = contents(&entries)
        .enumerate()
        .map(|(n, (path, bytes))| {
            (path, [&bytes[..], format!("\nDB_PASSWORD={}\n", secret(n)).as_bytes()].concat())
        })
        .collect();
    assert!(changes.len() > 50, "{}", changes.len());
    let capture = capture(&with(&entries, &changes)).expect("a capture");
    let bytes = String::from_utf8_lossy(&plain(&capture)).to_ascii_lowercase();
    for (n, (path, _)) in changes.iter().enumerate() {
        let is_revealed = bytes.contains(&secret(n).to_ascii_lowercase());
        assert!(!is_revealed || may_reveal(path), "{}", path.display());
    }
}

#[test]
fn what_owners_write_is_on_no_list_and_what_is_on_none_is_left_out() {
    let owned =
        ["environ", "cmdline", "hostname", "domainname", "mountinfo", "mounts", "cgroup", "backing_file"];
    let named = ["serial", "uuid", "label", "ifalias", "uevent", "address", "id"];
    for name in owned.into_iter().chain(named) {
        assert!(!may_reveal(Path::new(name)) && !passing::passes(name, "12"), "{name}");
    }
    assert!(passing::passes("mtu", "9000\n") && !passing::passes("mtu", "9000 # for carol\n"));
    assert!(passing::passes("queue_count", "2\n\0\0") && passing::passes("cpu.max", "max 100000\n"));
}

/// A drive's IDENTIFY data holds its serial number as words of two letters each.
#[test]
fn of_a_sata_drive_its_generations_are_kept_and_nothing_else() {
    let mut words = vec!["574d".to_string(); 256];
    words[76] = "850e".into();
    let path = PathBuf::from("sys/devices/pci0000:00/ata3/link3/dev3.0/ata_device/dev3.0/id");
    let entries = BTreeMap::from([(path.clone(), Recorded::File(words.join(" ").into_bytes()))]);
    let Some(Recorded::File(bytes)) = files::rewrite(&entries, &mut Names::default()).remove(&path) else {
        panic!("it is in the capture");
    };
    let text = String::from_utf8(bytes).expect("text");
    assert_eq!((text.split_whitespace().nth(76), text.matches("0000").count()), (Some("850e"), 255));
}

#[test]
fn routes_lead_where_they_led() {
    let tree = server();
    let capture = capture(&tree.sysroot()).expect("a capture");
    let mut file = Vec::new();
    write(&capture, &mut file).expect("a tarball");
    let sysroot =
        Sysroot::archive(Archive::read_from(file.as_slice(), &ArchiveLimits::default()).expect("an archive"));
    let machine = probe(&sysroot);
    let (name, local) =
        route::path_to(&sysroot, &machine, IpAddr::from([203, 0, 113, 9])).known().expect("a route").clone();
    assert_eq!(name, "enx020000000001");
    assert!(
        machine.nics.iter().any(|nic| nic.name == name && nic.addresses.contains(&(local, 24))),
        "{local}"
    );
}

#[test]
fn captures_are_the_same_each_time_and_of_each_other() {
    let tree = server();
    let first = capture(&tree.sysroot()).expect("a capture");
    assert_eq!(plain(&first), plain(&capture(&tree.sysroot()).expect("a capture")));
    let again = capture(&Sysroot::archive(
        Archive::read_from(plain(&first).as_slice(), &ArchiveLimits::default()).expect("an archive"),
    ));
    let none: [String; 0] = [];
    assert_eq!(differences(&facts(&replay(&first)), &facts(&replay(&again.expect("a capture")))), none);
}

#[test]
fn the_firmware_table_keeps_its_shape() {
    let tree = server();
    let mut names = Names::default();
    let table = smbios();
    let (_, recording) = tree.sysroot().record();
    assert!(recording.entries().is_empty());
    files::rewrite_smbios(&table, &mut names);
    names.settle();
    let clean = files::rewrite_smbios(&table, &mut names);
    assert_eq!(clean.len(), table.len());
    let text = String::from_utf8_lossy(&clean);
    assert!(
        text.contains("R730")
            && text.contains("DIMM_A1")
            && text.contains("S000000001")
            && text.contains("xxxxxx"),
        "{text:?}"
    );
    assert_eq!(&clean[8..24], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    // Whatever the table is: cut short, or with lengths that lead nowhere.
    for cut in 0..table.len() {
        assert!(files::rewrite_smbios(&table[..cut], &mut names).len() <= cut);
    }
    assert!(files::rewrite_smbios(&[1, 200, 0, 0, 9, 9], &mut names).is_empty());
}

#[test]
fn a_cards_serial_number_is_its_address() {
    let mut space = vec![0u8; 4096];
    space[0x100..0x104].copy_from_slice(&0x1501_0001u32.to_le_bytes());
    space[0x150..0x154].copy_from_slice(&0x1501_0003u32.to_le_bytes());
    space[0x154..0x15c].copy_from_slice(&[0xc1, 0xb2, 0x6a, 0xff, 0xff, 0x21, 0x1b, 0]);
    let clean = files::rewrite_configuration(&space);
    assert!(clean[0x154..0x15c].iter().all(|byte| *byte == 0) && clean[0x150] == 3 && clean.len() == 4096);
    assert_eq!(files::rewrite_configuration(&[1; 64]), [1; 64]);
}

/// The machine and its capture, of a time in which nothing was plugged in or taken away: other tests make disks
/// and interfaces beside this one.
fn captured_unchanged(live: &Sysroot) -> (Machine, Capture) {
    for _ in 0..20 {
        let (before, capture, after) = (probe(live), capture(live).expect("a capture"), probe(live));
        if differences(&steady(&before), &steady(&after)).is_empty() {
            return (before, capture);
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    panic!("the machine never stays the same for two looks");
}

/// Without what changes while one looks.
fn steady(machine: &Machine) -> Machine {
    let mut machine = facts(machine);
    machine.memory.available_bytes = linerate_facts::fact::Fact::unknown("changes");
    machine.cpu.crc32c_bytes_per_second = linerate_facts::fact::Fact::unknown("is timed");
    for mounted in &mut machine.file_systems {
        // Not in the files; a folder with another name in the capture has none.
        mounted.size_bytes = linerate_facts::fact::Fact::unknown("is asked");
        mounted.free_bytes = linerate_facts::fact::Fact::unknown("changes");
    }
    machine
}

#[test]
fn this_machine_replays() {
    let live = Sysroot::live();
    let (before, capture) = captured_unchanged(&live);
    let bytes = String::from_utf8_lossy(&plain(&capture)).to_ascii_lowercase();
    let macs = live
        .list("/sys/class/net")
        .into_iter()
        .filter_map(|name| live.text(format!("/sys/class/net/{name}/address")).ok());
    for mac in macs.filter(|mac| mac.len() == 17 && mac != "00:00:00:00:00:00") {
        assert!(!bytes.contains(&mac), "{mac}");
    }
    for (address, _) in
        before.nics.iter().flat_map(|nic| &nic.addresses).filter(|(address, _)| !address.is_loopback())
    {
        assert!(
            !bytes.contains(&format!(" {address}")) && !bytes.contains(&format!("\"{address}\"")),
            "{address}"
        );
    }
    let none: [String; 0] = [];
    assert_eq!(differences(&steady(&before), &steady(&replay(&capture))), none);
    assert!(!capture.entries.keys().any(|path| path.is_absolute() || path.starts_with(Path::new(".."))));
}

proptest! {
    #[test]
    fn any_text_is_rewritten_and_no_address_stays(
        parts in proptest::collection::vec("(00:1b:21:6a:b2:[0-9a-f]{2}|dtn7|192\\.0\\.2\\.7|2001:db8::[0-9a-f]{1,4}|S4EVNF0M812345|[0-9a-f:.-]{0,40}|\\PC{0,6})", 0..12)
    ) {
        let text = parts.join(" ");
        let mut names = Names::default();
        identities::host_name("dtn7", &mut names);
        identities::serial("S4EVNF0M812345", &mut names);
        names.address(IpAddr::from([192, 0, 2, 7]));
        names.text(&text);
        names.settle();
        let after = names.text(&text);
        for telling in parts.iter().filter(|part| ["00:1b:21", "dtn7", "192.0.2.7", "2001:db8::", "S4EVNF0"].iter().any(|start| part.starts_with(start)) && part.len() < 18) {
            let alone = after.split(' ').any(|word| word == telling);
            prop_assert!(!alone, "{telling} stands in {after}");
        }
    }

    #[test]
    fn any_table_keeps_its_length_or_is_cut(bytes in proptest::collection::vec(any::<u8>(), 0..300), line in "\\PC{0,80}") {
        let mut names = Names::default();
        files::rewrite_smbios(&bytes, &mut names);
        names.settle();
        prop_assert!(files::rewrite_smbios(&bytes, &mut names).len() <= bytes.len());
        prop_assert_eq!(files::rewrite_configuration(&bytes).len(), bytes.len());
        let entries = BTreeMap::from(["mountinfo", "mounts", "cgroup", "route", "if_inet6", "fib_trie", "cmdline", "version", "wwid"].map(|name| {
            (PathBuf::from("proc/self").join(name), Recorded::File(line.clone().into_bytes()))
        }));
        prop_assert_eq!(files::rewrite(&entries, &mut names).len(), entries.len());
    }
}
