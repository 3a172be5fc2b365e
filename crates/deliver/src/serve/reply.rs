//! What is sent before a file, or instead of one: the status line, header lines, small bodies.

use super::lists::ListBody;
use crate::http::conditions::show_date;
use linerate_system::{Errno, clock};
use std::io;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// A response without its file.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// Whole lines.
    lines: String,
    pub(super) body: Vec<u8>,
    /// The body, where other replies have it, too.
    pub(super) list: Option<Arc<ListBody>>,
    /// The connection ends after it.
    pub(super) closes: bool,
}

impl Reply {
    pub(super) fn new(status: u16) -> Self {
        Reply { status, lines: String::new(), body: Vec::new(), list: None, closes: false }
    }

    /// A status of 400 and more, with a sentence.
    pub(super) fn refused(status: u16, why: &str) -> Self {
        Reply::new(status).with_body("text/plain; charset=utf-8", format!("{why}\n").into_bytes())
    }

    /// Not now; a moment later perhaps. The connection serves on.
    pub(super) fn busy(why: &str) -> Self {
        Reply::refused(503, why).line("Retry-After", 1)
    }

    pub(super) fn line(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.lines.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// The same, where there is a value.
    pub(super) fn line_of(self, name: &str, value: Option<impl std::fmt::Display>) -> Self {
        if let Some(value) = value { self.line(name, value) } else { self }
    }

    pub(super) fn with_body(mut self, content_type: &str, body: Vec<u8>) -> Self {
        self.body = body;
        let length = self.body.len();
        self.line("Content-Type", content_type).line("Content-Length", length)
    }

    pub(super) fn with_list(mut self, content_type: &str, list: Arc<ListBody>) -> Self {
        let length = list.bytes.len();
        self.list = Some(list);
        self.line("Content-Type", content_type).line("Content-Length", length)
    }

    /// What follows the request cannot be told apart from its body: nothing more is read.
    pub(super) fn closing(mut self) -> Self {
        self.closes = true;
        self
    }

    /// The head as it is sent.
    pub(super) fn head(&self, keeps_alive: bool) -> Vec<u8> {
        let connection = if keeps_alive && !self.closes { "keep-alive" } else { "close" };
        format!(
            "HTTP/1.1 {} {}\r\nServer: linerate/{}\r\nDate: {}\r\n{}X-Content-Type-Options: nosniff\r\n\
             Connection: {connection}\r\n\r\n",
            self.status,
            reason(self.status),
            env!("CARGO_PKG_VERSION"),
            show_date(now()),
            self.lines
        )
        .into_bytes()
    }
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    clock::date().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        206 => "Partial Content",
        301 => "Moved Permanently",
        304 => "Not Modified",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        507 => "Insufficient Storage",
        505 => "HTTP Version Not Supported",
        _ => "Internal Server Error",
    }
}

/// There is none of that name.
pub(super) fn not_found() -> Reply {
    Reply::refused(404, "There is no such file.")
}

/// What leads out of the tree is not there.
pub(super) fn of_error(error: &io::Error) -> Reply {
    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::CrossesDevices => not_found(),
        io::ErrorKind::PermissionDenied => Reply::refused(403, "The server may not read it."),
        io::ErrorKind::InvalidInput => Reply::refused(403, "Only regular files and folders are served."),
        _ if is(Errno::LOOP) || is(Errno::NAMETOOLONG) => not_found(),
        _ if is(Errno::MFILE) || is(Errno::NFILE) || is(Errno::NOMEM) => {
            Reply::busy("The server has no descriptors or no memory left.")
        }
        _ => Reply::refused(500, "The file cannot be read."),
    }
}
