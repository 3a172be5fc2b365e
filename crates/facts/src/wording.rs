//! Counts and lists in words, and names in the order of people.

use std::cmp::Ordering;

/// `1 core`, `2 cores`.
pub fn counted(count: impl TryInto<u64>, thing: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}

/// A share as `97 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// With a capital at its head.
pub fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A count with its thousands apart: `212,992`.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 core`, `1.5 cores`.
pub fn cores(count: f64) -> String {
    if count == 1.0 { "1 core".into() } else { format!("{count} cores") }
}

/// `a, b and c`; more than `most` are counted.
pub fn listed(names: &[&str], most: usize) -> String {
    match names {
        [] => String::new(),
        [one] => one.to_string(),
        _ if names.len() > most => format!("{} and {} more", names[..most].join(", "), names.len() - most),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `a, b, c`; of more than `most` the last ones are counted: `a, b and 7 more`.
pub fn first_of<T: AsRef<str>>(names: &[T], most: usize) -> String {
    let shown = if names.len() <= most { names.len() } else { most.saturating_sub(1) };
    let list = names[..shown].iter().map(T::as_ref).collect::<Vec<&str>>().join(", ");
    if shown == names.len() { list } else { format!("{list} and {} more", names.len() - shown) }
}

/// A length of time to the unit that a person waits in: `40 seconds`, `19 hours`, `3 days`.
pub fn time(seconds: f64) -> String {
    let units = [(86_400.0, 3.0, "day"), (3600.0, 2.0, "hour"), (60.0, 2.0, "minute")];
    let fits = units.into_iter().find(|(unit, least, _)| seconds >= unit * least);
    let (unit, _, word) = fits.unwrap_or((1.0, 0.0, "second"));
    counted((seconds / unit).round() as u64, word)
}

/// Device names as people order them: `eth2` before `eth10`.
pub fn in_order(a: &str, b: &str) -> Ordering {
    let key = |name: &str| {
        let letters = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
        let digits =
            name[letters..].find(|c: char| !c.is_ascii_digit()).map_or(name.len(), |at| letters + at);
        (
            name[..letters].to_string(),
            name[letters..digits].parse::<u64>().unwrap_or(0),
            name[digits..].to_string(),
        )
    };
    let ((a_letters, a_number, a_rest), (b_letters, b_number, b_rest)) = (key(a), key(b));
    let first = a_letters.cmp(&b_letters).then(a_number.cmp(&b_number));
    if first != Ordering::Equal {
        return first;
    }
    // Both rests are shorter, or both are empty: the comparison ends.
    match (a_rest.is_empty(), b_rest.is_empty()) {
        (false, false) => in_order(&a_rest, &b_rest).then_with(|| a.cmp(b)),
        _ => a_rest.cmp(&b_rest).then_with(|| a.cmp(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_have_the_unit_that_a_person_waits_in() {
        let texts = [1.0, 119.0, 120.0, 7199.0, 7200.0, 69_000.0, 259_200.0].map(time);
        let expected =
            ["1 second", "119 seconds", "2 minutes", "120 minutes", "2 hours", "19 hours", "3 days"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn counts_and_lists_as_people_say_them() {
        assert_eq!([0, 1, 2].map(|count: u32| counted(count, "core")), ["0 cores", "1 core", "2 cores"]);
        assert_eq!([0.5, 1.0, 2.0].map(cores), ["0.5 cores", "1 core", "2 cores"]);
        assert_eq!(listed(&["a", "b", "c"], 3), "a, b and c");
        assert_eq!(listed(&["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!((listed(&["a"], 1).as_str(), listed(&[], 1).as_str()), ("a", ""));
        assert_eq!(first_of(&["a", "b", "c"], 3), "a, b, c");
        assert_eq!(first_of(&["a", "b", "c", "d"], 3), "a, b and 2 more");
    }

    #[test]
    fn names_in_the_order_of_people() {
        let mut names = ["eth10", "eth2", "nvme0n1p10", "lo", "nvme0n1p2", "nvme0n1", "eth02"];
        names.sort_by(|a, b| in_order(a, b));
        assert_eq!(names, ["eth02", "eth2", "eth10", "lo", "nvme0n1", "nvme0n1p2", "nvme0n1p10"]);
    }

    proptest! {
        #[test]
        fn any_names_have_an_order(names in proptest::collection::vec("[a-c0-9é]{0,8}", 0..30)) {
            let mut sorted = names.clone();
            sorted.sort_by(|a, b| in_order(a, b));
            for pair in sorted.windows(2) {
                prop_assert!(in_order(&pair[0], &pair[1]) != Ordering::Greater);
            }
        }
    }
}
