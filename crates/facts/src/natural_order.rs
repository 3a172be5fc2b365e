//! Names in the order of people.

use std::cmp::Ordering;

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
