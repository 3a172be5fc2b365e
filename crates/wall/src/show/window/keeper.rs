//! The window's own thread: takes the newest frame as soon as the display can have one, and hears what people
//! and window managers do. Of its keys q and Escape end it, f is full screen or not.
//!
//! While frames are shown, the screen saver and the monitor's power saving wait, by X's own extension: the server
//! counts again by itself once we ask it to or are gone, also after `kill -9`.

use super::canvas::Canvas;
use super::display::{Display, DisplayLost};
use super::mailbox::{Frame, Mailbox, WindowEnd, WindowTitle};
use super::pixels::Fit;
use super::surface::Surface;
use linerate_system::clock;
use std::sync::Arc;
use std::time::{Duration, Instant};
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::screensaver::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{ClientMessageEvent, ConnectionExt, KeyButMask};
use x11rb::x11_utils::X11Error;

/// How often the title is written.
const TITLE: Duration = Duration::from_secs(1);
/// The longest sleep.
const LONGEST_WAIT: Duration = Duration::from_millis(250);
/// At the end the display is given so long to take the last frame.
const LAST_FRAME: Duration = Duration::from_millis(300);

/// Numbers of keys' symbols (keysymdef.h).
const ESCAPE: u32 = 0xff1b;
const ENDS: [u32; 3] = [ESCAPE, b'q' as u32, b'Q' as u32];
const FULL_SCREEN: [u32; 2] = [b'f' as u32, b'F' as u32];

/// So long after the last frame the screen saver may come again: a pause is not an end.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the thread holds.
pub(crate) struct Keeper {
    pub display: Display,
    pub surface: Surface,
    pub canvas: Canvas,
    pub keys: Keys,
    pub awake: Awake,
    pub mailbox: Arc<Mailbox>,
    /// The frame that the window shows.
    current: Option<Frame>,
    fit: Option<Fit>,
    /// The window lost what it showed, or has another size.
    dirty: bool,
    closed: bool,
    titled: Instant,
    shown_then: u64,
}

impl Keeper {
    pub(crate) fn new(
        display: Display,
        surface: Surface,
        mailbox: Arc<Mailbox>,
    ) -> Result<Keeper, DisplayLost> {
        let (canvas, keys, awake) = (Canvas::new(&display)?, Keys::read(&display)?, Awake::new(&display)?);
        surface.set_title(&display, &title(&mailbox.last_title(), None, 0))?;
        let (current, fit, titled) = (None, None, clock::now());
        Ok(Keeper {
            display,
            surface,
            canvas,
            keys,
            awake,
            mailbox,
            current,
            fit,
            dirty: false,
            closed: false,
            titled,
            shown_then: 0,
        })
    }

    /// Works until the window is closed, the display has gone or no more frames come.
    pub(crate) fn keep(mut self) {
        let ended = match self.work() {
            Ok(()) if self.closed => WindowEnd::Closed,
            Ok(()) => WindowEnd::Over,
            Err(DisplayLost(why)) => WindowEnd::Failed(format!(
                "the X display {} has gone while it showed frames ({why}): the session has ended, or \
                 somebody killed the window; what came until \
                 then was shown",
                self.display.name
            )),
        };
        // The window goes with the connection; only then is this over.
        let mailbox = Arc::clone(&self.mailbox);
        mailbox.is_now(self.surface.size, self.surface.full_screen, self.canvas.is_shared());
        drop(self);
        mailbox.ended(ended);
    }

    fn work(&mut self) -> Result<(), DisplayLost> {
        let mut over_since = None;
        loop {
            while let Some(event) = self.display.connection.poll_for_event()? {
                self.hear(event)?;
            }
            if self.closed {
                return Ok(());
            }
            if self.draw()? {
                continue;
            }
            if self.mailbox.is_over() {
                let since: &mut Instant = over_since.get_or_insert_with(clock::now);
                if self.canvas.is_idle() || clock::since(*since) > LAST_FRAME {
                    return Ok(());
                }
            }
            self.tell()?;
            self.display.connection.flush()?;
            match self.display.connection.poll_for_event()? {
                Some(event) => self.hear(event)?,
                None => {
                    self.display.wait(self.mailbox.bell(), LONGEST_WAIT)?;
                    self.mailbox.silence();
                }
            }
        }
    }

    /// Puts the newest frame, or what was there, where the display can have one; false: there is nothing to
    /// do.
    fn draw(&mut self) -> Result<bool, DisplayLost> {
        if !self.canvas.is_free() {
            return Ok(false);
        }
        let new = self.mailbox.take(&mut self.current);
        let Some(frame) = self.current.as_ref().filter(|_| new || self.dirty) else { return Ok(false) };
        self.surface.follow(&self.display, frame.size)?;
        let stale = |fit: &Fit| (fit.frame, fit.window) != (frame.size, self.surface.size);
        if self.fit.as_ref().is_none_or(stale) {
            self.fit = Some(Fit::new(frame.size, self.surface.size));
            self.surface.clear(&self.display)?;
        }
        self.dirty = false;
        let Some(fit) = &self.fit else { return Ok(false) };
        let given = new.then_some(frame.given);
        let put = self.canvas.put(&self.display, self.surface.target, fit, &frame.bytes, given)?;
        if let Some(given) = given {
            self.awake.shown();
            if put {
                self.mailbox.shown(given);
            }
        }
        self.display.connection.flush()?;
        Ok(true)
    }

    fn hear(&mut self, event: Event) -> Result<(), DisplayLost> {
        match event {
            Event::ShmCompletion(event) => {
                if let Some(given) = self.canvas.taken(event.shmseg) {
                    self.mailbox.shown(given);
                }
            }
            Event::Expose(_) => self.dirty = true,
            Event::MapNotify(_) => self.surface.is_mapped(&self.display)?,
            Event::ConfigureNotify(event) => self.dirty |= self.surface.is_configured(&event),
            Event::PropertyNotify(event) if event.atom == self.display.atoms._NET_WM_STATE => {
                self.surface.look_at_state(&self.display)?;
            }
            Event::MappingNotify(_) => self.keys = Keys::read(&self.display)?,
            Event::KeyPress(event) => match self.keys.wish(event.detail, event.state) {
                Some(WindowKey::End) => self.closed = true,
                Some(WindowKey::FullScreen) => self.surface.toggle_full_screen(&self.display)?,
                None => {}
            },
            Event::ClientMessage(event) => self.closed |= self.asks_to_close(&event),
            Event::DestroyNotify(_) => self.closed = true,
            Event::Error(error) => refused(&error)?,
            _ => {}
        }
        Ok(())
    }

    fn asks_to_close(&self, event: &ClientMessageEvent) -> bool {
        let atoms = &self.display.atoms;
        event.type_ == atoms.WM_PROTOCOLS && event.data.as_data32()[0] == atoms.WM_DELETE_WINDOW
    }

    /// Once in a while: the title, and word of how the window is.
    fn tell(&mut self) -> Result<(), DisplayLost> {
        self.awake.look(&self.display)?;
        let Surface { size, full_screen, .. } = self.surface;
        self.mailbox.is_now(size, full_screen, self.canvas.is_shared());
        let since = clock::since(self.titled);
        if since < TITLE {
            return Ok(());
        }
        let done = self.mailbox.done();
        let rate = (done.shown - self.shown_then) as f64 / since.as_secs_f64();
        (self.titled, self.shown_then) = (clock::now(), done.shown);
        let title = title(&self.mailbox.last_title(), Some(rate), done.dropped);
        self.surface.set_title(&self.display, &title)
    }
}

/// The server refuses pixels: no frame would ever be seen. Other requests are no matter: a window that was
/// closed, a manager that has gone.
fn refused(error: &X11Error) -> Result<(), DisplayLost> {
    let pixels = error.request_name.is_some_and(|name| name.contains("PutImage"));
    if pixels { Err(DisplayLost(format!("it refuses the pixels: {:?}", error.error_kind))) } else { Ok(()) }
}

fn title(window_title: &WindowTitle, rate: Option<f64>, dropped: u64) -> String {
    let WindowTitle { name, rate: of, lost } = window_title;
    let Some(rate) = rate else { return name.clone() };
    let of = of.as_ref().map_or(String::new(), |of| format!(" of {of}"));
    format!("{name}: {rate:.1}{of} frames/s, {} lost", lost + dropped)
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowKey {
    End,
    FullScreen,
}

/// The keyboard's layout, as far as it matters.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    wishes: Vec<(u8, WindowKey)>,
}

impl Keys {
    /// As the keyboard is laid out now.
    pub(crate) fn read(display: &Display) -> Result<Keys, DisplayLost> {
        let setup = display.connection.setup();
        let (first, count) = (setup.min_keycode, setup.max_keycode - setup.min_keycode + 1);
        let mapping = display.connection.get_keyboard_mapping(first, count)?.reply()?;
        let per_key = usize::from(mapping.keysyms_per_keycode).max(1);
        let wish = |symbols: &[u32]| {
            let any = |of: &[u32]| symbols.iter().any(|symbol| of.contains(symbol));
            if any(&ENDS) { Some(WindowKey::End) } else { any(&FULL_SCREEN).then_some(WindowKey::FullScreen) }
        };
        let keys = (first..=u8::MAX).zip(mapping.keysyms.chunks(per_key));
        Ok(Keys { wishes: keys.filter_map(|(key, symbols)| Some((key, wish(symbols)?))).collect() })
    }

    /// What pressing this key asks for; with Control or Alt it is somebody else's.
    fn wish(&self, key: u8, modifiers: KeyButMask) -> Option<WindowKey> {
        let others = KeyButMask::CONTROL | KeyButMask::MOD1 | KeyButMask::MOD4;
        if u16::from(modifiers) & u16::from(others) != 0 {
            return None;
        }
        self.wishes.iter().find(|(of, _)| *of == key).map(|(_, wish)| *wish)
    }
}

/// Keeps a display awake.
#[derive(Debug)]
pub(crate) struct Awake {
    is_possible: bool,
    holds: bool,
    newest: Option<Instant>,
}

impl Awake {
    /// Holds nothing yet.
    pub(crate) fn new(display: &Display) -> Result<Awake, DisplayLost> {
        let mut is_possible = display.has(screensaver::X11_EXTENSION_NAME)?;
        if is_possible {
            let version = display.connection.screensaver_query_version(1, 1)?.reply()?;
            is_possible = (version.server_major_version, version.server_minor_version) >= (1, 1);
        }
        Ok(Awake { is_possible, holds: false, newest: None })
    }

    /// A frame is shown.
    pub(crate) fn shown(&mut self) {
        self.newest = Some(clock::now());
    }

    /// Asks the display to stay awake, or lets it sleep again.
    pub(crate) fn look(&mut self, display: &Display) -> Result<(), DisplayLost> {
        let wanted = self.is_possible && self.newest.is_some_and(|newest| clock::since(newest) < PATIENCE);
        if wanted != self.holds {
            display.connection.screensaver_suspend(u32::from(wanted))?;
            self.holds = wanted;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_reports_tile_rate_and_loss() {
        let told = WindowTitle { name: "r0c1".into(), rate: Some("24".into()), lost: 2 };
        assert_eq!(title(&told, Some(23.96), 1), "r0c1: 24.0 of 24 frames/s, 3 lost");
        assert_eq!(title(&told, None, 1), "r0c1");
    }
}
