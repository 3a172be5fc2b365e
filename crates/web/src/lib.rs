//! What all pages of our own have in common: who is let in and served, how many at once, and the headers of
//! every answer.
//!
//! It knows neither a wall nor a watched machine; a page brings its own files and its own secret.

#![forbid(unsafe_code)]

mod files;
mod guard;
mod listen;
mod page_listener;

pub use files::{File, HTML, PICTURE, SCRIPT, STYLE, answer, find, protect, sentence};
pub use guard::{ForeignRequest, Guard};
pub use listen::{bind, page_url};
pub use page_listener::{PageClient, PageListener};

/// Numbers for people, and elements without markup; of every page.
pub const NUMBERS: File = ("/numbers.js", SCRIPT, include_str!("numbers.js"));
/// Colours and plain elements; of every page.
pub const BASE: File = ("/base.css", STYLE, include_str!("base.css"));
