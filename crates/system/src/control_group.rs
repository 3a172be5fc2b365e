//! Being a member of another control group for a while: what this process reads and computes then counts there.

use std::io;
use std::path::{Path, PathBuf};

const MEMBERS: &str = "cgroup.procs";

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
        enter(group)?;
        Ok(JoinedGroup { own: own.to_path_buf() })
    }
}

impl Drop for JoinedGroup {
    fn drop(&mut self) {
        // Where its group is gone meanwhile, it stays until it ends, which is soon.
        let _ = enter(&self.own);
    }
}

fn enter(group: &Path) -> io::Result<()> {
    std::fs::write(group.join(MEMBERS), std::process::id().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

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
