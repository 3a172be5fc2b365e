//! `linerate get --mirror`: several servers at once, servers that have something else, that die, that lie, that are slow.

use super::liars::ranges;
use crate::support::process::PATIENCE;
use crate::support::served::{FakeServer, Served, content, fails, get_json, place};
use crate::support::{names, text};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// So slow that all servers have time to be asked, and to be left out.
const SLOW: [&str; 2] = ["--rate-limit", "10MB/s"];
/// One stream for each of two servers.
const TWO: [&str; 2] = ["--streams", "2"];
const DATE: Duration = Duration::from_secs(784_111_777);

/// As [`SLOW`], for a server of the test's own.
fn slowly() -> impl Fn(usize, &mut Vec<u8>) + Send + Sync + 'static {
    |_, body| std::thread::sleep(Duration::from_millis(body.len() as u64 / 10_000))
}

/// Two folders with the same file, of one time, and where it goes.
pub(super) struct Copies {
    pub(super) folder: tempfile::TempDir,
    content: Vec<u8>,
}

impl Copies {
    pub(super) fn new(seed: u64, bytes: usize) -> Copies {
        let copies = Copies { folder: tempfile::tempdir().expect("a folder"), content: content(seed, bytes) };
        ["one", "other"].iter().for_each(|name| copies.write(name, "file", &copies.content));
        copies
    }

    pub(super) fn write(&self, folder: &str, name: &str, content: &[u8]) {
        let path = self.at(folder).join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, content).expect("written");
        let file = std::fs::File::options().write(true).open(&path).expect("opened");
        file.set_modified(SystemTime::UNIX_EPOCH + DATE).expect("a time");
    }

    pub(super) fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn serve(&self, name: &str, options: &[&str]) -> Served {
        Served::start(&[&self.at(name)], options)
    }

    /// The file from the first of these servers, with the others as its mirrors: it has come whole.
    fn come(&self, urls: &[String], words: &[&str]) -> (Value, String) {
        let _ = std::fs::remove_dir_all(self.at("out"));
        self.come_again(urls, words)
    }

    /// The same, where an earlier start left something.
    fn come_again(&self, urls: &[String], words: &[&str]) -> (Value, String) {
        let out = self.at("out");
        let mut all = vec![urls[0].as_str(), "--output", text(&out), "--no-save"];
        urls[1..].iter().for_each(|url| all.extend(["--mirror", url]));
        let (status, report, errors) = get_json(&[&all[..], words].concat());
        assert_eq!(status, Some(0), "{errors} {report}");
        assert!(std::fs::read(out.join("file")).expect("there") == self.content);
        assert_eq!(names(&out), ["file"], "{report}");
        (report, errors)
    }
}

/// What came from each way.
pub(super) fn bytes_of(report: &Value) -> Vec<u64> {
    let ways = report["ways"].as_array().expect("ways").iter();
    ways.map(|way| way["bytes"].as_u64().expect("bytes")).collect()
}

/// Why the way of this number was left out.
pub(super) fn left_out(report: &Value, way: usize) -> &str {
    report["ways"][way]["left_out"].as_str().unwrap_or_default()
}

#[test]
fn two_servers_bring_a_file_together() {
    let copies = Copies::new(71, 40 << 20);
    let (one, other) = (copies.serve("one", &SLOW), copies.serve("other", &SLOW));
    let (report, errors) = copies.come(&[one.url("file"), other.url("file")], &[]);
    assert_eq!(report["files"][0]["verified"], serde_json::json!(["xxh3-64"]), "{report}");
    let bytes = bytes_of(&report);
    assert_eq!(bytes.iter().sum::<u64>(), report["received_bytes"].as_u64().expect("bytes"));
    assert!(bytes.iter().all(|bytes| *bytes >= 8 << 20), "{report}");
    assert!(errors.is_empty() && report["notes"] == serde_json::json!([]), "{errors} {report}");
    let servers = [0, 1].map(|way| report["ways"][way]["server"].as_str().unwrap_or_default().to_string());
    assert_eq!(servers, [one.url(""), other.url("")].map(|url| url.trim_end_matches('/').to_string()));
    // Both limit it, and are named.
    if report["limit"]["kind"] == "sender" {
        let sentence = report["limit"]["sentence"].as_str().expect("a sentence");
        assert!(servers.iter().all(|server| sentence.contains(server.as_str())), "{sentence}");
    }
}

#[test]
fn a_mirror_that_has_something_else_is_named_and_not_used() {
    let copies = Copies::new(75, 24 << 20);
    let one = copies.serve("one", &SLOW);
    // Another length.
    copies.write("other", "file", &copies.content[1..]);
    let other = copies.serve("other", &[]);
    let words = [one.url("file"), other.url("file")];
    let (report, errors) = copies.come(&words, &TWO);
    assert!(
        errors.contains("was left out") && errors.contains("25165823 bytes there, and 25165824"),
        "{errors}"
    );
    assert!(errors.lines().count() == 1 && bytes_of(&report)[1] == 0, "{errors} {report}");
    // The same length, another content: its sums are compared before a byte comes.
    let mut wrong = copies.content.clone();
    wrong.last_mut().iter_mut().for_each(|byte| **byte ^= 1);
    copies.write("other", "file", &wrong);
    let (report, errors) = copies.come(&words, &TWO);
    assert!(errors.contains("its block 23 of 1 MiB there is another than at the first server"), "{errors}");
    assert_eq!(bytes_of(&report)[1], 0, "{report}");
    // It has no such file, is a folder, or does not answer at all.
    for (url, says) in [
        (other.url("none"), "has no such file (404)"),
        (other.url(""), "it is a folder there"),
        ("http://127.0.0.1:1/file".into(), "no connection"),
    ] {
        let (report, errors) = copies.come(&[one.url("file"), url], &TWO);
        assert!(errors.contains(says) && errors.lines().count() == 1, "{errors}");
        assert_eq!(bytes_of(&report)[1], 0, "{report}");
        assert!(left_out(&report, 1).contains(says), "{report}");
    }
}

/// Without sums the time has to be the same; with `--sha256` what came is compared.
#[test]
fn servers_without_sums_are_compared_by_what_they_say() {
    let copies = Copies::new(79, 24 << 20);
    let plain = |lines| ranges(copies.content.clone(), lines, slowly());
    let first = plain("ETag: \"a\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    let same = plain("ETag: \"b\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    let later = plain("ETag: \"b\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:38 GMT\r\n");
    let silent = plain("ETag: \"b\"\r\n");
    let (report, errors) = copies.come(&[first.url("file"), same.url("file")], &TWO);
    assert!(errors.is_empty() && bytes_of(&report)[1] > 0, "{errors} {report}");
    for (mirror, says) in [(&later, "its time there is"), (&silent, "nothing but its length")] {
        let (report, errors) = copies.come(&[first.url("file"), mirror.url("file")], &TWO);
        assert!(errors.contains(says) && bytes_of(&report)[1] == 0, "{errors} {report}");
    }
    let digest =
        plain("Repr-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:\r\nETag: \"a\"\r\n");
    let other =
        plain("Repr-Digest: sha-256=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=:\r\nETag: \"a\"\r\n");
    let (_, errors) = copies.come(&[digest.url("file"), other.url("file")], &TWO);
    assert!(errors.contains("its SHA-256 there is another"), "{errors}");
}

#[test]
fn a_mirror_that_lies_in_the_middle_is_dropped_and_its_bytes_come_again() {
    let copies = Copies::new(81, 48 << 20);
    let one = copies.serve("one", &SLOW);
    // What it says of its blocks is right, what it sends is not.
    let lies = "ETag: \"m\"\r\nLinerate: blocks\r\n";
    let liar = ranges(copies.content.clone(), lies, |_, body| body[5000] ^= 16);
    let (report, errors) = copies.come(&[one.url("file"), liar.url("file")], &[]);
    assert!(left_out(&report, 1).contains("is another than at the first server"), "{errors} {report}");
    assert!(report["repeated_bytes"].as_u64() > Some(0) && errors.lines().count() == 1, "{errors} {report}");
    // Other parts than those that were asked for; without any sums.
    let plain = "ETag: \"a\"\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let whole = ranges(copies.content.clone(), plain, slowly());
    let bytes = copies.content.len();
    let shifted = FakeServer::start(move |head, stream| {
        let length = if head.starts_with("HEAD") { bytes } else { 1 };
        let lines = format!("{plain}Accept-Ranges: bytes\r\nContent-Length: {length}\r\n");
        let status = if head.starts_with("HEAD") { "200 OK" } else { "206 Partial Content" };
        super::liars::reply(stream, status, &(lines + "Content-Range: bytes 0-0/1\r\n"), b"x");
    });
    let (report, errors) = copies.come(&[whole.url("file"), shifted.url("file")], &TWO);
    assert!(errors.contains("another part than the one that was asked for"), "{errors}");
    assert_eq!(bytes_of(&report)[1], 0, "{report}");
}

#[test]
fn a_mirror_that_changes_in_the_middle_is_dropped() {
    let copies = Copies::new(83, 24 << 20);
    let time = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let first = ranges(copies.content.clone(), time, slowly());
    let (bytes, answers) = (copies.content.clone(), AtomicU32::new(0));
    let changes = FakeServer::start(move |head, stream| {
        let tag = if answers.fetch_add(1, Ordering::SeqCst) < 2 { "a" } else { "b" };
        let (from, to) = super::liars::asked(head, bytes.len());
        let lines =
            format!("{time}ETag: \"{tag}\"\r\nAccept-Ranges: bytes\r\nContent-Length: {}\r\n", to - from);
        if head.starts_with("HEAD") {
            return super::liars::reply(stream, "200 OK", &lines, b"");
        }
        let lines = lines + &format!("Content-Range: bytes {from}-{}/{}\r\n", to - 1, bytes.len());
        super::liars::reply(stream, "206 Partial Content", &lines, &bytes[from..to]);
    });
    let (report, errors) = copies.come(&[first.url("file"), changes.url("file")], &TWO);
    assert!(errors.contains("changed on the server meanwhile"), "{errors} {report}");
}

/// Until the journal has so many blocks.
fn awaits_blocks(out: &Path, blocks: usize) {
    let begun = Instant::now();
    let journaled = || std::fs::read_to_string(out.join(".file.linerate-journal")).unwrap_or_default();
    while journaled().lines().count() <= blocks && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Either of them, also the first: the rest comes from the other.
#[test]
fn a_server_that_is_killed_in_the_middle_is_left_out() {
    for first_dies in [true, false] {
        let copies = Copies::new(85, 64 << 20);
        let slow = ["--rate-limit", "15MB/s"];
        let (one, other) = (copies.serve("one", &slow), copies.serve("other", &slow));
        let urls = [one.url("file"), other.url("file")];
        let out = copies.at("out");
        let killer = std::thread::spawn(move || {
            awaits_blocks(&out, 2);
            let (dies, lives) = if first_dies { (one, other) } else { (other, one) };
            dies.kill();
            lives
        });
        let (report, errors) = copies.come(&urls, &TWO);
        drop(killer.join().expect("killed"));
        let dead = usize::from(!first_dies);
        assert!(left_out(&report, dead).contains("no connection") && errors.lines().count() == 1, "{report}");
        assert!(left_out(&report, 1 - dead).is_empty(), "{report}");
        // What a mirror says of its own blocks verifies nothing.
        let verified = if first_dies { serde_json::json!([]) } else { serde_json::json!(["xxh3-64"]) };
        assert_eq!(report["files"][0]["verified"], verified, "{report}");
    }
}

/// What one of them sent the other's sums confirm.
#[test]
fn two_mirrors_verify_each_other_once_the_first_server_is_dead() {
    let copies = Copies::new(97, 64 << 20);
    copies.write("third", "file", &copies.content);
    let slow = ["--rate-limit", "10MB/s"];
    let [one, other, third] = ["one", "other", "third"].map(|name| copies.serve(name, &slow));
    let urls = [&one, &other, &third].map(|server| server.url("file"));
    let out = copies.at("out");
    let killer = std::thread::spawn(move || {
        awaits_blocks(&out, 2);
        one.kill();
    });
    let (report, _) = copies.come(&urls, &["--streams", "3"]);
    killer.join().expect("killed");
    assert!(left_out(&report, 0).contains("no connection"), "{report}");
    assert_eq!(report["files"][0]["verified"], serde_json::json!(["xxh3-64"]), "{report}");
}

/// Its times say nothing, so only the sums of the first server could vouch for what came from it.
#[test]
fn what_only_the_dead_server_could_vouch_for_stays_unfinished() {
    let copies = Copies::new(91, 64 << 20);
    let later = std::fs::File::options().write(true).open(copies.at("other").join("file")).expect("opened");
    later.set_modified(SystemTime::UNIX_EPOCH + 2 * DATE).expect("a time");
    let slow = ["--rate-limit", "15MB/s"];
    let (one, other) = (copies.serve("one", &slow), copies.serve("other", &slow));
    let (first, mirror, out) = (one.url("file"), other.url("file"), copies.at("out"));
    let watched = out.clone();
    let killer = std::thread::spawn(move || {
        awaits_blocks(&watched, 4);
        one.kill();
    });
    let words = [&first, "--mirror", &mirror, "--output", text(&out), "--no-save", "--streams", "2"];
    let (status, report, errors) = get_json(&words);
    killer.join().expect("killed");
    assert_eq!(status, Some(1), "{errors} {report}");
    assert!(errors.contains("cannot be compared"), "{errors}");
    assert_eq!(report["files"][0]["outcome"], "unfinished", "{report}");
    // It is back.
    let one = copies.serve("one", &[]);
    let (report, _) = copies.come_again(&[one.url("file"), mirror], &[]);
    assert_eq!(report["files"][0]["verified"], serde_json::json!(["xxh3-64"]), "{report}");
    assert!(report["kept_bytes"].as_u64() > Some(8 << 20), "{report}");
}

/// It has brought some parts, and has no time for more: those are as good as they were.
#[test]
fn what_came_from_a_mirror_that_is_busy_later_is_kept() {
    let copies = Copies::new(93, 48 << 20);
    let time = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let first = ranges(copies.content.clone(), time, slowly());
    let (bytes, parts) = (copies.content.clone(), AtomicU32::new(0));
    let busy = FakeServer::start(move |head, stream| {
        let (from, to) = super::liars::asked(head, bytes.len());
        let lines = format!("{time}Accept-Ranges: bytes\r\nContent-Length: {}\r\n", to - from);
        if head.starts_with("HEAD") {
            return super::liars::reply(stream, "200 OK", &lines, b"");
        }
        if parts.fetch_add(1, Ordering::SeqCst) > 1 {
            return super::liars::reply(stream, "503 Service Unavailable", "Content-Length: 0\r\n", b"");
        }
        let lines = lines + &format!("Content-Range: bytes {from}-{}/{}\r\n", to - 1, bytes.len());
        super::liars::reply(stream, "206 Partial Content", &lines, &bytes[from..to]);
    });
    let (report, errors) = copies.come(&[first.url("file"), busy.url("file")], &TWO);
    assert!(left_out(&report, 1).contains("no connection free (503)"), "{errors} {report}");
    assert!(bytes_of(&report)[1] >= 4 << 20 && report["repeated_bytes"] == 0, "{report}");
}

#[test]
fn a_first_server_that_is_not_there_is_replaced_by_its_mirror() {
    let copies = Copies::new(87, 9 << 20);
    let other = copies.serve("other", &[]);
    let gone = "http://127.0.0.1:1/file".to_string();
    let (report, errors) = copies.come(&[gone.clone(), other.url("file")], &[]);
    assert!(left_out(&report, 0).contains("no connection") && errors.lines().count() == 1, "{errors}");
    // Nobody is there.
    let out = copies.at("none");
    let words = [gone.as_str(), "--mirror", "http://127.0.0.1:2/file", "--output", text(&out)];
    fails(&words, 3, "127.0.0.1:1: no connection");
}

/// A mirror that brings next to nothing does not hold the last piece back.
#[test]
fn a_mirror_that_trickles_does_not_hold_the_end_back() {
    let copies = Copies::new(89, 32 << 20);
    let one = copies.serve("one", &["--rate-limit", "20MB/s"]);
    let lines = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let (bytes, ends) = (copies.content.clone(), Arc::new(AtomicU32::new(0)));
    let over = Arc::clone(&ends);
    let slow = FakeServer::start(move |head, stream| {
        let (from, to) = super::liars::asked(head, bytes.len());
        let lines = format!("{lines}Accept-Ranges: bytes\r\nContent-Length: {}\r\n", to - from);
        if head.starts_with("HEAD") {
            return super::liars::reply(stream, "200 OK", &lines, b"");
        }
        let named = format!("Content-Range: bytes {from}-{}/{}\r\n", to - 1, bytes.len());
        super::liars::reply(stream, "206 Partial Content", &(lines + &named), b"");
        // 50 kB/s: a block takes more than a minute.
        for chunk in bytes[from..to].chunks(5_000) {
            if over.load(Ordering::SeqCst) > 0 || stream.write_all(chunk).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let begun = Instant::now();
    let (report, _) = copies.come(&[one.url("file"), slow.url("file")], &["--streams", "4"]);
    ends.store(1, Ordering::SeqCst);
    assert!(begun.elapsed() < Duration::from_secs(45), "{:?} {report}", begun.elapsed());
}

#[test]
fn mirrors_that_make_no_sense_are_refused() {
    let (_folder, data, out) = place(b"x");
    let server = Served::start(&[&data], &[]);
    let (url, out) = (server.url("file"), text(&out));
    fails(&[&url, &server.url("other"), "--mirror", &url, "--output", out], 2, "as the one URL");
    let many: Vec<&str> = (0..16).flat_map(|_| ["--mirror", url.as_str()]).collect();
    fails(&[&[url.as_str(), "--output", out][..], &many].concat(), 2, "15 times at most");
    let output = crate::support::served::get(&[&url, "--mirror", "ftp://h/file", "--output", out]);
    output.gives(2).mentions(&["linerate speaks HTTP and S3, not ftp"]);
}
