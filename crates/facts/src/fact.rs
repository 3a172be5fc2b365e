//! A fact about the machine: read, or not readable with the reason.
//!
//! What cannot be read is data (`{"unknown": "why"}` in JSON), never a panic and never a guess.

use serde::de::{DeserializeOwned, Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why a machine made by hand does not hold a fact.
pub const NOT_RECORDED: &str = "not recorded";

/// A value that was read from the machine, or the reason why it could not be.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// A fact that could not be read; the reason is a phrase, or an error that reads as one.
    pub fn unknown(why: impl ToString) -> Self {
        Fact::Unknown { why: why.to_string() }
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

    /// What is made of the value, where that may be unknown, too.
    pub fn and_then<U>(self, make: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Fact::Known(value) => make(value),
            Fact::Unknown { why } => Fact::Unknown { why },
        }
    }

    /// `Some` is known; `None` is unknown for the given reason.
    pub fn from_option(value: Option<T>, why: impl ToString) -> Self {
        value.map_or_else(|| Fact::unknown(why), Fact::Known)
    }
}

/// The error reads as the reason.
impl<T, E: std::error::Error> From<Result<T, E>> for Fact<T> {
    fn from(read: Result<T, E>) -> Self {
        read.map_or_else(Fact::unknown, Fact::Known)
    }
}

/// By hand, so that an error says what is wrong with the value; what is derived says only that it fits no
/// form. Facts are read from JSON.
impl<'de, T: DeserializeOwned> Deserialize<'de> for Fact<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match reason_in(Value::deserialize(from)?) {
            Ok(why) => Ok(Fact::Unknown { why }),
            Err(value) => T::deserialize(value).map(Fact::Known).map_err(D::Error::custom),
        }
    }
}

/// The reason of an unknown fact; else the value as it was.
fn reason_in(value: Value) -> Result<String, Value> {
    match value {
        Value::Object(mut fields) if fields.len() == 1 => match fields.remove("unknown") {
            Some(Value::String(why)) => Ok(why),
            Some(other) => Err(Value::Object([("unknown".to_string(), other)].into_iter().collect())),
            None => Err(Value::Object(fields)),
        },
        value => Err(value),
    }
}

impl<T> Default for Fact<T> {
    fn default() -> Self {
        Fact::unknown(NOT_RECORDED)
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;

    fn there_and_back<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(
        fact: Fact<T>,
        json: &str,
    ) {
        assert_eq!(serde_json::to_string(&fact).expect("JSON"), json);
        assert_eq!(serde_json::from_str::<Fact<T>>(json).expect("a fact"), fact);
        assert_eq!(serde_json::from_value::<Fact<T>>(json.parse().expect("JSON")).expect("a fact"), fact);
    }

    #[test]
    fn a_fact_is_its_value_or_its_reason() {
        there_and_back(Fact::Known(u64::MAX), "18446744073709551615");
        there_and_back(Fact::Known("unknown".to_string()), "\"unknown\"");
        there_and_back(Fact::Known((0.5, -1.0)), "[0.5,-1.0]");
        there_and_back(Fact::<Vec<u32>>::unknown("not there"), "{\"unknown\":\"not there\"}");
        there_and_back(Fact::<Fact<bool>>::Known(Fact::Known(true)), "true");
    }

    #[test]
    fn what_is_neither_is_reported_as_what_it_is() {
        let wrong = |json: &str| serde_json::from_str::<Fact<u32>>(json).expect_err("no fact").to_string();
        assert!(wrong("\"x\"").starts_with("invalid type: string \"x\", expected u32"), "{}", wrong("\"x\""));
        assert!(wrong("-1").starts_with("invalid value: integer `-1`, expected u32"), "{}", wrong("-1"));
        for json in ["{}", "{\"unknown\":3}", "{\"unknown\":\"x\",\"more\":1}", "{\"known\":\"x\"}"] {
            assert!(wrong(json).starts_with("invalid type: map, expected u32"), "{json}: {}", wrong(json));
        }
    }
}
