//! One control connection of a client that holds the key: its tests one after another.

use super::host;
use super::noise::{Broken, Channel, REQUEST_LIMIT_BYTES};
use super::protocol::{
    AgentRequest, Hello, OpenRequest, PROTOCOL, RdmaReady, Reply, StreamTicket, TestSample,
};
use super::rdma::{RdmaRefusal, RdmaServer};
use super::shared::Shared;
use super::taking::{CpuTakers, TakeRefusal, TakeRequest, TakenSample};
use super::trial::{AgentTest, TestOwner, TestRefusal};
use super::wire::DeadlineStream;
use crate::admission::{NoPermit, Permit, canonical};
use crate::perftest::PerftestSpec;
use linerate_facts::counters;
use linerate_facts::host::HostSampler;
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::time::{Duration, Instant};
use thiserror::Error;

/// A request that began must be whole, and its answer taken, within this.
const MESSAGE: Duration = Duration::from_secs(5);

/// Why a client that has shown the key gets no session.
#[derive(Debug, Error)]
pub(crate) enum SessionRefusal {
    #[error("the first request must be a hello")]
    NoHello,
    #[error(
        "it runs linerate {} (agent protocol {PROTOCOL}), this is linerate {version} (agent protocol \
         {protocol}); install the same version on both hosts",
        env!("CARGO_PKG_VERSION")
    )]
    OtherProtocol { protocol: u32, version: String },
    #[error("its end of the connection has no address: {0}")]
    NoAddress(#[from] io::Error),
    #[error("it serves {bound} clients already; wait until one has finished")]
    AllTaken { bound: usize },
    #[error(
        "this client has {own} of its {bound} control connections already, which is the most for one; wait \
         until one has ended"
    )]
    HalfTaken { own: usize, bound: usize },
}

struct ServerSession<'a> {
    shared: &'a Shared,
    whose: TestOwner,
    sysroot: Sysroot,
    /// Before the test, whose end takes time.
    takers: Option<CpuTakers>,
    trial: Option<AgentTest<'a>>,
    rdma: Option<RdmaServer>,
    _permit: Permit,
}

/// Serves a client that has shown the key, from its `Hello` until it is gone or idle for too long.
pub(crate) fn serve(stream: &TcpStream, mut channel: Channel, hello: &AgentRequest, shared: &Shared) {
    let mut answer = |reply: &Reply| channel.sender.send(DeadlineStream::new(stream, MESSAGE), reply);
    let session = match welcome(stream, hello, shared) {
        Ok((session, hello)) => answer(&Reply::Hello(Box::new(hello))).map(|()| session),
        Err(refusal) => {
            let text = refusal.to_string();
            tracing::info!(peer = ?stream.peer_addr().ok(), text, "session refused");
            let _ = answer(&Reply::Error { text });
            return;
        }
    };
    // Whatever ends this, also a panic, drops the session, and with it its workers.
    if let Ok(mut session) = session {
        tracing::info!(client = %session.whose.client, "session begins");
        while session.await_request(stream).is_some() {
            if let Err(broken) = session.answer(stream, &mut channel) {
                tracing::warn!(client = %session.whose.client, %broken, "session lost");
                return;
            }
        }
        tracing::info!(client = %session.whose.client, "session ends");
    }
}

fn welcome<'a>(
    stream: &TcpStream,
    hello: &AgentRequest,
    shared: &'a Shared,
) -> Result<(ServerSession<'a>, Hello), SessionRefusal> {
    let local = canonical(stream.local_addr()?);
    let client = stream.peer_addr()?.ip().to_canonical();
    let permit = permit(hello, client, shared)?;
    let sysroot = Sysroot::live();
    let interface = (shared.settings.interface_of)(local.ip());
    let hello = host::hello(&sysroot, local.ip(), interface, &shared.instance, &shared.settings);
    let whose = TestOwner { local, client, start: clock::now() };
    Ok((
        ServerSession { shared, whose, sysroot, takers: None, trial: None, rdma: None, _permit: permit },
        hello,
    ))
}

/// The right to a session of a client that opens with this.
pub(crate) fn permit(
    hello: &AgentRequest,
    client: IpAddr,
    shared: &Shared,
) -> Result<Permit, SessionRefusal> {
    let AgentRequest::Hello { protocol, version } = hello else {
        return Err(SessionRefusal::NoHello);
    };
    if *protocol != PROTOCOL {
        return Err(SessionRefusal::OtherProtocol { protocol: *protocol, version: printable(version) });
    }
    shared.sessions.take(client).map_err(|none| match none {
        NoPermit::AllTaken { bound } => SessionRefusal::AllTaken { bound },
        NoPermit::OriginHasHalf { own, bound } => SessionRefusal::HalfTaken { own, bound },
    })
}

/// What a client says of itself, fit for a sentence.
fn printable(text: &str) -> String {
    text.chars().filter(|letter| letter.is_ascii_graphic()).take(32).collect()
}

impl ServerSession<'_> {
    /// Waits for the first byte of a request; none: the session is over.
    fn await_request(&mut self, stream: &TcpStream) -> Option<()> {
        let idle_since = clock::now();
        loop {
            // A client that is late with its end is not waited for.
            self.rdma.take_if(|server| server.is_over_time());
            // It grows once nothing is sent any more.
            let until = idle_since + self.patience();
            if self.shared.stopping.is_ended() || clock::now() >= until {
                return None;
            }
            let due = self.rdma.iter().map(RdmaServer::until).fold(until, Instant::min);
            let left = due.saturating_duration_since(clock::now());
            if self.shared.stopping.wait_readable(stream, Some(left)).ok()? {
                // Nothing of it: the client has left.
                return stream.peek(&mut [0]).ok().filter(|length| *length > 0).map(drop);
            }
        }
    }

    fn patience(&self) -> Duration {
        let limits = &self.shared.settings.limits;
        let sending = self.trial.as_ref().is_some_and(AgentTest::sends_datagrams);
        if sending { limits.idle.min(limits.idle_sending) } else { limits.idle }
    }

    /// Reads one request, does it, answers it.
    fn answer(&mut self, stream: &TcpStream, channel: &mut Channel) -> Result<(), Broken> {
        let request = channel.receiver.receive(DeadlineStream::new(stream, MESSAGE), REQUEST_LIMIT_BYTES);
        let reply = match request {
            Ok(AgentRequest::Open(request)) => {
                tracing::info!(client = %self.whose.client, streams = request.streams.len(), "test requested");
                let opened = self.open(request).map(|tickets| Reply::Opened { tickets });
                opened.unwrap_or_else(|why| refusal(&self.whose, &why))
            }
            Ok(AgentRequest::Sample) => Reply::Sample(self.sample()),
            Ok(AgentRequest::Settle) => {
                self.trial.iter().for_each(AgentTest::settle);
                Reply::Sample(self.sample())
            }
            Ok(AgentRequest::Take(request)) => {
                self.take(request).map_or_else(|why| refusal(&self.whose, &why), Reply::Taken)
            }
            Ok(AgentRequest::Close) => {
                self.takers = None;
                self.trial.iter().for_each(AgentTest::end);
                let last = self.sample();
                self.trial = None;
                Reply::Closed(last)
            }
            Ok(AgentRequest::Counters { interfaces }) => {
                Reply::Counters { counters: Box::new(counters::read(&self.sysroot, &interfaces)) }
            }
            Ok(AgentRequest::Rdma(spec)) => {
                self.start_rdma(spec).map_or_else(|why| refusal(&self.whose, &why), Reply::RdmaReady)
            }
            Ok(AgentRequest::EndRdma) => Reply::RdmaEnded {
                error: super::rdma::end(self.rdma.take()).err().map(|why| why.to_string()),
            },
            Ok(AgentRequest::Hello { .. }) => Reply::Error { text: "a second hello".into() },
            Err(Broken::Message(error)) => {
                Reply::Error { text: format!("a request is not understood: {error}") }
            }
            Err(broken) => return Err(broken),
        };
        match channel.sender.send(DeadlineStream::new(stream, MESSAGE), &reply) {
            // Nothing of it was sent: a host may have more interfaces than fit.
            Err(Broken::TooLong(limit)) => {
                let text = format!("the answer is longer than {limit} bytes; ask for fewer interfaces");
                channel.sender.send(DeadlineStream::new(stream, MESSAGE), &Reply::Error { text })
            }
            sent => sent,
        }
    }

    fn open(&mut self, request: OpenRequest) -> Result<Vec<StreamTicket>, TestRefusal> {
        if self.trial.is_some() || self.rdma.is_some() {
            return Err(TestRefusal::Running);
        }
        let (trial, opened) = AgentTest::open(self.shared, &self.sysroot, self.whose, request)?;
        self.trial = Some(trial);
        Ok(opened)
    }

    fn take(&mut self, request: TakeRequest) -> Result<TakenSample, TakeRefusal> {
        let trial = self.trial.as_ref().ok_or(TakeRefusal::NoTest)?;
        if !self.shared.settings.experiments {
            return Err(TakeRefusal::NotAllowed);
        }
        let takers = self.takers.get_or_insert_with(|| CpuTakers::new(&self.shared.taking, clock::now()));
        takers.take(request, &trial.cpus(&self.sysroot), clock::now())
    }

    fn start_rdma(&mut self, spec: PerftestSpec) -> Result<RdmaReady, RdmaRefusal> {
        if self.trial.is_some() || self.rdma.is_some() {
            return Err(TestRefusal::Running.into());
        }
        let (server, ready) = RdmaServer::start(self.shared, &self.sysroot, self.whose, spec)?;
        tracing::info!(client = %self.whose.client, port = ready.tcp_port, device = ready.device, "perftest waits");
        self.rdma = Some(server);
        Ok(ready)
    }

    fn sample(&self) -> TestSample {
        let streams = self.trial.as_ref().map(AgentTest::samples).unwrap_or_default();
        let stores = self.trial.as_ref().is_some_and(AgentTest::stores);
        let sink = self.shared.settings.sink.as_ref().filter(|_| stores);
        let disk = sink.and_then(|sink| sink.disk()).map(str::to_string);
        let host = HostSampler::of_cpus(&self.sysroot).counting_from(self.whose.start);
        TestSample { streams, host: host.and_disks(disk.into_iter().collect()).sample() }
    }
}

fn refusal(whose: &TestOwner, why: &dyn std::error::Error) -> Reply {
    let text = why.to_string();
    tracing::info!(client = %whose.client, text, "test refused");
    Reply::Error { text }
}
