//! Simulations: runs of which a seed repeats each, faults included; and bugs that a simulation has to find.

use crate::cases::drawn;
use linerate_system::counters::thread_cpu;
use std::any::Any;
use std::cell::RefCell;
use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Its seed runs alone.
const SEED: &str = "LINERATE_SEED";

/// Simulates with each of a fifth of so many seeds, or all, or with that of `LINERATE_SEED` alone. A run gives the number
/// of its faults, or what is wrong: then this panics, and names the command that repeats it. `test` is a package and a
/// part of the test's name that no other test has. How many runs there were, and faults in all of them.
fn simulate<E: Display>(test: (&str, &str), all: u32, run: impl Fn(u32) -> Result<u32, E>) -> (u32, u64) {
    let named = seed_of(std::env::var(SEED).ok()).unwrap_or_else(|why| panic!("{why}"));
    let seeds: Vec<u32> = named.map_or_else(|| drawn(all).collect(), |seed| vec![seed]);
    let (mut runs, mut all_faults) = (0, 0);
    for seed in seeds {
        let repeat = || format!("repeat it: {SEED}={seed} ./test -p {} {}", test.0, test.1);
        match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(Ok(faults)) => {
                runs += 1;
                all_faults += u64::from(faults);
            }
            Ok(Err(why)) => panic!("{why}; {}", repeat()),
            Err(panic) => {
                eprintln!("{}", repeat());
                resume_unwind(panic)
            }
        }
    }
    (runs, all_faults)
}

/// [`simulate`]s, and so many runs a minute at least on one core, with five faults each.
pub fn simulated<E: Display>(
    test: (&str, &str),
    (all, a_minute): (u32, f64),
    run: impl Fn(u32) -> Result<u32, E>,
) {
    let before = thread_cpu();
    let (runs, faults) = simulate(test, all, run);
    let rate = f64::from(runs) * 60.0 / (thread_cpu() - before).as_secs_f64();
    println!("{runs} runs with {faults} faults, {rate:.0} a minute on one core");
    // One seed alone says nothing of all.
    let is_enough = rate >= a_minute && faults >= 5 * u64::from(runs);
    assert!(is_enough || runs < 100, "too few runs a minute, or too few faults");
}

thread_local! {
    static PLANTED: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// This bug is switched on for this thread.
pub fn is_planted<B: PartialEq + 'static>(bug: B) -> bool {
    PLANTED.with_borrow(|planted| planted.as_ref().and_then(|one| one.downcast_ref()) == Some(&bug))
}

/// Where this bug of the caller's `tests::PlantedBug` is switched on, something else is done.
#[allow(clippy::crate_in_macro_def, reason = "the bugs are the calling crate's")]
#[macro_export]
macro_rules! planted {
    ($bug:ident, $instead:expr) => {
        if $crate::is_planted(crate::tests::PlantedBug::$bug) {
            $instead
        }
    };
}

/// Each of these bugs is found by one of so many seeds, which begin somewhere new with each.
pub fn find_each<B: Copy + Debug + 'static, E: Display, R: Fn(u32) -> Result<u32, E>>(
    bugs: &[B],
    seeds: u32,
    run: impl Fn() -> R,
) {
    let hidden = bugs.iter().filter(|bug| {
        PLANTED.set(Some(Box::new(**bug)));
        let found = first_failure(seeds, run());
        PLANTED.set(None);
        println!("{bug:?}: {found:?}");
        found.is_none()
    });
    let hidden: Vec<&B> = hidden.collect();
    assert!(hidden.is_empty(), "not found: {hidden:?}");
}

/// The first of so many seeds that finds something wrong, and what.
fn first_failure<E: Display>(all: u32, run: impl Fn(u32) -> Result<u32, E>) -> Option<(u32, String)> {
    (0..all).find_map(|seed| match catch_unwind(AssertUnwindSafe(|| run(seed))) {
        Ok(Ok(_)) => None,
        Ok(Err(why)) => Some((seed, why.to_string())),
        Err(panic) => {
            let why = panic.downcast_ref::<String>().cloned();
            Some((seed, why.unwrap_or_else(|| "it panics".into())))
        }
    })
}

fn seed_of(text: Option<String>) -> Result<Option<u32>, String> {
    let seed = |text: String| {
        let why = "give the seed that the failed test printed, or leave it out";
        text.parse().map_err(|_| format!("{SEED}: {text:?} is not a number from 0 to {}; {why}", u32::MAX))
    };
    text.map(seed).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_number_or_one_sentence() {
        assert_eq!((seed_of(None), seed_of(Some("17".into()))), (Ok(None), Ok(Some(17))));
        for text in ["", "x", "-1", "1.5", "4294967296"] {
            let why = seed_of(Some(text.into())).expect_err("no seed");
            assert!(why.starts_with(&format!("LINERATE_SEED: {text:?} is not a number")), "{why}");
        }
    }

    #[test]
    fn what_fails_names_the_command_that_repeats_it() {
        let fails = |seed| if seed % 8 < 5 { Err(format!("{seed} is wrong")) } else { Ok(5) };
        let panic = catch_unwind(|| simulate(("linerate-x", "my_test"), 40, fails)).expect_err("it fails");
        let said = panic.downcast_ref::<String>().expect("a text");
        let (seed, rest) = said.split_once(" is wrong; ").expect("what is wrong");
        assert_eq!(rest, format!("repeat it: LINERATE_SEED={seed} ./test -p linerate-x my_test"));
        assert_eq!(first_failure(3, |seed| fails(seed + 6)), Some((2, "8 is wrong".into())));
        assert_eq!(first_failure(2, |seed| fails(seed + 6)), None);
        assert_eq!(first_failure::<String>(1, |_| panic!("planted")), Some((0, "it panics".into())));
        let (runs, faults) = simulate::<String>(("linerate-x", "my_test"), 40, |_| Ok(2));
        assert_eq!((runs % 8, faults), (0, 2 * u64::from(runs)));
    }
}
