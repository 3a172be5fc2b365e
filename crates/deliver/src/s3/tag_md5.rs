//! The MD5 of an object that a store has as its `ETag`. Against what changes bytes by accident, not against anyone who
//! does so on purpose: MD5 is no guard against that, and the store itself says what it is.

use crate::get::error::GetError;
use crate::http::head::HeaderLines;
use crate::http::url::HttpUrl;
use linerate_transport::agent::to_hex;
use md5::{Digest, Md5};

/// Hexadecimal digits of it.
const DIGITS: usize = 32;

/// The MD5 of a whole object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TagMd5(String);

impl TagMd5 {
    /// None where the tag is no MD5: of an object that came in parts, or that a key of KMS or of the client encrypts (S3's
    /// "Object", `ETag`).
    pub(crate) fn of_lines(lines: &HeaderLines) -> Option<Self> {
        let of_kms = lines.text("x-amz-server-side-encryption").is_some_and(|by| by.starts_with("aws:"));
        if of_kms || lines.text("x-amz-server-side-encryption-customer-algorithm").is_some() {
            return None;
        }
        let tag = lines.text("etag")?.strip_prefix('"')?.strip_suffix('"')?;
        let is_md5 = tag.len() == DIGITS && tag.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_md5.then(|| TagMd5(tag.to_ascii_lowercase()))
    }

    /// The name of what was compared, or what differs.
    pub(crate) fn compared(&self, own: Md5, url: &HttpUrl) -> Result<&'static str, GetError> {
        match to_hex(&own.finalize()) {
            own if own == self.0 => Ok("md5"),
            found => Err(GetError::OtherSum {
                url: url.to_string(),
                name: "MD5 (its ETag)",
                found,
                wanted: self.0.clone(),
            }),
        }
    }

    /// The same of bytes in memory.
    pub(crate) fn checked(&self, bytes: &[u8], url: &HttpUrl) -> Result<&'static str, GetError> {
        self.compared(Md5::new_with_prefix(bytes), url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::parse_response;

    fn of(lines: &str) -> Option<TagMd5> {
        let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
        TagMd5::of_lines(&parse_response(text.as_bytes()).expect("HTTP").expect("whole").0.headers)
    }

    /// Of RFC 1321, appendix A.5.
    #[test]
    fn a_tag_of_one_part_in_the_clear_is_compared() {
        let url = "http://h/b/k".parse().expect("a URL");
        for tag in ["900150983cd24fb0d6963f7d28e17f72", "900150983CD24FB0D6963F7D28E17F72"] {
            let lines = format!("ETag: \"{tag}\"\r\nx-amz-server-side-encryption: AES256\r\n");
            let md5 = of(&lines).expect("an MD5");
            assert_eq!(md5.checked(b"abc", &url).expect("the same"), "md5");
            let differs = md5.checked(b"abd", &url).expect_err("another").to_string();
            assert!(differs.contains("MD5") && differs.contains("nothing of it was kept"), "{differs}");
        }
    }

    #[test]
    fn other_tags_are_no_md5() {
        let tag = "ETag: \"900150983cd24fb0d6963f7d28e17f72\"\r\n";
        for lines in [
            "",
            "ETag: \"900150983cd24fb0d6963f7d28e17f72-2\"\r\n",
            "ETag: \"900150983cd24fb0d6963f7d28e17f7\"\r\n",
            "ETag: W/\"900150983cd24fb0d6963f7d28e17f72\"\r\n",
            "ETag: \"x00150983cd24fb0d6963f7d28e17f72\"\r\n",
            &format!("{tag}x-amz-server-side-encryption: aws:kms\r\n"),
            &format!("{tag}x-amz-server-side-encryption: aws:kms:dsse\r\n"),
            &format!("{tag}x-amz-server-side-encryption-customer-algorithm: AES256\r\n"),
        ] {
            assert_eq!(of(lines), None, "{lines}");
        }
    }
}
