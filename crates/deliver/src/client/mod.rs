//! One connection to a server: opened at one of its addresses that answers, asked again and again.

pub(crate) mod ask;
mod connect;
mod error;
mod settings;

use crate::flow_sockets::SocketRoute;
use crate::http::head::{MOST_HEAD_BYTES, ResponseHead, parse_response};
use crate::http::url::HttpUrl;
use crate::patience::Quiet;
use crate::stream_tally::StreamTally;
use connect::{ClientWire, connect};
pub use error::TransferError;
use linerate_measure::measure::TcpFigures;
use linerate_system::clock;
use linerate_system::readiness::is_waiting;
use linerate_system::socket::tcp_info;
pub(crate) use settings::ClientSettings;
pub use settings::LocalNic;
use settings::TakenAddress;
use socket2::SockRef;
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
use crate::tests::network;

/// Interim answers (100, 103) before the final one.
const MOST_INTERIM: u32 = 8;
/// Less than this within the time limit is next to nothing.
const LEAST_BYTES: u64 = 1 << 10;
/// What is read at once where heads and small bodies come one after another.
const BUFFER_BYTES: usize = 64 << 10;
/// The most bytes of a body that is not a file.
const MOST_TEXT_BYTES: u64 = 256 << 20;

/// An open connection.
pub(crate) struct HttpConnection<'a> {
    settings: &'a ClientSettings<'a>,
    wire: ClientWire,
    open_address: TakenAddress,
    authority: String,
    secure: bool,
    /// What came, of which this was not taken yet, and room behind it.
    buffer: Vec<u8>,
    unread: Range<usize>,
    /// The connection cannot be used again.
    is_spent: bool,
    /// The server keeps it open.
    is_kept: bool,
    /// Requests that were sent and not answered yet.
    asked: usize,
    /// The server is not to blame while its reader is busy elsewhere.
    pub(crate) quiet: Quiet,
    route: Arc<SocketRoute>,
    /// What TCP had counted when it was asked last.
    tcp: TcpFigures,
}

impl Drop for HttpConnection<'_> {
    fn drop(&mut self) {
        #[cfg(test)]
        network::closed(self.wire.socket());
        self.settings.sockets.ends(self.wire.socket());
    }
}

impl<'a> HttpConnection<'a> {
    pub(crate) fn open(settings: &'a ClientSettings<'a>, url: &HttpUrl) -> Result<Self, TransferError> {
        let (stream, open_address) = connect(settings, url)?;
        let wire = match url.secure {
            false => ClientWire::Plain(stream),
            true => ClientWire::secured(settings.tls()?, url, stream, settings)?,
        };
        Ok(HttpConnection {
            route: settings.sockets.route_of(wire.socket()),
            settings,
            wire,
            open_address,
            authority: url.authority(),
            secure: url.secure,
            buffer: Vec::new(),
            unread: 0..0,
            is_spent: false,
            is_kept: false,
            asked: 0,
            quiet: Quiet::new(LEAST_BYTES),
            tcp: TcpFigures::default(),
        })
    }

    /// The address that it is open to.
    pub(crate) fn address(&self) -> &TakenAddress {
        &self.open_address
    }

    /// What takes bytes as they are; none under TLS. [`HttpConnection::sent_by_socket`] counts them.
    pub(crate) fn plain_socket(&self) -> Option<&TcpStream> {
        #[cfg(test)]
        if network::has(self.wire.socket()) {
            return None;
        }
        match &self.wire {
            ClientWire::Plain(stream) => Some(stream),
            ClientWire::Tls(_) => None,
        }
    }

    /// So much went out by its socket.
    pub(crate) fn sent_by_socket(&self, bytes: usize) {
        self.route.add(bytes);
    }

    /// A body follows: the kernel takes a server that reads nothing for some seconds, because its disk is slow, for gone.
    pub(crate) fn waits_for_reader(&self) {
        let _ = SockRef::from(self.wire.socket()).set_tcp_user_timeout(Some(self.settings.timeout));
    }

    /// As TCP has it.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        let tcp = tcp_info(self.wire.socket()).ok()?;
        (tcp.rtt_us > 0).then(|| Duration::from_micros(u64::from(tcp.rtt_us)))
    }

    /// What of all that was sent the other host has; 0 where the kernel does not say so.
    pub(crate) fn acknowledged_bytes(&self) -> u64 {
        tcp_info(self.wire.socket()).map_or(0, |info| info.acknowledged_bytes)
    }

    /// What TCP counted of it since the last time goes to a stream's own.
    pub(crate) fn count_tcp(&mut self, tally: &StreamTally) {
        tally.add_tcp(self.wire.socket(), &mut self.tcp);
    }

    /// It can be asked for this URL.
    pub(crate) fn serves(&self, url: &HttpUrl) -> bool {
        !self.is_spent && self.asked == 0 && self.is_of(url)
    }

    fn is_of(&self, url: &HttpUrl) -> bool {
        self.secure == url.secure && self.authority == url.authority()
    }

    /// It can be asked for this URL while an answer is on its way: its last answer was of HTTP/1.1 and did
    /// not close it (RFC 9112 section 9.3.2).
    pub(crate) fn serves_ahead(&self, url: &HttpUrl) -> bool {
        self.is_kept && !self.is_spent && self.is_of(url)
    }

    /// Asks, and reads the head of the answer. `lines` are whole header lines.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        url: &HttpUrl,
        lines: &str,
    ) -> Result<ResponseHead, TransferError> {
        self.send(&[(method, url, lines)])?;
        self.answer(url)
    }

    /// Sends requests of which each is answered in its turn: then [`HttpConnection::answer`] has their heads.
    /// They are so few that they fit the socket's buffer, else both ends would wait for each other.
    pub(crate) fn send(&mut self, requests: &[(&str, &HttpUrl, &str)]) -> Result<(), TransferError> {
        let Some((_, first, _)) = requests.first() else { return Ok(()) };
        let shown = self.settings.token.as_ref().filter(|(_, hosts)| hosts.contains(&self.authority));
        let token = shown.map_or("", |(token, _)| token.as_str());
        let mut text = String::new();
        for (method, url, lines) in requests {
            let signed = self.settings.store_of(url);
            let signed = signed.map(|store| store.lines(method, url, lines, clock::date()));
            text.push_str(&format!(
                "{method} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: linerate/{}\r\nAccept-Encoding: identity\r\n\
                 {token}{lines}{}\r\n",
                url.target,
                self.authority,
                env!("CARGO_PKG_VERSION"),
                signed.unwrap_or_default(),
            ));
        }
        self.asked += requests.len();
        self.write(text.as_bytes(), first)
    }

    /// The head of the answer to the first request that has none yet. Its body has to be read before the
    /// next.
    pub(crate) fn answer(&mut self, url: &HttpUrl) -> Result<ResponseHead, TransferError> {
        self.is_spent = true;
        self.quiet = Quiet::new(LEAST_BYTES);
        let mut interim = 0;
        loop {
            let head = self.head(url)?;
            if head.status >= 200 {
                self.is_spent = !head.keeps_alive();
                self.is_kept = head.is_1_1 && head.keeps_alive();
                self.asked = self.asked.saturating_sub(1);
                return Ok(head);
            }
            interim += 1;
            if interim > MOST_INTERIM || head.status == 101 {
                return Err(TransferError::Status { url: url.to_string(), status: head.status });
            }
        }
    }

    /// The head of an answer that comes before the body was sent; none where the server wants the body, or
    /// says nothing for so long.
    pub(crate) fn answer_within(
        &mut self,
        time: Duration,
        url: &HttpUrl,
    ) -> Result<Option<ResponseHead>, TransferError> {
        let until = clock::now() + time;
        while clock::now() < until {
            match parse_response(&self.buffer[self.unread.clone()]) {
                Ok(Some((head, length))) if head.status < 200 => {
                    self.unread.start += length;
                    return Ok(None);
                }
                // Its body and what follows are of no use: the request's own body was not sent.
                Ok(Some((head, _))) => {
                    self.is_spent = true;
                    return Ok(Some(head));
                }
                Err(why) => return Err(TransferError::NoHttp { url: url.to_string(), why }),
                Ok(None) => {}
            }
            self.settings.check_stop()?;
            let left = until.saturating_duration_since(clock::now());
            self.make_room(MOST_HEAD_BYTES);
            match self.wire.read_within(&mut self.buffer[self.unread.end..], left, self.settings.stop) {
                Ok(0) => return Err(TransferError::closed(url)),
                Ok(read) => self.unread.end += read,
                Err(error) if is_waiting(&error) => {}
                Err(error) => return Err(TransferError::broken(url, error)),
            }
        }
        Ok(None)
    }

    fn head(&mut self, url: &HttpUrl) -> Result<ResponseHead, TransferError> {
        loop {
            let parsed = parse_response(&self.buffer[self.unread.clone()]);
            let no_http = |why| TransferError::NoHttp { url: url.to_string(), why };
            if let Some((head, length)) = parsed.map_err(no_http)? {
                self.unread.start += length;
                return Ok(head);
            }
            if self.fill(url)? == 0 {
                return Err(TransferError::closed(url));
            }
        }
    }

    /// What comes next, behind what was not taken yet: how much, 0 at the end of the connection.
    fn fill(&mut self, url: &HttpUrl) -> Result<usize, TransferError> {
        let bytes = BUFFER_BYTES.min(self.settings.read_bytes.max(MOST_HEAD_BYTES));
        self.make_room(bytes);
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = self.receive(&mut buffer[self.unread.end..][..bytes], url);
        self.buffer = buffer;
        self.unread.end += read.as_ref().map_or(0, |read| *read);
        read
    }

    /// For so many bytes behind what was not taken yet.
    fn make_room(&mut self, bytes: usize) {
        self.buffer.copy_within(self.unread.clone(), 0);
        self.unread = 0..self.unread.len();
        if self.buffer.len() < self.unread.end + bytes {
            self.buffer = [&self.buffer[..self.unread.end], &vec![0; bytes]].concat();
        }
    }

    /// The next bytes of the body, at least one; none at the end of the connection.
    pub(crate) fn read(&mut self, into: &mut [u8], url: &HttpUrl) -> Result<usize, TransferError> {
        let unread = &self.buffer[self.unread.clone()];
        if unread.is_empty() {
            let most = into.len().min(self.settings.read_bytes);
            return self.receive(&mut into[..most], url);
        }
        let taken = unread.len().min(into.len());
        into[..taken].copy_from_slice(&unread[..taken]);
        self.unread.start += taken;
        Ok(taken)
    }

    /// A whole body that is not a file; `length` is what the head says of it.
    pub(crate) fn read_text(&mut self, length: Option<u64>, url: &HttpUrl) -> Result<Vec<u8>, TransferError> {
        self.read_whole(length, url, |_| ())
    }

    /// A whole body, into memory; `came` is called with so many bytes as they come.
    pub(crate) fn read_whole(
        &mut self,
        length: Option<u64>,
        url: &HttpUrl,
        came: impl Fn(u64),
    ) -> Result<Vec<u8>, TransferError> {
        let length = length.filter(|length| *length <= MOST_TEXT_BYTES);
        let length = length.ok_or_else(|| TransferError::NoLength { url: url.to_string() })?;
        let mut body = Vec::new();
        while (body.len() as u64) < length {
            let missing = length - body.len() as u64;
            if self.unread.is_empty() && self.fill(url)? == 0 {
                return Err(TransferError::CutShort { url: url.to_string(), missing });
            }
            let unread = &self.buffer[self.unread.clone()];
            let taken = unread.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
            body.extend_from_slice(&unread[..taken]);
            self.unread.start += taken;
            came(taken as u64);
        }
        Ok(body)
    }

    /// What is left of an answer is not wanted: the connection cannot be asked again.
    pub(crate) fn spend(&mut self) {
        self.is_spent = true;
    }

    fn receive(&mut self, into: &mut [u8], url: &HttpUrl) -> Result<usize, TransferError> {
        loop {
            let left = self.settings.timeout.saturating_sub(self.quiet.time());
            match self.wire.read_within(into, left, self.settings.stop) {
                Ok(read) => {
                    self.route.add(read);
                    self.quiet.came(read);
                    self.check_stall(url)?;
                    self.settings.check_stop()?;
                    return Ok(read);
                }
                Err(error) if is_waiting(&error) => {
                    self.settings.check_stop()?;
                    self.check_stall(url)?;
                }
                Err(error) => return Err(TransferError::broken(url, error)),
            }
        }
    }

    fn check_stall(&self, url: &HttpUrl) -> Result<(), TransferError> {
        let timeout = self.settings.timeout;
        if self.quiet.time() < timeout {
            return Ok(());
        }
        Err(TransferError::Stalled { url: url.to_string(), seconds: timeout.as_secs() })
    }

    pub(crate) fn write(&mut self, bytes: &[u8], url: &HttpUrl) -> Result<(), TransferError> {
        let (mut rest, mut taken) = (bytes, clock::now());
        loop {
            let written = match rest {
                // What TLS has taken is not with the kernel yet.
                [] => self.wire.flush().map(|()| 0),
                _ => self.wire.write(rest),
            };
            match written {
                Ok(_) if rest.is_empty() => return Ok(()),
                Ok(written) => {
                    self.route.add(written);
                    (rest, taken) = (&rest[written..], clock::now());
                }
                Err(error) if is_waiting(&error) && clock::since(taken) <= self.settings.timeout => {}
                Err(error) => return Err(TransferError::broken(url, error)),
            }
            self.settings.check_stop()?;
        }
    }
}
