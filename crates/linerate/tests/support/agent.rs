//! `linerate agent` in a process of its own, and the words that name it.

use super::linerate;
use super::process::Running;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Ended with the value.
pub struct StartedAgent {
    pub child: Running,
    pub address: SocketAddr,
    pub folder: tempfile::TempDir,
}

impl StartedAgent {
    /// On loopback, with more words.
    pub fn start(words: &[&str]) -> StartedAgent {
        StartedAgent::of(linerate(), "127.0.0.1:0", words)
    }

    /// `begin` is what runs `linerate`; the key is in a folder of the agent's own.
    pub fn of(mut begin: Command, listen: &str, words: &[&str]) -> StartedAgent {
        let folder = tempfile::tempdir().expect("a folder");
        begin.args(["agent", "--listen", listen, "--key-file"]).arg(folder.path().join("key")).args(words);
        let (child, address) = listening(begin.stderr(Stdio::null()));
        StartedAgent { child: Running(child), address, folder }
    }

    pub fn key_file(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    /// The same as a word.
    pub fn key(&self) -> String {
        self.key_file().display().to_string()
    }

    /// The words that name it.
    pub fn words(&self) -> [String; 4] {
        ["--peer".into(), self.address.to_string(), "--key-file".into(), self.key()]
    }
}

/// Starts an agent and reads where it listens.
pub fn listening(command: &mut Command) -> (Child, SocketAddr) {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("an agent");
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut addresses = lines
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("listening on ")?.trim().parse().ok());
    let address = addresses.next().expect("an address");
    (child, address)
}
