//! A part of a file, asked for also while the one before it is on its way, and held to what was asked for.

use super::error::GetError;
use super::remote::{RemoteFile, refuse_answer};
use crate::client::ask::{ask_again, length};
use crate::client::{ClientSettings, HttpConnection};
use crate::http::ranges::{ByteRange, parse_content_range};

/// The next part is asked for when so much of this one is still to come: more than a socket's buffers hold.
pub(super) const AHEAD_BYTES: u64 = 16 << 20;

/// The header lines of its request; a server without parts sends all of the file.
pub(super) fn range_lines(file: &RemoteFile, part: ByteRange) -> String {
    match file.has_ranges {
        true => {
            format!("Range: bytes={}-{}\r\n{}", part.first, part.last, file.condition().unwrap_or_default())
        }
        false => String::new(),
    }
}

/// Asks for a part, or takes the answer to the request that is on its way. After this its bytes come.
pub(super) fn begin_part<'a>(
    connection: &mut Option<HttpConnection<'a>>,
    settings: &'a ClientSettings<'a>,
    file: &RemoteFile,
    part: ByteRange,
    lines: &str,
    is_asked: bool,
) -> Result<(), GetError> {
    let url = &file.url;
    let asked = connection.as_mut().filter(|_| is_asked).map(|open| open.answer(url));
    let head = match asked {
        // A server may close a connection that it kept, also between two answers.
        None | Some(Err(GetError::Broken { .. })) => ask_again(connection, settings, "GET", url, lines)?,
        Some(answered) => answered?,
    };
    refuse_answer(connection, settings, &head, url)?;
    let bytes = part.last - part.first + 1;
    let own_length = length(&head, url)?;
    if let Some(open) = connection.as_mut().filter(|_| own_length != bytes) {
        open.spend();
    }
    let now = RemoteFile::new(url, &head, file.bytes);
    // Not every server repeats them with a part.
    let is_other = |now: &Option<String>, then: &Option<String>| now.is_some() && now != then;
    let is_changed = is_other(&now.entity_tag, &file.entity_tag)
        || is_other(&now.last_modified, &file.last_modified)
        || file.has_ranges && head.status == 200;
    if is_changed {
        return Err(GetError::Changed { url: url.to_string() });
    }
    let is_part = match head.headers.text("content-range").and_then(parse_content_range) {
        Some((range, whole)) => range == part && whole.is_none_or(|whole| whole == file.bytes),
        None => !file.has_ranges && head.status == 200,
    };
    if !is_part || own_length != bytes {
        return Err(GetError::OtherPart { url: url.to_string() });
    }
    Ok(())
}
