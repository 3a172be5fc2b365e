//! One client's test, from its parameters to its results.

use super::admit::{self, Gate, NotAdmitted, admit};
use super::{Arrived, CookieShown, Iperf3Limits, ServerEvent, SharedPhase, test_request};
use crate::admission::canonical;
use crate::flow::rate_limit::{Allowance, CATCH_UP};
use crate::iperf3::TestDirection;
use crate::iperf3::control::{Control, ControlError, Cookie, Iperf3State, PARAMETERS_BYTES, RESULTS_BYTES};
use crate::iperf3::data::Iperf3StreamSpec;
use crate::iperf3::figures::{CpuMeter, Results, TestOutcome, results_of, take_results};
use crate::iperf3::parameters::{Iperf3Refusal, Parameters, number};
use crate::iperf3::running::Recorder;
use crate::iperf3::workers::Iperf3Workers;
use linerate_facts::protocol::Protocol;
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::stop::Stop;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, UNIX_EPOCH};

/// Of a stream, a second each: those of ten minutes.
const MOST_INTERVALS: usize = 600;

/// A client that says nothing when its time is up gets this much more: iperf3 allows four seconds for each
/// change of state.
const GRACE: Duration = Duration::from_secs(20);
/// What the client sent before its word that this was all, gets this long to arrive, and no more comes when
/// nothing came for `QUIET`.
const SETTLE: Duration = Duration::from_millis(400);
const QUIET: Duration = Duration::from_millis(30);
/// For a good-bye, which changes nothing.
const FAREWELL: Duration = Duration::from_secs(2);
/// More than this over the limit, and so much ahead of it, is not a matter of bursts.
const OVER_RATE: f64 = 1.1;
const AHEAD: Duration = Duration::from_millis(250);
const TCP_BLOCK_BYTES: u32 = 128 << 10;
const UDP_BLOCK_BYTES: u32 = 1460;
/// Blocks of all streams together.
const BLOCK_MEMORY: u32 = 64 << 20;

/// A client and its test.
pub(super) struct ServerTest<'a> {
    control: Control,
    client: SocketAddr,
    limits: &'a Iperf3Limits,
    stop: &'a Stop,
    hear: &'a mut dyn FnMut(&ServerEvent),
}

/// Why a test ended before its time: what the client is told, and words.
struct TestEnd {
    tell: LastMessage,
    why: String,
}

enum LastMessage {
    Nothing,
    Terminated,
    Error(i32, i32),
}

impl From<ControlError> for TestEnd {
    fn from(error: ControlError) -> TestEnd {
        TestEnd { tell: LastMessage::Nothing, why: error.to_string() }
    }
}

impl From<Iperf3Refusal> for TestEnd {
    fn from(refusal: Iperf3Refusal) -> TestEnd {
        TestEnd { tell: LastMessage::Error(refusal.number, 0), why: refusal.why }
    }
}

impl From<NotAdmitted> for TestEnd {
    fn from(error: NotAdmitted) -> TestEnd {
        TestEnd { tell: LastMessage::Error(error.number, error.errno), why: error.why }
    }
}

fn refuse<T>(number: i32, why: impl Into<String>) -> Result<T, TestEnd> {
    Err(TestEnd { tell: LastMessage::Error(number, 0), why: why.into() })
}

impl ServerTest<'_> {
    /// Serves one client to its end, whatever that is.
    pub(crate) fn serve(
        cookie_shown: CookieShown,
        limits: &Iperf3Limits,
        phase: &SharedPhase,
        streams: &Receiver<Arrived>,
        stop: &Stop,
        hear: &mut dyn FnMut(&ServerEvent),
    ) {
        let CookieShown { stream, client, cookie } = cookie_shown;
        let client = canonical(client);
        let Ok(control) = Control::new(stream) else { return };
        let mut session = ServerTest { control, client, limits, stop, hear };
        if let Err(ended) = session.run(cookie, phase, streams) {
            tracing::info!(%client, why = ended.why, "iperf3 test refused");
            session.tell(&ended.tell);
            (session.hear)(&ServerEvent::Refused { client, why: ended.why });
        }
    }

    fn tell(&mut self, tell: &LastMessage) {
        // Who is gone hears nothing.
        let _ = match tell {
            LastMessage::Nothing => Ok(()),
            LastMessage::Terminated => self.control.send_state(Iperf3State::ServerTerminate),
            LastMessage::Error(number, errno) => self.control.send_error(*number, *errno),
        };
    }

    /// An error: no test took place.
    fn run(
        &mut self,
        cookie: Cookie,
        phase: &SharedPhase,
        streams: &Receiver<Arrived>,
    ) -> Result<(), TestEnd> {
        self.control.send_state(Iperf3State::ParamExchange)?;
        let message = self.control.read_json(PARAMETERS_BYTES, self.limits.message, self.stop)?;
        let parameters = self.within_limits(Parameters::from_json(&message)?)?;
        let gate = Gate::open(parameters.protocol, &self.control, cookie, streams, phase)?;
        self.control.send_state(Iperf3State::CreateStreams)?;
        let streams = admit(gate, &mut self.control, &parameters, self.limits, self.stop)?;
        let wanted = test_request(&parameters);
        let mut outcome = TestOutcome {
            cookie: cookie.text(),
            started: clock::date().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            addresses: self.control.local().ok().map(canonical).zip(Some(self.client)),
            peer_version: wanted.client_version.clone(),
            segment_bytes: self.control.segment_bytes(),
            test: wanted.test.clone(),
            ..TestOutcome::default()
        };
        tracing::info!(client = %self.client, "iperf3 test begins");
        (self.hear)(&ServerEvent::Started { client: self.client, parameters: Box::new(wanted) });
        self.control.send_state(Iperf3State::TestStart)?;
        self.control.send_state(Iperf3State::TestRunning)?;
        let cpu = CpuMeter::start();
        let workers = Iperf3Workers::start(streams, &stream_spec(&parameters, self.limits));
        let workers =
            workers.or_else(|error| refuse(number::STREAM_ACCEPT, format!("streams cannot run: {error}")))?;
        self.measure(workers, &cpu, &parameters, &mut outcome);
        (self.hear)(&ServerEvent::Ended(Box::new(outcome)));
        Ok(())
    }

    /// What is not allowed is refused by the number that iperf3 has for it.
    fn within_limits(&self, parameters: Parameters) -> Result<Parameters, TestEnd> {
        let limits = self.limits;
        if parameters.parallel > limits.streams {
            return refuse(
                number::STREAMS,
                format!("{} streams, at most {} are allowed", parameters.parallel, limits.streams),
            );
        }
        let seconds = parameters.seconds + parameters.omit_seconds;
        if seconds > limits.seconds {
            return refuse(number::DURATION, format!("{seconds} s, at most {} are allowed", limits.seconds));
        }
        let streams = u64::from(admit::streams(&parameters));
        if let Some(limit) = limits.bits_per_second
            && parameters.bits_per_second.saturating_mul(streams) > limit
        {
            return refuse(number::TOTAL_RATE, format!("more than the {limit} b/s that are allowed"));
        }
        Ok(parameters)
    }

    fn measure(
        &mut self,
        mut workers: Iperf3Workers,
        cpu: &CpuMeter,
        parameters: &Parameters,
        outcome: &mut TestOutcome,
    ) {
        let omit = Duration::from_secs_f64(parameters.omit_seconds);
        let recorder = Recorder::new(&workers, parameters.protocol, omit, Duration::from_secs(1));
        let mut recorder = recorder.keeping(MOST_INTERVALS);
        outcome.buffer_bytes = workers.members.first().and_then(|member| member.buffer_bytes());
        let tcp = workers.members.first().and_then(|member| member.tcp());
        outcome.congestion_local = tcp.map(|tcp| tcp.congestion_control).filter(|name| !name.is_empty());
        let result = self.watch(&workers, &mut recorder, parameters);
        let ended = clock::since(workers.start);
        outcome.cpu_local = cpu.used();
        workers.stop_sending(Duration::ZERO);
        // What lies in our buffers the client will not read any more: sent is what arrived.
        let arrived: Vec<Option<u64>> =
            workers.members.iter().map(|member| member.acknowledged_bytes()).collect();
        workers.close_senders();
        if result.is_ok() && parameters.direction != TestDirection::Receive {
            workers.drain(QUIET, SETTLE);
        }
        workers.end();
        outcome.local = recorder.finish(&workers, ended);
        for (stream, arrived) in outcome.local.iter_mut().zip(arrived) {
            if let Some(arrived) = arrived.filter(|_| stream.sender && parameters.omit_seconds == 0.0) {
                stream.bytes = stream.bytes.min(arrived);
            }
            if let Some(error) = &stream.error {
                outcome.warnings.push(format!("stream {} ended early: {error}", stream.id));
            }
        }
        if let Err(ended) = result.and_then(|()| self.exchange(outcome)) {
            self.tell(&ended.tell);
            outcome.error = Some(format!("iperf3 client {}: {}", self.client, ended.why));
        }
    }

    /// Until the client says that this was all.
    fn watch(
        &mut self,
        workers: &Iperf3Workers,
        recorder: &mut Recorder,
        parameters: &Parameters,
    ) -> Result<(), TestEnd> {
        let asked = if parameters.seconds > 0.0 { parameters.seconds } else { self.limits.seconds };
        let longest = Duration::from_secs_f64((asked + parameters.omit_seconds).min(1e9)) + GRACE;
        let (mut moved, mut moved_at) = (0, clock::now());
        let limit = self.limits.bits_per_second;
        let allowance = limit.map(|limit| Allowance::new(limit as f64 / 8.0 * OVER_RATE, workers.start));
        loop {
            if let Some(state) =
                self.control.poll_state(POLL_INTERVAL.min(recorder.time_left()), self.stop)?
            {
                return match state {
                    Iperf3State::TestEnd => Ok(()),
                    Iperf3State::ClientTerminate => {
                        Err(TestEnd { tell: LastMessage::Nothing, why: "it was stopped".into() })
                    }
                    state => Err(ControlError::Unexpected(state).into()),
                };
            }
            if let Some(progress) = recorder.tick(workers) {
                (self.hear)(&ServerEvent::Progress(progress));
            }
            let now: u64 = workers.counted().iter().map(|counted| counted.bytes).sum();
            if now != moved {
                let more = now.saturating_sub(moved);
                if let (Some(allowance), Some(limit)) = (&allowance, limit)
                    && allowance.charge(more, clock::now()) > AHEAD
                {
                    return refuse(number::TOTAL_RATE, format!("more than the {limit} b/s that are allowed"));
                }
                (moved, moved_at) = (now, clock::now());
            }
            if clock::since(moved_at) > self.limits.idle {
                return refuse(number::IDLE, "no stream moved a byte for too long");
            }
            if self.stop.is_ended() || clock::since(workers.start) > longest {
                let why = if self.stop.is_ended() { "stopped here" } else { "its time was up" };
                return Err(TestEnd { tell: LastMessage::Terminated, why: why.into() });
            }
        }
    }

    fn exchange(&mut self, outcome: &mut TestOutcome) -> Result<(), TestEnd> {
        let patience = self.limits.message.max(Duration::from_secs(1));
        self.control.send_state(Iperf3State::ExchangeResults)?;
        let theirs = self.control.read_json(RESULTS_BYTES, patience, self.stop)?;
        let theirs = Results::from_json(&theirs).or_else(|why| refuse(number::RECEIVE_RESULTS, why))?;
        self.control.send_json(&results_of(outcome).to_json())?;
        take_results(outcome, &theirs);
        self.control.send_state(Iperf3State::DisplayResults)?;
        // IPERF_DONE, or nothing: the test is over in any case.
        let _ = self.control.read_state(FAREWELL, self.stop);
        Ok(())
    }
}

fn stream_spec(parameters: &Parameters, limits: &Iperf3Limits) -> Iperf3StreamSpec {
    let streams = admit::streams(parameters);
    let block_bytes = match parameters.protocol {
        Protocol::Tcp => {
            parameters.block_bytes.unwrap_or(TCP_BLOCK_BYTES).clamp(1, (BLOCK_MEMORY / streams).max(64 << 10))
        }
        Protocol::Udp => parameters.block_bytes.unwrap_or(UDP_BLOCK_BYTES),
    };
    let share = limits.bits_per_second.map(|limit| (limit / u64::from(streams)).max(1));
    let bits_per_second = match (parameters.bits_per_second, share) {
        (0, share) => share.unwrap_or(0),
        (asked, share) => share.map_or(asked, |share| asked.min(share)),
    };
    let receive_pace = share.map(|share| {
        let receivers = f64::from(parameters.parallel.max(1));
        let rate = share as f64 / 8.0 * receivers;
        Arc::new(Allowance::new(rate, clock::now()).with_credit(CATCH_UP))
    });
    Iperf3StreamSpec {
        block_bytes: block_bytes as usize,
        bits_per_second,
        receive_pace,
        wide_counters: parameters.wide_counters,
        receive_batch: (64 / streams as usize).clamp(1, 16),
        cores: Vec::new(),
        bytes: None,
    }
}
