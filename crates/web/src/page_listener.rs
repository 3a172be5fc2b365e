//! The page's listener: so many connections in all and by origin, and none that holds its place without
//! showing the secret.
//!
//! A connection that only fetches files is closed after some seconds, whatever it does: a browser opens
//! another without a word.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use linerate_transport::admission::{Permit, Permits, prepare_control};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;

/// A connection that has not shown the secret ends after this.
const TIME_TO_SHOW: Duration = Duration::from_secs(10);

/// Accepts connections of the page.
pub struct PageListener {
    listener: TcpListener,
    permits: Arc<Permits>,
}

/// One connection, as its requests see it.
#[derive(Clone, Debug)]
pub struct PageClient {
    pub address: SocketAddr,
    known: Arc<AtomicBool>,
}

impl PageClient {
    /// It has shown the secret: it may stay.
    pub fn is_known(&self) {
        self.known.store(true, Ordering::Relaxed);
    }
}

impl PageListener {
    /// With as many connections as there are permits.
    pub fn new(listener: TcpListener, permits: Arc<Permits>) -> PageListener {
        PageListener { listener, permits }
    }
}

impl Listener for PageListener {
    type Io = PageConnection;
    type Addr = PageClient;

    async fn accept(&mut self) -> (PageConnection, PageClient) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    let Ok(permit) = self.permits.take(address.ip()) else { continue };
                    // It may be gone already; then its first read says so.
                    let _ = prepare_control(&stream);
                    let known = Arc::new(AtomicBool::new(false));
                    let client = PageClient { address, known: known.clone() };
                    let patience = Box::pin(tokio::time::sleep(TIME_TO_SHOW));
                    return (PageConnection { stream, known, patience, _permit: permit }, client);
                }
                // As for the TCP channel: wait instead of spinning.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<PageClient> {
        Ok(PageClient { address: self.listener.local_addr()?, known: Arc::default() })
    }
}

impl Connected<IncomingStream<'_, PageListener>> for PageClient {
    fn connect_info(stream: IncomingStream<'_, PageListener>) -> PageClient {
        stream.remote_addr().clone()
    }
}

/// A connection with its permit and its time.
pub struct PageConnection {
    stream: TcpStream,
    known: Arc<AtomicBool>,
    patience: Pin<Box<Sleep>>,
    _permit: Permit,
}

impl PageConnection {
    fn overdue(&mut self, context: &mut Context<'_>) -> bool {
        !self.known.load(Ordering::Relaxed) && self.patience.as_mut().poll(context).is_ready()
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
        match self.overdue(context) {
            true => late(),
            false => Pin::new(&mut self.stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for PageConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.overdue(context) {
            true => late(),
            false => Pin::new(&mut self.stream).poll_write(context, from),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
