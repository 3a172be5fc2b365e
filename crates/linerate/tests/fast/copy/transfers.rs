//! Files go to the other host and come from it.

use super::CopyPair;
use crate::bad_input::ground::SECONDS;
use crate::support::names;
use crate::support::process::Started;
use crate::support::served::content;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

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
