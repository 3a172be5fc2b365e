//! 32 secret bytes: what keys and tokens have in common. Made by the kernel, written as hex, compared in
//! constant time.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::io;
use subtle::ConstantTimeEq;

/// Bytes in a key and in a token.
pub const SECRET_BYTES: usize = 32;

/// Bytes from the kernel's random number generator.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Lower-case hex.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Why a text is no secret in hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyTextError {
    #[error("it is not text")]
    NoText,
    #[error("{length} characters where {} hex digits are wanted", 2 * SECRET_BYTES)]
    Length { length: usize },
    #[error("not all characters are hex digits")]
    NoHex,
}

/// Reads exactly 64 hex digits; white space around them is allowed. The text is never part of the error: it
/// may be a secret.
pub(crate) fn from_hex(text: &str) -> Result<[u8; SECRET_BYTES], KeyTextError> {
    let digits = text.trim().as_bytes();
    if digits.len() != 2 * SECRET_BYTES {
        return Err(KeyTextError::Length { length: digits.len() });
    }
    let mut bytes = [0; SECRET_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let value = |digit: u8| char::from(digit).to_digit(16).ok_or(KeyTextError::NoHex);
        *byte = (value(pair[0])? * 16 + value(pair[1])?) as u8;
    }
    Ok(bytes)
}

/// Equality that takes the same time wherever the difference is, so that a guesser learns nothing from the clock.
/// Only the lengths, which are no secret, may show.
pub fn same(left: &[u8], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}

/// The right to open one data stream, once, for a short time.
#[derive(Clone)]
pub struct OneTimeToken([u8; SECRET_BYTES]);

impl OneTimeToken {
    /// A new token that nobody can guess.
    pub fn random() -> io::Result<OneTimeToken> {
        Ok(OneTimeToken(random()?))
    }

    /// The bytes that the data stream opens with.
    pub fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}

impl std::fmt::Debug for OneTimeToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Serialize for OneTimeToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&to_hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for OneTimeToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        from_hex(&text).map(OneTimeToken).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_only_where_every_byte_is() {
        let secret: [u8; 32] = random().expect("random bytes");
        assert!(same(&secret, &secret));
        for place in 0..32 {
            let mut other = secret;
            other[place] ^= 0x80;
            assert!(!same(&secret, &other), "byte {place}");
        }
        assert!(same(b"", b""));
        for other in ["", "a secre", "a secret ", "A secret", "b secret"] {
            assert!(!same(b"a secret", other.as_bytes()), "{other:?}");
        }
    }

    #[test]
    fn tokens_differ_and_do_not_show_themselves() {
        let (one, two) = (OneTimeToken::random().expect("a token"), OneTimeToken::random().expect("a token"));
        assert!(!same(one.bytes(), two.bytes()));
        assert!(!format!("{one:?}").contains(&to_hex(one.bytes())));
        let text = serde_json::to_string(&one).expect("JSON");
        let back: OneTimeToken = serde_json::from_str(&text).expect("a token");
        assert_eq!(back.bytes(), one.bytes());
    }

    proptest! {
        #[test]
        fn hex_round_trips(bytes: [u8; 32]) {
            prop_assert_eq!(from_hex(&format!(" {}\n", to_hex(&bytes))), Ok(bytes));
        }

        #[test]
        fn anything_else_is_refused_without_a_panic(text in "\\PC{0,70}") {
            if let Ok(bytes) = from_hex(&text) {
                prop_assert_eq!(to_hex(&bytes), text.trim().to_ascii_lowercase());
            }
        }
    }
}
