//! `linerate network` on loopback: a rate that is kept, and UDP without a loss.

use crate::support::neighbours::undisturbed;
use crate::support::network::{QUICK, measurements, network};
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
fn dashboards_of_iperf3_read_it() {
    undisturbed("UDP without a loss", 2, || {
        let words = ["--protocol", "udp", "--direction", "send", "--no-latency", "--output", "iperf3-json"];
        let output = network(&[&QUICK[..], &words].concat()).ended();
        let document = output.gives(0).json();
        let end = &document["end"];
        assert!(end["sum"]["bits_per_second"].as_f64().is_some_and(|rate| rate > 1e6), "{end}");
        assert_eq!(end["sum"]["lost_packets"], 0, "{end}");
        assert_eq!(document["intervals"].as_array().map(Vec::len), Some(2));
        let start = &document["start"];
        assert_eq!(start["test_start"]["protocol"], "UDP");
        assert_eq!(start["connecting_to"]["host"], "127.0.0.1", "{start}");
        let stream = &start["connected"][0];
        assert_eq!([&stream["local_host"], &stream["remote_host"]], ["127.0.0.1", "127.0.0.1"]);
        assert!(stream["local_port"] != stream["remote_port"], "{start}");
    });
}
