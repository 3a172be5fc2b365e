//! What somebody who holds the key can say: malformed requests are answered with a reason, and the session
//! goes on.

use super::running::RunningAgent;
use super::versions::connect;

#[test]
fn malformed_requests_are_answered_and_the_session_goes_on() {
    let running = RunningAgent::start();
    let mut line = connect(&running);
    line.says("{\"ask\":\"hello\",\"protocol\":3,\"version\":\"x\"}");
    assert!(line.hears().contains("\"answer\":\"hello\""));
    let stream = "\"protocol\":\"tcp\",\"role\":\"send\",\"method\":\"write\",\"write_bytes\":1,\
                  \"datagram_bytes\":64,\"verify\":false";
    let many = format!("{{\"ask\":\"open\",\"streams\":[{}]}}", vec![format!("{{{stream}}}"); 257].join(","));
    let worker = |protocol: &str, sink: &str| {
        let worker = stream.replace("tcp", protocol).replace("send\"", "worker\"");
        format!("{{\"ask\":\"open\",\"streams\":[{{{worker}}}],{sink}}}")
    };
    for (request, answer) in [
        ("", "not understood"),
        ("null", "not understood"),
        ("{}", "not understood"),
        ("{\"ask\":\"format\"}", "not understood"),
        ("{\"ask\":\"open\",\"streams\":7}", "not understood"),
        ("{\"ask\":\"open\",\"streams\":[{}]}", "not understood"),
        ("{\"ask\":\"open\",\"streams\":[{\"protocol\":\"sctp\"}]}", "not understood"),
        (&format!("{{\"ask\":\"open\",\"streams\":[{{{stream},\"core\":-1}}]}}"), "not understood"),
        (
            &format!("{{\"ask\":\"open\",\"streams\":[{{{stream},\"send_buffer_bytes\":1e99}}]}}"),
            "not understood",
        ),
        ("{\"ask\":\"open\"}", "0 streams were asked for"),
        ("{\"ask\":\"open\",\"streams\":[]}", "0 streams were asked for"),
        (&many, "257 streams were asked for"),
        ("{\"ask\":\"hello\",\"protocol\":3,\"version\":\"x\"}", "a second hello"),
        (
            "{\"ask\":\"counters\",\"interfaces\":[\"../../etc\",\"\\u0000\",\"no-such-nic\"]}",
            "\"answer\":\"counters\"",
        ),
        (
            &format!(
                "{{\"ask\":\"open\",\"streams\":[{{{stream},\"send_buffer_bytes\":18446744073709551615}}]}}"
            ),
            "refused",
        ),
        // What has to do with a sink, where there is none.
        ("{\"ask\":\"close\"}", "\"answer\":\"closed\""),
        ("{\"ask\":\"settle\"}", "\"answer\":\"sample\""),
        (&worker("tcp", "\"sink\":\"everything\""), "not understood"),
        (&worker("tcp", "\"sink\":\"receive\",\"sink_workers\":-1"), "not understood"),
        (&worker("tcp", "\"sink\":\"write-alone\""), "agent --sink DIR"),
        (&worker("udp", "\"sink\":\"receive\""), "TCP only"),
        ("{\"ask\":\"close\"}", "\"answer\":\"closed\""),
        (
            &format!(
                "{{\"ask\":\"open\",\"streams\":[{{{stream},\"bytes_per_second\":-1.0,\"core\":4294967295}}]}}"
            ),
            "refused",
        ),
    ] {
        line.says(request);
        let heard = line.hears();
        assert!(heard.contains(answer), "{request}: {heard}");
    }
    line.says("{\"ask\":\"close\"}");
    assert!(line.hears().contains("\"answer\":\"closed\""));
    line.says("{\"ask\":\"sample\"}");
    assert!(line.hears().contains("\"answer\":\"sample\""), "as if nothing had been");
    running.awaits_load((1, 0, 0));
}

#[test]
fn a_request_beyond_all_measure_ends_its_session_alone() {
    let running = RunningAgent::start();
    let (session, mut line) = (running.connect(), connect(&running));
    line.says("{\"ask\":\"hello\",\"protocol\":3,\"version\":\"x\"}");
    line.hears();
    // Parts without an end: memory grows to the limit of a request, no further.
    let gone = (0..20).any(|_| line.part(&[b' '; 60_000]).is_err() || line.closed());
    assert!(gone);
    running.awaits_load((1, 0, 0));
    session.sample().expect("the other session goes on");
}
