//! The token that a client has to show: `Authorization: Bearer TOKEN` (RFC 6750).

use super::key::Key;
use super::secret::{SECRET_BYTES, random, same, to_hex};
use linerate_facts::failure::Failure;
use linerate_facts::secret_file::{SecretFileError, read_secret_file};
use std::io;
use std::path::Path;

/// The least and the most letters of a token.
const LETTERS: std::ops::RangeInclusive<usize> = 16..=512;

/// Nothing longer is read.
const MOST_FILE_BYTES: u64 = 4096;

/// A secret text; it never shows itself.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(String);

impl std::fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BearerToken")
    }
}

impl BearerToken {
    /// The first line of a file that is for its owner alone.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let remedy = format!("make one with: (umask 77; openssl rand -hex 32 >{shown})");
        let bytes = read_secret_file(path, MOST_FILE_BYTES).map_err(|error| {
            Failure::Lacks(match error {
                SecretFileError::Unreadable(error) => format!("--token-file {shown}: {error}; {remedy}"),
                error => format!("--token-file {shown}: {error}"),
            })
        })?;
        // What is no text has no line of such letters either.
        let text = String::from_utf8_lossy(&bytes);
        let token = text.lines().next().unwrap_or_default().trim();
        BearerToken::parse(token).ok_or_else(|| {
            Failure::Lacks(format!(
                "--token-file {shown}: its first line must be {} to {} characters without spaces; {remedy}",
                LETTERS.start(),
                LETTERS.end()
            ))
        })
    }

    /// The digits of a key.
    pub fn of(key: &Key) -> Self {
        BearerToken(key.to_hex())
    }

    /// One that nobody can guess.
    pub fn random() -> io::Result<Self> {
        Ok(BearerToken(to_hex(&random::<SECRET_BYTES>()?)))
    }

    /// As another process of ours has it; none: it is not a token.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = LETTERS.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| BearerToken(text.into()))
    }

    /// For another process of ours.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// As a header line has it.
    pub fn header(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.0)
    }

    /// Whether an `Authorization` line shows it.
    pub fn is_shown_by(&self, value: Option<&str>) -> bool {
        let shown = value.and_then(|value| value.split_once(' '));
        shown.is_some_and(|(scheme, token)| scheme.eq_ignore_ascii_case("bearer") && self.is(token.trim()))
    }

    /// Whether this text is it.
    pub fn is(&self, text: &str) -> bool {
        same(text.as_bytes(), self.0.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_opens() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "0123456789abcdef \nmore\n").expect("written");
        let token = BearerToken::read(file.path()).expect("a token");
        assert!(token.is_shown_by(Some("Bearer 0123456789abcdef")));
        assert!(token.is_shown_by(Some("bearer  0123456789abcdef")));
        for wrong in ["Bearer 0123456789abcde", "Basic 0123456789abcdef", "0123456789abcdef", "Bearer", ""] {
            assert!(!token.is_shown_by(Some(wrong)), "{wrong}");
        }
        assert!(!token.is_shown_by(None));
        assert_eq!(format!("{token:?}"), "BearerToken");
        for wrong in ["", "short", "0123456789 abcdef0", "0123456789abcdef\u{7f}"] {
            std::fs::write(file.path(), wrong).expect("written");
            assert_eq!(BearerToken::read(file.path()).expect_err(wrong).exit_status(), 3, "{wrong}");
        }
        assert_eq!(BearerToken::read(Path::new("/nonexistent")).expect_err("absent").exit_status(), 3);
    }

    #[test]
    fn a_token_that_others_may_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "0123456789abcdef\n").expect("written");
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644)).expect("a mode");
        let refused = BearerToken::read(file.path()).expect_err("refused");
        assert_eq!(refused.exit_status(), 3);
        let (said, path) = (refused.to_string(), file.path().display());
        assert!(said.starts_with("--token-file ") && said.contains(&format!("chmod 600 {path}")), "{said}");
    }
}
