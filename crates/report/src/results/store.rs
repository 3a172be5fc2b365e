//! The folder of kept results: `linerate/results` in the state folder of the user, a file for each result, its
//! number as its name. Numbers only grow; the oldest go first, and each command has its own bounds: what is measured
//! seldom is not driven out by what is done often.
//!
//! Behind sudo all of it is done with the rights of the user who called sudo: what is made is theirs, and where
//! they may not write, nothing is written for them either.

use linerate_measure::measure::Stage;
use linerate_measure::run::Run;
use linerate_system::clock;
use linerate_system::private_folder::{PrivateFile, PrivateFolder, PrivateFolderError};
use linerate_system::user::{UserIds, behind_sudo, home_of, with_rights_of};
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use thiserror::Error;

/// Most results of one command that are kept, and most transfers of one direction (`get`, `put`).
pub const MOST_RESULTS: usize = 200;
pub const MOST_TRANSFERS: usize = 50;
/// As many commands have results, or fewer.
const COMMANDS: usize = 10;
/// Most bytes of all that are kept.
pub const MOST_BYTES: u64 = 64 << 20;

/// Schema, version, time, host and stage of a result are within these.
const START_BYTES: usize = 256;

/// Below the state folder.
const FOLDER: &str = "linerate/results";
/// Digits of a number in a name; one that needs more has more.
const DIGITS: usize = 6;
/// So often another process may have taken the next number.
const ATTEMPTS: usize = 100;
/// A file that was not ended by then never will be.
const UNFINISHED_FOR: Duration = Duration::from_secs(3600);

/// Why a result is not kept, or cannot be read.
#[derive(Debug, Error)]
pub enum KeepError {
    #[error("no home for it: set XDG_STATE_HOME or HOME")]
    NoHome,
    #[error("the user behind sudo (number {user}) cannot be acted for: {error}")]
    Sudo { user: u32, error: io::Error },
    #[error(transparent)]
    Folder(#[from] PrivateFolderError),
    #[error("{}: {error}", path.display())]
    Unwritten { path: PathBuf, error: io::Error },
    #[error("{}: {error}", path.display())]
    Unread { path: PathBuf, error: io::Error },
    #[error("it has {bytes} bytes, and all that is kept has at most {MOST_BYTES}")]
    TooLarge { bytes: u64 },
}

/// Where results are kept.
#[derive(Clone, Debug)]
pub struct ResultStore {
    folder: PathBuf,
    /// Whose it is, where that is not this process's user.
    user: Option<UserIds>,
    most_results: usize,
    most_transfers: usize,
    most_bytes: u64,
}

/// One kept result, unread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeptFile {
    pub(super) number: u64,
    pub(super) bytes: u64,
    pub(super) name: String,
}

impl ResultStore {
    /// That of the user, also behind sudo: in `$XDG_STATE_HOME`, else in their home.
    pub fn of_user() -> Result<Self, KeepError> {
        // A path that is not absolute is to be ignored (XDG Base Directory Specification).
        let variable =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let user = behind_sudo();
        // sudo may have left HOME as it was or made it root's.
        let home = || user.map_or_else(|| variable("HOME"), |ids| home_of(ids.user));
        let state = variable("XDG_STATE_HOME").or_else(|| Some(home()?.join(".local/state")));
        Ok(ResultStore { user, ..Self::at(&state.ok_or(KeepError::NoHome)?) })
    }

    /// That below a state folder, of this process's user.
    fn at(state: &Path) -> Self {
        let folder = state.join(FOLDER);
        ResultStore {
            folder,
            user: None,
            most_results: MOST_RESULTS,
            most_transfers: MOST_TRANSFERS,
            most_bytes: MOST_BYTES,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Keeps a result and removes the oldest beyond the bounds; gives its number.
    pub fn keep(&self, run: &Run) -> Result<u64, KeepError> {
        let bytes = serde_json::to_vec(run)
            .map_err(|error| KeepError::Unwritten { path: self.folder.clone(), error: error.into() })?;
        let size = bytes.len() as u64;
        if size > self.most_bytes {
            return Err(KeepError::TooLarge { bytes: size });
        }
        self.as_user(|| {
            let folder = PrivateFolder::open_or_make(&self.folder)?;
            let unwritten = |error| KeepError::Unwritten { path: self.folder.clone(), error };
            // First, so that a disk that is full of results takes one more.
            let last = self.make_room(&folder, run, size).map_err(unwritten)?;
            add(&folder, last, &bytes).map_err(unwritten)
        })
    }

    /// The kept results, oldest first, the newest of them where there are more than are kept; none where nothing was
    /// ever kept. Other files are left alone.
    pub(super) fn files(&self) -> Result<Vec<KeptFile>, KeepError> {
        self.as_user(|| match PrivateFolder::open(&self.folder)? {
            None => Ok(Vec::new()),
            Some(folder) => {
                let mut stored = results(&folder)
                    .map_err(|error| KeepError::Unread { path: self.folder.clone(), error })?;
                // What somebody else laid there beyond the bound is not read: it would take hours and all memory.
                stored.drain(..stored.len().saturating_sub(self.most_files()));
                Ok(stored)
            }
        })
    }

    /// Of all commands together.
    fn most_files(&self) -> usize {
        COMMANDS * self.most_results
    }

    /// All that is read of them at once, bytes.
    pub(super) fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// The text of one.
    pub(super) fn text(&self, file: &KeptFile) -> Result<Vec<u8>, KeepError> {
        let unread = |error| KeepError::Unread { path: self.path_of(file), error };
        self.as_user(|| match PrivateFolder::open(&self.folder)? {
            None => Err(unread(io::ErrorKind::NotFound.into())),
            Some(folder) => folder.read(&file.name, self.most_bytes).map_err(unread),
        })
    }

    /// The file itself, as errors call it.
    pub(super) fn path_of(&self, file: &KeptFile) -> PathBuf {
        self.folder.join(&file.name)
    }

    /// Room for this one, and nothing half written from long ago; gives the last number, which may go with its
    /// result. Beyond the bound of its command the oldest of that go; beyond the bytes of all, the oldest of the command
    /// that has most of them.
    fn make_room(&self, folder: &PrivateFolder, run: &Run, size: u64) -> io::Result<u64> {
        let now = clock::date().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let long_ago = now.saturating_sub(UNFINISHED_FOR).as_secs();
        folder.remove_unfinished(i64::try_from(long_ago).unwrap_or(0))?;
        let mut stored = results(folder)?;
        let last = stored.last().map_or(0, |file| file.number);
        // What is beyond the bound of all goes unread, so that a folder full of others' files takes no hours.
        let beyond = (stored.len() + 1).saturating_sub(self.most_files());
        stored.drain(..beyond).try_for_each(|file| folder.remove(&file.name))?;
        let mut bytes = stored.iter().fold(size, |sum, file| sum.saturating_add(file.bytes));
        let (own, most) =
            (run.command(), if is_transfer(run.stage) { self.most_transfers } else { self.most_results });
        if stored.len() < most && bytes <= self.most_bytes {
            return Ok(last);
        }
        let mut by_command: BTreeMap<String, VecDeque<KeptFile>> = BTreeMap::new();
        for file in stored {
            let command = self.command_of(folder, &file).unwrap_or_default();
            by_command.entry(command).or_default().push_back(file);
        }
        let same = by_command.entry(own.clone()).or_default();
        for file in same.drain(..(same.len() + 1).saturating_sub(most)) {
            bytes = bytes.saturating_sub(file.bytes);
            folder.remove(&file.name)?;
        }
        while bytes > self.most_bytes {
            let weight = |(command, files): &(&String, &mut VecDeque<KeptFile>)| {
                let own_bytes = if **command == own { size } else { 0 };
                files.iter().fold(own_bytes, |sum, file| sum.saturating_add(file.bytes))
            };
            let heaviest = by_command.iter_mut().filter(|(_, files)| !files.is_empty()).max_by_key(weight);
            let Some(file) = heaviest.and_then(|(_, files)| files.pop_front()) else { break };
            bytes = bytes.saturating_sub(file.bytes);
            folder.remove(&file.name)?;
        }
        Ok(last)
    }

    /// The command that a kept result is of. Its stage comes before all that is large: with hundreds of results each
    /// download would read all of them.
    fn command_of(&self, folder: &PrivateFolder, file: &KeptFile) -> Option<String> {
        let start = folder.read_start(&file.name, START_BYTES).ok()?;
        let head = ResultHead::of_start(&start).or_else(|| {
            let all =
                folder.read(&file.name, self.most_bytes).ok().filter(|_| file.bytes > START_BYTES as u64);
            ResultHead::of(&all?)
        });
        head.map(|head| head.command())
    }

    fn as_user<T: Send>(&self, work: impl FnOnce() -> Result<T, KeepError> + Send) -> Result<T, KeepError> {
        match self.user {
            None => work(),
            Some(ids) => with_rights_of(ids, work)
                .unwrap_or_else(|error| Err(KeepError::Sudo { user: ids.user, error })),
        }
    }
}

/// A download or an upload: there may be many of them a day, and none is a measurement that was asked for.
pub(super) fn is_transfer(stage: Option<Stage>) -> bool {
    matches!(stage, Some(Stage::Get | Stage::Put))
}

/// What decides whether a result is wanted, without making all of it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ResultHead {
    pub(super) host: String,
    pub(super) started: String,
    pub(super) stage: Option<Stage>,
    pub(super) diagnosis: Option<serde::de::IgnoredAny>,
    pub(super) goal: serde_json::Value,
    pub(super) measurements: Vec<MeasuredName>,
}

/// Of one figure.
#[derive(Deserialize, PartialEq)]
pub(super) struct MeasuredName {
    #[serde(default)]
    pub(super) name: String,
}

impl ResultHead {
    /// None where the text is not a result.
    pub(super) fn of(text: &[u8]) -> Option<Self> {
        serde_json::from_slice(text).ok()
    }

    /// Of the first bytes of a result: what comes before its name and its machine.
    fn of_start(text: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(text);
        let ends = [",\"name\":", ",\"machine\":"].into_iter().filter_map(|key| text.find(key));
        Self::of(format!("{}}}", &text[..ends.min()?]).as_bytes())
    }

    /// As [`Run::command`].
    pub(super) fn command(&self) -> String {
        self.stage.map_or_else(|| "run".into(), |stage| stage.to_string())
    }
}

/// Under the next number after `last` that nobody has.
fn add(folder: &PrivateFolder, last: u64, bytes: &[u8]) -> io::Result<u64> {
    let mut taken = last;
    for _ in 0..ATTEMPTS {
        let number = taken.saturating_add(1);
        match folder.add(&format!("{number:0DIGITS$}.json"), bytes) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = number,
            added => return added.map(|()| number),
        }
    }
    Err(io::Error::other(format!("{ATTEMPTS} numbers were taken by others")))
}

/// By number.
fn results(folder: &PrivateFolder) -> io::Result<Vec<KeptFile>> {
    let mut stored: Vec<KeptFile> = folder.files()?.into_iter().filter_map(result).collect();
    stored.sort_by_key(|file| file.number);
    Ok(stored)
}

fn result(file: PrivateFile) -> Option<KeptFile> {
    let digits = file.name.strip_suffix(".json")?;
    let number: u64 = digits.parse().ok().filter(|number| (1..u64::MAX).contains(number))?;
    // The one way to write it: no sign, no other zeros.
    (format!("{number:0DIGITS$}") == digits).then_some(KeptFile {
        number,
        bytes: file.bytes,
        name: file.name,
    })
}

/// Stores of the tests.
#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// One of so many results; it goes with the folder.
    pub(in crate::results) fn store(most_results: usize) -> (tempfile::TempDir, ResultStore) {
        let state = tempfile::tempdir().expect("a folder");
        let store = ResultStore { most_results, most_transfers: 2, ..ResultStore::at(state.path()) };
        (state, store)
    }

    impl ResultStore {
        /// The same, of so many bytes.
        pub(in crate::results) fn with_bytes(self, most_bytes: u64) -> ResultStore {
            ResultStore { most_bytes, ..self }
        }
    }

    /// A result of one stage.
    pub(in crate::results) fn run(name: &str) -> Run {
        Run::begin_stage(Stage::Disk, name.into(), Default::default(), Default::default())
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{run, store};
    use super::*;

    fn numbers(store: &ResultStore) -> Vec<u64> {
        store.files().expect("a list").iter().map(|file| file.number).collect()
    }

    #[test]
    fn the_oldest_go_first_and_numbers_only_grow() {
        let (_state, store) = store(3);
        assert!(numbers(&store).is_empty() && !store.path().exists(), "nothing was made to look");
        for number in 1..=5 {
            assert_eq!(store.keep(&run(&number.to_string())).expect("kept"), number);
        }
        assert_eq!(numbers(&store), [3, 4, 5]);
    }

    fn of_stage(stage: Stage, name: &str) -> Run {
        Run { stage: Some(stage), ..run(name) }
    }

    #[test]
    fn each_command_has_its_own_bounds() {
        let (_state, store) = store(3);
        store.keep(&of_stage(Stage::Memory, "")).expect("kept");
        (0..4).for_each(|_| assert!(store.keep(&run("")).is_ok()));
        std::fs::write(store.path().join("000006.json"), "damaged").expect("a file");
        (0..203).for_each(|_| assert!(store.keep(&of_stage(Stage::Get, "3 bytes")).is_ok()));
        assert_eq!(
            numbers(&store),
            [1, 3, 4, 5, 6, 208, 209],
            "memory, three disks, what is damaged, two transfers"
        );
    }

    #[test]
    fn the_start_of_a_result_names_its_command() {
        for (stage, name) in [(Some(Stage::Get), "a,\"machine\":{"), (Some(Stage::Disk), ""), (None, "n")] {
            let stored = Run { stage, host: "h".repeat(64), ..run(name) };
            let text = serde_json::to_vec(&stored).expect("JSON");
            let start = &text[..START_BYTES.min(text.len())];
            let head = ResultHead::of_start(start).expect("a head");
            assert_eq!((head.command(), head.host), (stored.command(), stored.host));
            assert!(ResultHead::of_start(&start[..100]).is_none(), "it breaks off before");
        }
        assert!(ResultHead::of_start(b"damaged").is_none());
    }

    #[test]
    fn bytes_go_from_the_command_that_has_most_of_them() {
        let size = |run: &Run| serde_json::to_vec(run).expect("JSON").len() as u64;
        let (small, large) = (of_stage(Stage::Get, "a"), run(&"a".repeat(20_000)));
        let (_state, store) = store(100);
        let store =
            ResultStore { most_transfers: 100, most_bytes: size(&large) * 2 + size(&small) * 2, ..store };
        for stored in [&small, &large, &large, &small, &small, &large, &small] {
            store.keep(stored).expect("kept");
        }
        assert_eq!(numbers(&store), [1, 4, 5, 6, 7]);
    }

    #[test]
    fn bytes_are_bounded_and_a_result_larger_than_all_is_refused() {
        let size = serde_json::to_vec(&run("a")).expect("JSON").len() as u64;
        let (_state, store) = store(100);
        let store = ResultStore { most_bytes: size * 3 - 1, ..store };
        (1..=4).for_each(|number| assert_eq!(store.keep(&run("a")).expect("kept"), number));
        assert_eq!(numbers(&store), [3, 4], "two fit, a third does not");
        let refused = store.keep(&run(&"a".repeat(size as usize * 3)));
        assert!(matches!(refused, Err(KeepError::TooLarge { .. })), "{refused:?}");
        assert_eq!(numbers(&store), [3, 4]);
    }

    #[test]
    fn files_of_others_are_neither_counted_nor_removed() {
        let (_state, store) = store(1);
        store.keep(&run("a")).expect("kept");
        let foreign =
            ["notes.txt", "7.json", "+00008.json", "0000009.json", "000000.json", ".new-1-000004.json"];
        foreign.iter().for_each(|name| std::fs::write(store.path().join(name), "not ours").expect("a file"));
        std::fs::create_dir(store.path().join("000005.json")).expect("a folder of that name");
        assert_eq!(store.keep(&run("b")).expect("kept"), 2);
        assert_eq!(numbers(&store), [2]);
        assert!(foreign.iter().all(|name| store.path().join(name).exists()));
    }

    #[test]
    fn of_more_than_are_kept_the_newest_are_read() {
        let (_state, store) = store(3);
        store.keep(&run("a")).expect("kept");
        (2..=49).for_each(|number| {
            std::fs::write(store.path().join(format!("{number:06}.json")), "laid there").expect("a file");
        });
        assert_eq!(numbers(&store), (20..=49).collect::<Vec<_>>());
        store.keep(&run("b")).expect("kept");
        assert_eq!(numbers(&store), (21..=50).collect::<Vec<_>>(), "what is beyond the bound goes unread");
    }

    #[test]
    fn a_number_that_is_taken_is_passed_over() {
        let (_state, store) = store(9);
        store.keep(&run("a")).expect("kept");
        std::fs::create_dir(store.path().join("000002.json")).expect("a folder of that name");
        assert_eq!(store.keep(&run("b")).expect("kept"), 3);
    }

    #[test]
    fn many_at_once_lose_none() {
        let (_state, store) = store(64);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..4).for_each(|_| assert!(store.keep(&run("a")).expect("kept") > 0)));
            }
        });
        assert_eq!(numbers(&store), (1..=32).collect::<Vec<_>>());
    }

    #[test]
    fn a_file_where_the_folder_should_be_is_a_sentence() {
        let (state, store) = store(9);
        std::fs::write(state.path().join("linerate"), "").expect("a file");
        let refused = store.keep(&run("a")).map_err(|error| error.to_string());
        assert!(refused.is_err_and(|text| text.contains("linerate/results: ")), "{store:?}");
    }
}
