//! What an agent does with an admitted data stream.

use crate::flow::receive::{Terms, receive_tcp};
use crate::flow::store::{StoreFile, store};
use crate::flow::stream::{self as engine, Content, StreamCounters, StreamSocket, StreamSpec};
use crate::flow::udp_receive::receive_udp;
use linerate_system::stop::Stop;
use std::io;
use std::net::TcpStream;

/// A receiver that stores.
pub type StoreReceiver = fn(Option<TcpStream>, &StoreFile, &Terms, &StreamCounters, &Stop) -> io::Result<()>;

/// What to do with a data stream; the default is what `flow` does. Each gets its counters and its stop last.
#[derive(Clone, Copy)]
pub struct Receivers {
    /// Takes what a worker sends: an admitted TCP stream until its end, or the datagrams of whoever shows the token.
    pub worker: fn(StreamSocket, &Terms, &StreamCounters, &Stop) -> io::Result<()>,
    /// Stores a TCP stream, or blocks of its own, in a file until its end, or until the file settles.
    pub store: StoreReceiver,
    /// This end of any other admitted stream.
    pub stream: fn(&StreamSpec, StreamSocket, &StreamCounters, &Stop) -> io::Result<()>,
}

impl Default for Receivers {
    fn default() -> Self {
        Receivers { worker, store, stream }
    }
}

fn worker(socket: StreamSocket, terms: &Terms, counters: &StreamCounters, stop: &Stop) -> io::Result<()> {
    match socket {
        StreamSocket::Tcp(stream) => receive_tcp(stream, terms, counters, stop),
        StreamSocket::Udp { socket, token } => receive_udp(socket, &token, terms, counters, stop),
    }
}

/// An agent sends what it makes in memory: never a file of its host.
fn stream(spec: &StreamSpec, socket: StreamSocket, counters: &StreamCounters, stop: &Stop) -> io::Result<()> {
    if let Some(core) = spec.core {
        // A core that is not there, or not ours: run anywhere rather than not at all.
        let _ = linerate_system::affinity::pin_within_allowed(core);
    }
    engine::run(spec, socket, Content::Memory, counters, stop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::stream::StreamRole;
    use linerate_facts::protocol::Protocol;
    use linerate_system::affinity;
    use std::net::TcpListener;
    use std::time::Instant;

    fn cpus_of_this_thread() -> String {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.expect("the line").trim().to_string()
    }

    /// A client asks for a CPU by its own view of the machine.
    #[test]
    fn a_stream_stays_on_the_cpus_that_the_agent_was_given() {
        let allowed = cpus_of_this_thread();
        let ends = allowed.split([',', '-']).map(|end| end.parse().expect("a number"));
        let (first, other): (u32, u32) = (ends.clone().min().expect("one"), ends.max().expect("one"));
        if first == other {
            eprintln!("skipped: one CPU alone");
            return;
        }
        affinity::pin_to(first).expect("pinned");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        drop(TcpStream::connect(listener.local_addr().expect("an address")).expect("connected"));
        let (socket, _) = listener.accept().expect("accepted");
        let spec = StreamSpec { core: Some(other), ..StreamSpec::new(Protocol::Tcp, StreamRole::Receive) };
        let counters = StreamCounters::new(Instant::now());
        let stop = Stop::new();
        stream(&spec, StreamSocket::Tcp(socket), &counters, &stop).expect("it ends with its sender");
        assert_eq!(cpus_of_this_thread(), first.to_string());
    }
}
