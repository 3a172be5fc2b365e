//! Values of options: times, sizes and rates are read in one way everywhere, within the bounds that an option
//! sets.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use linerate_facts::protocol::Protocol;
use linerate_facts::units::{parse_duration, parse_rate, parse_size, show_bits_rate, show_size};
use std::ops::RangeInclusive;
use std::time::Duration;

const A_DAY: f64 = 86_400.0;

/// Words of an option: each with its help, where it needs one, and what it stands for. A word may have others in
/// its place, behind a `|`.
pub(crate) type Choices<T> = &'static [(&'static str, &'static str, T)];

/// `--protocol`: the headline first.
pub(crate) const PROTOCOLS: Choices<&[Protocol]> = &[
    ("tcp", "", &[Protocol::Tcp]),
    ("udp", "", &[Protocol::Udp]),
    ("both", "TCP first", &[Protocol::Tcp, Protocol::Udp]),
];

/// One of these words.
pub(crate) fn one_of<T: Clone + Send + Sync>(choices: Choices<T>) -> impl TypedValueParser<Value = T> {
    let possible = choices.iter().map(|(words, help, _)| {
        let mut words = words.split('|');
        let value = PossibleValue::new(words.next().unwrap_or_default()).aliases(words);
        if help.is_empty() { value } else { value.help(*help) }
    });
    PossibleValuesParser::new(possible).try_map(|given| {
        let chosen = choices.iter().find(|(words, ..)| words.split('|').any(|word| word == given));
        chosen.map(|(.., meaning)| meaning.clone()).ok_or("not one of the words")
    })
}

/// A host's name as clients write it, without a port.
pub(crate) fn host_name(text: &str) -> Result<String, NoHostName> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let is_name = (1..=253).contains(&text.len()) && text.bytes().all(is_letter);
    is_name.then(|| text.to_string()).ok_or(NoHostName)
}

/// It is no name that a URL can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give a name like files.example, without a port and without http://")]
pub(crate) struct NoHostName;

/// A length of time in seconds, more than 0 and at most a day: `5`, `0.5`, `200ms`, `2m`.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let seconds = parse_duration(text).map_err(|error| error.to_string())?.as_secs_f64();
    match seconds > 0.0 && seconds <= A_DAY {
        true => Ok(seconds),
        false => Err("give a time of more than 0 and at most a day".into()),
    }
}

/// A length of time within bounds.
pub(crate) fn time(
    bounds: RangeInclusive<Duration>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let time = parse_duration(text).map_err(|error| error.to_string())?;
        within(text, time, &bounds, |time| humantime::format_duration(time).to_string())
    }
}

/// Percent within bounds, with or without its sign: `0.01%`; as a share of 1.
pub(crate) fn percent(
    bounds: RangeInclusive<f64>,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.trim().trim_end_matches('%').trim_end().parse().ok();
        let share = number.filter(|percent| bounds.contains(percent)).map(|percent: f64| percent / 100.0);
        share.ok_or_else(|| format!("give percent from {} to {}", bounds.start(), bounds.end()))
    }
}

/// Bytes within bounds.
pub(crate) fn size(
    bounds: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<u64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let bytes = parse_size(text).map_err(|error| error.to_string())?;
        within(text, bytes, &bounds, show_size)
    }
}

/// Bytes of a packet or of a call, within bounds.
pub(crate) fn bytes(
    bounds: RangeInclusive<u32>,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    move |text| {
        let bytes = parse_size(text).map_err(|error| error.to_string())?;
        let (least, most) = (u64::from(*bounds.start()), u64::from(*bounds.end()));
        within(text, bytes, &(least..=most), |bytes| format!("{bytes} bytes")).map(|bytes| bytes as u32)
    }
}

/// A rate within bounds, bytes a second. What is outside is mostly a mistaken unit.
pub(crate) fn rate(
    bounds: RangeInclusive<f64>,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let rate = parse_rate(text).map_err(|error| error.to_string())?;
        within(text, rate, &bounds, show_bits_rate)
            .map_err(|why| format!("{why}; write it like 5G or 600MB/s"))
    }
}

fn within<T: PartialOrd + Copy>(
    text: &str,
    value: T,
    bounds: &RangeInclusive<T>,
    show: impl Fn(T) -> String,
) -> Result<T, String> {
    match bounds.contains(&value) {
        true => Ok(value),
        false => {
            Err(format!("“{text}” is not between {} and {}", show(*bounds.start()), show(*bounds.end())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_writing_within_the_bounds() {
        for text in ["5", "5s", "5000ms", "5.0"] {
            assert_eq!(seconds(text), Ok(5.0), "{text}");
        }
        assert_eq!(seconds("2m"), Ok(120.0));
        for wrong in ["0", "-1", "nan", "inf", "2d", "much", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        let interval = time(Duration::from_millis(100)..=Duration::from_secs(3600));
        assert_eq!(interval("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(interval("1ms").expect_err("short"), "“1ms” is not between 100ms and 1h");
        assert!(interval("x").is_err() && interval("-1").is_err());
        assert_eq!(size(1024..=1 << 30)("16MiB"), Ok(16 << 20));
        assert!(size(1024..=1 << 30)("1").is_err() && size(1024..=1 << 30)("2G").is_err());
        assert_eq!(bytes(64..=65_507)("9k"), Ok(9216));
        assert_eq!(
            bytes(64..=65_507)("1").expect_err("small"),
            "“1” is not between 64 bytes and 65507 bytes"
        );
        let share = percent(0.0..=50.0);
        assert_eq!(share("0.01%"), share("0.01"));
        assert_eq!(share("50 %"), Ok(0.5));
        for wrong in ["51", "-1", "nan", "%", ""] {
            assert_eq!(share(wrong).expect_err(wrong), "give percent from 0 to 50");
        }
        assert_eq!(rate(1000.0..=1e13)("8Gbps"), Ok(1e9));
        assert!(rate(1000.0..=1e13)("0").is_err() && rate(1000.0..=1e13)("7").is_err());
    }
}
