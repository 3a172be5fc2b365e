//! What header lines say of a file's content. Conditions: whether a request is to be answered with the file, by what the
//! client has of it already (RFC 9110 section 13), and times as HTTP writes them (section 5.6.7): seconds since 1970,
//! UTC. `Repr-Digest` and `Content-Digest` (RFC 9530): the SHA-256 of a file that a client puts.

use super::head::HeaderLines;
use std::time::{Duration, UNIX_EPOCH};

/// The last second of the year 9999: later times have no four digits.
const LAST_DATE_SECONDS: u64 = 253_402_300_799;

/// Digits of base64.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What tells one content of a file from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validators {
    /// With its quotes; strong.
    pub entity_tag: String,
    /// Seconds since 1970.
    pub modified: u64,
}

/// What the conditions of a request say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    Holds,
    /// 304.
    NotModified,
    /// 412.
    Failed,
}

/// In the order of section 13.2.2; for GET and HEAD.
pub fn precondition(headers: &HeaderLines, file: &Validators) -> Precondition {
    let tags = |name| {
        let lines: Vec<&[u8]> = headers.all(name).collect();
        (!lines.is_empty()).then(|| entity_tags(&lines))
    };
    let date = |name| headers.text(name).and_then(parse_date);
    if let Some(tags) = tags("if-match") {
        if !tags.iter().any(|tag| tag == "*" || *tag == file.entity_tag) {
            return Precondition::Failed;
        }
    } else if date("if-unmodified-since").is_some_and(|date| file.modified > date) {
        return Precondition::Failed;
    }
    if let Some(tags) = tags("if-none-match") {
        // The weak comparison: a prefix of W/ says nothing.
        let same = |tag: &String| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == file.entity_tag;
        if tags.iter().any(same) {
            return Precondition::NotModified;
        }
    } else if date("if-modified-since").is_some_and(|date| file.modified <= date) {
        return Precondition::NotModified;
    }
    Precondition::Holds
}

/// Whether a range may be sent in spite of `If-Range`: only where the client has the same content. A time is
/// as good as a tag only where it is a second old (section 8.8.2.2).
pub fn range_applies(if_range: Option<&str>, file: &Validators, now: u64) -> bool {
    match if_range {
        None => true,
        Some(text) if text.contains('"') => text == file.entity_tag,
        Some(text) => parse_date(text) == Some(file.modified) && file.modified < now,
    }
}

/// The tags of all lines; a comma within the quotes is a part of its tag.
fn entity_tags(lines: &[&[u8]]) -> Vec<String> {
    let mut tags = Vec::new();
    for line in lines {
        let text = String::from_utf8_lossy(line);
        let mut rest = text.as_ref();
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if rest.is_empty() {
                break;
            }
            let quote = rest.find('"').filter(|quote| rest[..*quote].trim_end_matches("W/").is_empty());
            let end = match quote.and_then(|quote| rest[quote + 1..].find('"').map(|end| quote + end + 2)) {
                Some(end) => end,
                None => rest.find(',').unwrap_or(rest.len()),
            };
            tags.push(rest[..end].trim().to_string());
            rest = &rest[end..];
        }
    }
    tags
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn show_date(seconds: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds.min(LAST_DATE_SECONDS)))
}

/// One of the three forms; none where it is not a time since 1970.
pub fn parse_date(text: &str) -> Option<u64> {
    let time = httpdate::parse_http_date(text).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

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

    const MODIFIED: u64 = 784_111_777;

    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn file() -> Validators {
        Validators { entity_tag: "\"a,b\"".into(), modified: MODIFIED }
    }

    fn headers(lines: &str) -> HeaderLines {
        let text = format!("GET / HTTP/1.1\r\n{lines}\r\n");
        parse_request(text.as_bytes()).expect("HTTP").expect("whole").0.headers
    }

    /// A table of RFC 9110 sections 13.1 and 13.2.2.
    #[test]
    fn conditions_as_the_rfc_has_them() {
        use Precondition::{Failed, Holds, NotModified};
        for (lines, expected) in [
            (String::new(), Holds),
            ("If-Match: \"a,b\"\r\n".into(), Holds),
            ("If-Match: *\r\n".into(), Holds),
            ("If-Match: \"x\", \"a,b\"\r\n".into(), Holds),
            ("If-Match: \"x\"\r\nIf-Match: \"a,b\"\r\n".into(), Holds),
            ("If-Match: \"x\"\r\n".into(), Failed),
            // Strong comparison: a weak tag is not a match.
            ("If-Match: W/\"a,b\"\r\n".into(), Failed),
            (format!("If-Unmodified-Since: {SAME}\r\n"), Holds),
            (format!("If-Unmodified-Since: {BEFORE}\r\n"), Failed),
            ("If-Unmodified-Since: yesterday\r\n".into(), Holds),
            // If-Match decides alone.
            (format!("If-Match: \"a,b\"\r\nIf-Unmodified-Since: {BEFORE}\r\n"), Holds),
            ("If-None-Match: \"a,b\"\r\n".into(), NotModified),
            ("If-None-Match: W/\"a,b\"\r\n".into(), NotModified),
            ("If-None-Match: *\r\n".into(), NotModified),
            ("If-None-Match: \"a\", \"b\"\r\n".into(), Holds),
            (format!("If-Modified-Since: {SAME}\r\n"), NotModified),
            (format!("If-Modified-Since: {AFTER}\r\n"), NotModified),
            (format!("If-Modified-Since: {BEFORE}\r\n"), Holds),
            ("If-Modified-Since: 5\r\n".into(), Holds),
            // If-None-Match decides alone.
            (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {SAME}\r\n"), Holds),
            (format!("If-None-Match: \"a,b\"\r\nIf-Modified-Since: {BEFORE}\r\n"), NotModified),
            // What fails first counts.
            ("If-Match: \"x\"\r\nIf-None-Match: \"a,b\"\r\n".into(), Failed),
        ] {
            assert_eq!(precondition(&headers(&lines), &file()), expected, "{lines}");
        }
    }

    #[test]
    fn a_range_is_sent_only_of_the_content_that_the_client_has() {
        let applies = |if_range| range_applies(if_range, &file(), MODIFIED + 10);
        assert!(applies(None) && applies(Some("\"a,b\"")) && applies(Some(SAME)));
        for other in ["\"a\"", "W/\"a,b\"", AFTER, BEFORE, "x", ""] {
            assert!(!applies(Some(other)), "{other}");
        }
        // Written within this second: what comes after it may look the same.
        assert!(!range_applies(Some(SAME), &file(), MODIFIED));
    }

    proptest! {
        #[test]
        fn any_tags_are_read(text in "[W/\", a*]{0,30}") {
            prop_assert!(entity_tags(&[text.as_bytes()]).iter().all(|tag| !tag.is_empty()));
        }
    }

    #[test]
    fn the_three_forms_are_one_time() {
        let time = 784_111_777;
        assert_eq!(show_date(time), "Sun, 06 Nov 1994 08:49:37 GMT");
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse_date(text), Some(time), "{text}");
        }
        assert_eq!(show_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(show_date(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        let all = "|0|-1|Sun, 06 Nov 1994 08:49:37|Sun, 31 Feb 1994 08:49:37 GMT\
            |Sun, 06 Nov 1969 08:49:37 GMT|Sun, 06 Nov 1994 24:00:00 GMT\
            |Sun, 06 Nov 1994 08:49 GMT|Sun, 6 Nov 1994 08:49:37 GMT\
            |Sun, 06 nov 1994 08:49:37 GMT|Sun, +6 Nov 1994 08:49:37 GMT\
            |Sun, 00 Nov 1994 08:49:37 GMT";
        for wrong in all.split('|') {
            assert_eq!(parse_date(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn a_time_is_read_as_it_was_written(seconds in 0..=LAST_DATE_SECONDS) {
            prop_assert_eq!(parse_date(&show_date(seconds)), Some(seconds));
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = parse_date(&text);
        }
    }

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
