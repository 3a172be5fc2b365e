//! Programs that are started on another host over ssh and end with us: an agent for one run, a transfer that runs
//! there.

mod bring;
mod host;
mod program;

pub use bring::BringError;
pub use host::{SshHost, SshHostError};
pub use program::{SshEnd, SshProgram, SshProgramError, keep_last_lines};
