//! `linerate watch`: its figures against what the kernel and other programs say of the same machine, its
//! recording, its metrics, its cost.

pub(crate) mod captures;
mod changes;
pub(crate) mod fixture;
mod metrics;
mod recording;
