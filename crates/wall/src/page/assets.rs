//! The files of the page, in the program itself.

use linerate_web::{BASE, File, HTML, NUMBERS, PICTURE, SCRIPT, STYLE};

/// All of them.
pub(crate) const FILES: [File; 14] = [
    ("/", HTML, include_str!("page.html")),
    BASE,
    NUMBERS,
    ("/page.css", STYLE, include_str!("page.css")),
    ("/icon.svg", PICTURE, include_str!("icon.svg")),
    ("/page.js", SCRIPT, include_str!("page.js")),
    ("/link.js", SCRIPT, include_str!("link.js")),
    ("/sha256.js", SCRIPT, include_str!("sha256.js")),
    ("/transport.js", SCRIPT, include_str!("transport.js")),
    ("/joystick.js", SCRIPT, include_str!("joystick.js")),
    ("/keys.js", SCRIPT, include_str!("keys.js")),
    ("/wall.js", SCRIPT, include_str!("wall.js")),
    ("/graphs.js", SCRIPT, include_str!("graphs.js")),
    ("/figures.js", SCRIPT, include_str!("figures.js")),
];
