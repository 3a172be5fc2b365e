//! A fact about the machine: read, or not readable with the reason.
//!
//! What cannot be read is data (`{"unknown": "why"}` in JSON), never a panic and never a guess.

use serde::{Deserialize, Serialize};

/// A value that was read from the machine, or the reason why it could not be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Fact<T> {
    /// Read from the kernel or the firmware.
    Known(T),
    /// Not readable here; `why` is a phrase for the user ("a virtual machine shows no link").
    Unknown {
        /// The reason, as a phrase.
        #[serde(rename = "unknown")]
        why: String,
    },
}

impl<T> Fact<T> {
    /// A fact that could not be read.
    pub fn unknown(why: impl Into<String>) -> Self {
        Fact::Unknown { why: why.into() }
    }

    /// The value, if it was read.
    pub fn known(&self) -> Option<&T> {
        match self {
            Fact::Known(value) => Some(value),
            Fact::Unknown { .. } => None,
        }
    }

    /// The reason, if it was not read.
    pub fn why(&self) -> Option<&str> {
        match self {
            Fact::Known(_) => None,
            Fact::Unknown { why } => Some(why),
        }
    }

    /// The same fact with its value changed.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Fact<U> {
        match self {
            Fact::Known(value) => Fact::Known(change(value)),
            Fact::Unknown { why } => Fact::Unknown { why },
        }
    }

    /// `Some` is known; `None` is unknown for the given reason.
    pub fn from_option(value: Option<T>, why: impl Into<String>) -> Self {
        match value {
            Some(value) => Fact::Known(value),
            None => Fact::unknown(why),
        }
    }
}

/// What an older file, or a machine made by hand, does not tell.
impl<T> Default for Fact<T> {
    fn default() -> Self {
        Fact::unknown("not recorded")
    }
}

impl<T: std::fmt::Display> std::fmt::Display for Fact<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fact::Known(value) => value.fmt(f),
            Fact::Unknown { why } => write!(f, "unknown ({why})"),
        }
    }
}
