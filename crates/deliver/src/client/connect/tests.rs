//! Several addresses of one name: spread, silent, refusing, all dead. On loopback, which has all of 127.0.0.0/8.

use super::*;
use crate::client::HttpConnection;
use crate::tls::TlsTrust;
use linerate_system::stop::Stop;
use socket2::SockRef;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::LazyLock;

const TIMEOUT: Duration = Duration::from_secs(5);

/// With these addresses of the URL's host.
fn settings(url: &HttpUrl, addresses: &[SocketAddr]) -> ClientSettings<'static> {
    static STOP: LazyLock<Stop> = LazyLock::new(Stop::new);
    let settings = ClientSettings::new(&STOP, TIMEOUT, 1 << 20, None, TlsTrust::Host);
    settings.book.enter(url, addresses, None);
    settings
}

fn at(last: u8, port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), port)
}

/// Listeners on one port of these addresses, and the URL of a name that has others, too.
fn listening(last: &[u8]) -> (Vec<TcpListener>, u16, HttpUrl) {
    for _ in 0..100 {
        let first = TcpListener::bind(at(last[0], 0)).expect("a listener");
        let port = first.local_addr().expect("an address").port();
        let rest: Result<Vec<_>, _> =
            last[1..].iter().map(|last| TcpListener::bind(at(*last, port))).collect();
        if let Ok(rest) = rest {
            let url = format!("http://files.example:{port}/f").parse().expect("a URL");
            return ([first].into_iter().chain(rest).collect(), port, url);
        }
    }
    panic!("no port is free at all addresses");
}

/// One that answers no more: its queue of connections is full.
fn silent(last: u8, port: u16) -> (Socket, Vec<Socket>) {
    let listener = Socket::new(socket2::Domain::IPV4, Type::STREAM, None).expect("a socket");
    listener.set_reuse_address(true).expect("an option");
    listener.bind(&at(last, port).into()).expect("bound");
    listener.listen(0).expect("it listens");
    let mut clients = Vec::new();
    for _ in 0..3 {
        let client = Socket::new(socket2::Domain::IPV4, Type::STREAM, None).expect("a socket");
        begin_connect(&client, at(last, port)).expect("begun");
        clients.push(client);
    }
    std::thread::sleep(Duration::from_millis(20));
    (listener, clients)
}

#[test]
fn connections_are_spread_over_the_addresses_that_answer() {
    let (_listeners, port, url) = listening(&[11, 12]);
    let dead = at(13, port);
    let settings = settings(&url, &[dead, at(11, port), at(12, port), at(11, port)]);
    let open: Vec<_> = (0..6).map(|_| connect(&settings, &url).expect("open")).collect();
    for last in [11, 12] {
        let count = open.iter().filter(|(_, taken)| taken.address == at(last, port)).count();
        assert_eq!(count, 3, "{last}");
    }
    drop(open);
    let next = connect(&settings, &url).expect("open");
    assert_ne!(next.1.address, dead, "a dead one is not tried again while others live");
}

#[test]
fn a_silent_address_costs_a_short_while_once() {
    let (_listeners, port, url) = listening(&[21]);
    let _silent = silent(22, port);
    let settings = settings(&url, &[at(22, port), at(21, port)]);
    let begun = Instant::now();
    let first = connect(&settings, &url).expect("open");
    let took = begun.elapsed();
    assert_eq!(first.1.address, at(21, port));
    assert!(took >= BESIDE && took < CONNECT, "{took:?}");
    let begun = Instant::now();
    let later: Vec<_> = (0..4).map(|_| connect(&settings, &url).expect("open")).collect();
    assert!(begun.elapsed() < BESIDE, "{:?}", begun.elapsed());
    assert!(later.iter().all(|(_, taken)| taken.address == at(21, port)));
}

#[test]
fn where_none_answers_each_has_its_reason() {
    let (listeners, port, url) = listening(&[31]);
    drop(listeners);
    let _silent = silent(32, port);
    let settings = settings(&url, &[at(31, port), at(32, port)]);
    let error = connect(&settings, &url).expect_err("none lives").to_string();
    let says = [format!("127.0.0.31:{port}: "), "refused".into(), format!("127.0.0.32:{port}: no answer")];
    assert!(says.iter().all(|says| error.contains(says)), "{error}");
    assert!(!error.contains('\n') && error.starts_with("files.example:"), "{error}");
}

#[test]
fn an_address_that_is_alone_is_tried_again_after_it_was_dead() {
    let (listeners, port, url) = listening(&[41]);
    drop(listeners);
    let settings = settings(&url, &[at(41, port)]);
    connect(&settings, &url).expect_err("nobody listens");
    let _again = TcpListener::bind(at(41, port)).expect("a listener");
    assert!(connect(&settings, &url).is_ok());
}

#[test]
fn an_address_with_another_copy_is_left_alone() {
    let (_listeners, port, url) = listening(&[51, 52]);
    let settings = settings(&url, &[at(51, port), at(52, port)]);
    let (_, first) = connect(&settings, &url).expect("open");
    assert!(first.differs(), "there is another");
    let open: Vec<_> = (0..3).map(|_| connect(&settings, &url).expect("open")).collect();
    assert!(open.iter().all(|(_, taken)| taken.address != first.address));
}

#[test]
fn what_puts_keeps_to_the_address_that_answered_first() {
    let (_listeners, port, url) = listening(&[61, 62]);
    let settings = settings(&url, &[at(63, port), at(61, port), at(62, port)]).keeping_to_one_address();
    let open: Vec<_> = (0..4).map(|_| connect(&settings, &url).expect("open")).collect();
    assert!(open.iter().all(|(_, taken)| taken.address == at(61, port)));
}

#[test]
fn a_server_that_takes_a_body_in_steps_is_not_given_up() {
    let (listeners, port, url) = listening(&[71]);
    let mut settings = settings(&url, &[at(71, port)]);
    settings.timeout = Duration::from_millis(600);
    SockRef::from(&listeners[0]).set_recv_buffer_size(16 << 10).expect("a small buffer");
    let mut open = HttpConnection::open(&settings, &url).expect("open");
    SockRef::from(open.wire.socket()).set_send_buffer_size(16 << 10).expect("a small buffer");
    let (mut far, _) = listeners[0].accept().expect("accepted");
    let take = move || {
        for _ in 0..8 {
            std::thread::sleep(Duration::from_millis(250));
            far.read_exact(&mut vec![0; 32 << 10]).expect("read");
        }
    };
    let (begun, server) = (Instant::now(), std::thread::spawn(take));
    open.write(&[7; 256 << 10], &url).expect("each step is progress");
    assert!(begun.elapsed() > settings.timeout, "it took long enough");
    server.join().expect("all of it came");
}
