//! Receivers on loopback: what they count and what they answer.

use super::*;
use crate::flow::wire;
use proptest::prelude::*;
use std::time::Instant;

/// What the receiver counted and the probes that it answered, for bytes sent as one train of datagrams of
/// `datagram_bytes`.
fn receive_train(
    train: &[u8],
    datagram_bytes: u16,
    token: &StreamToken,
) -> Option<(u64, u64, Vec<Feedback>)> {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let to = socket.local_addr().expect("an address");
    let (received, stop) = (StreamCounters::new(Instant::now()), Stop::new());
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    sender.connect(to).expect("connected");
    sender.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    let answers = std::thread::scope(|scope| {
        scope.spawn(|| receive_udp(socket, token, &Terms::default(), &received, &stop).expect("received"));
        let mut datagram = [0; 100];
        sender.send(&wire::admission(token)).expect("sent");
        sender.recv(&mut datagram).expect("admitted");
        let cut = socket::set_segment_bytes(&sender, datagram_bytes);
        let answers = cut.ok().map(|()| {
            sender.send(train).expect("sent");
            let mut answers = Vec::new();
            while let Ok(length) = sender.recv(&mut datagram) {
                answers.extend(Feedback::read(&datagram[..length], token));
            }
            answers
        });
        stop.end();
        answers
    });
    let counted = (received.progress.mark().bytes, received.datagrams.load(Ordering::Relaxed));
    answers.map(|answers| (counted.0, counted.1, answers))
}

#[test]
fn probes_that_were_joined_into_a_train_are_found_and_the_newest_is_answered() {
    let token = [7; 32];
    let probe = |sent_bytes| Probe { sent_bytes, nanos: 1 }.datagram(&token);
    let small = [[1; PROBE_BYTES], probe(64), [2; PROBE_BYTES], probe(128), probe(128)].concat();
    let Some((bytes, datagrams, answers)) = receive_train(&small, PROBE_BYTES as u16, &token) else {
        eprintln!("skipped: no UDP segmentation offload in this kernel");
        return;
    };
    let arrived: Vec<u64> = answers.iter().map(|answer| answer.received_bytes).collect();
    assert_eq!((bytes, datagrams, arrived), (128, 2, vec![128]));
    assert_eq!(answers[0].probe.sent_bytes, 128);
    let large = [&[3u8; 3000][..], &probe(3000)].concat();
    let (bytes, datagrams, answers) = receive_train(&large, 1000, &token).expect("as before");
    assert_eq!((bytes, datagrams, answers.len()), (3000, 3, 1));
    assert_eq!(answers[0].received_bytes, 3000);
}

#[test]
fn naps_grow_while_batches_are_small_and_end_when_they_are_full() {
    let naps = Naps::for_buffer(16 << 20);
    let mut nap = SHORTEST_NAP;
    (0..10).for_each(|_| nap = naps.after(1, 60_000, nap));
    assert_eq!(nap, LONGEST_NAP);
    assert_eq!(naps.after(BATCH / 2, 500_000, nap), nap, "neither small nor full");
    (0..10).for_each(|_| nap = naps.after(BATCH, 1_000_000, nap));
    assert_eq!(nap, SHORTEST_NAP);
}

proptest! {
    /// Half a buffer is all that the sender may have on the way: who sleeps on a quarter of it makes the
    /// sender wait.
    #[test]
    fn nobody_sleeps_on_what_the_sender_waits_for(buffer in 4096u64..64 << 20, taken in 0usize..BATCH, share in 0.25f64..1.0) {
        let (naps, bytes) = (Naps::for_buffer(buffer), (buffer as f64 * share) as u64);
        prop_assert!(!naps.is_small(taken, bytes));
        prop_assert_eq!(naps.after(taken, bytes, LONGEST_NAP), LONGEST_NAP / 2);
    }
}

#[test]
fn what_has_waited_is_reported_and_a_clock_set_back_is_no_wait() {
    let past = SystemTime::now() - Duration::from_millis(90);
    assert!(held_nanos(Some(past)) >= 90_000_000);
    assert_eq!(held_nanos(Some(SystemTime::now() + Duration::from_secs(60))), 0);
    assert_eq!(held_nanos(None), 0);
}

proptest! {
    #[test]
    fn a_trains_parts_are_the_train(train in proptest::collection::vec(any::<u8>(), 0..5000), datagram_bytes in 1usize..3000) {
        let joined: Vec<u8> = datagrams_of(&train, datagram_bytes).flatten().copied().collect();
        prop_assert_eq!(&joined, &train);
        let last = train.len().saturating_sub(1) / datagram_bytes * datagram_bytes;
        prop_assert!(train.is_empty() || datagrams_of(&train, datagram_bytes).last() == Some(&train[last..]));
        // Nothing but whole datagrams before the last.
        let mut cut = datagrams_of(&train, datagram_bytes).scan(0, |at, part| { *at += part.len(); Some(*at) });
        prop_assert!(cut.all(|at| at % datagram_bytes == 0 || at == train.len()));
    }
}
