//! Resource limits of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// Soft limit of memory that this process may lock (RLIMIT_MEMLOCK), bytes; `None` is unlimited.
pub fn memlock_bytes() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

/// Hard limit of the same: as much may this process give itself; `None` is unlimited.
pub fn memlock_most_bytes() -> Option<u64> {
    getrlimit(Resource::Memlock).maximum
}

/// Sets the soft limit of the same, at most the hard one; needs no privilege.
pub fn set_memlock_bytes(current: Option<u64>) -> io::Result<()> {
    let maximum = getrlimit(Resource::Memlock).maximum;
    setrlimit(Resource::Memlock, Rlimit { current, maximum }).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_soft_limit_goes_down_and_up_again() {
        let (now, most) = (super::memlock_bytes(), super::memlock_most_bytes());
        super::set_memlock_bytes(Some(now.unwrap_or(u64::MAX).min(64 << 10))).expect("down");
        assert_eq!(super::memlock_most_bytes(), most);
        super::set_memlock_bytes(now).expect("up");
        assert_eq!(super::memlock_bytes(), now);
    }

    #[test]
    fn the_limit_is_the_one_that_proc_shows() {
        let text = std::fs::read_to_string("/proc/self/limits").expect("/proc is mounted");
        let line = text.lines().find(|line| line.starts_with("Max locked memory")).expect("the line");
        let soft = line.split_ascii_whitespace().nth(3).expect("a soft limit");
        assert_eq!(soft.parse().ok(), super::memlock_bytes());
    }
}
