//! Sockets bound to an address and an interface of this host before they connect.

use linerate_facts::failure::Failure;
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

/// Where a connection shall leave this host: an address of its own, an interface; none: as the routes say.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalBinding<'a> {
    pub local: Option<SocketAddr>,
    /// Name of the interface (SO_BINDTODEVICE).
    pub device: Option<&'a str>,
}

/// A socket towards `peer`, bound. `prepare` sets its options before that.
pub(crate) fn bound(
    peer: SocketAddr,
    kind: Type,
    way: LocalBinding<'_>,
    prepare: impl FnOnce(&Socket) -> io::Result<()>,
) -> Result<Socket, Failure> {
    let lacks = |what: String| Failure::Lacks(format!("no socket for a connection to {peer}: {what}"));
    let socket = Socket::new(Domain::for_address(peer), kind, None)
        .map_err(|error| lacks(format!("{error}; too many open files? Raise `ulimit -n`")))?;
    prepare(&socket).map_err(|error| lacks(error.to_string()))?;
    if let Some(device) = way.device {
        socket.bind_device(Some(device.as_bytes())).map_err(|error| {
            lacks(match error.kind() {
                ErrorKind::PermissionDenied => {
                    format!("to bind it to the interface {device} needs CAP_NET_RAW: run as root")
                }
                _ => format!(
                    "it cannot be bound to the interface {device}: {error}; `ip link` shows those \
                              that are there"
                ),
            })
        })?;
    }
    if let Some(local) = way.local {
        socket.bind(&local.into()).map_err(|error| {
            lacks(match error.kind() {
                ErrorKind::AddrNotAvailable => {
                    format!(
                        "no interface of this host has the address {}: `ip address` shows them",
                        local.ip()
                    )
                }
                _ => format!("it cannot be bound to {local}: {error}"),
            })
        })?;
    }
    Ok(socket)
}
