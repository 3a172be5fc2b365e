//! Keys of a window: q and Escape end it, f is full screen or not.

use super::display::{Display, DisplayLost};
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{ConnectionExt, KeyButMask};

/// Numbers of keys' symbols (keysymdef.h).
const ESCAPE: u32 = 0xff1b;
const END: [u32; 3] = [ESCAPE, b'q' as u32, b'Q' as u32];
const FULL_SCREEN: [u32; 2] = [b'f' as u32, b'F' as u32];

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
            if any(&END) { Some(WindowKey::End) } else { any(&FULL_SCREEN).then_some(WindowKey::FullScreen) }
        };
        let keys = (first..=u8::MAX).zip(mapping.keysyms.chunks(per_key));
        Ok(Keys { wishes: keys.filter_map(|(key, symbols)| Some((key, wish(symbols)?))).collect() })
    }

    /// What pressing this key asks for; with Control or Alt it is somebody else's.
    pub(crate) fn wish(&self, key: u8, modifiers: KeyButMask) -> Option<WindowKey> {
        let others = KeyButMask::CONTROL | KeyButMask::MOD1 | KeyButMask::MOD4;
        if u16::from(modifiers) & u16::from(others) != 0 {
            return None;
        }
        self.wishes.iter().find(|(of, _)| *of == key).map(|(_, wish)| *wish)
    }
}
