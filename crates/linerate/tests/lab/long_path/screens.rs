//! Screens of a wall 50 ms away: they keep to the server's clock, and not to when something comes.

use super::up;
use crate::support::lab::Lab;
use crate::support::neighbours::undisturbed;
use crate::support::process::Ends;
use crate::support::program;
use crate::support::wall_players::{ScreenProcess, key, listening, movie};
use linerate::wall::control::ScreenReport;
use serde_json::Value;
use std::path::Path;

/// A server may begin a frame a period after its tick, and spreads it over another one; then comes the way.
const IN_TIME: f64 = 2.0 * 1000.0 / 24.0 + 25.0;
const PORTS: [&str; 2] = ["5004", "5005"];

/// Three seconds of both tiles, with this latency: what the server says, and what its two screens say.
fn played(lab: &Lab, folder: &Path, latency: &str) -> (Value, Vec<ScreenReport>) {
    let (program, key) = (program(), folder.join("key").display().to_string());
    let movie = folder.join("movie").display().to_string();
    let peer = lab.succeed("address", &["0"]).trim().to_string();
    let server = format!("{}.1:7412", peer.rsplit_once('.').expect("an IPv4 address").0);
    let tiles = ["r0c0", "r0c1"];
    let screen = |at: usize| -> ScreenProcess {
        let common = ["--", &program, "wall", "show", "--verify", "--json", "--seconds", "40"];
        let own = ["--until-silent", "1", "--listen", PORTS[at], "--tile", tiles[at], "--latency", latency];
        let words = [&common[..], &own, &["--server", &server, "--key-file", &key]].concat();
        listening(lab.command("peer", &words), 1)
    };
    let screens = [screen(0), screen(1)];
    let to = [0, 1].map(|at| format!("{}={peer}:{}", tiles[at], PORTS[at]));
    let line = format!("-- {program} wall serve {movie} --seconds 4 --json --page none --key-file {key}");
    let serve: Vec<&str> = line.split(' ').collect();
    // Frames that a busy machine left out are not a success; what became of the others counts here.
    let words = [&serve[..], &["--screen", &to[0], "--screen", &to[1]]].concat();
    let served = lab.command("run", &words).ended();
    let server = served.json();
    (server, screens.into_iter().map(ScreenProcess::wait).collect())
}

#[test]
fn screens_far_away_keep_to_the_clock_of_their_server() {
    let Some(lab) = up("screens", &["--rtt", "50ms", "--nics", "1000"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    movie(folder.path());
    key(folder.path());
    undisturbed("screens 50 ms away", 3, || {
        let latency = IN_TIME + 25.0;
        let (server, screens) = played(&lab, folder.path(), &format!("{latency}ms"));
        for (tile, screen) in server["tiles"].as_array().expect("tiles").iter().zip(&screens) {
            // Screens that are there before their server find it within a second, over several round trips.
            let sent = tile["frames_sent"].as_u64().expect("a count");
            let shown = screen.frames_shown;
            assert!(sent > 48 && (sent - 24..=sent).contains(&shown), "{shown} of {sent}: {screen:#?}");
            assert_eq!(
                (screen.frames_late, screen.frames_torn, screen.frames_missing),
                (0, 0, 0),
                "{screen:#?}"
            );
            assert_eq!((screen.frames_proven, screen.datagrams_lost), (shown, 0), "{screen:#?}");
            // By the clock: as late after the tick as was asked for, whatever the way takes.
            let presented = screen.presented_p50_ms.expect("a time");
            assert!((latency..latency + 5.0).contains(&presented), "{presented} ms of {latency}");
            // The server heard of it over the same way.
            assert!(tile["report"]["frames_shown"].as_u64().is_some_and(|shown| shown > 0), "{tile:#}");
        }
    });
    // The way alone takes 25 ms: what comes is shown when it is whole, and counted as late.
    let (_, screens) = played(&lab, folder.path(), "20ms");
    for screen in &screens {
        assert_eq!(
            (screen.frames_torn, screen.frames_wrong, screen.datagrams_lost),
            (0, 0, 0),
            "{screen:#?}"
        );
        assert!(screen.frames_late > screen.frames_shown, "{screen:#?}");
        assert!(screen.presented_p50_ms.is_some_and(|after| after > 25.0), "{screen:#?}");
    }
}
