//! Keys as names of files: a key may be any text, a name leads nowhere else.

use crate::get::local_name::refused_name;
use std::path::PathBuf;

/// The deepest folder of a key.
const MOST_DEPTH: usize = 64;

/// The way of a key below a folder, and whether it is a folder itself (it ends with a slash); or why there is none.
pub fn file_below(key: &str) -> Result<(PathBuf, bool), &'static str> {
    let (names, is_folder) = key.strip_suffix('/').map_or((key, false), |rest| (rest, true));
    let mut path = PathBuf::new();
    for (depth, name) in names.split('/').enumerate() {
        path.push(file_name(name)?);
        if depth >= MOST_DEPTH {
            return Err("it is too deep");
        }
    }
    Ok((path, is_folder))
}

/// One name.
pub(super) fn file_name(name: &str) -> Result<&str, &'static str> {
    refused_name(name.as_bytes()).map_or(Ok(name), Err)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Component, Path};

    #[test]
    fn keys_that_lead_elsewhere_are_no_names() {
        for key in
            ["..", "../a", "/a", "//a", "a//b", "a/../b", "a/./b", "", "/", "a\0b", "a//", ".a.linerate-part"]
        {
            assert!(file_below(key).is_err(), "{key:?}");
        }
        assert!(file_below(&"x".repeat(256)).is_err() && file_below(&"a/".repeat(99)).is_err());
        assert_eq!(file_below("a/b c/…"), Ok((Path::new("a/b c/…").into(), false)));
        assert_eq!(file_below("a/b/"), Ok((Path::new("a/b").into(), true)));
        assert_eq!(file_below("..."), Ok((Path::new("...").into(), false)));
    }

    proptest! {
        #[test]
        fn no_key_leads_out(key in "([./\\\\]|\\.\\.|\u{0}|[a-c]|\\PC){0,20}") {
            if let Ok((path, _)) = file_below(&key) {
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert!(path.components().count() > 0);
            }
        }
    }
}
