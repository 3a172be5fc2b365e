//! iperf3's client: connects, asks, opens the streams, lets them run from the first byte to the results,
//! exchanges those; and how a test of our own failed, in words, with what to do about those of iperf3's errors that a
//! user can change.

use super::control::{Control, ControlError, Cookie, Iperf3State, RESULTS_BYTES};
use super::data::{DataStream, Iperf3StreamSpec};
use super::figures::{CpuMeter, IntervalProgress, Results, TestOutcome, results_of, take_results};
use super::open::Route;
use super::parameters::Parameters;
use super::running::Recorder;
use super::workers::{Iperf3Workers, stream_id};
use super::{Iperf3Test, TestDirection};
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::stop::Stop;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, UNIX_EPOCH};

/// A server that is busy or gone is not waited for longer, before the test and after it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a block where none are asked for. iperf3 takes 128 KiB; twice that moves a fifth more, and more
/// than that none.
const TCP_BLOCK_BYTES: u32 = 256 << 10;
/// What iperf3 takes where the path does not report its segments.
const UDP_BLOCK_BYTES: u32 = 1460;

/// The same where bytes end the test.
const BYTES_LOOK: Duration = Duration::from_millis(2);
/// What was sent gets this long to arrive before the server is told that it was all.
const SETTLE: Duration = Duration::from_millis(250);
/// UDP: datagrams take another way than the word that ends the test. Long enough for a queue, short beside a
/// test.
const UDP_SETTLE: Duration = Duration::from_millis(5);
/// Nothing more comes when nothing came for so long.
const QUIET: Duration = Duration::from_millis(30);

/// An answer is waited for this long once the user wants to stop: within the second in which Ctrl-C ends.
const STOPPED_PATIENCE: Duration = Duration::from_millis(400);
/// No stream moves a byte for so long: the server or the way to it is gone.
const SILENCE: Duration = Duration::from_secs(10);

/// Runs a test against the iperf3 server at `address`. An error: nothing was measured. What fails later is in
/// the outcome.
pub fn run_client(
    address: SocketAddr,
    local: Option<IpAddr>,
    test: &Iperf3Test,
    stop: &Stop,
    hear: &mut dyn FnMut(&IntervalProgress),
) -> Result<TestOutcome, Failure> {
    test.check()?;
    let route = Route { address, local, device: test.device.as_deref(), stop };
    let session = ClientSession::begin(route, test)?;
    session.run(hear)
}

/// A test under way.
struct ClientSession<'a> {
    route: Route<'a>,
    control: Control,
    cookie: Cookie,
    outcome: TestOutcome,
}

impl<'a> ClientSession<'a> {
    fn begin(route: Route<'a>, test: &Iperf3Test) -> Result<Self, Failure> {
        let address = route.address;
        let failed = |error: io::Error| unreachable(address, &error, route.stop);
        let stream = route.connect(|_| Ok(())).map_err(failed)?;
        let mut control = Control::new(stream).map_err(failed)?;
        let cookie = Cookie::random()
            .map_err(|error| Failure::Lacks(format!("no random bytes for iperf3's cookie: {error}")))?;
        control.send_cookie(&cookie).map_err(|error| refused(address, &error))?;
        let mut test = test.clone();
        let segment_bytes = control.segment_bytes();
        test.omit_seconds = test.omit_seconds.ceil();
        test.block_bytes = test.block_bytes.or(Some(match test.protocol {
            Protocol::Tcp => TCP_BLOCK_BYTES,
            Protocol::Udp => {
                segment_bytes.filter(|bytes| *bytes >= 16).unwrap_or(UDP_BLOCK_BYTES).min(65_507)
            }
        }));
        let outcome = TestOutcome {
            client: true,
            cookie: cookie.text(),
            started: clock::date().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            addresses: control.local().ok().zip(control.peer().ok()),
            segment_bytes,
            test,
            ..TestOutcome::default()
        };
        Ok(ClientSession { route, control, cookie, outcome })
    }

    fn run(mut self, hear: &mut dyn FnMut(&IntervalProgress)) -> Result<TestOutcome, Failure> {
        let streams = self.set_up()?;
        let spec = spec(&self.outcome.test);
        let cpu = CpuMeter::start();
        let workers = Iperf3Workers::start(streams, &spec);
        let workers =
            workers.map_err(|error| Failure::Lacks(format!("iperf3's streams cannot run: {error}")))?;
        self.measure(workers, cpu, hear);
        Ok(self.outcome)
    }

    /// Everything until data flows.
    fn set_up(&mut self) -> Result<Vec<DataStream>, Failure> {
        let (address, stop) = (self.route.address, self.route.stop);
        let mut streams = Vec::new();
        loop {
            let state = self.control.read_state(PATIENCE, stop).map_err(|error| refused(address, &error))?;
            match state {
                Iperf3State::ParamExchange => {
                    let parameters = Parameters::of(&self.outcome.test).to_json();
                    self.control.send_json(&parameters).map_err(|error| refused(address, &error))?;
                }
                Iperf3State::CreateStreams if streams.is_empty() => streams = self.open()?,
                Iperf3State::TestStart => {}
                Iperf3State::TestRunning if !streams.is_empty() => return Ok(streams),
                state => return Err(self.ended_by_server(state)),
            }
        }
    }

    /// The streams that send first, as iperf3 does.
    fn open(&self) -> Result<Vec<DataStream>, Failure> {
        let test = &self.outcome.test;
        let ways: &[bool] = match test.direction {
            TestDirection::Send => &[true],
            TestDirection::Receive => &[false],
            TestDirection::Both => &[true, false],
        };
        let wanted = ways.iter().flat_map(|sender| (0..test.parallel).map(move |_| *sender));
        let opened = wanted.enumerate().map(|(place, sender)| {
            let socket = self.route.stream(test, &self.cookie);
            let socket = socket.map_err(|error| match error.kind() {
                io::ErrorKind::Interrupted => Failure::Interrupted,
                _ => Failure::Lacks(format!(
                    "iperf3 server {}: stream {} could not be opened: {error}",
                    self.route.address,
                    place + 1
                )),
            })?;
            Ok(DataStream { id: stream_id(place), sender, socket })
        });
        opened.collect()
    }
}

fn spec(test: &Iperf3Test) -> Iperf3StreamSpec {
    Iperf3StreamSpec {
        block_bytes: test.block_bytes.unwrap_or(TCP_BLOCK_BYTES) as usize,
        bits_per_second: test.bits_per_second.unwrap_or(0),
        receive_pace: None,
        wide_counters: true,
        receive_batch: (64 / test.parallel.max(1) as usize).clamp(1, 16),
        cores: test.cores.clone(),
        bytes: test.bytes,
    }
}

impl ClientSession<'_> {
    /// From the first byte to the results.
    fn measure(
        &mut self,
        mut workers: Iperf3Workers,
        cpu: CpuMeter,
        hear: &mut dyn FnMut(&IntervalProgress),
    ) {
        let test = self.outcome.test.clone();
        let omit = Duration::from_secs_f64(test.omit_seconds);
        let interval = Duration::from_secs_f64(test.interval_seconds.clamp(0.1, 3600.0));
        let mut recorder = Recorder::new(&workers, test.protocol, omit, interval);
        self.outcome.buffer_bytes = workers.members.first().and_then(|member| member.buffer_bytes());
        let sender = workers.members.first().and_then(|member| member.tcp());
        self.outcome.congestion_local =
            sender.map(|tcp| tcp.congestion_control).filter(|name| !name.is_empty());
        let result = self.watch(&mut workers, &mut recorder, hear);
        let ended = match test.bytes {
            Some(_) if test.sends() && workers.senders_ended() => workers.last_sent(),
            _ => clock::since(workers.start),
        };
        let stopped = self.route.stop.is_ended();
        workers.stop_sending(if stopped || result.is_err() { Duration::ZERO } else { SETTLE });
        if test.protocol == Protocol::Udp && test.sends() && result.is_ok() {
            // Ctrl-C ends the test as its time does: what is on its way belongs to the figures.
            clock::sleep(UDP_SETTLE);
        }
        self.outcome.cpu_local = cpu.used();
        let result = result.and_then(|()| Ok(self.control.send_state(Iperf3State::TestEnd)?));
        if test.receives() {
            workers.drain(QUIET, SETTLE);
        }
        workers.end();
        self.outcome.local = recorder.finish(&workers, ended);
        let result = result.and_then(|()| self.exchange());
        if stopped {
            self.outcome.warnings.push("stopped before its time: the figures are those until then".into());
        }
        if let Err(ended) = result {
            self.outcome.error = Some(self.why(ended));
        }
        self.note_streams();
    }

    /// Lets it run until its time or its bytes are up, or something ends it.
    fn watch(
        &mut self,
        workers: &mut Iperf3Workers,
        recorder: &mut Recorder,
        hear: &mut dyn FnMut(&IntervalProgress),
    ) -> Result<(), ClientEnd> {
        let test = &self.outcome.test;
        let end = Duration::from_secs_f64(test.omit_seconds + test.seconds);
        let (bytes, only_receives) = (test.bytes, !test.sends());
        let (mut moved, mut moved_at) = ((0, 0), clock::now());
        loop {
            if let Some(progress) = recorder.tick(workers) {
                hear(&progress);
            }
            let now = recorder.bytes(workers);
            if now != moved {
                (moved, moved_at) = (now, clock::now());
            }
            let over = match bytes {
                Some(bytes) if only_receives => moved.1 >= bytes,
                Some(_) => workers.senders_ended(),
                None => clock::since(workers.start) >= end,
            };
            if over || workers.ended() || self.route.stop.is_ended() {
                return Ok(());
            }
            if clock::since(moved_at) > SILENCE {
                return Err(ClientEnd::Silence);
            }
            let left =
                if bytes.is_some() { BYTES_LOOK } else { end.saturating_sub(clock::since(workers.start)) };
            if let Some(state) =
                self.control.poll_state(POLL_INTERVAL.min(left).min(recorder.time_left()), self.route.stop)?
            {
                return Err(ClientEnd::State(state));
            }
        }
    }

    /// TEST_END was sent: what the server then wants, to its end.
    fn exchange(&mut self) -> Result<(), ClientEnd> {
        // The user's stop has been obeyed; from here on it only shortens the wait.
        let stopped = self.route.stop.is_ended();
        let (patience, none) = (if stopped { STOPPED_PATIENCE } else { PATIENCE }, Stop::new());
        let stop = if stopped { &none } else { self.route.stop };
        loop {
            match self.control.read_state(patience, stop)? {
                Iperf3State::ExchangeResults => {
                    let ours = results_of(&self.outcome);
                    self.control.send_json(&ours.to_json())?;
                    let theirs = self.control.read_json(RESULTS_BYTES, patience, stop)?;
                    let theirs = Results::from_json(&theirs).map_err(ClientEnd::Results)?;
                    take_results(&mut self.outcome, &theirs);
                }
                Iperf3State::DisplayResults => {
                    // What the server makes of our good-bye changes nothing.
                    let _ = self.control.send_state(Iperf3State::Done);
                    return Ok(());
                }
                // Sent before it read our TEST_END.
                Iperf3State::TestRunning | Iperf3State::TestStart => {}
                state => return Err(ClientEnd::State(state)),
            }
        }
    }

    /// Streams that failed, and buffers that were not granted.
    fn note_streams(&mut self) {
        let outcome = &mut self.outcome;
        for stream in &outcome.local {
            if let Some(error) = &stream.error {
                outcome.warnings.push(format!("stream {} ended early: {error}", stream.id));
            }
        }
        if let (Some(asked), Some((send, receive))) = (outcome.test.window_bytes, outcome.buffer_bytes)
            && send.min(receive) < asked
        {
            outcome.warnings.push(format!(
                "socket buffers of {asked} bytes were asked for, {send} (send) and {receive} (receive) \
                 granted: raise \
                 net.core.wmem_max and rmem_max"
            ));
        }
    }
}

/// Why a test ended before its time.
enum ClientEnd {
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
    fn ended_by_server(&mut self, state: Iperf3State) -> Failure {
        let why = self.words(state);
        Failure::Lacks(format!("iperf3 server {}: {why}", self.route.address))
    }

    fn words(&mut self, state: Iperf3State) -> String {
        match state {
            Iperf3State::AccessDenied => {
                "it is busy with another test: an iperf3 server runs one at a time; try again later".into()
            }
            Iperf3State::ServerTerminate => "it was stopped".into(),
            Iperf3State::ServerError => match self.control.read_error(STOPPED_PATIENCE, &Stop::new()) {
                Ok((number, errno)) => server_error(number, errno),
                Err(error) => format!("it refuses, and gives no reason: {error}"),
            },
            state => ControlError::Unexpected(state).to_string(),
        }
    }

    fn why(&mut self, end: ClientEnd) -> String {
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

fn unreachable(address: SocketAddr, error: &io::Error, stop: &Stop) -> Failure {
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

fn refused(address: SocketAddr, error: &ControlError) -> Failure {
    match error {
        ControlError::Stopped => Failure::Interrupted,
        error => Failure::Lacks(format!("iperf3 server {address}: {error}")),
    }
}

/// What a server means by SERVER_ERROR.
fn server_error(number: i32, errno: i32) -> String {
    let words = error_text(number);
    let kernel = match errno {
        0 => String::new(),
        errno => format!(" ({})", std::io::Error::from_raw_os_error(errno)),
    };
    match words {
        Some(words) => format!("the iperf3 server refuses: {words}{kernel}"),
        None => format!("the iperf3 server refuses with its error {number}{kernel}"),
    }
}

fn error_text(number: i32) -> Option<&'static str> {
    Some(match number {
        5 => "the test is longer than it allows; ask for fewer seconds",
        6 => "more streams than it allows; ask for fewer",
        7 => "the block size is beyond its bounds; ask for a smaller one",
        8 => "the socket buffer is larger than it allows; ask for a smaller one",
        10 => "the segment size is larger than it allows",
        12 => "the warm-up is longer than it allows",
        13 => "something that was asked for is not implemented there",
        20 => "the datagram size is beyond its bounds",
        25 => "reverse and bidirectional at once",
        27 => "the rate is above its limit (`--server-bitrate-limit`); ask for less",
        106 => "it did not get the whole cookie",
        107 | 108 => "its control connection failed",
        109 => "the control connection was closed",
        110 | 112 => "it got a control message that it does not know",
        114 => "it could not read the parameters",
        116 | 117 => "the results could not be exchanged",
        118 => "its select failed",
        120 => "it was terminated",
        121 => "it is busy with another test; try again later",
        122 => "it could not switch off Nagle's algorithm",
        123 => "it could not set the segment size",
        124 | 141 => {
            "it could not set the socket buffers; ask for a smaller window or raise net.core.{r,w}mem_max \
             there"
        }
        125..=127 => "it could not set the type of service or the flow label",
        128 | 136 => "it could not set up its listening socket",
        129 => "it could not make a socket non-blocking",
        130 => "it could not set the window",
        131 => "it does not know the protocol",
        134 => {
            "it does not have the congestion control that was asked for; `sysctl \
             net.ipv4.tcp_available_congestion_control` there"
        }
        140 => "it could not set the pacing",
        142 => "it wants a user and a password, which linerate does not send to an iperf3 server",
        144 => "it received nothing for too long",
        145 => "it could not forbid fragments",
        200 | 201 => "it could not make a stream",
        202 => "it could not listen for streams; is its port in use by another program?",
        203 | 204 => "a stream could not be opened",
        205 | 206 => "a stream could not be written to or read from",
        207 => "a stream closed unexpectedly",
        208 => "a stream has a number that it does not know",
        300 | 301 => "it could not make a timer",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_words_or_their_number() {
        assert!(server_error(134, 2).contains("congestion control"), "{}", server_error(134, 2));
        assert!(server_error(134, 2).contains("No such file") && server_error(12, 0).contains("warm-up"));
        assert!(server_error(27, 0).ends_with("ask for less"));
        assert!(server_error(-7, 0).contains("error -7"));
        for number in -10..400 {
            assert!(!server_error(number, -1).is_empty());
        }
    }
}
