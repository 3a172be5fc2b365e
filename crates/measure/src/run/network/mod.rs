//! `linerate network`: ways to the peers, RDMA where it is asked for, a short calibration, then each protocol in each
//! direction over all NICs at once; what each path carries in one packet, what a request takes beside the bulk, and both hosts'
//! counters before and after.

mod iperf3;
mod no_receiver;
mod rdma;
mod spec;
mod steps;
mod target;

use super::interrupt::cut_at_stop;
use super::{Run, RunContext, paths};
use crate::diagnose::ledger::ledgers;
use crate::measure::rdma::check_rdma;
use crate::measure::streams::StreamBench;
use crate::measure::{Stage, WindowSpec};
pub use iperf3::conduct_iperf3;
use linerate_facts::failure::Failure;
use linerate_model::plan::long_path::LossCount;
use linerate_model::plan::{flow::Method, path_rate};
use linerate_transport::agent::AgentSession;
pub use no_receiver::{NoReceiverSpec, conduct_no_receiver};
pub use spec::NetworkSpec;
use std::time::Duration;
use steps::Steps;

/// TCP and the UDP window find their rate in this time, seconds.
const WARM_UP_SECONDS: f64 = 0.5;

/// Does all of it. A `Failure` means that nothing was measured; what fails later is in `Run::errors`.
pub fn conduct_network(mut context: RunContext<'_>, spec: &NetworkSpec) -> Result<Run, Failure> {
    let machine = spec.probe(&mut context)?;
    let (sysroot, stop) = (context.sysroot, context.stop);
    let mut prepared = paths::prepare(sysroot, &machine, &spec.peers, spec.key_file.as_deref(), stop)?;
    let protocol = spec.protocols.first().copied().unwrap_or(linerate_facts::protocol::Protocol::Tcp);
    for path in &mut prepared.plans {
        path.rate = path_rate(&machine, path, protocol, Method::Direct);
    }
    context.say_devices(&machine, &prepared.plans, &[]);
    let mut run =
        Run::begin_stage(Stage::Network, spec.called(&prepared.plans), machine.clone(), spec.goal());
    (context.save)(&run)?;
    let loopback = paths::all_over_loopback(&machine, &prepared.plans);
    let bench = StreamBench {
        sysroot,
        machine: &machine,
        paths: &prepared.plans,
        sessions: &prepared.sessions,
        loopback,
        bind_device: spec.bind_device,
        trace_drops: spec.trace_drops,
        rate_limit: spec.rate_limit,
        idle: spec.idle,
        windows: WindowSpec {
            warm_up: Duration::from_secs_f64(WARM_UP_SECONDS),
            window: Duration::from_secs_f64(spec.seconds),
            repeats: spec.repeats.max(1),
        },
        losses: LossCount::default(),
        opened: Vec::new(),
        stop,
        listener: &mut *context.listener,
    };
    if spec.rdma {
        check_rdma(&bench)?;
    }
    let cutters = prepared.sessions.iter().filter_map(AgentSession::cutter).collect();
    cut_at_stop(cutters, stop, || {
        Steps { bench, spec, run: &mut run, save: &mut *context.save }.take();
    });
    finish(context, run, spec)
}

fn finish(mut context: RunContext<'_>, mut run: Run, spec: &NetworkSpec) -> Result<Run, Failure> {
    run.ledgers = ledgers(&run.measurements);
    if spec.verify {
        let unequal = unequal(&run);
        run.errors.extend(unequal);
    }
    context.finish(run)
}

/// Figures whose bytes did not arrive as they were sent.
fn unequal(run: &Run) -> Vec<String> {
    let streams = |measurement: &crate::measure::Measurement| {
        measurement
            .streams
            .as_ref()
            .map_or(0, |result| result.streams.iter().filter(|stream| stream.verified == Some(false)).count())
    };
    let wrong = run.measurements.iter().filter(|measurement| streams(measurement) > 0);
    wrong
        .map(|measurement| {
            format!(
                "{}: on {} of its streams the bytes that arrived are not those that were sent",
                measurement.name,
                streams(measurement)
            )
        })
        .collect()
}
