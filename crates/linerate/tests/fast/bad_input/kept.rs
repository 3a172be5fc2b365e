//! A store of results that cannot be written: one warning, and the result and the exit status as ever. Behind
//! sudo nothing is written that the user may not write.

use super::ground::TestFolder;
use crate::support::process::ProcessEnd;
use crate::support::rights;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::Path;

/// On a busy machine a program may wait for its turn for some hundredths of a second: a sample is longer.
const QUICK: [&str; 10] =
    ["memory", "--kernels", "read", "--working-set", "64k", "--cores", "1", "--seconds", "0.2", "--json"];
/// Nobody, by the numbers that most systems have.
const NOBODY: u32 = 65_534;

/// Measured, printed, and one sentence why it is not kept.
fn warns(ended: &ProcessEnd, parts: &[&str]) {
    ended.gives(0).says(&["is not kept for `linerate list`: ", "--no-save"]).says(parts);
    let run: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(run["errors"], serde_json::json!([]));
}

fn close(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o500)).expect("a mode");
}

#[test]
fn a_folder_that_may_not_be_written() {
    let ground = TestFolder::new();
    let results = ground.state().join("linerate/results");
    std::fs::create_dir_all(&results).expect("folders");
    if rights::root() {
        lchown(&results, Some(NOBODY), Some(NOBODY)).expect("given away");
    }
    close(&results);
    let Some(mut command) = ground.unprivileged(&QUICK) else { return };
    warns(&ground.run(&mut command), &["linerate/results", "ermission denied"]);
    let Some(mut command) = ground.unprivileged(&[&QUICK[..], &["--no-save"]].concat()) else { return };
    ground.run(&mut command).is_content();
}

#[test]
fn a_disk_that_takes_no_more() {
    if !rights::has("prlimit") {
        return rights::skipped("no prlimit");
    }
    let ground = TestFolder::new();
    let words = [&["--fsize=2000", env!("CARGO_BIN_EXE_linerate")], &QUICK[..]].concat();
    warns(&ground.run(&mut ground.command("prlimit", &words)), &["linerate/results", "too large"]);
    let left: Vec<_> = std::fs::read_dir(ground.state().join("linerate/results")).expect("a list").collect();
    assert!(left.is_empty(), "nothing half written: {left:?}");
}

#[test]
fn a_file_system_of_the_state_folder_that_is_full() {
    if !rights::may_mount() {
        return rights::skipped("only root may mount a small tmpfs");
    }
    let ground = TestFolder::new();
    let state = ground.state();
    let full = format!(
        "mount -t tmpfs -o size=16k none '{0}' && head -c 16k /dev/zero >'{0}/full' && exec \"$0\" \"$@\"",
        state.display()
    );
    let shell = ["--mount", "sh", "-c", &full, env!("CARGO_BIN_EXE_linerate")];
    let with = |words: &[&str]| ground.run(&mut ground.command("unshare", &[&shell[..], words].concat()));
    warns(&with(&QUICK), &["No space left on device"]);
    with(&["list"]).is_content();
}

#[test]
fn a_file_in_the_way() {
    let ground = TestFolder::new();
    std::fs::write(ground.state().join("linerate"), "").expect("a file");
    warns(&ground.run(&mut ground.linerate(&QUICK)), &["linerate/results", "ot a directory"]);
    let ended = ground.run(&mut ground.linerate(&["report", "@-1"]));
    ended.gives(3).says(&["kept results cannot be read", "linerate/results"]);
}

#[test]
fn links_and_folders_of_another_user() {
    if !rights::root() {
        return rights::skipped("only root can give a link away");
    }
    let ground = TestFolder::new();
    let (link, elsewhere) = (ground.state().join("linerate"), ground.path().join("linerate-elsewhere"));
    std::fs::create_dir(&elsewhere).expect("a folder");
    symlink(&elsewhere, &link).expect("a link");
    lchown(&link, Some(NOBODY), Some(NOBODY)).expect("given away");
    warns(&ground.run(&mut ground.linerate(&QUICK)), &["is a link of another user (number 65534)"]);
    assert_eq!(std::fs::read_dir(&elsewhere).expect("a list").count(), 0);
    std::fs::remove_file(&link).expect("removed");
    std::fs::create_dir_all(link.join("results")).expect("folders");
    lchown(link.join("results"), Some(NOBODY), Some(NOBODY)).expect("given away");
    warns(&ground.run(&mut ground.linerate(&QUICK)), &["belongs to another user (number 65534)"]);
    ground.run(&mut ground.linerate(&["list"])).gives(3).says(&["belongs to another user"]);
}

#[test]
fn behind_sudo_it_is_the_users_and_root_writes_nowhere_for_them() {
    if !rights::root() {
        return rights::skipped("only root can be behind sudo");
    }
    let ground = TestFolder::new();
    let sudo = |words: &[&str]| {
        let mut command = ground.linerate(words);
        command.env("SUDO_UID", "65534").env("SUDO_GID", "65534");
        ground.run(&mut command)
    };
    let ended = sudo(&QUICK);
    if ended.stderr.contains("cannot be acted for") {
        return rights::skipped("this root may not become another user");
    }
    ended.is_content();
    let kept = ground.state().join("linerate/results/000001.json");
    for path in kept.ancestors().take(3) {
        let state = std::fs::metadata(path).expect("there");
        assert_eq!((state.uid(), state.gid()), (NOBODY, NOBODY), "{}", path.display());
    }
    assert!(sudo(&["list"]).stdout.contains("-1 "));

    // Their own link to what is root's.
    let (link, of_root) = (ground.state().join("linerate"), ground.path().join("linerate-of-root"));
    std::fs::remove_dir_all(&link).expect("removed");
    std::fs::create_dir_all(of_root.join("results")).expect("folders");
    symlink(&of_root, &link).expect("a link");
    lchown(&link, Some(NOBODY), Some(NOBODY)).expect("given away");
    warns(&sudo(&QUICK), &["belongs to another user (number 0)"]);
    std::fs::remove_dir(of_root.join("results")).expect("removed");
    warns(&sudo(&QUICK), &["ermission denied"]);
    assert_eq!(std::fs::read_dir(&of_root).expect("a list").count(), 0);
}
