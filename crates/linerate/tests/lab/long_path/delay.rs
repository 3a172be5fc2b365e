//! The way itself: its round trip, and its loss.

use super::{agent, network, up};
use crate::support::lab::Lab;
use crate::support::neighbours::undisturbed;

/// Connects to a port where nobody listens: the refusal takes one round trip. Nanoseconds of each.
const KNOCK: &str = "for i in 1 2 3 4 5; do t=$(date +%s%N); (exec 3<>/dev/tcp/$0/9) 2>/dev/null; \
                     echo $(($(date +%s%N) - t)); done";

/// The shortest of five round trips, milliseconds.
fn round_trip_ms(lab: &Lab) -> f64 {
    let address = lab.succeed("address", &["0"]);
    let times = lab.succeed("run", &["--", "bash", "-c", KNOCK, address.trim()]);
    let times = times.lines().map(|line| line.parse::<f64>().expect("nanoseconds") / 1e6);
    times.fold(f64::INFINITY, f64::min)
}

#[test]
fn a_round_trip_takes_what_was_asked_for() {
    let Some(lab) = up("delay", &["--rtt", "40ms", "--nics", "100,100"]) else { return };
    undisturbed("a round trip of 40 ms", 3, || {
        let took = round_trip_ms(&lab);
        // A new process and its end are in it.
        assert!((40.0..50.0).contains(&took), "{took} ms");
    });
    let status = lab.succeed("status", &[]);
    assert!(status.contains("the way to the peer: round trip 40 ms\n"), "{status}");
    assert_eq!(status.matches("overruns=0").count(), 4, "{status}");
}

/// Datagrams one way: each is lost with the same chance, whether its train was cut or not.
#[test]
fn the_loss_is_the_one_that_was_asked_for() {
    const LOSS: f64 = 0.02;
    let Some(lab) = up("loss", &["--rtt", "1ms", "--loss", "2%", "--nics", "100", "--mtu", "1500"]) else {
        return;
    };
    let agent = agent(&lab);
    // Small requests beside them would be datagrams of another size.
    let words = ["--protocol", "udp", "--rate", "40M", "--seconds", "2", "--repeats", "1", "--no-latency"];
    let result = network(&lab, &agent, &words);
    let status = lab.succeed("status", &[]);
    let of = |name: &str| -> f64 {
        let line = status.lines().find(|line| line.trim_start().starts_with("there ")).expect("its counters");
        let word = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        word.expect("a counter").parse().expect("a number")
    };
    // The kernel hands down trains of many datagrams: they count by their bytes.
    let share = of("lost") / (of("bytes") / 1514.0);
    assert!((0.7 * LOSS..1.3 * LOSS).contains(&share), "{share}: {status}");
    assert_eq!((of("overruns"), of("queue_drops")), (0.0, 0.0));
    let seen = result["measurements"][0]["loss"].as_f64().expect("a loss");
    assert!((0.6 * LOSS..1.4 * LOSS).contains(&seen), "{seen}");
}
