//! What a driver reports of a network interface through the ethtool ioctl (`include/uapi/linux/ethtool.h`,
//! `net/ethtool/ioctl.c`): questions, none of which needs a privilege, and, in `settings`, changes, which do.
//!
//! A question that a driver does not answer fails with `EOPNOTSUPP`; an interface that is gone, with `ENODEV`.

mod link;
mod settings;
mod strings;

pub use link::{Duplex, Link};
pub use settings::{Channels, Coalescing, Fec, Pause, Rings};
pub use strings::Driver;

use rustix::net::{AddressFamily, SocketType};
use std::cell::OnceCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// A socket to ask over, and the names that the kernel gives to features and link modes: those are the same
/// for all interfaces.
pub struct Ethtool {
    socket: OwnedFd,
    feature_names: OnceCell<Vec<String>>,
    link_mode_names: OnceCell<Vec<String>>,
}

impl Ethtool {
    /// Opens a socket; any kind will do for this ioctl.
    pub fn new() -> io::Result<Self> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
        Ok(Ethtool { socket, feature_names: OnceCell::new(), link_mode_names: OnceCell::new() })
    }

    /// Asks about one interface.
    ///
    /// # Safety
    /// `request` begins with the number of a command (`ETHTOOL_G…`) and leads to as many bytes, aligned to 4
    /// and free to be written, as the kernel reads and writes for that command and for the counts that stand
    /// in the request.
    unsafe fn ask(&self, interface: &str, request: *mut libc::c_void) -> io::Result<()> {
        // SAFETY: as the caller vouches.
        unsafe { self.ask_for_status(interface, request) }.map(drop)
    }

    /// Asks about one interface, and gives what the call returned: some commands tell there what was not
    /// done.
    ///
    /// # Safety
    /// As [`Ethtool::ask`].
    unsafe fn ask_for_status(&self, interface: &str, request: *mut libc::c_void) -> io::Result<libc::c_int> {
        let mut envelope = libc::ifreq {
            ifr_name: interface_name(interface)?,
            ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: request.cast() },
        };
        // SAFETY: SIOCETHTOOL takes an ifreq whose data pointer leads to the request; the caller vouches for
        // the request.
        let status = unsafe {
            libc::ioctl(self.socket.as_raw_fd(), libc::SIOCETHTOOL as libc::Ioctl, &raw mut envelope)
        };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(status) }
    }

    /// Asks with a structure of fixed size.
    ///
    /// # Safety
    /// `T` is `repr(C)`, made of integers only, has the layout and the size of the kernel's structure for the
    /// command that its first field holds, and that structure has no part of variable length.
    unsafe fn fixed<T>(&self, interface: &str, mut request: T) -> io::Result<T> {
        // SAFETY: as the caller vouches, the kernel reads and writes no more than the structure, which
        // outlives the call.
        unsafe { self.ask(interface, (&raw mut request).cast()) }?;
        Ok(request)
    }
}

/// The name as the kernel takes it: at most 15 bytes and a zero.
fn interface_name(interface: &str) -> io::Result<[libc::c_char; libc::IFNAMSIZ]> {
    let bytes = interface.as_bytes();
    if bytes.is_empty() || bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "an interface name has 1 to 15 bytes"));
    }
    let mut name = [0; libc::IFNAMSIZ];
    for (to, from) in name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(name)
}

/// Text in a field of fixed length, up to its first zero.
fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let ethtool = Ethtool::new().expect("a socket");
        let error = ethtool.driver("linerate-none").expect_err("no such interface");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        assert!(ethtool.driver("a-name-that-is-far-too-long").is_err());
        assert!(ethtool.driver("").is_err());
        assert!(ethtool.features("linerate-none").is_err());
        assert!(ethtool.link("linerate-none").is_err());
    }

    #[test]
    fn text_ends_at_the_first_zero() {
        assert_eq!(text(b"veth\0\0garbage"), "veth");
        assert_eq!(text(b"full"), "full");
        assert_eq!(text(b" 28.40.1000 (MT_12)\0"), "28.40.1000 (MT_12)");
    }
}
