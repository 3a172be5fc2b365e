//! Secrets of 32 bytes, made by the kernel, written as hex, compared in constant time: the key that an agent
//! and its clients share, from a file that only its owner can read or from `LINERATE_KEY`; and one-time
//! tokens, each the right to open one data stream.

use linerate_facts::failure::Failure;
use linerate_facts::secret_file::{SecretFileError, read_secret_file};
use linerate_system::lock;
use linerate_system::side_file::ReplacingFile;
use linerate_system::user::own_home;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use subtle::ConstantTimeEq;

/// Bytes in a key and in a token.
pub const SECRET_BYTES: usize = 32;

/// Bytes from the kernel's random number generator.
pub fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

/// Lower-case hex.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Why a text is not a secret in hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyTextError {
    #[error("it is not text")]
    NoText,
    #[error("{length} characters where {} hex digits are wanted", 2 * SECRET_BYTES)]
    Length { length: usize },
    #[error("not all characters are hex digits")]
    NoHex,
}

/// Reads exactly 64 hex digits; white space around them is allowed. The text is never part of the error: it
/// may be a secret.
pub(crate) fn from_hex(text: &str) -> Result<[u8; SECRET_BYTES], KeyTextError> {
    let digits = text.trim().as_bytes();
    if digits.len() != 2 * SECRET_BYTES {
        return Err(KeyTextError::Length { length: digits.len() });
    }
    let mut bytes = [0; SECRET_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let value = |digit: u8| char::from(digit).to_digit(16).ok_or(KeyTextError::NoHex);
        *byte = (value(pair[0])? * 16 + value(pair[1])?) as u8;
    }
    Ok(bytes)
}

/// Equality that takes the same time wherever the difference is, so that a guesser learns nothing from the clock.
/// Only the lengths, which are not secret, may show.
pub fn same(left: &[u8], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}

/// The right to open one data stream, once, for a short time.
#[derive(Clone)]
pub struct OneTimeToken([u8; SECRET_BYTES]);

impl OneTimeToken {
    /// A new token that nobody can guess.
    pub fn random() -> io::Result<OneTimeToken> {
        Ok(OneTimeToken(random()?))
    }

    /// The bytes that the data stream opens with.
    pub fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}

impl std::fmt::Debug for OneTimeToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Serialize for OneTimeToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&to_hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for OneTimeToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        from_hex(&text).map(OneTimeToken).map_err(serde::de::Error::custom)
    }
}

/// Environment variable that holds the key as 64 hex digits.
pub const KEY_VARIABLE: &str = "LINERATE_KEY";

/// A key file is 64 digits and a newline; nothing longer is read.
const LARGEST_KEY_FILE_BYTES: u64 = 4096;

/// The shared key. It shows itself only where [`Key::to_hex`] is called.
#[derive(Clone)]
pub struct Key([u8; SECRET_BYTES]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// A new key from the kernel's random number generator.
    pub fn random() -> Result<Key, Failure> {
        let bytes = random().map_err(|error| {
            Failure::Lacks(format!("no key can be made: the kernel gives no random bytes: {error}"))
        })?;
        Ok(Key(bytes))
    }

    /// Reads 64 hex digits.
    pub fn from_hex(text: &str) -> Result<Key, KeyTextError> {
        from_hex(text).map(Key)
    }

    /// The key as 64 hex digits.
    pub fn to_hex(&self) -> String {
        to_hex(&self.0)
    }

    /// The bytes, for the Noise channel and for what is derived from them.
    pub fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }

    /// The client's key: of `--key-file` where it is given, else of `LINERATE_KEY`, else of the user's own file
    /// where there is one.
    pub fn find(key_file: Option<&Path>) -> Result<Key, Failure> {
        if let Some(path) = key_file {
            return Key::read_file(path);
        }
        if let Some(key) = Key::from_environment()? {
            return Ok(key);
        }
        match Key::usual_file().filter(|path| path.exists()) {
            Some(path) => Key::read_file(&path),
            None => Err(Failure::Usage(format!(
                "--peer needs the key of the agent: set {KEY_VARIABLE} to the digits that `linerate agent` \
                 printed there, or give --key-file FILE with a copy of its key file"
            ))),
        }
    }

    /// Where the key of this process's user lies if nobody names another place: `linerate/key` below
    /// `$XDG_CONFIG_HOME`, else below `.config` in their home. None: they have no home.
    pub fn usual_file() -> Option<PathBuf> {
        // A path that is not absolute is to be ignored (XDG Base Directory Specification).
        let named = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let config = named.or_else(|| Some(own_home()?.join(".config")))?;
        Some(config.join("linerate/key"))
    }

    /// The agent's key: of `--key-file`, else of `LINERATE_KEY`, else of the user's own file; a file is made
    /// where it is absent. With it the file that was made now.
    pub fn find_or_make(key_file: Option<&Path>) -> Result<(Key, Option<PathBuf>), Failure> {
        if let Some(path) = key_file {
            let (key, made) = Key::read_or_make_file(path)?;
            return Ok((key, made.then(|| path.into())));
        }
        if let Some(key) = Key::from_environment()? {
            return Ok((key, None));
        }
        let path = Key::usual_file().ok_or_else(|| {
            Failure::Usage(format!(
                "an agent needs a key, and its user has no home to keep one in: give --key-file FILE (it is \
                 made where it is absent), or set {KEY_VARIABLE}, XDG_CONFIG_HOME or HOME"
            ))
        })?;
        if let Some(folder) = path.parent() {
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| {
                Failure::Lacks(format!(
                    "a folder for the key, {}: {error}; give --key-file FILE in one that you may write",
                    folder.display()
                ))
            })?;
        }
        let (key, made) = Key::read_or_make_file(&path)?;
        Ok((key, made.then_some(path)))
    }

    /// The key of `LINERATE_KEY`; none where the variable is not set.
    pub fn from_environment() -> Result<Option<Key>, Failure> {
        let Some(text) = std::env::var_os(KEY_VARIABLE) else { return Ok(None) };
        let key = text.to_str().ok_or(KeyTextError::NoText).and_then(Key::from_hex);
        key.map(Some).map_err(|why| {
            Failure::Usage(format!(
                "{KEY_VARIABLE} holds no key: {why}; copy the line that `linerate agent` prints"
            ))
        })
    }

    /// Reads a key file, if it is for its owner alone.
    pub fn read_file(path: &Path) -> Result<Key, Failure> {
        let lacks = |why: String| Failure::Lacks(format!("key file {}: {why}", path.display()));
        let describe = |error: SecretFileError| match error {
            SecretFileError::Unreadable(error) if error.kind() == ErrorKind::NotFound => lacks(
                "not there; copy it from the agent's host, or start `linerate agent --key-file FILE` there, \
                 which makes one"
                    .into(),
            ),
            SecretFileError::Unreadable(error) if error.kind() == ErrorKind::PermissionDenied => {
                lacks("permission denied; read it as the user that owns it".into())
            }
            error => lacks(error.to_string()),
        };
        let bytes = read_secret_file(path, LARGEST_KEY_FILE_BYTES).map_err(describe)?;
        // What is not text is not digits either.
        Key::from_hex(&String::from_utf8_lossy(&bytes)).map_err(|why| {
            lacks(format!("it holds no key: {why}; remove it and let `linerate agent --key-file` make one"))
        })
    }

    /// Reads a key file, or makes it with mode 0600 where it is absent. True: it was made now.
    pub fn read_or_make_file(path: &Path) -> Result<(Key, bool), Failure> {
        if path.symlink_metadata().is_ok() {
            return Ok((Key::read_file(path)?, false));
        }
        let key = Key::random()?;
        // Whoever waits for it finds no file or a whole key.
        let made = ReplacingFile::beside(path, 0o600).and_then(|mut new| {
            new.file.write_all(format!("{}\n", key.to_hex()).as_bytes())?;
            new.file.sync_all()?;
            new.put_first(path)
        });
        match made {
            Ok(()) => Ok((key, true)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok((Key::read_file(path)?, false)),
            Err(error) => Err(Failure::Lacks(format!(
                "key file {}: cannot be made: {error}; name a file in a directory that exists and that you \
                 may write",
                path.display()
            ))),
        }
    }

    /// The line to paste on the other host; `host` is this host's name or address, as the other one reaches
    /// it.
    pub fn paste_line(&self, host: &str, port: u16) -> String {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_string() };
        format!("{KEY_VARIABLE}={} linerate run --peer {host}:{port}", self.to_hex())
    }
}

/// Tokens that were handed out and not used yet, each with what it is the right to.
pub struct OneTimeTokens<R>(Mutex<Vec<(OneTimeToken, R)>>);

impl<R> Default for OneTimeTokens<R> {
    fn default() -> Self {
        OneTimeTokens(Mutex::default())
    }
}

impl<R> OneTimeTokens<R> {
    /// Hands out a right.
    pub fn issue(&self, token: OneTimeToken, right: R) {
        lock(&self.0).push((token, right));
    }

    /// Takes the right that a connection shows. Each works once.
    pub fn claim(&self, shown: &[u8; SECRET_BYTES]) -> Option<R> {
        let mut tokens = lock(&self.0);
        // All are compared, whichever fits: the time tells nothing.
        let place = tokens.iter().enumerate().fold(None, |found, (index, (token, _))| {
            if same(token.bytes(), shown) { Some(index) } else { found }
        })?;
        Some(tokens.swap_remove(place).1)
    }

    /// Forgets some rights.
    pub fn withdraw(&self, withdrawn: impl Fn(&R) -> bool) {
        #[cfg(test)]
        planted!(TokensStay, return);
        lock(&self.0).retain(|(_, right)| !withdrawn(right));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn equal_only_where_every_byte_is() {
        let secret: [u8; 32] = random().expect("random bytes");
        assert!(same(&secret, &secret));
        for place in 0..32 {
            let mut other = secret;
            other[place] ^= 0x80;
            assert!(!same(&secret, &other), "byte {place}");
        }
        assert!(same(b"", b""));
        for other in ["", "a secre", "a secret ", "A secret", "b secret"] {
            assert!(!same(b"a secret", other.as_bytes()), "{other:?}");
        }
    }

    #[test]
    fn tokens_differ_and_do_not_show_themselves() {
        let (one, two) = (OneTimeToken::random().expect("a token"), OneTimeToken::random().expect("a token"));
        assert!(!same(one.bytes(), two.bytes()));
        assert!(!format!("{one:?}").contains(&to_hex(one.bytes())));
        let text = serde_json::to_string(&one).expect("JSON");
        let back: OneTimeToken = serde_json::from_str(&text).expect("a token");
        assert_eq!(back.bytes(), one.bytes());
    }

    proptest! {
        #[test]
        fn hex_round_trips(bytes: [u8; 32]) {
            prop_assert_eq!(from_hex(&format!(" {}\n", to_hex(&bytes))), Ok(bytes));
        }

        #[test]
        fn anything_else_is_refused_without_a_panic(text in "\\PC{0,70}") {
            if let Ok(bytes) = from_hex(&text) {
                prop_assert_eq!(to_hex(&bytes), text.trim().to_ascii_lowercase());
            }
        }
    }

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary directory")
    }

    #[test]
    fn a_new_file_is_for_its_owner_alone_and_is_read_again() {
        let directory = directory();
        let path = directory.path().join("key");
        let (made, fresh) = Key::read_or_make_file(&path).expect("a key");
        let mode = std::fs::metadata(&path).expect("the file").permissions().mode() & 0o777;
        assert_eq!((fresh, mode), (true, 0o600));
        let (again, fresh) = Key::read_or_make_file(&path).expect("the key");
        assert_eq!((fresh, again.to_hex()), (false, made.to_hex()));
        assert_eq!(std::fs::read_dir(directory.path()).expect("it").count(), 1, "nothing beside it");
    }

    /// Programs that begin at once: some of them wait for the file that another makes.
    #[test]
    fn a_reader_finds_no_file_or_a_whole_key() {
        let directory = directory();
        for path in (0..20).map(|number| directory.path().join(format!("{number}"))) {
            std::thread::scope(|scope| {
                scope.spawn(|| Key::read_or_make_file(&path).expect("a key"));
                while let Err(error) = Key::read_file(&path) {
                    assert!(error.to_string().contains("not there"), "{error}");
                }
            });
        }
    }

    #[test]
    fn a_file_that_others_may_read_is_refused_with_the_remedy() {
        let directory = directory();
        let path = directory.path().join("key");
        Key::read_or_make_file(&path).expect("a key");
        for mode in [0o640, 0o604, 0o660, 0o666] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("a mode");
            let error = Key::read_file(&path).expect_err("refused").to_string();
            assert!(error.contains("chmod 600") && error.contains(&format!("{mode:04o}")), "{error}");
        }
    }

    #[test]
    fn a_file_of_another_user_is_refused_also_through_a_link() {
        let directory = directory();
        let (path, link) = (directory.path().join("key"), directory.path().join("link"));
        Key::read_or_make_file(&path).expect("a key");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        if std::os::unix::fs::chown(&path, Some(12_345), None).is_err() {
            eprintln!("skipped: only root can give a file away");
            return;
        }
        for path in [&path, &link] {
            let error = Key::read_file(path).expect_err("refused").to_string();
            assert!(error.contains("another user (number 12345)") && error.contains("chown"), "{error}");
            assert!(Key::read_or_make_file(path).is_err());
        }
    }

    #[test]
    fn what_holds_no_key_is_refused_and_never_overwritten_or_shown() {
        let directory = directory();
        let path = directory.path().join("key");
        let secret = "deadbeef".repeat(7);
        for text in ["", "0123", &secret, &"x".repeat(64), &"0".repeat(10_000)] {
            let _ = std::fs::remove_file(&path);
            let mut file = linerate_system::side_file::make(&path).expect("a file");
            file.write_all(text.as_bytes()).expect("text");
            let error = Key::read_or_make_file(&path).expect_err("refused").to_string();
            assert!(error.contains("holds no key") && !error.contains("deadbeef"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).expect("the file"), text);
        }
    }

    #[test]
    fn absent_files_directories_and_dangling_links_are_named() {
        let directory = directory();
        let error = Key::read_file(&directory.path().join("none")).expect_err("refused").to_string();
        assert!(error.contains("not there") && error.contains("linerate agent"), "{error}");
        let error = Key::read_file(directory.path()).expect_err("refused").to_string();
        assert!(error.contains("no regular file"), "{error}");
        let error =
            Key::read_or_make_file(&directory.path().join("no/where")).expect_err("refused").to_string();
        assert!(error.contains("cannot be made"), "{error}");
        let (link, target) = (directory.path().join("link"), directory.path().join("target"));
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        assert!(Key::read_or_make_file(&link).is_err());
        assert!(!target.exists(), "a link is not followed");
    }

    #[test]
    fn the_paste_line_brings_the_same_key_over() {
        let key = Key::random().expect("a key");
        let line = key.paste_line("fe80::1", 7411);
        assert!(line.ends_with(" linerate run --peer [fe80::1]:7411"), "{line}");
        let digits =
            line.strip_prefix("LINERATE_KEY=").and_then(|rest| rest.split(' ').next()).expect("digits");
        assert_eq!(Key::from_hex(digits).expect("a key").to_hex(), key.to_hex());
        assert_eq!(format!("{key:?}"), "Key(…)");
    }
}
