//! Heads of requests and responses: read by `httparse`, within bounds, into what the two ends need of them.

use std::time::Duration;
use thiserror::Error;

/// The most bytes of a head; what is longer is not a head that a person or a program has a use for.
pub const MOST_HEAD_BYTES: usize = 16 << 10;
/// The most header lines of a head.
pub const MOST_HEADERS: usize = 64;
/// The most bytes of a request's target.
pub const MOST_TARGET_BYTES: usize = 8 << 10;

/// Why a head cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeadError {
    #[error("the head is longer than {} KiB", MOST_HEAD_BYTES >> 10)]
    TooLong,
    #[error("the head has more than {MOST_HEADERS} lines")]
    TooManyHeaders,
    #[error("the target is longer than {} KiB", MOST_TARGET_BYTES >> 10)]
    TargetTooLong,
    #[error("it is not HTTP/1.0 or HTTP/1.1")]
    Version,
    #[error("it is not HTTP: {0}")]
    Malformed(httparse::Error),
    #[error("{0} is there more than once, and the lines differ")]
    Contradicts(&'static str),
    #[error("{0} is not a number of bytes")]
    NoNumber(&'static str),
}

/// Header lines; names are compared without regard to case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderLines(Vec<(String, Vec<u8>)>);

impl HeaderLines {
    fn of(lines: &[httparse::Header<'_>]) -> Self {
        HeaderLines(lines.iter().map(|line| (line.name.to_ascii_lowercase(), line.value.to_vec())).collect())
    }

    /// All lines of a name, given in lower case.
    pub fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let name = name.to_string();
        self.0.iter().filter(move |(own, _)| *own == name).map(|(_, value)| value.as_slice())
    }

    /// The value of a line that may be there once; text that is not UTF-8 counts as absent.
    pub fn text(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.all(name).next()?).ok().map(str::trim)
    }

    /// Whether a list of words has this one, without regard to case.
    pub fn has_word(&self, name: &str, word: &str) -> bool {
        let words = |value: &[u8]| {
            let text = String::from_utf8_lossy(value).into_owned();
            text.split(',').any(|one| one.trim().eq_ignore_ascii_case(word))
        };
        self.all(name).any(words)
    }

    /// `Content-Length`: digits only, as RFC 9112 section 6.3 has it; several lines must not contradict one another.
    pub fn content_length(&self) -> Result<Option<u64>, HeadError> {
        let mut all = self.all("content-length");
        let Some(first) = all.next() else { return Ok(None) };
        if all.any(|other| other != first) {
            return Err(HeadError::Contradicts("content-length"));
        }
        let text = self.text("content-length").unwrap_or_default();
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|_| digits);
        number.map(Some).ok_or(HeadError::NoNumber("content-length"))
    }
}

/// What a client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    pub method: String,
    /// As it was sent: a path with its query, or a whole URL.
    pub target: String,
    /// HTTP/1.1; else 1.0.
    pub is_1_1: bool,
    pub headers: HeaderLines,
}

/// What a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    pub status: u16,
    pub is_1_1: bool,
    pub headers: HeaderLines,
}

/// No head yet, or an error where so many bytes hold none.
fn unfinished<T>(bytes: &[u8]) -> Result<Option<T>, HeadError> {
    if bytes.len() >= MOST_HEAD_BYTES { Err(HeadError::TooLong) } else { Ok(None) }
}

fn of_httparse(error: httparse::Error) -> HeadError {
    match error {
        httparse::Error::TooManyHeaders => HeadError::TooManyHeaders,
        httparse::Error::Version => HeadError::Version,
        error => HeadError::Malformed(error),
    }
}

/// A request at the start of `bytes` and the bytes of its head; none while its end is not there.
pub fn parse_request(bytes: &[u8]) -> Result<Option<(RequestHead, usize)>, HeadError> {
    let looked_at = &bytes[..bytes.len().min(MOST_HEAD_BYTES)];
    let mut lines = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut lines);
    let httparse::Status::Complete(length) = request.parse(looked_at).map_err(of_httparse)? else {
        return unfinished(bytes);
    };
    let target = request.path.unwrap_or_default();
    if target.len() > MOST_TARGET_BYTES {
        return Err(HeadError::TargetTooLong);
    }
    let head = RequestHead {
        method: request.method.unwrap_or_default().to_string(),
        target: target.to_string(),
        is_1_1: request.version == Some(1),
        headers: HeaderLines::of(request.headers),
    };
    Ok(Some((head, length)))
}

/// A response at the start of `bytes` and the bytes of its head; none while its end is not there.
pub fn parse_response(bytes: &[u8]) -> Result<Option<(ResponseHead, usize)>, HeadError> {
    let looked_at = &bytes[..bytes.len().min(MOST_HEAD_BYTES)];
    let mut lines = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut lines);
    let httparse::Status::Complete(length) = response.parse(looked_at).map_err(of_httparse)? else {
        return unfinished(bytes);
    };
    let head = ResponseHead {
        status: response.code.unwrap_or_default(),
        is_1_1: response.version == Some(1),
        headers: HeaderLines::of(response.headers),
    };
    Ok(Some((head, length)))
}

impl RequestHead {
    /// The connection may serve another request after this one (RFC 9112 section 9.3).
    pub fn keeps_alive(&self) -> bool {
        keeps_alive(self.is_1_1, &self.headers)
    }

    /// It brings a body, or says something about one that cannot be.
    pub fn has_body(&self) -> bool {
        self.headers.all("transfer-encoding").next().is_some()
            || self.headers.content_length() != Ok(None) && self.headers.content_length() != Ok(Some(0))
    }
}

impl ResponseHead {
    /// The time after which it may be asked again; none: it names none in seconds (RFC 9110 section 10.2.3).
    pub fn retry_after(&self) -> Option<Duration> {
        self.headers.text("retry-after")?.parse().ok().map(Duration::from_secs)
    }

    /// The connection may be asked again.
    pub fn keeps_alive(&self) -> bool {
        keeps_alive(self.is_1_1, &self.headers)
    }
}

fn keeps_alive(is_1_1: bool, headers: &HeaderLines) -> bool {
    if is_1_1 {
        !headers.has_word("connection", "close")
    } else {
        headers.has_word("connection", "keep-alive")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(text: &str) -> Result<Option<(RequestHead, usize)>, HeadError> {
        parse_request(text.as_bytes())
    }

    #[test]
    fn a_request_is_read_and_what_follows_is_left() {
        let text = "GET /a%20b?c HTTP/1.1\r\nHost: h\r\nRANGE: bytes=0-1\r\n\r\nGET /";
        let (head, length) = request(text).expect("HTTP").expect("whole");
        assert_eq!((head.method.as_str(), head.target.as_str(), head.is_1_1), ("GET", "/a%20b?c", true));
        assert_eq!(head.headers.text("range"), Some("bytes=0-1"));
        assert_eq!(&text[length..], "GET /");
        assert!(head.keeps_alive() && !head.has_body());
    }

    #[test]
    fn half_a_head_waits_and_a_long_one_is_refused() {
        assert_eq!(request("GET / HTTP/1.1\r\nHost: h\r\n"), Ok(None));
        let long = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(MOST_HEAD_BYTES));
        assert_eq!(request(&long), Err(HeadError::TooLong));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(MOST_HEADERS + 1));
        assert_eq!(request(&many), Err(HeadError::TooManyHeaders));
        let target = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(MOST_TARGET_BYTES));
        assert_eq!(request(&target), Err(HeadError::TargetTooLong));
    }

    #[test]
    fn what_is_no_http_is_refused() {
        assert_eq!(request("GET / HTTP/2.0\r\n\r\n"), Err(HeadError::Version));
        for wrong in ["\u{16}\u{3}\u{1}\u{2}", "GET\r\n\r\n", "GET / HTTP/1.1\r\nA b\r\n\r\n", "\0\0\0\0\0"] {
            assert!(matches!(request(wrong), Err(HeadError::Malformed(_))), "{wrong:?}");
        }
    }

    #[test]
    fn lengths_are_digits_and_do_not_contradict() {
        let length = |lines: &str| {
            let text = format!("GET / HTTP/1.1\r\n{lines}\r\n");
            request(&text).expect("HTTP").expect("whole").0.headers.content_length()
        };
        assert_eq!(length(""), Ok(None));
        assert_eq!(length("Content-Length: 12\r\n"), Ok(Some(12)));
        assert_eq!(length("Content-Length: 12\r\ncontent-length: 12\r\n"), Ok(Some(12)));
        let contradicts = Err(HeadError::Contradicts("content-length"));
        assert_eq!(length("Content-Length: 12\r\nContent-Length: 13\r\n"), contradicts);
        for wrong in ["-1", "+1", "1x", "", "0x10", "18446744073709551616"] {
            let answer = length(&format!("Content-Length: {wrong}\r\n"));
            assert_eq!(answer, Err(HeadError::NoNumber("content-length")), "{wrong}");
        }
    }

    #[test]
    fn connections_are_kept_by_the_rules_of_their_version() {
        let kept = |text: &str| request(text).expect("HTTP").expect("whole").0.keeps_alive();
        assert!(kept("GET / HTTP/1.1\r\n\r\n") && !kept("GET / HTTP/1.0\r\n\r\n"));
        assert!(!kept("GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n"));
        assert!(kept("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for whole in [bytes.clone(), [b"GET / HTTP/1.1\r\n".as_slice(), &bytes].concat()] {
                if let Ok(Some((head, length))) = parse_request(&whole) {
                    prop_assert!(length <= whole.len() && head.target.len() <= whole.len());
                    let _ = (head.keeps_alive(), head.has_body());
                }
            }
            let response = [b"HTTP/1.1 200 OK\r\n".as_slice(), &bytes].concat();
            if let Ok(Some((head, length))) = parse_response(&response) {
                prop_assert!(length <= response.len());
                let _ = (head.keeps_alive(), head.headers.content_length());
            }
        }

        /// However the bytes come in pieces, the head is the same once it is whole.
        #[test]
        fn a_head_in_pieces_is_the_same(at in 0usize..40) {
            let text = b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n";
            let at = at.min(text.len());
            prop_assert_eq!(parse_request(&text[..at]).expect("HTTP").is_some(), at == text.len());
        }
    }
}
