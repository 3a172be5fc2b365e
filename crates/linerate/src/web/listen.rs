//! A listener, and in one sentence why there is none.

use crate::failure::Failure;
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// A listener; `dual`: one for every IPv6 address is one for every IPv4 address as well.
pub fn bind(address: SocketAddr, dual: bool, option: &str) -> Result<TcpListener, Failure> {
    let opened = || -> io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        if address.is_ipv6() {
            socket.set_only_v6(!dual)?;
        }
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(128)?;
        socket.set_nonblocking(true)?;
        TcpListener::from_std(socket.into())
    };
    opened().map_err(|error| {
        let port = address.port();
        Failure::Lacks(match error.kind() {
            ErrorKind::AddrInUse => format!(
                "port {port} is in use on {}: does another linerate listen there? Stop it, or choose another port with {option} \
                 ADDRESS:PORT",
                address.ip()
            ),
            ErrorKind::AddrNotAvailable => {
                format!("no interface of this host has the address {}: give {option} one that `ip address` shows", address.ip())
            }
            ErrorKind::PermissionDenied => {
                format!("port {port} needs root (it is below 1024): choose a higher one with {option} ADDRESS:PORT")
            }
            _ => format!("cannot listen on {address}: {error}; choose another address with {option}"),
        })
    })
}
