//! Stand-in for the engine of `flow::stream` until it is merged.

use crate::flow::stream::{StreamCounters, StreamSpec};
use crate::flow::wire::Token;
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;

#[derive(Debug)]
pub enum StreamSocket {
    Tcp(TcpStream),
    Udp { socket: UdpSocket, token: Token },
}

#[derive(Debug)]
pub enum Content {
    Memory,
}

pub fn run(
    _: &StreamSpec,
    _: StreamSocket,
    _: Content,
    _: &StreamCounters,
    _: &AtomicBool,
) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub fn open_udp(_: &UdpSocket, _: &Token) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub fn accept_udp(_: &UdpSocket, _: &Token, _: &AtomicBool) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

pub fn prepare(_: &StreamSpec, _: &socket2::Socket) -> io::Result<()> {
    Ok(())
}
