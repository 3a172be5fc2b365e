//! How a text from outside is encoded.

use std::borrow::Cow;

/// The bytes in UTF-8, without the mark that may be before them. UTF-16 is what PowerShell writes of what it redirects; all else
/// is as it is.
pub fn utf8(bytes: &[u8]) -> Cow<'_, [u8]> {
    let unit = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return Cow::Borrowed(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)),
    };
    let units = bytes[2..].chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let text: String = char::decode_utf16(units).map(|found| found.unwrap_or('\u{fffd}')).collect();
    Cow::Owned(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_go_and_utf_16_is_read() {
        assert_eq!(utf8(b"\xef\xbb\xbfa").as_ref(), b"a");
        assert_eq!(utf8(b"\xff\xfea\0b\0").as_ref(), b"ab");
        assert_eq!(utf8(b"\xfe\xff\0a\0b\0").as_ref(), b"ab");
        assert_eq!(utf8(b"a\0b").as_ref(), b"a\0b");
    }
}
