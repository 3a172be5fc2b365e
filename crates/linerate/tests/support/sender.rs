//! A sender of one tile: frames cut by `rtp::Layout`, paced a little, numbered as the wall numbers them.

use linerate::wall::geometry::{FrameRate, Size, TileId};
use linerate::wall::picture::{Proof, stamp};
use linerate::wall::rtp::{DatagramStamp, FrameLayout};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, SystemTime};

pub const RATE: FrameRate = FrameRate { numerator: 24, denominator: 1 };

/// One tile's sender.
pub struct Sender {
    socket: UdpSocket,
    layout: FrameLayout,
    sequence: u32,
    ssrc: u32,
    tick: u64,
    /// Goes on where nobody listens any more.
    patient: bool,
}

impl Sender {
    /// To a screen; its first frame is that of the next tick but one.
    pub fn new(to: SocketAddr, size: Size, most_bytes: usize) -> Sender {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.connect(to).expect("connected");
        let layout = FrameLayout::new(size, most_bytes).expect("a layout");
        let ssrc = u32::from(socket.local_addr().expect("an address").port());
        // Wraps soon.
        let tick = RATE.tick_at(SystemTime::now()) + 2;
        Sender { socket, layout, sequence: u32::MAX - 100, ssrc, tick, patient: false }
    }

    pub fn patiently(self) -> Sender {
        Sender { patient: true, ..self }
    }

    pub fn with_ssrc(self, ssrc: u32) -> Sender {
        Sender { ssrc, ..self }
    }

    pub fn begins_at(self, tick: u64) -> Sender {
        Sender { tick, ..self }
    }

    /// Sends so many frames, each at its tick, beginning with the first again after the last.
    pub fn play(&mut self, frames: &[Vec<u8>], count: usize) {
        for frame in frames.iter().cycle().take(count) {
            self.frame(frame, |_| true);
        }
    }

    /// Sends one frame, but for the datagrams that `keep` refuses; how many were sent.
    pub fn frame(&mut self, frame: &[u8], keep: impl Fn(usize) -> bool) -> u64 {
        if let Ok(early) = RATE.start_of(self.tick).duration_since(SystemTime::now()) {
            std::thread::sleep(early);
        }
        let mut sent = 0;
        for index in 0..self.layout.datagrams() {
            let stamp = DatagramStamp {
                sequence: self.sequence,
                timestamp: RATE.timestamp_of(self.tick),
                ssrc: self.ssrc,
            };
            self.sequence = self.sequence.wrapping_add(1);
            if !keep(index) {
                continue;
            }
            let mut datagram = Vec::new();
            self.layout.write_header(index, stamp, &mut datagram);
            datagram.extend(&frame[self.layout.payload(index)]);
            datagram.extend(self.layout.padding(index));
            self.raw(&datagram);
            sent += 1;
            if index % 8 == 7 {
                std::thread::sleep(Duration::from_micros(300));
            }
        }
        self.tick += 1;
        sent
    }

    pub fn raw(&self, datagram: &[u8]) {
        let sent = self.socket.send(datagram);
        assert!(sent.is_ok() || self.patient, "{sent:?}");
    }
}

/// Frames that nothing else looks like.
pub fn noise(size: Size, frames: u32) -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        // xorshift64*
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
    };
    (0..frames).map(|_| (0..size.frame_bytes()).map(|_| next()).collect()).collect()
}

/// The same, each with the stamp of its number and tile.
pub fn stamped(size: Size, column: u16, frames: u32) -> Vec<Vec<u8>> {
    let mut all = noise(size, frames);
    for (frame, number) in all.iter_mut().zip(0..) {
        stamp(frame, size, Proof { tile: TileId { row: 0, column }, frame: number });
    }
    all
}
