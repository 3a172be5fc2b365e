//! How a test of our own failed, in words.

use super::ClientSession;
use crate::iperf3::control::ControlError;
use crate::iperf3::errors::server_error;
use crate::iperf3::state::Iperf3State;
use linerate_facts::failure::Failure;
use linerate_system::stop::Stop;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// An answer is waited for this long once the user wants to stop: within the second in which Ctrl-C ends.
pub(super) const HURRY: Duration = Duration::from_millis(400);
/// No stream moves a byte for so long: the server or the way to it is gone.
pub(super) const SILENCE: Duration = Duration::from_secs(10);

/// Why a test ended before its time.
pub(super) enum ClientEnd {
    State(Iperf3State),
    Control(ControlError),
    Silence,
    Results(String),
}

impl From<ControlError> for ClientEnd {
    fn from(error: ControlError) -> ClientEnd {
        ClientEnd::Control(error)
    }
}

impl ClientSession<'_> {
    /// A server that ends the test instead of going on.
    pub(super) fn told(&mut self, state: Iperf3State) -> Failure {
        let why = self.words(state);
        Failure::Lacks(format!("iperf3 server {}: {why}", self.route.address))
    }

    pub(super) fn words(&mut self, state: Iperf3State) -> String {
        match state {
            Iperf3State::AccessDenied => {
                "it is busy with another test: an iperf3 server runs one at a time; try again later".into()
            }
            Iperf3State::ServerTerminate => "it was stopped".into(),
            Iperf3State::ServerError => match self.control.read_error(HURRY, &Stop::new()) {
                Ok((number, errno)) => server_error(number, errno),
                Err(error) => format!("it refuses, and gives no reason: {error}"),
            },
            state => ControlError::Unexpected(state).to_string(),
        }
    }

    pub(super) fn why(&mut self, end: ClientEnd) -> String {
        let why = match end {
            ClientEnd::State(state) => self.words(state),
            ClientEnd::Silence => {
                let _ = self.control.send_state(Iperf3State::ClientTerminate);
                format!("no stream moved a byte for {} s", SILENCE.as_secs())
            }
            ClientEnd::Results(why) => why,
            ClientEnd::Control(ControlError::Stopped) => {
                let _ = self.control.send_state(Iperf3State::ClientTerminate);
                "stopped before the results came".into()
            }
            ClientEnd::Control(error) => error.to_string(),
        };
        format!("iperf3 server {}: {why}; the figures are those until then", self.route.address)
    }
}

pub(super) fn unreachable(address: SocketAddr, error: &io::Error, stop: &Stop) -> Failure {
    if stop.is_ended() {
        return Failure::Interrupted;
    }
    let cause = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nothing listens there: start `iperf3 -s` on that host, or check the port".into()
        }
        io::ErrorKind::TimedOut => "no answer: check the address, and whether a firewall drops it".into(),
        _ => error.to_string(),
    };
    Failure::Lacks(format!("iperf3 server {address}: {cause}"))
}

pub(super) fn refused(address: SocketAddr, error: &ControlError) -> Failure {
    match error {
        ControlError::Stopped => Failure::Interrupted,
        error => Failure::Lacks(format!("iperf3 server {address}: {error}")),
    }
}
