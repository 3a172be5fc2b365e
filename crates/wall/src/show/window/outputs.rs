//! The outputs of a display: what is full screen covers one of them.
//!
//! These are RandR's monitors: each output that shows something, an output of two halves as one, and whatever
//! else somebody has declared to be one (`xrandr --setmonitor`), so that a large display can be cut into
//! several screens of a wall.

use super::display::{Display, DisplayLost};
use crate::geometry::Size;
use linerate_facts::failure::Failure;
use x11rb::protocol::randr::{self, ConnectionExt as _};
use x11rb::protocol::xproto::ConnectionExt as _;

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
    all(&display)
        .map_err(|DisplayLost(why)| Failure::Lacks(format!("the outputs of {}: {why}", display.name)))
}

/// The outputs of a display, row by row; the whole of it where it cannot tell (RandR before 1.5).
pub(crate) fn all(display: &Display) -> Result<Vec<DisplayOutput>, DisplayLost> {
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
pub(crate) fn at(outputs: &[DisplayOutput], x: i32, y: i32) -> Option<&DisplayOutput> {
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
        assert_eq!(at(&outputs, 2000, 5).map(|output| output.name.as_str()), Some("DP-2"));
    }
}
