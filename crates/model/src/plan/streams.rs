//! Streams assigned to NICs by their rates, and on which CPU each runs.

use super::product::PathPlan;
use super::workers::{first_half, shares, take_core, usable_cores};
use linerate_facts::fact::Fact;
use linerate_machine::probe::Machine;
use serde::{Deserialize, Serialize};

/// Where the threads of streams run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pin {
    /// On cores of the NIC's NUMA node.
    #[default]
    Auto,
    /// Wherever the kernel puts them.
    None,
    /// On these CPUs, in turn.
    Cores(Vec<u32>),
}

/// On which path and CPU a stream runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPlacement {
    /// Index of its path.
    pub path: usize,
    /// CPU of this end; none: the kernel chooses.
    pub core: Option<u32>,
}

/// Assigns `streams` to the paths by their rates (equally where one is unknown), at least one to each, and pins
/// them; the same again for each of the `directions` that are measured at once, on other cores as far as there are
/// some. `loopback`: the other end is a process of our own, to which the second half of the cores is left.
pub fn place_streams(
    machine: &Machine,
    paths: &[PathPlan],
    streams: u32,
    directions: usize,
    pin: &Pin,
    loopback: bool,
) -> Vec<Vec<StreamPlacement>> {
    let counts = counts(&shares(paths), streams as usize);
    let mut cores = usable_cores(machine);
    if loopback {
        cores = first_half(cores);
    }
    let no_disk = Fact::unknown("a stream reads no disk");
    let mut assigned = 0;
    let mut place_one_direction = || {
        let mut placed = Vec::new();
        // Round by round over the paths, so that a list of cores is used as a user would expect: first one
        // to each NIC.
        for round in 0..counts.iter().copied().max().unwrap_or(0) {
            for (path, plan) in paths.iter().enumerate().filter(|(path, _)| counts[*path] > round) {
                let core = match pin {
                    Pin::None => None,
                    Pin::Auto => Some(take_core(&mut cores, &plan.node, &no_disk).0),
                    Pin::Cores(list) => list.get(assigned % list.len().max(1)).copied(),
                };
                placed.push(StreamPlacement { path, core });
                assigned += 1;
            }
        }
        placed
    };
    (0..directions).map(|_| place_one_direction()).collect()
}

/// Whole streams for each share: one each first, the rest by highest averages.
fn counts(shares: &[f64], streams: usize) -> Vec<usize> {
    let mut counts = vec![1; shares.len()];
    for _ in shares.len()..streams {
        // To that which one more leaves nearest to its share from below (Sainte-Laguë's divisor has no bias
        // towards fast or slow links).
        let lack = |index: &usize| shares[*index] / (2 * counts[*index] + 1) as f64;
        let next = (0..shares.len()).max_by(|a, b| lack(a).total_cmp(&lack(b)).then(b.cmp(a)));
        if let Some(index) = next {
            counts[index] += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::super::tests::paths;
    use super::*;
    use linerate_testing::machine;
    use proptest::prelude::*;

    #[test]
    fn streams_follow_the_rates_and_nobody_goes_without() {
        assert_eq!(counts(&[0.8, 0.1, 0.1], 10), [8, 1, 1]);
        assert_eq!(counts(&[0.5, 0.5], 1), [1, 1]);
        assert_eq!(counts(&[1.0 / 3.0; 3], 4), [2, 1, 1]);
        assert_eq!(counts(&[], 4), Vec::<usize>::new());
    }

    proptest! {
        #[test]
        fn every_stream_is_assigned(shares in proptest::collection::vec(0.01f64..1.0, 1..8), streams in 1usize..200) {
            let sum: f64 = shares.iter().sum();
            let shares: Vec<f64> = shares.iter().map(|share| share / sum).collect();
            let counts = counts(&shares, streams);
            prop_assert_eq!(counts.iter().sum::<usize>(), streams.max(shares.len()));
            prop_assert!(counts.iter().all(|count| *count >= 1));
        }
    }

    #[test]
    fn a_list_of_cores_is_used_in_turn() {
        let paths = paths(2);
        let cores = |pin: &Pin| -> Vec<Option<u32>> {
            let directions = place_streams(&machine(4), &paths, 2, 2, pin, false);
            directions.iter().flatten().map(|placed| placed.core).collect()
        };
        assert_eq!(cores(&Pin::Cores(vec![3, 1])), [Some(3), Some(1), Some(3), Some(1)]);
        assert_eq!(cores(&Pin::None), [None; 4]);
        assert_eq!(cores(&Pin::Auto), [Some(0), Some(1), Some(2), Some(3)]);
    }
}
