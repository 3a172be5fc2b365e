//! Where tests that make thousands of small files make them.

use tempfile::{TempDir, tempdir, tempdir_in};

/// A folder that goes with the value, in memory where the system has /dev/shm: on a disk a new file may cost half a
/// millisecond of the file system's time.
pub fn folder_in_memory() -> TempDir {
    tempdir_in("/dev/shm").or_else(|_| tempdir()).expect("a temporary directory")
}
