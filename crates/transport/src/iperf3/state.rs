//! The states of iperf3's control connection, and the cookie that ties data connections to it.

use crate::agent::random;
use std::io;

/// One signed byte on the control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub(crate) enum Iperf3State {
    TestStart = 1,
    TestRunning = 2,
    TestEnd = 4,
    ParamExchange = 9,
    CreateStreams = 10,
    ServerTerminate = 11,
    ClientTerminate = 12,
    ExchangeResults = 13,
    DisplayResults = 14,
    Done = 16,
    AccessDenied = -1,
    ServerError = -2,
}

impl Iperf3State {
    const ALL: [Iperf3State; 12] = [
        Iperf3State::TestStart,
        Iperf3State::TestRunning,
        Iperf3State::TestEnd,
        Iperf3State::ParamExchange,
        Iperf3State::CreateStreams,
        Iperf3State::ServerTerminate,
        Iperf3State::ClientTerminate,
        Iperf3State::ExchangeResults,
        Iperf3State::DisplayResults,
        Iperf3State::Done,
        Iperf3State::AccessDenied,
        Iperf3State::ServerError,
    ];

    /// The state of a byte; none: iperf3 has no such state.
    pub(crate) fn from_byte(byte: u8) -> Option<Iperf3State> {
        Iperf3State::ALL.into_iter().find(|state| state.byte() == byte)
    }

    /// The byte of a state.
    pub(crate) fn byte(self) -> u8 {
        (self as i8).cast_unsigned()
    }
}

/// Bytes of a cookie: 36 characters and a zero.
pub(crate) const COOKIE_BYTES: usize = 37;

/// What ties data connections to their control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cookie(pub [u8; COOKIE_BYTES]);

impl Cookie {
    /// A new one, of iperf3's alphabet: letters and the digits 2 to 7.
    pub(crate) fn random() -> io::Result<Cookie> {
        const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
        let mut bytes = random::<COOKIE_BYTES>()?.map(|byte| ALPHABET[usize::from(byte) % ALPHABET.len()]);
        bytes[COOKIE_BYTES - 1] = 0;
        Ok(Cookie(bytes))
    }

    /// A cookie as some iperf3 may have made it: old ones wrote host and time. None: anyone who sent this
    /// speaks another protocol.
    pub(crate) fn parse(bytes: [u8; COOKIE_BYTES]) -> Option<Cookie> {
        let (text, end) = bytes.split_at(COOKIE_BYTES - 1);
        let length = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let printable = text[..length].iter().all(u8::is_ascii_graphic);
        let padded = text[length..].iter().chain(end).all(|byte| *byte == 0);
        (length > 0 && printable && padded).then_some(Cookie(bytes))
    }

    /// Without the zeros at its end.
    pub(crate) fn text(&self) -> String {
        let text = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_bytes_and_back() {
        for state in Iperf3State::ALL {
            assert_eq!(Iperf3State::from_byte(state.byte()), Some(state));
        }
        assert_eq!(Iperf3State::AccessDenied.byte(), 0xff);
        let known = (0..=255).filter(|byte| Iperf3State::from_byte(*byte).is_some()).count();
        assert_eq!(known, Iperf3State::ALL.len());
    }

    #[test]
    fn cookies_of_iperf3_and_nothing_else() {
        let cookie = Cookie::random().expect("random bytes");
        assert_eq!(Cookie::parse(cookie.0), Some(cookie));
        assert_eq!(cookie.text().len(), 36);
        assert_ne!(cookie, Cookie::random().expect("random bytes"));
        let mut old = [0; COOKIE_BYTES];
        old[..22].copy_from_slice(b"host.1300000000.123456");
        assert_eq!(Cookie::parse(old).map(|cookie| cookie.text()), Some("host.1300000000.123456".into()));
        let mut unended = cookie.0;
        unended[36] = b'x';
        assert_eq!(Cookie::parse(unended), None);
        assert_eq!(Cookie::parse([0; COOKIE_BYTES]), None);
        assert_eq!(Cookie::parse(*b"GET / HTTP/1.1\r\nHost: somewhere.org\r\n"), None);
    }
}
