//! The two ways in which the kernel writes a set of CPUs or nodes: lists (`0-3,8`) and masks
//! (`00000000,0000010f`).
//!
//! <https://docs.kernel.org/admin-guide/kernel-parameters.html#cpu-lists>

use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::path::Path;

/// More than any kernel supports (NR_CPUS is at most 8192); a larger number in a recorded tree is damage.
const LARGEST_ID: u32 = 65_535;

/// Reads `NAME_list` or, in older trees, the mask `NAME_mask`; the error is that of the list.
pub fn read(sysroot: &Sysroot, list: impl AsRef<Path>, mask: impl AsRef<Path>) -> Fact<Vec<u32>> {
    let no_list = format!("{}: not a list of numbers", list.as_ref().display());
    match sysroot.fact(list).and_then(|text| Fact::from_option(parse_list(&text), no_list)) {
        Fact::Unknown { why } => {
            Fact::from_option(sysroot.text(mask).ok().and_then(|text| parse_mask(&text)), why)
        }
        ids => ids,
    }
}

/// `0-3,8` as ascending ids; empty text is the empty set; `None` where it is not a list.
pub fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut ids = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last > LARGEST_ID {
            return None;
        }
        ids.extend(first..=last);
        // Ranges that overlap a thousand times must not fill the memory.
        if ids.len() > 2 * LARGEST_ID as usize {
            return None;
        }
    }
    ids.sort_unstable();
    ids.dedup();
    Some(ids)
}

/// `00000000,0000010f` as ascending ids: hexadecimal words of 32 bits, the highest first.
pub fn parse_mask(text: &str) -> Option<Vec<u32>> {
    let words: Vec<&str> = text.trim().split(',').collect();
    if words.len() > (LARGEST_ID as usize + 1) / 32 {
        return None;
    }
    let mut ids = Vec::new();
    for (index, word) in words.iter().rev().enumerate() {
        let bits = u32::from_str_radix(word.trim(), 16).ok()?;
        ids.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| index as u32 * 32 + bit));
    }
    Some(ids)
}

/// Ascending ids as the kernel writes them: `0-3,8`.
pub fn show(ids: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for id in ids {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*id) => *last = *id,
            _ => ranges.push((*id, *id)),
        }
    }
    let shown: Vec<String> = ranges
        .iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    shown.join(",")
}

/// A fact in a file as a list in the kernel's words (`0-3,8`): a server has thousands of interrupts, each
/// allowed on hundreds of CPUs.
pub(crate) mod as_text {
    use super::{parse_list, show};
    use linerate_facts::fact::Fact;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// For `#[serde(with = …)]`.
    pub(crate) fn serialize<S: Serializer>(ids: &Fact<Vec<u32>>, to: S) -> Result<S::Ok, S::Error> {
        ids.clone().map(|ids| show(&ids)).serialize(to)
    }

    /// For `#[serde(with = …)]`; text that is not a list is an error.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Fact<Vec<u32>>, D::Error> {
        match Fact::<String>::deserialize(from)? {
            Fact::Known(text) => {
                let wrong = || D::Error::custom(format!("“{text}” is not a list of CPUs such as 0-3,8"));
                parse_list(&text).map(Fact::Known).ok_or_else(wrong)
            }
            Fact::Unknown { why } => Ok(Fact::Unknown { why }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists() {
        assert_eq!(parse_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_list(""), Some(vec![]));
        assert_eq!(parse_list("0,8,250-255").map(|ids| ids.len()), Some(8));
        for wrong in ["x", "3-1", "1-", "-1", "0-4294967295", "99999999999"] {
            assert_eq!(parse_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn masks() {
        assert_eq!(parse_mask("00000000,0000010f"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_mask("1,00000000"), Some(vec![32]));
        assert_eq!(parse_mask("ff"), Some((0..8).collect()));
        assert_eq!(parse_mask("0"), Some(vec![]));
        assert_eq!(parse_mask("xyz"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,60}") {
            let _ = parse_list(&text);
            let _ = parse_mask(&text);
        }

        #[test]
        fn what_is_shown_reads_the_same(ids in proptest::collection::btree_set(0u32..9000, 0..200)) {
            let ids: Vec<u32> = ids.into_iter().collect();
            prop_assert_eq!(parse_list(&show(&ids)), Some(ids));
        }
    }
}
