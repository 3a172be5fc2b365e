//! Names that servers give to files of this host, in a list, a URL or a key: one name in one folder, and none of those
//! that linerate has for its own unfinished work.

use super::part::is_unfinished;

/// The longest name of a file.
const MOST_NAME_BYTES: usize = 255;

/// Why a file here cannot have this name; none: it can.
pub(crate) fn refused_name(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("a part of it between slashes is empty"),
        b"." | b".." => Some("“.” and “..” are no names"),
        name if name.contains(&0) => Some("it has a zero byte"),
        name if name.contains(&b'/') => Some("it has a slash"),
        name if name.len() > MOST_NAME_BYTES => Some("a part of it is longer than a file's name"),
        // The next `get` into this folder would go on with it.
        name if is_unfinished(name) => Some("linerate's own unfinished files are called so"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_or_are_our_own_are_refused() {
        for name in
            ["", ".", "..", "a\0b", "a/b", &"x".repeat(256), ".a.linerate-part", ".A.Linerate-JOURNAL"]
        {
            assert!(refused_name(name.as_bytes()).is_some(), "{name:?}");
        }
        for name in ["...", ".bashrc", "a.linerate-part", &"x".repeat(255), "\u{ff}", "a b"] {
            assert_eq!(refused_name(name.as_bytes()), None, "{name:?}");
        }
    }
}
