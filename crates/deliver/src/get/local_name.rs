//! Names that servers give to files of this host, in a list, a URL or a key: one name in one folder, and none of those
//! that linerate has for its own unfinished work.

/// What a part of a file and its journal are called behind the file's name.
pub(super) const PART: &str = ".linerate-part";
pub(super) const JOURNAL: &str = ".linerate-journal";
/// The longest name of a file.
const MOST_NAME_BYTES: usize = 255;

/// Why a file here cannot have this name; none: it can.
pub(crate) fn refused_name(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("a part of it between slashes is empty"),
        b"." | b".." => Some("“.” and “..” are not names"),
        name if name.contains(&0) => Some("it has a zero byte"),
        name if name.contains(&b'/') => Some("it has a slash"),
        name if name.len() > MOST_NAME_BYTES => Some("a part of it is longer than a file's name"),
        // The next `get` into this folder would go on with it.
        name if is_unfinished(name) => Some("linerate's own unfinished files are called so"),
        _ => None,
    }
}

/// The name of a part or of its journal, compared without case: some file systems fold it. Nobody lists or serves it, and
/// no server can have one made.
pub fn is_unfinished(name: &[u8]) -> bool {
    let ends_with = |end: &str| {
        let start = name.len().checked_sub(end.len());
        start.is_some_and(|start| name[start..].eq_ignore_ascii_case(end.as_bytes()))
    };
    name.starts_with(b".") && (ends_with(PART) || ends_with(JOURNAL))
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
