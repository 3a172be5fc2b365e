//! Values of a job file, or of the options that fio writes into its JSON: sizes, times, names, patterns and engines in
//! fio's own units and words.

use crate::measure::access::{Access, AccessOrder, Engine};
use std::path::PathBuf;

/// A size as fio 3.33 reads it with its default `kb_base=1024`, where the prefixes stand the other way round
/// than in IEC 80000-13: `4k`, `4ki` and `4kb` are 4096, `4kib` is 4000 (fio(1), "Parameter types", has the
/// rule; `ki` is what the program does).
pub fn size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].to_ascii_lowercase();
    let (letters, base) = match unit.strip_suffix("ib") {
        Some(letters) => (letters, 1000u64),
        None => (unit.strip_suffix(['b', 'i']).unwrap_or(&unit), 1024),
    };
    let power = match (letters, base) {
        ("", 1024) if unit.is_empty() => 0,
        ("k", _) => 1,
        ("m", _) => 2,
        ("g", _) => 3,
        ("t", _) => 4,
        ("p", _) => 5,
        _ => return None,
    };
    number.checked_mul(base.checked_pow(power)?)
}

/// A time in seconds: a bare number is seconds; `d`, `h`, `m`, `s`, `ms`, `us`.
pub(super) fn duration(text: &str) -> Option<f64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let scale = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "s" => 1.0,
        "d" => 86_400.0,
        "h" => 3600.0,
        "m" => 60.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        _ => return None,
    };
    Some(number as f64 * scale)
}

/// On or off; a key alone is on.
pub fn switch(text: Option<&str>) -> Option<bool> {
    match text {
        None | Some("1" | "true") => Some(true),
        Some("0" | "false") => Some(false),
        Some(_) => None,
    }
}

/// Names with colons between; a colon that is part of one stands behind a backslash.
pub fn named(text: &str) -> Vec<PathBuf> {
    let mut names = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        match c {
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            ':' if !escaped => names.push(String::new()),
            c => {
                if let Some(last) = names.last_mut() {
                    // Only a colon needed the backslash.
                    if escaped && c != ':' && c != '\\' {
                        last.push('\\');
                    }
                    last.push(c);
                }
            }
        }
        escaped = false;
    }
    names.into_iter().filter(|name| !name.is_empty()).map(PathBuf::from).collect()
}

/// `rw` without what follows a colon; none: linerate has no such pattern.
pub fn pattern(word: &str, mixed: Access) -> Option<(AccessOrder, Access)> {
    let (order, word) = match word.strip_prefix("rand") {
        Some(rest) => (AccessOrder::Random, rest),
        None => (AccessOrder::Sequential, word),
    };
    match word {
        "read" => Some((order, Access::Read)),
        "write" => Some((order, Access::Write)),
        "rw" => Some((order, mixed)),
        "readwrite" if order == AccessOrder::Sequential => Some((order, mixed)),
        _ => None,
    }
}

/// Half and half where neither share of a mix, in percent, is given; of two that contradict each other `rwmixread` counts.
pub fn mixed(reads: Option<u64>, writes: Option<u64>) -> Access {
    let reads = reads.or(writes.map(|writes| 100 - writes.min(100))).unwrap_or(50);
    Access::Mixed { read_share: reads as f64 / 100.0 }
}

/// `ioengine`; none: linerate has no such engine. libaio's place was taken by io_uring.
pub fn engine(name: &str) -> Option<Engine> {
    match name {
        "io_uring" | "libaio" => Some(Engine::IoUring),
        "psync" | "sync" | "vsync" | "pvsync" | "pvsync2" => Some(Engine::Psync),
        "mmap" => Some(Engine::Mmap),
        _ => None,
    }
}
