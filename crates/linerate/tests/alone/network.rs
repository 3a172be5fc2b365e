//! `linerate network` on loopback: a rate that is kept, and UDP without a loss.

use crate::support::disk::measurements;
use crate::support::neighbours::undisturbed;
use crate::support::network::{QUICK, network};
use crate::support::process::Ends;

#[test]
fn a_rate_is_kept_and_found() {
    undisturbed("a rate that is kept", 2, || {
        let words = ["--protocol", "udp", "--direction", "send", "--rate", "400M", "--json"];
        let run = network(&[&QUICK[..], &words].concat()).ended().gives(0).json();
        let rate = measurements(&run)[0]["bytes_per_second"].as_f64().expect("a rate");
        assert!((0.9..1.1).contains(&(rate / 50e6)), "{rate}");
    });
}

#[test]
fn udp_loses_nothing_at_the_rate_that_is_found() {
    undisturbed("UDP without a loss", 2, || {
        let words = ["--protocol", "udp", "--direction", "send", "--no-latency", "--json"];
        let run = network(&[&QUICK[..], &words].concat()).ended().gives(0).json();
        let measurement = &measurements(&run)[0];
        assert!(
            measurement["bytes_per_second"].as_f64().is_some_and(|rate| rate > 1e6 / 8.0),
            "{measurement}"
        );
        let streams = measurement["streams"]["streams"].as_array().expect("streams");
        assert!(streams.iter().all(|stream| stream["lost"] == 0), "{measurement}");
        assert_eq!(streams[0]["samples"].as_array().map(Vec::len), Some(2), "{measurement}");
        let addresses = &streams[0]["addresses"];
        assert!(addresses[0].as_str().is_some_and(|own| own.starts_with("127.0.0.1:")), "{measurement}");
        assert!(addresses[1].as_str().is_some_and(|peer| peer.starts_with("127.0.0.1:")), "{measurement}");
        assert!(addresses[0] != addresses[1], "{measurement}");
    });
}
