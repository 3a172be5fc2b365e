//! `linerate copy`, with a program in place of ssh that does the command here, or does what goes wrong on the way to
//! another host.

mod archive;
mod bring;
mod deaths;
mod hostile;
mod refusals;
mod transfers;

use crate::bad_input::ground::{SECONDS, TestFolder};
use crate::bad_input::ssh::{RUNS_IT, linerate, with_ssh};
use crate::support::process::{ProcessEnd, Started};
use linerate::deliver::tls::ServerTls;
use std::fs;
use std::path::{Path, PathBuf};

const HOST: &str = "somebody@localhost";

/// A ground whose `ssh` does the command here, and keeps results apart, as another host does.
pub(super) struct CopyPair {
    pub(super) ground: TestFolder,
    /// Folders of the two hosts.
    pub(super) here: PathBuf,
    pub(super) there: PathBuf,
}

impl CopyPair {
    pub(super) fn new() -> Self {
        CopyPair::with(RUNS_IT)
    }

    /// With an `ssh` of these lines.
    pub(super) fn with(lines: &str) -> Self {
        let ground = with_ssh("");
        let (here, there) = (ground.path().join("here"), ground.path().join("there"));
        [&here, &there].into_iter().for_each(|folder| fs::create_dir(folder).expect("a folder"));
        let script = format!(
            "#!/bin/sh\necho \"$@\" >> {}/ssh-words\nexport XDG_STATE_HOME={}/state SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22'\n\
             echo Welcome to this host!\n{lines}\n",
            ground.path().display(),
            there.display()
        );
        fs::write(ground.path().join("bin/ssh"), script).expect("a program");
        CopyPair { ground, here, there }
    }

    /// `linerate copy` with these words; `@` begins a place on the other host.
    pub(super) fn copy(&self, words: &[&str]) -> std::process::Command {
        let words: Vec<String> = words.iter().map(|word| self.place(word)).collect();
        let words: Vec<&str> = ["copy"].into_iter().chain(words.iter().map(String::as_str)).collect();
        // Some CPUs cannot encrypt.
        let in_the_clear = ServerTls::made(&[]).is_err() && !words.contains(&"--no-encryption");
        let words = [&words[..], &["--no-encryption"][..usize::from(in_the_clear)]].concat();
        linerate(&self.ground, &words, true)
    }

    fn place(&self, word: &str) -> String {
        let in_folder = |folder: &Path, rest: &str| format!("{}/{rest}", folder.display());
        match (word.strip_prefix('@'), word.starts_with('-')) {
            (Some(rest), _) => format!("{HOST}:{}", in_folder(&self.there, rest)),
            (None, true) => word.into(),
            (None, false) if word.contains('=') || word.parse::<u32>().is_ok() => word.into(),
            (None, false) => in_folder(&self.here, word),
        }
    }

    pub(super) fn ends(&self, words: &[&str]) -> ProcessEnd {
        Started::of(&mut self.copy(words)).end_within(SECONDS)
    }
}
