//! The files of the page, in the program itself. uPlot (<https://github.com/leeoniya/uPlot>, 1.6.32, MIT) is
//! as its author built it.

use linerate_web::{BASE, File, HTML, NUMBERS, PICTURE, SCRIPT, STYLE};

const PLAIN: &str = "text/plain; charset=utf-8";

/// All of them.
pub(crate) const FILES: [File; 19] = [
    ("/", HTML, include_str!("page.html")),
    BASE,
    NUMBERS,
    ("/page.css", STYLE, include_str!("page.css")),
    ("/icon.svg", PICTURE, include_str!("icon.svg")),
    ("/page.js", SCRIPT, include_str!("page.js")),
    ("/link.js", SCRIPT, include_str!("link.js")),
    ("/past.js", SCRIPT, include_str!("past.js")),
    ("/chart.js", SCRIPT, include_str!("chart.js")),
    ("/tables.js", SCRIPT, include_str!("tables.js")),
    ("/nics.js", SCRIPT, include_str!("nics.js")),
    ("/disks.js", SCRIPT, include_str!("disks.js")),
    ("/processes.js", SCRIPT, include_str!("processes.js")),
    ("/cores.js", SCRIPT, include_str!("cores.js")),
    ("/host.js", SCRIPT, include_str!("host.js")),
    ("/login.js", SCRIPT, include_str!("login.js")),
    ("/uPlot.iife.min.js", SCRIPT, include_str!("uplot/uPlot.iife.min.js")),
    ("/uPlot.min.css", STYLE, include_str!("uplot/uPlot.min.css")),
    ("/uPlot.LICENSE", PLAIN, include_str!("uplot/LICENSE")),
];

/// In place of the page, for who has not shown the token.
pub(crate) const LOGIN: [File; 1] = [("/", HTML, include_str!("login.html"))];
