//! Findings about the streams of `linerate network`: congestion control, what the paths carry, buffers, bytes
//! that changed on the way.

use super::super::product::{Finding, Severity};
use crate::measure::Measurement;
use crate::measure::statistics::{self, SampleComparison};
use crate::measure::streams::{MethodTrial, PathMtu, StreamsResult};
use linerate_facts::units::{show_bits_rate_within, show_size};
use serde_json::json;

/// Another congestion control is worth a word from here on.
const FASTER: f64 = 1.15;
/// A receive buffer below this share of rate × round trip holds TCP.
const SHORT: f64 = 0.9;

/// Pure; each thing once, however many figures show it.
pub(crate) fn stream_findings(measurements: &[Measurement]) -> Vec<Finding> {
    let results: Vec<(&Measurement, &StreamsResult)> =
        measurements.iter().filter_map(|one| Some((one, one.streams.as_deref()?))).collect();
    let mut findings = Vec::new();
    findings.extend(measurements.iter().find_map(|one| congestion_control(&one.congestion_controls)));
    if let Some((_, first)) = results.first() {
        findings.extend(first.path_mtus.iter().filter_map(path_mtu));
    }
    findings.extend(results.iter().find_map(|(measurement, result)| receiver_window(measurement, result)));
    findings.extend(results.iter().find_map(|(measurement, result)| changed(measurement, result)));
    findings
}

/// A trial's rate, with its interval where it has one.
fn rate_of(trial: &MethodTrial) -> String {
    show_bits_rate_within(trial.bytes_per_second, trial.interval().map(|within| [within.low, within.high]))
}

/// `congestion-control`: tried in turns with the system's, another one is faster, and their intervals do not meet.
pub(super) fn congestion_control(trials: &[MethodTrial]) -> Option<Finding> {
    let system = trials.iter().find(|trial| trial.congestion_control.is_none())?;
    let others = trials.iter().filter(|trial| trial.congestion_control.is_some());
    let best = others.max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))?;
    let name = best.congestion_control.as_deref()?;
    if best.bytes_per_second < FASTER * system.bytes_per_second || system.bytes_per_second <= 0.0 {
        return None;
    }
    let compared = statistics::compare_intervals(system.interval(), best.interval());
    if !matches!(compared, SampleComparison::Higher | SampleComparison::TooFewSamples) {
        return None;
    }
    Some(Finding::slow("congestion-control", format!(
            "on this path a TCP stream reaches {} with {name} and {} with the system's congestion control, \
             tried in turns",
            rate_of(best),
            rate_of(system)
        )).evidence(json!({ "trials": trials })).remedy(format!(
            "on the sender: `linerate tune apply --setting tcp-congestion-control={name}` (or `sysctl -w \
             net.ipv4.tcp_congestion_control={name}`), or for one route `ip route change … congctl {name}`; \
             on long paths with loss measure again, there the other may win"
        )).gain(best.bytes_per_second - system.bytes_per_second))
}

/// `path-mtu`: less arrives in one packet than both interfaces allow.
fn path_mtu(path: &PathMtu) -> Option<Finding> {
    let declared = path.declared_bytes()?;
    let unequal = path.ours_bytes.zip(path.theirs_bytes).is_some_and(|(ours, theirs)| ours != theirs);
    if !path.smaller_than_declared() && !unequal && path.found_bytes.is_some() {
        return None;
    }
    let evidence = json!(path);
    let (ours, theirs) = (path.ours_bytes.unwrap_or(declared), path.theirs_bytes.unwrap_or(declared));
    let (severity, text) = match path.found_bytes {
        Some(found) if found < declared && path.black_hole => (
            Severity::Loss,
            format!(
                "{}: packets above {found} bytes vanish and nobody says so (a black hole), though the \
                 interfaces allow {declared}",
                path.path
            ),
        ),
        Some(found) if found < declared => (
            Severity::Slow,
            format!(
                "{}: the path carries packets of {found} bytes, the interfaces at its ends {declared}",
                path.path
            ),
        ),
        None => (
            Severity::Loss,
            format!("{}: not even the smallest UDP packets arrive: does a firewall drop them?", path.path),
        ),
        Some(_) => (
            Severity::Slow,
            format!(
                "{}: the MTU is {ours} here and {theirs} there; the smaller one is all that arrives",
                path.path
            ),
        ),
    };
    Some(Finding::new(severity, "path-mtu", text).evidence(evidence).remedy(format!(
        "one MTU on both hosts and every switch and tunnel between them (`ip link set {} mtu …`); until \
             then the smaller one here; \
             let ICMP “fragmentation needed” pass the firewalls",
        path.path
    )))
}

/// `tcp-receive-buffer`: the receiver's buffer is smaller than what must be under way.
fn receiver_window(measurement: &Measurement, result: &StreamsResult) -> Option<Finding> {
    let held = result.streams.iter().find(|stream| {
        let granted = stream.buffers.receive_granted_bytes as f64;
        let limited = stream.tcp.as_ref().is_some_and(|tcp| {
            tcp.busy_micros > 0 && tcp.receiver_limited_micros as f64 > 0.3 * tcp.busy_micros as f64
        });
        let needed = stream.buffers.needed_bytes.unwrap_or(0) as f64;
        limited && result.job.receive_buffer_bytes.is_some() && granted < SHORT * needed
    })?;
    let needed = held.buffers.needed_bytes?;
    Some(
        Finding::slow(
            "tcp-receive-buffer",
            format!(
                "“{}”: the receiver's buffer of {} holds TCP; rate × round trip is {}",
                measurement.name,
                show_size(held.buffers.receive_granted_bytes),
                show_size(needed)
            ),
        )
        .evidence(json!(held.buffers))
        .remedy(
            "leave --window away, then the kernel sizes it up to the third figure of \
                 net.ipv4.tcp_rmem; raise that: on the receiver, `linerate tune apply --finding \
                 tcp-receive-buffer`",
        ),
    )
}

/// `bytes-changed`: what arrived is not what was sent.
fn changed(measurement: &Measurement, result: &StreamsResult) -> Option<Finding> {
    let wrong = result.streams.iter().filter(|stream| stream.verified == Some(false)).count();
    (wrong > 0).then(|| {
        Finding::loss(
            "bytes-changed",
            format!(
                "“{}”: on {wrong} of {} streams the checksum of what arrived is not that of what was sent",
                measurement.name,
                result.streams.len()
            ),
        )
        .evidence(json!({ "measurement": measurement.name, "streams": wrong }))
        .remedy(
            "something on the way changes payload: a faulty NIC or offload (`ethtool -K … tx off rx \
                 off`, then measure again), memory, or a \
                 middlebox",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::streams::SendMethod;

    #[test]
    fn another_congestion_control_is_named_only_beyond_the_spread_of_its_turns() {
        let trial = |name: Option<&str>, samples: &[f64]| MethodTrial {
            method: SendMethod::Write,
            write_bytes: 512 << 10,
            congestion_control: name.map(String::from),
            bytes_per_second: samples[samples.len() / 2],
            samples: samples.to_vec(),
            cpu_seconds_per_gb: 0.1,
            by_peer: false,
            chosen: false,
        };
        let finds = |system: &[f64], other: &[f64]| {
            congestion_control(&[trial(None, system), trial(Some("bbr"), other)])
        };
        let found = finds(&[12.0e6, 12.2e6, 12.4e6], &[36.0e6, 36.1e6, 36.2e6]).expect("a finding");
        assert!(found.text.contains("bbr") && found.text.contains("289 ± "), "{}", found.text);
        assert!(
            finds(&[12.0e6, 12.2e6, 12.4e6], &[13.0e6, 13.1e6, 13.2e6]).is_none(),
            "7 % are not worth it"
        );
        assert!(finds(&[8e6, 12e6, 20e6], &[12e6, 20e6, 36e6]).is_none(), "the intervals meet");
    }
}
