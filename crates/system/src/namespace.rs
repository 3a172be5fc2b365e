//! Another place in the system for a thread or the process.
//!
//! A network namespace is entered, of a name as `ip netns exec` does, or that of a process: `/proc/sys/net`, sockets and
//! `/sys/class/net` are then its own. For the calling thread and those that it starts afterwards; nothing
//! outside of them changes. Of another control group the process is a member for a while: what it reads and computes then
//! counts there.

use rustix::fs::{Mode, OFlags};
use std::ffi::{CStr, CString};
use std::io;
use std::path::{Path, PathBuf};

/// Where `ip netns` keeps them (ip-netns(8)).
const NAMED: &str = "/run/netns";
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

const MEMBERS: &str = "cgroup.procs";

/// Enters the namespace of this name. Needs CAP_SYS_ADMIN.
pub fn enter_network(name: &str) -> io::Result<()> {
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no name of a network namespace"));
    }
    enter_namespace(&Path::new(NAMED).join(name))
}

/// Enters that of a process, as that of a container. Needs CAP_SYS_ADMIN.
pub fn enter_network_of(process: u32) -> io::Result<()> {
    enter_namespace(Path::new(&format!("/proc/{process}/ns/net")))
}

fn enter_namespace(namespace: &Path) -> io::Result<()> {
    let open = |path: &Path, flags| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
    let handle = open(namespace, OFlags::RDONLY)?;
    rustix::thread::move_into_link_name_space(
        std::os::fd::AsFd::as_fd(&handle),
        Some(rustix::thread::LinkNameSpaceType::Network),
    )?;
    // sysfs shows the interfaces of the namespace in which it was mounted: a mount of our own, in a mount
    // namespace of our own. SAFETY: unshare touches no memory. A mount namespace of its own implies file
    // system attributes of its own, for this thread.
    succeeded(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
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
    succeeded(unsafe {
        libc::mount(pointer(source), target.as_ptr(), pointer(kind), flags, std::ptr::null())
    })
}

fn succeeded(status: libc::c_int) -> io::Result<()> {
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A membership; it ends with the value, or with the process.
#[derive(Debug)]
pub struct JoinedGroup {
    own: PathBuf,
}

impl JoinedGroup {
    /// This user may move processes into this group.
    pub fn may_join(group: &Path) -> bool {
        std::fs::File::options().write(true).open(group.join(MEMBERS)).is_ok()
    }

    /// Moves this process into the group of this folder; afterwards it returns to `own`.
    pub fn join(group: &Path, own: &Path) -> io::Result<JoinedGroup> {
        enter_group(group)?;
        Ok(JoinedGroup { own: own.to_path_buf() })
    }
}

impl Drop for JoinedGroup {
    fn drop(&mut self) {
        // Where its group is gone meanwhile, it stays until it ends, which is soon.
        let _ = enter_group(&self.own);
    }
}

fn enter_group(group: &Path) -> io::Result<()> {
    std::fs::write(group.join(MEMBERS), std::process::id().to_string())
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

    #[test]
    fn a_member_returns_to_its_own_group() {
        let [group, own] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let member = |folder: &tempfile::TempDir| std::fs::read_to_string(folder.path().join("cgroup.procs"));
        let joined = JoinedGroup::join(group.path(), own.path()).expect("joined");
        assert_eq!(member(&group).expect("a member"), std::process::id().to_string());
        assert!(member(&own).is_err());
        assert!(JoinedGroup::may_join(group.path()) && !JoinedGroup::may_join(own.path()));
        drop(joined);
        assert_eq!(member(&own).expect("a member"), std::process::id().to_string());
        assert!(JoinedGroup::join(Path::new("/nonexistent"), own.path()).is_err());
    }
}
