//! Streams of `linerate network`: tickets, refusals that leave the others running, places, counters.

use super::running::{RunningAgent, connect_stream, sample_when, spec, streams};
use linerate::agent::StreamTicket;
use linerate::flow::stream::{StreamRole, StreamSpec};
use linerate::protocol::Protocol;

#[test]
fn half_of_the_streams_refused_and_the_others_run() {
    let running = RunningAgent::start();
    let session = running.connect();
    let good = spec(Protocol::Tcp, StreamRole::Send);
    let bad = [
        StreamSpec { congestion_control: Some("no-such-control".into()), ..good.clone() },
        StreamSpec { write_bytes: 0, ..good.clone() },
        StreamSpec { bytes_per_second: Some(0.0), ..good.clone() },
        StreamSpec { datagram_bytes: 65_508, ..spec(Protocol::Udp, StreamRole::Receive) },
    ];
    let asked: Vec<StreamSpec> = bad.iter().flat_map(|bad| [good.clone(), bad.clone()]).collect();
    let opened = session.open(streams(asked)).expect("opened");
    let connected: Vec<_> =
        opened.iter().map(|ticket| connect_stream(&session, ticket, &good, None, None)).collect();
    let sample =
        sample_when(&session, |sample| sample.streams.iter().step_by(2).all(|stream| stream.bytes > 0));
    for (index, (stream, connected)) in sample.streams.iter().zip(&connected).enumerate() {
        assert_eq!(
            (connected.is_ok(), stream.ended, stream.error.is_none()),
            (index % 2 == 0, index % 2 == 1, index % 2 == 0),
            "{index}: {stream:?}"
        );
    }
    for (index, wanted) in [
        (1, "no congestion control “no-such-control”"),
        (3, "0 bytes a call"),
        (5, "one byte a second"),
        (7, "65508"),
    ] {
        let told = sample.streams[index].error.as_deref().expect("a reason");
        assert!(told.contains(wanted), "{told}");
        let ours = connected[index].as_ref().expect_err("refused").to_string();
        assert!(ours.contains(told), "{ours}");
    }
    let last = session.close().expect("closed");
    assert!(last.streams.len() == 8 && last.streams.iter().all(|stream| stream.ended), "{last:?}");
    running.awaits_load((1, 0, 0));
}

#[test]
fn a_stream_works_where_the_client_says() {
    let running = RunningAgent::start();
    let session = running.connect();
    assert_eq!(session.hello().interface_cores, [0, 1]);
    let pinned = StreamSpec { core: Some(1), ..spec(Protocol::Tcp, StreamRole::Send) };
    let opened = session.open(streams(vec![pinned.clone()])).expect("opened");
    let _stream = connect_stream(&session, &opened[0], &pinned, None, None).expect("a stream");
    let sample = sample_when(&session, |sample| sample.streams[0].bytes > 0);
    assert_eq!(sample.streams[0].calls, 2);
}

#[test]
fn a_stream_leaves_by_the_address_and_interface_that_it_shall() {
    let running = RunningAgent::start();
    let session = running.connect();
    let send = spec(Protocol::Tcp, StreamRole::Send);
    let opened = session.open(streams(vec![send.clone(); 3])).expect("opened");
    let local = Some(([127, 0, 0, 5], 0).into());
    let stream = connect_stream(&session, &opened[0], &send, local, None).expect("a stream");
    let linerate::flow::stream::StreamSocket::Tcp(stream) = stream else { panic!("TCP") };
    assert_eq!(stream.local_addr().expect("an address").ip().to_string(), "127.0.0.5");
    let foreign = Some("192.0.2.1:0".parse().expect("an address"));
    let text = connect_stream(&session, &opened[1], &send, foreign, None).expect_err("not ours").to_string();
    assert!(text.contains("192.0.2.1") && text.contains("no interface"), "{text}");
    let text =
        connect_stream(&session, &opened[2], &send, None, Some("no-such-nic")).expect_err("none").to_string();
    assert!(text.contains("no-such-nic"), "{text}");
    connect_stream(&session, &opened[2], &send, None, Some("lo"))
        .map(drop)
        .expect("since Linux 5.7 anybody may");
}

#[test]
fn the_host_s_counters_and_limits_are_reported() {
    let running = RunningAgent::start();
    let session = running.connect();
    let hello = session.hello();
    let controls = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    assert_eq!(hello.congestion_controls.join(" "), controls.unwrap_or_default().trim());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    assert_eq!(hello.kernel.as_deref(), Some(kernel.trim()));
    let before = session.counters().expect("counters");
    assert_eq!(before.interfaces.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["lo"]);
    let opened = session.open(streams(vec![spec(Protocol::Tcp, StreamRole::Send)])).expect("opened");
    let ticket = &opened[0];
    assert!(
        matches!(ticket, StreamTicket::Granted { udp_port: None, bytes_per_second: None, .. }),
        "{ticket:?}"
    );
    let _stream = connect_stream(&session, ticket, &spec(Protocol::Tcp, StreamRole::Receive), None, None);
    sample_when(&session, |sample| sample.streams[0].bytes > 0);
    let during = session.counters().expect("counters").since(&before);
    let segments = during.count("Tcp", "OutSegs");
    assert!(segments.is_some_and(|segments| segments > 0), "{during:?}");
}
