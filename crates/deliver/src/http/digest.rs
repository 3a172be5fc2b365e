//! `Repr-Digest` and `Content-Digest` (RFC 9530): the SHA-256 of a file that a client puts.

use super::head::HeaderLines;

/// Of base64.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The 32 bytes that a file has to have as its SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedDigest(pub [u8; 32]);

/// Why a digest cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The digest is not sha-256=:BASE64:, or two of them differ")]
pub struct DigestError;

/// That of a request, if it has one of SHA-256; other algorithms are left aside, as the RFC has it. Two that
/// differ are none.
pub fn wanted_digest(headers: &HeaderLines) -> Result<Option<WantedDigest>, DigestError> {
    let mut found: Option<WantedDigest> = None;
    for name in ["repr-digest", "content-digest"] {
        for line in headers.all(name) {
            let line = std::str::from_utf8(line).map_err(|_| DigestError)?;
            for (algorithm, value) in line.split(',').filter_map(|member| member.split_once('=')) {
                if !algorithm.trim().eq_ignore_ascii_case("sha-256") {
                    continue;
                }
                let own = parse_bytes(value).ok_or(DigestError)?;
                if found.is_some_and(|other| other != own) {
                    return Err(DigestError);
                }
                found = Some(own);
            }
        }
    }
    Ok(found)
}

/// `sha-256=:BASE64:`.
pub fn show_digest(sha256: &[u8; 32]) -> String {
    format!("sha-256=:{}:", base64(sha256))
}

/// `:BASE64:`, a byte sequence of RFC 8941.
fn parse_bytes(value: &str) -> Option<WantedDigest> {
    let text = value.trim().strip_prefix(':')?.strip_suffix(':')?;
    from_base64(text, 32)?.try_into().ok().map(WantedDigest)
}

/// The bytes that a text of base64 stands for, at most so many.
pub(crate) fn from_base64(text: &str, most_bytes: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(most_bytes + 1);
    let (mut bits, mut count) = (0u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let six = LETTERS.iter().position(|own| *own == letter)? as u32;
        (bits, count) = (bits << 6 | six, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
        if bytes.len() > most_bytes {
            return None;
        }
    }
    // What is left of the last letter is nothing.
    (bits == 0).then_some(bytes)
}

/// Base64 of RFC 4648, section 4.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            match place <= three.len() {
                true => text.push(LETTERS[(bits >> (18 - 6 * place) & 63) as usize] as char),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::head::parse_request;
    use super::*;
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    fn of(lines: &str) -> Result<Option<WantedDigest>, DigestError> {
        let text = format!("PUT / HTTP/1.1\r\n{lines}\r\n");
        wanted_digest(&parse_request(text.as_bytes()).expect("HTTP").expect("whole").0.headers)
    }

    /// The example of RFC 9530, appendix A: `{"title": "hello"}` … of section B.1, `{"hello": "world"}` and a
    /// newline.
    #[test]
    fn digests_are_those_of_the_rfc() {
        let own: [u8; 32] = Sha256::digest(b"{\"hello\": \"world\"}\n").into();
        let text = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";
        assert_eq!(show_digest(&own), text);
        assert_eq!(of(&format!("Repr-Digest: {text}\r\n")), Ok(Some(WantedDigest(own))));
        assert_eq!(of(&format!("Content-Digest: sha-512=:AA==:, {text}\r\n")), Ok(Some(WantedDigest(own))));
        assert_eq!(of("Repr-Digest: md5=:AA==:\r\n"), Ok(None));
        assert_eq!(of(""), Ok(None));
        let other = show_digest(&[7; 32]);
        for wrong in ["sha-256=:AA==:", "sha-256=AA", "sha-256=", "sha-256=:*:", &format!("{text}, {other}")]
        {
            assert_eq!(of(&format!("Repr-Digest: {wrong}\r\n")), Err(DigestError), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_digest_goes_there_and_back(sha256: [u8; 32]) {
            prop_assert_eq!(of(&format!("Repr-Digest: {}\r\n", show_digest(&sha256))), Ok(Some(WantedDigest(sha256))));
        }

        #[test]
        fn any_line_is_read_or_refused(line in "[ -~]{0,90}") {
            let _ = of(&format!("Repr-Digest: sha-256={line}\r\n"));
        }
    }
}
