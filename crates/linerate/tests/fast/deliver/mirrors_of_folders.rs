//! `linerate get --mirror` of folders: small files from several servers, of which the first may be dead, or die.

use super::mirrors::{Copies, bytes_of, left_out};
use crate::support::process::until;
use crate::support::served::{Served, content, get_json};
use crate::support::{names, text};
use serde_json::Value;

/// Small files of each folder: more than get their names at a time.
const MANY: u64 = 600;
/// So slow that each server has time to bring some, and to be left out.
const SLOW: [&str; 2] = ["--rate-limit", "60kB/s"];

fn small(number: u64) -> Vec<u8> {
    content(500 + number, 200 + 40 * (number % 50) as usize)
}

/// Three folders with the same small files.
fn copies() -> Copies {
    let copies = Copies::new(95, 1000);
    for number in 0..MANY {
        let content = small(number);
        ["one", "other", "third"]
            .iter()
            .for_each(|folder| copies.write(folder, &format!("many/{number}"), &content));
    }
    copies
}

/// All of them, from the first of these servers, with the others as its mirrors: they have come whole, and why the first
/// was left out is said once.
fn come(copies: &Copies, urls: &[String]) -> Value {
    let out = copies.at("out");
    let mut words = vec![urls[0].as_str(), "--output", text(&out), "--no-save", "--streams", "3"];
    urls[1..].iter().for_each(|url| words.extend(["--mirror", url]));
    let (status, report, errors) = get_json(&words);
    assert_eq!(status, Some(0), "{errors} {report}");
    let many = out.join("many");
    assert_eq!(names(&many).len(), MANY as usize, "nothing is left beside them: {report}");
    for number in 0..MANY {
        assert!(
            std::fs::read(many.join(number.to_string())).expect("there") == small(number),
            "file {number}"
        );
    }
    assert!(
        errors.lines().count() == 1 && left_out(&report, 0).contains("no connection"),
        "{errors} {report}"
    );
    assert!((1..urls.len()).all(|way| left_out(&report, way).is_empty()), "{report}");
    assert!(bytes_of(&report)[1..].iter().all(|bytes| *bytes > 0), "{report}");
    report
}

#[test]
fn small_files_come_from_the_mirrors_of_a_first_server_that_is_not_there() {
    let copies = copies();
    let (other, third) = (copies.serve("other", &SLOW), copies.serve("third", &SLOW));
    let urls = ["http://127.0.0.1:1/many/".to_string(), other.url("many/"), third.url("many/")];
    let report = come(&copies, &urls);
    assert_eq!(bytes_of(&report)[0], 0, "{report}");
}

#[test]
fn small_files_come_from_the_mirrors_of_a_first_server_that_dies() {
    let copies = copies();
    let (one, other, third) =
        (copies.serve("one", &SLOW), copies.serve("other", &SLOW), copies.serve("third", &SLOW));
    let urls = [&one, &other, &third].map(|server| server.url("many/"));
    let many = copies.at("out").join("many");
    let killer = std::thread::spawn(move || {
        until("a file comes", || !names(&many).is_empty());
        one.kill();
    });
    let report = come(&copies, &urls);
    killer.join().expect("killed");
    // A file that is on its way comes again.
    assert!(bytes_of(&report)[0] > 0, "it died too early: {report}");
}

/// What a mirror has otherwise is not taken from it, also where it is the only one that is left.
#[test]
fn small_files_that_only_the_dead_server_has_so_are_named() {
    let copies = copies();
    for number in [3, 50] {
        copies.write("other", &format!("many/{number}"), &small(number)[1..]);
    }
    let (one, other) = (copies.serve("one", &SLOW), copies.serve("other", &SLOW));
    let urls = [&one, &other].map(|server| server.url("many/"));
    let out = copies.at("out");
    let (many, from) = (out.join("many"), out.clone());
    let killer = std::thread::spawn(move || {
        until("a file comes", || !names(&many).is_empty());
        one.kill();
    });
    let words =
        [urls[0].as_str(), "--mirror", &urls[1], "--output", text(&from), "--no-save", "--streams", "2"];
    let (_, report, errors) = get_json(&words);
    killer.join().expect("killed");
    // One of the two may have come before.
    for number in 0..MANY {
        let came = std::fs::read(out.join(format!("many/{number}"))).ok();
        match came {
            Some(came) => assert!(came == small(number), "file {number}"),
            None => assert!(
                [3, 50].contains(&number) && errors.contains(&format!("many/{number}")),
                "{errors} {report}"
            ),
        }
    }
}

#[test]
fn small_and_large_files_of_a_folder_come_from_both() {
    let copies = Copies::new(73, 9 << 20);
    for number in 0..200 {
        let small = content(200 + number, 100 + 50 * number as usize);
        ["one", "other"].iter().for_each(|folder| copies.write(folder, &format!("many/{number}"), &small));
    }
    let out = copies.at("out");
    // So slow that both have time to bring something.
    let slow = ["--rate-limit", "4MB/s"];
    let (one, other) = (copies.serve("one", &slow), Served::start(&[copies.folder.path()], &slow));
    let (first, mirror) = (one.url(""), other.url("other"));
    let words = [first.as_str(), "--mirror", &mirror, "--output", text(&out), "--no-save"];
    let (status, report, errors) = get_json(&words);
    assert_eq!(status, Some(0), "{errors} {report}");
    for number in 0..200 {
        let came = std::fs::read(out.join(format!("many/{number}"))).expect("there");
        assert!(came == content(200 + number, 100 + 50 * number as usize), "file {number}");
    }
    assert!(bytes_of(&report).iter().all(|bytes| *bytes > 0) && errors.is_empty(), "{errors} {report}");
    assert!(report["files"].as_array().is_some_and(|files| {
        files.iter().all(|file| file["url"].as_str().is_some_and(|url| url.starts_with(&one.url(""))))
    }));
}

#[test]
fn few_files_that_differ_are_fetched_from_the_first_server() {
    let copies = Copies::new(77, 3 << 20);
    for number in 0..40 {
        let small = content(300 + number, 2000);
        copies.write("one", &format!("many/{number}"), &small);
        let other = if number % 10 == 3 { &small[1..] } else { &small[..] };
        copies.write("other", &format!("many/{number}"), other);
    }
    let slow = ["--rate-limit", "500kB/s"];
    let (one, other) = (copies.serve("one", &slow), copies.serve("other", &slow));
    let (out, first, mirror) = (copies.at("out"), one.url("many/"), other.url("many/"));
    let (status, report, errors) =
        get_json(&[&first, "--mirror", &mirror, "--output", text(&out), "--no-save"]);
    assert_eq!(status, Some(0), "{errors} {report}");
    for number in 0..40 {
        let came = std::fs::read(out.join(format!("many/{number}"))).expect("there");
        assert!(came == content(300 + number, 2000), "file {number}");
    }
    assert!(left_out(&report, 1).is_empty(), "{report}");
    assert!(errors.is_empty() || errors.contains("was not used for one file"), "{errors}");
}
