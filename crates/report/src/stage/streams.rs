//! Streams in words: what to know of a figure, what was tried, how a rate
//! was found.

use crate::figure::{count, percent, quantity, seconds_word};
use linerate_facts::printable::printable;
use linerate_facts::protocol::Protocol;
use linerate_facts::units::{show_bits_rate, show_bits_rate_within, show_size};
use linerate_facts::wording::counted;
use linerate_measure::measure::statistics::{self, SampleComparison};
use linerate_measure::measure::streams::{MethodTrial, StreamFigure, StreamsResult};
use linerate_measure::measure::{LimitedBy, Measurement, StreamTrial};

/// What held it, flags, and what the datagrams tell.
pub(super) fn remarks(measurement: &Measurement) -> Vec<String> {
    let limited_by = measurement.held_by.map(LimitedBy::words);
    let mut remarks: Vec<String> = limited_by.map(String::from).into_iter().collect();
    let Some(result) = measurement.streams.as_deref() else { return remarks };
    let sum = |of: fn(&StreamFigure) -> u64| result.streams.iter().map(of).fold(0, u64::saturating_add);
    for (count, word) in [
        (sum(|s| s.reordered), "reordered"),
        (sum(|s| s.duplicated), "duplicated"),
        (sum(|s| s.foreign), "foreign"),
    ] {
        if count > 0 {
            remarks.push(format!("{count} {word}"));
        }
    }
    let jitter = result.streams.iter().map(|stream| stream.jitter_seconds).fold(0.0, f64::max);
    if jitter > 0.0 {
        remarks.push(format!("jitter {}", seconds_word(jitter)));
    }
    let copied: Vec<_> = result.streams.iter().filter_map(|stream| stream.zerocopy).collect();
    if !copied.is_empty() {
        let (sends, copies) = copied
            .iter()
            .fold((0u64, 0u64), |(s, c), z| (s.saturating_add(z.sends), c.saturating_add(z.copied)));
        remarks.push(format!("{:.0} % without a copy", 100.0 * (1.0 - copies as f64 / sends.max(1) as f64)));
    }
    if result.streams.iter().any(|stream| stream.verified == Some(true)) {
        let wrong = result.streams.iter().filter(|stream| stream.verified == Some(false)).count();
        remarks.push(if wrong == 0 { "checksums agree".into() } else { format!("{wrong} checksums differ") });
    }
    let known = ["core-saturated", "loss"];
    let flags = measurement.flags.iter().filter(|flag| !known.contains(&flag.as_str()));
    remarks.extend(flags.map(|flag| printable(flag)));
    remarks
}

/// What the NIC counted where nobody receives.
pub(super) fn at_nic(result: &StreamsResult) -> Option<String> {
    let nic = result.at_nic.as_ref()?;
    let sum = |of: fn(&StreamFigure) -> u64| result.streams.iter().map(of).fold(0, u64::saturating_add);
    let (datagrams, trains) = (sum(|one| one.sent_datagrams), sum(|one| one.trains));
    let mut text = format!(
        "{} packets ({}) left by {}, of {} datagrams ({} of payload) that were sent; its queueing disciplines \
         dropped {}; nobody counts what arrived",
        count(nic.packets),
        show_size(nic.bytes),
        printable(&nic.interface),
        count(datagrams),
        show_size(sum(|one| one.sent_bytes)),
        count(nic.qdisc_drops)
    );
    if trains > 0 && nic.packets < datagrams / 2 {
        text += "; it counts a train of datagrams as one packet, as virtual NICs do";
    }
    if nic.unreachable > 0 {
        text += &format!(
            "; {} answers said that nobody listens on the port (ICMP), which is as it should be",
            count(nic.unreachable)
        );
    }
    Some(text)
}

/// The most of each protocol over everything at once, and what was lost; none where no streams were measured.
pub(super) fn sentence(measurements: &[Measurement]) -> Option<String> {
    let most = |protocol: Protocol| {
        let of = measurements.iter().filter(|m| m.streams.is_some() && m.protocol == Some(protocol));
        of.max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
    };
    let lines: Vec<String> = [Protocol::Tcp, Protocol::Udp]
        .into_iter()
        .filter_map(most)
        .map(|m| {
            let least = if m.lower_bound { "≥ " } else { "" };
            format!("{least}{} ({})", show_bits_rate(m.bytes_per_second), printable(&m.name))
        })
        .collect();
    let udp = || measurements.iter().filter(|m| m.streams.is_some() && m.protocol == Some(Protocol::Udp));
    let worst = udp().map(|m| m.loss).fold(0.0, f64::max);
    let lost = match udp().next() {
        None => String::new(),
        // Nobody was there to tell.
        Some(_) if udp().all(|m| m.streams.as_ref().is_some_and(|result| result.at_nic.is_some())) => {
            " left; nobody received it".into()
        }
        Some(_) if worst == 0.0 => "; no datagram was lost".into(),
        Some(_) => format!("; up to {} of the datagrams were lost", percent(worst)),
    };
    (!lines.is_empty()).then(|| format!("The most was {}{lost}.", lines.join(" and ")))
}

/// `sendfile of 1 MiB 94.1 Gb/s at 0.06 CPU s/GB (chosen), send of …`.
pub(super) fn methods(trials: &[MethodTrial]) -> String {
    let one = |trial: &MethodTrial| {
        let chosen = if trial.chosen { ", chosen" } else { "" };
        let by = if trial.by_peer { " by the peer" } else { "" };
        format!(
            "{} of {}{by} {} ({} CPU s/GB{chosen})",
            trial.method.word(),
            show_size(u64::from(trial.write_bytes)),
            show_bits_rate(trial.bytes_per_second),
            quantity(trial.cpu_seconds_per_gb)
        )
    };
    trials.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// `the system's 97.0 ± 4 Mb/s, bbr 289 ± 3 Mb/s: bbr carries more`; nothing where none was compared.
pub(super) fn congestion_controls(trials: &[MethodTrial]) -> Option<String> {
    let name = |trial: &MethodTrial| trial.congestion_control.clone().unwrap_or("the system's".into());
    let rate = |trial: &MethodTrial| {
        let within = trial.interval().map(|within| [within.low, within.high]);
        format!("{} {}", name(trial), show_bits_rate_within(trial.bytes_per_second, within))
    };
    let system = trials.iter().find(|trial| trial.congestion_control.is_none())?;
    let others = trials.iter().filter(|trial| trial.congestion_control.is_some());
    let best = others.max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))?;
    let more = match statistics::compare_intervals(system.interval(), best.interval()) {
        SampleComparison::Higher => format!("{} carries more", name(best)),
        SampleComparison::Lower => "the system's carries more".into(),
        SampleComparison::NoDifferenceShown => "no difference shown".into(),
        SampleComparison::TooFewSamples => "too few windows to say which carries more".into(),
    };
    let all: Vec<String> = trials.iter().map(rate).collect();
    Some(format!("{}: {more}", all.join(", ")))
}

/// `1 stream 60.1 Mb/s, 0.1 % lost; 4 streams 221 Mb/s, 0.1 % lost (chosen)`; nothing where none was tried.
pub(super) fn stream_trials(trials: &[StreamTrial]) -> Option<String> {
    let one = |trial: &StreamTrial| {
        let pace = trial.pacing_bytes_per_second.map(show_bits_rate);
        let pace = pace.map_or(String::new(), |rate| format!(" paced at {rate} each"));
        format!(
            "{}{pace} {}, {} lost{}",
            counted(trial.streams, "stream"),
            show_bits_rate(trial.bytes_per_second),
            percent(trial.loss_share),
            if trial.chosen { " (chosen)" } else { "" }
        )
    };
    (!trials.is_empty()).then(|| trials.iter().map(one).collect::<Vec<_>>().join("; "))
}

/// The highest rate without loss, and in how many trials it was found.
pub(super) fn search(measurement: &Measurement, result: &StreamsResult) -> Option<String> {
    let search = result.search.as_ref()?;
    let failed = search.trials.iter().filter(|trial| !trial.passed);
    let lowest = failed.map(|trial| trial.offered).fold(f64::INFINITY, f64::min);
    let above = if lowest.is_finite() {
        format!(", and at {} not all arrives", show_bits_rate(lowest))
    } else {
        String::new()
    };
    let name = printable(&measurement.name);
    Some(match search.highest {
        Some(highest) => {
            format!(
                "{name}: {} without loss{above} ({} trials)",
                show_bits_rate(highest),
                search.trials.len()
            )
        }
        None => format!("{name}: no rate passed without loss{above} ({} trials)", search.trials.len()),
    })
}

/// Segments that were retransmitted, over all streams whose end reports it; none where no end does.
pub(crate) fn retransmits(result: &StreamsResult) -> Option<u64> {
    let counts = result.streams.iter().filter_map(|stream| Some(stream.tcp.as_ref()?.retransmits));
    counts.reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_measure::measure::streams::SendMethod;

    fn trial(congestion_control: Option<&str>, megabits: &[f64]) -> MethodTrial {
        MethodTrial {
            method: SendMethod::Write,
            write_bytes: 512 << 10,
            congestion_control: congestion_control.map(String::from),
            bytes_per_second: megabits[megabits.len() / 2] * 125e3,
            samples: megabits.iter().map(|rate| rate * 125e3).collect(),
            cpu_seconds_per_gb: 0.1,
            by_peer: false,
            chosen: false,
        }
    }

    #[test]
    fn congestion_controls_differ_where_their_intervals_do_not_meet() {
        let words = |system: &[f64], other: &[f64]| {
            congestion_controls(&[trial(None, system), trial(Some("bbr"), other)]).expect("words")
        };
        let more = words(&[95.0, 97.0, 99.0], &[287.0, 289.0, 291.0]);
        assert!(more.starts_with("the system's 97.0 ± "), "{more}");
        assert!(more.contains(", bbr 289 ± ") && more.ends_with(": bbr carries more"), "{more}");
        let less = words(&[287.0, 289.0, 291.0], &[95.0, 97.0, 99.0]);
        assert!(less.ends_with(": the system's carries more"), "{less}");
        let none = words(&[60.0, 97.0, 130.0], &[80.0, 120.0, 140.0]);
        assert!(none.ends_with(": no difference shown"), "{none}");
        assert!(words(&[97.0], &[289.0]).contains("too few windows"));
        assert_eq!(congestion_controls(&[]), None);
    }
}
