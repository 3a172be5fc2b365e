//! The first step: what is there. `probe(&Sysroot) -> Machine`.
//!
//! Readers go through `Sysroot` only; what cannot be read is `Fact::Unknown` with its reason.

mod machine;
pub mod usage;

use crate::sysroot::Sysroot;
pub use machine::*;

/// Reads what the server is.
pub fn probe(_sysroot: &Sysroot) -> Machine {
    todo!()
}
