//! Files go to the other host and come from it.

use super::CopyPair;
use crate::bad_input::ground::SECONDS;
use crate::bad_input::ssh::RUNS_IT;
use crate::support::names;
use crate::support::process::{Started, until};
use crate::support::served::content;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// So many results are kept below a state folder.
fn kept(state: &Path) -> Vec<Value> {
    let files = fs::read_dir(state.join("linerate/results")).into_iter().flatten().flatten();
    let json = files.filter_map(|file| serde_json::from_slice(&fs::read(file.path()).ok()?).ok());
    json.collect()
}

fn set(folder: &Path) {
    fs::create_dir_all(folder.join("set/sub/empty")).expect("folders");
    fs::write(folder.join("set/large"), content(91, 9 << 20)).expect("written");
    fs::write(folder.join("set/sub/small"), "small").expect("written");
    fs::write(folder.join("set/sub").join(OsStr::from_bytes(b"a 'b' $HOME\n\xff*")), "odd").expect("written");
    symlink("loop", folder.join("set/loop")).expect("a link");
}

fn is_copied(folder: &Path) {
    assert!(fs::read(folder.join("set/large")).expect("copied") == content(91, 9 << 20));
    assert_eq!(fs::read(folder.join("set/sub/small")).expect("copied"), b"small");
    let odd = folder.join("set/sub").join(OsStr::from_bytes(b"a 'b' $HOME\n\xff*"));
    assert_eq!(fs::read(odd).expect("copied"), b"odd");
    assert!(folder.join("set/sub/empty").is_dir());
    assert_eq!(names(&folder.join("set")), ["large", "sub"], "nothing unfinished, no link");
}

#[test]
fn a_folder_goes_there_and_back_and_both_ends_show_what_they_did() {
    let pair = CopyPair::new();
    set(&pair.here);
    for (words, from_here) in [(["set", "@to/"], true), (["@to/set", "back"], false)] {
        let ended = pair.ends(&words);
        ended.is_content();
        is_copied(&if from_here { pair.there.join("to") } else { pair.here.join("back") });
        let line = ended.stdout.lines().last().expect("a line");
        assert!(line.starts_with("3 files, 9.0 MiB in ") && line.contains("/s). "), "{ended}");
        // The same again moves nothing.
        let ended = pair.ends(&words);
        ended.is_content().shows(&["3 files there already, with the same size and time", "0 files copied"]);
    }
    let all = kept(&pair.ground.state());
    assert_eq!((all.len(), kept(&pair.there.join("state")).len()), (2, 0), "kept here and not there");
    for run in all {
        let stages: Vec<_> =
            run["measurements"].as_array().expect("a list").iter().map(|one| one["stage"].clone()).collect();
        assert!(stages == ["put", "get"] || stages == ["get", "put"], "{stages:?}");
        assert!(run["transfer"]["files"].as_array().is_some_and(|files| files.len() == 3));
        assert!(run["served"]["bytes"].as_u64().is_some_and(|bytes| bytes > 9 << 20), "{}", run["served"]);
        assert!(run["measurements"][0]["method"].as_str().is_some_and(|method| !method.is_empty()));
    }
    let asked = fs::read_to_string(pair.ground.path().join("ssh-words")).expect("what ssh was started with");
    assert!(
        asked.contains("BatchMode=yes") && asked.contains("-l somebody -- localhost linerate copy-half"),
        "{asked}"
    );
    assert!(!asked.contains("set"), "what is copied goes by standard input: {asked}");
    pair.ground.deserted();
}

#[test]
fn one_file_gets_the_name_of_the_destination_unless_that_is_a_folder() {
    let pair = CopyPair::new();
    fs::write(pair.here.join("one"), "one").expect("written");
    fs::write(pair.here.join("two"), "twofold").expect("written");
    pair.ends(&["one", "@other-name", "--no-encryption"]).is_content();
    assert_eq!(fs::read(pair.there.join("other-name")).expect("copied"), b"one");
    pair.ends(&["one", "two", "@new", "--no-encryption"]).is_content();
    assert_eq!(names(&pair.there.join("new")), ["one", "two"]);
    // Another length: it is another file.
    pair.ends(&["two", "@other-name"]).gives(3).says(&["there is a file already; --replace takes its place"]);
    assert_eq!(fs::read(pair.there.join("other-name")).expect("there"), b"one");
    pair.ends(&["two", "@other-name", "--replace"]).is_content();
    assert_eq!(fs::read(pair.there.join("other-name")).expect("replaced"), b"twofold");
    pair.ends(&["@new/", "flat"]).is_content();
    assert_eq!(names(&pair.here.join("flat")), ["one", "two"], "what is in it");
    pair.ends(&["@new/one", "flat/three"]).is_content();
    assert_eq!(fs::read(pair.here.join("flat/three")).expect("copied"), b"one");
}

#[test]
fn a_dry_run_copies_nothing_and_what_is_excluded_stays_out() {
    let pair = CopyPair::new();
    set(&pair.here);
    let words = ["set", "@to", "--exclude=sm*", "--exclude=set/sub/empty"];
    let ended = pair.ends(&[&words[..], &["--dry-run"]].concat());
    ended.is_content().shows(&["to/set/large: 9 MiB", "would copy 2 files, 9.0 MiB; 0 files there already"]);
    assert!(!pair.there.join("to").exists() && kept(&pair.ground.state()).is_empty());
    pair.ends(&words).is_content();
    assert_eq!(names(&pair.there.join("to/set")), ["large", "sub"]);
    assert_eq!(names(&pair.there.join("to/set/sub")).len(), 1, "neither the small one nor the folder");
    let ended = pair.ends(&[&words[..], &["--dry-run"]].concat());
    ended.shows(&["would copy 0 files, 0 B; 2 files there already"]);
    pair.ends(&[&words[..], &["--dry-run", "--json"]].concat()).gives(2);
}

#[test]
fn lines_of_progress_come_from_the_end_that_fetches() {
    let pair = CopyPair::new();
    fs::write(pair.here.join("file"), content(92, 12 << 20)).expect("written");
    for words in [["file", "@file"], ["@file", "file2"]] {
        let words = [&words[..], &["--rate-limit=8MB/s", "--interval=500ms", "--json"]].concat();
        let (status, run, said) = Started::of(&mut pair.copy(&words)).end_within(SECONDS).json_parts();
        assert_eq!(status, Some(0), "{said}");
        let lines: Vec<Value> = said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert!(lines.len() >= 2 && lines.iter().all(|line| line["total_bytes"] == 12 << 20), "{said}");
        let sentence = run["diagnosis"]["bottleneck"]["sentence"].as_str().expect("a sentence");
        assert!(sentence.starts_with("The rate limit limits it: "), "{sentence}");
    }
}

/// A large file of the same length and another time gets the time, if its blocks have the same sums.
#[test]
fn what_is_to_be_replaced_and_is_the_same_is_not_fetched_again() {
    let pair = CopyPair::new();
    let (mut bytes, day) = (content(98, 9 << 20), Duration::from_secs(86400));
    let (source, copied) = (pair.here.join("file"), pair.there.join("file"));
    let age = |path: &Path| fs::metadata(path).expect("there").modified().expect("a time");
    let put = |bytes: &[u8], time| {
        fs::write(&copied, bytes).expect("written");
        fs::File::options()
            .write(true)
            .open(&copied)
            .and_then(|file| file.set_modified(time))
            .expect("a time");
    };
    fs::write(&source, &bytes).expect("written");
    let words = ["file", "@file", "--replace"];
    put(&bytes, age(&source) - day);
    let number = fs::metadata(&copied).expect("there").ino();
    let ended = pair.ends(&words);
    ended.is_content().shows(&["1 file there already", "0 files copied"]);
    let seconds =
        |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs();
    assert_eq!(seconds(age(&copied)), seconds(age(&source)));
    assert_eq!(fs::metadata(&copied).expect("there").ino(), number, "it is the file that was there");
    // One byte at its end: another file.
    *bytes.last_mut().expect("bytes") ^= 1;
    put(&bytes, age(&source) - day);
    pair.ends(&words).is_content().shows(&["1 file, 9 MiB in "]);
    assert!(fs::read(&copied).expect("copied") == content(98, 9 << 20));
}

/// The name leads to one address, and ssh came to another.
#[test]
fn streams_are_spread_over_the_addresses_that_answer() {
    let to_another = format!("export SSH_CONNECTION='127.0.0.1 1 127.0.0.3 22'\n{RUNS_IT}");
    for is_push in [true, false] {
        let pair = CopyPair::with(&to_another);
        let (source, words) = match is_push {
            true => (pair.here.join("file"), ["file", "@copied", "--rate-limit=8MB/s"]),
            false => (pair.there.join("file"), ["@file", "copied", "--rate-limit=8MB/s"]),
        };
        fs::write(source, content(99, 24 << 20)).expect("written");
        let started = Started::of(&mut pair.copy(&words));
        until("both addresses have connections", || {
            let open = open_connections();
            let other = open.iter().filter(|end| end.ip() == IpAddr::from([127, 0, 0, 3]));
            // Its port is that of this copy alone.
            other.into_iter().any(|end| open.contains(&SocketAddr::from(([127, 0, 0, 1], end.port()))))
        });
        started.signal(2);
        started.end_within(SECONDS).gives(1);
        pair.ground.deserted();
    }
}

/// The far ends of the IPv4 connections that are open here (proc_pid_net(5)).
fn open_connections() -> Vec<SocketAddr> {
    let table = fs::read_to_string("/proc/net/tcp").expect("/proc");
    let far_end = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        let (end, state) = (words.next()?, words.next()?);
        let (address, port) = end.split_once(':').filter(|_| state == "01")?;
        let address = u32::from_str_radix(address, 16).ok()?.to_ne_bytes();
        Some(SocketAddr::from((address, u16::from_str_radix(port, 16).ok()?)))
    };
    table.lines().skip(1).filter_map(far_end).collect()
}
