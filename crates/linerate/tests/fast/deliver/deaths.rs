//! `kill -9` of either end: the next start goes on where the last one ended, and the bytes are right.

use super::ground::{PATIENCE, Served, content, get_json, names, place, signal, text};
use crate::support::linerate;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const BLOCK: u64 = 4 << 20;
const BYTES: usize = (40 << 20) + 123;

fn start(words: &[&str]) -> Child {
    linerate().arg("get").args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

/// Blocks that the journal has, whole lines only.
fn journaled(out: &Path) -> u64 {
    let journal = std::fs::read_to_string(out.join(".file.linerate-journal")).unwrap_or_default();
    let whole = journal.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let blocks = whole.lines().skip(1).filter_map(|line| line.split(' ').next());
    let mut blocks: Vec<&str> = blocks.collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks.len() as u64
}

#[test]
fn a_client_that_is_killed_loses_at_most_a_block_of_each_stream() {
    let content = content(17, BYTES);
    let (_folder, data, out) = place(&content);
    let server = Served::start(&[&data], &[]);
    let url = server.url("file");
    let words = [&url, "--output", text(&out), "--streams", "2"];
    let slow = [&words[..], &["--rate-limit", "40MB/s"]].concat();
    let mut kept = 0;
    for round in 0..5u64 {
        let mut child = start(&slow);
        let begun = Instant::now();
        // At a moment of its own, after one more block came.
        while journaled(&out) <= kept && begun.elapsed() < PATIENCE && !out.join("file").exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(13 * round));
        child.kill().expect("killed");
        child.wait().expect("it ends");
        let now = journaled(&out);
        assert!(now >= kept, "{now} {kept}");
        kept = now;
        if out.join("file").exists() {
            break;
        }
        assert_eq!(
            names(&out),
            [".file.linerate-journal", ".file.linerate-part"],
            "nothing at the destination"
        );
    }
    let (status, report, errors) = get_json(&words);
    assert_eq!(status, Some(0), "{errors}");
    assert!(std::fs::read(out.join("file")).expect("there") == content);
    assert_eq!(names(&out), ["file"]);
    let file = &report["files"][0];
    if file["outcome"] == "fetched" {
        let resumed = file["kept_bytes"].as_u64().expect("bytes");
        // The last block is short.
        assert!(resumed + BLOCK > kept * BLOCK && kept > 0, "{resumed} of {kept} blocks");
        assert_eq!(file["verified"], serde_json::json!(["xxh3-64"]), "also what was there is compared");
    }
}

#[test]
fn a_server_that_is_killed_and_started_again_is_gone_on_with() {
    let content = content(19, BYTES);
    let (_folder, data, out) = place(&content);
    let mut server = Served::start(&[&data], &["--rate-limit", "30MB/s"]);
    let listen = format!("127.0.0.1:{}", server.port);
    let url = server.url("file");
    let mut child = start(&[&url, "--output", text(&out), "--streams", "2"]);
    for round in 1..=2 {
        let begun = Instant::now();
        while journaled(&out) < 2 * round && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        server.kill();
        server = Served::start_at(&[&data], &listen, &["--rate-limit", "60MB/s"]);
    }
    assert!(child.wait().expect("it ends").success());
    assert!(std::fs::read(out.join("file")).expect("there") == content);
    assert_eq!(names(&out), ["file"]);
    drop(server);
}

#[test]
fn a_server_that_stays_away_leaves_what_came_and_ctrl_c_ends_at_once() {
    let content = content(21, BYTES);
    let (_folder, data, out) = place(&content);
    let server = Served::start(&[&data], &["--rate-limit", "30MB/s"]);
    let (listen, url) = (format!("127.0.0.1:{}", server.port), server.url("file"));
    let words = [&url, "--output", text(&out), "--streams", "2"];
    let wait_for = |blocks: u64| {
        let begun = Instant::now();
        while journaled(&out) < blocks && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let mut child = start(&words);
    wait_for(2);
    signal(&child, "INT");
    let asked = Instant::now();
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
    let mut child = start(&words);
    wait_for(4);
    server.kill();
    assert_eq!(child.wait().expect("it ends").code(), Some(1), "what came is kept");
    assert_eq!(names(&out), [".file.linerate-journal", ".file.linerate-part"]);
    // The file is another one when the server comes back: nothing of the old one is used.
    let new = content.iter().map(|byte| !byte).collect::<Vec<u8>>();
    std::fs::write(data.join("file"), &new).expect("written");
    let _server = Served::start_at(&[&data], &listen, &[]);
    let (status, report, errors) = get_json(&words);
    assert_eq!(status, Some(0), "{errors}");
    assert_eq!(report["files"][0]["kept_bytes"], 0, "{report}");
    assert!(std::fs::read(out.join("file")).expect("there") == new);
}
