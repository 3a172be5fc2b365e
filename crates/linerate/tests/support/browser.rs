//! A headless Chromium, driven over its DevTools protocol
//! (<https://chromedevtools.github.io/devtools-protocol/>).

use super::process::Running;
use serde_json::{Value, json};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tungstenite::{Message, WebSocket};

/// What a loaded machine may take for anything here.
pub const PATIENCE: Duration = Duration::from_secs(40);

pub fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file())
}

/// Ends with this value.
pub struct Browser {
    child: Running,
    socket: WebSocket<TcpStream>,
    next_id: u64,
    /// What the pages complained of.
    pub complaints: Vec<String>,
    _folder: tempfile::TempDir,
}

/// One page of it.
pub struct Tab {
    session: String,
}

impl Browser {
    pub fn start(program: &Path) -> Browser {
        let folder = linerate_testing::folder_in_memory();
        let profile = folder.path().join("profile");
        let mut child = Command::new(program)
            .args("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run".split(' '))
            .args("--disable-sync --disable-background-networking --disable-component-update".split(' '))
            .args("--disable-dev-shm-usage --hide-scrollbars".split(' '))
            // A tab behind another is as awake as the one in front.
            .args("--disable-background-timer-throttling --disable-renderer-backgrounding".split(' '))
            .args(["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the browser starts");
        let (port, path) = match address(&profile.join("DevToolsActivePort")) {
            Some(found) => found,
            None => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("the browser did not tell its port within {PATIENCE:?}");
            }
        };
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the browser's port");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let (socket, _) =
            tungstenite::client(format!("ws://127.0.0.1:{port}{path}"), stream).expect("its protocol");
        Browser { child: Running(child), socket, next_id: 0, complaints: Vec::new(), _folder: folder }
    }

    /// Opens a page of this size.
    pub fn open(&mut self, url: &str, width: u32, height: u32) -> Tab {
        let target = self.call(None, "Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call(None, "Target.attachToTarget", attach)["sessionId"]
            .as_str()
            .expect("a session")
            .to_string();
        let tab = Tab { session };
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.tell(&tab, domain, json!({}));
        }
        self.resize(&tab, width, height);
        self.tell(&tab, "Emulation.setFocusEmulationEnabled", json!({ "enabled": true }));
        self.tell(&tab, "Page.navigate", json!({ "url": url }));
        tab
    }

    pub fn resize(&mut self, tab: &Tab, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.tell(tab, "Emulation.setDeviceMetricsOverride", size);
    }

    pub fn tell(&mut self, tab: &Tab, method: &str, parameters: Value) -> Value {
        let session = tab.session.clone();
        self.call(Some(&session), method, parameters)
    }

    fn call(&mut self, session: Option<&str>, method: &str, parameters: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let mut command = json!({ "id": id, "method": method, "params": &parameters });
        if let Some(session) = session {
            command["sessionId"] = session.into();
        }
        self.socket.send(Message::text(command.to_string())).expect("the browser listens");
        loop {
            let Message::Text(text) = self.socket.read().expect("the browser answers") else { continue };
            let mut answer: Value = serde_json::from_str(&text).expect("JSON");
            if answer["id"] == id {
                // Asked while the page that was there before made room for ours: the answer is with ours.
                let gone = answer["error"]["message"].as_str().is_some_and(|text| text.contains("navigated"));
                if gone && method == "Runtime.evaluate" {
                    return self.call(session, method, parameters);
                }
                assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
                return answer["result"].take();
            }
            self.hear(&answer);
        }
    }

    fn hear(&mut self, event: &Value) {
        let said = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            // That this test reads canvases is not a fault of the page.
            "Log.entryAdded"
                if said["entry"]["text"].as_str().is_some_and(|text| text.contains("willReadFrequently")) => {
            }
            "Log.entryAdded" => self.complaints.push(said["entry"].to_string()),
            "Runtime.exceptionThrown" => self.complaints.push(said["exceptionDetails"].to_string()),
            "Runtime.consoleAPICalled" if said["type"] != "log" => self.complaints.push(said.to_string()),
            _ => {}
        }
    }

    /// The value of an expression.
    pub fn value(&mut self, tab: &Tab, expression: &str) -> Value {
        let wanted = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let result = self.tell(tab, "Runtime.evaluate", wanted);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, tab: &Tab, expression: &str) {
        let start = Instant::now();
        // What is not there yet is not true.
        let tried = format!("(() => {{ try {{ return {expression}; }} catch {{ return false; }} }})()");
        while self.value(tab, &tried) != true {
            assert!(
                start.elapsed() < PATIENCE,
                "not within {PATIENCE:?}: {expression}; complaints: {:?}",
                self.complaints
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The middle of an element.
    pub fn middle(&mut self, tab: &Tab, selector: &str) -> (f64, f64, f64, f64) {
        let expression = format!(
            "(() => {{ const e = document.querySelector('{selector}'); e.scrollIntoView({{block: \
             'center'}}); \
             const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2, b.width, \
             b.height]; }})()"
        );
        let found = self.value(tab, &expression);
        let at = |place: usize| found[place].as_f64().expect("a number");
        (at(0), at(1), at(2), at(3))
    }

    pub fn mouse(&mut self, tab: &Tab, kind: &str, x: f64, y: f64) {
        // Also of a move: without a button that is down the browser takes it for let go.
        let button = "left";
        let pressed = i32::from(kind != "mouseReleased");
        let event =
            json!({ "type": kind, "x": x, "y": y, "button": button, "buttons": pressed, "clickCount": 1 });
        self.tell(tab, "Input.dispatchMouseEvent", event);
    }

    pub fn click(&mut self, tab: &Tab, selector: &str) {
        let (x, y, _, _) = self.middle(tab, selector);
        self.mouse(tab, "mousePressed", x, y);
        self.mouse(tab, "mouseReleased", x, y);
    }

    /// A key goes down (`keyDown`) or up (`keyUp`).
    pub fn key(&mut self, tab: &Tab, kind: &str, key: &str) {
        let (code, number) = match key {
            " " => ("Space", 32),
            "Tab" => ("Tab", 9),
            "Enter" => ("Enter", 13),
            "Escape" => ("Escape", 27),
            "End" => ("End", 35),
            "Home" => ("Home", 36),
            "ArrowLeft" => ("ArrowLeft", 37),
            "ArrowRight" => ("ArrowRight", 39),
            "ArrowDown" => ("ArrowDown", 40),
            _ => ("", key.bytes().next().map_or(0, |byte| u32::from(byte.to_ascii_uppercase()))),
        };
        let mut event = json!({ "type": kind, "key": key, "code": if code.is_empty() { key } else { code }, "windowsVirtualKeyCode": number });
        if kind == "keyDown" && key.chars().count() == 1 {
            event["text"] = key.into();
        } else if kind == "keyDown" && key == "Enter" {
            event["text"] = "\r".into();
        }
        self.tell(tab, "Input.dispatchKeyEvent", event);
    }

    pub fn press(&mut self, tab: &Tab, key: &str) {
        self.key(tab, "keyDown", key);
        self.key(tab, "keyUp", key);
    }

    /// A picture of the whole page, where somebody asked for pictures with `LINERATE_SCREENSHOTS=DIR`.
    pub fn picture(&mut self, tab: &Tab, name: &str, whole: bool) {
        let Some(folder) = std::env::var_os("LINERATE_SCREENSHOTS") else { return };
        let shot = self.tell(
            tab,
            "Page.captureScreenshot",
            json!({ "format": "png", "captureBeyondViewport": whole }),
        );
        let text = shot["data"].as_str().expect("a picture");
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), unbase64(text))
            .expect("a picture is written");
    }
}

fn address(file: &Path) -> Option<(u16, String)> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Some((port, path)) = text.split_once('\n')
            && let Ok(port) = port.parse()
            && path.starts_with("/devtools")
        {
            return Some((port, path.trim().to_string()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

/// Base64 (RFC 4648), of what the browser writes.
pub fn unbase64(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (mut bits, mut kept) = (0u32, 0);
    for letter in text.bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(value);
        kept += 6;
        if kept >= 8 {
            kept -= 8;
            bytes.push((bits >> kept) as u8);
            bits &= (1 << kept) - 1;
        }
    }
    bytes
}
