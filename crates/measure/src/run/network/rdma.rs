//! The figures by RDMA of `linerate network --protocol rdma`: each path in each direction, one after another. Those of
//! TCP follow, so that both are side by side.

use super::NetworkSpec;
use super::steps::Steps;
use crate::event::Event;
use crate::measure::rdma::{RdmaError, RdmaJob, measure_rdma};
use crate::measure::streams::StreamDirection;
use linerate_facts::failure::Failure;

/// Of one message, where nobody names it: perftest's own.
const MESSAGE_BYTES: u32 = 64 << 10;

impl Steps<'_, '_> {
    pub(super) fn rdma_figures(&mut self) {
        if !self.spec.rdma {
            return;
        }
        for direction in self.spec.directions.clone() {
            for path in 0..self.bench.paths.len() {
                if self.stopped() {
                    return;
                }
                let job = job(self.spec, direction);
                match measure_rdma(&mut self.bench, path, &job) {
                    Ok(measurement) => self.keep_figure(measurement),
                    Err(RdmaError::Stopped) => return,
                    Err(why) => {
                        let failure = format!("{} rdma {direction}: {why}", self.bench.paths[path].name);
                        self.bench.listener.hear(&Event::Failed(failure.clone()));
                        self.run.errors.push(failure);
                    }
                }
            }
        }
    }
}

fn job(spec: &NetworkSpec, direction: StreamDirection) -> RdmaJob {
    RdmaJob {
        direction,
        seconds: spec.seconds.ceil() as u32,
        repeats: spec.repeats.max(1),
        queue_pairs: spec.streams.unwrap_or(1),
        message_bytes: spec.write_bytes.unwrap_or(MESSAGE_BYTES),
    }
}

impl NetworkSpec {
    /// What perftest cannot do is said before anything is connected.
    pub(super) fn check_rdma(&self) -> Result<(), Failure> {
        if !self.rdma {
            return Ok(());
        }
        let with = [
            (self.rate_limit.is_some(), "--rate-limit"),
            (self.bytes_per_second.is_some(), "--rate"),
            (self.verify, "--verify"),
            (self.source.is_some(), "--source"),
        ];
        if let Some((_, option)) = with.iter().find(|(given, _)| *given) {
            return Err(Failure::Usage(format!(
                "--protocol rdma has perftest move memory as fast as it goes, for which there is no {option}; leave one of \
                 the two away"
            )));
        }
        if self.peers.is_empty() {
            return Err(Failure::Usage(
                "--protocol rdma needs another host: start `linerate agent` there and name it with --peer"
                    .into(),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_facts::protocol::Protocol;
    use linerate_model::plan::Pin;

    fn spec() -> NetworkSpec {
        NetworkSpec {
            name: None,
            peers: vec!["192.0.2.7".into()],
            key_file: None,
            protocols: vec![Protocol::Tcp],
            rdma: true,
            directions: vec![StreamDirection::Send],
            streams: Some(4),
            source: None,
            method: None,
            write_bytes: None,
            datagram_bytes: None,
            bytes_per_second: None,
            rate_limit: None,
            idle: false,
            find_rate: false,
            congestion_control: None,
            window_bytes: None,
            pin: vec![Pin::Auto],
            skip_receive_copy: false,
            verify: false,
            latency: false,
            bind_device: false,
            trace_drops: false,
            seconds: 0.5,
            repeats: 3,
        }
    }

    #[test]
    fn perftest_is_given_whole_seconds_and_the_streams_as_queue_pairs() {
        let job = job(&spec(), StreamDirection::Receive);
        assert_eq!((job.seconds, job.repeats, job.queue_pairs, job.message_bytes), (1, 3, 4, 65536));
    }

    #[test]
    fn what_perftest_cannot_do_is_refused() {
        assert!(spec().check_rdma().is_ok());
        let why = |spec: NetworkSpec| spec.check_rdma().expect_err("refused").to_string();
        assert!(why(NetworkSpec { rate_limit: Some(1e6), ..spec() }).contains("there is no --rate-limit"));
        assert!(why(NetworkSpec { verify: true, ..spec() }).contains("there is no --verify"));
        assert!(why(NetworkSpec { peers: Vec::new(), ..spec() }).contains("name it with --peer"));
        let without = NetworkSpec { rdma: false, peers: Vec::new(), verify: true, ..spec() };
        assert!(without.check_rdma().is_ok());
    }
}
