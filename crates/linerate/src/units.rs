//! Sizes and rates: how the user writes them, how the screen shows them. The only place that multiplies by 8.
//!
//! Inside linerate everything is SI and bytes per second; links and wire rates are shown in bits, disks in bytes.

use std::fmt;

/// Why a size or a rate could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError(String);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

/// Reads a size in bytes: `4k`, `1M`, `16MiB`, `2GB`, `512`. A bare letter and `…iB` are powers of 1024 as in fio, `…B` of 1000.
pub fn parse_size(text: &str) -> Result<u64, ParseError> {
    let trimmed = text.trim();
    let wrong = || ParseError(format!("“{text}” is no size: write it like 4k, 1M, 16MiB or 2GB"));
    let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let number: f64 = trimmed[..digits].parse().map_err(|_| wrong())?;
    let suffix = trimmed[digits..].trim().to_ascii_lowercase();
    let (letter, rest) = suffix.split_at(suffix.chars().next().map_or(0, char::len_utf8));
    let power = match letter {
        "" | "b" if rest.is_empty() => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return Err(wrong()),
    };
    let base: f64 = match rest {
        "" | "ib" => 1024.0,
        "b" => 1000.0,
        _ => return Err(wrong()),
    };
    let bytes = number * base.powi(power);
    if !bytes.is_finite() || bytes >= u64::MAX as f64 || bytes.fract() != 0.0 {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

/// Reads a rate and gives bytes per second: `10G`, `10Gb/s`, `10Gbit/s` are bits, `3GB/s`, `200MB/s` are bytes; SI powers.
pub fn parse_rate(text: &str) -> Result<f64, ParseError> {
    let trimmed = text.trim();
    let wrong = || ParseError(format!("“{text}” is no rate: write bits like 10G or bytes like 3GB/s"));
    let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let number: f64 = trimmed[..digits].parse().map_err(|_| wrong())?;
    let suffix = trimmed[digits..].trim();
    let suffix = suffix.strip_suffix("/s").unwrap_or(suffix);
    let mut letters = suffix.chars();
    let (scale, unit) = match letters.next() {
        None => (1.0, ""),
        Some('k' | 'K') => (1e3, letters.as_str()),
        Some('m' | 'M') => (1e6, letters.as_str()),
        Some('g' | 'G') => (1e9, letters.as_str()),
        Some('t' | 'T') => (1e12, letters.as_str()),
        Some(_) => (1.0, suffix),
    };
    let per_unit = match unit {
        "" | "b" | "bit" => 1.0 / 8.0,
        "B" => 1.0,
        _ => return Err(wrong()),
    };
    let rate = number * scale * per_unit;
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err(wrong()) }
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
    let (scaled, prefix) = match value {
        v if v >= 1e12 => (v / 1e12, "T"),
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let decimals = match scaled {
        s if s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        _ => 2,
    };
    format!("{scaled:.decimals$} {prefix}{unit}")
}

/// A disk's or memory's rate: `813 MB/s`.
pub fn show_bytes_rate(bytes_per_second: f64) -> String {
    with_prefix(bytes_per_second, "B/s")
}

/// A link's rate: `9.93 Gb/s`.
pub fn show_bits_rate(bytes_per_second: f64) -> String {
    with_prefix(bits_per_second(bytes_per_second), "b/s")
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
        assert_eq!(parse_size("4k"), Ok(4096));
        assert_eq!(parse_size("1M"), Ok(1 << 20));
        assert_eq!(parse_size("16MiB"), Ok(16 << 20));
        assert_eq!(parse_size("2GB"), Ok(2_000_000_000));
        assert_eq!(parse_size("512"), Ok(512));
        assert_eq!(parse_size("1.5k"), Ok(1536));
        for wrong in ["", "k", "-1", "1x", "1MBB", "NaN", "1e30T", "0.3"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_in_bits_and_bytes() {
        assert_eq!(parse_rate("10G"), Ok(1.25e9));
        assert_eq!(parse_rate("10Gb/s"), Ok(1.25e9));
        assert_eq!(parse_rate("3GB/s"), Ok(3e9));
        assert_eq!(parse_rate("200MB/s"), Ok(2e8));
        for wrong in ["", "G", "10X", "0", "-3G", "3GiB/s"] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rates_as_the_screen_shows_them() {
        assert_eq!(show_bytes_rate(813e6), "813 MB/s");
        assert_eq!(show_bits_rate(9.93e9 / 8.0), "9.93 Gb/s");
        assert_eq!(show_size(1 << 30), "1 GiB");
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in ".{0,12}") {
            let _ = parse_size(&text);
            let _ = parse_rate(&text);
        }
    }
}
