//! A file that is put over deaths of either end: it goes on where it ended, and only right files have their names.

use super::puts::{TOKEN, outcomes, put, writable};
use crate::support::process::{PATIENCE, Started, until};
use crate::support::served::{Served, content, place};
use crate::support::{linerate, names, text, write_secret};
use linerate_testing::next;
use std::path::Path;
use std::time::Duration;

const BYTES: usize = (24 << 20) + 77;
/// Bytes of a write at the server, and what of one may be on its way.
const BLOCK: u64 = 1 << 20;

fn start(from: &Path, url: &str, token: &Path, rate: &str) -> Started {
    let words = ["put", text(from), url, "--token-file", text(token), "--rate-limit", rate];
    Started::of(linerate().args(words))
}

fn length(part: &Path) -> u64 {
    part.metadata().map_or(0, |metadata| metadata.len())
}

fn awaits(part: &Path, bytes: u64) {
    until("the part grows", || length(part) >= bytes);
}

#[test]
fn either_end_that_is_killed_loses_at_most_a_block() {
    let (folder, data, token, server) = writable();
    let (big, part) = (folder.path().join("big"), data.join(".big.linerate-part"));
    let content = content(71, BYTES);
    std::fs::write(&big, &content).expect("written");
    let (url, listen) = (server.url(""), format!("127.0.0.1:{}", server.port));
    let mut kept = 0;
    for round in 1..=3u64 {
        let client = start(&big, &url, &token, "40MB/s");
        awaits(&part, kept + round * BLOCK);
        client.signal("KILL");
        client.end_within(PATIENCE);
        let now = length(&part);
        assert!(now >= kept + round * BLOCK, "{now} after {kept}");
        kept = now;
        assert_eq!(names(&data), [".big.linerate-part", "file"]);
        assert_eq!(server.get("/big", &format!("Authorization: Bearer {TOKEN}\r\n")).status, 404);
    }
    // The server dies, and comes back while its client tries again.
    let client = start(&big, &url, &token, "40MB/s");
    awaits(&part, kept + 2 * BLOCK);
    server.kill();
    kept = length(&part);
    let server = Served::start_at(&[&data], &listen, &["--writable", "--token-file", text(&token)]);
    client.end_within(PATIENCE).gives(0); // It goes on by itself.
    assert!(std::fs::read(data.join("big")).expect("there") == content);
    assert_eq!(names(&data), ["big", "file"]);
    // As a client says it that is started again.
    std::fs::rename(data.join("big"), &part).expect("renamed");
    let cut = std::fs::File::options().write(true).open(&part).expect("opened");
    cut.set_len(kept).expect("cut");
    let (status, report, errors) = put(&[text(&big), &url, "--token-file", text(&token)]);
    assert_eq!(status, Some(0), "{errors} {report}");
    assert_eq!(report["transfer"]["files"][0]["kept_bytes"].as_u64(), Some(kept), "{report}");
    assert_eq!(report["transfer"]["moved_bytes"].as_u64(), Some(BYTES as u64 - kept), "{report}");
    assert!(std::fs::read(data.join("big")).expect("there") == content);
    drop(server);
}

#[test]
fn what_is_held_of_another_content_is_not_gone_on_with() {
    let (folder, data, token, server) = writable();
    let (big, part) = (folder.path().join("big"), data.join(".big.linerate-part"));
    let content = content(73, BYTES);
    std::fs::write(&big, &content).expect("written");
    let held = |spoilt: usize| {
        let mut bytes = content[..16 << 20].to_vec();
        bytes[spoilt] ^= 1;
        std::fs::write(&part, bytes).expect("written");
    };
    // Its end shows it; where only its beginning differs, the sum of the whole file does.
    for (spoilt, sent) in [((16 << 20) - 1, BYTES), (5, 2 * BYTES - (16 << 20))] {
        held(spoilt);
        let (status, report, errors) = put(&[text(&big), &server.url(""), "--token-file", text(&token)]);
        assert_eq!((status, outcomes(&report, "put")), (Some(0), 1), "{errors} {report}");
        assert_eq!(report["transfer"]["moved_bytes"].as_u64(), Some(sent as u64), "{spoilt}: {report}");
        assert!(std::fs::read(data.join("big")).expect("there") == content, "{spoilt}");
        assert_eq!(names(&data), ["big", "file"]);
        std::fs::remove_file(data.join("big")).expect("removed");
    }
    // Longer than the file: of another one.
    std::fs::write(&part, vec![0; BYTES + 1]).expect("written");
    let (status, report, errors) = put(&[text(&big), &server.url(""), "--token-file", text(&token)]);
    assert_eq!(
        (status, report["transfer"]["files"][0]["kept_bytes"].as_u64()),
        (Some(0), Some(0)),
        "{errors} {report}"
    );
    assert!(std::fs::read(data.join("big")).expect("there") == content);
}

/// `LINERATE_KILLS` says how often; the counts are printed.
#[test]
fn kills_of_either_end_of_a_put_at_random_moments_leave_only_right_files() {
    let kills = std::env::var("LINERATE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(8u32);
    let (folder, data, _) = place(b"inside");
    let token = folder.path().join("token");
    write_secret(&token, TOKEN);
    let set = folder.path().join("set");
    let large = content(75, BYTES);
    let small = |number: u64| content(200 + number, 500 + 97 * number as usize);
    std::fs::create_dir_all(set.join("many")).expect("folders");
    std::fs::write(set.join("large"), &large).expect("written");
    (0..40).for_each(|number| {
        std::fs::write(set.join(format!("many/{number}")), small(number)).expect("written");
    });
    let options = ["--writable", "--token-file", text(&token)];
    let mut server = Served::start(&[&data], &options);
    let (listen, url) = (format!("127.0.0.1:{}", server.port), server.url(""));
    let came = data.join("set");
    // How many are there: each is right.
    let right = || {
        let whole = std::fs::read(came.join("large")).ok().map(|own| assert!(own == large, "the large file"));
        let many = (0..40).filter_map(|number| {
            let own = std::fs::read(came.join(format!("many/{number}"))).ok()?;
            assert!(own == small(number), "file {number}");
            Some(())
        });
        many.count() + usize::from(whole.is_some())
    };
    let (mut state, mut of_client, mut of_server, mut transfers) = (0x9e37_79b9_7f4a_7c15, 0, 0, 0);
    while of_client + of_server < kills {
        let client = start(&set, &url, &token, "60MB/s");
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
        if right() == 41 {
            transfers += 1;
            std::fs::remove_dir_all(&came).expect("removed");
        }
    }
    let (status, report, errors) = put(&[text(&set), &url, "--token-file", text(&token)]);
    assert_eq!((status, right()), (Some(0), 41), "{errors} {report}");
    assert_eq!((names(&came).len(), names(&came.join("many")).len()), (2, 40), "nothing is left beside them");
    println!(
        "kills: {of_client} of the client, {of_server} of the server; {transfers} transfers whole, 0 wrong files"
    );
}
