//! Users: the one who called sudo, their home, and work done with their rights.

use rustix::process::{Gid, Uid};
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A user and their group, as the kernel numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserIds {
    pub user: u32,
    pub group: u32,
}

/// The user who called sudo (`SUDO_UID`, `SUDO_GID`); none where this process is not root's or root called it.
pub fn behind_sudo() -> Option<UserIds> {
    let number = |name: &str| std::env::var(name).ok().and_then(|digits| digits.parse::<u32>().ok());
    let ids = UserIds { user: number("SUDO_UID")?, group: number("SUDO_GID")? };
    // The last number stands for “no change” in the kernel's calls.
    let is_user = |ids: &UserIds| ids.user != 0 && ids.user != u32::MAX && ids.group != u32::MAX;
    rustix::process::geteuid().is_root().then_some(ids).filter(is_user)
}

/// This process has the rights of root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The home of this process's user: `HOME` where it is theirs, else what the system's list says. sudo may have
/// left HOME as it was, and a file of root's has no place in another user's home.
pub fn own_home() -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let is_own =
        |home: &PathBuf| home.is_absolute() && std::fs::metadata(home).is_ok_and(|about| about.uid() == user);
    std::env::var_os("HOME").map(PathBuf::from).filter(is_own).or_else(|| home_of(user))
}

/// The home of a user, by the system's own list of users; none where that does not have it.
pub fn home_of(user: u32) -> Option<PathBuf> {
    /// More than any entry takes.
    const LARGEST_ENTRY: usize = 1 << 20;
    let mut room = vec![0_u8; 4096];
    loop {
        let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
        let mut found: *mut libc::passwd = std::ptr::null_mut();
        // SAFETY: `entry` has room for one entry, `room` for as many bytes as is said; both and `found`
        // outlive the call.
        let error = unsafe {
            libc::getpwuid_r(user, entry.as_mut_ptr(), room.as_mut_ptr().cast(), room.len(), &mut found)
        };
        match error {
            libc::ERANGE if room.len() < LARGEST_ENTRY => room.resize(room.len() * 4, 0),
            0 if !found.is_null() => {
                // SAFETY: the call found an entry: `found` is `entry`, its home is a text in `room`, which
                // is not changed before the text is copied.
                let home = unsafe { CStr::from_ptr((*found).pw_dir) };
                return Some(PathBuf::from(OsStr::from_bytes(home.to_bytes())));
            }
            _ => return None,
        }
    }
}

/// Does something with the rights of a user and no more: files that it makes are theirs, and what they may not
/// write, it does not write.
///
/// Linux keeps the user of each thread apart (credentials(7)): only a thread of its own becomes the user, and
/// it ends with the work.
pub fn with_rights_of<T: Send>(ids: UserIds, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let (user, group) = (Uid::from_raw(ids.user), Gid::from_raw(ids.group));
    let become_user = move || -> io::Result<()> {
        // In this order: who is no longer root may not give up groups.
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(group, group, group)?;
        Ok(rustix::thread::set_thread_res_uid(user, user, user)?)
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("as-user".into());
        let thread = thread.spawn_scoped(scope, move || become_user().map(|()| work()))?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of another user has panicked")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn root_has_a_home_and_nobody_has_that_of_no_user() {
        assert_eq!(home_of(0), Some("/root".into()));
        assert_eq!(home_of(u32::MAX - 7), None);
    }

    #[test]
    fn work_with_the_rights_of_another_makes_their_files_and_may_not_write_those_of_root() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can become somebody else");
            return;
        }
        let (theirs, ours) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let nobody = UserIds { user: 65_534, group: 65_533 };
        std::os::unix::fs::chown(theirs.path(), Some(nobody.user), Some(nobody.group)).expect("given away");
        let work =
            || (std::fs::write(theirs.path().join("a"), "a"), std::fs::write(ours.path().join("a"), "a"));
        match with_rights_of(nobody, work) {
            Ok((made, refused)) => {
                made.expect("a file of their own");
                let file = std::fs::metadata(theirs.path().join("a")).expect("the file");
                assert_eq!((file.uid(), file.gid()), (nobody.user, nobody.group));
                assert_eq!(refused.map_err(|error| error.kind()), Err(io::ErrorKind::PermissionDenied));
            }
            Err(error) => eprintln!("skipped: cannot become another user: {error}"),
        }
        assert!(rustix::process::geteuid().is_root(), "only the other thread was somebody else");
    }
}
