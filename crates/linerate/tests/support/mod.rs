//! What the tests of several commands share. Each of the three programs (`fast`,
//! `alone`, `lab`) takes the part that it needs.

#![allow(dead_code, reason = "each program takes the part that it needs")]

pub mod browser;
pub mod disk;
pub mod disk_places;
pub mod fake_wall;
pub mod lab;
pub mod neighbours;
pub mod network;
pub mod pair;
pub mod place;
pub mod samples;
pub mod sender;
pub mod tune_place;
pub mod wall_movie;
pub mod wall_players;
pub mod wall_served;
pub mod watch_running;
pub mod watch_tree;

/// linerate itself: that of this build, or the one that LINERATE names (`./test --thorough`: the release build).
pub fn program() -> String {
    std::env::var("LINERATE").unwrap_or_else(|_| env!("CARGO_BIN_EXE_linerate").into())
}
