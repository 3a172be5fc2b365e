//! Sources that cannot be read: refused at the start, before anything is measured or made.

use super::ground::{TestFolder, short};
use crate::support::rights;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Refused with status 3, one sentence with these parts, and no folder.
fn refused(ground: &TestFolder, source: &str, parts: &[&str]) {
    let ended = ground.run(&mut ground.linerate(&short("disk,network,path", &["--source", source])));
    ended.gives(3).says(&[&[source], parts].concat());
    ground.no_result();
}

#[test]
fn a_missing_source() {
    refused(&TestFolder::new(), "missing", &["source", "not there", "check the path"]);
}

#[test]
fn a_source_below_a_file_and_a_link_in_circles() {
    let ground = TestFolder::new();
    ground.file("file", 10);
    refused(&ground, "file/below", &["check the path"]);
    std::os::unix::fs::symlink("circle", ground.path().join("circle")).expect("a link");
    refused(&ground, "circle", &["check the path"]);
}

#[test]
fn an_empty_source() {
    let ground = TestFolder::new();
    ground.file("empty", 0);
    refused(&ground, "empty", &["nothing to read", "name a file"]);
}

#[test]
fn a_source_smaller_than_a_block() {
    let ground = TestFolder::new();
    ground.file("small", 70_000);
    refused(&ground, "small", &["less than one block", "--transfer"]);
    let words = short("disk", &["--source", "small", "--block", "4k", "--json"]);
    ground.run(&mut ground.linerate(&words)).is_content();
}

#[test]
fn a_named_pipe_is_not_waited_for() {
    let ground = TestFolder::new();
    assert!(ground.command("mkfifo", &["pipe"]).status().expect("mkfifo").success());
    refused(&ground, "pipe", &["neither a file nor a block device"]);
    refused(&ground, "/dev/null", &["neither a file nor a block device"]);
}

#[test]
fn one_bad_source_among_good_ones() {
    let ground = TestFolder::new();
    ground.file("good", 4 << 20);
    let words = short("disk,path", &["--source", "good", "--source", "bad"]);
    ground.run(&mut ground.linerate(&words)).gives(3).says(&["source bad", "not there"]);
    ground.no_result();
}

#[test]
fn sources_that_this_user_may_not_read() {
    let ground = TestFolder::new();
    let secret = ground.file("secret", 4 << 20);
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o000)).expect("a mode");
    let closed = ground.path().join("closed");
    std::fs::create_dir(&closed).expect("a directory");
    std::fs::write(closed.join("file"), vec![1; 4 << 20]).expect("a file");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).expect("a mode");
    for (source, parts) in [
        ("secret", ["no permission", "chmod"]),
        ("closed", ["Permission denied", "another directory"]),
        ("closed/file", ["closed to this user", "root"]),
    ] {
        let Some(mut command) = ground.unprivileged(&short("disk,path", &["--source", source])) else {
            return rights::skipped("setpriv is missing: no user without rights");
        };
        // Only root could look below `closed`, and compare.
        let ended = ground.run(&mut command);
        ended.gives(3).says(&[source]).says(&parts);
        ground.no_result();
    }
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).expect("a mode");
}

#[test]
fn a_device_without_permission() {
    let Some(device) = closed_device() else {
        return rights::skipped("no block device here that others may not read");
    };
    let ground = TestFolder::new();
    let Some(mut command) = ground.unprivileged(&short("disk", &["--source", &device])) else {
        return rights::skipped("setpriv is missing: no user without rights");
    };
    ground.run(&mut command).gives(3).says(&[&device, "no permission to read this device", "root"]);
    ground.no_result();
}

/// A block device that only root and its group may read.
fn closed_device() -> Option<String> {
    let names = std::fs::read_dir("/sys/class/block").ok()?.flatten();
    let mut paths = names.map(|entry| Path::new("/dev").join(entry.file_name()));
    let closed = |path: &std::path::PathBuf| {
        std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o004 == 0)
            && (rights::root() || std::fs::File::open(path).is_err())
    };
    paths.find(closed).map(|path| path.display().to_string())
}

#[test]
fn a_source_that_shrinks_while_it_is_read() {
    let ground = TestFolder::new();
    let path = ground.file("shrinking", 64 << 20);
    let words: Vec<&str> =
        "run --stages disk --seconds 2 --repeats 2 --source shrinking --output out".split(' ').collect();
    let started = crate::support::process::Started::of(&mut ground.linerate(&words));
    std::thread::sleep(std::time::Duration::from_millis(1200));
    std::fs::File::options().write(true).open(&path).and_then(|file| file.set_len(0)).expect("cut short");
    let ended = started.end_within(super::ground::SECONDS);
    ended.gives(1).says(&["shrinking", "cut short"]);
    super::ground::errors(&ground.result("out"));
}
