//! Walls over members on this machine: each tile at its rate, and every layout that cannot be measured in a sentence.

use super::{HERE, SHORT, ended, fleet, here};
use serde_json::Value;
use std::path::Path;

/// Two servers, two screens each, small tiles.
const LAYOUT: &str = r#"
grid = "2x2"
tile = "320x200"
[[server]]
name = "a1"
control = "a1:7412"
[[server]]
name = "a2"
[[screen]]
tile = "r0c0"
to = ["a3:5004"]
server = "a1"
[[screen]]
tile = "r0c1"
to = ["a4:5004"]
server = "a1"
[[screen]]
tile = "r1c0"
to = ["a3:5005"]
server = "a2"
[[screen]]
tile = "r1c1"
to = ["a3:5006"]
server = "a2"
"#;

fn saved(folder: &Path, text: &str) -> String {
    let file = folder.join("wall.toml");
    std::fs::write(&file, text).expect("the layout");
    file.to_string_lossy().into_owned()
}

#[test]
fn servers_of_a_layout_send_each_tile_at_its_rate() {
    let folder = tempfile::tempdir().expect("a folder");
    let layout = saved(folder.path(), LAYOUT);
    let out = folder.path().join("out").to_string_lossy().into_owned();
    let words = ["--wall", &layout, "--fps", "10", "--json", "--output", &out];
    let (status, stdout, stderr) = ended(&mut here("wall", "a[1-4]", &words));
    assert_eq!(status, 0, "{stderr}");
    let result: Value = serde_json::from_str(&stdout).expect("JSON");
    let flows = result["wall"]["flows"].as_array().expect("flows");
    assert_eq!(flows.len(), 3, "two tiles of the same two hosts are one flow: {flows:?}");
    let tile = 320.0 * 200.0 * 3.0 * 10.0;
    assert_eq!(flows[2]["tiles"], serde_json::json!(["r1c0", "r1c1"]));
    assert_eq!(flows[2]["wanted_bytes_per_second"], 2.0 * tile);
    let windows = result["windows"].as_array().expect("windows");
    assert_eq!(windows.iter().filter(|window| window["alone"] != true).count(), 3);
    for cell in result["cells"].as_array().expect("cells") {
        let wanted = cell["wanted_bytes_per_second"].as_f64();
        let alone = windows[cell["window"].as_u64().expect("a window") as usize]["alone"] == true;
        assert_eq!(wanted.is_none(), alone, "{cell}");
        // What is paced has no more than its rate, but for what waited before the window.
        if let (Some(wanted), Some(rate)) = (wanted, cell["bytes_per_second"].as_f64()) {
            assert!(rate < 2.0 * wanted, "{cell}");
        }
    }
    let sentence = result["verdict"]["sentence"].as_str().unwrap_or_default();
    assert!(sentence.starts_with("4 tiles from 2 servers to 2 hosts: "), "{sentence}");
    let page = std::fs::read_to_string(format!("{out}/report.html")).expect("report.html");
    assert!(page.contains("r1c0 r1c1") && page.contains("of what they take"), "its page has the tiles");
}

/// The servers read what they send, and leave no file.
#[test]
fn the_servers_of_a_wall_may_read_what_they_send() {
    let folder = tempfile::tempdir().expect("a folder");
    let layout = saved(folder.path(), LAYOUT);
    let source = folder.path().join("data");
    std::fs::create_dir(&source).expect("a folder");
    let place = source.to_string_lossy().into_owned();
    let words =
        ["--wall", &layout, "--fps", "10", "--source", &place, "--amount", "2M", "--buffered", "--json"];
    let start = ["wall", "--hosts", "a[1-4]", "--launch", HERE, "--coordinator", "127.0.0.1:0"];
    let windows = ["--streams", "1", "--seconds", "1", "--warm-up", "50ms"];
    let (status, stdout, stderr) = ended(&mut fleet(&[&start[..], &windows, &words].concat()));
    assert_eq!(status, 0, "{stderr}");
    let result: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(result["disks"].as_array().map(Vec::len), Some(2), "each server's disks alone");
    let cells = result["cells"].as_array().expect("cells");
    let played = || cells.iter().filter(|cell| cell["wanted_bytes_per_second"].is_f64());
    assert_eq!(played().count(), 9);
    assert!(played().all(|cell| cell["predicted_bytes_per_second"].as_f64() > Some(0.0)), "{cells:?}");
    assert!(result["verdict"]["wall"]["headroom"].as_f64() > Some(0.0), "{}", result["verdict"]);
    assert!(std::fs::read_dir(&source).expect("the folder").next().is_none(), "no file is left");
}

#[test]
fn a_layout_that_cannot_be_measured_is_reported_in_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |layout: &str, more: &[&str]| {
        let layout = saved(folder.path(), layout);
        let (status, stdout, stderr) =
            ended(&mut here("wall", "a[1-4]", &[&["--wall", &layout], more].concat()));
        assert_eq!((status, stderr.lines().count()), (2, 1), "{stdout}{stderr}");
        stderr
    };
    assert!(refused(&LAYOUT.replace("tile = \"320x200\"", ""), &[]).contains("add --tile 2560x1600"));
    assert!(
        refused(&LAYOUT.replace("a4:5004", "239.1.2.3:5004"), &[])
            .contains("the multicast group 239.1.2.3:5004")
    );
    assert!(refused(&LAYOUT.replace("2x2", "3x2"), &[]).contains("without a [[screen]]: r0c2"));
    assert!(refused(LAYOUT, &["--servers", "a1"]).contains("it names its servers: leave out --servers"));
    let one = "grid = \"1x1\"\ntile = \"320x200\"\n[[screen]]\ntile = \"r0c0\"\nto = [\"a2:5004\"]\n";
    assert!(refused(one, &[]).contains("name the host that sends all tiles with --servers"));
    assert!(refused(one, &["--servers", "a[1-2]"]).contains("the layout is of one server"));
    let (status, _, stderr) = ended(&mut here("wall", "a[1-4]", &[]));
    assert!(status == 2 && stderr.contains("fleet wall needs a layout"), "{stderr}");
    let layout = saved(folder.path(), LAYOUT);
    let (status, _, stderr) = ended(&mut here("pairs", "a[1-4]", &["--wall", &layout]));
    assert!(status == 2 && stderr.contains("--wall belongs to `linerate fleet wall`"), "{stderr}");
    let (status, _, stderr) = ended(&mut here("wall", "a[1-4]", &["--wall", "/no/such/layout"]));
    assert!(status == 3 && stderr.contains("/no/such/layout: No such file"), "{stderr}");
}

/// What can be measured is, and the rest is named.
#[test]
fn a_tile_without_a_member_is_named_and_the_others_are_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    let layout = saved(folder.path(), &LAYOUT.replace("a4:5004", "192.0.2.9:5004"));
    let words = ["--wall", &layout, "--fps", "10", "--json"];
    let start = ["wall", "--hosts", "a[1-3]", "--launch", HERE, "--coordinator", "127.0.0.1:0"];
    let (status, stdout, stderr) = ended(&mut fleet(&[&start[..], &SHORT, &words].concat()));
    assert_eq!(status, 1, "{stderr}");
    assert!(stderr.contains("tile r0c1: its screen 192.0.2.9:5004 is none of the members"), "{stderr}");
    let result: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(result["wall"]["flows"].as_array().map(Vec::len), Some(2), "{stdout}");
}
