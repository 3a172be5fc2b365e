//! Enters a network namespace that `ip netns add` made, as `ip netns exec` does: `/proc/sys/net`, sockets and
//! `/sys/class/net` are then its own. For the calling thread and those that it starts afterwards; nothing
//! outside of them changes.

use rustix::fs::{Mode, OFlags};
use std::ffi::CStr;
use std::io;
use std::path::Path;

/// Where `ip netns` keeps them (ip-netns(8)).
const NAMED: &str = "/run/netns";

/// Enters the namespace of this name. Needs CAP_SYS_ADMIN.
pub fn enter_network(name: &str) -> io::Result<()> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no name of a network namespace"));
    }
    let handle =
        rustix::fs::open(Path::new(NAMED).join(name), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::thread::move_into_link_name_space(
        std::os::fd::AsFd::as_fd(&handle),
        Some(rustix::thread::LinkNameSpaceType::Network),
    )?;
    // sysfs shows the interfaces of the namespace in which it was mounted: a mount of our own, in a mount
    // namespace of our own. SAFETY: unshare touches no memory. A mount namespace of its own implies file
    // system attributes of its own, for this thread.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(None, c"/", None, libc::MS_SLAVE | libc::MS_REC)?;
    // SAFETY: the path ends in a zero byte.
    check(unsafe { libc::umount2(c"/sys".as_ptr(), libc::MNT_DETACH) })?;
    mount(Some(c"linerate"), c"/sys", Some(c"sysfs"), 0)
}

/// Does something in the network namespace of a process, on a thread of its own: the rest of this program stays where it
/// is. Needs CAP_SYS_ADMIN.
pub fn in_network_of<T: Send>(process: u32, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let place = format!("/proc/{process}/ns/net");
    let handle = rustix::fs::open(place, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let inside = || {
        let kind = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&handle), kind)?;
        Ok(work())
    };
    std::thread::scope(|scope| {
        let done = scope.spawn(inside).join();
        done.unwrap_or_else(|_| Err(io::Error::other("the thread in that namespace has panicked")))
    })
}

fn mount(source: Option<&CStr>, target: &CStr, kind: Option<&CStr>, flags: libc::c_ulong) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: the texts end in a zero byte or are absent, which mount(2) allows for these flags; there is no
    // data.
    check(unsafe { libc::mount(pointer(source), target.as_ptr(), pointer(kind), flags, std::ptr::null()) })
}

fn check(status: libc::c_int) -> io::Result<()> {
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_is_refused() {
        for name in ["", "a/b", "..", "."] {
            assert_eq!(
                enter_network(name).expect_err("no name").kind(),
                io::ErrorKind::InvalidInput,
                "{name}"
            );
        }
        assert!(enter_network("linerate-none-of-that-name").is_err());
    }
}
