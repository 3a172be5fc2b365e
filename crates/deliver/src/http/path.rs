//! Paths of a URL: percent-decoded once, into names of files that lead nowhere else.

use thiserror::Error;

/// The longest way down.
pub const MOST_SEGMENTS: usize = 256;

/// A path that names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    #[error("a path begins with “/”")]
    NoSlash,
    #[error("a “%” is followed by two hexadecimal digits")]
    Percent,
    #[error("“.” and “..” are not names")]
    Dots,
    #[error("no name holds a zero byte or a “/”")]
    NoName,
    #[error("the path is deeper than {MOST_SEGMENTS} folders")]
    TooDeep,
}

/// The names on the way, and whether the path ends with a slash. What follows `?` or `#` is no part of it.
pub fn segments(target: &str) -> Result<(Vec<Vec<u8>>, bool), PathError> {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let rest = path.strip_prefix('/').ok_or(PathError::NoSlash)?;
    let is_folder = rest.is_empty() || rest.ends_with('/');
    let mut names = Vec::new();
    for segment in rest.split('/').filter(|segment| !segment.is_empty()) {
        names.push(name(segment)?);
        if names.len() > MOST_SEGMENTS {
            return Err(PathError::TooDeep);
        }
    }
    Ok((names, is_folder))
}

/// One name, decoded: never `.` or `..`, without a slash.
pub fn name(segment: &str) -> Result<Vec<u8>, PathError> {
    let decoded = decoded(segment)?;
    if decoded == b"." || decoded == b".." {
        return Err(PathError::Dots);
    }
    if decoded.is_empty() || decoded.iter().any(|byte| matches!(byte, 0 | b'/')) {
        return Err(PathError::NoName);
    }
    Ok(decoded)
}

/// Percent-decoded once, whatever it holds then.
pub(crate) fn decoded(segment: &str) -> Result<Vec<u8>, PathError> {
    let mut bytes = segment.bytes();
    let mut out = Vec::with_capacity(segment.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || (bytes.next()? as char).to_digit(16);
        let (high, low) = (digit().ok_or(PathError::Percent)?, digit().ok_or(PathError::Percent)?);
        out.push((high * 16 + low) as u8);
    }
    Ok(out)
}

/// One name as a URL has it.
pub fn encoded(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name {
        match byte {
            // RFC 3986 section 2.3.
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte as char),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// `/a/b` of names.
pub fn joined(names: &[Vec<u8>]) -> String {
    names.iter().map(|name| format!("/{}", encoded(name))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_decoded_once() {
        let of = |target| segments(target).map(|(names, is_folder)| (names.concat(), names.len(), is_folder));
        assert_eq!(of("/"), Ok((vec![], 0, true)));
        assert_eq!(of("/a%20b/c?d=/e#f"), Ok((b"a bc".to_vec(), 2, false)));
        assert_eq!(of("//a///b/"), Ok((b"ab".to_vec(), 2, true)));
        assert_eq!(of("/%252e%252e"), Ok((b"%2e%2e".to_vec(), 1, false)));
        assert_eq!(of("/%FF%fe"), Ok((vec![0xff, 0xfe], 1, false)));
        assert_eq!(of("/..."), Ok((b"...".to_vec(), 1, false)));
    }

    #[test]
    fn ways_out_are_refused() {
        for target in ["/..", "/../etc/passwd", "/a/../../b", "/%2e%2e/x", "/.%2E", "/a/%2e", "/."] {
            assert_eq!(segments(target), Err(PathError::Dots), "{target}");
        }
        for target in ["/a%00b", "/a%2fb", "/%2Fetc%2Fpasswd", "/..%2f..%2fetc"] {
            assert_eq!(segments(target), Err(PathError::NoName), "{target}");
        }
        for target in ["/%", "/%1", "/%zz", "/a%+1"] {
            assert_eq!(segments(target), Err(PathError::Percent), "{target}");
        }
        for target in ["", "a", "*", "etc/passwd", "?x"] {
            assert_eq!(segments(target), Err(PathError::NoSlash), "{target}");
        }
        assert_eq!(segments(&"/a".repeat(MOST_SEGMENTS + 1)), Err(PathError::TooDeep));
    }

    proptest! {
        #[test]
        fn any_name_goes_there_and_back(bytes in proptest::collection::vec(1u8.., 1..40)) {
            prop_assume!(!bytes.contains(&b'/') && bytes != b"." && bytes != b"..");
            let target = joined(&[bytes.clone(), bytes.clone()]);
            prop_assert_eq!(segments(&target), Ok((vec![bytes.clone(), bytes], false)));
        }

        #[test]
        fn no_path_leads_up(target in "/[a./%2eEfF0-9\\\\]{0,30}") {
            for name in segments(&target).map(|(names, _)| names).unwrap_or_default() {
                prop_assert!(name != b".." && name != b"." && !name.contains(&b'/') && !name.contains(&0));
            }
        }
    }
}
