//! The page's listener: so many connections in all and by origin, and none that holds its place without showing the secret.
//!
//! A connection that only fetches files is closed after some seconds, whatever it does: a browser opens another without a word.

use super::places::{Place, Places};
use crate::agent::prepare_control;
use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
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
const STRANGER: Duration = Duration::from_secs(10);

/// Lets connections of the page in.
pub struct Door {
    listener: TcpListener,
    places: Arc<Places>,
}

/// One connection, as its requests see it.
#[derive(Clone, Debug)]
pub struct Caller {
    pub address: SocketAddr,
    known: Arc<AtomicBool>,
}

impl Caller {
    /// It has shown the secret: it may stay.
    pub fn is_known(&self) {
        self.known.store(true, Ordering::Relaxed);
    }
}

impl Door {
    /// With so many places.
    pub fn new(listener: TcpListener, places: Arc<Places>) -> Door {
        Door { listener, places }
    }
}

impl Listener for Door {
    type Io = Visitor;
    type Addr = Caller;

    async fn accept(&mut self) -> (Visitor, Caller) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => {
                    let Some(place) = self.places.take(address.ip()) else { continue };
                    // It may be gone already; then its first read says so.
                    let _ = prepare_control(&stream);
                    let known = Arc::new(AtomicBool::new(false));
                    let caller = Caller { address, known: known.clone() };
                    let patience = Box::pin(tokio::time::sleep(STRANGER));
                    return (Visitor { stream, known, patience, _place: place }, caller);
                }
                // As for the TCP channel: wait instead of spinning.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Caller> {
        Ok(Caller { address: self.listener.local_addr()?, known: Arc::default() })
    }
}

impl Connected<IncomingStream<'_, Door>> for Caller {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Caller {
        stream.remote_addr().clone()
    }
}

/// A connection with its place and its time.
pub struct Visitor {
    stream: TcpStream,
    known: Arc<AtomicBool>,
    patience: Pin<Box<Sleep>>,
    _place: Place,
}

impl Visitor {
    fn overdue(&mut self, context: &mut Context<'_>) -> bool {
        !self.known.load(Ordering::Relaxed) && self.patience.as_mut().poll(context).is_ready()
    }
}

/// Its time is over.
fn late<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
}

impl AsyncRead for Visitor {
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

impl AsyncWrite for Visitor {
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
