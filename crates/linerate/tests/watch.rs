//! `linerate watch`: its figures against what other programs read of the same machine, its recording, its cost.

#[path = "watch/fixture.rs"]
mod fixture;
