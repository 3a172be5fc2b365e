//! Arrays made by hand: right ones, and each thing that can be wrong.

use super::*;
use proptest::prelude::*;

fn array(level: &str, chunk: u64, disks: u32, data: u32) -> Array {
    Array {
        level: level.into(),
        chunk_bytes: Fact::Known(chunk),
        disks: Fact::Known(disks),
        data_disks: Fact::Known(data),
        stripe_bytes: Fact::Known(chunk.saturating_mul(data.into())),
        ..Array::default()
    }
}

fn disk(name: &str, members: &[&str]) -> Disk {
    Disk {
        name: name.into(),
        members: members.iter().map(|member| (*member).to_string()).collect(),
        misaligned_bytes: Fact::Known(0),
        ..Disk::default()
    }
}

/// md0 of four partitions, raid5 of 64 KiB, with a file system on a volume on it.
fn machine(kind: &str, options: &str, believed: Option<Array>) -> Machine {
    let mut disks: Vec<Disk> = ["sda1", "sdb1", "sdc1", "sdd1"].map(|name| disk(name, &[])).into();
    let mut md = disk("md0", &["sda1", "sdb1", "sdc1", "sdd1"]);
    md.array = Some(array("raid5", 64 << 10, 4, 3));
    md.optimal_io_bytes = Fact::Known(192 << 10);
    disks.push(md);
    disks.push(disk("dm-0", &["md0"]));
    let file_system = FileSystem {
        mount_point: "/data".into(),
        kind: kind.into(),
        options: options.into(),
        devices: vec!["dm-0".into()],
        array: believed,
        ..FileSystem::default()
    };
    Machine { disks, file_systems: vec![file_system], ..Machine::default() }
}

fn remarks(machine: &Machine, requests: Option<(u64, Pattern)>) -> Vec<String> {
    let checked = check(machine, requests);
    assert_eq!(checked.len(), 1, "{checked:?}");
    let mark = |good| if good { "ok" } else { "change" };
    let shown = checked[0].remarks.iter();
    shown
        .map(|remark| {
            format!("{}: {} | {}", mark(remark.good), remark.text, remark.remedy.clone().unwrap_or_default())
        })
        .collect()
}

fn has(machine: &Machine, requests: Option<(u64, Pattern)>, words: &[&str]) {
    let seen = remarks(machine, requests);
    assert!(
        seen.iter().any(|remark| words.iter().all(|word| remark.contains(word))),
        "{words:?} not in {seen:#?}"
    );
}

#[test]
fn an_array_that_is_as_it_should_be() {
    let machine = machine("xfs", "rw", Some(array("", 64 << 10, 4, 3)));
    let seen = remarks(&machine, Some((192 << 10, Pattern::SequentialWrite)));
    assert!(seen.iter().all(|remark| remark.starts_with("ok")), "{seen:#?}");
    has(&machine, None, &["ok: xfs on /data knows the stripe: su=64 KiB, sw=3"]);
    has(&machine, None, &["ok: aligned: sda1, sdb1, sdc1, sdd1, md0, dm-0"]);
    has(&machine, None, &["ok: the kernel announces the stripe of 192 KiB"]);
    let checked = &check(&machine, None)[0];
    assert_eq!(checked.stripe_bytes, Fact::Known(192 << 10));
    assert_eq!(checked.file_systems, ["xfs on /data"]);
}

#[test]
fn a_file_system_that_does_not_know_the_stripe() {
    has(
        &machine("xfs", "rw", None),
        None,
        &["change: xfs on /data does not know", "mkfs.xfs -d su=64k,sw=3"],
    );
    let smaller = machine("xfs", "rw", Some(array("", 32 << 10, 4, 3)));
    has(&smaller, None, &["believes in su=32 KiB, sw=3", "-o sunit=128,swidth=384"]);
    let larger = machine("xfs", "rw", Some(array("", 256 << 10, 4, 3)));
    has(&larger, None, &["believes in su=256 KiB", "again", "no smaller unit"]);
    has(&machine("ext4", "rw", None), None, &["does not know", "tune2fs -E stride=16,stripe_width=48"]);
    has(&machine("ext4", "rw,stripe=48", None), None, &["ok: ext4 on /data knows the stripe of 192 KiB"]);
    has(
        &machine("ext4", "rw,stripe=16", None),
        None,
        &["believes in a stripe of 64 KiB, the array has 192 KiB"],
    );
    has(&machine("ext4", "rw,stripe=x", None), None, &["does not know"]);
}

/// The probe knows ext4's block from the kernel: its word counts, not the usual 4 KiB.
#[test]
fn an_ext4_of_smaller_blocks_counts_in_its_own() {
    let whole = |bytes| Array { stripe_bytes: Fact::Known(bytes), ..Array::default() };
    let right = machine("ext4", "rw,stripe=192", Some(whole(192 << 10)));
    has(&right, None, &["ok: ext4 on /data knows the stripe of 192 KiB"]);
    let wrong = machine("ext4", "rw,stripe=48", Some(whole(48 << 10)));
    has(&wrong, None, &["believes in a stripe of 48 KiB", "stride=64,stripe_width=192", "blocks of 1 KiB"]);
}

#[test]
fn what_is_beside_its_block_missing_or_announced_wrongly() {
    let mut wrong = machine("btrfs", "rw", None);
    wrong.disks[1].misaligned_bytes = Fact::Known(512);
    wrong.disks[1].kind = DiskKind::Partition;
    has(&wrong, None, &["change: sdb1 begins 512 bytes behind", "parted --align optimal"]);
    wrong.disks[4].optimal_io_bytes = Fact::Known(128 << 10);
    has(&wrong, None, &["announces 128 KiB", "the stripe is 192 KiB"]);
    wrong.disks[4].array = Some(Array { degraded: Fact::Known(1), ..array("raid5", 64 << 10, 4, 3) });
    has(&wrong, None, &["missing or failed: 1", "mdadm --manage"]);
    wrong.disks[4].array = Some(array("raid5", 6000, 4, 3));
    has(&wrong, None, &["6000 bytes is not a whole number", "again"]);
}

#[test]
fn requests_that_do_not_fit() {
    let machine = machine("ext4", "rw,stripe=48", None);
    let fit = |request, pattern, words: &[&str]| has(&machine, Some((request, pattern)), words);
    fit(64 << 10, Pattern::SequentialRead, &["change", "reach 1.0 of 3 data disks", "192 KiB at once"]);
    fit(128 << 10, Pattern::RandomRead, &["change", "busy 2.0 disks", "at least 128 KiB"]);
    // Seven disks with two copies of each chunk in other rows: seven chunks of data in a stripe.
    let mut far = self::machine("btrfs", "rw", None);
    far.disks[4].array = Some(array("raid10", 64 << 10, 7, 7));
    has(&far, Some((448 << 10, Pattern::SequentialRead)), &["ok", "touch 7.0 of 7"]);
    fit(4096, Pattern::RandomWrite, &["ok", "touch 1.0 of 3", "4.00 bytes"]);
}

#[test]
fn a_file_system_of_several_disks_is_an_array_once() {
    let mount = |point: &str| FileSystem {
        mount_point: point.into(),
        kind: "btrfs".into(),
        source: "/dev/sdb".into(),
        devices: vec!["sdb".into(), "sdc".into()],
        array: Some(array("raid0", 64 << 10, 2, 2)),
        ..FileSystem::default()
    };
    let machine = Machine { file_systems: vec![mount("/a"), mount("/b")], ..Machine::default() };
    let checked = check(&machine, None);
    assert_eq!(checked.len(), 1, "{checked:?}");
    assert_eq!(checked[0].name, "btrfs on /a");
    let alone = FileSystem { array: Some(array("single", 0, 1, 1)), ..mount("/") };
    assert!(check(&Machine { file_systems: vec![alone], ..Machine::default() }, None).is_empty());
}

#[test]
fn what_is_not_known_is_not_judged() {
    let mut machine = machine("xfs", "rw", None);
    machine.disks[4].array = Some(Array {
        chunk_bytes: Fact::unknown("damaged"),
        stripe_bytes: Fact::unknown("damaged"),
        ..array("raid5", 0, 4, 3)
    });
    let checked = &check(&machine, Some((1 << 20, Pattern::RandomRead)))[0];
    assert_eq!(checked.stripe_bytes, Fact::unknown("damaged"));
    assert!(checked.remarks.iter().all(|remark| remark.good), "{checked:?}");
    // A disk that is on itself.
    machine.disks[5].members = vec!["dm-0".into()];
    assert!(check(&machine, None)[0].file_systems.is_empty());
}

proptest! {
    #[test]
    fn no_array_is_too_odd(
        level in "(raid[0156]{1,2}|linear|striped|raid5_ls|.{0,5})", chunk in any::<u64>(), disks in any::<u32>(),
        data in any::<u32>(), request in any::<u64>(), unit in any::<u64>(), kind in "(xfs|ext4|btrfs|zfs)", random in any::<bool>(),
    ) {
        let mut machine = machine(&kind, "stripe=18446744073709551615", Some(array("", unit, disks, data)));
        machine.disks[4].array = Some(array(&level, chunk, disks, data));
        let pattern = if random { Pattern::RandomWrite } else { Pattern::SequentialWrite };
        for checked in check(&machine, Some((request, pattern))) {
            for remark in checked.remarks {
                prop_assert_eq!(remark.good, remark.remedy.is_none());
            }
        }
    }
}
