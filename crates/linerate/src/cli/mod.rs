//! The words of the command line, and what each command does with the library. Parsed first, then made into
//! working values.

mod agent;
mod arguments;
mod check;
mod commands;
mod copy;
mod definition;
mod explain;
mod fleet;
mod generate;
mod help;
mod log;
mod measured;
mod output;
mod plan;
mod probe;
mod progress;
mod reproduce;
mod results;
mod run;
mod saving;
mod serve;
mod stages;
mod stop;
mod transfer;
mod tune;
mod wall;
mod wall_program;
mod watch;

pub use arguments::{Arguments, Command};
pub use commands::{ended, execute, execute_wall};
#[cfg(any(test, feature = "testing"))]
pub use copy::written_again;
pub use definition::{definition, parse, parse_wall, try_parse_from, wall_definition};
pub use output::Output;
