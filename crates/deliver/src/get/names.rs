//! Which names a fetch takes. Servers give names to files of this host, in a list, a URL or a key: one name in
//! one folder, and none of those that linerate has for its own unfinished work. What the user excludes is left
//! out by patterns in which `*` is any part of a name.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

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

/// Patterns of names.
#[derive(Clone, Debug, Default)]
pub struct ExcludedNames(pub Vec<OsString>);

impl ExcludedNames {
    /// Whether one of the patterns is of this path below the top. One without a slash is of the last name; one with a slash
    /// is of the whole path, from the top.
    pub(super) fn has(&self, path: &Path) -> bool {
        let whole = path.as_os_str().as_bytes();
        let name = path.file_name().map_or(whole, |name| name.as_bytes());
        self.0.iter().any(|pattern| {
            let pattern = pattern.as_bytes();
            match pattern.strip_suffix(b"/").unwrap_or(pattern) {
                path if path.contains(&b'/') => matches(path.strip_prefix(b"/").unwrap_or(path), whole),
                own => matches(own, name),
            }
        })
    }
}

/// `*` is any number of bytes that are not slashes. It takes at most the product of both lengths.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut own) = (0, 0);
    // Where the last `*` was, and what it took.
    let mut star = None;
    while at < text.len() {
        match pattern.get(own) {
            Some(b'*') => {
                star = Some((own, at));
                own += 1;
            }
            Some(byte) if *byte == text[at] => (own, at) = (own + 1, at + 1),
            _ => match star {
                Some((place, taken)) if text[taken] != b'/' => {
                    star = Some((place, taken + 1));
                    (own, at) = (place + 1, taken + 1);
                }
                _ => return false,
            },
        }
    }
    pattern[own..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn patterns_are_of_names_or_of_paths() {
        for (pattern, path, is_out) in [
            ("*.o", "set/a.o", true),
            ("*.o", "set/a.os", false),
            ("*.o", "set.o", true),
            (".git", "set/.git", true),
            (".git/", "set/.git", true),
            ("set/*/cache", "set/a/cache", true),
            ("set/*/cache", "set/a/b/cache", false),
            ("/set/a", "set/a", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("*", "x", true),
            ("", "x", false),
        ] {
            let names = ExcludedNames(vec![pattern.into()]);
            assert_eq!(names.has(Path::new(path)), is_out, "{pattern} {path}");
        }
        assert!(!ExcludedNames::default().has(Path::new("x")));
    }

    proptest! {
        #[test]
        fn a_text_matches_itself_and_with_any_part_as_a_star(text in "[a-c*]{0,12}", from in 0usize..12, to in 0usize..12) {
            let (from, to) = (from.min(to).min(text.len()), to.max(from).min(text.len()));
            let pattern = format!("{}*{}", &text[..from], &text[to..]);
            prop_assert!(matches(text.as_bytes(), text.as_bytes()) && matches(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
