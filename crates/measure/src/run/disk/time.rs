//! How many measurements a grid has and how long they take, before any of them.

use super::{DiskSpec, scaling};
use crate::measure::access::{WARM_UP_SECONDS, WINDOW_ROUNDS};
use linerate_facts::failure::Failure;
use linerate_facts::wording::{counted, time};

/// More combinations are a slip: a day each thousand or so.
const MOST_COMBINATIONS: u64 = 100_000;

/// What a grid asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GridTime {
    pub combinations: u64,
    /// Of each combination with all of its repeats, and with each number of sources.
    pub measurements: u64,
    /// At least, without the writing of files; none: each lasts as long as its amount takes.
    pub seconds: Option<f64>,
}

impl DiskSpec {
    /// How long all of it takes; refused where that is more than anybody waits for, or cannot be done at once.
    pub fn time(&self) -> Result<GridTime, Failure> {
        if !self.beside.is_empty() && (self.scaling || self.steady_state || !self.prepare.is_empty()) {
            return Err(Failure::usage(
                "--scaling, --steady-state and --prepare: not with sections that run at once; part them by `stonewall`",
            ));
        }
        if self.scaling {
            scaling::check(&self.grid)?;
        }
        let combinations = self.grid.combinations();
        let sources = u32::try_from(self.grid.alike.sources.len()).unwrap_or(u32::MAX);
        let each = if self.scaling { scaling::jobs_of_a_cell(sources) as u64 } else { 1 };
        let measurements = combinations.saturating_mul(each).saturating_mul(u64::from(self.repeats));
        let rounds = if self.steady_state { WINDOW_ROUNDS as f64 } else { 1.0 };
        let one = |seconds: f64| (seconds + WARM_UP_SECONDS) * rounds;
        let grid = GridTime {
            combinations,
            measurements,
            seconds: self.grid.alike.seconds.map(|seconds| one(seconds) * measurements as f64),
        };
        if combinations > MOST_COMBINATIONS {
            let takes = grid.seconds.map(|seconds| format!(" take {}", time(seconds)));
            return Err(Failure::Usage(format!(
                "{} of {}{}; at most {MOST_COMBINATIONS} \
                 combinations are measured in one command: give fewer values of --workers, --transfer and the \
                 like",
                counted(measurements, "measurement"),
                counted(combinations, "combination"),
                takes.unwrap_or_default()
            )));
        }
        Ok(grid)
    }
}

impl GridTime {
    /// For the user, before it begins: `10000 combinations, 30000 measurements: about 20 hours`.
    pub fn sentence(&self) -> String {
        let takes = match self.seconds {
            Some(seconds) => format!("about {}, beside the writing of files", time(seconds)),
            None => "each as long as its workers need for their amount".into(),
        };
        format!(
            "{}, {}: {takes}; Ctrl-C ends it with what was measured by then",
            counted(self.combinations, "combination"),
            counted(self.measurements, "measurement")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DiskGrid, WorkerParts};
    use super::*;
    use crate::measure::access::{Access, AccessJob, AccessOrder, Engine, FileLayout, Permissions};

    fn spec(workers: u32, transfers: u64) -> DiskSpec {
        let grid = DiskGrid {
            alike: AccessJob {
                sources: vec!["/a".into(), "/b".into(), "/c".into()],
                seconds: Some(2.0),
                ..AccessJob::plain(Access::Read, AccessOrder::Sequential)
            },
            workers: (3..3 + workers).collect(),
            transfers: (1..=transfers).map(|size| size << 20).collect(),
            queue_depths: Vec::new(),
            accesses: vec![Access::Read],
            orders: vec![AccessOrder::Sequential],
            layouts: vec![FileLayout::FilePerWorker],
            engines: vec![Engine::IoUring],
            parts: WorkerParts::default(),
        };
        DiskSpec {
            name: None,
            grid,
            beside: Vec::new(),
            permissions: Permissions::default(),
            repeats: 3,
            rounds: 2,
            steady_state: false,
            scaling: false,
            best_alone: Vec::new(),
            prepare: Vec::new(),
            io_uring: true,
            idle: false,
        }
    }

    #[test]
    fn ten_thousand_cells_report_how_long_they_take() {
        let grid = spec(100, 100).time().expect("allowed");
        assert_eq!((grid.combinations, grid.measurements), (10_000, 30_000));
        let expected = "10000 combinations, 30000 measurements: about 20 hours, beside the writing of files; Ctrl-C \
                    ends it with what was measured by then";
        assert_eq!(grid.sentence(), expected);
    }

    #[test]
    fn jobs_at_once_are_not_prepared() {
        let prepare = vec![super::super::Preparation::DropCaches];
        let jobs = DiskSpec { beside: vec![spec(1, 1).grid], prepare, ..spec(1, 1) };
        assert!(jobs.time().is_err_and(|failure| failure.to_string().contains("stonewall")));
    }

    #[test]
    fn scaling_measures_each_cell_alone_and_together() {
        let grid = DiskSpec { scaling: true, ..spec(2, 2) }.time().expect("allowed");
        assert_eq!((grid.combinations, grid.measurements), (4, 4 * 5 * 3));
    }

    #[test]
    fn a_source_without_a_worker_is_refused() {
        let mut fewer = DiskSpec { scaling: true, ..spec(2, 2) };
        fewer.grid.workers.push(2);
        let why = fewer.time().expect_err("a source without a worker").to_string();
        assert_eq!(
            why,
            "--scaling: 2 workers for 3 sources leaves one of them without; give --workers 3 or more"
        );
    }

    #[test]
    fn an_amount_has_no_time_before_it_is_done() {
        let mut amount = spec(1, 1);
        amount.grid.alike.seconds = None;
        let grid = amount.time().expect("allowed");
        assert_eq!(grid.seconds, None);
        assert!(grid.sentence().contains("as long as its workers need"), "{}", grid.sentence());
    }

    #[test]
    fn more_than_anybody_waits_for_is_refused_before_memory_is_taken() {
        let why = spec(100_000, 1000).time().expect_err("too many").to_string();
        assert!(why.starts_with("300000000 measurements of 100000000 combinations take 8160 days"), "{why}");
        assert!(why.contains("give fewer values of --workers"), "{why}");
    }
}
