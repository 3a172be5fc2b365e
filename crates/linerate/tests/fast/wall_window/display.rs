//! An X server without a screen (Xvfb), and a client that looks at it.

use crate::support::process::signal;
use linerate::wall::geometry::Size;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use x11rb::connection::Connection;
use x11rb::protocol::randr::{ConnectionExt as _, MonitorInfo};
use x11rb::protocol::screensaver::{ConnectionExt as _, State};
use x11rb::protocol::xproto::{
    AtomEnum, Blanking, ClientMessageEvent, ConnectionExt as _, EventMask, Exposures, ImageFormat,
    KeyPressEvent, MapState,
};
use x11rb::rust_connection::RustConnection;

/// The server; ends with the test.
pub struct Xvfb {
    child: Child,
    /// As `DISPLAY` names it.
    pub name: String,
}

impl Xvfb {
    /// Starts it with further words; none where it is not installed.
    pub fn start(screen: &str, words: &[&str]) -> Option<Xvfb> {
        let mut command = Command::new("Xvfb");
        command.args(["-displayfd", "1", "-nolisten", "tcp", "-screen", "0", screen]).args(words);
        let Ok(mut child) = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() else {
            eprintln!("skipped: a wall's windows: Xvfb is not installed (apt install xvfb)");
            return None;
        };
        let mut number = String::new();
        let told = child.stdout.take().expect("its standard output");
        BufReader::new(told).read_line(&mut number).expect("a line");
        let number = number.trim();
        assert!(!number.is_empty(), "Xvfb has ended");
        Some(Xvfb { child, name: format!(":{number}") })
    }

    /// Ends it, as at the end of a session.
    pub fn end(&mut self) {
        // Once: another process may have its number then.
        if matches!(self.child.try_wait(), Ok(None)) {
            signal(&self.child, "TERM");
            let _ = self.child.wait();
        }
    }
}

impl Drop for Xvfb {
    fn drop(&mut self) {
        self.end();
    }
}

/// A window, as another client sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DisplayedWindow {
    pub window: u32,
    pub left: i32,
    pub top: i32,
    pub size: Size,
    pub covers: bool,
}

/// Looks at a display.
pub struct Viewer {
    pub connection: RustConnection,
    root: u32,
}

impl Viewer {
    pub fn new(display: &Xvfb) -> Viewer {
        let (connection, screen) = RustConnection::connect(Some(&display.name)).expect("the display");
        let root = connection.setup().roots[screen].root;
        Viewer { connection, root }
    }

    /// linerate's windows that can be seen, from the left.
    pub fn windows(&self) -> Vec<DisplayedWindow> {
        let tree = self.connection.query_tree(self.root).expect("asked").reply().expect("a tree");
        let mut windows: Vec<DisplayedWindow> =
            tree.children.into_iter().filter_map(|window| self.look_at(window)).collect();
        windows.sort_by_key(|seen| (seen.top, seen.left));
        windows
    }

    /// None where it is not linerate's, not shown, or gone meanwhile.
    fn look_at(&self, window: u32) -> Option<DisplayedWindow> {
        if !self.property(window, AtomEnum::WM_CLASS.into())?.starts_with("linerate") {
            return None;
        }
        let attributes = self.connection.get_window_attributes(window).expect("asked").reply().ok()?;
        let geometry = self.connection.get_geometry(window).expect("asked").reply().ok()?;
        let size = Size { width: geometry.width.into(), height: geometry.height.into() };
        let covers = attributes.override_redirect;
        let seen = DisplayedWindow { window, left: geometry.x.into(), top: geometry.y.into(), size, covers };
        (attributes.map_state == MapState::VIEWABLE).then_some(seen)
    }

    fn property(&self, window: u32, name: u32) -> Option<String> {
        let cookie = self.connection.get_property(false, window, name, AtomEnum::STRING, 0, 256);
        let reply = cookie.expect("asked").reply().ok()?;
        Some(String::from_utf8_lossy(&reply.value).into_owned())
    }

    pub fn title(&self, window: u32) -> String {
        self.property(window, AtomEnum::WM_NAME.into()).unwrap_or_default()
    }

    /// Waits until so many windows are there that fit.
    pub fn await_windows(
        &self,
        count: usize,
        fits: impl Fn(&DisplayedWindow) -> bool,
    ) -> Vec<DisplayedWindow> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let windows = self.windows();
            if windows.len() == count && windows.iter().all(&fits) {
                return windows;
            }
            assert!(Instant::now() < until, "there are only {windows:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What a window shows, as 8-bit RGB; none where it has gone meanwhile or has another size.
    pub fn picture(&self, seen: &DisplayedWindow) -> Option<Vec<u8>> {
        let (width, height) = (seen.size.width as u16, seen.size.height as u16);
        let cookie =
            self.connection.get_image(ImageFormat::Z_PIXMAP, seen.window, 0, 0, width, height, u32::MAX);
        let image = cookie.expect("asked").reply().ok()?;
        Some(image.data.chunks_exact(4).flat_map(|pixel| [pixel[2], pixel[1], pixel[0]]).collect())
    }

    /// Presses the key of this symbol there.
    pub fn press(&self, window: u32, symbol: u32) {
        let setup = self.connection.setup();
        let (first, count) = (setup.min_keycode, setup.max_keycode - setup.min_keycode + 1);
        let mapping =
            self.connection.get_keyboard_mapping(first, count).expect("asked").reply().expect("keys");
        let keys = mapping.keysyms.chunks(usize::from(mapping.keysyms_per_keycode));
        let (key, _) = (first..).zip(keys).find(|(_, symbols)| symbols.contains(&symbol)).expect("a key");
        let event = KeyPressEvent {
            response_type: x11rb::protocol::xproto::KEY_PRESS_EVENT,
            detail: key,
            time: x11rb::CURRENT_TIME,
            root: self.root,
            event: window,
            same_screen: true,
            ..KeyPressEvent::default()
        };
        self.connection.send_event(false, window, EventMask::KEY_PRESS, event).expect("asked");
        self.connection.flush().expect("sent");
    }

    /// Asks a window to close, as a window manager does.
    pub fn close(&self, window: u32) {
        let atom =
            |name: &[u8]| self.connection.intern_atom(false, name).expect("asked").reply().expect("it").atom;
        let (protocols, delete) = (atom(b"WM_PROTOCOLS"), atom(b"WM_DELETE_WINDOW"));
        let event = ClientMessageEvent::new(32, window, protocols, [delete, 0, 0, 0, 0]);
        self.connection.send_event(false, window, EventMask::NO_EVENT, event).expect("asked");
        self.connection.flush().expect("sent");
    }

    /// The screen saver comes after so many seconds without a key.
    pub fn set_screen_saver(&self, seconds: i16) {
        let (blank, expose) = (Blanking::PREFERRED, Exposures::DEFAULT);
        self.connection.set_screen_saver(seconds, 0, blank, expose).expect("asked").check().expect("set");
    }

    /// It is there.
    pub fn screen_saver_is_on(&self) -> bool {
        let information = self.connection.screensaver_query_info(self.root).expect("asked").reply();
        information.expect("an answer").state == u8::from(State::ON)
    }

    /// Declares a part of the screen to be an output of its own.
    pub fn declare_output(&self, name: &str, left: i16, size: Size) {
        let name =
            self.connection.intern_atom(false, name.as_bytes()).expect("asked").reply().expect("it").atom;
        let monitor = MonitorInfo {
            name,
            x: left,
            width: size.width as u16,
            height: size.height as u16,
            width_in_millimeters: 100,
            height_in_millimeters: 100,
            ..MonitorInfo::default()
        };
        self.connection.randr_set_monitor(self.root, monitor).expect("asked").check().expect("set");
    }
}
