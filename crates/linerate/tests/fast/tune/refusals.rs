//! What cannot be changed: a file that hangs, somebody else at work, no right to write.

use super::ran;
use crate::support::disk_places::LoopDevice;
use crate::support::process::Ends;
use crate::support::tune_place::{Journals, MachineFolder, device_values};
use std::process::Command;
use std::time::Duration;

/// A file that never answers, as that of a driver that hangs: told, and not waited for.
#[test]
fn a_file_that_hangs_is_not_waited_for() {
    let tree = MachineFolder::new();
    let path = tree.path("proc/sys/vm/swappiness");
    std::fs::remove_file(&path).expect("removed");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo starts").success());
    let started = std::time::Instant::now();
    let (status, text) = ran(&["--root", &tree.root(), "--setting", "swappiness", "--all"]);
    assert_eq!(status, 0, "{text}");
    assert!(text.contains("no regular file"), "{text}");
    let (status, text) = ran(&["apply", "--yes", "--root", &tree.root(), "--setting", "swappiness=5"]);
    assert_eq!(status, 1, "{text}");
    assert!(text.contains("not changed") && text.contains("no regular file"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn two_at_once_are_reported() {
    let tree = MachineFolder::new();
    let journals = Journals::new();
    let (root, folder) = (tree.root(), journals.folder());
    let lock = std::fs::File::create(journals.folder_path().join("tune.lock")).expect("a file");
    lock.lock().expect("held");
    let (status, text) =
        ran(&["apply", "--yes", "--root", &root, "--journal", &folder, "--setting", "swappiness=5"]);
    assert_eq!(status, 3, "{text}");
    assert!(text.contains("another linerate is changing settings now"), "{text}");
    assert_eq!(tree.text("proc/sys/vm/swappiness"), "60\n");
}

/// Not root, and a /sys that is mounted read-only: a sentence each, and nothing is changed.
#[test]
fn without_the_right_to_write_nothing_is_changed() {
    let Some(device) = LoopDevice::of_mib(16) else { return };
    let before = device_values(&device);
    let journals = Journals::new();
    let setting = format!("read-ahead:{}=77", device.name());
    let program = env!("CARGO_BIN_EXE_linerate");
    let apply =
        format!("'{program}' tune apply --yes --setting '{setting}' --journal '{}'", journals.folder());
    let told = |command: &mut Command, why: &str| {
        let ended = command.ended();
        ended.gives(1);
        assert!(ended.text().contains(why), "{ended}");
    };
    let script = format!("mount -o remount,bind,ro /sys && {apply}");
    told(Command::new("unshare").args(["--mount", "sh", "-c", &script]), "mounted read-only");
    // The program's own folder may be closed to everybody else: it is run from a place that is open.
    let open = tempfile::tempdir().expect("a temporary directory");
    let copy = open.path().join("linerate");
    std::fs::copy(program, &copy).expect("copied");
    for path in [open.path(), journals.folder_path()] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("opened");
    }
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut command = Command::new("setpriv");
    command.args(nobody).arg(&copy).args(["tune", "apply", "--yes", "--setting", &setting]);
    let fresh = journals.folder_path().join("nobody");
    told(command.arg("--journal").arg(&fresh), "settings are root's to change");
    assert_eq!(device_values(&device), before);
}
