//! What the pages that linerate serves (the wall's control page, the watch) have in common: where they listen, who is let
//! in, how many at once, their shared files, and the headers of every answer.
//!
//! It knows neither a wall nor a watched machine: a page brings its own files and its own secret.

#![forbid(unsafe_code)]

mod files;
mod guard;
mod page_listener;

pub use files::{File, HTML, PICTURE, SCRIPT, STYLE, answer, find, protect, sentence};
pub use guard::{ForeignRequest, Guard};
pub use page_listener::{PageClient, PageListener, bind, page_url};

/// A script that every page loads: writes numbers for people, and makes elements without markup.
pub const NUMBERS: File = ("/numbers.js", SCRIPT, include_str!("numbers.js"));
/// The style that every page loads: colours and plain elements.
pub const BASE: File = ("/base.css", STYLE, include_str!("base.css"));
