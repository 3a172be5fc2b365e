//! Another protocol version.

use crate::running::{PATIENCE, Running};
use std::io::{Read, Write};
use std::net::TcpStream;

#[test]
fn another_protocol_version_is_told_with_both_versions() {
    let running = Running::start();
    let text = future_client(&running);
    for part in ["agent protocol 2", "agent protocol 99", "9.9.9", env!("CARGO_PKG_VERSION")] {
        assert!(text.contains(part), "{part} in {text}");
    }
    running.awaits_load((0, 0, 0));
}

/// A client of a later version, written against the wire alone: it also keeps the framing from changing unseen.
fn future_client(running: &Running) -> String {
    let key: Vec<u8> = running.key.to_hex().as_bytes().chunks(2).map(hex_byte).collect();
    let key: [u8; 32] = key.try_into().expect("32 bytes");
    let builder = snow::Builder::new("Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s".parse().expect("a pattern"));
    let builder = builder.prologue(b"LRc1").expect("a prologue").psk(0, &key).expect("the key");
    let mut state = builder.build_initiator().expect("a state");
    let mut stream = TcpStream::connect(running.address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut buffer = [0; 65_535];
    let length = state.write_message(&[], &mut buffer).expect("a message");
    stream.write_all(b"LRc1").expect("the magic");
    write_frame(&mut stream, &buffer[..length]);
    state.read_message(&read_frame(&mut stream), &mut buffer).expect("the agent's half");
    let mut noise = state.into_transport_mode().expect("a channel");
    let hello = b"\x01{\"ask\":\"hello\",\"protocol\":99,\"version\":\"9.9.9\",\"more\":[1]}";
    let length = noise.write_message(hello, &mut buffer).expect("a message");
    write_frame(&mut stream, &buffer[..length]);
    let length = noise.read_message(&read_frame(&mut stream), &mut buffer).expect("the answer");
    assert_eq!(buffer[0], 1);
    String::from_utf8(buffer[1..length].to_vec()).expect("text")
}

fn hex_byte(digits: &[u8]) -> u8 {
    u8::from_str_radix(std::str::from_utf8(digits).expect("digits"), 16).expect("hex")
}

fn write_frame(stream: &mut TcpStream, frame: &[u8]) {
    stream.write_all(&(frame.len() as u16).to_be_bytes()).expect("a length");
    stream.write_all(frame).expect("a frame");
}

fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).expect("a length");
    let mut frame = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut frame).expect("a frame");
    frame
}
