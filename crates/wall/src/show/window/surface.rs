//! The window itself: its place and size, full screen or not, its cursor and its title.
//!
//! Full screen is asked of the window manager (EWMH). Walls often run without one; then the window covers its
//! output by itself, as one that no manager would touch (override-redirect).
//!
//! What is full screen covers one of the outputs of a display.
//!
//! These are RandR's monitors: each output that shows something, an output of two halves as one, and whatever
//! else somebody has declared to be one (`xrandr --setmonitor`), so that a large display can be cut into
//! several screens of a wall.

use super::canvas::Target;
use super::display::{Atoms, Display, DisplayLost};
use super::pixels::largest;
use crate::geometry::Size;
use linerate_facts::failure::Failure;
use x11rb::connection::Connection;
use x11rb::properties::{WmSizeHints, WmSizeHintsSpecification};
use x11rb::protocol::randr::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ClientMessageEvent, ColormapAlloc, ConfigureNotifyEvent,
    ConfigureWindowAux, ConnectionExt as _, CreateGCAux, CreateWindowAux, EventMask, InputFocus, PropMode,
    Rectangle, StackMode, WindowClass,
};
use x11rb::wrapper::ConnectionExt as _;

/// Of Motif's hints: the third number says which decorations there are.
const MOTIF_DECORATIONS: u32 = 1 << 1;
/// Until the first frame tells its size.
const UNKNOWN_SIZE: Size = Size { width: 640, height: 400 };

/// A window on a display.
pub(crate) struct Surface {
    pub target: Target,
    /// As the server reported it last.
    pub size: Size,
    pub full_screen: bool,
    position: (i32, i32),
    /// Its size and place while it is not full screen.
    normal: (i32, i32, Size),
    /// Its size is still to become that of the frames.
    follows: bool,
    /// Its place among the windows of this process.
    index: usize,
    blank: u32,
}

/// What is asked of a new window.
pub(crate) struct Wanted {
    /// Its size, where the user named one.
    pub size: Option<Size>,
    /// Its upper left corner, where the user named one: the window has no decorations then.
    pub at: Option<(i32, i32)>,
    /// That of the frames, where it is known beforehand.
    pub frame: Option<Size>,
    pub output: Option<DisplayOutput>,
    pub index: usize,
}

impl Surface {
    /// Makes and shows it.
    pub(crate) fn open(display: &Display, wanted: &Wanted) -> Result<Surface, DisplayLost> {
        let connection = &display.connection;
        let (window, context) = (connection.generate_id()?, connection.generate_id()?);
        let size = wanted.size.or(wanted.frame.map(|frame| fitting_size(display, frame)));
        let beside = || window_corner(display, size.unwrap_or(UNKNOWN_SIZE), wanted.index);
        let (left, top) = wanted.at.unwrap_or_else(beside);
        let normal = (left, top, size.unwrap_or(UNKNOWN_SIZE));
        let full_screen = wanted.output.is_some();
        let (x, y, size) = wanted.output.as_ref().map_or(normal, |output| (output.x, output.y, output.size));
        let colormap = connection.generate_id()?;
        connection.create_colormap(ColormapAlloc::NONE, colormap, display.root, display.visual)?;
        let attributes = CreateWindowAux::new()
            .background_pixel(if display.depth == 32 { 0xff00_0000 } else { 0 })
            .border_pixel(0)
            .colormap(colormap)
            .override_redirect(u32::from(full_screen && !display.managed))
            .event_mask(
                EventMask::EXPOSURE
                    | EventMask::KEY_PRESS
                    | EventMask::PROPERTY_CHANGE
                    | EventMask::STRUCTURE_NOTIFY,
            );
        let (width, height) = (size.width as u16, size.height as u16);
        connection.create_window(
            display.depth,
            window,
            display.root,
            x as i16,
            y as i16,
            width,
            height,
            0,
            WindowClass::INPUT_OUTPUT,
            display.visual,
            &attributes,
        )?;
        connection.create_gc(context, window, &CreateGCAux::new().graphics_exposures(0))?;
        let blank = blank_cursor(display, window)?;
        let mut surface = Surface {
            target: Target { window, context },
            size,
            full_screen: false,
            position: (x, y),
            normal,
            follows: wanted.size.is_none(),
            index: wanted.index,
            blank,
        };
        surface.introduce(display, wanted)?;
        connection.map_window(window)?;
        if let Some(output) = wanted.output.as_ref() {
            surface.set_full_screen(display, true)?;
            surface.name_output(display, output)?;
        }
        connection.flush()?;
        Ok(surface)
    }

    /// What a window manager reads before it shows a window.
    fn introduce(&self, display: &Display, wanted: &Wanted) -> Result<(), DisplayLost> {
        let (connection, atoms, window) = (&display.connection, &display.atoms, self.target.window);
        let replace = PropMode::REPLACE;
        let class = b"linerate\0linerate\0";
        connection.change_property8(replace, window, AtomEnum::WM_CLASS, AtomEnum::STRING, class)?;
        let protocols = [atoms.WM_DELETE_WINDOW];
        connection.change_property32(replace, window, atoms.WM_PROTOCOLS, AtomEnum::ATOM, &protocols)?;
        let Some(output) = &wanted.output else {
            return wanted.at.map_or(Ok(()), |at| self.place_undecorated(display, at));
        };
        let state = [atoms._NET_WM_STATE_FULLSCREEN];
        connection.change_property32(replace, window, atoms._NET_WM_STATE, AtomEnum::ATOM, &state)?;
        let bypass = atoms._NET_WM_BYPASS_COMPOSITOR;
        connection.change_property32(replace, window, bypass, AtomEnum::CARDINAL, &[1])?;
        self.place(display, (output.x, output.y))
    }

    /// Tells the window manager that this place was chosen.
    fn place(&self, display: &Display, (x, y): (i32, i32)) -> Result<(), DisplayLost> {
        let position = Some((WmSizeHintsSpecification::UserSpecified, x, y));
        let hints = WmSizeHints { position, ..WmSizeHints::new() };
        hints.set_normal_hints(&display.connection, self.target.window)?;
        Ok(())
    }

    /// The same, and that no title bar lies between it and its neighbours (Motif's hints, which all heed).
    fn place_undecorated(&self, display: &Display, at: (i32, i32)) -> Result<(), DisplayLost> {
        let hints = display.atoms._MOTIF_WM_HINTS;
        let data = [MOTIF_DECORATIONS, 0, 0, 0, 0];
        let window = self.target.window;
        display.connection.change_property32(PropMode::REPLACE, window, hints, hints, &data)?;
        self.place(display, at)
    }

    /// Tells the window manager which output to cover.
    fn name_output(&self, display: &Display, output: &DisplayOutput) -> Result<(), DisplayLost> {
        if !display.managed {
            return Ok(());
        }
        let number = output.number;
        self.ask_manager(
            display,
            display.atoms._NET_WM_FULLSCREEN_MONITORS,
            [number, number, number, number, 1],
        )
    }

    fn ask_manager(&self, display: &Display, what: u32, data: [u32; 5]) -> Result<(), DisplayLost> {
        let message = ClientMessageEvent::new(32, self.target.window, what, data);
        let mask = EventMask::SUBSTRUCTURE_REDIRECT | EventMask::SUBSTRUCTURE_NOTIFY;
        display.connection.send_event(false, display.root, mask, message)?;
        Ok(())
    }

    /// Becomes full screen on the output that it lies on, or normal again.
    pub(crate) fn toggle_full_screen(&mut self, display: &Display) -> Result<(), DisplayLost> {
        let on = !self.full_screen;
        if display.managed {
            // The manager answers by changing the window's property.
            let Atoms { _NET_WM_STATE: state, _NET_WM_STATE_FULLSCREEN: full, .. } = display.atoms;
            return self.ask_manager(display, state, [u32::from(on), full, 0, 1, 0]);
        }
        let (mut x, mut y, mut size) = self.normal;
        if on {
            self.normal = (self.position.0, self.position.1, self.size);
            let middle = |at: i32, length: u32| at + (length / 2).cast_signed();
            let outputs = all_outputs(display)?;
            let (across, down) =
                (middle(self.position.0, self.size.width), middle(self.position.1, self.size.height));
            if let Some(output) = output_at(&outputs, across, down) {
                (x, y, size) = (output.x, output.y, output.size);
            }
        }
        let (connection, window) = (&display.connection, self.target.window);
        // What a manager may touch is settled when a window is shown.
        connection.unmap_window(window)?;
        let attributes = ChangeWindowAttributesAux::new().override_redirect(u32::from(on));
        connection.change_window_attributes(window, &attributes)?;
        let place = ConfigureWindowAux::new().x(x).y(y).width(size.width).height(size.height);
        connection.configure_window(window, &place)?;
        connection.map_window(window)?;
        self.size = size;
        self.set_full_screen(display, on)
    }

    fn set_full_screen(&mut self, display: &Display, on: bool) -> Result<(), DisplayLost> {
        self.full_screen = on;
        let cursor = ChangeWindowAttributesAux::new().cursor(if on { self.blank } else { x11rb::NONE });
        display.connection.change_window_attributes(self.target.window, &cursor)?;
        Ok(())
    }

    /// The window manager may have changed its state.
    pub(crate) fn look_at_state(&mut self, display: &Display) -> Result<(), DisplayLost> {
        let Atoms { _NET_WM_STATE: state, _NET_WM_STATE_FULLSCREEN: full, .. } = display.atoms;
        if !display.managed {
            return Ok(());
        }
        let on = display.numbers(self.target.window, state, AtomEnum::ATOM.into())?.contains(&full);
        self.set_full_screen(display, on)
    }

    /// It is on the screen: above all others and with the keyboard, where no manager sees to that.
    pub(crate) fn is_mapped(&self, display: &Display) -> Result<(), DisplayLost> {
        if display.managed || !self.full_screen {
            return Ok(());
        }
        let connection = &display.connection;
        let above = ConfigureWindowAux::new().stack_mode(StackMode::ABOVE);
        connection.configure_window(self.target.window, &above)?;
        let pointer = u32::from(InputFocus::POINTER_ROOT);
        // By default keys go to the window below the pointer: so several windows can be told apart.
        if connection.get_input_focus()?.reply()?.focus != pointer {
            let (revert, now) = (InputFocus::POINTER_ROOT, x11rb::CURRENT_TIME);
            connection.set_input_focus(revert, self.target.window, now)?;
        }
        Ok(())
    }

    /// It was moved or has another size now: true.
    pub(crate) fn is_configured(&mut self, event: &ConfigureNotifyEvent) -> bool {
        let size = Size { width: event.width.into(), height: event.height.into() };
        self.position = (event.x.into(), event.y.into());
        std::mem::replace(&mut self.size, size) != size
    }

    /// A frame has this size: the window takes it, if nobody has named another.
    pub(crate) fn follow(&mut self, display: &Display, frame: Size) -> Result<(), DisplayLost> {
        if !std::mem::take(&mut self.follows) {
            return Ok(());
        }
        let size = fitting_size(display, frame);
        let (left, top) = window_corner(display, size, self.index);
        self.normal = (left, top, size);
        if self.full_screen || size == self.size {
            return Ok(());
        }
        let mut place = ConfigureWindowAux::new().width(size.width).height(size.height);
        if !display.managed {
            place = place.x(left).y(top);
        }
        display.connection.configure_window(self.target.window, &place)?;
        // Not only when the server confirms it: this frame is painted for it already.
        self.size = size;
        Ok(())
    }

    /// Black again, where no frame lies.
    pub(crate) fn clear(&self, display: &Display) -> Result<(), DisplayLost> {
        display.connection.clear_area(false, self.target.window, 0, 0, 0, 0)?;
        Ok(())
    }

    /// Shows a title.
    pub(crate) fn set_title(&self, display: &Display, title: &str) -> Result<(), DisplayLost> {
        let (window, atoms, replace) = (self.target.window, &display.atoms, PropMode::REPLACE);
        let (connection, title) = (&display.connection, title.as_bytes());
        connection.change_property8(replace, window, AtomEnum::WM_NAME, AtomEnum::STRING, title)?;
        connection.change_property8(replace, window, atoms._NET_WM_NAME, atoms.UTF8_STRING, title)?;
        Ok(())
    }
}

/// The frame's size, or as much of it as the display's first output holds.
fn fitting_size(display: &Display, frame: Size) -> Size {
    let output = all_outputs(display).ok().and_then(|outputs| {
        outputs.iter().find(|output| output.primary).or(outputs.first()).map(|output| output.size)
    });
    let most = output.unwrap_or(display.root_size);
    let fits = frame.width <= most.width && frame.height <= most.height;
    if fits { frame } else { largest(frame, most) }
}

/// Where windows go that no manager places: side by side, then row by row.
fn window_corner(display: &Display, size: Size, index: usize) -> (i32, i32) {
    let columns = (display.root_size.width / size.width).max(1) as usize;
    let at = |place: usize, length: u32, whole: u32| {
        let at = u64::from(length) * place as u64;
        i32::try_from(at).unwrap_or(0).min(whole.saturating_sub(length).cast_signed())
    };
    let left = at(index % columns, size.width, display.root_size.width);
    (left, at(index / columns, size.height, display.root_size.height))
}

/// A cursor of which nothing is seen.
fn blank_cursor(display: &Display, window: u32) -> Result<u32, DisplayLost> {
    let connection = &display.connection;
    let [pixmap, context, cursor] =
        [connection.generate_id()?, connection.generate_id()?, connection.generate_id()?];
    connection.create_pixmap(1, pixmap, window, 1, 1)?;
    connection.create_gc(context, pixmap, &CreateGCAux::new().foreground(0))?;
    let all = Rectangle { x: 0, y: 0, width: 1, height: 1 };
    connection.poly_fill_rectangle(pixmap, context, &[all])?;
    connection.create_cursor(cursor, pixmap, pixmap, 0, 0, 0, 0, 0, 0, 0, 0)?;
    connection.free_gc(context)?;
    connection.free_pixmap(pixmap)?;
    Ok(cursor)
}

/// One output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisplayOutput {
    /// As `xrandr --listmonitors` tells it, such as `DP-1`.
    pub name: String,
    /// Its upper left corner on the display, pixels.
    pub x: i32,
    pub y: i32,
    pub size: Size,
    pub primary: bool,
    /// Its number among RandR's monitors, for window managers.
    pub number: u32,
}

/// The outputs of the display that `DISPLAY` names, row by row; `without`: the options that need none.
pub fn outputs(without: &str) -> Result<Vec<DisplayOutput>, Failure> {
    let display = Display::connect(without)?;
    all_outputs(&display)
        .map_err(|DisplayLost(why)| Failure::Lacks(format!("the outputs of {}: {why}", display.name)))
}

/// The outputs of a display, row by row; the whole of it where it cannot tell (RandR before 1.5).
pub(crate) fn all_outputs(display: &Display) -> Result<Vec<DisplayOutput>, DisplayLost> {
    let connection = &display.connection;
    let mut outputs = Vec::new();
    if display.has(randr::X11_EXTENSION_NAME)? {
        let version = connection.randr_query_version(1, 5)?.reply()?;
        if (version.major_version, version.minor_version) >= (1, 5) {
            let monitors = connection.randr_get_monitors(display.root, true)?.reply()?.monitors;
            for (monitor, number) in monitors.into_iter().zip(0..) {
                let name = connection.get_atom_name(monitor.name)?.reply()?.name;
                outputs.push(DisplayOutput {
                    name: String::from_utf8_lossy(&name).into_owned(),
                    x: monitor.x.into(),
                    y: monitor.y.into(),
                    size: Size { width: monitor.width.into(), height: monitor.height.into() },
                    primary: monitor.primary,
                    number,
                });
            }
        }
    }
    if outputs.is_empty() {
        let (name, size) = ("screen".into(), display.root_size);
        outputs.push(DisplayOutput { name, x: 0, y: 0, size, primary: true, number: 0 });
    }
    outputs.sort_by_key(|output| (output.y, output.x));
    Ok(outputs)
}

/// The output for the screen of this index among `screens`: the named one; else the primary one for a single
/// screen, one after the other for several.
pub(crate) fn chosen(
    outputs: &[DisplayOutput],
    name: Option<&str>,
    (index, screens): (usize, usize),
) -> Result<DisplayOutput, Failure> {
    let found = match name {
        Some(name) => outputs.iter().find(|output| output.name == name),
        None if screens == 1 => outputs.iter().find(|output| output.primary).or(outputs.first()),
        None => outputs.get(index),
    };
    found.cloned().ok_or_else(|| {
        let there: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
        let there = there.join(", ");
        Failure::Lacks(match name {
            Some(name) => format!("--full-screen {name}: there is no such output; this display has {there}"),
            None => format!(
                "--full-screen: {screens} screens, and this display has {} output(s), {there}: name one for \
                 each --listen, or use --window",
                outputs.len()
            ),
        })
    })
}

/// The output that a point lies on, else the first.
fn output_at(outputs: &[DisplayOutput], x: i32, y: i32) -> Option<&DisplayOutput> {
    let within = |from: i32, length: u32, at: i32| (from..from.saturating_add_unsigned(length)).contains(&at);
    let holds = |output: &&DisplayOutput| {
        within(output.x, output.size.width, x) && within(output.y, output.size.height, y)
    };
    outputs.iter().find(holds).or(outputs.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(name: &str, x: i32, primary: bool) -> DisplayOutput {
        let size = Size { width: 1920, height: 1080 };
        DisplayOutput { name: name.into(), x, y: 0, size, primary, number: 0 }
    }

    #[test]
    fn an_output_is_named_or_dealt_out() {
        let outputs = [output("DP-1", 0, false), output("DP-2", 1920, true)];
        let name = |name, place| chosen(&outputs, name, place).map(|output| output.name);
        assert_eq!(name(None, (0, 1)).expect("the primary one"), "DP-2");
        assert_eq!(name(None, (0, 2)).expect("the first"), "DP-1");
        assert_eq!(name(Some("DP-1"), (1, 2)).expect("the named one"), "DP-1");
        let message = name(Some("HDMI-1"), (0, 1)).expect_err("none").to_string();
        assert!(message.contains("DP-1, DP-2"), "{message}");
        assert!(name(None, (2, 3)).expect_err("none").to_string().contains("3 screens"));
        assert_eq!(output_at(&outputs, 2000, 5).map(|output| output.name.as_str()), Some("DP-2"));
    }
}
