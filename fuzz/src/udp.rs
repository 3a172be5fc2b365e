//! Datagrams of a UDP data path: readers that tell ours from payload, and the window that follows what a
//! receiver claims.

use super::Bytes;
use linerate::flow::window::SendWindow;
use linerate::flow::wire::{Feedback, Probe, StreamToken, admitted, read_admitted};
use std::time::Duration;

/// A token, then either one datagram as it stands or a conversation of a sender with a receiver that claims
/// anything.
pub fn udp(input: &[u8]) {
    let mut bytes = Bytes(input);
    let token: StreamToken = bytes.array();
    readers(bytes.0, &token);
    conversation(&mut bytes, &token);
}

/// What is read is what was written.
fn readers(datagram: &[u8], token: &StreamToken) {
    if let Some(probe) = Probe::read(datagram, token) {
        assert_eq!(Probe::read(&probe.datagram(token), token), Some(probe));
    }
    if let Some(feedback) = Feedback::read(datagram, token) {
        assert_eq!(Feedback::read(&feedback.datagram(token), token), Some(feedback));
    }
    if let Some(buffer_bytes) = read_admitted(datagram, token) {
        assert_eq!(admitted(token, buffer_bytes), datagram);
    }
}

/// Whatever a receiver claims, the window keeps its bounds: it is neither shut for ever nor a flood.
fn conversation(bytes: &mut Bytes, token: &StreamToken) {
    let mut window = SendWindow::new(bytes.number(), Duration::from_nanos(bytes.number()));
    while !bytes.is_empty() {
        match bytes.byte() % 4 {
            0 => window.sent(window.room().min(u64::from(u16::from_le_bytes(bytes.array())))),
            1 => window.silence(),
            kind => {
                // Near what was sent, as an insider would tell it, or anything.
                let near = kind == 2;
                let base = if near { window.sent_bytes() } else { u64::MAX };
                let claim = Feedback {
                    probe: Probe {
                        sent_bytes: base.wrapping_sub(bytes.number() >> 44),
                        nanos: bytes.number(),
                    },
                    received_bytes: bytes.number(),
                    datagrams: bytes.number(),
                    socket_drops: bytes.number(),
                    held_nanos: bytes.number(),
                };
                let heard =
                    Feedback::read(&claim.datagram(token), token).expect("a feedback that was just written");
                window.hear(&heard, Duration::from_nanos(bytes.number()));
            }
        }
        assert!((16 << 10..=1 << 30).contains(&window.bytes()), "{window:?}");
        assert!(window.room() <= window.bytes() && window.lost_bytes() <= window.sent_bytes(), "{window:?}");
        assert!(window.probe_every_bytes() > 0);
    }
}
