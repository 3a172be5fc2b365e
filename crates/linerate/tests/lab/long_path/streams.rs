//! How many streams TCP gets over a long way: more where packets are lost by chance, else one, and what the user names.

use super::{agent, network, run, up};
use crate::support::neighbours::undisturbed;
use serde_json::Value;

const ONLY_TCP: [&str; 4] = ["--protocol", "tcp", "--congestion-control", "cubic"];
const ONE_FIGURE: [&str; 7] = ["--direction", "send", "--seconds", "0.5", "--repeats", "1", "--no-latency"];

fn has_cubic() -> bool {
    let there =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").expect("its list");
    let has = there.split_whitespace().any(|name| name == "cubic");
    if !has {
        eprintln!("skipped: streams over a long way with loss: this kernel has no cubic");
    }
    has
}

fn of_stage<'a>(result: &'a Value, stage: &str) -> &'a Value {
    let all = result["measurements"].as_array().expect("measurements");
    all.iter().rfind(|one| one["stage"] == stage).unwrap_or_else(|| panic!("no {stage}: {result}"))
}

fn chosen(figure: &Value) -> &Value {
    let trials = figure["stream_trials"].as_array().unwrap_or_else(|| panic!("no trials: {figure}"));
    let mut taken = trials.iter().filter(|trial| trial["chosen"] == true);
    let one = taken.next().unwrap_or_else(|| panic!("none is taken: {trials:?}"));
    assert!(taken.next().is_none() && trials[0]["streams"] == 1, "{trials:?}");
    one
}

/// Over 20 ms with one segment in a thousand lost, cubic keeps 39 segments of 1448 bytes under way: 23 Mb/s of a link of
/// 100, which six fill; all sixteen are taken where six carried little in their short trial.
#[test]
fn a_long_way_with_loss_has_more_streams() {
    let options = ["--rtt", "20ms", "--loss", "0.1%", "--rate", "100", "--nics", "0", "--mtu", "1500"];
    let Some(lab) = has_cubic().then(|| up("streams", &options)).flatten() else { return };
    let agent = agent(&lab);
    let figures = |words: &[&str]| network(&lab, &agent, &[&ONLY_TCP[..], &ONE_FIGURE, words].concat());
    undisturbed("streams over 20 ms with loss", 3, || {
        let result = figures(&[]);
        let figure = of_stage(&result, "network");
        let taken = chosen(figure);
        let streams = taken["streams"].as_u64().expect("a number");
        assert!((2..=16).contains(&streams), "{taken}");
        // Slow start sends many times that again.
        let lost = taken["loss_share"].as_f64().expect("a share");
        assert!((0.0..0.005).contains(&lost), "{taken}");
        assert_eq!(figure["streams"]["job"]["streams"], streams, "{figure}");
        assert_eq!(figure["streams"]["job"]["pacing_bytes_per_second"], taken["pacing_bytes_per_second"]);
        let segments = figure["streams"]["streams"].as_array().expect("streams").iter();
        assert!(segments.map(|stream| stream["loss_segments"].as_f64().unwrap_or(0.0)).sum::<f64>() > 0.0);
        let one = &figure["stream_trials"][0];
        assert!(taken["bytes_per_second"].as_f64() > one["bytes_per_second"].as_f64(), "{taken} {one}");
    });
    undisturbed("a run over 20 ms with loss", 3, || {
        let result = run(&lab, &agent, &[&ONLY_TCP[..], &["--budget", "34"]].concat());
        let streams = chosen(of_stage(&result, "path"))["streams"].as_u64().expect("a number");
        let workers = result["plan"]["workers"].as_array().expect("workers").len();
        assert!(streams > 1 && workers as u64 == streams, "{streams}, {workers} workers");
        let notes = result["plan"]["notes"].to_string();
        assert!(notes.contains("RFC 9438") && notes.contains("--streams"), "{notes}");
    });
    let named = figures(&["--streams", "2"]);
    let figure = of_stage(&named, "network");
    assert_eq!((&figure["streams"]["job"]["streams"], &figure["stream_trials"]), (&2.into(), &Value::Null));
}

#[test]
fn a_long_way_that_loses_nothing_has_one_stream() {
    let Some(lab) =
        has_cubic().then(|| up("one-stream", &["--rtt", "20ms", "--rate", "100", "--nics", "0"])).flatten()
    else {
        return;
    };
    let agent = agent(&lab);
    // One fills the link, whose queue overflows then: more may be tried, and carry no more.
    undisturbed("one stream over 20 ms", 3, || {
        let result = network(&lab, &agent, &[&ONLY_TCP[..], &ONE_FIGURE].concat());
        let job = &of_stage(&result, "network")["streams"]["job"];
        assert_eq!((&job["streams"], &job["pacing_bytes_per_second"]), (&1.into(), &Value::Null));
    });
}
