//! A stream of `put`, and what is asked before it, on a network without sockets and a simulated clock.

mod simulated;

use super::*;
use crate::tests::network::{self, Answering, Answers, FarEnd};
use crate::tests::server::head_of;
use linerate_system::clock::simulated::SimulatedClock;

/// To such a server files would go without their sums.
#[test]
fn a_busy_server_is_not_taken_for_one_of_another_kind() {
    let kind = |closes: &'static str| {
        let (clock, stop) = (SimulatedClock::new(), Stop::new());
        let _entered = clock.enter();
        let settings = ClientSettings::new(&stop, Duration::from_secs(5), 1 << 20, None, TlsTrust::default());
        let mut asked = 0;
        let answer = move |_: &_, answers: &mut Answers| {
            asked += 1;
            let busy = format!("Server: linerate/1\r\nRetry-After: 1\r\n{closes}Content-Length: 0\r\n");
            answers.push_back(match asked {
                1 => head_of(503, &busy),
                _ => head_of(200, "Linerate: list, put\r\nContent-Length: 0\r\n"),
            });
        };
        let accept = move || Some(Box::new(Answering(answer)) as Box<dyn FarEnd>);
        network::with(accept, || server_kind(&settings, &"http://10.1.1.1/".parse().expect("a URL")))
    };
    assert_eq!(kind("").expect("it answers"), ServerKind::Linerate);
    let full = kind("Connection: close\r\n").expect_err("all its connections are taken").to_string();
    assert!(full.contains("cannot do it now (503)"), "{full}");
}
