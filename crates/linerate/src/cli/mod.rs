//! The words of the command line, and what each command does with the library. Parsed first, then made into
//! working values.

mod agent;
mod agent_told;
mod arguments;
mod capture;
mod commands;
mod compare;
mod disk;
mod fio_job;
mod list;
mod load;
mod log;
mod log_levels;
mod measured;
mod memory;
mod network;
mod output;
mod plan;
mod probe;
mod progress;
mod qemu_server;
mod raid;
mod rates;
mod saving;
mod stop;
mod tune;
mod wall;
mod watch;

pub use arguments::{Arguments, Command, parse};
pub use commands::{complain, execute};
