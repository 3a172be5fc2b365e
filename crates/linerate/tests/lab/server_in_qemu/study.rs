//! `lab study --qemu`: arrays of md and LVM, and NILFS2, which few kernels have, one after another on the same drives.
//! What is looked at is whether they work and are read rightly; their rates are those of an emulator.

use super::guest::{QemuServer, said};
use super::thorough;
use crate::support::lab::folder;
use crate::support::process::Ends;
use crate::support::program;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

const LAYOUTS: [&str; 7] = ["xfs", "ext4", "btrfs", "nilfs2", "md-raid0", "md-raid1", "lvm"];

fn study(output: &Path, words: &[&str]) -> std::process::Child {
    let mut command = Command::new(folder().join("lab"));
    command.args(["study", "--qemu", "--rounds", "3", "--output"]).arg(output).args(words);
    command.env("LINERATE", program()).env("LINERATE_INSTALL", "0").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the lab script starts")
}

#[test]
fn layouts_that_no_guest_has_are_wrong_use() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = study(&folder.path().join("study"), &["--fs", "xfs,zfs"]).ended();
    assert_eq!(ended.status.code(), Some(2));
    assert!(said(&ended).starts_with("“zfs” is no layout of a guest: xfs, "), "{}", said(&ended));
}

#[test]
fn arrays_and_nilfs2_are_compared_within_one_guest() {
    if !thorough() {
        eprintln!("skipped: a study of layouts on a server in QEMU: ./test --thorough");
        return;
    }
    let Some(guest) = QemuServer::up("study", &[]) else { return };
    guest.down();
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("study");
    let job = ["--", "--workers", "2", "--queue-depth", "4", "--pattern", "sequential", "--amount", "8M"];
    let child = study(&output, &job);
    let name = format!("linerate-study-{}", child.id());
    let ended = child.ended();
    if ended.status.code() == Some(3) {
        eprintln!("skipped: {}", said(&ended));
        return;
    }
    ended.gives(0);
    assert!(!Path::new("/run/linerate-lab").join(&name).exists(), "{name} is there");
    let screen = &ended.stdout;
    assert!(screen.starts_with("On a server that QEMU emulates: "), "{screen}");
    for layout in &LAYOUTS[1..] {
        let compared = format!("{layout} (QEMU) against xfs (QEMU): ");
        assert!(screen.contains(&compared), "{compared} {screen}");
    }
    assert!(!screen.contains("too few"), "{screen}");
    for layout in LAYOUTS {
        (1..=3).for_each(|round| is_read_rightly(layout, &output.join(format!("{layout}-{round}"))));
    }
}

/// The file system and what is below it, as `linerate disk` kept it in its result.
fn is_read_rightly(layout: &str, folder: &Path) {
    let text = std::fs::read_to_string(folder.join("run.json")).expect("a result");
    let result: Value = serde_json::from_str(&text).expect("JSON");
    let rates = result["measurements"].as_array().expect("measurements").iter();
    assert!(
        rates.filter(|one| one["bytes_per_second"].as_f64() > Some(0.0)).count() >= 2,
        "{layout}: {text}"
    );
    let machine = &result["machine"];
    let mounted = machine["file_systems"].as_array().expect("file systems").iter();
    let mounted: Vec<&Value> = mounted.filter(|one| one["mount_point"] == "/run/study").collect();
    let is_file_system = matches!(layout, "ext4" | "btrfs" | "nilfs2");
    let fs = if is_file_system { layout } else { "xfs" };
    assert_eq!((mounted.len(), &mounted[0]["kind"]), (1, &fs.into()), "{mounted:?}");
    let disk = |name: &str| {
        let disks = machine["disks"].as_array().expect("disks");
        disks
            .iter()
            .find(|disk| disk["name"] == name)
            .unwrap_or_else(|| panic!("{layout}: no {name}"))
            .clone()
    };
    let two = serde_json::json!(["nvme0n1", "nvme1n1"]);
    match layout {
        "md-raid0" | "md-raid1" => {
            let array = disk("md0");
            assert_eq!((&array["array"]["level"], &array["members"]), (&layout[3..].into(), &two), "{array}");
        }
        "lvm" => {
            let volume = disk("dm-0");
            assert_eq!((&volume["mapped_by"], &volume["members"]), (&"LVM".into(), &two), "{volume}");
            assert_eq!(volume["array"]["chunk_bytes"], 65536, "{volume}");
        }
        _ => {}
    }
}
