//! What `linerate run` moves over a long way.

use super::{agent, run, up};
use crate::support::neighbours::undisturbed;

/// With datagrams most of the bottleneck is used, and next to nothing lost, though a window's worth is far away; TCP with
/// a limit keeps to it, its segments spread by the kernel.
#[test]
fn datagrams_fill_a_long_way_and_a_limit_is_paced() {
    const LINK: f64 = 100e6 / 8.0;
    let Some(lab) = up("udp", &["--rtt", "50ms", "--rate", "100", "--nics", "1000"]) else { return };
    let agent = agent(&lab);
    let path = |words: &[&str]| {
        let result = run(&lab, &agent, words);
        let all = result["measurements"].as_array().expect("measurements");
        let path = all.iter().find(|one| one["stage"] == "path").expect("a path").clone();
        (path["bytes_per_second"].as_f64().expect("a rate"), path["loss"].as_f64().unwrap_or(0.0), path)
    };
    undisturbed("datagrams over 50 ms", 3, || {
        let (rate, loss, path) = path(&["--protocol", "udp", "--budget", "12"]);
        assert!((0.6 * LINK..1.01 * LINK).contains(&rate) && loss < 0.05, "{path}");
    });
    let (rate, _, path) = path(&["--protocol", "tcp", "--rate-limit", "40M", "--budget", "12"]);
    assert!(rate < 0.45 * LINK, "{path}");
    let method = path["method"].as_str().expect("a method");
    assert!(method.contains("paced by the kernel"), "{method}");
}
