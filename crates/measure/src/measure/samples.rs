//! What each session's sample has of the workers of a plan.

use linerate_model::plan::WorkerPlan;
use linerate_transport::agent::{TestSample, WorkerSample};

/// The samples of the plan's workers, in their order.
pub(super) fn worker_samples(samples: &[Option<TestSample>], workers: &[WorkerPlan]) -> Vec<WorkerSample> {
    samples_of(samples, workers, |sample| &sample.workers)
}

/// What each session's sample has of the plan's workers, in their order; each session counts its own from 0.
pub(super) fn samples_of<T: Clone + Default>(
    samples: &[Option<TestSample>],
    workers: &[WorkerPlan],
    own: impl Fn(&TestSample) -> &[T],
) -> Vec<T> {
    let paths = workers.iter().map(|worker| worker.path + 1).max().unwrap_or(0);
    let mut next = vec![0; paths];
    let each = workers.iter().map(|worker| {
        let number = next[worker.path];
        next[worker.path] += 1;
        let sample = samples.get(worker.path).and_then(Option::as_ref);
        sample.and_then(|sample| own(sample).get(number)).cloned().unwrap_or_default()
    });
    each.collect()
}
