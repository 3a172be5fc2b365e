//! `--archive`: what names have beside their content arrives, and what cannot be kept is one sentence.

use super::CopyPair;
use super::hostile::{ready, send, serve_names, with_half};
use crate::support::names;
use crate::support::process::Started;
use crate::support::served::content;
use linerate_system::attributes::{extended_attributes, set_extended_attribute};
use linerate_system::user::is_root;
use serde_json::json;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

const HOLE_FILE_BYTES: u64 = 24 << 20;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

/// A folder with one of each.
fn set(folder: &Path) {
    let at = |name: &str| folder.join("set").join(name);
    fs::create_dir_all(at("closed")).expect("folders");
    fs::create_dir_all(at("open/deep")).expect("folders");
    fs::write(at("large"), content(71, 3 << 20)).expect("written");
    fs::write(at("open/script"), "#!/bin/sh").expect("written");
    fs::write(at("closed/secret"), "secret").expect("written");
    fs::hard_link(at("large"), at("open/again")).expect("a second name");
    symlink("../large", at("open/link")).expect("a link");
    symlink("/nowhere/at all\\n", at("dangling")).expect("a link");
    symlink("open", at("to-folder")).expect("a link");
    for (name, bytes) in [("holes", HOLE_FILE_BYTES), ("small-holes", 700_000)] {
        let file = File::create(at(name)).expect("made");
        file.set_len(bytes).expect("a length");
        file.write_all_at(b"begin", 0).and_then(|()| file.write_all_at(b"end", bytes - 3)).expect("written");
    }
    let old = SystemTime::UNIX_EPOCH - Duration::from_secs(9);
    File::open(at("closed/secret")).and_then(|file| file.set_modified(old)).expect("a time before 1970");
    set_mode(&at("open/script"), 0o751);
    set_mode(&at("closed/secret"), 0o400);
    set_mode(&at("closed"), 0o500);
    set_mode(&at("open/deep"), 0o1777);
    for (name, seconds, nanos) in [("open/script", 1_000_000_007, 123_456_789), ("open", 1_000_000_011, 5)] {
        let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
        File::open(at(name)).and_then(|file| file.set_modified(time)).expect("a time");
    }
}

/// Mode, time and where a link leads of all below a folder, by path.
fn attributes_of(folder: &Path) -> Vec<(String, u32, i64, i64, String)> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_path_buf()];
    while let Some(path) = pending.pop() {
        let own = fs::symlink_metadata(&path).expect("there");
        let target =
            fs::read_link(&path).map_or(String::new(), |target| target.to_string_lossy().into_owned());
        let name = path.strip_prefix(folder).expect("below").to_string_lossy().into_owned();
        found.push((name, own.mode(), own.mtime(), own.mtime_nsec(), target));
        if own.is_dir() {
            pending.extend(fs::read_dir(&path).expect("a list").map(|entry| entry.expect("an entry").path()));
        }
    }
    found.sort();
    found
}

#[test]
fn modes_times_links_holes_and_second_names_arrive_both_ways() {
    for (words, from_here) in [(["set", "@to/", "--archive"], true), (["@set", "back/", "--archive"], false)]
    {
        let pair = CopyPair::new();
        let (from, to) = match from_here {
            true => (pair.here.join("set"), pair.there.join("to/set")),
            false => (pair.there.join("set"), pair.here.join("back/set")),
        };
        set(from.parent().expect("a folder"));
        let ended = pair.ends(&words);
        ended.is_content();
        assert!(!ended.stdout.contains("not kept"), "{ended}");
        assert_eq!(attributes_of(&from), attributes_of(&to), "{ended}");
        let inode = |name: &str| fs::metadata(to.join(name)).expect("there").ino();
        assert_eq!(inode("large"), inode("open/again"));
        for (name, most) in [("holes", 1 << 20), ("small-holes", 64 << 10)] {
            assert!(fs::read(to.join(name)).expect("read") == fs::read(from.join(name)).expect("read"));
            let allocated = |folder: &Path| fs::metadata(folder.join(name)).expect("there").blocks() * 512;
            if allocated(&from) < most {
                assert!(allocated(&to) < most, "{name}: {} of {most} bytes", allocated(&to));
            } else {
                eprintln!("skipped: this file system has no holes");
            }
        }
        // Again: nothing is copied, and what somebody changed is as it was.
        set_mode(&to.join("open/script"), 0o600);
        let ended = pair.ends(&words);
        ended.is_content().shows(&["9 files there already", "0 files copied"]);
        assert_eq!(attributes_of(&from), attributes_of(&to), "{ended}");
        // A folder that may not be written to takes a new file all the same.
        set_mode(&from.join("closed"), 0o700);
        fs::write(from.join("closed/new"), "new").expect("written");
        set_mode(&from.join("closed"), 0o500);
        pair.ends(&words).is_content().shows(&["9 files there already"]);
        assert_eq!(attributes_of(&from), attributes_of(&to));
    }
}

#[test]
fn a_second_name_of_a_file_that_did_not_come_is_not_made_of_what_is_there() {
    let pair = CopyPair::new();
    set(&pair.here);
    fs::create_dir_all(pair.there.join("to/set")).expect("folders");
    fs::write(pair.there.join("to/set/large"), "another").expect("written");
    let ended = pair.ends(&["set", "@to/", "--archive"]);
    ended.gives(1).mentions(&["a file already", "set/large, of which it is another name, did not come"]);
    assert!(!pair.there.join("to/set/open/again").exists(), "{ended}");
}

#[test]
fn extended_attributes_and_owners_arrive_where_they_can_be_set() {
    let pair = CopyPair::new();
    fs::create_dir(pair.here.join("set")).expect("a folder");
    let path = pair.here.join("set/file");
    let file = File::create(&path).expect("made");
    let has_any = set_extended_attribute(&file, OsStr::new("user.note"), b"a\0%\xff").is_ok();
    set_mode(&path, 0o444);
    if is_root() {
        chown(&path, Some(12_345), Some(54_321)).expect("given away");
        set_mode(&path, 0o4755);
    }
    pair.ends(&["set", "@to", "--archive"]).is_content();
    let copied = pair.there.join("to/set/file");
    let of_user = |path: &Path| {
        let mut all = extended_attributes(path, 1 << 16).expect("read");
        all.retain(|(name, _)| name.to_string_lossy().starts_with("user."));
        all
    };
    assert_eq!((of_user(&copied).len(), of_user(&copied)), (usize::from(has_any), of_user(&path)));
    if is_root() {
        let own = fs::metadata(&copied).expect("there");
        assert_eq!((own.uid(), own.gid(), own.mode() & 0o7777), (12_345, 54_321, 0o4755));
    } else {
        eprintln!("owners: skipped, only root can give a file away");
    }
}

/// The whole of the other host's say: a list with these entries, and what it says of the folder.
fn copied_from_liar(
    list: serde_json::Value,
    words: &[&str],
) -> (CopyPair, crate::support::process::ProcessEnd) {
    let copy = |pair: &CopyPair| {
        fs::create_dir_all(pair.here.join("to")).expect("a folder");
        fs::write(pair.here.join("outside"), "as it was").expect("written");
        set_mode(&pair.here.join("outside"), 0o640);
        symlink("..", pair.here.join("to/up")).expect("a link");
        Started::of(&mut pair.copy(&[&["@set", "to/", "--no-encryption", "--archive"], words].concat()))
    };
    with_half(copy, move |_, channel| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        send(&channel, &ready(listener.local_addr().expect("bound").port()));
        serve_names(listener, list.to_string());
        // Open until the test ends.
        std::mem::forget(channel);
    })
}

#[test]
fn no_link_and_no_mode_leads_outside() {
    let archived = |more: serde_json::Value| {
        let mut all = json!({"mode": 0o777, "owner": [4_294_967_295u32, 4_294_967_295u32], "seconds": 5, "nanos": 4_000_000_000u32});
        all.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        all
    };
    let entry = |href: &str, kind: &str, more: serde_json::Value| json!({"name": "x", "href": href, "kind": kind, "bytes": 4, "modified": 1, "archived": archived(more)});
    let to_outside = json!({"target": "..%2Foutside"});
    for (entries, words) in [
        // A link, and a file of the same name that would go through it.
        (vec![entry("a", "link", to_outside.clone()), entry("a", "file", json!({}))], vec![]),
        // A folder that is a link here, and gets a mode.
        (vec![entry("up/", "folder", json!({})), entry("b", "file", json!({}))], vec![]),
        // A second name of what is outside.
        (vec![entry("up", "link", to_outside.clone())], vec!["--replace"]),
        (
            vec![entry("c", "file", json!({"inode": [1, 1]})), entry("up", "file", json!({"inode": [1, 1]}))],
            vec!["--replace"],
        ),
        (
            vec![entry("d", "link", json!({"target": "a%00b"})), entry("..", "link", to_outside.clone())],
            vec![],
        ),
        (vec![entry("e", "file", json!({"extended": [["user.%zz", ""], ["system.x", "%"]]}))], vec![]),
    ] {
        let list = json!({"entries": entries, "archived": archived(json!({}))});
        let (pair, ended) = copied_from_liar(list, &words);
        let outside = fs::metadata(pair.here.join("outside")).expect("there");
        assert_eq!(outside.mode() & 0o7777, 0o640, "{ended}");
        assert_eq!(
            (outside.nlink(), fs::read(pair.here.join("outside")).expect("read")),
            (1, b"as it was".to_vec())
        );
        assert_eq!(names(&pair.here), ["outside", "to"], "{ended}");
        assert!(ended.code().is_some_and(|code| code <= 3), "{ended}");
    }
}

#[test]
fn a_list_that_would_take_much_memory_is_not_read() {
    let (pair, ended) = copied_from_liar(json!({"entries": [], "more": "x".repeat(33 << 20)}), &[]);
    ended.gives(3).says(&["it takes more memory than a list may"]);
    assert_eq!(names(&pair.here.join("to")), ["up"], "{ended}");
}

#[test]
fn standard_input_becomes_one_file() {
    let pair = CopyPair::new();
    let piped = |words: &[&str], text: &[u8]| {
        let input = pair.here.join("piped");
        fs::write(&input, text).expect("written");
        let mut command = pair.copy(words);
        command.stdin(File::open(&input).expect("opened")).env("TMPDIR", &pair.here);
        Started::with_streams(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
            .end_within(crate::bad_input::ground::SECONDS)
    };
    let text = content(72, 5 << 20);
    piped(&["-", "@piped"], &text).is_content();
    assert!(fs::read(pair.there.join("piped")).expect("copied") == text);
    piped(&["-", "@empty"], b"").is_content();
    assert_eq!(fs::read(pair.there.join("empty")).expect("copied"), b"");
    fs::create_dir(pair.there.join("folder")).expect("a folder");
    piped(&["-", "@folder"], b"x").gives(2).says(&["it is a folder, and standard input has no name"]);
    assert_eq!(names(&pair.here), ["piped"], "nothing of it stays");
    let absent = pair.here.join("absent");
    let mut command = pair.copy(&["-", "@piped"]);
    command.stdin(File::open(pair.here.join("piped")).expect("opened")).env("TMPDIR", &absent);
    let started = Started::with_streams(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let ended = started.end_within(crate::bad_input::ground::SECONDS);
    ended.gives(3).says(&["standard input: ", "TMPDIR names another folder"]);
}

#[test]
fn ctrl_c_while_standard_input_comes_ends_at_once_and_copies_nothing() {
    let pair = CopyPair::new();
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let mut command = pair.copy(&["-", "@half"]);
    command.stdin(reader).env("TMPDIR", &pair.here);
    let started = Started::with_streams(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    // More than a pipe holds: it is being read. Its end does not come.
    writer.write_all(&content(73, 1 << 20)).expect("taken");
    started.interrupted(Duration::from_secs(4)).gives(1);
    assert!(names(&pair.there).is_empty() && names(&pair.here).is_empty());
}
