//! Sizes, rates and times: how the user writes them, how the screen shows them. The only place that
//! multiplies by 8.
//!
//! Inside linerate everything is SI and bytes per second; links and wire rates are shown in bits, disks in
//! bytes.

use std::time::Duration;

/// Why a size, a rate or a time could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

/// The number at the start of a text, and what follows it; spaces around both are left out.
fn number_and_rest(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    Some((text[..digits].parse().ok()?, text[digits..].trim()))
}

/// The exponent of `k`, `M`, `G` or `T` at the start of a unit, and the rest of the unit; 0 without one of
/// them.
fn prefix(unit: &str) -> (i32, &str) {
    let power = unit.chars().next().and_then(|letter| "kmgt".find(letter.to_ascii_lowercase()));
    power.map_or((0, unit), |power| (power as i32 + 1, &unit[1..]))
}

/// Reads a size in bytes: `4k`, `1M`, `16MiB`, `2GB`, `512`. A bare letter and `…iB` are powers of 1024 as in
/// fio,
/// `…B` of 1000.
pub fn parse_size(text: &str) -> Result<u64, ParseError> {
    let wrong = || ParseError(format!("“{text}” is not a size: write it like 4k, 1M, 16MiB or 2GB"));
    let (number, unit) = number_and_rest(text).ok_or_else(wrong)?;
    let (power, unit) = prefix(unit);
    let base: f64 = match (power, unit.to_ascii_lowercase().as_str()) {
        (_, "") | (1.., "ib") => 1024.0,
        (_, "b") => 1000.0,
        _ => return Err(wrong()),
    };
    let bytes = number * base.powi(power);
    // There are no parts of a byte: 1.1G is the nearest.
    let bytes = if power > 0 { bytes.round() } else { bytes };
    if !bytes.is_finite() || bytes >= u64::MAX as f64 || bytes.fract() != 0.0 {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

/// Reads a rate and gives bytes per second. `10G`, `10Gb/s`, `10Gbit/s`, `10Gbps` are bits, `3GB/s`,
/// `200MBps` are bytes, all in SI powers; `8MiB/s` counts in powers of 1024.
pub fn parse_rate(text: &str) -> Result<f64, ParseError> {
    let wrong =
        || ParseError(format!("“{text}” is not a rate: write bits like 10G or 10Gbps, or bytes like 3GB/s"));
    let (number, unit) = number_and_rest(text).ok_or_else(wrong)?;
    let per_second = ["/s", "ps", "/sec"].iter().find_map(|end| unit.strip_suffix(end));
    let (power, unit) = prefix(per_second.unwrap_or(unit));
    let (base, unit) = match unit.strip_prefix('i') {
        None => (1000.0f64, unit),
        // Without “/s” it would be a size.
        Some(unit) if per_second.is_some() && power > 0 => (1024.0, unit),
        Some(_) => return Err(wrong()),
    };
    let bytes = match unit {
        "" | "b" | "bit" | "bits" => 1.0 / 8.0,
        "B" => 1.0,
        _ => return Err(wrong()),
    };
    let rate = number * base.powi(power) * bytes;
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err(wrong()) }
}

/// Reads a length of time: `5` and `0.5` are seconds; `200ms`, `5s`, `2m`, `1h30m`, `150us` say their unit.
pub fn parse_duration(text: &str) -> Result<Duration, ParseError> {
    let wrong =
        || ParseError(format!("“{text}” is not a time: write seconds like 5 or 0.5, or 200ms, 5s, 2m, 1h"));
    let mut seconds = 0.0;
    let mut rest = text;
    loop {
        let (number, after) = number_and_rest(rest).ok_or_else(wrong)?;
        let (unit, more) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        let one = match unit.trim_end() {
            // A number alone; among others it could be anything.
            "" if rest.len() == text.len() && more.is_empty() => 1.0,
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => return Err(wrong()),
        };
        seconds += number * one;
        if more.is_empty() {
            return Duration::try_from_secs_f64(seconds).map_err(|_| wrong());
        }
        rest = more;
    }
}

/// Bits per second of a link as bytes per second.
pub fn bytes_per_second(bits_per_second: u64) -> f64 {
    bits_per_second as f64 / 8.0
}

/// Bytes per second as bits per second.
pub fn bits_per_second(bytes_per_second: f64) -> f64 {
    bytes_per_second * 8.0
}

fn with_prefix(value: f64, unit: &str) -> String {
    with_interval(value, None, unit)
}

/// The value, and how far the farther end of its interval is from it, rounded up to the digits that are shown.
fn with_interval(value: f64, interval: Option<[f64; 2]>, unit: &str) -> String {
    let (one, prefix) = match value {
        v if v >= 1e12 => (1e12, "T"),
        v if v >= 1e9 => (1e9, "G"),
        v if v >= 1e6 => (1e6, "M"),
        v if v >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let scaled = value / one;
    let decimals = match scaled {
        s if s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        _ => 2,
    };
    let half = interval.map_or(0.0, |[low, high]| (value - low).max(high - value));
    let digits = 10f64.powi(decimals as i32);
    // What is next to nothing is an error of arithmetic.
    let around = match half / one * digits {
        steps if steps.is_finite() && steps > 1e-6 => {
            format!(" ± {:.decimals$}", (steps - 1e-6).ceil() / digits)
        }
        _ => String::new(),
    };
    format!("{scaled:.decimals$}{around} {prefix}{unit}")
}

/// A disk's or memory's rate: `813 MB/s`.
pub fn show_bytes_rate(bytes_per_second: f64) -> String {
    with_prefix(bytes_per_second, "B/s")
}

/// A link's rate: `9.93 Gb/s`.
pub fn show_bits_rate(bytes_per_second: f64) -> String {
    with_prefix(bits_per_second(bytes_per_second), "b/s")
}

/// A disk's rate with its interval, where there is one: `2.61 ± 0.05 GB/s`.
pub fn show_bytes_rate_within(bytes_per_second: f64, interval: Option<[f64; 2]>) -> String {
    with_interval(bytes_per_second, interval, "B/s")
}

/// A link's rate with its interval (both in bytes per second): `9.93 ± 0.02 Gb/s`.
pub fn show_bits_rate_within(bytes_per_second: f64, interval: Option<[f64; 2]>) -> String {
    with_interval(bits_per_second(bytes_per_second), interval.map(|ends| ends.map(bits_per_second)), "b/s")
}

/// A size in powers of 1024: `1 GiB`, `256 KiB`.
pub fn show_size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = if value.fract() == 0.0 || value >= 100.0 { 0 } else { 1 };
    format!("{value:.decimals$} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_as_users_of_fio_write_them() {
        let sizes =
            [("4k", 4096), ("1M", 1 << 20), ("16MiB", 16 << 20), ("2GB", 2_000_000_000), ("512", 512)];
        for (text, bytes) in sizes.into_iter().chain([("1.5k", 1536), ("1.1G", 1_181_116_006)]) {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "k", "-1", "1x", "1MBB", "1iB", "NaN", "1e30T", "0.3"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_in_bits_and_bytes() {
        for (bytes, rate) in [("3GB/s", 3e9), ("200MB/s", 2e8), ("8MiB/s", 8_388_608.0)] {
            assert_eq!(parse_rate(bytes), Ok(rate), "{bytes}");
        }
        for bits in ["10G", "10Gb/s", "10Gbps", "10Gbit/s", "10 Gbits/sec", "10gbps", "10000M", "10000000000"]
        {
            assert_eq!(parse_rate(bits), Ok(1.25e9), "{bits}");
        }
        for wrong in ["", "G", "10X", "0", "-3G", "8MiB", "3iB/s", "10GBPS", "5s", "1G/m"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_with_and_without_a_unit() {
        let seconds = |text: &str| parse_duration(text).map(|time| time.as_secs_f64());
        for (text, expected) in [
            ("5", 5.0),
            ("0.5", 0.5),
            ("5s", 5.0),
            ("200ms", 0.2),
            ("150us", 150e-6),
            ("20µs", 20e-6),
            ("2m", 120.0),
            ("1h", 3600.0),
            ("1h30m", 5400.0),
            ("1 h 30 min", 5400.0),
            ("1.5s", 1.5),
            ("0", 0.0),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for wrong in
            ["", "s", "-1", "1x", "nan", "inf", "1e3", "1 2", "5 200ms", "1h30", "1h 30 x", "9999999999999d9"]
        {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_as_the_screen_shows_them() {
        assert_eq!(show_bytes_rate(813e6), "813 MB/s");
        assert_eq!(show_bits_rate(9.93e9 / 8.0), "9.93 Gb/s");
        assert_eq!(show_size(1 << 30), "1 GiB");
    }

    #[test]
    fn an_interval_is_shown_around_its_rate_and_never_too_small() {
        assert_eq!(show_bytes_rate_within(2.61e9, Some([2.56e9, 2.65e9])), "2.61 ± 0.05 GB/s");
        assert_eq!(show_bits_rate_within(1.25e9, Some([1.24e9, 1.251e9])), "10.0 ± 0.1 Gb/s");
        assert_eq!(show_bytes_rate_within(199.4e6, Some([199.3e6, 199.6e6])), "199 ± 1 MB/s");
        assert_eq!(show_bytes_rate_within(2e9, Some([2e9, 2e9])), "2.00 GB/s");
        assert_eq!(show_bytes_rate_within(2e9, Some([f64::NAN, f64::INFINITY])), "2.00 GB/s");
        assert_eq!(show_bytes_rate_within(2e9, None), "2.00 GB/s");
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in ".{0,12}") {
            let _ = parse_size(&text);
            let _ = parse_rate(&text);
            let _ = parse_duration(&text);
        }

        /// However it is written, it means the same.
        #[test]
        fn a_rate_means_the_same_in_every_way_of_writing(number in 1u32..1_000_000, power in 0..5usize) {
            let prefix = ["", "k", "M", "G", "T"][power];
            let bits = f64::from(number) * 1000f64.powi(power as i32);
            for unit in ["b/s", "bit/s", "bps", "bits/sec", "bit", ""] {
                prop_assert_eq!(parse_rate(&format!("{number}{prefix}{unit}")), Ok(bits / 8.0));
            }
            for unit in ["B/s", "Bps", "B"] {
                prop_assert_eq!(parse_rate(&format!("{number}{prefix}{unit}")), Ok(bits));
            }
        }

        #[test]
        fn a_size_is_read_as_it_is_shown(bytes in 0u64..1 << 53) {
            prop_assert_eq!(parse_size(&bytes.to_string()), Ok(bytes));
            let kibibytes = bytes >> 10;
            prop_assert_eq!(parse_size(&format!("{kibibytes}k")), parse_size(&format!("{kibibytes} KiB")));
        }

        #[test]
        fn a_time_is_the_sum_of_its_parts(hours in 0u32..100, minutes in 0u32..60, millis in 0u32..60_000) {
            let whole = f64::from(hours * 3600 + minutes * 60) + f64::from(millis) / 1000.0;
            let read = parse_duration(&format!("{hours}h{minutes}m{millis}ms")).expect("a time");
            prop_assert!((read.as_secs_f64() - whole).abs() < 1e-6);
            let alone = parse_duration(&format!("{}", f64::from(millis) / 1000.0)).expect("seconds");
            prop_assert_eq!(alone, parse_duration(&format!("{millis}ms")).expect("milliseconds"));
        }
    }
}
