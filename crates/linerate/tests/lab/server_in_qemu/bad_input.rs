//! What cannot be booted says why in one sentence, and leaves nothing running.

use super::guest::{QemuServer, said};
use super::thorough;

/// A sentence with this status; nothing is left of the guest.
fn refused(test: &str, options: &[&str], status: i32) -> String {
    let guest = QemuServer::named(test);
    let output = guest.try_up(options);
    assert_eq!(output.status.code(), Some(status), "{options:?}: {}", said(&output));
    assert_eq!(guest.remains(), Vec::<String>::new(), "{options:?}");
    said(&output)
}

#[test]
fn what_qemu_cannot_boot_is_refused_before_anything_starts() {
    if !super::guest::root() {
        eprintln!("skipped: a lab needs root");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("machine.toml");
    let drives = "[processor]\nsockets = 1\ncores = 2\n[[disk]]\nname = \"nvme\"\ncount = 64\non = \"node0\"\n\
                  pcie = \"4.0 x4\"\nread = \"7GB/s\"\n";
    std::fs::write(&file, drives).expect("written");
    let file = file.to_str().expect("text");
    let said = refused("drives", &[file], 3);
    assert_eq!(said, "node0 has 64 cards and slots: QEMU's root has room for 32");
    std::fs::write(file, "[processor]\nsockets = \"two\"\n").expect("written");
    assert!(refused("words", &[file], 2).contains("line 2"));
    assert!(refused("absent", &["/nonexistent.toml"], 2).contains("/nonexistent.toml cannot be read"));
    assert!(refused("join", &["--join", "nobody"], 3).contains("no guest that is up"));
    let said = refused("memory", &["--memory", "900000G"], 3);
    assert!(said.contains("MiB of memory are available of"), "{said}");
}

/// A kernel without a first program panics; one that waits for a debugger hangs.
#[test]
fn a_guest_that_panics_or_hangs_is_taken_down_with_its_last_words() {
    if !thorough() {
        eprintln!("skipped: guests that panic and hang: ./test --thorough");
        return;
    }
    let Some(guest) = QemuServer::up("there", &[]) else { return };
    guest.down();
    let said = refused("panic", &["--kernel-options", "rdinit=/nonexistent"], 1);
    assert!(said.contains("the guest ended while it booted (its kernel panicked)"), "{said}");
    assert!(said.contains("Kernel panic"), "{said}");
    let said = refused("hang", &["--boot-seconds", "3"], 1);
    assert!(said.contains("was not up after 3 seconds"), "{said}");
}
