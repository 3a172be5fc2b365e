//! Bad input, and bad luck: each ends within seconds with one sentence that names the thing and the remedy,
//! the exit status of the contract, partial results saved, no scratch and no process left, and no file
//! touched that linerate did not make.
//!
//! The program is run as a user runs it, each time in a directory of its own (`ground`).

mod arguments;
mod disks;
mod files;
mod floods;
pub mod ground;
mod hosts;
mod interrupts;
mod kept;
mod limits;
mod links;
mod old_kernel;
pub mod peers;
mod sources;
pub mod ssh;
mod wall_program;
