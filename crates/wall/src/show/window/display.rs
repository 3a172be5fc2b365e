//! The way to the X server: connected, with what every window must know of it; each way to fail is a
//! sentence.
//!
//! A Wayland session is reached through XWayland, which every common compositor starts by itself and tells in
//! `DISPLAY`.

use super::pixels::ByteOrder;
use crate::geometry::Size;
use linerate_facts::failure::Failure;
use linerate_system::readiness::wait_readable;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;
use x11rb::connection::Connection;
use x11rb::errors::{ConnectError, ConnectionError, ReplyError, ReplyOrIdError};
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt, ImageOrder, Screen, Setup, VisualClass};
use x11rb::rust_connection::RustConnection;

x11rb::atom_manager! {
    /// Names that windows and window managers agree on (EWMH).
    pub Atoms: AtomsCookie {
        UTF8_STRING, WM_DELETE_WINDOW, WM_PROTOCOLS, _NET_SUPPORTED, _NET_SUPPORTING_WM_CHECK, _NET_WM_BYPASS_COMPOSITOR,
        _MOTIF_WM_HINTS, _NET_WM_FULLSCREEN_MONITORS, _NET_WM_NAME, _NET_WM_STATE, _NET_WM_STATE_FULLSCREEN,
    }
}

/// The display does not go on; why.
#[derive(Debug)]
pub(crate) struct DisplayLost(pub String);

macro_rules! gone_from {
    ($($error:ty),*) => {
        $(impl From<$error> for DisplayLost {
            fn from(error: $error) -> DisplayLost {
                DisplayLost(error.to_string())
            }
        })*
    };
}
gone_from!(ConnectionError, ReplyError, ReplyOrIdError, std::io::Error);

/// A connected display.
pub(crate) struct Display {
    /// As `DISPLAY` tells it.
    pub name: String,
    pub connection: RustConnection,
    pub root: u32,
    pub root_size: Size,
    /// What windows are made of: 24 or 32 bits, 8 each for red, green and blue.
    pub depth: u8,
    pub visual: u32,
    pub order: ByteOrder,
    pub atoms: Atoms,
    /// A window manager is there that knows full-screen windows (EWMH).
    pub managed: bool,
    /// Memory can be shared with it.
    pub is_local: bool,
}

impl Display {
    /// Connects to the display that `DISPLAY` names; `without`: the options that do without a window.
    pub(crate) fn connect(without: &str) -> Result<Display, Failure> {
        let remedy =
            format!("leave the window out with {without}, or give it a display without a screen (Xvfb)");
        let name = std::env::var("DISPLAY").unwrap_or_default();
        if name.is_empty() {
            let session = match std::env::var_os("WAYLAND_DISPLAY") {
                Some(_) => "this Wayland session has no XWayland, through which windows are shown: start it",
                None => "set it inside an X or Wayland session, mostly to :0",
            };
            return Err(Failure::Lacks(format!("no window: DISPLAY is not set; {session}, or {remedy}")));
        }
        let refused = |error| Failure::Lacks(sentence(&name, &error, &remedy));
        let (connection, screen) = RustConnection::connect(None).map_err(refused)?;
        let gone = |DisplayLost(why)| Failure::Lacks(format!("no window: the X display {name}: {why}"));
        let atoms = Atoms::new(&connection).map_err(DisplayLost::from).and_then(|atoms| Ok(atoms.reply()?));
        let atoms = atoms.map_err(gone)?;
        let setup = connection.setup();
        let screen = &setup.roots[screen];
        let (root, order) = (screen.root, byte_order(setup));
        let root_size = Size { width: screen.width_in_pixels.into(), height: screen.height_in_pixels.into() };
        let (depth, visual) = true_colour(setup, screen).ok_or_else(|| {
            Failure::Lacks(format!(
                "no window: the X display {name} has {} bits a pixel, and windows need 24 with 8 each for \
                 red, green and blue: start it so \
                 (Xvfb -screen 0 1280x800x24), or {remedy}",
                screen.root_depth
            ))
        })?;
        let is_local =
            socket2::SockRef::from(connection.stream()).local_addr().is_ok_and(|address| address.is_unix());
        let mut display = Display {
            name: name.clone(),
            root,
            root_size,
            depth,
            visual,
            order,
            atoms,
            managed: false,
            is_local,
            connection,
        };
        display.managed = display.has_manager().map_err(gone)?;
        Ok(display)
    }

    /// A window manager is at work: it names a window of its own, which names itself (EWMH). One that died
    /// leaves only the first name.
    fn has_manager(&self) -> Result<bool, DisplayLost> {
        let Atoms { _NET_SUPPORTING_WM_CHECK: check, _NET_SUPPORTED: supported, .. } = self.atoms;
        let named = |window: u32| -> Result<Option<u32>, DisplayLost> {
            Ok(self.numbers(window, check, AtomEnum::WINDOW.into())?.first().copied())
        };
        let Some(window) = named(self.root)? else { return Ok(false) };
        let knows = self.numbers(self.root, supported, AtomEnum::ATOM.into())?;
        Ok(named(window)? == Some(window) && knows.contains(&self.atoms._NET_WM_STATE_FULLSCREEN))
    }

    /// A property's numbers; none where the window or the property is not there.
    pub(crate) fn numbers(&self, window: u32, property: u32, kind: u32) -> Result<Vec<u32>, DisplayLost> {
        let cookie = self.connection.get_property(false, window, property, kind, 0, 1024)?;
        match cookie.reply() {
            Ok(reply) => Ok(reply.value32().map(Iterator::collect).unwrap_or_default()),
            Err(ReplyError::X11Error(_)) => Ok(Vec::new()),
            Err(ReplyError::ConnectionError(error)) => Err(error.into()),
        }
    }

    /// An extension is there.
    pub(crate) fn has(&self, extension: &'static str) -> Result<bool, DisplayLost> {
        use x11rb::connection::RequestConnection;
        Ok(self.connection.extension_information(extension)?.is_some())
    }

    /// Waits for a word of the server or for a bell.
    pub(crate) fn wait(&self, bell: BorrowedFd<'_>, patience: Duration) -> Result<(), DisplayLost> {
        wait_readable(&[self.connection.stream().as_fd(), bell], patience)?;
        Ok(())
    }
}

fn byte_order(setup: &Setup) -> ByteOrder {
    if setup.image_byte_order == ImageOrder::MSB_FIRST { ByteOrder::Big } else { ByteOrder::Little }
}

/// A depth and a visual with 8 bits each for red, green and blue in words of 32; the screen's own, where it
/// is one.
fn true_colour(setup: &Setup, screen: &Screen) -> Option<(u8, u32)> {
    let wide = |depth: u8| {
        setup
            .pixmap_formats
            .iter()
            .any(|format| format.depth == depth && format.bits_per_pixel == 32 && format.scanline_pad == 32)
    };
    let all =
        screen.allowed_depths.iter().filter(|depth| matches!(depth.depth, 24 | 32) && wide(depth.depth));
    let visuals = all.flat_map(|depth| depth.visuals.iter().map(|visual| (depth.depth, visual)));
    let mut fitting: Vec<(u8, u32)> = visuals
        .filter(|(_, visual)| {
            let masks = (visual.red_mask, visual.green_mask, visual.blue_mask);
            visual.class == VisualClass::TRUE_COLOR && masks == (0xff_0000, 0xff00, 0xff)
        })
        .map(|(depth, visual)| (depth, visual.visual_id))
        .collect();
    // The screen's own first, then without an alpha channel.
    fitting.sort_by_key(|(depth, visual)| (*visual != screen.root_visual, *depth));
    fitting.first().copied()
}

/// Why there is no connection, and what to do.
fn sentence(name: &str, error: &ConnectError, remedy: &str) -> String {
    let refused = |reason: &[u8]| {
        let reason = String::from_utf8_lossy(reason).trim().to_string();
        format!(
            "no window: the X server of DISPLAY={name} refuses this user (“{reason}”): run this as the \
             session's user, or name the session's cookie file in XAUTHORITY (`xauth info` shows it there), \
             or {remedy}"
        )
    };
    match error {
        ConnectError::SetupFailed(failed) => refused(&failed.reason),
        ConnectError::SetupAuthenticate(failed) => refused(&failed.reason),
        ConnectError::DisplayParsingError(_) => {
            format!("no window: DISPLAY={name} is not a display: write it like :0 or HOST:0, or {remedy}")
        }
        ConnectError::InvalidScreen => {
            format!("no window: the X server of DISPLAY={name} has no screen of that number, or {remedy}")
        }
        error => format!(
            "no window: nothing answers as an X server at DISPLAY={name} ({error}): start it, or correct \
             DISPLAY (`ls /tmp/.X11-unix` names the \
             local ones), or {remedy}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use x11rb::protocol::xproto::{Depth, Format, Visualtype};

    fn visual(visual_id: u32, red_mask: u32) -> Visualtype {
        let (class, green_mask, blue_mask) = (VisualClass::TRUE_COLOR, 0xff00, red_mask ^ 0xff_00ff);
        Visualtype { visual_id, class, red_mask, green_mask, blue_mask, ..Visualtype::default() }
    }

    fn depth(depth: u8, visual: Visualtype) -> Depth {
        Depth { depth, visuals: vec![visual] }
    }

    #[test]
    fn windows_are_of_24_bits_and_of_the_screens_own_kind_where_it_has_them() {
        let format = |depth, bits_per_pixel| Format { depth, bits_per_pixel, scanline_pad: 32 };
        let setup = Setup {
            pixmap_formats: vec![format(16, 16), format(24, 32), format(32, 32)],
            ..Setup::default()
        };
        let screen =
            |root_visual, allowed_depths| Screen { root_visual, allowed_depths, ..Screen::default() };
        let (coarse, plain, clear) =
            (depth(16, visual(1, 0xf800)), depth(24, visual(2, 0xff_0000)), depth(32, visual(3, 0xff_0000)));
        let all = vec![coarse.clone(), clear.clone(), plain.clone()];
        assert_eq!(true_colour(&setup, &screen(2, all.clone())), Some((24, 2)));
        assert_eq!(true_colour(&setup, &screen(3, all.clone())), Some((32, 3)));
        assert_eq!(
            true_colour(&setup, &screen(1, all)),
            Some((24, 2)),
            "a coarse screen with better windows"
        );
        assert_eq!(true_colour(&setup, &screen(1, vec![coarse])), None);
        assert_eq!(true_colour(&setup, &screen(4, vec![depth(24, visual(4, 0xff))])), None, "blue for red");
        let packed = Setup { pixmap_formats: vec![format(24, 24)], ..Setup::default() };
        assert_eq!(true_colour(&packed, &screen(2, vec![plain])), None);
    }

    #[test]
    fn each_way_to_fail_has_its_remedy() {
        let failed = x11rb::protocol::xproto::SetupFailed {
            reason: b"No protocol specified\n".to_vec(),
            ..Default::default()
        };
        let message = sentence(":0", &ConnectError::SetupFailed(failed), "use none");
        assert!(message.contains("“No protocol specified”") && message.contains("XAUTHORITY"), "{message}");
        let message = sentence(":0.7", &ConnectError::InvalidScreen, "use none");
        assert!(message.contains("no screen of that number, or use none"), "{message}");
    }
}
