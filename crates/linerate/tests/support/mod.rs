//! What the tests of several commands share. Each of the three programs (`fast`,
//! `alone`, `lab`) takes the part that it needs.

#![allow(dead_code, reason = "each program takes the part that it needs")]

pub mod agent;
pub mod browser;
pub mod disk;
pub mod disk_places;
pub mod fake_wall;
pub mod lab;
pub mod namespaces;
pub mod neighbours;
pub mod network;
pub mod place;
pub mod process;
pub mod rights;
pub mod samples;
pub mod sender;
pub mod served;
pub mod tune_place;
pub mod wall_movie;
pub mod wall_players;
pub mod wall_served;
pub mod watch_running;
pub mod watch_tree;

use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A connection from an address of 127.0.0.0/8.
pub fn connect_from(origin: [u8; 4], address: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((origin, 0)).into()).expect("bound");
    socket.connect(&address.into()).expect("a connection");
    socket.into()
}

/// linerate, to be started: without a key or input of the tester, and what it keeps is kept apart from the results of
/// whoever runs the tests.
pub fn linerate() -> Command {
    let mut command = Command::new(program());
    command.stdin(Stdio::null()).env_remove("LINERATE_KEY").env_remove("LINERATE_LOG");
    keep_apart(&mut command, &kept());
    command
}

/// Has a command that is linerate, or starts it, keep results and keys below this folder, and as this user.
pub fn keep_apart<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    command
        .env("XDG_STATE_HOME", folder)
        .env("XDG_CONFIG_HOME", folder)
        .env_remove("SUDO_UID")
        .env_remove("SUDO_GID")
}

/// Writes a file that its owner alone can read, as a token, a key or a password has to be.
pub fn write_secret(path: &Path, text: &str) {
    std::fs::write(path, text).expect("written");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
}

/// Where tests keep results that they do not look at.
pub fn kept() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("state")
}

/// linerate itself: that of this build, or the one that LINERATE names (`./test --thorough`: the release build).
pub fn program() -> String {
    std::env::var("LINERATE").unwrap_or_else(|_| env!("CARGO_BIN_EXE_linerate").into())
}

/// A path, as a word.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// All names in a folder, in order; none where it is not there.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
