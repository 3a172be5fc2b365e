//! RDMA in words: what it moved beside what its NIC's rate leaves, and beside TCP.

use linerate_facts::fact::Fact;
use linerate_facts::printable::printable;
use linerate_facts::protocol::Protocol;
use linerate_facts::units::{show_bits_rate, show_size};
use linerate_measure::measure::Measurement;
use linerate_measure::measure::rdma::RdmaFigure;
use linerate_measure::measure::streams::StreamDirection;

/// `eth0 rdma send: 97.6 Gb/s, 98 % of the 100 Gb/s that the NIC's rate leaves for it; 2.1 × TCP's 46.3 Gb/s`; none
/// of a figure that is not of RDMA.
pub(super) fn beside(all: &[Measurement], measurement: &Measurement) -> Option<String> {
    let figure = measurement.rdma.as_deref()?;
    let rate = measurement.bytes_per_second;
    let name = printable(&measurement.name);
    let ceiling = match &figure.ceiling_bytes_per_second {
        Fact::Known(most) if *most > 0.0 => format!(
            ", {} of the {} that the NIC's rate leaves for it",
            crate::figure::percent(rate / most),
            show_bits_rate(*most)
        ),
        Fact::Known(_) => String::new(),
        Fact::Unknown { why } => {
            format!("; what the NIC's rate leaves for it is unknown: {}", printable(why))
        }
    };
    let tcp = tcp(all, figure);
    let tcp =
        tcp.map(|tcp| format!("; {} × TCP's {}", crate::figure::quantity(rate / tcp), show_bits_rate(tcp)));
    Some(format!("{name}: {}{ceiling}{}", show_bits_rate(rate), tcp.unwrap_or_default()))
}

/// What it was measured with, and between what.
pub(super) fn devices(measurement: &Measurement) -> Option<String> {
    let figure = measurement.rdma.as_deref()?;
    let packets = figure.packet_bytes.map(|bytes| format!(", packets of {}", show_size(bytes.into())));
    let (method, layer) = (printable(&measurement.method), printable(&figure.link_layer));
    Some(format!("{}: {method}, {layer}{}", printable(&measurement.name), packets.unwrap_or_default()))
}

/// TCP from memory on the same path in the same direction, bytes per second.
fn tcp(all: &[Measurement], figure: &RdmaFigure) -> Option<f64> {
    let of_path = |measurement: &Measurement| {
        let result = measurement.streams.as_deref()?;
        let same = measurement.protocol == Some(Protocol::Tcp) && !measurement.with_file;
        if !same || result.job.direction != figure.direction {
            return None;
        }
        let is_way =
            |way: StreamDirection| figure.direction == StreamDirection::Both || way == figure.direction;
        let paths = result.paths.iter().filter(|path| path.name == figure.path && is_way(path.direction));
        let rate: f64 = paths.map(|path| path.bytes_per_second).sum();
        (rate > 0.0).then_some(rate)
    };
    all.iter().find_map(of_path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_measure::measure::Stage;
    use linerate_measure::measure::streams::{PathFigure, StreamsJob, StreamsResult};

    fn rdma(ceiling: Fact<f64>) -> Measurement {
        let figure = RdmaFigure {
            path: "eth0".into(),
            direction: StreamDirection::Send,
            program: "ib_write_bw".into(),
            device: "mlx5_0".into(),
            peer_device: "mlx5_2".into(),
            link_layer: "Ethernet".into(),
            queue_pairs: 1,
            message_bytes: 65536,
            messages: 558_000,
            packet_bytes: Some(4096),
            ceiling_bytes_per_second: ceiling,
        };
        Measurement {
            stage: Stage::Network,
            name: "eth0 rdma send".into(),
            method: "ib_write_bw of perftest".into(),
            bytes_per_second: 12.2e9,
            rdma: Some(Box::new(figure)),
            ..Measurement::default()
        }
    }

    fn tcp(path: &str, direction: StreamDirection, bytes_per_second: f64) -> Measurement {
        let path = PathFigure {
            name: path.into(),
            direction,
            streams: 1,
            bytes_per_second,
            samples: Vec::new(),
            loss: 0.0,
        };
        let result =
            StreamsResult::plain(StreamsJob::plain(Protocol::Tcp, direction), vec![path], Vec::new());
        Measurement {
            protocol: Some(Protocol::Tcp),
            bytes_per_second,
            streams: Some(Box::new(result)),
            ..Measurement::default()
        }
    }

    #[test]
    fn rdma_is_shown_beside_its_ceiling_and_tcp() {
        let measured = rdma(Fact::Known(12.5e9));
        let all = [
            measured.clone(),
            tcp("eth0", StreamDirection::Receive, 1e9),
            tcp("eth1", StreamDirection::Send, 2e9),
            tcp("eth0", StreamDirection::Send, 6.1e9),
        ];
        let words = beside(&all, &measured).expect("words");
        assert_eq!(
            words,
            "eth0 rdma send: 97.6 Gb/s, 98 % of the 100 Gb/s that the NIC's rate leaves for it; 2.00 × TCP's 48.8 Gb/s"
        );
        assert_eq!(beside(&all, &all[1]), None);
        let devices = devices(&measured).expect("words");
        assert_eq!(devices, "eth0 rdma send: ib_write_bw of perftest, Ethernet, packets of 4 KiB");
    }

    #[test]
    fn what_is_not_known_is_said_with_its_reason() {
        let measured = rdma(Fact::unknown("no rate of eth0 is known"));
        let words = beside(std::slice::from_ref(&measured), &measured).expect("words");
        assert!(
            words.ends_with("what the NIC's rate leaves for it is unknown: no rate of eth0 is known"),
            "{words}"
        );
    }
}
