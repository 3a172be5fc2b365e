//! Socket buffers of a client's streams, within the memory that one may take.

use super::Iperf3Limits;
use crate::iperf3::TestDirection;
use crate::iperf3::open::udp_buffer_bytes;
use crate::iperf3::parameters::Parameters;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;

/// A receiver that is read no faster than a limit holds so much of a second: more would only hide from the
/// sender that it must wait.
const HELD_SECONDS: f64 = 0.05;
const LEAST_HELD_BYTES: u64 = 128 << 10;

/// Streams of a test, both ways.
pub(super) fn streams(parameters: &Parameters) -> u32 {
    let ways = if parameters.direction == TestDirection::Both { 2 } else { 1 };
    parameters.parallel.max(1) * ways
}

/// What one stream may ask for, in each direction, bytes: the kernel grants twice that (socket(7)).
pub(super) fn most(parameters: &Parameters, limits: &Iperf3Limits) -> u64 {
    limits.buffer_bytes / u64::from(streams(parameters)) / 4
}

/// What to ask for of one direction of a stream; none: TCP may size its buffer by itself, for all that it may
/// grow to is within the limit.
pub(super) fn wanted(parameters: &Parameters, limits: &Iperf3Limits, sender: bool) -> Option<u64> {
    let most = most(parameters, limits);
    match (parameters.protocol, parameters.window_bytes) {
        (Protocol::Udp, window) => Some((udp_buffer_bytes(window, parameters.parallel) as u64).min(most)),
        (Protocol::Tcp, Some(window)) => Some(window.min(most)),
        (Protocol::Tcp, None) => {
            let for_rate = limits.bits_per_second.filter(|_| !sender).map(|bits| {
                let for_rate = bits as f64 / 8.0 * HELD_SECONDS / f64::from(streams(parameters));
                (for_rate as u64).max(LEAST_HELD_BYTES)
            });
            let free = (grows_to(sender) / 2 > most).then_some(most);
            match (for_rate, free) {
                (Some(for_rate), Some(free)) => Some(for_rate.min(free)),
                (for_rate, free) => for_rate.or(free),
            }
        }
    }
}

/// What TCP may size a buffer to, bytes (tcp(7): the third of tcp_rmem and tcp_wmem); where it cannot be
/// read, anything.
fn grows_to(sender: bool) -> u64 {
    let name = if sender { "tcp_wmem" } else { "tcp_rmem" };
    let text = Sysroot::live().text(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    text.split_whitespace().nth(2).and_then(|word| word.parse().ok()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Parameters {
        Parameters::from_json(&serde_json::from_str(text).expect("JSON")).expect("parameters")
    }

    #[test]
    fn whatever_is_asked_for_all_buffers_fit_the_limit() {
        for limit in [1 << 20, 64 << 20, 256 << 20] {
            let limits = Iperf3Limits { buffer_bytes: limit, ..Iperf3Limits::default() };
            for text in [
                r#"{"udp":true,"time":1,"len":1000,"parallel":64}"#,
                r#"{"udp":true,"time":1,"len":1000,"parallel":1,"window":500000000}"#,
                r#"{"tcp":true,"time":1,"parallel":128}"#,
                r#"{"tcp":true,"time":1,"parallel":8,"bidirectional":1,"window":100000000}"#,
                r#"{"tcp":true,"time":1,"parallel":1}"#,
            ] {
                let parameters = asked(text);
                // Granted: twice what is asked for; TCP's own: what it may grow to.
                let granted =
                    |sender| wanted(&parameters, &limits, sender).map_or(grows_to(sender), |bytes| 2 * bytes);
                let all = u64::from(streams(&parameters)) * (granted(true) + granted(false));
                assert!(all <= limit, "{text}: {all} of {limit}");
            }
        }
    }

    #[test]
    fn a_receiver_under_a_rate_holds_little() {
        let limits = Iperf3Limits { bits_per_second: Some(80_000_000), ..Iperf3Limits::default() };
        let parameters = asked(r#"{"tcp":true,"time":1,"parallel":2}"#);
        assert_eq!(wanted(&parameters, &limits, false), Some(250_000));
    }
}
