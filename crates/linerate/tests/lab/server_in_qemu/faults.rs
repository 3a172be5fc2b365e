//! Faults that are planted on a server in QEMU: each is found while it is there, nothing else beside it, and it is
//! gone with it.

use super::guest::QemuServer;
use super::{FINDINGS, recorded, thorough};
use crate::support::program;
use serde_json::Value;

/// A fault: its name, what plants it, what takes it away, the finding that it has to be, and a device of that finding.
struct Fault {
    name: &'static str,
    plant: &'static str,
    remove: &'static str,
    finding: &'static str,
    device: &'static str,
}

/// `interrupts_to CORE…`: those of eth0, in their order. An interrupt goes to another core when it comes the next time:
/// the link is negotiated again, and something is sent.
const INTERRUPTS_TO: &str = r"
interrupts_to() {
  local irqs irq tries wanted=$* net on
  irqs=$(sed -nE 's/^ *([0-9]+):.*eth0.*/\1/p' /proc/interrupts)
  for irq in $irqs; do
    echo $1 >/proc/irq/$irq/smp_affinity_list
    shift
  done
  ethtool -r eth0
  net=$(ip -4 -o addr show dev eth0 | sed -E 's|.*inet ([0-9.]+)[.][0-9]+/.*|\1|')
  for ((tries = 0; tries < 300; tries++)); do
    echo >/dev/udp/$net.77/9
    sleep 0.1
    on=$(for irq in $irqs; do cat /proc/irq/$irq/effective_affinity_list; done | xargs)
    if [[ $on == $wanted && $(cat /sys/class/net/eth0/carrier) == 1 ]]; then return; fi
  done 2>/dev/null
  echo interrupts are on $on, $wanted was wanted
}
";

/// They cost speed, so each is the first finding while it is there; with those of [`recorded`] and the server of
/// [`APART`] they are fifteen.
const SLOW: [Fault; 10] = [
    Fault {
        name: "a RAID 5 without one of its members",
        plant: "modprobe raid456; mdadm --quiet --create /dev/md5 --run --assume-clean --level=5 --raid-devices=3 \
                /dev/nvme0n1 /dev/nvme1n1 /dev/nvme2n1 && mdadm --quiet /dev/md5 --fail /dev/nvme1n1",
        remove: "mdadm --quiet --stop /dev/md5; mdadm --zero-superblock /dev/nvme[012]n1",
        finding: "array-degraded",
        device: "md5",
    },
    Fault {
        name: "a RAID 6 without two of its members",
        plant: "modprobe raid456; mdadm --quiet --create /dev/md6 --run --assume-clean --level=6 --raid-devices=4 \
                /dev/nvme[0123]n1 && mdadm --quiet /dev/md6 --fail /dev/nvme1n1 --fail /dev/nvme2n1",
        remove: "mdadm --quiet --stop /dev/md6; mdadm --zero-superblock /dev/nvme[0123]n1",
        finding: "array-degraded",
        device: "md6",
    },
    Fault {
        name: "a RAID 10 without one of its members",
        plant: "modprobe raid10; mdadm --quiet --create /dev/md10 --run --assume-clean --level=10 --raid-devices=4 \
                /dev/nvme[0123]n1 && mdadm --quiet /dev/md10 --fail /dev/nvme1n1",
        remove: "mdadm --quiet --stop /dev/md10; mdadm --zero-superblock /dev/nvme[0123]n1",
        finding: "array-degraded",
        device: "md10",
    },
    Fault {
        name: "a mirror of SATA disks without one",
        plant: "modprobe raid1; mdadm --quiet --create /dev/md1 --run --assume-clean --metadata=1.2 --level=1 \
                --raid-devices=2 /dev/sda /dev/sdb && mdadm --quiet /dev/md1 --fail /dev/sda",
        remove: "mdadm --quiet --stop /dev/md1; mdadm --zero-superblock /dev/sda /dev/sdb",
        finding: "array-degraded",
        device: "md1",
    },
    Fault {
        name: "a mirror of drives that is rebuilt",
        plant: "modprobe raid1; mdadm --quiet --create /dev/md2 --run --assume-clean --metadata=1.2 --level=1 \
                --raid-devices=2 /dev/nvme0n1 /dev/nvme1n1 && \
                mdadm --quiet /dev/md2 --fail /dev/nvme1n1 --remove /dev/nvme1n1 && \
                echo 100 >/sys/block/md2/md/sync_speed_min && echo 100 >/sys/block/md2/md/sync_speed_max && \
                mdadm --zero-superblock /dev/nvme1n1 && mdadm --quiet /dev/md2 --add /dev/nvme1n1 && sleep 1",
        remove: "mdadm --quiet --stop /dev/md2; mdadm --zero-superblock /dev/nvme[01]n1",
        finding: "array-degraded",
        device: "md2",
    },
    Fault {
        name: "a check of an array",
        plant: "modprobe raid1; mdadm --quiet --create /dev/md1 --run --assume-clean --metadata=1.2 --level=1 \
                --raid-devices=2 /dev/sda /dev/sdb; cd /sys/block/md1/md; \
                echo 100 >sync_speed_min; echo 100 >sync_speed_max; echo check >sync_action; sleep 1",
        remove: "echo idle >/sys/block/md1/md/sync_action; mdadm --quiet --stop /dev/md1; \
                 mdadm --zero-superblock /dev/sda /dev/sdb",
        finding: "array-busy",
        device: "md1",
    },
    Fault {
        name: "a mirror that is made equal for the first time",
        plant: "modprobe raid1; echo 100 >/proc/sys/dev/raid/speed_limit_max; echo 100 >/proc/sys/dev/raid/speed_limit_min; \
                mdadm --quiet --create /dev/md1 --run --metadata=1.2 --level=1 --raid-devices=2 /dev/sda /dev/sdb; sleep 1",
        remove: "mdadm --quiet --stop /dev/md1; mdadm --zero-superblock /dev/sda /dev/sdb; \
                 echo 200000 >/proc/sys/dev/raid/speed_limit_max; echo 1000 >/proc/sys/dev/raid/speed_limit_min",
        finding: "array-busy",
        device: "md1",
    },
    Fault {
        name: "a partition that begins in the middle of a sector",
        plant: "modprobe scsi_debug dev_size_mb=64 physblk_exp=3; sleep 1; addpart /dev/sdc 1 63 100000",
        remove: "delpart /dev/sdc 1; modprobe -r scsi_debug",
        finding: "misaligned",
        device: "sdc1",
    },
    Fault {
        name: "a volume that begins in the middle of a sector",
        plant: "modprobe dm_mod; modprobe scsi_debug dev_size_mb=64 physblk_exp=3; sleep 1; \
                echo 0 100000 linear /dev/sdc 1 | dmsetup create --noudevsync askew",
        remove: "dmsetup remove --noudevsync askew; modprobe -r scsi_debug",
        finding: "misaligned",
        device: "dm-0",
    },
    Fault {
        name: "all interrupts of a NIC on one core",
        plant: "interrupts_to 0 0 0",
        remove: "interrupts_to 0 1 0",
        finding: "interrupts-one-core",
        device: "eth0",
    },
];

/// They cost nothing that is known beforehand: notes, which stand by their names among the server's own.
const NOTES: [Fault; 4] = [
    Fault {
        name: "XFS that believes in other stripes",
        plant: "modprobe -a raid0 xfs; mdadm --quiet --create /dev/md0 --run --level=0 --chunk=64 --raid-devices=2 \
                /dev/nvme0n1 /dev/nvme1n1; mkfs.xfs -q -f -l size=64m,su=32k -d agcount=2,su=128k,sw=4 \
                /dev/md0 2>/dev/null; mkdir -p /mnt/md0; \
                mount /dev/md0 /mnt/md0",
        remove: "umount /mnt/md0; mdadm --quiet --stop /dev/md0; mdadm --zero-superblock /dev/nvme[01]n1",
        finding: "stripe-mismatch",
        device: "md0",
    },
    Fault {
        name: "ext4 that believes in other stripes",
        plant: "modprobe -a raid0 ext4; mdadm --quiet --create /dev/md0 --run --level=0 --chunk=64 --raid-devices=2 \
                /dev/nvme0n1 /dev/nvme1n1; mkfs.ext4 -q -F -E stride=16,stripe_width=64 /dev/md0; mkdir -p /mnt/md0; \
                mount /dev/md0 /mnt/md0",
        remove: "umount /mnt/md0; mdadm --quiet --stop /dev/md0; mdadm --zero-superblock /dev/nvme[01]n1",
        finding: "stripe-mismatch",
        device: "md0",
    },
    Fault {
        name: "ext4 on a striped volume that believes in other stripes",
        plant: "modprobe -a dm_mod ext4; echo 0 1048576 striped 2 128 /dev/nvme0n1 0 /dev/nvme1n1 0 | \
                dmsetup create --noudevsync striped; mkfs.ext4 -q -F -E stride=16,stripe_width=64 /dev/dm-0; \
                mkdir -p /mnt/dm; mount /dev/dm-0 /mnt/dm",
        remove: "umount /mnt/dm; dmsetup remove --noudevsync striped",
        finding: "stripe-mismatch",
        device: "dm-0",
    },
    Fault {
        name: "XFS below encryption that believes in other stripes",
        plant: "modprobe -a dm_mod dm_crypt xfs; echo 0 1048576 striped 2 128 /dev/nvme0n1 0 /dev/nvme1n1 0 | \
                dmsetup create --noudevsync striped; \
                echo 0 1048576 crypt aes-xts-plain64 $(printf '0123456789abcdef%.0s' 1 2 3 4) 0 /dev/dm-0 0 | \
                dmsetup create --noudevsync secret; mkfs.xfs -q -f -l size=64m,su=32k -d agcount=2,su=128k,sw=4 \
                /dev/dm-1 2>/dev/null; mkdir -p /mnt/dm; mount /dev/dm-1 /mnt/dm",
        remove: "umount /mnt/dm; dmsetup remove --noudevsync secret; dmsetup remove --noudevsync striped",
        finding: "stripe-mismatch",
        device: "dm-0",
    },
];

/// A server whose NIC and drives are at different sockets.
const APART: &str = r#"
[processor]
sockets = 2
cores = 2

[[nic]]
name = "eth"
on = "node0"
pcie = "1.0 x1"
rate = "1G"
ports = 4

[[disk]]
name = "nvme"
count = 2
on = "node1"
pcie = "4.0 x4"
read = "7GB/s"
"#;

#[test]
fn drives_far_from_the_nic_are_the_first_finding() {
    if !thorough() {
        eprintln!("skipped: a server in QEMU with its drives far from its NIC: ./test --thorough");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("apart.toml");
    std::fs::write(&file, APART).expect("written");
    let Some(guest) = QemuServer::up("apart", &[file.to_str().expect("text")]) else { return };
    assert_eq!(guest.findings(), ["node-apart", "pcie-card-older"]);
    guest.down();
}

#[test]
fn each_planted_fault_is_the_first_finding_and_nothing_else_is_found() {
    if !thorough() {
        eprintln!("skipped: planted faults on a server in QEMU: ./test --thorough");
        return;
    }
    let Some(guest) = QemuServer::up("faults", &[]) else { return };
    assert_eq!(guest.findings(), FINDINGS);
    let mut wrong: Vec<String> = SLOW.iter().filter_map(|fault| planted(&guest, fault, true)).collect();
    wrong.extend(NOTES.iter().filter_map(|fault| planted(&guest, fault, false)));
    wrong.extend(recorded::wrong(&guest));
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(guest.findings(), FINDINGS, "after all of them");
    guest.down();
}

/// What is wrong with what is found while the fault is there: another finding, or one too many. It is taken away
/// whatever was found.
fn planted(guest: &QemuServer, fault: &Fault, first: bool) -> Option<String> {
    let program = program();
    let text = guest.succeed(&format!(
        "{INTERRUPTS_TO} ( {}\n) >&2; {program} probe --json; status=$?; ( {}\n) >&2; exit $status",
        fault.plant, fault.remove
    ));
    let machine: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let wrong = other_than(&machine, fault.finding, fault.device, first, &FINDINGS)?;
    Some(format!("{}: {wrong}", fault.name))
}

/// None where this finding about this device is what is found beside the usual ones, and the first of all where that
/// is asked.
pub(super) fn other_than(
    machine: &Value,
    finding: &str,
    device: &str,
    first: bool,
    usual: &[&str],
) -> Option<String> {
    let found = machine["findings"].as_array().expect("findings");
    let ids: Vec<&str> = found.iter().filter_map(|one| one["id"].as_str()).collect();
    let planted: Vec<usize> = (0..ids.len()).filter(|at| !usual.contains(&ids[*at])).collect();
    let right = match planted.as_slice() {
        [at] => ids[*at] == finding && found[*at].to_string().contains(device) && (*at == 0 || !first),
        _ => false,
    };
    (!right).then(|| format!("{finding} of {device} was wanted, {ids:?} found"))
}
