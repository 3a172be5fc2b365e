//! Servers and screens as processes, on loopback ports that the kernel calls free; all end with the test.

pub use super::process::until;
use super::process::{Ends, ProcessEnd, Running, Started};
use linerate::agent::Key;
use linerate::wall::control::{Client, ControlMessage, ControlRequest, ScreenReport};
use linerate::wall::show::{ScreenSummary, ShowSummary};
use linerate::wall::status::WallStatus;
use std::fmt::Write as _;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

pub const PATIENCE: Duration = Duration::from_secs(20);

/// A movie of two stamped tiles, in a folder that goes with it.
pub fn movie(folder: &Path) -> PathBuf {
    let movie = folder.join("movie");
    let made = super::linerate()
        .args(["wall", "generate", "--grid", "2x1", "--tile", "160x120", "--fps", "24", "--frames", "48"])
        .arg(&movie)
        .stdout(Stdio::null())
        .status();
    assert!(made.expect("linerate").success());
    movie
}

/// A key, as it must be: nobody else may read it.
pub fn key(folder: &Path) -> PathBuf {
    use std::os::unix::fs::OpenOptionsExt;
    let path = folder.join("key");
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    made.and_then(|mut file| file.write_all("5a".repeat(32).as_bytes())).expect("a key");
    path
}

/// A movie, a key, and a layout of two screens for one server or two.
pub struct Wall {
    folder: tempfile::TempDir,
    pub movie: PathBuf,
    ports: [u16; 2],
    control: Vec<(String, u16)>,
}

impl Wall {
    pub fn new<const SERVERS: usize>(servers: [&str; SERVERS]) -> Wall {
        let folder = tempfile::tempdir().expect("a folder");
        let movie = movie(folder.path());
        key(folder.path());
        let sockets = [0; 2].map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port"));
        let ports = sockets.each_ref().map(|socket| socket.local_addr().expect("an address").port());
        let listeners = servers.map(|name| (name, TcpListener::bind("127.0.0.1:0").expect("a port")));
        let port = |listener: &TcpListener| listener.local_addr().expect("an address").port();
        let control: Vec<(String, u16)> =
            listeners.iter().map(|(name, listener)| (name.to_string(), port(listener))).collect();
        let mut text = "grid = \"2x1\"\n".to_string();
        for (name, port) in &control {
            let _ = write!(text, "[[server]]\nname = \"{name}\"\ncontrol = \"127.0.0.1:{port}\"\n");
        }
        for (column, screen) in ports.iter().enumerate() {
            let server = servers[column.min(SERVERS - 1)];
            let _ = write!(
                text,
                "[[screen]]\ntile = \"r0c{column}\"\nto = [\"127.0.0.1:{screen}\"]\nserver = \"{server}\"\n"
            );
        }
        std::fs::write(folder.path().join("wall.toml"), text).expect("a layout");
        Wall { folder, movie, ports, control }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// In the place of the screens.
    pub fn sockets(&self) -> [UdpSocket; 2] {
        self.ports.map(|port| {
            let socket = UdpSocket::bind(("127.0.0.1", port)).expect("the port is still free");
            linerate_system::socket::set_receive_buffer(&socket, 4 << 20).expect("a buffer");
            socket
        })
    }
}

/// One of the servers, ended with the value, as a power cut would.
pub struct WallServerProcess {
    _child: Running,
    port: u16,
    key: PathBuf,
}

impl WallServerProcess {
    /// Starts it and waits until it answers.
    pub fn start(wall: &Wall, name: &str) -> WallServerProcess {
        let (_, port) = wall.control.iter().find(|(found, _)| found == name).expect("a server of the layout");
        let child = super::linerate()
            .args(["wall", "serve", "--json", "--page", "none", "--server", name, "--listen"])
            .arg(format!("127.0.0.1:{port}"))
            .arg("--layout")
            .arg(wall.path("wall.toml"))
            .arg("--key-file")
            .arg(wall.path("key"))
            .arg(&wall.movie)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let server = WallServerProcess {
            _child: Running(child.expect("linerate")),
            port: *port,
            key: wall.path("key"),
        };
        until("the server answers", || server.status().is_some());
        server
    }

    pub fn client(&self) -> Option<Client> {
        let key = Key::read_file(&self.key).expect("a key");
        Client::connect(&format!("127.0.0.1:{}", self.port), &key, Duration::from_secs(2)).ok()
    }

    pub fn status(&self) -> Option<WallStatus> {
        match self.client()?.ask(&ControlRequest::Status, PATIENCE).ok()? {
            ControlMessage::Status(status) => Some(*status),
            other => panic!("{other:?}"),
        }
    }

    fn say(&self, words: &[&str]) -> ProcessEnd {
        let mut command = super::linerate();
        command.args(["wall", "control", "--server", &format!("127.0.0.1:{}", self.port), "--key-file"]);
        command.arg(&self.key).args(words).ended()
    }

    pub fn control(&self, words: &[&str]) {
        self.say(words).gives(0);
    }

    pub fn refusal(&self, words: &[&str]) -> String {
        let ended = self.say(words);
        ended.gives(3);
        ended.stderr
    }
}

/// A screen at work, or several in one process; killed with the value.
pub struct ScreenProcess {
    started: Started,
    pub addresses: Vec<SocketAddr>,
}

/// Starts the screen of a tile and waits until it listens.
pub fn screen(wall: &Wall, server: &WallServerProcess, tile: &str, words: &[&str]) -> ScreenProcess {
    let port = wall.ports[usize::from(tile.ends_with('1'))];
    let mut command = super::linerate();
    command.args(["wall", "show", "--verify", "--json", "--seconds", "60", "--tile", tile, "--listen"]);
    command.arg(format!("127.0.0.1:{port}")).arg("--key-file").arg(&server.key).args(words);
    command.args(["--server", &format!("127.0.0.1:{}", server.port)]);
    listening(command, 1)
}

/// Starts `linerate wall show` and waits until it listens for so many screens.
pub fn listening(mut command: Command, screens: usize) -> ScreenProcess {
    let (started, addresses) = Started::once_said(&mut command, "linerate: listening on ", screens);
    let addresses = addresses.iter().filter_map(|address| address.parse().ok()).collect();
    ScreenProcess { started, addresses }
}

impl ScreenProcess {
    pub fn kill(&mut self) {
        let _ = self.started.child.kill();
        let _ = self.started.child.wait();
    }

    /// Waits for its end, which says how its screens did.
    pub fn finish(self) -> (ProcessEnd, Vec<ScreenSummary>) {
        let ended = self.started.end_within(2 * super::process::PATIENCE);
        let summary: ShowSummary = ended.parsed();
        (ended, summary.screens)
    }

    /// Waits for its end.
    pub fn wait(self) -> ScreenReport {
        self.finish().1.into_iter().next().expect("a screen").report
    }

    /// Ctrl-C.
    pub fn end(self) -> ScreenReport {
        self.started.signal("INT");
        self.wait()
    }
}
