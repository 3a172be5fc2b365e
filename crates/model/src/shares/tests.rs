//! Times and shares of planted and of recorded flows.

mod observed;
mod planted;
mod recorded;
