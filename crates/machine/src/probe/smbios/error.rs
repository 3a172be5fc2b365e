//! Why the firmware reports nothing.

use super::firmware::MOST;
use linerate_facts::sysroot::{UnreadReason, Unreadable};
use thiserror::Error;

/// A phrase for `Fact::Unknown`, or a sentence for who gave a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FirmwareError {
    #[error("no SMBIOS table describes the DIMMs")]
    NoTable,
    #[error(transparent)]
    Unreadable(Unreadable),
    #[error("{0}; run as root, or name a file with the output of dmidecode")]
    NotPermitted(Unreadable),
    /// The bytes hold no structure; with the cause.
    #[error(
        "no SMBIOS table: {0}; give /sys/firmware/dmi/tables/DMI or what `dmidecode --dump-bin FILE` writes"
    )]
    NoStructure(String),
    /// A line of a text that dmidecode did not print.
    #[error("line {line}: {what}")]
    Line { line: usize, what: String },
    #[error("more than {MOST} {0}: no such machine is built; the table is broken")]
    TooMany(&'static str),
}

impl From<Unreadable> for FirmwareError {
    fn from(why: Unreadable) -> Self {
        match why.reason {
            UnreadReason::NotPermitted => FirmwareError::NotPermitted(why),
            _ => FirmwareError::Unreadable(why),
        }
    }
}
