//! The control connection: its states, the cookie that ties data connections to it, and JSON; each read is
//! bounded in bytes and in time.

use crate::agent::random;
use linerate_system::clock;
use linerate_system::readiness::is_waiting;
use linerate_system::stop::Stop;
use serde_json::Value;
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use thiserror::Error;

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
    fn from_byte(byte: u8) -> Option<Iperf3State> {
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

/// iperf3 takes at most 8 KiB of parameters; newer ones send more keys than older ones take.
pub(crate) const PARAMETERS_BYTES: usize = 8 << 10;
/// Results of 256 streams take 50 KiB; `--get-server-output` adds the peer's own report of each interval.
pub(crate) const RESULTS_BYTES: usize = 4 << 20;
/// A peer that does not take a few bytes in this time is gone.
const WRITE_WAIT: Duration = Duration::from_millis(800);

/// What ends a conversation.
#[derive(Debug, Error)]
pub(crate) enum ControlError {
    #[error("it closed the control connection")]
    Closed,
    #[error("it did not answer within {:.1} s", .0.as_secs_f64())]
    TimedOut(Duration),
    #[error("stopped")]
    Stopped,
    #[error("it sent the state {0}, which iperf3 does not have: is something else listening there?")]
    UnknownState(i8),
    #[error("it sent the state {0:?} where iperf3 sends another: is its version very old?")]
    Unexpected(Iperf3State),
    #[error(
        "it announced a message of {bytes} bytes, and at most {limit} are taken: is something else listening \
         there?"
    )]
    TooLong { bytes: u64, limit: usize },
    #[error("its message is not JSON: {0}")]
    NotJson(String),
    #[error("the control connection failed: {0}")]
    Io(#[from] io::Error),
}

/// One end of it.
#[derive(Debug)]
pub(crate) struct Control {
    stream: TcpStream,
}

impl Control {
    /// Over a connection that is open.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Control> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(WRITE_WAIT))?;
        // Nothing is said during a test: without this, streams would go on towards an address that somebody
        // else has by now.
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(5))
            .with_interval(Duration::from_secs(2))
            .with_retries(3);
        let socket = SockRef::from(&stream);
        socket.set_tcp_keepalive(&keepalive)?;
        socket.set_tcp_user_timeout(Some(Duration::from_secs(15)))?;
        Ok(Control { stream })
    }

    pub(crate) fn local(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    pub(crate) fn peer(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }

    /// Largest segment of this connection, bytes: what iperf3 takes as the size of its datagrams.
    pub(crate) fn segment_bytes(&self) -> Option<u32> {
        linerate_system::socket::tcp_info(&self.stream).ok().map(|info| info.segment_bytes)
    }

    pub(crate) fn send_cookie(&mut self, cookie: &Cookie) -> Result<(), ControlError> {
        Ok(self.stream.write_all(&cookie.0)?)
    }

    pub(crate) fn send_state(&mut self, state: Iperf3State) -> Result<(), ControlError> {
        Ok(self.stream.write_all(&[state.byte()])?)
    }

    /// SERVER_ERROR with iperf3's number of the error and the kernel's.
    pub(crate) fn send_error(&mut self, error: i32, errno: i32) -> Result<(), ControlError> {
        let mut message = vec![Iperf3State::ServerError.byte()];
        message.extend(error.to_be_bytes());
        message.extend(errno.to_be_bytes());
        Ok(self.stream.write_all(&message)?)
    }

    pub(crate) fn send_json(&mut self, value: &Value) -> Result<(), ControlError> {
        let text = value.to_string();
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let mut message = length.to_be_bytes().to_vec();
        message.extend(text.into_bytes());
        Ok(self.stream.write_all(&message)?)
    }

    /// The next state, or none within the time, or before `stop`.
    pub(crate) fn poll_state(
        &mut self,
        wait: Duration,
        stop: &Stop,
    ) -> Result<Option<Iperf3State>, ControlError> {
        // Not by a time-out of the socket: those are kept in whole ticks, 4 ms of a test's end.
        if !stop.wait_readable(&self.stream, Some(wait))? {
            return Ok(None);
        }
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(0) => Err(ControlError::Closed),
            Ok(_) => {
                let state = Iperf3State::from_byte(byte[0]);
                state.map(Some).ok_or(ControlError::UnknownState(byte[0].cast_signed()))
            }
            Err(error) if is_waiting(&error) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(ControlError::Closed),
            Err(error) => Err(error.into()),
        }
    }

    /// The next state, waited for so long.
    pub(crate) fn read_state(
        &mut self,
        patience: Duration,
        stop: &Stop,
    ) -> Result<Iperf3State, ControlError> {
        let start = clock::now();
        while clock::since(start) < patience {
            if stop.is_ended() {
                return Err(ControlError::Stopped);
            }
            let left = patience.saturating_sub(clock::since(start));
            if let Some(state) = self.poll_state(left, stop)? {
                return Ok(state);
            }
        }
        Err(ControlError::TimedOut(patience))
    }

    /// A message of JSON, of at most `limit` bytes.
    pub(crate) fn read_json(
        &mut self,
        limit: usize,
        patience: Duration,
        stop: &Stop,
    ) -> Result<Value, ControlError> {
        let start = clock::now();
        let mut length = [0; 4];
        self.read_exact(&mut length, start, patience, stop)?;
        let bytes = announced(length, limit)?;
        let mut text = vec![0; bytes];
        self.read_exact(&mut text, start, patience, stop)?;
        parse(&text)
    }

    /// The two numbers after SERVER_ERROR.
    pub(crate) fn read_error(&mut self, patience: Duration, stop: &Stop) -> Result<(i32, i32), ControlError> {
        let (start, mut numbers) = (clock::now(), [0; 8]);
        self.read_exact(&mut numbers, start, patience, stop)?;
        let [a, b, c, d, e, f, g, h] = numbers;
        Ok((i32::from_be_bytes([a, b, c, d]), i32::from_be_bytes([e, f, g, h])))
    }

    fn read_exact(
        &mut self,
        mut into: &mut [u8],
        start: Instant,
        patience: Duration,
        stop: &Stop,
    ) -> Result<(), ControlError> {
        while !into.is_empty() {
            if stop.is_ended() {
                return Err(ControlError::Stopped);
            }
            let left = patience.saturating_sub(clock::since(start));
            if left.is_zero() {
                return Err(ControlError::TimedOut(patience));
            }
            if !stop.wait_readable(&self.stream, Some(left))? {
                continue;
            }
            match self.stream.read(into) {
                Ok(0) => return Err(ControlError::Closed),
                Ok(count) => into = into.split_at_mut(count).1,
                Err(error) if is_waiting(&error) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(ControlError::Closed);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The length that leads a message, where it is one that can be taken.
fn announced(length: [u8; 4], limit: usize) -> Result<usize, ControlError> {
    let bytes = u32::from_be_bytes(length);
    match usize::try_from(bytes) {
        Ok(bytes) if bytes <= limit => Ok(bytes),
        _ => Err(ControlError::TooLong { bytes: bytes.into(), limit }),
    }
}

/// A message's JSON. Some send a zero after it.
fn parse(text: &[u8]) -> Result<Value, ControlError> {
    let text = text.strip_suffix(&[0]).unwrap_or(text);
    serde_json::from_slice(text).map_err(|error| ControlError::NotJson(error.to_string()))
}

/// What would be made of these bytes as one message.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn message(bytes: &[u8], limit: usize) -> Result<Value, ControlError> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or(ControlError::Closed)?;
    let length = announced(*length, limit)?;
    parse(rest.get(..length).ok_or(ControlError::Closed)?)
}

/// A cookie at the front of these bytes.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn cookie(bytes: &[u8]) -> Option<Cookie> {
    Cookie::parse(*bytes.first_chunk::<{ COOKIE_BYTES }>()?)
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

    #[test]
    fn lengths_are_bounded_before_anything_is_allocated() {
        let error = message(&[0xff, 0xff, 0xff, 0xff, b'{'], PARAMETERS_BYTES).expect_err("too long");
        assert!(matches!(error, ControlError::TooLong { bytes: 0xffff_ffff, .. }), "{error}");
        assert!(matches!(message(&[0, 0, 0, 9, b'{'], 10), Err(ControlError::Closed)));
        assert!(matches!(message(&[0, 0, 0, 1, b'{'], 10), Err(ControlError::NotJson(_))));
        assert_eq!(message(&[0, 0, 0, 3, b'{', b'}', 0], 10).expect("an object"), serde_json::json!({}));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes: Vec<u8>) {
            crate::iperf3::fuzzing::parameters(&bytes);
            crate::iperf3::fuzzing::results(&bytes);
            crate::iperf3::fuzzing::cookie(&bytes);
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let mut deep = 20_000u32.to_be_bytes().to_vec();
        deep.extend([b'['; 20_000]);
        assert!(matches!(message(&deep, 1 << 20), Err(ControlError::NotJson(_))));
    }
}
