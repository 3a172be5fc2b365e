//! iperf3's client: connects, asks, opens the streams, lets them run, and exchanges results.

mod failure;
mod measure;

use super::control::Control;
use super::data_stream::{DataStream, Iperf3StreamSpec};
use super::figures::CpuMeter;
use super::figures::{IntervalProgress, TestOutcome};
use super::open::Route;
use super::parameters::Parameters;
use super::state::{Cookie, Iperf3State};
use super::workers::{Iperf3Workers, stream_id};
use super::{Iperf3Test, TestDirection};
use failure::{refused, unreachable};
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_system::clock;
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
                state => return Err(self.told(state)),
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
