//! The names of all findings, so that a rule that names one is known to be right before anything is measured.

const IDS: &str = include_str!("ids.txt");

/// The finding of this name.
pub fn finding_id(name: &str) -> Option<&'static str> {
    IDS.lines().find(|id| *id == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn they_are_those_of_the_documents() {
        let text = include_str!("../../../../../docs/run-json.md");
        let (_, list) = text.split_once("**findings** so far").expect("the list");
        let (list, _) = list.split_once("\n\n").expect("its end");
        let documented: BTreeSet<&str> =
            list.split('`').filter_map(|word| word.strip_prefix('"')?.strip_suffix('"')).collect();
        assert_eq!(IDS.lines().collect::<BTreeSet<_>>(), documented);
        assert_eq!((finding_id("nic-speed"), finding_id("nic")), (Some("nic-speed"), None));
    }
}
