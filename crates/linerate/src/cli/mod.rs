//! The words of the command line, and what each command does with the library. Parsed first, then made into
//! working values.

mod agent;
mod agent_told;
mod capture;
mod commands;
mod compare;
mod disk;
mod fio_job;
mod load;
mod log;
mod log_levels;
mod memory;
mod network;
mod output;
mod plan;
mod probe;
mod progress;
mod raid;
mod rates;
mod saving;
mod stop;
mod tune;
mod wall;
mod watch;
mod words;

pub use commands::{complain, execute};
pub use words::{Arguments, Command, parse};
