//! `linerate network`: ways to the peers, a short calibration, then each protocol in each direction over all NICs at once; what each path
//! carries in one packet, what a request takes beside the bulk, and both hosts' counters before and after.

mod iperf3;
mod order;
mod steps;

use super::cut::cut_at_stop;
use super::disk::Save;
use super::{StageRun, paths};
use crate::agent::Session;
use crate::diagnose::ledger::ledgers;
use crate::diagnose::stream_findings;
use crate::event::{Event, Listener};
use crate::failure::Failure;
use crate::measure::streams::Bench;
use crate::measure::{Stage, Windows};
use crate::plan::{PathPlan, path_rate};
use crate::probe::{Machine, probe};
use crate::sysroot::Sysroot;
pub use iperf3::conduct_iperf3;
pub use order::NetworkOrder;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use steps::Steps;

/// TCP and the UDP window find their rate in this time, seconds.
const WARM_UP_SECONDS: f64 = 0.5;

/// Does all of it. A `Failure` means that nothing was measured; what fails later is in `StageRun::errors`.
pub fn conduct_network(
    sysroot: &Sysroot,
    order: &NetworkOrder,
    stop: &AtomicBool,
    listener: &mut dyn Listener,
    save: Save<'_>,
) -> Result<StageRun, Failure> {
    listener.hear(&Event::Step("probe"));
    let machine = probe(sysroot);
    order.check(&machine)?;
    if let Some(name) = &order.congestion_control {
        paths::check_congestion_control(sysroot, name)?;
    }
    let mut ways = paths::prepare(sysroot, &machine, &order.peers, order.key_file.as_deref(), stop)?;
    let protocol = order.protocols.first().copied().unwrap_or(crate::plan::Protocol::Tcp);
    for path in &mut ways.plans {
        path.rate = path_rate(&machine, path, protocol);
    }
    let mut run = StageRun::begin(Stage::Network, order.called(&ways.plans), machine.clone());
    save(&run)?;
    let loopback = ways.plans.iter().all(|path| over_loopback(&machine, path));
    let bench = Bench {
        sysroot,
        machine: &machine,
        paths: &ways.plans,
        sessions: &ways.sessions,
        loopback,
        bind_device: order.bind_device,
        trace_drops: order.trace_drops,
        windows: Windows {
            warm_up: Duration::from_secs_f64(WARM_UP_SECONDS),
            window: Duration::from_secs_f64(order.seconds),
            repeats: order.repeats.max(1),
        },
        opened: Vec::new(),
        stop,
        listener,
    };
    let cutters = ways.sessions.iter().filter_map(Session::cutter).collect();
    cut_at_stop(cutters, stop, || {
        Steps { bench, order, run: &mut run, save }.take();
    });
    finish(run, order, stop, save)
}

/// An address of this very host leads over loopback, whoever named it: no NIC takes part.
fn over_loopback(machine: &Machine, path: &PathPlan) -> bool {
    machine.nics.iter().any(|nic| nic.loopback && path.nic.as_ref() == Some(&nic.name))
}

fn finish(
    mut run: StageRun,
    order: &NetworkOrder,
    stop: &AtomicBool,
    save: Save<'_>,
) -> Result<StageRun, Failure> {
    if run.measurements.is_empty() {
        return Err(match run.errors.into_iter().next() {
            Some(first) if !stop.load(Ordering::Relaxed) => Failure::Lacks(first),
            _ => Failure::Interrupted,
        });
    }
    if stop.load(Ordering::Relaxed) {
        run.errors.push("interrupted: what was measured until then is here".into());
    }
    run.ledgers = ledgers(&run.measurements);
    run.findings = stream_findings(&run.measurements);
    for found in run.ledgers.iter().flat_map(|one| &one.ledger.findings) {
        // The same fault shows in several figures: once is enough.
        if !run.findings.iter().any(|known| known.id == found.id) {
            run.findings.push(found.clone());
        }
    }
    if order.verify {
        run.errors.extend(unequal(&run));
    }
    if let Err(failure) = save(&run) {
        run.errors.push(failure.to_string());
    }
    Ok(run)
}

/// Figures whose bytes did not arrive as they were sent.
fn unequal(run: &StageRun) -> Vec<String> {
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
