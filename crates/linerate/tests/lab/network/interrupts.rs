//! Ctrl-C at any moment, against a peer that does not answer: the end comes soon, and what was measured is
//! kept.

use super::routed::{Routed, UDP};
use crate::support::process::{Ends, signal, signal_process};
use std::process::Child;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A second on a quiet machine (0.6 s here); this on one whose cores are all busy. The waits that ended it
/// before took three to five.
const SOON: Duration = Duration::from_millis(2000);

/// Interrupts it now, and gives how long it took to end.
fn interrupt(child: Child) -> Duration {
    let began = Instant::now();
    signal(&child, "INT");
    let output = child.ended();
    let (took, said) = (began.elapsed(), output.stderr);
    assert!(said.contains("interrupted") && !said.contains("hangs") && !said.contains("panicked"), "{said}");
    // 130 where nothing was measured yet.
    assert!(matches!(output.status.code(), Some(1 | 130)), "{:?}: {said}", output.status);
    took
}

#[test]
fn while_datagrams_are_swallowed() {
    let Some(ground) = Routed::new() else { return };
    if !ground.client_swallows(UDP) {
        return;
    }
    // The opening of the first stream takes five seconds, that of the next five again.
    let took: Vec<Duration> = std::thread::scope(|scope| {
        let ground = &ground;
        let at = [800, 2100, 3300].map(|moment| {
            scope.spawn(move || {
                let child = ground.network(7411, &["--protocol", "udp"]).spawn().expect("it starts");
                std::thread::sleep(Duration::from_millis(moment));
                interrupt(child)
            })
        });
        at.into_iter().map(|one| one.join().expect("it ends well")).collect()
    });
    println!("ended after {took:?}");
    assert!(took.iter().all(|took| *took < SOON), "{took:?}");
}

#[test]
fn while_the_agent_is_frozen() {
    const MOMENTS: u64 = 6;
    let Some(mut ground) = Routed::new() else { return };
    let agents: Vec<(u16, u32)> =
        (1..=MOMENTS as u16).map(|one| (7411 + one, ground.agent(7411 + one))).collect();
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64) | 1;
    println!("seed {seed}");
    let took: Vec<Duration> = std::thread::scope(|scope| {
        let ground = &ground;
        let started = (1..).zip(agents).map(|(number, (port, agent))| {
            scope.spawn(move || {
                // A low rate: six at once shall find the cores idle.
                let protocol = if number % 2 == 0 { "tcp" } else { "udp" };
                let words = ["--protocol", protocol, "--direction", "send,receive,both", "--rate", "10M"];
                let chosen = ["--method", "write", "--congestion-control", "cubic", "--repeats", "9"];
                let child = ground.network(port, &[&words[..], &chosen].concat()).spawn().expect("it starts");
                let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7 * number);
                std::thread::sleep(Duration::from_millis(300 + random % 4000));
                signal_process(agent, "STOP");
                std::thread::sleep(Duration::from_millis(random >> 32 & 511));
                let took = interrupt(child);
                signal_process(agent, "CONT");
                took
            })
        });
        let started: Vec<_> = started.collect();
        started.into_iter().map(|one| one.join().expect("it ends well")).collect()
    });
    println!("ended after {took:?}");
    assert!(took.iter().all(|took| *took < SOON), "{took:?}");
}
