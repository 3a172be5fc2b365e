//! Servers that mean our client no good: it ends with a clear word, soon, and with the figures that it has.

use super::peers::{Theirs, short};
use crate::support::rights::there;
use linerate::failure::Failure;
use linerate::iperf3::{Iperf3Test, TestOutcome, run_client};
use linerate::protocol::Protocol;
use linerate_system::stop::Stop;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A server that does `serve` with its first connection, the cookie read, and with its listener.
fn server(serve: impl FnOnce(TcpStream, TcpListener) + Send + 'static) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.read_exact(&mut [0; 37]).expect("a cookie");
        serve(stream, listener);
    });
    (address, thread)
}

fn client(address: SocketAddr) -> Result<TestOutcome, Failure> {
    run_client(address, None, &short(Protocol::Tcp), &Stop::new(), &mut |_| {})
}

/// What our client says to these bytes in place of a test.
fn refusal(answer: &'static [u8]) -> String {
    let (address, thread) = server(move |mut stream, _| {
        let _ = stream.write_all(answer);
        // Until the client goes.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let error = client(address).expect_err("no test");
    thread.join().expect("the server");
    assert_eq!(error.exit_status(), 3);
    let text = error.to_string();
    assert!(text.contains(&address.to_string()), "{text}");
    text
}

#[test]
fn refusals_are_reported_in_words() {
    assert!(refusal(&[0xff]).contains("busy with another test"), "{}", refusal(&[0xff]));
    assert!(refusal(&[0xfe, 0, 0, 0, 27, 0, 0, 0, 0]).contains("above its limit"));
    assert!(refusal(&[0xfe, 0, 0, 0, 134, 0, 0, 0, 2]).contains("congestion control"));
    assert!(refusal(&[0xfe, 0xff, 0xff, 0xff, 0xff, 0x80, 0, 0, 0]).contains("error -1"));
    assert!(refusal(&[11]).contains("stopped"));
    assert!(refusal(b"HTTP/1.1 400 Bad Request\r\n\r\n").contains("something else listening"));
    // States that a server never sends, or not then.
    for state in [2u8, 4, 12, 13, 14, 16] {
        assert!(refusal(Vec::leak(vec![state])).contains("where iperf3 sends another"), "{state}");
    }
}

#[test]
fn nobody_there_is_reported_with_the_remedy() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let text = client(address).expect_err("nobody").to_string();
    assert!(text.contains("iperf3 -s"), "{text}");
    let (address, thread) = server(|stream, _| drop(stream));
    let text = client(address).expect_err("gone").to_string();
    assert!(text.contains("closed the control connection"), "{text}");
    thread.join().expect("the server");
}

#[test]
fn a_silent_server_is_left_when_the_user_stops() {
    let (address, thread) = server(|mut stream, _| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let stop = Arc::new(Stop::new());
    let later = Arc::clone(&stop);
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        later.end();
        Instant::now()
    });
    let answer = run_client(address, None, &short(Protocol::Tcp), &stop, &mut |_| {});
    let took = stopper.join().expect("the stopper").elapsed();
    assert!(matches!(answer, Err(Failure::Interrupted)), "{answer:?}");
    assert!(took < Duration::from_secs(4), "{took:?}");
    thread.join().expect("the server");
}

/// A server that plays along until the results, and then answers with these bytes.
fn results(answer: Vec<u8>) -> TestOutcome {
    let (address, thread) = server(move |mut control, listener| {
        control.write_all(&[9]).expect("sent");
        let mut length = [0; 4];
        control.read_exact(&mut length).expect("a length");
        let mut parameters = vec![0; u32::from_be_bytes(length) as usize];
        control.read_exact(&mut parameters).expect("parameters");
        control.write_all(&[10]).expect("sent");
        let (mut data, _) = listener.accept().expect("a stream");
        control.write_all(&[1, 2]).expect("sent");
        let taker = std::thread::spawn(move || std::io::copy(&mut data, &mut std::io::sink()));
        let mut end = [0];
        control.read_exact(&mut end).expect("the end");
        assert_eq!(end, [4]);
        let _ = control.write_all(&answer);
        let _ = control.set_read_timeout(Some(Duration::from_secs(15)));
        let _ = std::io::copy(&mut control, &mut std::io::sink());
        drop(control);
        let _ = taker.join();
    });
    let test = Iperf3Test { seconds: 0.2, ..short(Protocol::Tcp) };
    let outcome = run_client(address, None, &test, &Stop::new(), &mut |_| {}).expect("figures");
    thread.join().expect("the server");
    outcome
}

#[test]
fn results_that_are_none_leave_our_own() {
    let message = |text: &str| {
        let mut bytes = vec![13];
        bytes.extend((text.len() as u32).to_be_bytes());
        bytes.extend(text.bytes());
        bytes
    };
    for (answer, expected) in [
        (vec![13, 0xff, 0xff, 0xff, 0xff], "4294967295 bytes"),
        (message("{"), "not JSON"),
        (message("{}"), "no streams"),
        (message("[1]"), "no streams"),
        (message(&"[".repeat(100_000)), "not JSON"),
        (message("{\"streams\":[{}],\"cpu_util_total\":0,\"cpu_util_user\":0}"), "no cpu_util_system"),
        (vec![0xfe, 0, 0, 0, 118, 0, 0, 0, 0], "select"),
        (vec![99], "the state 99"),
    ] {
        let outcome = results(answer);
        let error = outcome.error.expect("an error");
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(error.contains("the figures are those until then"), "{error}");
        assert!(outcome.local[0].bytes > 0 && outcome.remote.is_empty());
    }
}

#[test]
fn a_server_that_vanishes_leaves_the_figures_so_far() {
    if !there("iperf3") {
        return;
    }
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        let mut server = Theirs::start();
        let (address, test) = (server.address, Iperf3Test { seconds: 30.0, ..short(protocol) });
        let running = std::thread::spawn(move || run_client(address, None, &test, &Stop::new(), &mut |_| {}));
        std::thread::sleep(Duration::from_millis(1500));
        server.child.kill().expect("killed");
        let outcome = running.join().expect("the client").expect("figures");
        assert!(outcome.error.is_some(), "{outcome:?}");
        assert!(outcome.local[0].bytes > 0 && outcome.local[0].seconds < 29.0, "{outcome:?}");
    }
}
