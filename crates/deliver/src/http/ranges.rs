//! Parts of a file: `Range` as a server reads it (RFC 9110 section 14.2), `Content-Range` as a client does.

/// Bytes `first ..= last` of a file; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    pub first: u64,
    pub last: u64,
}

impl ByteRange {
    /// How many bytes.
    pub fn length(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// What of a file is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectedRange {
    /// No range, one that is not understood, or several: a server may leave them all away, and this one answers
    /// several with the whole file.
    Whole,
    Part(ByteRange),
    /// 416.
    Unsatisfiable,
}

/// One range as it was written.
enum Written {
    From { first: u64, last: Option<u64> },
    Last(u64),
}

/// What a `Range` line selects of a file of `length` bytes.
pub fn selected(value: &str, length: u64) -> SelectedRange {
    let Some((unit, set)) = value.split_once('=') else { return SelectedRange::Whole };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return SelectedRange::Whole;
    }
    // Empty elements of a list are nothing (RFC 9110 section 5.6.1).
    let elements = set.split(',').map(str::trim).filter(|element| !element.is_empty());
    let Some(ranges) = elements.map(parse_range).collect::<Option<Vec<Written>>>() else {
        return SelectedRange::Whole;
    };
    let satisfiable: Vec<ByteRange> = ranges.iter().filter_map(|range| range_within(range, length)).collect();
    match (ranges.as_slice(), satisfiable.as_slice()) {
        ([], _) => SelectedRange::Whole,
        // The end of nothing is nothing, for which 206 has no words.
        ([Written::Last(1..)], _) if length == 0 => SelectedRange::Whole,
        (_, []) => SelectedRange::Unsatisfiable,
        ([_], [one]) => SelectedRange::Part(*one),
        _ => SelectedRange::Whole,
    }
}

fn parse_range(text: &str) -> Option<Written> {
    let (first, last) = text.split_once('-')?;
    let (first, last) = (first.trim(), last.trim());
    match (first.is_empty(), last.is_empty()) {
        (true, true) => None,
        (true, false) => Some(Written::Last(parse_number(last)?)),
        (false, true) => Some(Written::From { first: parse_number(first)?, last: None }),
        (false, false) => {
            let (first, last) = (parse_number(first)?, parse_number(last)?);
            (first <= last).then_some(Written::From { first, last: Some(last) })
        }
    }
}

/// Digits alone; what has more of them than fit is as large as can be.
fn parse_number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

fn range_within(range: &Written, length: u64) -> Option<ByteRange> {
    let end = length.checked_sub(1)?;
    match *range {
        Written::From { first, last } if first <= end => {
            Some(ByteRange { first, last: last.unwrap_or(end).min(end) })
        }
        Written::Last(bytes) if bytes > 0 => {
            Some(ByteRange { first: length.saturating_sub(bytes), last: end })
        }
        _ => None,
    }
}

/// `bytes 0-99/1234`: the part, and the length of the whole where it is said.
pub fn parse_content_range(value: &str) -> Option<(ByteRange, Option<u64>)> {
    let rest = value.trim().strip_prefix("bytes")?.trim_start();
    let (part, whole) = rest.split_once('/')?;
    let (first, last) = part.split_once('-')?;
    let exact = |text: &str| {
        let text = text.trim();
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten()
    };
    let (first, last) = (exact(first)?, exact(last)?);
    let whole = match whole.trim() {
        "*" => None,
        digits => Some(exact(digits)?),
    };
    // A length of all numbers would not fit its own type.
    let sound = first <= last && last < u64::MAX && whole.is_none_or(|whole| last < whole);
    sound.then_some((ByteRange { first, last }, whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 9110 sections 14.1.2 and 14.2, on a file of 10,000 bytes as there.
    #[test]
    fn ranges_as_the_rfc_has_them() {
        use SelectedRange::{Unsatisfiable, Whole};
        let part = |first, last| SelectedRange::Part(ByteRange { first, last });
        for (value, expected) in [
            ("bytes=0-499", part(0, 499)),
            ("bytes=500-999", part(500, 999)),
            ("bytes=-500", part(9500, 9999)),
            ("bytes=9500-", part(9500, 9999)),
            ("bytes=0-0", part(0, 0)),
            ("bytes=9999-9999", part(9999, 9999)),
            ("bytes=0-", part(0, 9999)),
            ("bytes=0-99999", part(0, 9999)),
            ("bytes=-99999", part(0, 9999)),
            ("Bytes=0-1", part(0, 1)),
            ("bytes= 0 - 1 ", part(0, 1)),
            ("bytes=,0-1,,", part(0, 1)),
            ("bytes=0-9223372036854775808", part(0, 9999)),
            ("bytes=0-18446744073709551616", part(0, 9999)),
            ("bytes=10000-", Unsatisfiable),
            ("bytes=10000-10001", Unsatisfiable),
            ("bytes=9223372036854775807-9223372036854775808", Unsatisfiable),
            ("bytes=18446744073709551616-", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=10000-,20000-", Unsatisfiable),
            // Several: all of it.
            ("bytes=0-0,-1", Whole),
            ("bytes=0-1,20000-", Whole),
            // Not understood: as if it was not there.
            ("bytes=1-0", Whole),
            ("bytes=a-b", Whole),
            ("bytes=-", Whole),
            ("bytes=", Whole),
            ("bytes=1", Whole),
            ("bytes=+1-2", Whole),
            ("bytes=--1", Whole),
            ("bytes=1-2-3", Whole),
            ("bytes", Whole),
            ("lines=0-1", Whole),
            ("", Whole),
        ] {
            assert_eq!(selected(value, 10_000), expected, "{value}");
        }
    }

    #[test]
    fn an_empty_file_has_no_part() {
        assert_eq!(selected("bytes=0-", 0), SelectedRange::Unsatisfiable);
        assert_eq!(selected("bytes=-0", 0), SelectedRange::Unsatisfiable);
        assert_eq!(selected("bytes=-1", 0), SelectedRange::Whole);
    }

    #[test]
    fn a_part_that_a_server_names_is_read_or_refused() {
        let range = |first, last| ByteRange { first, last };
        assert_eq!(parse_content_range("bytes 0-99/1234"), Some((range(0, 99), Some(1234))));
        assert_eq!(parse_content_range("bytes 5-5/*"), Some((range(5, 5), None)));
        let all = "|bytes|bytes */1234|bytes 2-1/3|bytes 0-3/3|bytes -1/3|bytes 1-/3\
            |bytes 0-18446744073709551615/*|bytes 0-18446744073709551616/*|lines 0-1/2\
            |bytes 0-1|bytes +0-1/2";
        for wrong in all.split('|') {
            assert_eq!(parse_content_range(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_asked_lies_within_the_file(value in "bytes=[0-9,\\- ]{0,50}", length in any::<u64>()) {
            if let SelectedRange::Part(range) = selected(&value, length) {
                prop_assert!(range.first <= range.last && range.last < length);
                prop_assert!(range.length() >= 1 && range.length() <= length);
            }
        }

        #[test]
        fn a_whole_range_is_what_was_asked(first in 0u64..1 << 40, more in 0u64..1 << 40, length in 1u64..1 << 41) {
            let answer = selected(&format!("bytes={first}-{}", first + more), length);
            let expected = match first < length {
                true => SelectedRange::Part(ByteRange { first, last: (first + more).min(length - 1) }),
                false => SelectedRange::Unsatisfiable,
            };
            prop_assert_eq!(answer, expected);
        }

        #[test]
        fn any_content_range_is_sound_or_refused(value in "(bytes )?[0-9*/\\- ]{0,60}") {
            if let Some((range, whole)) = parse_content_range(&value) {
                prop_assert!(range.length() > 0 && whole.is_none_or(|whole| range.last < whole));
            }
        }
    }
}
