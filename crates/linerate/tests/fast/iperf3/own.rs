//! Our client and our server: what needs no other program.

use super::peers::{Ours, disagreement, in_a_few_tries, our_client, short};
use crate::support::linerate;
use crate::support::process::Ends;
use linerate::iperf3::{Iperf3Limits, Iperf3Test, TestDirection, run_client};
use linerate::protocol::Protocol;
use linerate_system::stop::Stop;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn every_mode_completes_and_both_ends_agree() {
    let server = Ours::start(Iperf3Limits::default());
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        for direction in [TestDirection::Send, TestDirection::Receive, TestDirection::Both] {
            in_a_few_tries(|| {
                let test = Iperf3Test { direction, parallel: 2, ..short(protocol) };
                let outcome = our_client(server.address, &test);
                let theirs = server.ended();
                assert_eq!(theirs.error, None);
                assert_eq!(theirs.local.len(), outcome.local.len());
                assert_eq!(theirs.peer_version, Some(format!("linerate {}", env!("CARGO_PKG_VERSION"))));
                let text = serde_json::to_string(&outcome).expect("JSON");
                let back: linerate::iperf3::TestOutcome = serde_json::from_str(&text).expect("the same");
                assert_eq!(back.remote, outcome.remote);
                disagreement(&outcome).map_or(Ok(()), |why| Err(format!("{protocol} {direction:?}: {why}")))
            });
        }
    }
}

#[test]
fn udp_numbers_and_trains_lose_nothing_at_a_modest_rate() {
    let server = Ours::start(Iperf3Limits::default());
    for size in [16, 1000, 1472, 20_000, 65_507] {
        in_a_few_tries(|| {
            let test = Iperf3Test { seconds: 0.3, block_bytes: Some(size), ..short(Protocol::Udp) };
            let outcome =
                our_client(server.address, &Iperf3Test { bits_per_second: Some(20_000_000), ..test });
            let (ours, theirs) = (&outcome.local[0], server.ended().local[0].clone());
            assert_eq!(ours.bytes, ours.packets.unwrap_or(0) * u64::from(size));
            assert!(theirs.foreign == Some(0) && theirs.reordered == Some(0), "{theirs:?}");
            let same = theirs.packets == ours.packets && theirs.lost == Some(0) && theirs.bytes == ours.bytes;
            if same { Ok(()) } else { Err(format!("{size}: {ours:?}\n{theirs:?}")) }
        });
    }
}

#[test]
fn a_test_by_bytes_moves_that_number() {
    let server = Ours::start(Iperf3Limits::default());
    let test = Iperf3Test { bytes: Some(3_000_001), parallel: 3, ..short(Protocol::Tcp) };
    let outcome = our_client(server.address, &test);
    assert_eq!(outcome.local.iter().map(|stream| stream.bytes).sum::<u64>(), 3_000_001);
    assert_eq!(server.ended().local.iter().map(|stream| stream.bytes).sum::<u64>(), 3_000_001);
}

#[test]
fn ctrl_c_ends_a_test_soon_and_keeps_its_figures() {
    let server = Ours::start(Iperf3Limits::default());
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let stop = Arc::new(Stop::new());
        let later = Arc::clone(&stop);
        let stopper = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(700));
            later.end();
            Instant::now()
        });
        let test = Iperf3Test { seconds: 60.0, direction: TestDirection::Both, ..short(protocol) };
        let outcome = run_client(server.address, None, &test, &stop, &mut |_| {}).expect("figures");
        let took = stopper.join().expect("the stopper").elapsed();
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert!(outcome.local.iter().all(|stream| stream.bytes > 0), "{outcome:?}");
        assert!(outcome.warnings.iter().any(|warning| warning.contains("stopped")), "{:?}", outcome.warnings);
        assert!(server.ended().local.iter().any(|stream| stream.bytes > 0));
    }
}

#[test]
fn a_server_that_is_stopped_leaves_the_client_its_figures() {
    let server = Ours::start(Iperf3Limits::default());
    let address = server.address;
    let client = std::thread::spawn(move || {
        let test = Iperf3Test { seconds: 60.0, ..short(Protocol::Tcp) };
        our_client(address, &test)
    });
    server.started();
    std::thread::sleep(Duration::from_millis(700));
    server.stop();
    let outcome = client.join().expect("the client");
    assert!(
        outcome.error.as_ref().is_some_and(|error| error.contains("it was stopped")),
        "{:?}",
        outcome.error
    );
    assert!(outcome.local[0].bytes > 0 && outcome.remote.is_empty());
}

/// Also where a meter is read, whose figure is saved last.
#[test]
fn a_folder_that_goes_takes_nothing_from_what_was_measured() {
    let (server, place) = (Ours::start(Iperf3Limits::default()), tempfile::tempdir().expect("a folder"));
    let (address, folder) = (server.address.to_string(), place.path().join("result"));
    let mut command = linerate();
    command.args(["network", "--protocol", "tcp", "--seconds", "1", "--repeats", "1", "--iperf3", &address]);
    command
        .args(["--json", "--direction", "send"])
        .arg("--output")
        .arg(&folder)
        .env("LINERATE_POWER_COMMAND", "echo 100");
    let running = std::thread::spawn(move || command.ended());
    server.started();
    std::fs::remove_dir_all(&folder).expect("it was there");
    let run = running.join().expect("the program").gives(1).json();
    assert_eq!(run["measurements"].as_array().map(Vec::len), Some(1), "{run}");
    assert!(run["errors"][0].as_str().is_some_and(|why| why.contains("could not be saved")), "{run}");
}

#[test]
fn progress_is_reported_in_intervals_that_add_up() {
    let server = Ours::start(Iperf3Limits::default());
    let test = Iperf3Test { seconds: 1.0, interval_seconds: 0.25, ..short(Protocol::Tcp) };
    let mut heard = Vec::new();
    let outcome = run_client(server.address, None, &test, &Stop::new(), &mut |progress| {
        heard.push(progress.clone());
    })
    .expect("a test");
    assert!(heard.len() >= 2, "{heard:?}");
    let intervals = &outcome.local[0].intervals;
    assert_eq!(intervals.iter().map(|interval| interval.bytes).sum::<u64>(), outcome.local[0].bytes);
    assert!(intervals.windows(2).all(|pair| pair[0].end == pair[1].start), "{intervals:?}");
    assert!(intervals.iter().all(|interval| interval.tcp.is_some()));
}
