//! What asserts a rate or a time, and needs no root: nothing else runs meanwhile
//! (`.config/nextest.toml`).

#![allow(unreachable_pub)]

#[path = "../support/mod.rs"]
mod support;

mod disk;
mod network;
mod wall_many;
mod wall_serve;
mod wall_stock;
mod wall_together;
mod watch_cost;
