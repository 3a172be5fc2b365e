//! The running test of a session: its lanes and streams, from their tokens to their last samples.

use super::admission::Place;
use super::clients::{Rate, deal};
use super::host::congestion_controls;
use super::lane::{Lane, Receive, Work};
use super::protocol::{LaneTicket, OpenRequest, Opened, StreamTicket};
use super::secret::Token;
use super::server::Shared;
use super::{udp, wish};
use crate::flow::receive::Received;
use crate::flow::stream::{Role, StreamCounters, StreamSample, StreamSpec};
use crate::plan::Protocol;
use crate::sysroot::Sysroot;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Receivers that were asked to stop end by themselves within this; then their streams are cut.
const GENTLE_END: Duration = Duration::from_millis(700);
/// All threads have ended within this.
const END: Duration = Duration::from_millis(1700);
/// What the receiver of a UDP lane asks for, and what TCP's buffer may grow to: the memory of a lane.
const LANE_BYTES: u64 = 17 << 20;

/// Whose test it is, and on which clock and address.
#[derive(Clone, Copy)]
pub struct Whose {
    /// Our end of the control connection, as the client knows it.
    pub local: SocketAddr,
    /// The client's address.
    pub client: IpAddr,
    /// When its session began.
    pub start: Instant,
}

/// A test. Dropping it ends everything that it began.
pub struct Trial<'a> {
    shared: &'a Shared,
    whose: Whose,
    lanes: Vec<Arc<Lane>>,
    /// A stream, or why there is none.
    streams: Vec<Result<Arc<Lane>, String>>,
    began: Instant,
    _place: Place,
}

impl<'a> Trial<'a> {
    /// Gives every lane and stream its token. Lanes: all or none, so that a run is not of fewer than were asked for unnoticed;
    /// a stream that cannot be is told with its reason, and the others go on.
    pub fn open(
        shared: &'a Shared,
        sysroot: &Sysroot,
        whose: Whose,
        request: OpenRequest,
    ) -> Result<(Trial<'a>, Opened), String> {
        let bound = shared.settings.limits.lanes;
        let wanted = request.lanes.len() + request.streams.len();
        if !(1..=bound).contains(&wanted) {
            return Err(format!("{wanted} streams were asked for; it takes 1 to {bound} in one test"));
        }
        let place = shared.tests.take().ok_or_else(|| {
            format!("{} tests are running there already; wait until one has ended", shared.tests.bound())
        })?;
        let began = Instant::now();
        let mut trial = Trial { shared, whose, lanes: Vec::new(), streams: Vec::new(), began, _place: place };
        let mut opened = Opened::default();
        for lane in &request.lanes {
            opened.lanes.push(trial.open_lane(lane.protocol, &request)?);
        }
        opened.streams = trial.open_streams(request.streams, sysroot);
        Ok((trial, opened))
    }

    fn open_lane(&mut self, protocol: Protocol, request: &OpenRequest) -> Result<LaneTicket, String> {
        if let Some(limit) = self.shared.clients.limits().bytes_per_second {
            return Err(format!(
                "it holds each client to {}, and a run measures as fast as it goes: start the agent without --rate-limit, or \
                 measure with `linerate network`",
                crate::units::show_bits_rate(limit)
            ));
        }
        let received = Received::new(self.whose.start);
        let (verify, receive_buffer_bytes) = (request.verify, request.receive_buffer_bytes);
        let work = Work::Receive(Box::new(Receive { protocol, verify, receive_buffer_bytes, received }));
        let memory = receive_buffer_bytes.map_or(LANE_BYTES, |bytes| bytes.saturating_mul(2));
        let (lane, token, udp_port) = self.admit(work, memory, Rate::UNBOUND)?;
        self.lanes.push(lane);
        Ok(LaneTicket { token, udp_port })
    }

    fn open_streams(&mut self, specs: Vec<StreamSpec>, sysroot: &Sysroot) -> Vec<StreamTicket> {
        let controls = congestion_controls(sysroot);
        let checked: Vec<Result<(), String>> =
            specs.iter().map(|spec| wish::check(spec, &controls)).collect();
        let left = self.shared.clients.rate_left(self.whose.client).unwrap_or(f64::INFINITY);
        let wishes: Vec<f64> = specs
            .iter()
            .zip(&checked)
            .map(|(spec, checked)| checked.as_ref().map_or(0.0, |()| wish::rate(spec, left)))
            .collect();
        let dealt = deal(left, &wishes);
        let rates = wishes.into_iter().zip(dealt).map(|(wish, dealt)| Rate { wish, dealt });
        let tickets = specs.into_iter().zip(checked).zip(rates).map(|((spec, checked), rate)| match checked
            .and_then(|()| self.open_stream(spec, rate))
        {
            Ok((lane, ticket)) => {
                self.streams.push(Ok(lane));
                ticket
            }
            Err(why) => {
                self.streams.push(Err(why.clone()));
                StreamTicket::Refused { why }
            }
        });
        tickets.collect()
    }

    fn open_stream(&self, mut spec: StreamSpec, rate: Rate) -> Result<(Arc<Lane>, StreamTicket), String> {
        if self.shared.clients.limits().bytes_per_second.is_some() && spec.role == Role::Send {
            spec.bytes_per_second = Some(rate.dealt);
        }
        if !self.shared.settings.pin {
            spec.core = None;
        }
        let counters = Box::new(StreamCounters::new(self.whose.start));
        let memory = wish::memory_bytes(&spec);
        let (lane, token, udp_port) =
            self.admit(Work::Stream { spec: Box::new(spec), counters }, memory, rate)?;
        let bytes_per_second = lane.rate_limit();
        Ok((lane, StreamTicket::Granted { token, udp_port, bytes_per_second }))
    }

    /// Takes a place and a share for a data stream, and makes its token; over UDP also its socket and thread.
    fn admit(
        &self,
        work: Work,
        memory_bytes: u64,
        rate: Rate,
    ) -> Result<(Arc<Lane>, Token, Option<u16>), String> {
        let full = "all its streams are taken; wait until another client has finished";
        let place = self.shared.lanes.take().ok_or(full)?;
        let share = self.shared.clients.take(self.whose.client, memory_bytes, rate)?;
        let life = self.shared.settings.limits.token_life;
        let lane = Arc::new(Lane::new(work, self.whose.client, life, share, place));
        let token = Token::random().map_err(|error| format!("/dev/urandom cannot be read there: {error}"))?;
        let udp_port = match lane.protocol() {
            Protocol::Tcp => {
                self.shared.tokens.issue(token.clone(), lane.clone());
                None
            }
            Protocol::Udp => {
                let started = udp::start(&lane, token.clone(), self.whose.local, self.shared);
                Some(started.map_err(|error| {
                    format!(
                        "no UDP socket for it there: {error}; too many open files? Raise `ulimit -n` there"
                    )
                })?)
            }
        };
        Ok((lane, token, udp_port))
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Lane>> {
        self.lanes.iter().chain(self.streams.iter().flatten())
    }

    /// Looks after everything that has a time or a share.
    pub fn look_after(&self) {
        let over = self.shared.settings.limits.test_time.filter(|time| self.began.elapsed() >= *time);
        for lane in self.all() {
            lane.expire();
            lane.hold_to_share();
            if let Some(time) = over {
                lane.end(&format!(
                    "the test took longer than the {} s that the agent allows; start it there with a higher --time-limit",
                    time.as_secs_f64()
                ));
            }
        }
        let now = Instant::now();
        self.shared.tokens.withdraw(|lane| lane.expires <= now);
    }

    /// Datagrams go out of this host, to somebody who may be gone.
    pub fn sends_datagrams(&self) -> bool {
        self.streams.iter().flatten().any(|lane| match &lane.work {
            Work::Stream { spec, counters } => {
                spec.protocol == Protocol::Udp
                    && matches!(spec.role, Role::Send | Role::Ask)
                    && !counters.ended.load(std::sync::atomic::Ordering::Relaxed)
            }
            Work::Receive(_) => false,
        })
    }

    /// How far lanes and streams are, each in the order of the request.
    pub fn samples(&self) -> (Vec<super::LaneSample>, Vec<StreamSample>) {
        let lanes = self.lanes.iter().filter_map(|lane| match &lane.work {
            Work::Receive(receive) => Some(lane.sample(receive)),
            Work::Stream { .. } => None,
        });
        let streams = self.streams.iter().map(|stream| match stream {
            Ok(lane) => lane.stream_sample(),
            Err(why) => StreamSample { ended: true, error: Some(why.clone()), ..StreamSample::default() },
        });
        (lanes.collect(), streams.collect())
    }

    /// Takes back unused tokens, stops all threads, and cuts the streams of those that do not stop.
    pub fn end(&self) {
        let began = Instant::now();
        self.shared.tokens.withdraw(|lane| self.all().any(|ours| std::ptr::eq(&**ours, lane)));
        self.all().for_each(|lane| lane.stop());
        let all_ended = |deadline| self.all().all(|lane| lane.await_end(deadline));
        if !all_ended(began + GENTLE_END) {
            self.all().for_each(|lane| lane.cut());
            all_ended(began + END);
        }
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
