//! A bad network between the two ends: a relay that loses, doubles, puts off and forges datagrams by a seed,
//! and knows what it did.

use super::super::datagram::{DatagramMessage, MESSAGE_BYTES, Tags};
use super::*;
use linerate_facts::random::Random;
use std::collections::HashSet;

/// What the relay did with the payload.
#[derive(Debug, Default)]
struct Deeds {
    passed: HashSet<u64>,
    doubled: u64,
    /// Passed after a higher number, for the first time.
    reordered: u64,
    next: u64,
    forged: u64,
}

struct Relay {
    near: UdpSocket,
    far: UdpSocket,
    tags: Tags,
    random: Random,
    /// Of 256 datagrams of payload, so many are lost, doubled, put off, and accompanied by a forged one.
    lost: u64,
    doubled: u64,
    late: u64,
    forged: u64,
    /// Of 256 messages, probes and answers, so many are lost.
    mute: u64,
    held: Vec<(u64, Vec<u8>)>,
    deeds: Deeds,
}

impl Relay {
    /// The relay, and the two sockets whose datagrams pass through it.
    fn new(seed: u64) -> (Self, (UdpSocket, UdpSocket)) {
        let (near, toward_near) = udp_sockets();
        let (toward_far, far) = udp_sockets();
        toward_near.set_read_timeout(Some(Duration::from_micros(200))).expect("a timeout");
        toward_far.set_nonblocking(true).expect("nonblocking");
        linerate_system::socket::set_receive_buffer(&toward_near, 16 << 20).expect("a buffer");
        let relay = Relay {
            near: toward_near,
            far: toward_far,
            tags: Tags::of(&TOKEN),
            random: Random::new(seed),
            lost: 0,
            doubled: 0,
            late: 0,
            forged: 0,
            mute: 0,
            held: Vec::new(),
            deeds: Deeds::default(),
        };
        (relay, (near, far))
    }

    /// 0..256.
    fn dice(&mut self) -> u64 {
        self.random.below(256)
    }

    fn run(mut self, stop: &Stop) -> Deeds {
        let mut datagram = vec![0; 1 << 16];
        while !stop.is_ended() {
            if let Ok(length) = self.near.recv(&mut datagram) {
                self.forward(&datagram[..length]);
            }
            while let Ok(length) = self.far.recv(&mut datagram) {
                // Answers get lost, too.
                if self.dice() >= self.mute {
                    let _ = self.near.send(&datagram[..length]);
                }
            }
        }
        self.deeds
    }

    fn forward(&mut self, datagram: &[u8]) {
        let Some(header) = self.tags.read(datagram) else {
            if matches!(self.tags.read_message(datagram), Some(DatagramMessage::End(_))) {
                (0..self.held.len()).for_each(|_| self.pass_held(0));
            }
            if self.dice() >= self.mute {
                let _ = self.far.send(datagram);
            }
            return;
        };
        if self.dice() < self.forged {
            self.forge(datagram);
        }
        let dice = self.dice();
        if dice < self.lost {
            return;
        }
        if dice < self.lost + self.late {
            self.held.push((header.number, datagram.to_vec()));
            return;
        }
        self.pass(header.number, datagram);
        if dice >= 256 - self.doubled {
            self.pass(header.number, datagram);
        }
        if self.held.len() > 3 {
            let which = self.dice() as usize % self.held.len();
            self.pass_held(which);
        }
    }

    fn pass_held(&mut self, which: usize) {
        let (number, datagram) = self.held.swap_remove(which);
        self.pass(number, &datagram);
    }

    fn pass(&mut self, number: u64, datagram: &[u8]) {
        if self.far.send(datagram).is_err() {
            return;
        }
        if self.deeds.passed.insert(number) {
            self.deeds.reordered += u64::from(number < self.deeds.next);
            self.deeds.next = self.deeds.next.max(number + 1);
        } else {
            self.deeds.doubled += 1;
        }
    }

    /// What somebody without the token may send.
    fn forge(&mut self, datagram: &[u8]) {
        let mut forged = datagram.to_vec();
        match self.dice() % 4 {
            0 => forged[self.random.below(8) as usize] ^= 1 + self.random.below(128) as u8,
            1 => forged = Tags::of(&[43; 32]).message(DatagramMessage::End(1)).to_vec(),
            2 => forged.truncate(23),
            _ => forged = vec![0; MESSAGE_BYTES],
        }
        if self.far.send(&forged).is_ok() {
            self.deeds.forged += 1;
        }
    }
}

/// Sends through a relay; what the sender and the receiver counted, and what the relay did.
fn send_through(
    near: StreamSpec,
    relay: Relay,
    (from, to): (UdpSocket, UdpSocket),
) -> (StreamSample, StreamSample, Deeds) {
    let stop = Stop::new();
    std::thread::scope(|scope| {
        let relaying = scope.spawn(|| relay.run(&stop));
        let sockets = [from, to].map(|socket| StreamSocket::Udp { socket, token: TOKEN });
        let (near, far) = run_both(near, sockets.into(), Content::Memory, None);
        stop.end();
        (near, far, relaying.join().expect("the relay"))
    })
}

fn paced() -> StreamSpec {
    StreamSpec {
        protocol: Protocol::Udp,
        method: SendMethod::Trains,
        datagram_bytes: 500,
        bytes_per_second: Some(10e6),
        limit_bytes: Some(3_000_000),
        ..spec()
    }
}

#[test]
fn every_lost_duplicated_late_and_forged_datagram_is_counted() {
    for seed in [1, 0xdead_beef, 0x5eed_5eed_5eed] {
        let (relay, sockets) = Relay::new(seed);
        let relay = Relay { lost: 20, doubled: 20, late: 30, forged: 20, mute: 64, ..relay };
        let (sender, receiver, deeds) = send_through(paced(), relay, sockets);
        assert_eq!(sender.datagrams, 6000);
        let passed = deeds.passed.len() as u64;
        assert!(
            passed < 5900 && deeds.doubled > 100 && deeds.reordered > 100 && deeds.forged > 100,
            "{deeds:?}"
        );
        assert_eq!(receiver.datagrams, passed + deeds.doubled, "seed {seed:x}: {receiver:?}");
        assert_eq!(receiver.lost, 6000 - passed, "seed {seed:x}");
        assert_eq!(receiver.duplicated, deeds.doubled, "seed {seed:x}");
        assert_eq!(receiver.reordered, deeds.reordered, "seed {seed:x}");
        assert_eq!(receiver.foreign, deeds.forged, "seed {seed:x}");
        assert_eq!(receiver.bytes, passed * 500, "seed {seed:x}");
    }
}

#[test]
fn what_is_lost_at_the_very_end_is_counted_too() {
    let (relay, sockets) = Relay::new(7);
    // Little payload passes, and only when the end was said.
    let (sender, receiver, deeds) =
        send_through(paced(), Relay { lost: 200, late: 56, mute: 64, ..relay }, sockets);
    assert_eq!(receiver.lost + receiver.datagrams, sender.datagrams, "{deeds:?}");
    assert!(receiver.lost > 4000, "{receiver:?}");
}

#[test]
fn a_sender_without_a_rate_shares_a_lossy_path_and_ends() {
    let (relay, sockets) = Relay::new(99);
    let spec = StreamSpec { bytes_per_second: None, limit_bytes: Some(1_000_000), ..paced() };
    let (sender, receiver, deeds) = send_through(spec, Relay { lost: 3, mute: 3, ..relay }, sockets);
    assert_eq!(sender.datagrams, receiver.datagrams + receiver.lost, "{receiver:?}");
    assert_eq!(receiver.datagrams, deeds.passed.len() as u64);
}
