//! A file with a secret: a key, a token. It is read only where nobody else could have read or written it.

use linerate_system::file::is_ours;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use thiserror::Error;

/// Why such a file is not believed. Its path comes before the sentence.
#[derive(Debug, Error)]
pub enum SecretFileError {
    #[error("no regular file; name one that holds the secret")]
    NotRegular,
    #[error(
        "it belongs to another user (number {owner}), who knows what is in it or can change it; if it is to be yours, run \
         `chown \"$(id -u)\" {path}`, else name another"
    )]
    OtherOwner { owner: u32, path: String },
    #[error(
        "others may read or write it (mode {mode:04o}); run `chmod 600 {path}`, and put a new secret there if others did"
    )]
    OpenToOthers { mode: u32, path: String },
    #[error(transparent)]
    Unreadable(#[from] io::Error),
}

/// The first bytes of the file, at most `most_bytes`.
pub fn read_secret_file(path: &Path, most_bytes: u64) -> Result<Vec<u8>, SecretFileError> {
    // Looked at before it is opened: to open a named pipe would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(SecretFileError::NotRegular);
    }
    let file = File::open(path)?;
    check_secret_file(&file.metadata()?, path)?;
    let mut bytes = Vec::new();
    file.take(most_bytes).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether the file, which is open, is regular, of this process's user or of root, and for its owner alone. Of another
/// user it may be no secret, and be changed later.
pub fn check_secret_file(metadata: &Metadata, path: &Path) -> Result<(), SecretFileError> {
    let (owner, mode, path) = (metadata.uid(), metadata.mode() & 0o777, path.display().to_string());
    if !metadata.is_file() {
        return Err(SecretFileError::NotRegular);
    }
    if !is_ours(owner) {
        return Err(SecretFileError::OtherOwner { owner, path });
    }
    if mode & 0o077 != 0 {
        return Err(SecretFileError::OpenToOthers { mode, path });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    #[test]
    fn a_secret_is_read_from_a_file_of_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("secret"), folder.path().join("link"));
        std::fs::write(&path, "0123456789").expect("written");
        symlink(&path, &link).expect("a link");
        let refused = |path: &Path| read_secret_file(path, 4).expect_err("refused").to_string();
        for mode in [0o640, 0o604, 0o660, 0o620, 0o644] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
            let why = refused(&link);
            assert!(why.contains("run `chmod 600 /") && why.contains(&format!("mode {mode:04o}")), "{why}");
        }
        for mode in [0o600, 0o400] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
            assert_eq!(read_secret_file(&link, 4).expect("read"), b"0123");
        }
        assert!(refused(folder.path()).contains("no regular file"));
        let absent = read_secret_file(&folder.path().join("absent"), 4);
        assert!(matches!(absent, Err(SecretFileError::Unreadable(_))));
        if chown(&path, Some(12_345), None).is_err() {
            eprintln!("skipped: only root can give a file away");
            return;
        }
        assert!(refused(&link).contains("another user (number 12345)"));
    }
}
