//! Either half dies, or the user ends the copy: the same command goes on where it ended.

use super::CopyPair;
use crate::bad_input::ground::{SECONDS, processes_in};
use crate::support::process::{Started, signal_process, until};
use crate::support::served::content;
use linerate_testing::next;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Ctrl-C, a kill that cannot be caught.
const INTERRUPT: i32 = 2;
const KILL: i32 = 9;

/// A large file that is copied slowly.
struct SlowCopy {
    pair: CopyPair,
    content: Vec<u8>,
    words: [&'static str; 2],
    destination: PathBuf,
}

impl SlowCopy {
    fn new(is_push: bool) -> Self {
        let (pair, content) = (CopyPair::new(), content(93, 24 << 20));
        let (source, words, destination) = match is_push {
            true => (pair.here.join("file"), ["file", "@copied"], pair.there.join("copied")),
            false => (pair.there.join("file"), ["@file", "copied"], pair.here.join("copied")),
        };
        fs::write(source, &content).expect("written");
        SlowCopy { pair, content, words, destination }
    }

    /// Begun, with a part of the file there.
    fn half_way(&self) -> Started {
        let words = [&self.words[..], &["--rate-limit=8MB/s"]].concat();
        let started = Started::of(&mut self.pair.copy(&words));
        let journal = self.destination.with_file_name(".copied.linerate-journal");
        until("something came", || fs::read_to_string(&journal).unwrap_or_default().lines().count() >= 2);
        started
    }

    /// The process on “the other host”.
    fn there(&self) -> u32 {
        let all = processes_in(&self.pair.ground.path());
        all.into_iter().find(|(_, line)| line.starts_with("linerate copy-half")).expect("it runs").0
    }

    /// The same command goes on.
    fn goes_on(&self) {
        self.pair.ground.deserted();
        assert!(!self.destination.exists(), "nothing half under its name");
        let ended = self.pair.ends(&self.words);
        ended.is_content().shows(&[" were there) in "]);
        assert!(fs::read(&self.destination).expect("copied") == self.content);
    }
}

#[test]
fn ctrl_c_ends_both_halves_and_the_same_command_goes_on() {
    for is_push in [true, false] {
        let copy = SlowCopy::new(is_push);
        let started = copy.half_way();
        let asked = Instant::now();
        started.signal(INTERRUPT);
        let ended = started.end_within(SECONDS);
        assert!(asked.elapsed() < Duration::from_secs(6), "{:?}\n{ended}", asked.elapsed());
        ended.gives(1).shows(&["1 file unfinished: the same command goes on where it ended"]);
        copy.goes_on();
    }
}

#[test]
fn the_other_half_ends_when_this_one_is_killed() {
    for is_push in [true, false] {
        let copy = SlowCopy::new(is_push);
        let started = copy.half_way();
        started.signal(KILL);
        started.end_within(SECONDS);
        copy.goes_on();
    }
}

#[test]
fn a_death_there_is_said_here_and_the_same_command_goes_on() {
    for is_push in [true, false] {
        let copy = SlowCopy::new(is_push);
        let started = copy.half_way();
        signal_process(copy.there(), KILL);
        let ended = started.end_within(SECONDS);
        ended
            .gives(1)
            .says(&["the half of the copy there broke off: ssh ended with ", "goes on where it ended"]);
        copy.goes_on();
    }
}

/// `LINERATE_KILLS`: so often in each direction; by default a few times.
#[test]
fn killed_at_any_moment_it_is_whole_in_the_end_or_has_no_name() {
    let kills: u64 = std::env::var("LINERATE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let mut random = 43;
    for is_push in [true, false] {
        let copy = SlowCopy::new(is_push);
        let words = [&copy.words[..], &["--rate-limit=40MB/s"]].concat();
        for kill in 0..kills {
            let started = Started::of(&mut copy.pair.copy(&words));
            std::thread::sleep(Duration::from_millis(next(&mut random) % 900));
            let all = processes_in(&copy.pair.ground.path());
            let there = all.iter().find(|(_, line)| line.starts_with("linerate copy-half"));
            match there.filter(|_| kill % 2 == 0) {
                Some((there, _)) => signal_process(*there, KILL),
                None => started.signal(KILL),
            }
            started.end_within(SECONDS);
            copy.pair.ground.deserted();
            if copy.destination.exists() {
                assert!(fs::read(&copy.destination).expect("copied") == copy.content);
                fs::remove_file(&copy.destination).expect("removed");
            }
        }
        copy.pair.ends(&copy.words).is_content();
        assert!(fs::read(&copy.destination).expect("copied") == copy.content);
    }
}
