//! A test of our own from the first byte to the results.

use super::failure::{ClientEnd, HURRY, SILENCE};
use super::{ClientSession, PATIENCE};
use crate::iperf3::control::RESULTS_BYTES;
use crate::iperf3::exchange::{results, take_results};
use crate::iperf3::figures::CpuMeter;
use crate::iperf3::figures::IntervalProgress;
use crate::iperf3::results::Results;
use crate::iperf3::running::Recorder;
use crate::iperf3::state::Iperf3State;
use crate::iperf3::workers::Iperf3Workers;
use linerate_facts::protocol::Protocol;
use linerate_system::clock::{self, POLL_INTERVAL};
use linerate_system::stop::Stop;
use std::time::Duration;

/// The same where bytes end the test.
const BYTES_LOOK: Duration = Duration::from_millis(2);
/// What was sent gets this long to arrive before the server is told that it was all.
const SETTLE: Duration = Duration::from_millis(250);
/// UDP: datagrams take another way than the word that ends the test. Long enough for a queue, short beside a
/// test.
const UDP_SETTLE: Duration = Duration::from_millis(5);
/// Nothing more comes when nothing came for so long.
const QUIET: Duration = Duration::from_millis(30);

impl ClientSession<'_> {
    /// From the first byte to the results.
    pub(super) fn measure(
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
        let (patience, none) = (if stopped { HURRY } else { PATIENCE }, Stop::new());
        let stop = if stopped { &none } else { self.route.stop };
        loop {
            match self.control.read_state(patience, stop)? {
                Iperf3State::ExchangeResults => {
                    let ours = results(&self.outcome);
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
