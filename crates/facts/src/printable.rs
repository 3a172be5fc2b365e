//! Names from outside made fit to be shown: no control characters (a device name must not move the cursor), no
//! direction overrides (it must not reorder the line), and how many columns of a terminal a text takes.
//!
//! A text from outside may have another encoding than UTF-8.

use std::borrow::Cow;
use unicode_width::UnicodeWidthChar;

/// Replaces what could act on the screen instead of being shown on it. Line ends and tabs become spaces.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if c.is_control() || changes_direction(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Explicit direction marks (Unicode Annex #9, section 2), separators, and the byte order mark.
fn changes_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Columns that a text takes: marks that combine take none, wide East Asian characters and emoji two.
pub fn columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

/// Each character by itself, as terminals do that know of no sequences.
fn char_columns(c: char) -> usize {
    c.width().unwrap_or(1)
}

/// The text, or its beginning with `…`, in at most `width` columns.
pub fn shortened(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_string();
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += char_columns(c);
        if used + 1 > width {
            break;
        }
        kept.push(c);
    }
    if width > 0 {
        kept.truncate(kept.trim_end().len());
        kept.push('…');
    }
    kept
}

/// Columns of [`foreign`]: enough to know a text by.
const MOST_FOREIGN: usize = 160;

/// What another host or user wrote, for a sentence: printable, and its beginning alone where it is long.
pub fn foreign(text: &str) -> String {
    // Marks that take no column may be many.
    let start: String = text.chars().take(2 * MOST_FOREIGN).collect();
    shortened(&printable(&start), MOST_FOREIGN)
}

/// The text in lines of at most `width` columns, broken at spaces; a longer word is broken where it must be.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        // A number keeps its sign.
        let sign = words.next_if(|next| next.starts_with('%'));
        let word = &sign.map_or(word.to_string(), |sign| format!("{word} {sign}"));
        if !line.is_empty() && columns(&line) + 1 + columns(word) > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if !line.is_empty() && columns(&line) + char_columns(c) > width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// Wrapped behind a head; the lines after the first are indented as far.
pub fn hanging(head: &str, text: &str, width: usize) -> Vec<String> {
    let indent = columns(head);
    let mut lines = wrapped(text, width.saturating_sub(indent));
    for (index, line) in lines.iter_mut().enumerate() {
        *line = if index == 0 { format!("{head}{line}") } else { format!("{:indent$}{line}", "") };
    }
    lines
}

/// The text for a terminal that knows ASCII only: our own signs as what is nearest, in one column where that can
/// be; letters that it does not know as `?`.
pub fn ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if letter.is_ascii() => plain.push(letter),
            '…' => plain.push('~'),
            '–' | '−' | '—' => plain.push('-'),
            '×' => plain.push('x'),
            '→' => plain.push('>'),
            '÷' => plain.push('/'),
            'µ' => plain.push('u'),
            '“' | '”' => plain.push('"'),
            '‘' | '’' => plain.push('\''),
            '·' | '•' => plain.push('.'),
            '█' | '▉' | '▊' | '▋' | '▌' => plain.push('#'),
            '\u{a0}' => plain.push(' '),
            '≥' => plain.push_str(">="),
            '≤' => plain.push_str("<="),
            '±' => plain.push_str("+-"),
            _ => plain.push('?'),
        }
    }
    plain
}

/// The bytes in UTF-8, without the mark that may be before them. UTF-16 is what PowerShell writes of what it redirects; all else
/// is as it is.
pub fn utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    let unit = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return Cow::Borrowed(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)),
    };
    let units = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let text: String = char::decode_utf16(units).map(|found| found.unwrap_or('\u{fffd}')).collect();
    Cow::Owned(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_cannot_act_on_the_terminal() {
        assert_eq!(printable("sda\u{1b}[2J\u{202e}x\ny"), "sda\u{fffd}[2J\u{fffd}x y");
        assert_eq!(columns("e\u{301}磁盘"), 5);
    }

    #[test]
    fn long_texts_are_cut_with_a_sign() {
        assert_eq!(shortened("nvme0n1", 7), "nvme0n1");
        assert_eq!(shortened("nvme10n1", 5), "nvme…");
        assert_eq!(shortened("磁盘磁盘", 4), "磁…");
        assert_eq!(shortened("abc", 0), "");
    }

    #[test]
    fn a_foreign_text_in_a_sentence_is_bounded_and_printable() {
        assert_eq!(foreign("a\u{1b}[2J"), "a\u{fffd}[2J");
        for long in ["x".repeat(3_000_000), "\u{301}".repeat(1_000_000), "磁".repeat(1000)] {
            let shown = foreign(&long);
            assert!(columns(&shown) <= MOST_FOREIGN && shown.len() < 1000, "{}", shown.len());
        }
        assert!(foreign(&"x".repeat(161)).ends_with('…'));
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_asked_and_no_letter_is_lost(text in "\\PC{0,80}", width in 3usize..40) {
            let lines = wrapped(&text, width);
            for line in &lines {
                prop_assert!(columns(line) <= width, "{line:?}");
            }
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&text));
            prop_assert!(columns(&shortened(&text, width)) <= width);
        }
    }

    #[test]
    fn our_own_signs_in_ascii() {
        let text = "≥ 1.5 ± 0.1 GB/s – “disk vda” → 4 × 1 MiB…";
        assert_eq!(ascii(text), ">= 1.5 +- 0.1 GB/s - \"disk vda\" > 4 x 1 MiB~");
        assert_eq!(ascii("größe\u{a0}1"), "gr??e 1");
    }

    #[test]
    fn marks_go_and_utf_16_is_read() {
        assert_eq!(utf8(b"\xef\xbb\xbfa").as_ref(), b"a");
        assert_eq!(utf8(b"\xff\xfea\0b\0").as_ref(), b"ab");
        assert_eq!(utf8(b"\xfe\xff\0a\0b\0").as_ref(), b"ab");
        assert_eq!(utf8(b"a\0b").as_ref(), b"a\0b");
    }
}
