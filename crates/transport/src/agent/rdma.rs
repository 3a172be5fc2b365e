//! A test by RDMA at the agent: perftest's server, started for one client and ended with it; and the client's side of that.
//!
//! perftest knows no key: for the seconds in which its server waits, whoever reaches its port may be its client, and can
//! write into the server's own buffer. Nobody else's memory is reached.

use super::client::AgentSession;
use super::protocol::{AgentRequest, RdmaReady, Reply};
use super::shared::Shared;
use super::trial::{TestOwner, TestRefusal, permit};
use crate::admission::Permit;
use crate::perftest::{DeviceError, PerftestError, PerftestSpec, RdmaPort, RunningPerftest, ipv4};
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};
use thiserror::Error;

/// perftest's own port and those after it, so that a firewall can let them through.
const PORTS: std::ops::RangeInclusive<u16> = 18515..=18530;
/// A server opens its device and takes its memory within this; the client waits somewhat longer.
const START: Duration = Duration::from_secs(4);
/// Between two looks whether it waits for its client.
const LOOK: Duration = Duration::from_millis(20);
/// Beside the test: connecting, and what both ends exchange at its end.
const BESIDE: Duration = Duration::from_secs(20);
/// A server whose client has ended ends by itself within this.
const END: Duration = Duration::from_secs(2);
/// The client waits longer than the agent takes.
const ANSWER: Duration = Duration::from_secs(3);
/// State of a socket that listens, in `/proc/net/tcp`.
const LISTENS: &str = "0A";

/// Why there is no server: a sentence for the client's user.
#[derive(Debug, Error)]
pub(crate) enum RdmaRefusal {
    #[error(transparent)]
    Test(#[from] TestRefusal),
    #[error("a test by RDMA takes 1 to 3600 s, 1 to 256 queue pairs and messages of up to 16 MiB")]
    Bounds,
    #[error("it was started with a rate limit, which RDMA goes past; start it there without --rate-limit")]
    RateLimit,
    #[error("it ends each test after {limit} s, and {wanted} s were asked for; give less with --seconds")]
    TimeLimit { limit: u64, wanted: u32 },
    #[error("perftest needs an IPv4 address; name one of that host with --peer")]
    Ipv6,
    #[error("{0}")]
    Device(#[from] DeviceError),
    #[error("the TCP ports {} to {} are all in use there, which perftest's server needs one of", PORTS.start(), PORTS.end())]
    NoPort,
    #[error("{0}")]
    Program(#[from] PerftestError),
    #[error("perftest's server waited for no client within {} s", START.as_secs())]
    NotReady,
}

/// Perftest's server. Dropping it kills it.
pub(crate) struct RdmaServer {
    program: RunningPerftest,
    until: Instant,
    _permit: Permit,
}

impl RdmaServer {
    /// Starts it on the device that has the address to which the client came, and waits until it listens.
    pub(crate) fn start(
        shared: &Shared,
        sysroot: &Sysroot,
        whose: TestOwner,
        spec: PerftestSpec,
    ) -> Result<(RdmaServer, RdmaReady), RdmaRefusal> {
        check(&spec, shared)?;
        let permit = permit(shared, whose.client)?;
        let local = ipv4(whose.local.ip()).ok_or(RdmaRefusal::Ipv6)?;
        let nic = (shared.settings.interface_of)(local.into()).map(|interface| interface.name);
        let at = RdmaPort::find(sysroot, local.into(), nic.as_deref())?;
        let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok();
        let tcp_port = PORTS.into_iter().find(is_free).ok_or(RdmaRefusal::NoPort)?;
        let mut program =
            RunningPerftest::start(spec.operation.program(), &spec.arguments(&at, tcp_port, None))?;
        let begun = clock::now();
        while !listens(sysroot, tcp_port) {
            if !program.is_running() {
                // One that ended well without a client is not there either.
                program.finish(END, || true)?;
                return Err(RdmaRefusal::NotReady);
            }
            if clock::since(begun) > START {
                return Err(RdmaRefusal::NotReady);
            }
            if shared.stopping.wait(LOOK) {
                return Err(RdmaRefusal::NotReady);
            }
        }
        let until = clock::now() + Duration::from_secs(spec.seconds.into()) + BESIDE;
        Ok((RdmaServer { program, until, _permit: permit }, RdmaReady { tcp_port, device: at.device }))
    }

    /// Its client should have ended it by then.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    pub(crate) fn is_over_time(&self) -> bool {
        clock::now() >= self.until
    }
}

/// Why a server that was started counts for nothing: a phrase.
#[derive(Debug, Error)]
pub(crate) enum RdmaEndError {
    #[error("no test by RDMA is running")]
    None,
    #[error("{0}")]
    Program(#[from] PerftestError),
}

/// Waits for the server's own end.
pub(crate) fn end(server: Option<RdmaServer>) -> Result<(), RdmaEndError> {
    let server = server.ok_or(RdmaEndError::None)?;
    server.program.finish(END, || true)?;
    Ok(())
}

fn check(spec: &PerftestSpec, shared: &Shared) -> Result<(), RdmaRefusal> {
    if !spec.is_bounded() {
        return Err(RdmaRefusal::Bounds);
    }
    if shared.clients.limits().bytes_per_second.is_some() {
        return Err(RdmaRefusal::RateLimit);
    }
    match shared.settings.limits.test_time {
        Some(limit) if limit < Duration::from_secs(spec.seconds.into()) => {
            Err(RdmaRefusal::TimeLimit { limit: limit.as_secs(), wanted: spec.seconds })
        }
        _ => Ok(()),
    }
}

/// A socket of this host listens on the port. Not asked by connecting: the server would take that for its client.
fn listens(sysroot: &Sysroot, port: u16) -> bool {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .any(|table| sysroot.text(table).is_ok_and(|text| has_listener(&text, port)))
}

/// `  0: 00000000:4853 00000000:0000 0A …`.
fn has_listener(table: &str, port: u16) -> bool {
    let of = |line: &str| {
        let mut cells = line.split_whitespace().skip(1);
        let local = cells.next()?.rsplit_once(':')?.1;
        let state = cells.nth(1)?;
        (state == LISTENS).then(|| u16::from_str_radix(local, 16).ok())?
    };
    table.lines().filter_map(of).any(|found| found == port)
}

impl AgentSession {
    /// Has perftest's server started on the device that has the peer's address of this session.
    ///
    /// # Errors
    /// `Lacks`, a sentence: the agent is older, or says what its host has not.
    pub fn start_rdma(&self, spec: PerftestSpec) -> Result<RdmaReady, Failure> {
        self.check_rdma()?;
        match self.ask_within(&AgentRequest::Rdma(spec), START + ANSWER)? {
            Reply::RdmaReady(ready) => Ok(ready),
            _ => Err(self.out_of_turn()),
        }
    }

    /// The agent can be asked for it.
    ///
    /// # Errors
    /// `Lacks`: it is older.
    pub fn check_rdma(&self) -> Result<(), Failure> {
        if self.hello().rdma {
            return Ok(());
        }
        Err(Failure::Lacks(format!(
            "the agent at {} (linerate {}) cannot start perftest, which --protocol rdma needs at both hosts; install the \
             same version as here",
            self.address(),
            self.hello().version
        )))
    }

    /// The test is over: why its server did not end well there, a phrase; none where it did.
    ///
    /// # Errors
    /// The agent does not answer any more.
    pub fn end_rdma(&self) -> Result<Option<String>, Failure> {
        match self.ask_within(&AgentRequest::EndRdma, END + ANSWER)? {
            Reply::RdmaEnded { error } => Ok(error),
            _ => Err(self.out_of_turn()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n   \
        0: 00000000:4853 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2702 1\n   \
        1: 0100007F:4854 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 2703 1\n";

    #[test]
    fn a_port_that_listens_is_found() {
        assert!(has_listener(TABLE, 18515));
        assert!(!has_listener(TABLE, 18516), "a connection is not a listener");
        assert!(!has_listener("", 18515));
    }

    proptest! {
        #[test]
        fn any_text_is_a_table(text in "[ -~\\n]{0,200}", port in any::<u16>()) {
            has_listener(&text, port);
        }
    }
}
