//! Wrong words, and a user who may not: one sentence, and nothing is made.

use super::{entries, named, script};
use crate::support::lab::lacking;
use crate::support::process::Ends;
use std::process::Command;

#[test]
fn wrong_words_make_nothing() {
    let Some(lab) = named("words") else { return };
    for wrong in [
        ["--nics", "1000,bad"],
        ["--disks", "4x"],
        ["--disks", "1,"],
        ["--mtu", "9"],
        ["--fs", "fat"],
        ["--fs", "btrfs-raid5"],
        ["--file-size", "7k"],
        ["--server-cpu", "-4"],
    ] {
        let output = lab.call("up", &wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "one sentence: {}", output.stderr);
        lab.assert_nothing_remains("wrong words");
    }
}

#[test]
fn without_root_it_says_so() {
    if let Some(lacking) = lacking() {
        eprintln!("skipped: {lacking}");
        return;
    }
    // Nobody may not be able to read where this checkout is.
    let copy = tempfile::tempdir().expect("directory");
    let from = script();
    let from = from.parent().expect("the lab's directory");
    for file in entries(&from.to_string_lossy()) {
        let name = std::path::Path::new(&file).file_name().expect("name").to_owned();
        std::fs::copy(&file, copy.path().join(name)).expect("copy");
    }
    let open: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(copy.path(), open).expect("mode");
    for command in ["up", "down", "run", "peer", "demo", "study"] {
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let output = Command::new("setpriv").args(nobody).arg(copy.path().join("lab")).arg(command).ended();
        assert_eq!(output.status.code(), Some(3), "{command}: {}", output.stderr);
        assert!(output.stderr.contains("must run as root"), "{}", output.stderr);
        assert_eq!(output.stderr.lines().count(), 1, "one sentence: {}", output.stderr);
    }
}
