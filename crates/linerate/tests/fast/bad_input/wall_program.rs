//! `linerate wall` and the program that it starts: away, another one, of another version, not executable; found in PATH.

use crate::support::process::Ends;
use crate::support::{keep_apart, kept};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

const PLAN: [&str; 7] = ["wall", "plan", "--grid", "1x1", "--tile", "64x64", "--json"];
const SCRIPT: u32 = 0o755;

#[test]
fn a_program_of_the_wall_that_is_missing_or_another_one_is_refused_with_the_remedy() {
    // In the file system of the build: a link costs nothing, and linerate is looked for where it was started.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (linerate, wall) = (folder.path().join("linerate"), folder.path().join("linerate-wall"));
    std::fs::hard_link(env!("CARGO_BIN_EXE_linerate"), &linerate).expect("a link");
    let command = |args: &[&str]| {
        let mut command = Command::new(&linerate);
        keep_apart(&mut command, &kept()).args(args).current_dir(folder.path());
        // Neither an empty nor a relative folder of PATH is looked into.
        command.env("PATH", ":bin:/nonexistent").env_remove("LINERATE_LOG");
        command
    };
    let remedy = format!("; install linerate-wall {} beside linerate", env!("CARGO_PKG_VERSION"));
    let refused = |cause: &str| {
        command(&PLAN).ended().refused(3, &[cause, &remedy]);
    };
    std::fs::create_dir(folder.path().join("bin")).expect("a folder");
    symlink(env!("CARGO_BIN_EXE_linerate-wall"), folder.path().join("bin/linerate-wall")).expect("a link");
    refused("there is no program linerate-wall in /");
    for (script, mode, cause) in [
        (
            "#!/bin/sh\necho linerate-wall 0.0.1",
            SCRIPT,
            "linerate-wall is version 0.0.1, and linerate is version",
        ),
        ("#!/bin/sh\necho linerate 0.1.0", SCRIPT, "is another program"),
        ("#!/bin/sh\nexit 1", SCRIPT, "is another program"),
        ("#!/nonexistent", SCRIPT, "cannot be started"),
        ("", 0o644, "not executable (chmod +x): Permission denied"),
    ] {
        std::fs::write(&wall, script).expect("a script");
        std::fs::set_permissions(&wall, std::fs::Permissions::from_mode(mode)).expect("a mode");
        refused(cause);
    }
    // What is asked of linerate itself needs no other program.
    for help in [["wall", "--help"], ["help", "wall"]] {
        command(&help).ended().gives(0).shows(&["Usage: linerate wall ", "linerate wall demo --grid 3x2"]);
    }
    std::fs::remove_file(&wall).expect("removed");
    let path = folder.path().join("bin");
    let plan = command(&[&["--log", "log"], &PLAN[..]].concat()).env("PATH", &path).ended();
    assert!(plan.is_content().json()["need"].is_object(), "{plan}");
    let log = std::fs::read_to_string(folder.path().join("log")).expect("a log");
    assert!(log.contains("linerate-wall takes over") && log.ends_with("linerate ends status=0\n"), "{log}");
    command(&["wall", "plan", "/nonexistent"]).env("PATH", &path).ended().refused(3, &["movie /nonexistent"]);
    command(&["wall", "plan"]).env("PATH", &path).ended().refused(2, &["name a movie"]);
}
