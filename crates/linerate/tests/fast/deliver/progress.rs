//! `--interval` of `linerate get` and `linerate put`: lines for people, and lines of JSON for programs around it.

use crate::support::process::Ends;
use crate::support::served::{Served, content, fails, get, place};
use crate::support::{linerate, names, text, write_secret};
use serde_json::Value;

/// Lines of JSON; what else was said would be a sentence.
fn lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect()
}

fn number(line: &Value, key: &str) -> f64 {
    line[key].as_f64().unwrap_or_else(|| panic!("no {key}: {line}"))
}

/// Each line is behind the one before, and within the whole.
fn assert_progress(lines: &[Value], total: f64) {
    assert!(lines.len() >= 2, "{lines:?}");
    for line in lines {
        assert_eq!((&line["schema"], number(line, "total_bytes")), (&1.into(), total), "{line}");
        assert!(number(line, "bytes") <= total && number(line, "bytes_per_second") >= 0.0, "{line}");
        let sentence = line["limit"]["sentence"].as_str().unwrap_or_default();
        assert!(!sentence.is_empty(), "{line}");
    }
    for two in lines.windows(2) {
        assert!(number(&two[1], "seconds") > number(&two[0], "seconds"), "{two:?}");
        assert!(number(&two[1], "bytes") >= number(&two[0], "bytes"), "{two:?}");
    }
    let last = lines.last().expect("a line");
    assert!(number(last, "bytes") > 0.0, "{last}");
}

#[test]
fn get_says_how_far_it_is_in_lines_of_json() {
    let bytes = 24 << 20;
    let (_folder, data, out) = place(&content(91, bytes));
    // One piece for each stream: all of it is in the middle of pieces.
    let server = Served::start(&[&data], &["--rate-limit", "8MB/s"]);
    let words = [&server.url("file"), "--output", text(&out), "--streams", "1", "--no-save"];
    let output = get(&[&words[..], &["--interval", "500ms", "--json"]].concat());
    output.gives(0);
    let report = output.json();
    assert_eq!(report["transfer"]["moved_bytes"], bytes, "{report}");
    let lines = lines(&output.stderr);
    assert_progress(&lines, bytes as f64);
    // A server that is slow is what a client waits for, unless this host has other work to do.
    let waits = lines.iter().filter(|line| number(&line["limit"], "waiting_network") > 0.5).count();
    assert!(2 * waits > lines.len(), "{lines:?}");
    assert!(lines.iter().any(|line| line["seconds_left"].is_f64()), "{lines:?}");
    // For people, on standard output, before what came of it.
    std::fs::remove_file(out.join("file")).expect("removed");
    let output = get(&[&words[..], &["--interval", "500ms"]].concat());
    let said = &output.stdout;
    assert!(output.status.success() && output.stderr.is_empty(), "{said}");
    let first = said.lines().next().unwrap_or_default();
    assert!(first.contains(" s  ") && first.contains(" of 24 MiB, "), "{said}");
    assert!(said.lines().last().is_some_and(|line| line.contains("24 MiB in ")), "{said}");
}

#[test]
fn put_says_how_far_it_is_in_lines_of_json() {
    let bytes = 16 << 20;
    let (folder, data, _) = place(&content(93, bytes));
    let (token, onto) = (folder.path().join("token"), folder.path().join("onto"));
    write_secret(&token, "0123456789abcdef0123\n");
    std::fs::create_dir(&onto).expect("made");
    let server = Served::start(&[&onto], &["--writable", "--token-file", text(&token)]);
    let (file, url) = (data.join("file"), server.url("in/"));
    let words =
        ["put", text(&file), &url, "--token-file", text(&token), "--no-save", "--rate-limit", "8MB/s"];
    let output = linerate().args(words).args(["--interval", "500ms", "--json"]).ended();
    output.gives(0);
    let report = output.json();
    assert_eq!(report["transfer"]["moved_bytes"], bytes, "{report}");
    assert_progress(&lines(&output.stderr), bytes as f64);
    assert_eq!(names(&onto.join("in")), ["file"]);
    // What the server has of an earlier start is there.
    let (whole, part) = (onto.join("in/file"), onto.join("in/.file.linerate-part"));
    std::fs::rename(&whole, &part).expect("renamed");
    let cut = std::fs::File::options().write(true).open(&part).expect("opened");
    cut.set_len(4 << 20).expect("cut");
    let output = linerate().args(words).args(["--interval", "500ms", "--json"]).ended();
    let report = output.json();
    let kept = 4 << 20;
    assert_eq!(
        (&report["transfer"]["moved_bytes"], &report["transfer"]["files"][0]["kept_bytes"]),
        (&(bytes - kept).into(), &kept.into())
    );
    let lines = lines(&output.stderr);
    assert_progress(&lines, bytes as f64);
    let (mut sent, mut seconds) = (0.0, 0.0);
    for line in &lines {
        sent += number(line, "bytes_per_second") * (number(line, "seconds") - seconds);
        seconds = number(line, "seconds");
    }
    let last = lines.last().expect("a line");
    assert!(number(last, "bytes") > sent + 0.5 * kept as f64, "{sent}: {lines:?}");
}

#[test]
fn an_interval_that_makes_no_sense_is_refused() {
    let (_folder, data, out) = place(b"x");
    let server = Served::start(&[&data], &[]);
    for wrong in ["1ms", "-1s", "x", "2h"] {
        let output = get(&[&server.url("file"), "--output", text(&out), "--interval", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
    }
    fails(&[&server.url("none"), "--output", text(&out), "--interval", "1s"], 3, "404");
}
