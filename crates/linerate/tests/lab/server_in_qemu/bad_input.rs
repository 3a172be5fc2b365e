//! What cannot be booted says why in one sentence, and leaves nothing running.

use super::guest::{QemuServer, said};
use super::thorough;
use std::process::Command;

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
    assert!(refused("little", &["--memory", "64M"], 2).contains("512M of memory or more"));
    assert!(refused("absent", &["/nonexistent.toml"], 2).contains("/nonexistent.toml cannot be read"));
    assert!(refused("join", &["--join", "nobody"], 3).contains("no guest that is up"));
    let said = refused("memory", &["--memory", "900000G"], 3);
    if said.contains("LINERATE_INSTALL=0 forbids it") {
        return eprintln!("skipped: {said}");
    }
    assert!(said.contains("MiB of memory are available of"), "{said}");
}

/// A kernel without a first program panics; one that is given no time to boot hangs.
#[test]
fn a_boot_that_panics_or_hangs_is_taken_down_with_its_last_words() {
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

/// A command in the guest ends with the guest, and says so; the power is off then, and the same server boots again.
#[test]
fn a_guest_that_panics_or_hangs_later_ends_the_command_that_waits_for_it() {
    const PATIENCE_SECONDS: &str = "40";
    const HUNG: &str = "did not answer for 40 seconds (--boot-seconds) and was switched off";
    if !thorough() {
        eprintln!("skipped: guests that panic and hang: ./test --thorough");
        return;
    }
    let Some(guest) = QemuServer::up("later", &["--boot-seconds", PATIENCE_SECONDS]) else { return };
    let ends = |words: &str| {
        let output = guest.shell(words);
        assert_eq!(output.status.code(), Some(1), "{words}: {}", said(&output));
        assert_eq!(guest.processes(), Vec::<String>::new(), "{words}");
        // The next command says the same.
        assert_eq!(said(&guest.shell("true")), said(&output));
        said(&output)
    };
    let panic = "echo c >/proc/sysrq-trigger; sleep 600";
    let said_of = ends(panic);
    assert!(said_of.contains("has ended (its kernel panicked); the last lines of its log:\n"), "{said_of}");
    assert!(said_of.contains("Kernel panic - not syncing: sysrq triggered crash"), "{said_of}");
    guest.reboot();
    let said_of = ends(&format!("echo 0 >/proc/sys/kernel/panic; {panic}"));
    assert!(said_of.contains(&format!("{HUNG} (its kernel panicked)")), "{said_of}");
    guest.reboot();
    // Without a word: its processors are stopped. What runs as long as that on one that lives, goes on.
    guest.succeed("sleep 50");
    let process = std::fs::read_to_string(guest.shared("../qemu-pid")).expect("its process");
    let stopped = Command::new("kill").args(["-STOP", process.trim()]).status().expect("kill");
    assert!(stopped.success());
    let said_of = ends("true");
    assert!(said_of.contains(&format!("{HUNG}; the last lines of its log:\n")), "{said_of}");
    guest.reboot();
    assert_eq!(guest.succeed("echo up").trim(), "up");
    guest.down();
}
