//! `wall serve --launch`: one command starts the server and the screens of every host of the layout.

use crate::support;
use crate::support::process::{Ends, signal_process};
use crate::support::served::free_port;
use crate::support::wall_served::Played;
use linerate::agent::Key;
use linerate::wall::status::WallStatus;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};

/// A movie of three tiles whose frames prove themselves, and a layout with two of them on one host.
fn movie_and_layout(folder: &Path) -> (PathBuf, PathBuf) {
    let movie = folder.join("movie");
    let words = ["wall", "generate", "--grid", "3x1", "--tile", "96x32", "--frames", "48"];
    support::linerate().args(words).arg(&movie).ended().gives(0);
    let mut text = String::from("grid = \"3x1\"\n");
    for (column, host) in ["127.0.0.1", "127.0.0.1", "127.0.0.2"].iter().enumerate() {
        let port = free_port();
        text += &format!("[[screen]]\ntile = \"r0c{column}\"\nto = [\"{host}:{port}\"]\n");
    }
    let layout = folder.join("wall.toml");
    std::fs::write(&layout, text).expect("a layout");
    (movie, layout)
}

fn pids(file: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

fn proven(status: &WallStatus) -> Vec<u64> {
    status.tiles.iter().map(|tile| tile.report.as_ref().map_or(0, |report| report.frames_proven)).collect()
}

#[test]
fn one_command_starts_all_screens_brings_one_back_and_leaves_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let (movie, layout) = movie_and_layout(folder.path());
    let started = folder.path().join("pids");
    // A launcher as ssh is one: it starts the member's words, with the key on standard input alone.
    let launcher =
        format!("env -u LINERATE_KEY sh -c 'echo $$ >>{}; exec \"$@\"' {{host}}", started.display());
    let mut serve = support::linerate();
    serve.args(["wall", "serve", "--json"]).arg(&movie).arg("--layout").arg(&layout);
    serve.env_remove("LINERATE_KEY").args(["--launch", &launcher]);
    serve.stdin(std::process::Stdio::null());
    let mut played = Played::start_with(serve, &["--", "--verify"]);
    // More than a screen that begins anew proves until its first report.
    let many = 30;
    played.until("all screens prove frames", |status| proven(status).iter().all(|frames| *frames > many));
    assert_eq!(pids(&started).len(), 2, "one launcher a host");
    signal_process(pids(&started)[0], "KILL");
    played.until("it is started again, and its screens prove frames", |status| {
        let now = proven(status);
        pids(&started).len() == 3
            && now.iter().all(|frames| *frames > 0)
            && now.iter().any(|frames| *frames < many)
    });
    let status = played.end();
    for tile in status["tiles"].as_array().expect("tiles") {
        let report = &tile["report"];
        assert!(report["frames_proven"].as_u64().is_some_and(|frames| frames > 0), "{tile:#}");
        assert_eq!(report["frames_wrong"], 0, "{tile:#}");
    }
    let left: Vec<u32> =
        pids(&started).into_iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()).collect();
    assert!(left.is_empty(), "{left:?} are left");
}

#[test]
fn launchers_and_layouts_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (movie, layout) = movie_and_layout(folder.path());
    let fails = |words: &[&str], says: &str| {
        let mut serve = support::linerate();
        serve
            .args(["wall", "serve"])
            .arg(&movie)
            .args(["--listen", "127.0.0.1:0", "--page", "none"])
            .args(words);
        serve.env_remove("LINERATE_KEY").ended().gives(2).mentions(&[says]);
    };
    let layout = layout.to_str().expect("a path");
    fails(&["--layout", layout, "--launch", "mpirun -np 3"], "{host}");
    fails(&["--layout", layout, "--launch", "ssh 'a"], "quotation mark");
    let group = folder.path().join("group.toml");
    let text = std::fs::read_to_string(layout).expect("a layout").replacen("127.0.0.2", "239.1.2.3", 1);
    std::fs::write(&group, text).expect("a layout");
    fails(&["--layout", group.to_str().expect("a path"), "--launch"], "a multicast group");
    // A host is there twice: with one port for two screens, or among those that tiles are dealt to.
    let screen = |column| format!("[[screen]]\ntile = \"r0c{column}\"\nto = [\"127.0.0.1:5004\"]\n");
    let text = format!("grid = \"3x1\"\n{}", (0..3).map(screen).collect::<String>());
    std::fs::write(&group, text).expect("a layout");
    let says = "are both sent to 127.0.0.1:5004";
    fails(&["--layout", group.to_str().expect("a path"), "--launch"], says);
    fails(&["--screens", "127.0.0.1,127.0.0.1", "--launch"], says);
}

/// Of three screens two come; the host of the third takes what is sent to it, and its launcher ends at once.
#[test]
fn a_dead_host_is_named_at_the_end_and_the_others_play() {
    let folder = tempfile::tempdir().expect("a folder");
    let (movie, layout) = movie_and_layout(folder.path());
    let text = std::fs::read_to_string(&layout).expect("a layout");
    let dead = text.split('"').find(|word| word.starts_with("127.0.0.2:")).expect("an address");
    let _taken = UdpSocket::bind(dead).expect("nobody has it");
    let launcher =
        r#"sh -c 'test "$0" = 127.0.0.1 || { echo no route to it >&2; exit 255; }; exec "$@"' {host}"#;
    let mut serve = support::linerate();
    serve.args(["wall", "serve"]).arg(&movie).arg("--layout").arg(&layout).args(["--launch", launcher]);
    serve.args(["--listen", "127.0.0.1:0", "--page", "none", "--seconds", "3", "--json", "--", "--verify"]);
    let ended = serve.env_remove("LINERATE_KEY").ended();
    let never = format!("linerate: screens that never came: r0c2 at {dead}; look at");
    ended.gives(1).mentions(&["screens at 127.0.0.2: ", "no route to it", &never]);
    assert_eq!(ended.stderr.matches("never came").count(), 1, "{ended}");
    let status: WallStatus = serde_json::from_value(ended.json()).expect("a status");
    assert!(proven(&status)[..2].iter().all(|frames| *frames > 0), "the others play: {status:?}");
}

#[test]
fn a_screen_waits_for_the_key_of_a_server_that_is_not_there_yet() {
    let folder = tempfile::tempdir().expect("a folder");
    let key = folder.path().join("key");
    let mut show = support::linerate();
    show.args(["wall", "show", "--listen", "127.0.0.1:0", "--tile", "r0c0", "--server", "127.0.0.1:1"]);
    show.args(["--window", "none", "--seconds", "0.2", "--key-file"]).arg(&key);
    let (waiting, _) = support::process::Started::once_said(&mut show, "linerate: waits for the key", 1);
    Key::read_or_make_file(&key).expect("a key");
    // It began: that no server answers is told at its end.
    waiting.end_within(std::time::Duration::from_secs(20)).gives(0).shows(&["no server of a wall"]);
}
