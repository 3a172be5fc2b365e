//! `linerate network --iperf3`: the same figures against an iperf3 server, so that linerate is needed at one
//! end only.

use super::{NetworkSpec, finish};
use crate::event::Event;
use crate::measure::Stage;
use crate::measure::streams::{StreamDirection, from_iperf3};
use crate::run::{Run, RunContext, ends};
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_model::plan::{Goal, PathPlan, Pin, place_streams};
use linerate_transport::iperf3::{Iperf3Test, TestDirection as Way, parse_address, run_client};
use std::time::Duration;

/// A server that was there a moment ago is asked again so often, after this pause.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(250);

/// Each protocol in each direction. A `Failure` means that nothing was measured; what fails later is in
/// `Run::errors`.
pub fn conduct_iperf3(mut context: RunContext<'_>, spec: &NetworkSpec, server: &str) -> Result<Run, Failure> {
    let address = parse_address(server)?;
    let machine = spec.probe(&mut context)?;
    let (stop, listener) = (context.stop, &mut *context.listener);
    let path = ends::way_to(context.sysroot, &machine, address);
    let name = spec.name.clone().unwrap_or_else(|| format!("iperf3 at {address}"));
    let goal = Goal { peers: vec![server.to_string()], ..spec.goal() };
    let mut run = Run::begin_stage(Stage::Network, name, machine, goal);
    (context.save)(&run)?;
    let loopback = address.ip().is_loopback();
    let [pin] = spec.pin.as_slice() else {
        return Err(Failure::Usage("--pin: to iperf3 each figure is taken one way; give one of them".into()));
    };
    let placed =
        place_streams(&run.machine, std::slice::from_ref(&path), spec.streams.unwrap_or(1), 1, pin, loopback);
    let cores: Vec<u32> = placed.iter().flatten().filter_map(|place| place.core).collect();
    for protocol in spec.protocols.clone() {
        for direction in &spec.directions {
            if stop.is_ended() {
                break;
            }
            let test = test(spec, &path, protocol, *direction, &cores);
            let name = format!("{} {protocol} {direction}, iperf3", path.name);
            listener.hear(&Event::Started { stage: Stage::Network, name, seconds: test.seconds });
            let mut hear = |progress: &linerate_transport::iperf3::IntervalProgress| {
                let bytes_per_second = progress.sent_bytes_per_second + progress.received_bytes_per_second;
                listener.hear(&Event::Progress { stage: Stage::Network, bytes_per_second });
            };
            let mut outcome = run_client(address, None, &test, stop, &mut hear);
            // Between two tests an old iperf3 closes its port for a moment.
            let mut left = if run.measurements.is_empty() { 0 } else { TRIES };
            while outcome.is_err() && left > 0 && !stop.wait(PAUSE) {
                outcome = run_client(address, None, &test, stop, &mut hear);
                left -= 1;
            }
            match outcome {
                Ok(outcome) => {
                    run.errors
                        .extend(outcome.error.iter().map(|why| format!("{protocol} {direction}: {why}")));
                    run.measurements.push(from_iperf3(&outcome, &path));
                    run.iperf3.push(outcome);
                    // Where this fails, so does the save at the end, which is an error of the run.
                    let _ = (context.save)(&run);
                }
                Err(Failure::Usage(why)) => return Err(Failure::Usage(why)),
                Err(failure) => run.errors.push(failure.to_string()),
            }
        }
    }
    finish(context, run, spec)
}

fn test(
    spec: &NetworkSpec,
    path: &PathPlan,
    protocol: Protocol,
    direction: StreamDirection,
    cores: &[u32],
) -> Iperf3Test {
    let streams = spec.streams.unwrap_or(1);
    let ways = if direction == StreamDirection::Both { 2.0 } else { 1.0 };
    let rates = [spec.bytes_per_second, spec.rate_limit.map(|limit| limit / ways)];
    Iperf3Test {
        protocol,
        direction: match direction {
            StreamDirection::Send => Way::Send,
            StreamDirection::Receive => Way::Receive,
            StreamDirection::Both => Way::Both,
        },
        parallel: streams,
        seconds: spec.seconds * f64::from(spec.repeats),
        block_bytes: if protocol == Protocol::Tcp { spec.write_bytes } else { spec.datagram_bytes },
        window_bytes: spec.window_bytes,
        bits_per_second: rates
            .into_iter()
            .flatten()
            .reduce(f64::min)
            .map(|rate| linerate_facts::units::bits_per_second(rate) as u64 / u64::from(streams)),
        congestion_control: spec.congestion_control.clone().filter(|_| protocol == Protocol::Tcp),
        device: path.nic.clone().filter(|_| spec.bind_device),
        cores: if spec.pin.contains(&Pin::None) { Vec::new() } else { cores.to_vec() },
        interval_seconds: spec.seconds,
        ..Iperf3Test::default()
    }
}
