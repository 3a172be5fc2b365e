//! Whether a text that somebody shows is the secret one, told in a time that says nothing of it.

use crate::agent::{SECRET_BYTES, same};
use sha2::{Digest, Sha256};

/// Compared as digests, so that any length can be.
pub fn same_text(left: &str, right: &str) -> bool {
    let told = |text: &str| -> [u8; SECRET_BYTES] { Sha256::digest(text).into() };
    same(&told(left), &told(right))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_is_the_same() {
        assert!(same_text("", "") && same_text("a secret", "a secret"));
        for other in ["", "a secre", "a secret ", "A secret", "b secret"] {
            assert!(!same_text("a secret", other), "{other:?}");
        }
    }
}
