//! Where the program runs in these tests: a directory of its own, what lay in it before, and what must hold
//! after the end.

use crate::support::process::{ProcessEnd, Started, until};
use crate::support::rights;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// “Within seconds”, on a machine that may be busy with other tests.
pub const SECONDS: Duration = Duration::from_secs(25);
/// The folder for results that most tests name.
pub const OUTPUT: &str = "out";

/// A directory for one test.
pub struct TestFolder {
    directory: tempfile::TempDir,
    /// For the results that linerate keeps.
    state: tempfile::TempDir,
}

/// A file as it was: when it was written last, its mode and its content.
type FileState = BTreeMap<PathBuf, (SystemTime, u32, Vec<u8>)>;

impl TestFolder {
    pub fn new() -> TestFolder {
        let open = || {
            let made = tempfile::Builder::new().prefix("linerate-bad-input-").tempdir().expect("a directory");
            let mode = std::fs::Permissions::from_mode(0o777);
            std::fs::set_permissions(made.path(), mode).expect("a directory for everybody");
            made
        };
        TestFolder { directory: open(), state: open() }
    }

    /// With a file of 4 MiB.
    pub fn with_source() -> TestFolder {
        let folder = TestFolder::new();
        folder.file("source", 4 << 20);
        folder
    }

    /// Its path, as processes see it in `/proc`.
    pub fn path(&self) -> PathBuf {
        self.directory.path().canonicalize().expect("the directory")
    }

    /// Where linerate keeps results.
    pub fn state(&self) -> PathBuf {
        self.state.path().canonicalize().expect("the directory")
    }

    /// A file of this many bytes; gives its path.
    pub fn file(&self, name: &str, bytes: usize) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, linerate_testing::content(1, bytes)).expect("a file");
        path
    }

    /// `linerate` in this directory, as this user, without a key of the tester's.
    ///
    /// A shell lets what it starts in the background ignore Ctrl-C, and that is inherited: until linerate
    /// catches signals it would get none.
    pub fn linerate(&self, words: &[&str]) -> Command {
        let mut all = vec!["--default-signal=INT,TERM,HUP", env!("CARGO_BIN_EXE_linerate")];
        all.extend(words);
        self.command("/usr/bin/env", &all)
    }

    /// Any program in this directory.
    pub fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.path()).env_remove("LINERATE_KEY").env_remove("COLUMNS");
        crate::support::keep_apart(&mut command, self.state.path());
        command
    }

    /// `linerate` as a user without any right; none where this user may not become another one.
    pub fn unprivileged(&self, words: &[&str]) -> Option<Command> {
        self.unprivileged_under(&[], words)
    }

    /// The same under another program with its arguments.
    pub fn unprivileged_under(&self, above: &[&str], words: &[&str]) -> Option<Command> {
        if !rights::root() {
            let mut all: Vec<&str> = above.to_vec();
            all.push(env!("CARGO_BIN_EXE_linerate"));
            all.extend(words);
            return Some(self.command(all[0], &all[1..]));
        }
        // The build folder may be closed to others: a copy that everybody can run.
        let program = self.path().join("linerate");
        if !program.exists() {
            std::fs::copy(env!("CARGO_BIN_EXE_linerate"), &program).expect("a copy of linerate");
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        let program = program.to_str().expect("a path in UTF-8");
        let drop = ["--reuid=65534", "--regid=65534", "--clear-groups", "--"];
        let all: Vec<&str> =
            drop.iter().chain(above).copied().chain([program]).chain(words.iter().copied()).collect();
        rights::has("setpriv").then(|| self.command("setpriv", &all))
    }

    /// Runs to the end, and checks what must hold whatever happened.
    pub fn run(&self, command: &mut Command) -> ProcessEnd {
        let before = self.seen();
        let ended = Started::of(command).end_within(SECONDS);
        self.left_alone(&before, &ended);
        ended
    }

    /// What lies here, but for results.
    pub fn seen(&self) -> FileState {
        let mut seen = FileState::new();
        let mut pending = vec![self.path()];
        while let Some(directory) = pending.pop() {
            // What a test closed to everybody is read by root alone.
            for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                let path = entry.path();
                // Once the directory of somebody else is looked into, it may be gone.
                let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
                if metadata.is_dir()
                    && metadata.dev() == std::fs::metadata(self.path()).expect("ground").dev()
                {
                    pending.push(path.clone());
                }
                let content =
                    if metadata.is_file() { std::fs::read(&path).unwrap_or_default() } else { Vec::new() };
                let written = if metadata.is_file() {
                    metadata.modified().expect("a time")
                } else {
                    SystemTime::UNIX_EPOCH
                };
                seen.insert(path, (written, metadata.mode(), content));
            }
        }
        seen
    }

    /// Nothing of what was here was touched, nothing but results is new, and no process is left.
    pub fn left_alone(&self, before: &FileState, ended: &ProcessEnd) {
        let after = self.seen();
        for (path, was) in before {
            let is = after.get(path).unwrap_or_else(|| panic!("{} is gone\n{ended}", path.display()));
            assert!(is == was, "{} was touched\n{ended}", path.display());
        }
        let is_result = |path: &Path| {
            let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
            let made = |name: String| name == OUTPUT || name.starts_with("linerate-");
            let inside = path.parent().and_then(name).is_some_and(made);
            name(path).is_some_and(made)
                || inside && name(path).is_some_and(|n| n == "run.json" || n == "report.html")
        };
        let new: Vec<_> =
            after.keys().filter(|path| !before.contains_key(*path) && !is_result(path)).collect();
        assert!(new.is_empty(), "{new:?} left behind\n{ended}");
        self.deserted();
    }

    /// No process of our own works here any more: a receiver of linerate's own ends with it, if not at the
    /// same moment.
    pub fn deserted(&self) {
        until("no process is left", || processes_in(&self.path()).is_empty());
    }

    /// `run.json` of the named folder.
    pub fn result(&self, folder: &str) -> serde_json::Value {
        let path = self.path().join(folder).join("run.json");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).expect("whole JSON")
    }

    /// No folder with results was made.
    pub fn no_result(&self) {
        let made = std::fs::read_dir(self.path()).expect("a list").flatten().map(|entry| entry.file_name());
        let made: Vec<_> =
            made.filter(|name| name == OUTPUT || name.to_string_lossy().starts_with("linerate-")).collect();
        assert!(made.is_empty(), "{made:?}");
    }
}

/// Numbers and command lines of the processes whose working directory this is.
pub fn processes_in(directory: &Path) -> Vec<(u32, String)> {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let here =
        |number: &u32| std::fs::read_link(format!("/proc/{number}/cwd")).is_ok_and(|cwd| cwd == directory);
    let line = |number: u32| {
        let words = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        (number, String::from_utf8_lossy(&words).replace('\0', " "))
    };
    numbers.filter(here).map(line).collect()
}

/// Words of a short run: one sample of a fifth of a second of each figure, at a rate that takes no CPU from the other
/// tests.
pub fn short<'a>(stages: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["run", "--stages", stages, "--seconds", "0.2", "--repeats", "1", "--budget", "5"];
    words.extend(["--rate-limit", "400M", "--output", OUTPUT]);
    words.extend(more);
    words
}

/// What a run saved that failed on the way: its errors, of which there are some.
pub fn errors(run: &serde_json::Value) -> Vec<String> {
    let list = run["errors"].as_array().expect("a list of errors");
    assert!(!list.is_empty(), "errors");
    list.iter().map(|error| error.as_str().expect("text").to_string()).collect()
}

/// Stages of the figures that a run saved.
pub fn stages(run: &serde_json::Value) -> Vec<String> {
    let list = run["measurements"].as_array().expect("a list of figures");
    list.iter().map(|figure| figure["stage"].as_str().expect("a stage").to_string()).collect()
}
