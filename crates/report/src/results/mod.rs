//! Kept results: every product of a measurement, in the state folder of the user who asked for it, read back by
//! its number.
//!
//! `store` is the folder and its bounds, `reference` is how a result is named on the command line (`@-1`, `@disk-1`, or
//! a file), `list` shows them all.

mod list;
mod reference;
mod store;

pub use list::{ResultList, line};
pub use reference::{newest_two, read, read_before, read_of_host, read_quiet_of};
pub use store::{KeepError, MOST_BYTES, MOST_RESULTS, MOST_TRANSFERS, ResultStore};
