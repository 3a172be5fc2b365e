use super::super::stream::{ClientHandshake, TlsClientStream};
use super::super::{ClientTls, crypto_provider, made_certificate};
use super::*;
use crate::tls::Fingerprint;
use proptest::prelude::*;
use rustls::{ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

type ServerStream = StreamOwned<ServerConnection, TcpStream>;

/// A client's stream, and what rustls's server does with the other end.
fn connected<T: Send + 'static>(
    version: &'static SupportedProtocolVersion,
    serve: impl FnOnce(ServerStream) -> T + Send + 'static,
) -> Option<(TlsClientStream, thread::JoinHandle<T>)> {
    let Ok(provider) = crypto_provider() else {
        eprintln!("skipped: this CPU has not what TLS needs");
        return None;
    };
    let (own, key) = made_certificate(&[std::net::Ipv4Addr::LOCALHOST.into()]).expect("a certificate");
    let tls = ClientTls::pinned(Fingerprint::of(&own)).expect("a client");
    let config =
        ServerConfig::builder_with_provider(provider).with_protocol_versions(&[version]).expect("a version");
    let mut config = config.with_no_client_auth().with_single_cert(vec![own], key).expect("a server");
    // They are records without bytes for the reader.
    config.send_tls13_tickets = 20;
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let socket = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    let (far, _) = listener.accept().expect("accepted");
    let server = thread::spawn(move || {
        let mut stream = StreamOwned::new(ServerConnection::new(config).expect("a connection"), far);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).expect("agreed");
        }
        serve(stream)
    });
    let mut handshake = ClientHandshake::new(&tls, "127.0.0.1").expect("a handshake");
    handshake.go_on(&socket).expect("agreed");
    Some((handshake.finish(socket).expect("a stream"), server))
}

#[test]
fn what_follows_a_record_is_left_in_the_socket() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let mut near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    let (far, _) = listener.accept().expect("accepted");
    let mut state = RecordState::default();
    let mut records = SingleRecords { socket: &far, state: &mut state };
    near.write_all(&[22, 3, 3, 0, 3, 7, 8, 9, 22, 3, 3, 0, 1, 5, 99]).expect("sent");
    let mut room = [0; 100];
    let mut taken = Vec::new();
    while taken.len() < 14 {
        let read = records.read(&mut room).expect("read");
        assert!(read > 0 && read <= RECORD_HEADER_BYTES);
        taken.extend_from_slice(&room[..read]);
    }
    assert_eq!(taken, [22, 3, 3, 0, 3, 7, 8, 9, 22, 3, 3, 0, 1, 5]);
    assert_eq!((&far).read(&mut room).expect("read"), 1, "99 is still there");
    assert_eq!(room[0], 99);
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| ((at * 31) >> 3) as u8).collect()
}

/// All that comes until the end, read in pieces of this size.
fn read_all(stream: &mut TlsClientStream, piece: usize) -> io::Result<Vec<u8>> {
    let (mut all, mut into) = (Vec::new(), vec![0; piece]);
    loop {
        match stream.read(&mut into) {
            Ok(0) => return Ok(all),
            Ok(read) => all.extend_from_slice(&into[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Both versions, records of all sizes, in both directions; a ticket comes first, a goodbye last.
#[test]
fn bytes_come_as_they_were_sent_and_go_as_they_were_written() {
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        for (asked, answered, piece) in [(1, 1, 1), (70_000, 3_000_000, 1 << 20), (300_000, 100_001, 777)] {
            let serve = move |mut stream: ServerStream| {
                let mut request = vec![0; asked];
                stream.read_exact(&mut request).expect("a request");
                for part in pattern(answered).chunks(9_999) {
                    stream.write_all(part).expect("sent");
                }
                stream.conn.send_close_notify();
                stream.flush().expect("sent");
                request
            };
            let Some((mut stream, server)) = connected(version, serve) else { return };
            let request = pattern(asked);
            let mut rest = &request[..];
            while !rest.is_empty() {
                rest = &rest[stream.write(rest).expect("written")..];
            }
            stream.flush().expect("sent");
            assert!(
                read_all(&mut stream, piece).expect("read") == pattern(answered),
                "{version:?}, {answered} bytes"
            );
            assert!(server.join().expect("served") == request, "{version:?}, {asked} bytes");
        }
    }
}

#[test]
fn an_end_without_a_goodbye_is_an_end() {
    let serve =
        |mut stream: ServerStream| stream.write_all(b"half").and_then(|()| stream.flush()).expect("sent");
    let Some((mut stream, server)) = connected(&rustls::version::TLS13, serve) else { return };
    server.join().expect("served");
    assert_eq!(read_all(&mut stream, 100).expect("read"), b"half");
    assert_eq!(stream.read(&mut [0; 9]).expect("the end"), 0);
}

#[test]
fn new_keys_in_the_middle_end_the_connection() {
    let serve = |mut stream: ServerStream| {
        stream.write_all(b"before").expect("sent");
        stream.conn.refresh_traffic_keys().expect("new keys");
        let _ = stream.write_all(b"behind").and_then(|()| stream.flush());
        // Until the client is gone, so that what was sent is not lost.
        let _ = stream.sock.read(&mut [0; 1]);
    };
    let Some((mut stream, server)) = connected(&rustls::version::TLS13, serve) else { return };
    let error = read_all(&mut stream, 6).expect_err("it ends").to_string();
    assert!(error.contains("KeyUpdate"), "{error}");
    drop(stream);
    server.join().expect("served");
}

/// What is not a record of this connection, behind two that are: an error, and never a byte of it.
#[test]
fn bytes_of_others_are_refused() {
    for forged in [
        // Of the right form, and not encrypted by these keys.
        [&[23, 3, 3, 0, 40][..], &[7; 40]].concat(),
        // Without a tag.
        vec![23, 3, 3, 0, 1, 7],
        // Longer than any.
        vec![23, 3, 3, 0x41, 1],
        // In the clear: an alert, a handshake, HTTP.
        vec![21, 3, 3, 0, 2, 1, 0],
        vec![22, 3, 3, 0, 4, 4, 0, 0, 0],
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
    ] {
        let sent = forged.clone();
        let serve = move |mut stream: ServerStream| {
            stream.write_all(b"one").and_then(|()| stream.write_all(b"two")).expect("sent");
            stream.sock.write_all(&sent).expect("sent");
            let _ = stream.sock.read(&mut [0; 1]);
        };
        let Some((mut stream, server)) = connected(&rustls::version::TLS13, serve) else { return };
        let mut both = [0; 6];
        let mut read = 0;
        while read < 6 {
            match stream.read(&mut both[read..]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                more => read += more.expect("read"),
            }
        }
        assert_eq!(&both, b"onetwo");
        let error = read_all(&mut stream, 100).expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{forged:?}");
        drop(stream);
        server.join().expect("served");
    }
}

/// Tickets bring the reader nothing, and let it look whether to go on.
#[test]
fn records_without_bytes_do_not_hold_the_reader() {
    let serve = |mut stream: ServerStream| {
        stream.write_all(b"x").and_then(|()| stream.flush()).expect("sent");
        let _ = stream.sock.read(&mut [0; 1]);
    };
    let Some((mut stream, server)) = connected(&rustls::version::TLS13, serve) else { return };
    let (mut waits, mut into) = (0, [0; 10]);
    let read = loop {
        match stream.read(&mut into) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => waits += 1,
            read => break read.expect("read"),
        }
    };
    assert_eq!((read, into[0]), (1, b'x'));
    assert!(waits >= 1, "{waits}");
    drop(stream);
    server.join().expect("served");
}

/// Handshake messages: a ticket of so many bytes.
fn ticket(bytes: usize) -> Vec<u8> {
    let [_, a, b, c] = (bytes as u32).to_be_bytes();
    [vec![NEW_SESSION_TICKET, a, b, c], vec![99; bytes]].concat()
}

proptest! {
    /// However tickets are cut into records, as long as no head of one is; and other messages never pass.
    #[test]
    fn tickets_pass_whole_or_cut(sizes in proptest::collection::vec(1_usize..400, 1..5), cut in 4_usize..300, kind in 0_u8..=255) {
        let (mut left, mut records) = (0, Vec::new());
        for size in &sizes {
            let whole = ticket(*size);
            let at = cut.min(whole.len());
            records.push(whole[..at].to_vec());
            if at < whole.len() {
                records.push(whole[at..].to_vec());
            }
        }
        for record in &records {
            left = passed_ticket(left, record).expect("a ticket");
        }
        prop_assert_eq!(left, 0);
        let all: Vec<u8> = sizes.iter().flat_map(|size| ticket(*size)).collect();
        prop_assert_eq!(passed_ticket(0, &all).ok(), Some(0));
        prop_assume!(kind != NEW_SESSION_TICKET);
        prop_assert!(passed_ticket(0, &[all, vec![kind, 0, 0, 1, 0]].concat()).is_err());
    }

    #[test]
    fn any_handshake_bytes_are_taken_or_refused(left in 0_usize..1000, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = passed_ticket(left, &bytes);
    }
}
