//! Enters a network namespace, of a name as `ip netns exec` does, or that of a process: `/proc/sys/net`, sockets and
//! `/sys/class/net` are then its own. For the calling thread and those that it starts afterwards; nothing
//! outside of them changes.

use rustix::fs::{Mode, OFlags};
use std::ffi::{CStr, CString};
use std::io;
use std::path::Path;

/// Where `ip netns` keeps them (ip-netns(8)).
const NAMED: &str = "/run/netns";
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// Enters the namespace of this name. Needs CAP_SYS_ADMIN.
pub fn enter_network(name: &str) -> io::Result<()> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no name of a network namespace"));
    }
    enter(&Path::new(NAMED).join(name))
}

/// Enters that of a process, as that of a container. Needs CAP_SYS_ADMIN.
pub fn enter_network_of(process: u32) -> io::Result<()> {
    enter(Path::new(&format!("/proc/{process}/ns/net")))
}

fn enter(namespace: &Path) -> io::Result<()> {
    let open = |path: &Path, flags| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
    let handle = open(namespace, OFlags::RDONLY)?;
    rustix::thread::move_into_link_name_space(
        std::os::fd::AsFd::as_fd(&handle),
        Some(rustix::thread::LinkNameSpaceType::Network),
    )?;
    // sysfs shows the interfaces of the namespace in which it was mounted: a mount of our own, in a mount
    // namespace of our own. SAFETY: unshare touches no memory. A mount namespace of its own implies file
    // system attributes of its own, for this thread.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    mount(None, c"/", None, libc::MS_SLAVE | libc::MS_REC)?;
    // The new /sys hides the control groups, which a descriptor still reaches.
    let groups = open(Path::new(CONTROL_GROUPS), OFlags::PATH);
    mount(Some(c"linerate"), c"/sys", Some(c"sysfs"), 0)?;
    let Ok(groups) = groups else { return Ok(()) };
    let source = CString::new(format!("/proc/thread-self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&groups)))?;
    mount(Some(&source), c"/sys/fs/cgroup", None, libc::MS_BIND | libc::MS_REC)
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
