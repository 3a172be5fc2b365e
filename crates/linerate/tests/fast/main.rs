//! What needs neither root nor the machine to itself: many of these run at once.

#![allow(unreachable_pub)]

#[path = "../support/mod.rs"]
mod support;

mod accessibility;
mod agent;
mod bad_input;
mod benchmarks;
mod browser;
mod capture;
mod captures;
mod captures_host;
mod check;
mod copy;
mod data_plane;
mod deliver;
mod disk;
mod docs;
mod explain;
mod first_contact;
mod fleet;
mod foreign;
mod fuzz_corpus;
mod gate;
mod idle;
mod iperf3;
mod kept;
mod layering;
mod listings;
mod load;
mod logging;
mod lspci;
mod memory;
mod network;
mod packaging;
mod pile;
mod plan;
mod plan_cases;
mod pscheduler;
mod qemu_server;
mod rates_and_raid;
mod report;
mod run_json_keys;
mod smbios;
mod test_script;
mod tune;
mod wall_control;
mod wall_demo;
mod wall_launched;
mod wall_many;
mod wall_movie;
mod wall_page;
mod wall_serve;
mod wall_show;
mod wall_window;
mod watch;
mod watch_page;
mod watch_terminal;
mod weight;
mod words;
