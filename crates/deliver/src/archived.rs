//! What `copy --archive` keeps of a name beside its content: mode, owner, time, extended attributes, where a link leads,
//! which names are of one file. The serving end reads it with a folder's list, the fetching end sets it at what is open.

use super::http::url::{decoded, encoded};
use linerate_facts::wording::counted;
use linerate_system::attributes::{extended_attributes, has_holes, set_extended_attribute};
use linerate_system::beneath::ConfinedFolder;
use linerate_system::file::{folder_of, open_to_read};
use linerate_system::lock;
use linerate_system::user::is_root;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Linux lets a value have so much.
const MOST_EXTENDED_BYTES: usize = 64 << 10;
/// Of all names in a folder's list, which has to be sent as one.
pub(crate) const MOST_LISTED_BYTES: usize = 4 << 20;
/// The longest that a link can hold (PATH_MAX).
const MOST_TARGET_BYTES: usize = 4095;
/// Blocks of `stat`.
const STAT_BLOCK_BYTES: u64 = 512;
/// Setuid and setgid, which give the owner's rights away.
const OWNERS_RIGHTS: u32 = 0o6000;
const ALL_MODE_BITS: u32 = 0o7777;

/// Of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archived {
    /// Permissions, setuid, setgid and sticky.
    pub mode: u32,
    /// User and group, as numbers.
    pub owner: [u32; 2],
    /// When the content was changed last, since 1970; before it less than nothing.
    pub seconds: i64,
    pub nanos: u32,
    /// Where a link leads, percent-encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Device and inode of a file that has several names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<[u64; 2]>,
    /// There are holes in the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_holes: bool,
    /// Names and values, percent-encoded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extended: Vec<(String, String)>,
    /// There are more of these than are kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lacks_extended: bool,
}

impl Archived {
    /// Of what has this path; of a link its own. `room_bytes` is what its list may still have of extended attributes.
    pub(crate) fn read(path: &Path, room_bytes: &mut usize) -> io::Result<Self> {
        let metadata = std::fs::symlink_metadata(path)?;
        let target = metadata.is_symlink().then(|| std::fs::read_link(path)).transpose()?;
        let packed = metadata.is_file() && metadata.blocks() * STAT_BLOCK_BYTES < metadata.len();
        let mut archived = Archived {
            mode: metadata.mode() & ALL_MODE_BITS,
            owner: [metadata.uid(), metadata.gid()],
            seconds: metadata.mtime(),
            nanos: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
            inode: (metadata.is_file() && metadata.nlink() > 1).then(|| [metadata.dev(), metadata.ino()]),
            has_holes: packed && open_to_read(path, false).and_then(|file| has_holes(&file)).unwrap_or(false),
            target: target.map(|target| encoded(target.as_os_str().as_bytes())),
            ..Archived::default()
        };
        if archived.target.is_none() {
            archived.read_extended(path, room_bytes);
        }
        Ok(archived)
    }

    /// Those of `system.`, the access lists, are another option of rsync, too.
    fn read_extended(&mut self, path: &Path, room_bytes: &mut usize) {
        let Ok(mut found) = extended_attributes(path, MOST_EXTENDED_BYTES.min(*room_bytes)) else {
            self.lacks_extended = true;
            return;
        };
        found.retain(|(name, _)| !name.as_bytes().starts_with(b"system."));
        let bytes: usize = found.iter().map(|(name, value)| name.len() + value.len()).sum();
        *room_bytes -= bytes.min(*room_bytes);
        let written = |(name, value): &(OsString, Vec<u8>)| (encoded(name.as_bytes()), encoded(value));
        self.extended = found.iter().map(written).collect();
    }

    /// What it takes in memory, beside itself.
    pub(crate) fn bytes(&self) -> usize {
        let of_pair =
            |(name, value): &(String, String)| size_of::<(String, String)>() + name.len() + value.len();
        self.extended.iter().map(of_pair).sum::<usize>() + self.target.as_ref().map_or(0, String::len)
    }

    /// Where the link leads; none: it is not a link, or no link can lead there.
    pub fn link_target(&self) -> Option<OsString> {
        let target = decoded(self.target.as_deref()?).ok()?;
        let can_be = !target.is_empty() && target.len() <= MOST_TARGET_BYTES && !target.contains(&0);
        can_be.then(|| OsString::from_vec(target))
    }

    /// Gives it to an open file or folder; what cannot be set is counted.
    pub(crate) fn set_at(&self, file: &File, failures: &AttributeFailures) {
        let now = match file.metadata() {
            Ok(now) => now,
            Err(error) => return failures.add(MODE, &error),
        };
        let [user, group] = self.owner;
        let mut is_owners = [now.uid(), now.gid()] == self.owner;
        if !is_owners && (is_root() || now.uid() == user) {
            let owned = fchown(file, Some(user), Some(group));
            is_owners = owned.is_ok();
            failures.add_of(OWNER, owned);
        } else if !is_owners {
            failures.add(OWNER, &io::Error::other("only root can set it"));
        }
        if !self.extended.is_empty() {
            // A file that may not be written takes none. Its mode follows.
            let _ = file.set_permissions(Permissions::from_mode(now.mode() & 0o777 | 0o200));
            failures.add_of(EXTENDED, self.set_extended(file));
        }
        if self.lacks_extended {
            failures.add(EXTENDED, &io::Error::other("they are too large, or cannot be read"));
        }
        // The rights of an owner who is not theirs are given to nobody.
        let bits = if is_owners { ALL_MODE_BITS } else { ALL_MODE_BITS & !OWNERS_RIGHTS };
        failures.add_of(MODE, file.set_permissions(Permissions::from_mode(self.mode & bits)));
        failures.add_of(TIME, self.time().and_then(|time| file.set_modified(time)));
    }

    fn set_extended(&self, file: &File) -> io::Result<()> {
        let mut first = Ok(());
        for (name, value) in &self.extended {
            let broken = |_| io::Error::from(io::ErrorKind::InvalidData);
            let (name, value) = (decoded(name).map_err(broken)?, decoded(value).map_err(broken)?);
            // The others are for root alone, also at the other end.
            let may_be = name.starts_with(b"user.") || is_root() && !name.starts_with(b"system.");
            if may_be {
                first = first.and(set_extended_attribute(file, &OsString::from_vec(name), &value));
            }
        }
        first
    }

    fn time(&self) -> io::Result<SystemTime> {
        let seconds = Duration::from_secs(self.seconds.unsigned_abs());
        let whole = match self.seconds < 0 {
            true => UNIX_EPOCH.checked_sub(seconds),
            false => UNIX_EPOCH.checked_add(seconds),
        };
        let time = whole.and_then(|whole| whole.checked_add(Duration::from_nanos(self.nanos.into())));
        time.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Gives a file that was there already what it lacks.
    pub(crate) fn set_at_place(&self, place: &Path, failures: &AttributeFailures) {
        if std::fs::symlink_metadata(place).is_ok_and(|now| self.is_of(&now)) {
            return;
        }
        let name = Path::new(place.file_name().unwrap_or_default());
        match ConfinedFolder::open(folder_of(place)).and_then(|folder| folder.open_file(name, false)) {
            Ok(file) => self.set_at(&file, failures),
            Err(error) => failures.add(MODE, &error),
        }
    }

    /// Whether what has this metadata needs nothing of it; extended attributes are not part of that.
    fn is_of(&self, now: &std::fs::Metadata) -> bool {
        let owner = !is_root() || [now.uid(), now.gid()] == self.owner;
        let time = (now.mtime(), now.mtime_nsec()) == (self.seconds, self.nanos.into());
        owner && time && now.mode() & ALL_MODE_BITS == self.mode && self.extended.is_empty()
    }
}

/// What may not be set, as the sentence has it.
pub(crate) const OWNER: &str = "the owner";
pub(crate) const MODE: &str = "the mode";
pub(crate) const TIME: &str = "the time";
const EXTENDED: &str = "extended attributes";

/// Of how many names, and why of the first of them.
#[derive(Debug, Default)]
pub struct AttributeFailures(Mutex<BTreeMap<&'static str, (u64, String)>>);

impl AttributeFailures {
    pub(crate) fn add(&self, what: &'static str, error: &io::Error) {
        lock(&self.0).entry(what).or_insert_with(|| (0, error.to_string())).0 += 1;
    }

    pub(crate) fn add_of(&self, what: &'static str, set: io::Result<()>) {
        if let Err(error) = set {
            self.add(what, &error);
        }
    }

    /// One sentence, whatever failed.
    pub fn sentence(&self) -> Option<String> {
        let of_kind = |(what, (count, why)): (&&str, &(u64, String))| {
            format!("{what} of {} ({why})", counted(*count, "name"))
        };
        let all: Vec<String> = lock(&self.0).iter().map(of_kind).collect();
        (!all.is_empty()).then(|| format!("not kept: {}", all.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_file_gets_what_another_had() {
        let place = tempfile::tempdir().expect("a folder");
        let (one, other) = (place.path().join("one"), place.path().join("other"));
        std::fs::write(&one, "one").expect("written");
        std::fs::set_permissions(&one, Permissions::from_mode(0o640)).expect("a mode");
        std::fs::hard_link(&one, place.path().join("again")).expect("a second name");
        let archived = Archived {
            seconds: -7,
            nanos: 5,
            ..Archived::read(&one, &mut { MOST_LISTED_BYTES }).expect("read")
        };
        assert!(archived.inode.is_some() && archived.mode == 0o640 && !archived.has_holes);
        let failures = AttributeFailures::default();
        let file = File::create(&other).expect("made");
        archived.set_at(&file, &failures);
        let now = file.metadata().expect("there");
        assert_eq!(failures.sentence(), None);
        assert_eq!((now.mode() & 0o7777, now.mtime(), now.mtime_nsec()), (0o640, -7, 5));
        assert!(archived.is_of(&now));
    }

    #[test]
    fn what_cannot_be_set_is_one_sentence() {
        let failures = AttributeFailures::default();
        let file = tempfile::tempfile().expect("a file");
        let own = file.metadata().expect("there").uid();
        let broken = Archived {
            owner: [own, u32::MAX - 1],
            seconds: i64::MAX,
            nanos: u32::MAX,
            extended: vec![("%zz".into(), String::new())],
            mode: 0o6755,
            ..Archived::default()
        };
        (0..3).for_each(|_| broken.set_at(&file, &failures));
        let sentence = failures.sentence().expect("failures");
        assert!(
            sentence.contains("the time of 3 names (")
                && sentence.contains("extended attributes of 3 names (")
        );
        if !is_root() {
            assert!(sentence.contains("the owner of 3 names ("), "{sentence}");
            assert_eq!(file.metadata().expect("there").mode() & 0o7777, 0o755, "rights of another owner");
        }
    }

    proptest! {
        #[test]
        fn any_target_goes_there_and_back(target in prop::collection::vec(1u8.., 1..60)) {
            let archived = Archived { target: Some(encoded(&target)), ..Archived::default() };
            let json = serde_json::to_vec(&archived).expect("JSON");
            let read: Archived = serde_json::from_slice(&json).expect("read");
            prop_assert_eq!(read.link_target(), Some(OsString::from_vec(target)));
        }
    }

    #[test]
    fn no_link_leads_to_what_no_link_can() {
        for target in ["", "a%00b", "%", &"x".repeat(MOST_TARGET_BYTES + 1)] {
            let archived = Archived { target: Some(target.into()), ..Archived::default() };
            assert_eq!(archived.link_target(), None, "{target}");
        }
    }
}
