//! The network in windows: sessions to the peers stay, each window opens streams of its own, so that what
//! holds for new sockets shows.

use super::super::interrupt::cut_at_stop;
use super::super::paths;
use super::{FigureContext, FigureSpec, PreparedFigure, ProcessOptions};
use crate::event::Silent;
use crate::measure::WindowSpec;
use crate::measure::streams::{StreamBench, StreamDirection, StreamsJob, measure};
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_model::plan::long_path::LossCount;
use linerate_model::plan::{flow::Method, path_rate};
use linerate_transport::agent::AgentSession;
use std::time::Duration;

/// TCP and the UDP window find their rate in this share of a window, and in no less than the time.
const WARM_UP_SHARE: f64 = 0.3;
const WARM_UP_SECONDS: f64 = 0.15;

struct Streams<'a> {
    bench: StreamBench<'a>,
    job: StreamsJob,
}

impl PreparedFigure for Streams<'_> {
    fn take(&mut self, options: &ProcessOptions, _: bool) -> Result<f64, Failure> {
        for session in self.bench.sessions {
            // An agent that heard nothing for long hangs up; one that is gone shows below.
            let _ = session.sample();
        }
        let job = StreamsJob {
            pin: options.pin.clone(),
            bytes_per_second: options.bytes_per_second,
            ..self.job.clone()
        };
        let measured = measure(&mut self.bench, &job);
        match (measured.measurement, measured.failures.into_iter().next()) {
            _ if self.bench.stop.is_ended() => Err(Failure::Interrupted),
            (_, Some(why)) => Err(Failure::Lacks(why)),
            (Some(measurement), None) => Ok(measurement.bytes_per_second),
            (None, None) => Err(Failure::Lacks("no network rate was measured".into())),
        }
    }
}

/// Connects, works, hangs up.
pub(super) fn with<T>(
    place: FigureContext<'_>,
    protocol: Protocol,
    direction: StreamDirection,
    spec: &FigureSpec,
    work: impl FnOnce(&mut dyn PreparedFigure) -> T,
) -> Result<T, Failure> {
    let FigureContext { sysroot, machine, stop } = place;
    let mut prepared = paths::prepare(sysroot, machine, &spec.peers, spec.key_file.as_deref(), stop)?;
    for path in &mut prepared.plans {
        path.rate = path_rate(machine, path, protocol, Method::Direct);
    }
    let loopback = paths::all_over_loopback(machine, &prepared.plans);
    let mut silent = Silent;
    let bench = StreamBench {
        sysroot,
        machine,
        paths: &prepared.plans,
        sessions: &prepared.sessions,
        loopback,
        bind_device: false,
        trace_drops: false,
        rate_limit: None,
        idle: false,
        windows: WindowSpec {
            warm_up: Duration::from_secs_f64((spec.seconds * WARM_UP_SHARE).max(WARM_UP_SECONDS)),
            window: Duration::from_secs_f64(spec.seconds),
            repeats: 1,
        },
        losses: LossCount::default(),
        opened: Vec::new(),
        stop,
        listener: &mut silent,
    };
    let job = StreamsJob { streams: prepared.plans.len() as u32, ..StreamsJob::plain(protocol, direction) };
    let cutters = prepared.sessions.iter().filter_map(AgentSession::cutter).collect();
    cut_at_stop(cutters, stop, || Ok(work(&mut Streams { bench, job })))
}
