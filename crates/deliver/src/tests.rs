//! What simulations need within the product: bugs that they must find, a network without sockets, and on it a server that
//! fails.

#[macro_use]
pub(crate) mod planted;
pub(crate) mod network;
pub(crate) mod server;

use linerate_system::counters::thread_cpu;
use linerate_testing::{first_failure, simulate};
use planted::PlantedBug;

/// A fifth of so many seeds, or all, find nothing; and so many a minute run on one core at least.
pub(crate) fn simulated(test: &str, (runs, a_minute): (u32, f64), run: impl Fn(u32) -> Result<u32, String>) {
    let before = thread_cpu();
    let (runs, faults) = simulate(("linerate-deliver", test), runs, run);
    let rate = f64::from(runs) * 60.0 / (thread_cpu() - before).as_secs_f64();
    println!("{runs} runs with {faults} faults, {rate:.0} a minute on one core");
    // One seed alone says nothing of all.
    let is_enough = rate >= a_minute && faults >= 5 * u64::from(runs);
    assert!(is_enough || runs < 100, "too few runs a minute, or too few faults");
}

/// Each of these bugs is found by one of so many seeds, which begin somewhere new with each.
pub(crate) fn find_each<R: Fn(u32) -> Result<u32, String>>(
    bugs: &[PlantedBug],
    seeds: u32,
    run: impl Fn() -> R,
) {
    let hidden = bugs.iter().filter(|bug| {
        let found = planted::with(**bug, || first_failure(seeds, run()));
        println!("{bug:?}: {found:?}");
        found.is_none()
    });
    let hidden: Vec<&PlantedBug> = hidden.collect();
    assert!(hidden.is_empty(), "not found: {hidden:?}");
}
