//! `kill -9` of either end at random moments, of a fetch and of a put, and Ctrl-C: only right files have their names.

use super::puts::{TOKEN, put};
use crate::support::process::{PATIENCE, Started, until};
use crate::support::served::{Served, content, get_json, place};
use crate::support::{linerate, names, text, write_secret};
use linerate_testing::next;
use std::path::Path;
use std::time::Duration;

const BYTES: usize = (24 << 20) + 77;
/// A large one, and small ones in a folder.
const SMALL: u64 = 50;
const FILES: usize = SMALL as usize + 1;

fn small(number: u64) -> Vec<u8> {
    content(100 + number, 500 + 97 * number as usize)
}

/// Makes them, with the large one's content.
fn files(folder: &Path) -> Vec<u8> {
    let large = content(61, BYTES);
    std::fs::create_dir_all(folder.join("many")).expect("folders");
    std::fs::write(folder.join("file"), &large).expect("written");
    (0..SMALL).for_each(|number| {
        std::fs::write(folder.join(format!("many/{number}")), small(number)).expect("written");
    });
    large
}

/// How many are there: each is right.
fn right(came: &Path, large: &[u8]) -> usize {
    let is_there = |name: &str, content: &[u8]| {
        let own = std::fs::read(came.join(name)).ok();
        own.map(|own| assert!(own == content, "{name}")).is_some()
    };
    let many = (0..SMALL).filter(|number| is_there(&format!("many/{number}"), &small(*number)));
    many.count() + usize::from(is_there("file", large))
}

/// Whatever is at its place is whole and right, at any moment. `LINERATE_KILLS` says how often; the counts are printed.
fn killed_at_random_moments(
    (came, large): (&Path, &[u8]),
    mut server: Served,
    serve: impl Fn(&str) -> Served,
    client: impl Fn() -> Started,
) -> Served {
    let kills = std::env::var("LINERATE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let listen = format!("127.0.0.1:{}", server.port);
    let (mut state, mut of_client, mut transfers) = (0x9e37_79b9_7f4a_7c15, 0, 0);
    for _ in 0..kills {
        let client = client();
        std::thread::sleep(Duration::from_millis(next(&mut state) % 450));
        if next(&mut state).is_multiple_of(2) {
            client.signal("KILL");
            of_client += 1;
        } else {
            server.kill();
            server = serve(&listen);
        }
        client.end_within(PATIENCE);
        if right(came, large) == FILES {
            transfers += 1;
            std::fs::remove_dir_all(came).expect("removed");
        }
    }
    println!("{kills} kills, {of_client} of the client; {transfers} transfers whole, 0 wrong files");
    server
}

fn is_whole(came: &Path, large: &[u8]) {
    assert_eq!(right(came, large), FILES);
    assert_eq!(
        (names(came).len(), names(&came.join("many")).len()),
        (2, FILES - 1),
        "nothing is left beside"
    );
}

#[test]
fn kills_of_either_end_leave_only_right_files() {
    let (_folder, data, out) = place(b"");
    let large = files(&data);
    let serve = |listen: &str| Served::start_at(&[&data], listen, &["--rate-limit", "60MB/s"]);
    let server = serve("127.0.0.1:0");
    let url = server.url("");
    let words = [&url, "--output", text(&out), "--streams", "3"];
    let client = || Started::of(linerate().arg("get").args(words));
    let _server = killed_at_random_moments((&out, &large), server, serve, client);
    let (status, report, errors) = get_json(&words);
    assert_eq!(status, Some(0), "{errors} {report}");
    is_whole(&out, &large);
}

#[test]
fn kills_of_either_end_of_a_put_leave_only_right_files() {
    let (folder, data, _) = place(b"inside");
    let (token, set, came) = (folder.path().join("token"), folder.path().join("set"), data.join("set"));
    write_secret(&token, TOKEN);
    let large = files(&set);
    let options = ["--writable", "--token-file", text(&token)];
    let serve = |listen: &str| Served::start_at(&[&data], listen, &options);
    let server = serve("127.0.0.1:0");
    let url = server.url("");
    let words = [text(&set), &url, "--token-file", text(&token)];
    let client = || Started::of(linerate().arg("put").args(words).args(["--rate-limit", "60MB/s"]));
    let _server = killed_at_random_moments((&came, &large), server, serve, client);
    let (status, report, errors) = put(&words);
    assert_eq!(status, Some(0), "{errors} {report}");
    is_whole(&came, &large);
}

#[test]
fn ctrl_c_ends_at_once_and_leaves_what_came() {
    let (_folder, data, out) = place(&content(21, BYTES));
    let server = Served::start(&[&data], &["--rate-limit", "30MB/s"]);
    let child = Started::of(linerate().arg("get").args([&server.url("file"), "--output", text(&out)]));
    let journal = out.join(".file.linerate-journal");
    let lines = || std::fs::read_to_string(&journal).map_or(0, |text| text.lines().count());
    until("a block comes", || lines() > 1);
    child.interrupted(Duration::from_secs(3)).gives(1);
    assert_eq!(names(&out), [".file.linerate-journal", ".file.linerate-part"]);
}
