//! Counts and lists in words.

/// `1 core`, `2 cores`.
pub fn counted(count: impl TryInto<u64>, thing: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_lists_as_people_say_them() {
        assert_eq!([0, 1, 2].map(|count: u32| counted(count, "core")), ["0 cores", "1 core", "2 cores"]);
        assert_eq!(listed(&["a", "b", "c"], 3), "a, b and c");
        assert_eq!(listed(&["a", "b", "c"], 2), "a, b and 1 more");
        assert_eq!((listed(&["a"], 1).as_str(), listed(&[], 1).as_str()), ("a", ""));
    }
}
