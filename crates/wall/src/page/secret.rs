//! The page's secret: derived from the key one way, and shown to be known without being sent.
//!
//! HMAC-SHA256 (RFC 2104, FIPS 180-4) because a page must compute it too: browsers offer their own only over
//! HTTPS and to this host, so the page brings a small one.

use hmac::{Hmac, KeyInit, Mac};
use linerate_transport::agent::{Key, SECRET_BYTES, same, to_hex};
use sha2::Sha256;

/// What the key is used for here: no other use of it gives the same bytes.
const PURPOSE: &[u8] = b"linerate wall page 1";

/// What the page must know. Who has it may control the wall, but does not have the key.
pub(crate) struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// Of a key.
    pub(crate) fn of(key: &Key) -> Secret {
        Secret(hmac(key.bytes(), PURPOSE))
    }

    /// For the fragment of the page's address.
    pub(crate) fn to_hex(&self) -> String {
        to_hex(&self.0)
    }

    /// The answer to a challenge (its text) is right.
    pub(crate) fn answers(&self, challenge: &str, answer: &str) -> bool {
        let expected = hmac(to_hex(&self.0).as_bytes(), challenge.as_bytes());
        same(to_hex(&expected).as_bytes(), answer.as_bytes())
    }
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; SECRET_BYTES] {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.chain_update(message).finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_hmac_of_the_rfc() {
        // RFC 4231, test cases 1 and 2.
        assert_eq!(
            to_hex(&hmac(&[0x0b; 20], b"Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        assert_eq!(
            to_hex(&hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn only_the_right_answer_to_this_challenge_is_one() {
        let secret = Secret::of(&Key::from_hex(&"5a".repeat(32)).expect("a key"));
        let answer = to_hex(&hmac(secret.to_hex().as_bytes(), b"challenge"));
        assert!(secret.answers("challenge", &answer));
        let other = Secret::of(&Key::from_hex(&"5b".repeat(32)).expect("a key"));
        assert!(!other.answers("challenge", &answer));
        for (challenge, answer) in
            [("Challenge", answer.as_str()), ("challenge", ""), ("challenge", &answer[1..])]
        {
            assert!(!secret.answers(challenge, answer));
        }
        assert!(!secret.to_hex().contains("5a5a"), "the key is not in it");
    }
}
