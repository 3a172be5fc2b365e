//! Resource limits of this process.

use rustix::process::{Resource, getrlimit};

/// Soft limit of memory that this process may lock (RLIMIT_MEMLOCK), bytes; `None` is unlimited.
pub fn memlock_bytes() -> Option<u64> {
    getrlimit(Resource::Memlock).current
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_limit_is_the_one_that_proc_shows() {
        let text = std::fs::read_to_string("/proc/self/limits").expect("/proc is mounted");
        let line = text.lines().find(|line| line.starts_with("Max locked memory")).expect("the line");
        let soft = line.split_ascii_whitespace().nth(3).expect("a soft limit");
        assert_eq!(soft.parse().ok(), super::memlock_bytes());
    }
}
