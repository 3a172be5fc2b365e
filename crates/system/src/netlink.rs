//! What all netlink families share: asking for a dump, taking its messages apart, attributes.

use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::OwnedFd;

/// `struct nlmsghdr`.
pub(crate) const HEAD_BYTES: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// NLM_F_REQUEST.
const REQUEST: u16 = 1;
/// NLM_F_REQUEST and NLM_F_DUMP.
const DUMP: u16 = 0x301;
/// NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const TYPE_MASK: u16 = 0x3fff;

/// Whether more messages follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    GoesOn,
    Ended,
}

/// Asks a family for a dump and hands each datagram to `take`, until that says that it has ended.
pub(crate) fn dump(
    family: Option<Protocol>,
    kind: u16,
    body: &[u8],
    mut take: impl FnMut(&[u8]) -> io::Result<Dump>,
) -> io::Result<()> {
    let socket = asked(family, kind, DUMP, body)?;
    // The kernel fills at most 32 KiB a message of a dump (`netlink_recvmsg`).
    let mut buffer = vec![0u8; 64 << 10];
    loop {
        let (received, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        if received == 0 || take(&buffer[..received])? == Dump::Ended {
            return Ok(());
        }
    }
}

/// Asks a family one thing: the socket, and the datagram that answers.
pub(crate) fn ask(family: Option<Protocol>, kind: u16, body: &[u8]) -> io::Result<(OwnedFd, Vec<u8>)> {
    let socket = asked(family, kind, REQUEST, body)?;
    let mut buffer = vec![0u8; 8 << 10];
    let (received, _) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())?;
    buffer.truncate(received);
    Ok((socket, buffer))
}

fn asked(family: Option<Protocol>, kind: u16, flags: u16, body: &[u8]) -> io::Result<OwnedFd> {
    let socket =
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, family)?;
    // An unconnected netlink socket sends to the kernel.
    rustix::net::send(&socket, &request(kind, flags, body), SendFlags::empty())?;
    Ok(socket)
}

fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEAD_BYTES + body.len());
    message.extend(((HEAD_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Sequence number and port.
    message.resize(HEAD_BYTES, 0);
    message.extend(body);
    message
}

/// Hands the body of each message of this kind in a datagram to `take`. What is cut short or of another kind
/// is left out; an error that the kernel reports is one.
pub(crate) fn messages(datagram: &[u8], wanted: u16, mut take: impl FnMut(&[u8])) -> io::Result<Dump> {
    let mut rest = datagram;
    while let (Some(length), Some(kind)) = (u32_at(rest, 0), u16_at(rest, 4)) {
        let length = length as usize;
        let Some(message) = rest.get(..length).filter(|message| message.len() >= HEAD_BYTES) else { break };
        let body = &message[HEAD_BYTES..];
        match kind {
            // A dump that cannot be had ends with why (`netlink_dump_done`): no handler is not an empty list.
            NLMSG_DONE | NLMSG_ERROR => return parse_end(body),
            kind if kind == wanted => take(body),
            _ => {}
        }
        rest = rest.get(aligned(length)..).unwrap_or_default();
    }
    Ok(Dump::GoesOn)
}

/// The end of an answer: an error of the kernel, or an acknowledgement.
fn parse_end(body: &[u8]) -> io::Result<Dump> {
    match u32_at(body, 0).map(|number| number as i32) {
        Some(number @ -4095..=-1) => Err(io::Error::from_raw_os_error(-number)),
        _ => Ok(Dump::Ended),
    }
}

/// Type and value of each attribute (`struct nlattr`), up to the first that is damaged.
pub(crate) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & TYPE_MASK;
        let value = rest.get(4..length)?;
        rest = rest.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// NLMSG_ALIGN, NLA_ALIGN.
fn aligned(length: usize) -> usize {
    length.saturating_add(3) & !3
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_ne_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

/// Messages for tests, as the kernel writes them.
#[cfg(test)]
pub(crate) mod made {
    use super::HEAD_BYTES;

    pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    pub(crate) fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEAD_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEAD_BYTES, 0);
        bytes.extend(body);
        bytes
    }

    pub(crate) fn done() -> Vec<u8> {
        message(super::NLMSG_DONE, &[0; 4])
    }

    /// A dump that failed.
    pub(crate) fn failed(number: i32) -> Vec<u8> {
        message(super::NLMSG_DONE, &number.to_ne_bytes())
    }

    pub(crate) fn error(number: i32) -> Vec<u8> {
        message(super::NLMSG_ERROR, &number.to_ne_bytes())
    }
}
