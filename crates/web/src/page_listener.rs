//! Where a page listens, and its listener: few connections that have not shown the secret, each for some seconds. From a
//! full list the oldest of the origin that has most goes when another comes, so that silent connections keep no client
//! out.
//!
//! A connection that only fetches files is closed after some seconds, whatever it does: a browser opens
//! another without a word. Connections that have shown the secret are counted by the page itself.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use linerate_facts::failure::Failure;
use linerate_transport::admission::{self, PendingEntry, SharedPending, prepare_control};
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::Sleep;

/// A connection that has not shown the secret ends after this.
const TIME_TO_SHOW: Duration = Duration::from_secs(10);

/// What it may send until then: a browser asks for each file of the page with some kilobytes of cookies at most.
const BYTES_TO_SHOW: usize = 256 << 10;
/// Bytes that one connection is read before others are: all of a page share a thread, and a WebSocket message may have
/// parts without end that are empty.
const TURN_BYTES: usize = 2 << 10;

/// A listener for each address; `option` is the one that named them. Called within the runtime.
pub fn bind(addresses: &[SocketAddr], option: &str) -> Result<Vec<TcpListener>, Failure> {
    let in_use = format!(
        "does another linerate listen there? Stop it, or choose another port with {option} ADDRESS:PORT"
    );
    let listeners = admission::listen(addresses).map_err(|error| error.advise(option, &in_use))?;
    let listeners = listeners.into_iter().map(TcpListener::from_std).collect::<io::Result<_>>();
    listeners.map_err(|error| {
        Failure::Lacks(format!("cannot listen: {error}; choose another address with {option}"))
    })
}

/// What a person opens, without any secret. A page for every address is shown at this host's own.
pub fn page_url(address: SocketAddr) -> String {
    let host = match address.ip() {
        IpAddr::V4(every) if every.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(every) if every.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        one => one,
    };
    format!("http://{}/", SocketAddr::new(host, address.port()))
}

/// Accepts connections of the page.
pub struct PageListener {
    listener: TcpListener,
    /// Connections that have not shown the secret. Dropping the sender ends the connection.
    unknown: SharedPending<oneshot::Sender<()>>,
}

/// One connection, as its requests see it.
#[derive(Clone)]
pub struct PageClient {
    pub address: SocketAddr,
    /// None: the listener itself.
    entry: Option<Arc<PendingEntry<oneshot::Sender<()>>>>,
}

impl std::fmt::Debug for PageClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageClient").field("address", &self.address).finish_non_exhaustive()
    }
}

impl PageClient {
    /// It has shown the secret: it may stay, unless it was crowded out before.
    pub fn is_known(&self) {
        if let Some(sender) = self.entry.as_ref().and_then(|entry| entry.take()) {
            let _ = sender.send(());
        }
    }
}

impl PageListener {
    /// `bound`: connections that have not shown the secret, at most.
    pub fn new(listener: TcpListener, bound: usize) -> PageListener {
        PageListener { listener, unknown: SharedPending::new(bound, TIME_TO_SHOW) }
    }

    /// Makes room for a connection.
    fn add(&self, stream: TcpStream, address: SocketAddr) -> (PageConnection, PageClient) {
        let (sender, shown) = oneshot::channel();
        let (entry, crowded_out) = self.unknown.add(address.ip(), sender);
        drop(crowded_out);
        let client = PageClient { address, entry: Some(Arc::new(entry)) };
        let stage = Stage::Unknown(shown, Box::pin(tokio::time::sleep(TIME_TO_SHOW)));
        let connection = PageConnection {
            stream,
            stage,
            left_bytes: BYTES_TO_SHOW,
            turn_bytes: TURN_BYTES,
            _client: client.clone(),
        };
        (connection, client)
    }
}

impl Listener for PageListener {
    type Io = PageConnection;
    type Addr = PageClient;

    async fn accept(&mut self) -> (PageConnection, PageClient) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    // It may be gone already; then its first read says so.
                    let _ = prepare_control(&stream);
                    return self.add(stream, address);
                }
                // As for the TCP channel: wait instead of spinning.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<PageClient> {
        let address = self.listener.local_addr()?;
        Ok(PageClient { address, entry: None })
    }
}

impl Connected<IncomingStream<'_, PageListener>> for PageClient {
    fn connect_info(stream: IncomingStream<'_, PageListener>) -> PageClient {
        stream.remote_addr().clone()
    }
}

/// A connection with its time, and with what it may still send before it shows the secret and before others are read.
pub struct PageConnection {
    stream: TcpStream,
    stage: Stage,
    left_bytes: usize,
    turn_bytes: usize,
    /// It counts for as long as it is open.
    _client: PageClient,
}

/// How far a connection is.
enum Stage {
    /// Word comes when the secret was shown; the word breaks off when another takes the connection's place.
    Unknown(oneshot::Receiver<()>, Pin<Box<Sleep>>),
    Known,
    Ended,
}

impl PageConnection {
    fn has_ended(&mut self, context: &mut Context<'_>) -> bool {
        if let Stage::Unknown(shown, patience) = &mut self.stage {
            match (Pin::new(shown).poll(context), patience.as_mut().poll(context)) {
                (Poll::Ready(Ok(())), _) => self.stage = Stage::Known,
                (Poll::Ready(Err(_)), _) | (Poll::Pending, Poll::Ready(())) => self.stage = Stage::Ended,
                (Poll::Pending, Poll::Pending) if self.left_bytes == 0 => self.stage = Stage::Ended,
                (Poll::Pending, Poll::Pending) => {}
            }
        }
        matches!(self.stage, Stage::Ended)
    }

    /// Reads what this turn allows.
    fn read(&mut self, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.turn_bytes == 0 {
            self.turn_bytes = TURN_BYTES;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let most = into.remaining().min(self.turn_bytes);
        let most = if matches!(self.stage, Stage::Known) { most } else { most.min(self.left_bytes) };
        let mut part = ReadBuf::new(into.initialize_unfilled_to(most));
        let read = Pin::new(&mut self.stream).poll_read(context, &mut part);
        let bytes = part.filled().len();
        into.advance(bytes);
        self.turn_bytes = if read.is_pending() { TURN_BYTES } else { self.turn_bytes - bytes };
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        read
    }
}

/// Its time is over.
fn late<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
}

impl AsyncRead for PageConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.has_ended(context) { late() } else { self.read(context, into) }
    }
}

impl AsyncWrite for PageConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.has_ended(context) { late() } else { Pin::new(&mut self.stream).poll_write(context, from) }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(test);
    }

    async fn listen(bound: usize) -> (PageListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        (PageListener::new(listener, bound), address)
    }

    #[test]
    fn a_connection_is_read_in_turns_and_only_so_far_before_it_shows_the_secret() {
        run(async {
            let (mut listener, address) = listen(8).await;
            let mut client = TcpStream::connect(address).await.expect("a connection");
            let (mut connection, page_client) = listener.accept().await;
            let all = vec![0; 2 * BYTES_TO_SHOW];
            let sender = tokio::spawn(async move { client.write_all(&all).await.map(|()| client) });
            let mut turn = vec![0; BYTES_TO_SHOW];
            let mut longest = 0;
            let mut read = 0;
            while read < BYTES_TO_SHOW - TURN_BYTES {
                // What comes without waiting in between.
                let mut of_turn = 0;
                std::future::poll_fn(|context| {
                    loop {
                        let mut into = ReadBuf::new(&mut turn);
                        match Pin::new(&mut connection).poll_read(context, &mut into) {
                            Poll::Ready(result) => result.expect("read"),
                            Poll::Pending if of_turn == 0 => return Poll::Pending,
                            Poll::Pending => return Poll::Ready(()),
                        }
                        of_turn += into.filled().len();
                    }
                })
                .await;
                longest = longest.max(of_turn);
                read += of_turn;
            }
            assert!(longest <= TURN_BYTES, "{longest}");
            let mut rest = Vec::new();
            let ended = connection.read_to_end(&mut rest).await.map_err(|error| error.kind());
            assert_eq!((ended, read + rest.len()), (Err(io::ErrorKind::TimedOut), BYTES_TO_SHOW));
            drop((connection, page_client, sender.await));
            // With the secret it goes on.
            let all = vec![0; 2 * BYTES_TO_SHOW];
            let mut client = TcpStream::connect(address).await.expect("a connection");
            let (mut connection, page_client) = listener.accept().await;
            page_client.is_known();
            let sender = tokio::spawn(async move { client.write_all(&all).await });
            let mut taken = vec![0; 2 * BYTES_TO_SHOW];
            connection.read_exact(&mut taken).await.expect("all of it");
            sender.await.expect("it ends").expect("sent");
        });
    }

    #[test]
    fn a_new_connection_replaces_the_oldest_that_has_not_shown_the_secret() {
        run(async {
            let (mut listener, address) = listen(2).await;
            let mut held = Vec::new();
            for number in 0..4 {
                let client = TcpStream::connect(address).await.expect("a connection");
                let (connection, page_client) = listener.accept().await;
                if number == 0 {
                    page_client.is_known();
                }
                held.push((client, connection));
            }
            let mut ended = Vec::new();
            for (client, connection) in &mut held {
                client.write_all(b"x").await.expect("sent");
                ended.push(connection.read_u8().await.is_err());
            }
            assert_eq!(ended, [false, true, false, false]);
            drop(held);
            assert!(listener.unknown.is_empty(), "their places are free again");
        });
    }
}
