//! Values of JSON that other tools write in several ways: a number that is text, a text that is a number, `null`.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt::{Formatter, Result as Written};

/// A larger number is of no test; sums of these stay finite.
const LARGEST: f64 = 1e18;
/// Characters of a text that are kept: iperf3's reasons have up to 130.
const LONGEST: usize = 240;

/// A number, if it is one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Number(Option<f64>);

impl Number {
    /// None: it is missing, or not a number.
    pub(crate) fn get(self) -> Option<f64> {
        self.0
    }

    /// More than nothing.
    pub(crate) fn positive(self) -> Option<f64> {
        self.0.filter(|value| *value > 0.0)
    }

    /// 0 where it is missing or below.
    pub(crate) fn or_zero(self) -> f64 {
        self.positive().unwrap_or(0.0)
    }

    /// The same as a count.
    pub(crate) fn count(self) -> u64 {
        self.or_zero() as u64
    }

    fn of(value: f64) -> Self {
        Number(Some(value).filter(|value| value.abs() <= LARGEST))
    }
}

/// A short text; empty where it is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) String);

impl Text {
    pub(crate) fn of(text: &str) -> Self {
        Text(text.trim().chars().take(LONGEST).collect())
    }

    /// None where it is empty.
    pub(crate) fn get(&self) -> Option<&str> {
        Some(self.0.as_str()).filter(|text| !text.is_empty())
    }
}

/// What a value is, whatever its type: anything else than a number or a text is neither.
struct Plain;

impl<'de> Visitor<'de> for Plain {
    type Value = (Number, Text);

    fn expecting(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str("a value")
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        Ok((Number::of(value), Text::of(&value.to_string())))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok((Number::of(value as f64), Text::of(&value.to_string())))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok((Number::of(value as f64), Text::of(&value.to_string())))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok((Number::of(f64::from(u8::from(value))), Text::of(&value.to_string())))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok((value.trim().parse().map(Number::of).unwrap_or_default(), Text::of(value)))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Default::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Default::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Default::default())
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(Plain).map(|(number, _)| number)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(Plain).map(|(_, text)| text)
    }
}

/// The begin of a list: a small file has lists that are hundreds of times its size in memory.
pub(crate) fn first<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MOST: usize>(
    list: D,
) -> Result<Vec<T>, D::Error> {
    head(list, MOST, |_| 1)
}

/// The begin of a list whose elements are of several sizes.
pub(crate) fn head<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    list: D,
    most: usize,
    size: fn(&T) -> usize,
) -> Result<Vec<T>, D::Error> {
    list.deserialize_seq(Head { most, size })
}

struct Head<T> {
    most: usize,
    size: fn(&T) -> usize,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Head<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut Formatter<'_>) -> Written {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let (mut kept, mut sizes) = (Vec::new(), 0);
        while sizes < self.most {
            let Some(one) = list.next_element()? else { return Ok(kept) };
            sizes += (self.size)(&one);
            kept.push(one);
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(kept)
    }
}
