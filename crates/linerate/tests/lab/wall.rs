//! A wall of 4 × 2 screens on a lab's four NICs and four disks: it fills them, names the one that is too
//! slow, and does without one.
//!
//! Needs root and the tools of `lab/lab up`, else it says that it is skipped (LINERATE_LAB as in
//! `lab/script.rs`).

use crate::support::lab::Lab;
use crate::support::neighbours::undisturbed;
use crate::support::process::Ends;
use crate::support::program;
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What UDP payload at MTU 9000 is of what tbf counts: an IP packet and its Ethernet header.
const UDP_PAYLOAD_SHARE: f64 = (9000.0 - 28.0) / (9000.0 + 14.0);
/// Payload that one NIC of 1 Gb/s carries, bytes per second.
const NIC_BYTES_PER_SECOND: f64 = 1e9 / 8.0 * UDP_PAYLOAD_SHARE;
const TILE_BYTES: f64 = 640.0 * 400.0 * 3.0;
const NICS: usize = 4;
const TILES: usize = 8;
/// As long as the issue allows for whatever has to be noticed.
const NOTICED_WITHIN: Duration = Duration::from_secs(2);
/// Figures that a neighbour on the same host may have spoilt are looked at so often.
const MOST_LOOKS: usize = 8;

/// A lab with a movie on its disks.
struct Wall {
    lab: Lab,
    folder: tempfile::TempDir,
    playing: Vec<Child>,
}

impl Wall {
    /// None where this machine cannot have a lab.
    fn up() -> Option<Wall> {
        let disks = format!("{NICS}x0");
        let nics = ["1000"; NICS].join(",");
        let lab = Lab::up("wall", &["--disks", &disks, "--nics", &nics, "--file-size", "96M"])?;
        let wall = Wall { lab, folder: tempfile::tempdir().expect("a folder"), playing: Vec::new() };
        // The lab's own data files are in the way of the tiles.
        for source in wall.lab.succeed("sources", &[]).lines() {
            std::fs::OpenOptions::new().write(true).truncate(true).open(source).expect("the file is emptied");
        }
        let movie = wall.movie();
        let mut words: Vec<&str> = vec!["wall", "generate", &movie, "--grid", "4x2", "--tile", "640x400"];
        words.extend(["--fps", "24", "--frames", "40"]);
        let mounts = wall.lab.succeed("mounts", &[]);
        mounts.lines().for_each(|mount| words.extend(["--spread", mount]));
        wall.on_server(&words);
        Some(wall)
    }

    fn movie(&self) -> String {
        self.folder.path().join("movie").display().to_string()
    }

    fn key(&self) -> String {
        self.folder.path().join("key").display().to_string()
    }

    /// linerate on the server's side, to its end.
    fn on_server(&self, words: &[&str]) -> String {
        let program = program();
        self.lab.succeed("run", &[&["--", &program], words].concat())
    }

    /// Tells the movie to be played at another rate.
    fn set_rate(&self, frames_per_second: u32) {
        let path = self.folder.path().join("movie/movie.toml");
        let text = std::fs::read_to_string(&path).expect("movie.toml");
        let line = text.lines().find(|line| line.starts_with("frames_per_second")).expect("its rate");
        let changed = text.replace(line, &format!("frames_per_second = \"{frames_per_second}\""));
        std::fs::write(&path, changed).expect("written");
    }

    /// A screen for each tile on the peer, and the server; they play until `stop`.
    fn play(&mut self) {
        let program = program();
        let addresses = self.lab.succeed("address", &[]);
        let mut serve: Vec<String> =
            ["wall", "serve", &self.movie(), "--listen", "127.0.0.1:7412", "--page", "none"]
                .map(String::from)
                .to_vec();
        serve.extend(["--key-file".into(), self.key(), "--json".into()]);
        for tile in 0..TILES {
            let port = (5004 + tile).to_string();
            let screen = ["--", &program, "wall", "show", "--verify", "--json", "--listen", &port];
            self.playing.push(quiet(self.lab.command("peer", &screen)));
            let to: Vec<String> = addresses.lines().map(|address| format!("{address}:{port}")).collect();
            serve.extend(["--screen".into(), format!("r{}c{}={}", tile / 4, tile % 4, to.join(","))]);
        }
        let words: Vec<&str> = ["--", &program].into_iter().chain(serve.iter().map(String::as_str)).collect();
        self.playing.push(quiet(self.lab.command("run", &words)));
        self.until(Duration::from_secs(20), "every tile is sent", |status| {
            tiles(status).iter().all(|tile| tile["frames_sent"].as_u64() > Some(10))
        });
    }

    fn stop(&mut self) {
        for mut child in self.playing.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
        // What the lab's shells have started lives on after them.
        for side in ["server", "peer"] {
            let netns = format!("linerate-{}-{side}", self.lab.name());
            let processes = Command::new("ip").args(["netns", "pids", &netns]).ended();
            for process in processes.stdout.split_whitespace() {
                let _ = Command::new("kill").arg(process).status();
            }
        }
        std::thread::sleep(Duration::from_millis(500));
    }

    /// How the wall does now; none while the server is not there yet.
    fn status(&self) -> Option<Value> {
        let program = program();
        let key = self.key();
        let words = ["--", &program, "wall", "control", "--server", "127.0.0.1:7412", "--key-file", &key];
        let words = [&words[..], &["--json", "status"]].concat();
        let output = self.lab.command("run", &words).ended();
        serde_json::from_str(&output.stdout).ok()
    }

    /// Looks until it is so, and fails after this long.
    fn until(&self, patience: Duration, what: &str, so: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let status = self.status();
            // The look itself takes a moment on a busy machine: what it shows was so when it began.
            let looked = since.elapsed();
            if let Some(status) = status.as_ref().filter(|status| so(status)) {
                return status.clone();
            }
            assert!(looked < patience, "{what}: not within {patience:?}: {status:#?}");
        }
    }

    fn tool(&self, words: &[&str]) {
        let words: Vec<String> =
            words.iter().map(|word| word.replace("NAME", &format!("linerate-{}", self.lab.name()))).collect();
        let done = Command::new(&words[0]).args(&words[1..]).status().expect("the tool starts");
        assert!(done.success(), "{words:?}");
    }
}

impl Drop for Wall {
    fn drop(&mut self) {
        self.stop();
    }
}

fn quiet(mut command: Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

fn tiles(status: &Value) -> &[Value] {
    status["tiles"].as_array().map_or(&[], Vec::as_slice)
}

fn nic<'a>(status: &'a Value, name: &str) -> &'a Value {
    let nics = status["nics"].as_array().expect("NICs");
    nics.iter().find(|nic| nic["name"] == name).unwrap_or(&Value::Null)
}

#[test]
fn four_nics_and_four_disks() {
    undisturbed("a wall that fills its NICs", 1, || {
        let Some(mut wall) = Wall::up() else { return };
        fills_all_nics_at_once(&mut wall);
        names_the_nic_that_was_cut(&mut wall);
        wall.stop();
        does_without_a_nic(&mut wall);
    });
}

/// 0.985 of what the NICs carry is asked for, 0.97 must go out, and nothing is left out or lost.
fn fills_all_nics_at_once(wall: &mut Wall) {
    wall.set_rate((0.985 * NICS as f64 * NIC_BYTES_PER_SECOND / (TILES as f64 * TILE_BYTES * 1.003)) as u32);
    wall.play();
    let mut shares = Vec::new();
    for _ in 0..MOST_LOOKS {
        std::thread::sleep(Duration::from_millis(1200));
        let Some(status) = wall.status() else { continue };
        let rate = |nic: &Value| nic["bytes_per_second"].as_f64().expect("a rate") / NIC_BYTES_PER_SECOND;
        shares = status["nics"].as_array().expect("NICs").iter().map(rate).collect::<Vec<f64>>();
        if shares.len() == NICS && shares.iter().all(|share| *share >= 0.97) {
            return;
        }
    }
    panic!("the NICs carry {shares:?} of their goodput: {:#?}", wall.status());
}

fn names_the_nic_that_was_cut(wall: &mut Wall) {
    let cut = ["tc", "-n", "NAME-server", "qdisc", "change", "dev", "nic2", "root", "tbf", "rate", "500mbit"];
    wall.tool(&[&cut[..], &["burst", "70000", "limit", "1000000"]].concat());
    let status =
        wall.until(NOTICED_WITHIN, "nic2 is named", |status| nic(status, "nic2")["problem"].is_string());
    let held_by = status["held_by"].as_str().unwrap_or_default();
    assert!(held_by.contains("nic2"), "{status:#?}");
    for other in ["nic0", "nic1", "nic3"] {
        assert!(nic(&status, other)["problem"].is_null(), "{status:#?}");
    }
    let whole = ["tc", "-n", "NAME-server", "qdisc", "change", "dev", "nic2", "root", "tbf", "rate", "1gbit"];
    wall.tool(&[&whole[..], &["burst", "125000", "limit", "1000000"]].concat());
}

fn does_without_a_nic(wall: &mut Wall) {
    // What three NICs carry, too.
    wall.set_rate(45);
    wall.play();
    let on = |status: &Value, name: &str| tiles(status).iter().filter(|tile| tile["nic"] == name).count();
    wall.until(Duration::from_secs(5), "two tiles a NIC", |status| on(status, "nic1") == 2);
    wall.tool(&["ip", "-n", "NAME-peer", "link", "set", "nic1", "down"]);
    let moved = wall.until(NOTICED_WITHIN, "nic1's tiles have moved", |status| on(status, "nic1") == 0);
    assert_eq!(nic(&moved, "nic1")["carrier"], false, "{moved:#?}");
    let sent = |status: &Value| -> Vec<u64> {
        tiles(status).iter().map(|tile| tile["frames_sent"].as_u64().unwrap_or(0)).collect()
    };
    let before = sent(&moved);
    wall.until(NOTICED_WITHIN, "every tile goes on", |status| {
        sent(status).iter().zip(&before).all(|(now, before)| *now > before + 10)
    });
    wall.tool(&["ip", "-n", "NAME-peer", "link", "set", "nic1", "up"]);
    wall.until(NOTICED_WITHIN, "nic1 has its tiles back", |status| on(status, "nic1") == 2);
}
