//! How the kernel writes a setting's value, and how it is compared and written back.

use linerate_machine::probe::cpu_list;
use linerate_system::Errno;
use serde::{Deserialize, Serialize};

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Words or numbers, however they are spaced: `4096 131072 6291456`.
    Words,
    /// All that can be chosen, the choice in brackets: `none [mq-deadline] kyber`.
    Choice,
    /// A set of CPUs in hexadecimal words: `00000000,000000ff`.
    Mask,
    /// A set of CPUs as a list: `0-3,8`.
    List,
    /// A whole file, byte for byte.
    File,
}

impl Shape {
    /// The value that a reading means: equal for two readings that mean the same.
    pub fn value(self, raw: &[u8]) -> String {
        let text = String::from_utf8_lossy(raw);
        let words = || text.split_whitespace().collect::<Vec<_>>().join(" ");
        match self {
            Shape::File => text.into_owned(),
            Shape::Words => words(),
            Shape::Choice => chosen(&text).map_or_else(words, str::to_string),
            Shape::Mask => cpu_list::parse_mask(&text).map_or_else(words, |ids| cpu_list::show(&ids)),
            Shape::List => cpu_list::parse_list(&text).map_or_else(words, |ids| cpu_list::show(&ids)),
        }
    }

    /// Two readings mean the same.
    pub fn same(self, one: &[u8], other: &[u8]) -> bool {
        match self {
            Shape::File => one == other,
            _ => self.value(one) == self.value(other),
        }
    }

    /// The bytes that bring back what was read before: a choice by its word, anything else as it was.
    pub(crate) fn restoring(self, before: &[u8]) -> Vec<u8> {
        match self {
            Shape::Choice => self.value(before).into_bytes(),
            _ => before.to_vec(),
        }
    }

    /// The bytes that ask the kernel for a value as a user writes it: a set of CPUs is a list.
    pub fn asking(self, value: &str) -> Vec<u8> {
        match self {
            Shape::Mask => match cpu_list::parse_list(value) {
                Some(ids) => mask(&ids).into_bytes(),
                None => value.as_bytes().to_vec(),
            },
            Shape::File => value.as_bytes().to_vec(),
            _ => format!("{value}\n").into_bytes(),
        }
    }

    /// What the kernel would show after `written` was written in place of `before`; for a tree of plain files
    /// in place of a machine. The error is what the kernel would say.
    pub(crate) fn rehearsed(self, before: &[u8], written: &[u8]) -> Result<Vec<u8>, Errno> {
        let before = String::from_utf8_lossy(before);
        let Some(old) = chosen(&before).filter(|_| self == Shape::Choice) else {
            return Ok(written.to_vec());
        };
        let new = String::from_utf8_lossy(written).trim().to_string();
        let word = |text: &str| text.trim_matches(['[', ']']).to_string();
        if !before.split_whitespace().any(|other| word(other) == new) {
            return Err(Errno::INVAL);
        }
        let shown = before.split_whitespace().map(|other| match word(other) {
            same if same == new => format!("[{new}]"),
            other => other,
        });
        debug_assert!(!old.is_empty());
        let line_end = if before.ends_with('\n') { "\n" } else { "" };
        Ok((shown.collect::<Vec<_>>().join(" ") + line_end).into_bytes())
    }
}

/// The word in brackets.
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    Some(word.trim()).filter(|word| !word.is_empty() && !word.contains('['))
}

/// Ascending ids as the kernel writes a mask: hexadecimal words of 32 bits, the highest first.
pub(super) fn mask(ids: &[u32]) -> String {
    let count = ids.iter().max().map_or(1, |highest| *highest as usize / 32 + 1);
    let mut words = vec![0u32; count];
    for id in ids {
        words[*id as usize / 32] |= 1 << (id % 32);
    }
    words.iter().rev().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_means_the_same_is_the_same() {
        assert!(Shape::Words.same(b"4096\t131072\t6291456\n", b"4096 131072 6291456"));
        assert!(Shape::Choice.same(b"none [mq-deadline] kyber\n", b"[mq-deadline] none"));
        assert!(Shape::Choice.same(b"[none] mq-deadline\n", b"none"));
        assert!(Shape::Mask.same(b"00000000,000000ff\n", b"ff"));
        assert!(Shape::List.same(b"0-3,8\n", b"0,1,2,3,8"));
        assert!(!Shape::File.same(b"a\n", b"a"));
    }

    #[test]
    fn a_choice_comes_back_by_its_word_and_the_rest_byte_for_byte() {
        let before = b"none [mq-deadline] kyber\n";
        assert_eq!(Shape::Choice.restoring(before), b"mq-deadline");
        let changed = Shape::Choice.rehearsed(before, b"none\n").expect("one of them");
        assert_eq!(changed, b"[none] mq-deadline kyber\n");
        assert_eq!(Shape::Choice.rehearsed(&changed, &Shape::Choice.restoring(before)).expect("one"), before);
        assert_eq!(Shape::Choice.rehearsed(before, b"bfq"), Err(Errno::INVAL));
        assert_eq!(Shape::Words.restoring(b"4096\t1\t2\n"), b"4096\t1\t2\n");
    }

    #[test]
    fn masks_are_written_as_the_kernel_does() {
        assert_eq!(Shape::Mask.asking("0-7"), b"000000ff");
        assert_eq!(Shape::Mask.asking("0,32"), b"00000001,00000001");
        assert_eq!(mask(&[]), "00000000");
    }

    proptest! {
        #[test]
        fn a_mask_is_read_back(ids in proptest::collection::btree_set(0u32..4096, 0..40)) {
            let ids: Vec<u32> = ids.into_iter().collect();
            prop_assert_eq!(cpu_list::parse_mask(&mask(&ids)), Some(ids));
        }

        #[test]
        fn any_reading_has_a_value_that_is_its_own(raw in proptest::collection::vec(any::<u8>(), 0..60)) {
            for shape in [Shape::Words, Shape::Choice, Shape::Mask, Shape::List, Shape::File] {
                prop_assert!(shape.same(&raw, &raw));
            }
        }
    }
}
