//! `kill -9` of either end: the next start goes on where the last one ended, and the bytes are right.

use super::planted::{self, plant};
use crate::support::process::{PATIENCE, Started, until};
use crate::support::served::{Served, content, get_json, place};
use crate::support::{linerate, names, text};
use linerate_testing::next;
use std::path::Path;
use std::time::Duration;

const BLOCK: u64 = 4 << 20;
const BYTES: usize = (40 << 20) + 123;

fn start(words: &[&str]) -> Started {
    Started::of(linerate().arg("get").args(words))
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
        let child = start(&slow);
        // At a moment of its own, after one more block came.
        until("one more block comes", || journaled(&out) > kept || out.join("file").exists());
        std::thread::sleep(Duration::from_millis(13 * round));
        child.signal("KILL");
        child.end_within(PATIENCE);
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
    let file = &report["transfer"]["files"][0];
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
    let child = start(&[&url, "--output", text(&out), "--streams", "2"]);
    for round in 1..=2 {
        until("blocks come", || journaled(&out) >= 2 * round);
        server.kill();
        server = Served::start_at(&[&data], &listen, &["--rate-limit", "60MB/s"]);
    }
    child.end_within(PATIENCE).gives(0);
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
        until("blocks come", || journaled(&out) >= blocks);
    };
    let child = start(&words);
    wait_for(2);
    child.interrupted(Duration::from_secs(3)).gives(1);
    let child = start(&words);
    wait_for(4);
    server.kill();
    child.end_within(PATIENCE).gives(1); // What came is kept.
    assert_eq!(names(&out), [".file.linerate-journal", ".file.linerate-part"]);
    // The file is another one when the server comes back: nothing of the old one is used.
    let new = content.iter().map(|byte| !byte).collect::<Vec<u8>>();
    std::fs::write(data.join("file"), &new).expect("written");
    let _server = Served::start_at(&[&data], &listen, &[]);
    let (status, report, errors) = get_json(&words);
    assert_eq!(status, Some(0), "{errors}");
    assert_eq!(report["transfer"]["files"][0]["kept_bytes"], 0, "{report}");
    assert!(std::fs::read(out.join("file")).expect("there") == new);
}

/// Killed between its last block and its rename: the next start has nothing to fetch, compares all of it, and ends.
#[test]
fn a_file_that_was_whole_but_for_its_name_gets_it_from_the_next_start() {
    let content = content(63, (8 << 20) + 5);
    let (_folder, data, out) = place(&content);
    let server = Served::start(&[&data], &[]);
    let answer = server.get("/file", "Range: bytes=0-0\r\n");
    let tags = (answer.line("ETag"), answer.line("Last-Modified"));
    plant(&out, &server.url("file"), tags, &content, 'r');
    let (status, report, errors) = get_json(&[&server.url("file"), "--output", text(&out)]);
    assert_eq!(status, Some(0), "{errors}");
    let file = &report["transfer"]["files"][0];
    assert_eq!(
        (&report["transfer"]["moved_bytes"], &file["kept_bytes"]),
        (&0.into(), &content.len().into()),
        "{report}"
    );
    assert_eq!(file["verified"], serde_json::json!(["xxh3-64"]));
    assert!(std::fs::read(out.join("file")).expect("there") == content);
    assert_eq!(names(&out), ["file"]);
}

#[test]
fn kills_of_either_end_at_random_moments_leave_only_right_files() {
    killed_at_random_moments(false);
}

/// Before every other start somebody lays a part and a journal there, in any state.
#[test]
fn kills_of_either_end_in_a_poisoned_folder_leave_only_right_files() {
    killed_at_random_moments(true);
}

/// Whatever is at its place is whole and right, at any moment; in the end all of it is. `LINERATE_KILLS` says how
/// often; the counts are printed.
fn killed_at_random_moments(is_poisoned: bool) {
    let kills = std::env::var("LINERATE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(8u32);
    let large = content(61, (24 << 20) + 77);
    let (_folder, data, out) = place(&large);
    let small = |number: u64| content(100 + number, 500 + 97 * number as usize);
    std::fs::create_dir(data.join("many")).expect("a folder");
    (0..60).for_each(|number| {
        std::fs::write(data.join(format!("many/{number}")), small(number)).expect("written");
    });
    let options = ["--rate-limit", "60MB/s"];
    let mut server = Served::start(&[&data], &options);
    let (listen, url) = (format!("127.0.0.1:{}", server.port), server.url(""));
    let words = [&url, "--output", text(&out), "--streams", "3"];
    // How many are there: each is right.
    let right = || {
        let whole = std::fs::read(out.join("file")).ok().map(|own| assert!(own == large, "the large file"));
        let many = (0..60).filter_map(|number| {
            let own = std::fs::read(out.join(format!("many/{number}"))).ok()?;
            assert!(own == small(number), "file {number}");
            Some(())
        });
        many.count() + usize::from(whole.is_some())
    };
    let (mut state, mut of_client, mut of_server, mut transfers) = (0x9e37_79b9_7f4a_7c15, 0, 0, 0);
    let answer = server.get("/file", "Range: bytes=0-0\r\n");
    let tags = (answer.line("ETag"), answer.line("Last-Modified"));
    let of_file = planted::head(&server.url("file"), large.len(), tags, &data);
    let mut planted = 0;
    while of_client + of_server < kills {
        if is_poisoned && next(&mut state).is_multiple_of(2) {
            planted::plant_at_random(&mut state, &out, &large, &of_file);
            planted += 1;
        }
        let client = start(&words);
        std::thread::sleep(Duration::from_millis(next(&mut state) % 450));
        match next(&mut state) % 2 {
            0 => {
                client.signal("KILL");
                of_client += 1;
            }
            _ => {
                server.kill();
                of_server += 1;
                server = Served::start_at(&[&data], &listen, &options);
            }
        }
        client.end_within(PATIENCE);
        if right() == 61 {
            transfers += 1;
            std::fs::remove_dir_all(&out).expect("removed");
        }
    }
    if is_poisoned {
        assert_eq!(std::fs::read(out.with_file_name("victim")).expect("there"), planted::VICTIM);
        planted::clear(&out);
    }
    let (status, report, errors) = get_json(&words);
    assert_eq!((status, right()), (Some(0), 61), "{errors} {report}");
    assert_eq!((names(&out).len(), names(&out.join("many")).len()), (2, 60), "nothing is left beside them");
    println!(
        "kills: {of_client} of the client, {of_server} of the server, {planted} times planted before; {transfers} \
         transfers whole, 0 wrong files"
    );
}
