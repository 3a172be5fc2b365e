//! Walls of one and several servers: who leads, an end, and a load that is refused.

use crate::support::process::Ends;
use crate::support::wall_players::{Wall, WallServerProcess, until};

#[test]
fn a_server_that_follows_plays_nothing_before_it_knows_what() {
    let wall = Wall::new(["left", "right"]);
    let right = WallServerProcess::start(&wall, "right");
    let dark = || {
        let status = right.status()?;
        let problem = status.problems.iter().find(|problem| problem.contains("so nothing is played yet"))?;
        Some((problem.clone(), status.frames_sent))
    };
    until("it says so", || dark().is_some());
    assert_eq!(dark().expect("a problem").1, 0);
}

#[test]
fn a_movie_at_its_end_does_not_play() {
    let wall = Wall::new(["left"]);
    let server = WallServerProcess::start(&wall, "left");
    let plays = || server.status().is_some_and(|status| status.playing && !status.ended);
    until("it begins", plays);
    server.control(&["loop", "off"]);
    until("it ends", || server.status().is_some_and(|status| status.ended && !status.playing));
    // From the beginning again; a pause is no end.
    server.control(&["play"]);
    until("it plays", plays);
    server.control(&["pause"]);
    until("it stands", || server.status().is_some_and(|status| !status.playing && !status.ended));
}

#[test]
fn what_the_processors_cannot_carry_is_said_before_it_starts() {
    let folder = tempfile::tempdir().expect("a folder");
    let tiles = std::thread::available_parallelism().map_or(1, usize::from) * 2 + 1;
    let movie = format!(
        "format = 1\ngrid = \"{tiles}x1\"\ntile = \"1920x1080\"\npixels = \"rgb8\"\nframes_per_second = \
         \"900\"\nframes = 2\n"
    );
    std::fs::write(folder.path().join("movie.toml"), movie).expect("a movie");
    let mut serve = crate::support::linerate();
    serve.args(["wall", "serve", "--once"]).arg(folder.path()).env_remove("LINERATE_KEY");
    for column in 0..tiles {
        // Holes: nothing is written, and nothing will be read.
        let file = std::fs::File::create(folder.path().join(format!("r0c{column}.rgb"))).expect("a tile");
        file.set_len(1920 * 1080 * 3 * 2).expect("a length");
        serve.args(["--screen", &format!("r0c{column}=127.0.0.1:{}", 9 + column)]);
    }
    let output = serve.ended();
    let stderr = &output.stderr;
    output.gives(3);
    for word in ["it cannot: the processors give", "frames a second would fit", "--anyway"] {
        assert!(stderr.contains(word), "{stderr}");
    }
}
