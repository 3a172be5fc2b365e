//! What each session's sample has of the workers of a plan.

use linerate_model::plan::WorkerPlan;
use linerate_transport::agent::TestSample;
use linerate_transport::flow::stream::StreamSample;

/// The streams of the plan's workers, in their order; each session counts its own from 0.
pub(super) fn stream_samples(samples: &[Option<TestSample>], workers: &[WorkerPlan]) -> Vec<StreamSample> {
    let paths = workers.iter().map(|worker| worker.path + 1).max().unwrap_or(0);
    let mut next = vec![0; paths];
    let each = workers.iter().map(|worker| {
        let number = next[worker.path];
        next[worker.path] += 1;
        let sample = samples.get(worker.path).and_then(Option::as_ref);
        sample.and_then(|sample| sample.streams.get(number)).cloned().unwrap_or_default()
    });
    each.collect()
}
