//! Both ends of streams over loopback.

mod relay;

use super::*;
use linerate_facts::protocol::Protocol;
use std::net::TcpListener;
use std::time::Duration;
use std::time::Instant;

const TOKEN: StreamToken = [42; 32];

/// A spec to change.
pub(super) fn spec() -> StreamSpec {
    StreamSpec::new(Protocol::Tcp, StreamRole::Send)
}

pub(super) fn tcp_pair() -> (StreamSocket, StreamSocket) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    let (far, _) = listener.accept().expect("accepted");
    (StreamSocket::Tcp(near), StreamSocket::Tcp(far))
}

fn udp_sockets() -> (UdpSocket, UdpSocket) {
    let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
    near.connect(far.local_addr().expect("an address")).expect("connected");
    far.connect(near.local_addr().expect("an address")).expect("connected");
    (near, far)
}

pub(super) fn udp_pair() -> (StreamSocket, StreamSocket) {
    let (near, far) = udp_sockets();
    let of = |socket| StreamSocket::Udp { socket, token: TOKEN };
    (of(near), of(far))
}

/// Runs both ends until they end by themselves, or for `time`; what near and far counted.
pub(super) fn run_both(
    near: StreamSpec,
    sockets: (StreamSocket, StreamSocket),
    content: Content,
    time: Option<Duration>,
) -> (StreamSample, StreamSample) {
    let far = StreamSpec { role: near.role.other(), ..near.clone() };
    let begin = Instant::now();
    let counters = [(); 2].map(|()| Arc::new(StreamCounters::new(begin)));
    let stop = Arc::new(Stop::new());
    let never = Arc::new(Stop::new());
    let [near_counters, far_counters] = counters.each_ref().map(Arc::clone);
    let near = start(near, sockets.0, content.clone(), near_counters, Arc::clone(&stop)).expect("a thread");
    let far = start(far, sockets.1, content, far_counters, never).expect("a thread");
    if let Some(time) = time {
        std::thread::sleep(time);
        stop.end();
    }
    near.join().expect("the near end");
    far.join().expect("the far end");
    let [near, far] = counters.map(|counters| counters.sample());
    assert!(near.ended && far.ended);
    (near, far)
}

mod tcp {
    use super::*;

    #[test]
    fn every_method_sends_what_the_checksum_says() {
        for method in [SendMethod::Write, SendMethod::Sendfile, SendMethod::Splice, SendMethod::Zerocopy] {
            let spec = StreamSpec { method, limit_bytes: Some(5_000_001), verify: true, ..spec() };
            let (near, far) = run_both(spec, tcp_pair(), Content::Memory, None);
            assert_eq!((near.bytes, far.bytes), (5_000_001, 5_000_001), "{method:?}");
            assert_eq!(near.checksum, far.checksum, "{method:?}");
            let tcp = near.tcp.expect("a view");
            assert!(!tcp.congestion_control.is_empty() && tcp.segment_bytes > 0, "{tcp:?}");
            assert_eq!(near.zerocopy.is_some(), method == SendMethod::Zerocopy, "{method:?}");
        }
    }

    /// Calls that are no whole pages, and more than a pipe holds; a receiver that keeps the sender waiting before the first
    /// byte that it takes, so that writes end short and time out.
    #[test]
    fn splice_from_memory_keeps_its_order_after_short_writes() {
        for write_bytes in [100_001, 3 << 20] {
            let spec = StreamSpec {
                method: SendMethod::Splice,
                write_bytes,
                limit_bytes: Some(9_000_001),
                send_buffer_bytes: Some(64 << 10),
                verify: true,
                ..spec()
            };
            let (near, far) = tcp_pair();
            let counters = [(); 2].map(|()| Arc::new(StreamCounters::new(Instant::now())));
            let [near_counters, far_counters] = counters.each_ref().map(Arc::clone);
            let never = Arc::new(Stop::new());
            let receiver = StreamSpec { role: StreamRole::Receive, ..spec.clone() };
            let near =
                start(spec, near, Content::Memory, near_counters, Arc::clone(&never)).expect("a thread");
            std::thread::sleep(Duration::from_millis(350));
            let far = start(receiver, far, Content::Memory, far_counters, never).expect("a thread");
            near.join().expect("the near end");
            far.join().expect("the far end");
            let [near, far] = counters.map(|counters| counters.sample());
            assert_eq!((near.bytes, far.bytes), (9_000_001, 9_000_001), "{write_bytes}");
            assert_eq!(near.checksum, far.checksum, "{write_bytes}");
        }
    }

    #[test]
    fn a_range_of_a_file_arrives_by_every_method() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let bytes: Vec<u8> = (0..3_333_333u32).map(|i| (i % 249) as u8).collect();
        io::Write::write_all(&mut file, &bytes).expect("written");
        let (offset, length) = (12_345usize, 3_000_000usize);
        let wanted =
            linerate_sums::crc(linerate_sums::CrcAlgorithm::Crc64Nvme, &bytes[offset..offset + length]);
        for method in [SendMethod::Write, SendMethod::Sendfile, SendMethod::Splice, SendMethod::Zerocopy] {
            for direct in [false, true] {
                let Ok(opened) = linerate_system::file::open_to_read(file.path(), direct) else { continue };
                let content = Content::File {
                    file: Arc::new(opened),
                    label: "the file".into(),
                    offset: offset as u64,
                    length: length as u64,
                    direct,
                };
                let spec = StreamSpec { method, verify: true, ..spec() };
                let (near, far) = run_both(spec, tcp_pair(), content, None);
                assert_eq!((near.bytes, far.bytes), (length as u64, length as u64), "{method:?} {direct}");
                assert_eq!((near.checksum, far.checksum), (wanted, wanted), "{method:?} {direct}");
            }
        }
    }

    #[test]
    fn a_receiver_that_discards_counts_every_byte() {
        let spec = StreamSpec { limit_bytes: Some(9_000_001), discard: true, ..spec() };
        let (near, far) = run_both(spec, tcp_pair(), Content::Memory, None);
        assert_eq!((near.bytes, far.bytes), (9_000_001, 9_000_001));
        let verified =
            StreamSpec { limit_bytes: Some(3_000_001), discard: true, verify: true, ..super::spec() };
        let (near, far) = run_both(verified, tcp_pair(), Content::Memory, None);
        assert_eq!((far.bytes, far.checksum), (3_000_001, near.checksum), "what is checked is copied");
    }

    #[test]
    fn a_file_that_was_cut_short_is_named() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(100_000).expect("a size");
        for method in [SendMethod::Write, SendMethod::Sendfile, SendMethod::Splice] {
            let file = Arc::new(file.try_clone().expect("a copy"));
            let content =
                Content::File { file, label: "short.bin".into(), offset: 0, length: 200_000, direct: false };
            let (near, far) = tcp_pair();
            let counters = StreamCounters::new(Instant::now());
            let error = run(&StreamSpec { method, ..spec() }, near, content, &counters, &Stop::new())
                .expect_err("it is too short");
            assert!(error.to_string().contains("short.bin"), "{error}");
            drop(far);
        }
    }

    #[test]
    fn a_stop_ends_an_endless_stream_in_order_and_a_receiver_that_goes_is_an_error() {
        let (near, far) = run_both(spec(), tcp_pair(), Content::Memory, Some(Duration::from_millis(200)));
        assert_eq!(near.bytes, far.bytes);
        assert!(near.bytes > 0);
        let (near, far) = tcp_pair();
        drop(far);
        let counters = StreamCounters::new(Instant::now());
        let error = run(&spec(), near, Content::Memory, &counters, &Stop::new()).expect_err("gone");
        assert!(error.to_string().contains("agent"), "{error}");
        assert!(counters.sample().ended);
    }

    #[test]
    fn a_rate_is_kept() {
        let spec = StreamSpec { bytes_per_second: Some(20e6), limit_bytes: Some(10_000_000), ..spec() };
        let begin = Instant::now();
        let (near, far) = run_both(spec, tcp_pair(), Content::Memory, None);
        assert_eq!((near.bytes, far.bytes), (10_000_000, 10_000_000));
        // A busy machine may be slower, none may be faster.
        assert!(begin.elapsed() >= Duration::from_millis(490), "{:?}", begin.elapsed());
    }

    #[test]
    fn questions_are_answered() {
        let ask =
            StreamSpec { role: StreamRole::Ask, write_bytes: 200, limit_bytes: Some(200 * 500), ..spec() };
        let (near, far) = run_both(ask, tcp_pair(), Content::Memory, None);
        assert_eq!((near.datagrams, near.bytes, far.bytes), (500, 100_000, 100_000));
        assert!(near.round_trip_micros.iter().all(|(_, micros)| *micros > 0.0), "{near:?}");
        assert_eq!(near.round_trip_micros.len(), 6);
    }

    /// Over a path of 40 ms, two hundred a second: eight are always under way, and none counts the others' time.
    #[test]
    fn requests_of_a_timetable_do_not_wait_for_each_other() {
        let (near, far) = tcp_pair();
        let (StreamSocket::Tcp(near), StreamSocket::Tcp(far)) = (near, far) else { panic!("no TCP") };
        let echo = std::thread::spawn(move || delayed_echo(far, Duration::from_millis(40)));
        let ask = StreamSpec {
            role: StreamRole::Ask,
            write_bytes: 100,
            bytes_per_second: Some(20_000.0),
            limit_bytes: Some(100 * 100),
            ..spec()
        };
        let counters = StreamCounters::new(Instant::now());
        let socket = StreamSocket::Tcp(near);
        run(&ask, socket, Content::Memory, &counters, &Stop::new()).expect("asked");
        let sample = counters.sample();
        assert_eq!((sample.datagrams, sample.bytes), (100, 10_000));
        let (_, median_micros) = sample.round_trip_micros[0];
        // One at a time the last would have waited for 99 others, 3.5 s.
        assert!((40_000.0..400_000.0).contains(&median_micros), "{sample:?}");
        echo.join().expect("the echo");
    }

    /// Sends back what comes so much later, in order.
    fn delayed_echo(mut stream: std::net::TcpStream, delay: Duration) {
        use std::io::{Read, Write};
        stream.set_read_timeout(Some(Duration::from_millis(2))).expect("a timeout");
        let mut held = std::collections::VecDeque::new();
        let (mut buffer, mut open) = ([0; 4096], true);
        while open || !held.is_empty() {
            match stream.read(&mut buffer) {
                Ok(0) => open = false,
                Ok(length) => held.push_back((Instant::now() + delay, buffer[..length].to_vec())),
                Err(_) => {}
            }
            while held.front().is_some_and(|(due, _)| *due <= Instant::now()) {
                let (_, bytes) = held.pop_front().expect("it was there");
                let _ = stream.write_all(&bytes);
            }
        }
    }
}

mod udp {
    use super::*;

    fn udp(near: &StreamSpec) -> StreamSpec {
        StreamSpec { protocol: Protocol::Udp, method: SendMethod::Trains, ..near.clone() }
    }

    /// The promise of the account.
    fn add_up(sender: &StreamSample, receiver: &StreamSample) {
        assert_eq!(
            sender.datagrams,
            receiver.datagrams - receiver.duplicated + receiver.lost,
            "{receiver:?}"
        );
    }

    #[test]
    fn both_methods_and_directions_count_every_datagram() {
        for (method, role) in [
            (SendMethod::Trains, StreamRole::Send),
            (SendMethod::Datagrams, StreamRole::Send),
            (SendMethod::Trains, StreamRole::Receive),
        ] {
            let spec = StreamSpec { method, role, limit_bytes: Some(20_000_001), ..udp(&spec()) };
            let (near, far) = run_both(spec, udp_pair(), Content::Memory, None);
            let (sender, receiver) = if role == StreamRole::Send { (near, far) } else { (far, near) };
            add_up(&sender, &receiver);
            // The last datagram has at least a header.
            assert_eq!(sender.datagrams, 20_000_001u64.div_ceil(1472));
            assert!((20_000_001..20_000_001 + 24).contains(&sender.bytes), "{sender:?}");
            assert_eq!((receiver.foreign, receiver.duplicated), (0, 0), "{receiver:?}");
            if receiver.lost == 0 {
                assert_eq!(receiver.bytes, sender.bytes);
            }
        }
    }

    #[test]
    fn any_size_of_datagram_will_do() {
        for datagram_bytes in [64, 100, 8972, 40_000, 65_507] {
            let spec = StreamSpec { datagram_bytes, limit_bytes: Some(2_000_000), ..udp(&spec()) };
            let (near, far) = run_both(spec, udp_pair(), Content::Memory, None);
            add_up(&near, &far);
            assert_eq!(near.datagrams, 2_000_000u64.div_ceil(u64::from(datagram_bytes)));
        }
    }

    #[test]
    fn over_ipv6_as_well() {
        let Ok(near) = UdpSocket::bind("[::1]:0") else {
            eprintln!("skipped: no IPv6 here");
            return;
        };
        let far = UdpSocket::bind("[::1]:0").expect("a socket");
        near.connect(far.local_addr().expect("an address")).expect("connected");
        let accepted = std::thread::scope(|scope| {
            let accepting = scope.spawn(|| accept_udp(&far, &TOKEN, &Stop::new()));
            open_udp(&near, &TOKEN, &Stop::new()).expect("admitted");
            accepting.join().expect("no panic").expect("accepted")
        });
        assert!(accepted);
        let sockets = [near, far].map(|socket| StreamSocket::Udp { socket, token: TOKEN });
        let spec = StreamSpec { limit_bytes: Some(1_472_000), ..udp(&spec()) };
        let (near, far) = run_both(spec, sockets.into(), Content::Memory, None);
        add_up(&near, &far);
        assert_eq!((near.datagrams, far.foreign), (1000, 0));
    }

    #[test]
    fn a_receiver_that_goes_is_an_error() {
        let (near, far) = udp_sockets();
        drop(far);
        let counters = StreamCounters::new(Instant::now());
        let stop = Stop::new();
        let tags = datagram::Tags::of(&TOKEN);
        let far = UdpSocket::bind(near.peer_addr().expect("an address")).expect("the same port");
        far.connect(near.local_addr().expect("an address")).expect("connected");
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                far.recv(&mut [0; 100]).expect("the sender's question");
                far.send(&tags.message(datagram::DatagramMessage::Ready(1 << 20))).expect("answered");
                drop(far);
            });
            let spec = StreamSpec { bytes_per_second: Some(1e6), ..udp(&spec()) };
            let socket = StreamSocket::Udp { socket: near, token: TOKEN };
            run(&spec, socket, Content::Memory, &counters, &stop).expect_err("nobody is there")
        });
        assert!(error.to_string().contains("agent"), "{error}");
    }

    #[test]
    fn a_rate_is_kept_and_a_stop_ends_it() {
        let spec = StreamSpec { bytes_per_second: Some(10e6), ..udp(&spec()) };
        let begin = Instant::now();
        let (near, far) = run_both(spec, udp_pair(), Content::Memory, Some(Duration::from_millis(500)));
        add_up(&near, &far);
        // At most what was due by then, and the first burst; a busy machine may do less.
        let most = 10e6 * begin.elapsed().as_secs_f64() + 2.0 * 5000.0;
        assert!(near.bytes > 100_000 && (near.bytes as f64) < most, "{} of {most}", near.bytes);
    }

    #[test]
    fn questions_are_answered() {
        let ask = StreamSpec {
            role: StreamRole::Ask,
            write_bytes: 100,
            limit_bytes: Some(100 * 300),
            ..udp(&spec())
        };
        let (near, far) = run_both(ask, udp_pair(), Content::Memory, None);
        assert_eq!((near.datagrams, near.lost + near.bytes / 100), (300, 300), "{near:?}");
        assert!(far.datagrams >= near.bytes / 100);
        assert!(near.round_trip_micros.len() == 6, "{near:?}");
    }

    #[test]
    fn an_asker_counts_what_is_not_answered() {
        let (near, far) = udp_sockets();
        let counters = StreamCounters::new(Instant::now());
        let ask =
            StreamSpec { role: StreamRole::Ask, write_bytes: 100, limit_bytes: Some(100), ..udp(&spec()) };
        let socket = StreamSocket::Udp { socket: near, token: TOKEN };
        run(&ask, socket, Content::Memory, &counters, &Stop::new()).expect("asked");
        let sample = counters.sample();
        assert_eq!((sample.datagrams, sample.lost, sample.bytes), (1, 1, 0));
        drop(far);
    }
}
