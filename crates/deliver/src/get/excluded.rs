//! Names that are left out: patterns in which `*` is any part of a name.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

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

/// `*` is any number of bytes that are no slash. It takes at most the product of both lengths.
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
