//! Servers and screens as processes, on loopback ports that the kernel calls free; all end with the test.

use linerate::agent::Key;
use linerate::wall::control::{Client, ControlMessage, ControlRequest, ScreenReport};
use linerate::wall::show::ShowSummary;
use linerate::wall::status::WallStatus;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn until(what: &str, so: impl Fn() -> bool) {
    let since = Instant::now();
    while !so() {
        assert!(since.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

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

/// One of the servers.
pub struct WallServerProcess {
    child: Child,
    port: u16,
    key: PathBuf,
}

impl WallServerProcess {
    /// Starts it and waits until it answers.
    pub fn start(wall: &Wall, name: &str) -> WallServerProcess {
        let (_, port) = wall.control.iter().find(|(found, _)| found == name).expect("a server of the layout");
        let child = super::linerate()
            .args(["wall", "serve", "--json", "--no-page", "--server", name, "--listen"])
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
        let server =
            WallServerProcess { child: child.expect("linerate"), port: *port, key: wall.path("key") };
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

    fn say(&self, words: &[&str]) -> std::process::Output {
        let mut command = super::linerate();
        command.args(["wall", "control", "--server", &format!("127.0.0.1:{}", self.port), "--key-file"]);
        command.arg(&self.key).args(words).output().expect("linerate")
    }

    pub fn control(&self, words: &[&str]) {
        let output = self.say(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn refusal(&self, words: &[&str]) -> String {
        let output = self.say(words);
        assert_eq!(output.status.code(), Some(3), "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Drop for WallServerProcess {
    /// As a power cut would end it.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A screen at work.
pub struct ScreenProcess {
    child: Option<Child>,
}

/// Starts the screen of a tile and waits until it listens.
pub fn screen(wall: &Wall, server: &WallServerProcess, tile: &str, words: &[&str]) -> ScreenProcess {
    let port = wall.ports[usize::from(tile.ends_with('1'))];
    let mut command = super::linerate();
    command.args(["wall", "show", "--verify", "--json", "--seconds", "60", "--tile", tile, "--listen"]);
    command.arg(format!("127.0.0.1:{port}")).arg("--key-file").arg(&server.key).args(words);
    command.args(["--server", &format!("127.0.0.1:{}", server.port)]);
    listening(command)
}

/// Starts `linerate wall show` and waits until it listens.
pub fn listening(mut command: Command) -> ScreenProcess {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("linerate");
    let mut stderr = BufReader::new(child.stderr.take().expect("its standard error"));
    let mut line = String::new();
    stderr.read_line(&mut line).expect("a line");
    let screen = ScreenProcess { child: Some(child) };
    assert!(line.contains("listening on"), "{line}");
    // Whatever else it says must not break its pipe.
    std::thread::spawn(move || stderr.read_to_string(&mut String::new()));
    screen
}

impl ScreenProcess {
    pub fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits for its end.
    pub fn wait(mut self) -> ScreenReport {
        let output = self.child.take().expect("a child").wait_with_output().expect("it ends");
        let summary: ShowSummary = serde_json::from_slice(&output.stdout).expect("JSON");
        summary.screens.into_iter().next().expect("a screen").report
    }

    /// Ctrl-C.
    pub fn end(self) -> ScreenReport {
        let child = self.child.as_ref().expect("a child");
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        self.wait()
    }
}

impl Drop for ScreenProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
