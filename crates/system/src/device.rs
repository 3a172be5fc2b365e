//! Device numbers of special files.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// `major:minor` of a block special file, symbolic links followed; `None` for any other kind of file.
pub fn block_device_number(path: &Path) -> io::Result<Option<String>> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.file_type().is_block_device() {
        return Ok(None);
    }
    let number = metadata.rdev();
    Ok(Some(format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_block_device_has_no_number() {
        assert_eq!(block_device_number(Path::new("/dev/null")).expect("a character device"), None);
        assert_eq!(block_device_number(Path::new("/")).expect("a directory"), None);
        assert!(block_device_number(Path::new("/no/such/file")).is_err());
    }

    #[test]
    fn the_number_is_the_one_in_sysfs() {
        let Ok(entries) = std::fs::read_dir("/sys/class/block") else { return };
        for name in entries.flatten().map(|entry| entry.file_name()) {
            let node = Path::new("/dev").join(&name);
            let Ok(expected) = std::fs::read_to_string(Path::new("/sys/class/block").join(&name).join("dev"))
            else {
                continue;
            };
            if let Ok(Some(number)) = block_device_number(&node) {
                assert_eq!(number, expected.trim());
            }
        }
    }
}
