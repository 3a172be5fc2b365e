//! `linerate network` between network namespaces: over NICs of known speeds, through a router with a smaller
//! MTU, and against peers that stop to answer.
//!
//! Needs root and the tools of `lab/lab up`, else each test says that it is skipped (LINERATE_LAB as in
//! `lab/script.rs`).

mod interrupts;
mod nics;
mod path_mtu;
mod routed;
mod shrinking_mtu;

use std::sync::Mutex;

/// The tests measure: one at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
