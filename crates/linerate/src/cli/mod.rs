//! The words of the command line, and what each command does with the library. Parsed first, then made into
//! working values.

mod agent;
mod agent_addresses;
mod agent_told;
mod arguments;
mod capture;
mod check;
mod child;
mod commands;
mod compare;
mod definition;
mod disk;
mod examples;
mod fio_job;
mod fleet;
mod from_server;
mod get;
mod list;
mod load;
mod log;
mod log_levels;
mod manual;
mod measured;
mod memory;
mod network;
mod output;
mod plan;
mod probe;
mod progress;
mod put;
mod raid;
mod rates;
mod remote;
mod report;
mod run_flow;
mod saving;
mod serve;
mod stop;
mod store;
mod tune;
mod wall;
mod watch;

pub use arguments::{Arguments, Command, parse};
pub use child::report;
pub use commands::{complain, execute};
pub use definition::{definition, try_parse_from};
