//! Times as HTTP writes them (RFC 9110 section 5.6.7): seconds since 1970, UTC.

use std::time::{Duration, UNIX_EPOCH};

/// The last second of the year 9999: later times have no four digits.
const LAST: u64 = 253_402_300_799;

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn show_date(seconds: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds.min(LAST)))
}

/// One of the three forms; none where it is no time since 1970.
pub fn parse_date(text: &str) -> Option<u64> {
    let time = httpdate::parse_http_date(text).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_three_forms_are_one_time() {
        let time = 784_111_777;
        assert_eq!(show_date(time), "Sun, 06 Nov 1994 08:49:37 GMT");
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse_date(text), Some(time), "{text}");
        }
        assert_eq!(show_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(show_date(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for wrong in [
            "",
            "0",
            "-1",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse_date(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_time_is_read_as_it_was_written(seconds in 0..=LAST) {
            prop_assert_eq!(parse_date(&show_date(seconds)), Some(seconds));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = parse_date(&text);
        }
    }
}
