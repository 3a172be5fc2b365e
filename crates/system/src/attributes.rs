//! What a file has beside its content and std cannot read or set: extended attributes, the time of a link, holes, and
//! the device number of a special file.

use rustix::fs::{AtFlags, CWD, FallocateFlags, SeekFrom, Timespec, Timestamps, UTIME_OMIT, XattrFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

/// Holes are whole multiples of this in every file system.
const HOLE_BYTES: usize = 4096;

/// An extended attribute.
pub type ExtendedAttribute = (OsString, Vec<u8>);

/// The extended attributes of what has this path, of a link its own; `FileTooLarge` where they have more bytes than
/// `most_bytes`. A file system without them has none.
pub fn extended_attributes(path: &Path, most_bytes: usize) -> io::Result<Vec<ExtendedAttribute>> {
    let mut names = match rustix::fs::llistxattr_query(path) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        size => vec![0; size?],
    };
    let length = rustix::fs::llistxattr(path, &mut names[..])?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    for name in names[..length].split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
        let mut value = vec![0; rustix::fs::lgetxattr_query(path, name)?];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..])?;
        value.truncate(length);
        bytes += name.count_bytes() + value.len();
        if bytes > most_bytes {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        found.push((OsString::from_vec(name.to_bytes().to_vec()), value));
    }
    Ok(found)
}

/// Sets one of an open file or folder.
pub fn set_extended_attribute(file: &File, name: &OsStr, value: &[u8]) -> io::Result<()> {
    let name = CString::new(name.as_bytes())?;
    Ok(rustix::fs::fsetxattr(file, name.as_c_str(), value, XattrFlags::empty())?)
}

/// When a link itself was made, as far as anybody asks.
pub fn set_link_time(link: &Path, seconds: i64, nanos: u32) -> io::Result<()> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: nanos.into() },
    };
    Ok(rustix::fs::utimensat(CWD, link, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Whether there are holes in it. A file system that packs its files uses fewer bytes for them as well.
pub fn has_holes(file: &File) -> io::Result<bool> {
    let bytes = file.metadata()?.len();
    match rustix::fs::seek(file, SeekFrom::Hole(0)) {
        Ok(hole) => Ok(hole < bytes),
        Err(Errno::INVAL | Errno::NXIO) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Writes all but zeros, which are a hole afterwards; where the file system has no holes they are written.
pub fn write_with_holes(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let pages: Vec<&[u8]> = bytes.chunks(HOLE_BYTES).collect();
    let is_hole = |page: &[u8]| page.iter().all(|byte| *byte == 0);
    let mut at = offset;
    for run in pages.chunk_by(|one, next| is_hole(one) == is_hole(next)) {
        let length: u64 = run.iter().map(|page| page.len() as u64).sum();
        let from = (at - offset) as usize;
        // What an earlier start left there has to go as well.
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if !is_hole(run[0]) || rustix::fs::fallocate(file, punch, at, length).is_err() {
            file.write_all_at(&bytes[from..from + length as usize], at)?;
        }
        at += length;
    }
    Ok(())
}

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
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn extended_attributes_are_read_as_they_were_set_and_have_a_bound() {
        let place = tempfile::tempdir_in(".").expect("a folder on a disk");
        let path = place.path().join("file");
        let file = File::create(&path).expect("made");
        let all = [("user.a", b"1".to_vec()), ("user.b", vec![0, 255, b'%'])];
        for (name, value) in &all {
            if let Err(error) = set_extended_attribute(&file, OsStr::new(name), value) {
                return eprintln!("skipped: {error}");
            }
        }
        let mut found = extended_attributes(&path, 100).expect("read");
        found.retain(|(name, _)| name.as_bytes().starts_with(b"user."));
        found.sort();
        assert_eq!(found, all.map(|(name, value)| (OsString::from(name), value)));
        let most = extended_attributes(&path, 15).map_err(|error| error.kind());
        assert_eq!(most, Err(io::ErrorKind::FileTooLarge));
        symlink("file", place.path().join("link")).expect("a link");
        assert_eq!(
            extended_attributes(&place.path().join("link"), 100).expect("its own").len(),
            found.len() - 2
        );
    }

    #[test]
    fn the_time_of_a_link_is_its_own() {
        let place = tempfile::tempdir().expect("a folder");
        let link = place.path().join("link");
        symlink("nowhere", &link).expect("a link");
        set_link_time(&link, -5, 7).expect("set");
        let metadata = std::fs::symlink_metadata(&link).expect("there");
        assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (-5, 7));
    }

    #[test]
    fn zeros_become_holes_also_where_something_was() {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("file");
        std::fs::write(&path, vec![9; 20 * HOLE_BYTES]).expect("written");
        let file = File::options().read(true).write(true).open(&path).expect("opened");
        let mut bytes = vec![0; 16 * HOLE_BYTES + 100];
        (bytes[5], bytes[8 * HOLE_BYTES + 1]) = (1, 2);
        write_with_holes(&file, &bytes, 2 * HOLE_BYTES as u64).expect("written");
        let read = std::fs::read(&path).expect("read");
        assert_eq!(read.len(), 20 * HOLE_BYTES);
        assert!(
            read[2 * HOLE_BYTES..][..bytes.len()] == bytes && read[..2 * HOLE_BYTES] == [9; 2 * HOLE_BYTES]
        );
        if has_holes(&file).expect("asked") {
            assert!(file.metadata().expect("there").blocks() * 512 < 12 * HOLE_BYTES as u64);
        } else {
            eprintln!("a file system without holes");
        }
    }

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
