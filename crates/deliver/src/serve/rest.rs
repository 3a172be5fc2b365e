//! What is left of an answer, while its client takes it slowly: no thread, no block, no descriptor but the socket's.

use super::Shared;
use super::answer::FilePart;
use super::body::{BodySender, FileBody, Sent};
use super::connection::Turn;
use super::patience::Patience;
use super::served_stream::ServedStream;
use super::tally::Tally;
use linerate_system::readiness::Interest;
use linerate_system::socket::tcp_info;
use std::io;
use std::net::Shutdown;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Bytes per second that a client takes at least of which a thread waits: a call's in the time that it is given.
const LEAST_FAST_RATE: f64 = 10e6;

/// What comes next on a connection.
pub(super) enum Next {
    Request,
    /// This is left, and goes on after that.
    Rest(Rest, Turn),
    Leave,
    /// There is nobody any more to say goodbye to.
    Lost,
}

/// The part of a file that is still to be sent.
pub(super) struct Rest {
    part: FilePart,
    /// The connection serves on afterwards.
    keeps: bool,
    patience: Patience,
    wait: Option<ClientWait>,
}

/// A wait for the client.
#[derive(Clone, Copy)]
struct ClientWait {
    since: Instant,
    /// Bytes that it had acknowledged then.
    acknowledged: u64,
}

impl Rest {
    /// All of it.
    pub(super) fn new(part: FilePart, keeps: bool) -> Self {
        Rest { part, keeps, patience: Patience::default(), wait: None }
    }

    /// When a client that took too little is given up, or was seen to take it.
    pub(super) fn deadline(&self) -> Instant {
        let since = self.wait.map_or_else(Instant::now, |wait| wait.since);
        since + self.patience.left()
    }

    /// Sends as much as goes now.
    pub(super) fn send(
        mut self,
        sender: &mut BodySender<'_>,
        stream: &ServedStream<'_>,
        shared: &Shared<'_>,
    ) -> Next {
        let part = &self.part;
        let label = part.names.last().map(|name| String::from_utf8_lossy(name)).unwrap_or_default();
        let open_direct = || shared.tree.open_file(&part.names, true);
        let body = FileBody {
            opened: &part.opened,
            label: &label,
            open_direct: &open_direct,
            offset: part.offset,
            length: part.length,
            block_bytes: part.block_bytes,
        };
        let sent = shared.flow.sends(|| sender.send(&body, &mut self.patience));
        let (bytes, turn) = match sent {
            Ok(Sent::Whole) if self.keeps => return Next::Request,
            Ok(Sent::Whole) => return Next::Leave,
            Ok(Sent::UntilFull { bytes }) => (bytes, Turn::Waits(Interest::Write)),
            Ok(Sent::UntilOthersWait { bytes }) => (bytes, Turn::Yields),
            Err(error) => return lost(&error, stream),
        };
        self.part.offset += bytes;
        self.part.length -= bytes;
        if matches!(turn, Turn::Waits(_)) {
            // One descriptor for all who wait for the same file.
            self.part.opened.share(&shared.files);
            let acknowledged = tcp_info(stream.socket).map_or(0, |tcp| tcp.acknowledged_bytes);
            self.wait = Some(ClientWait { since: Instant::now(), acknowledged });
            shared.flow.at_work.fetch_add(1, Ordering::Relaxed);
        }
        Next::Rest(self, turn)
    }

    /// The client has taken something, or its time is over.
    pub(super) fn go_on(
        mut self,
        sender: &mut BodySender<'_>,
        stream: &ServedStream<'_>,
        shared: &Shared<'_>,
    ) -> Next {
        let Some(wait) = self.end_wait(shared) else { return self.send(sender, stream, shared) };
        let acknowledged = tcp_info(stream.socket).map_or(0, |tcp| tcp.acknowledged_bytes);
        let (taken, time) = (acknowledged.saturating_sub(wait.acknowledged), wait.since.elapsed());
        self.patience.took(taken, time);
        let resumed = match self.patience.is_over() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => sender.resume(taken as f64 >= LEAST_FAST_RATE * time.as_secs_f64()),
        };
        match resumed {
            Ok(()) => self.send(sender, stream, shared),
            Err(error) => {
                Tally::add(&shared.tally.cut_short, 1);
                lost(&error, stream)
            }
        }
    }

    /// The server ends before it was sent.
    pub(super) fn cut_short(mut self, shared: &Shared<'_>) {
        self.end_wait(shared);
        Tally::add(&shared.tally.cut_short, 1);
    }

    /// The time was the client's.
    fn end_wait(&mut self, shared: &Shared<'_>) -> Option<ClientWait> {
        let wait = self.wait.take()?;
        shared.flow.at_work.fetch_sub(1, Ordering::Relaxed);
        shared.flow.sent.waited_for_client(wait.since.elapsed());
        Some(wait)
    }
}

fn lost(error: &io::Error, stream: &ServedStream<'_>) -> Next {
    tracing::debug!(%error, "a file was cut short");
    // Whoever waits for the rest learns at once that it does not come.
    let _ = stream.socket.shutdown(Shutdown::Both);
    Next::Lost
}
