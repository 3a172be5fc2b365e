//! Times as HTTP writes them (RFC 9110 section 5.6.7): seconds since 1970, UTC.

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const DAY: u64 = 86_400;
/// The last second of the year 9999: later times have no four digits.
const LAST: u64 = 253_402_300_799;

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn show_date(seconds: u64) -> String {
    let seconds = seconds.min(LAST);
    let (days, of_day) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = civil(days);
    format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        DAYS[(days % 7) as usize],
        MONTHS[(month - 1) as usize],
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

/// One of the three forms; none where it is no time since 1970.
pub fn parse_date(text: &str) -> Option<u64> {
    let text = text.trim();
    let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    match words[..] {
        // Sun, 06 Nov 1994 08:49:37 GMT
        [_, day, month, year, time, "GMT"] => since_1970(number(year, 4)?, month, number(day, 2)?, time),
        // Sunday, 06-Nov-94 08:49:37 GMT
        [_, date, time, "GMT"] => {
            let parts: Vec<&str> = date.split('-').collect();
            let [day, month, year] = parts[..] else { return None };
            let year = number(year, 2)?;
            let year = if year < 70 { 2000 + year } else { 1900 + year };
            since_1970(year, month, number(day, 2)?, time)
        }
        // Sun Nov  6 08:49:37 1994
        [_, month, day, time, year] => {
            let day = number(day, day.len().clamp(1, 2))?;
            since_1970(number(year, 4)?, month, day, time)
        }
        _ => None,
    }
}

fn number(text: &str, digits: usize) -> Option<u64> {
    let sound = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    sound.then(|| text.parse().ok()).flatten()
}

fn since_1970(year: u64, month: &str, day: u64, time: &str) -> Option<u64> {
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let parts: Vec<&str> = time.split(':').collect();
    let [hour, minute, second] = parts[..] else { return None };
    let (hour, minute, second) = (number(hour, 2)?, number(minute, 2)?, number(second, 2)?);
    // A leap second is the one before it.
    let second = if second == 60 { 59 } else { second };
    if hour > 23 || minute > 59 || second > 59 || year < 1970 {
        return None;
    }
    let days = days_since_1970(year, month, day)?;
    Some(days * DAY + hour * 3600 + minute * 60 + second)
}

/// By the calendar's 400 years, from a March (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// The same backwards; none where there is no such day.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    let shifted_year = year - u64::from(month <= 2);
    let (era, of_era) = (shifted_year / 400, shifted_year % 400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted + 2) / 5 + day.checked_sub(1)?;
    let days = (era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year).checked_sub(719_468)?;
    (civil(days) == (year, month, day)).then_some(days)
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
