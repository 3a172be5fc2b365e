//! The window of a screen, as its arguments say.

use crate::cli::arguments::wall::{ShowArgs, WindowArg, WindowArgs};
use linerate_facts::failure::Failure;
use linerate_wall::show::{ScreenSpec, ScreenWindow, ScreenWindowSpec, WindowPlacement};

/// What shows nothing, and so needs no display.
const WITHOUT: &str = "--window none, --verify or --write FILE";

/// The words ask for windows, or for nothing else.
pub(super) fn is_wanted(args: &ShowArgs) -> bool {
    match args.window.window {
        Some(wanted) => wanted != WindowArg::None,
        None => !args.window.full_screen.is_empty() || !args.verify && args.write.is_empty(),
    }
}

/// Names of outputs: as many as screens, or a single word without one.
pub(super) fn check(args: &WindowArgs, screens: usize) -> Result<(), Failure> {
    match args.full_screen.as_slice() {
        [only] if only.is_empty() => Ok(()),
        [] => Ok(()),
        names if names.len() == screens => Ok(()),
        names => Err(Failure::Usage(format!(
            "--full-screen is given {} times for {screens} screens: give it once for each --listen, in the \
             same order, or once without a name",
            names.len()
        ))),
    }
}

/// Opens the window of one screen.
pub(super) fn open(
    args: &WindowArgs,
    spec: &ScreenSpec,
    (index, screens): (usize, usize),
) -> Result<ScreenWindow, Failure> {
    let output = args.full_screen.get(index).filter(|name| !name.is_empty()).cloned();
    let place = match args.full_screen.is_empty() {
        true => WindowPlacement::Desktop { size: args.window.and_then(WindowArg::size) },
        false => WindowPlacement::FullScreen { output },
    };
    let name = spec.tile.map_or_else(|| spec.listen.to_string(), |tile| tile.to_string());
    ScreenWindow::open(ScreenWindowSpec { place, name, frame: spec.size, index, screens, without: WITHOUT })
}
