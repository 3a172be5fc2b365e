//! `linerate watch`: its figures against what the kernel and other programs say of the same machine, its recording, its metrics, its cost.

#[path = "support/pair.rs"]
mod pair;
#[path = "support/place.rs"]
mod place;

#[path = "watch/captures.rs"]
mod captures;
#[path = "watch/changes.rs"]
mod changes;
#[path = "watch/cost.rs"]
mod cost;
#[path = "watch/figures.rs"]
mod figures;
#[path = "watch/fixture.rs"]
mod fixture;
#[path = "watch/metrics.rs"]
mod metrics;
#[path = "watch/recording.rs"]
mod recording;
#[path = "watch/running.rs"]
mod running;
