//! Asks a server over a connection that may have closed meanwhile, and reads what is not a file of its answers.

use super::error::{MOST_ANSWER_BYTES, TransferError};
use super::{ClientSettings, HttpConnection};
use crate::http::chunks::ChunkedBody;
use crate::http::head::ResponseHead;
use crate::http::url::HttpUrl;
use crate::patience::busy_wait;
use linerate_facts::printable::foreign;
use linerate_system::clock;

const READ_BYTES: usize = 16 << 10;

/// Opens a connection where this one does not serve.
pub(crate) fn connected<'c, 'a>(
    connection: &'c mut Option<HttpConnection<'a>>,
    settings: &'a ClientSettings<'a>,
    url: &HttpUrl,
) -> Result<&'c mut HttpConnection<'a>, TransferError> {
    if !connection.as_ref().is_some_and(|open| open.serves(url)) {
        *connection = None;
    }
    match connection {
        Some(open) => Ok(open),
        None => Ok(connection.insert(HttpConnection::open(settings, url)?)),
    }
}

/// A server may close a connection that it kept at any time: then a new one is asked.
pub(crate) fn ask_again<'a>(
    connection: &mut Option<HttpConnection<'a>>,
    settings: &'a ClientSettings<'a>,
    method: &str,
    url: &HttpUrl,
    lines: &str,
) -> Result<ResponseHead, TransferError> {
    let was_open = connection.as_ref().is_some_and(|open| open.serves(url));
    match connected(connection, settings, url)?.ask(method, url, lines) {
        Err(TransferError::Broken { .. }) if was_open => {
            *connection = None;
            connected(connection, settings, url)?.ask(method, url, lines)
        }
        answered => answered,
    }
}

/// As [`ask_again`]. `linerate serve` that is busy, and keeps the connection, is asked again after the time that it names:
/// it has other clients, too.
pub(crate) fn ask_when_free<'a>(
    connection: &mut Option<HttpConnection<'a>>,
    settings: &'a ClientSettings<'a>,
    method: &str,
    url: &HttpUrl,
    lines: &str,
) -> Result<ResponseHead, TransferError> {
    let begun = clock::now();
    loop {
        let head = ask_again(connection, settings, method, url, lines)?;
        let is_open = is_busy(&head) && head.keeps_alive();
        let Some(open) = connection.as_mut().filter(|_| is_open) else { return Ok(head) };
        let Some(retry_after) = head.retry_after() else { return Ok(head) };
        let Some(wait) = busy_wait(begun, retry_after) else {
            return Err(TransferError::AlwaysBusy { url: url.to_string() });
        };
        if method != "HEAD" {
            open.read_text(Some(length(&head, url)?), url)?;
        }
        tracing::debug!(%url, ?wait, "the server is busy and is asked again");
        settings.stop.wait(wait);
        settings.check_stop()?;
    }
}

/// `linerate serve` cannot answer just now.
pub(crate) fn is_busy(head: &ResponseHead) -> bool {
    head.status == 503 && head.headers.text("server").is_some_and(|name| name.starts_with("linerate/"))
}

/// Statuses that bring no file.
pub(crate) fn refuse(head: &ResponseHead, url: &HttpUrl) -> Result<(), TransferError> {
    let (url, status) = (url.to_string(), head.status);
    match status {
        200 | 206 => {}
        404 | 410 => return Err(TransferError::NotFound { url }),
        401 | 403 | 407 => return Err(TransferError::NotAllowed { url, status }),
        503 => return Err(TransferError::Overloaded { url, status, retry_after: None }),
        412 | 416 => return Err(TransferError::Changed { url }),
        421 => return Err(TransferError::OtherName { url }),
        _ => return Err(TransferError::Status { url, status }),
    }
    match head.headers.text("content-encoding") {
        Some(encoding) if !encoding.eq_ignore_ascii_case("identity") => {
            Err(TransferError::Packed { url, encoding: foreign(encoding) })
        }
        _ => Ok(()),
    }
}

/// What the body of an answer has.
pub(crate) fn length(head: &ResponseHead, url: &HttpUrl) -> Result<u64, TransferError> {
    let no_http = |why| TransferError::NoHttp { url: url.to_string(), why };
    let chunked = head.headers.all("transfer-encoding").next().is_some();
    let length = head.headers.content_length().map_err(no_http)?.filter(|_| !chunked);
    length.ok_or_else(|| TransferError::NoLength { url: url.to_string() })
}

/// A body that is not a file: of a length that is said, in chunks, or until the end of the connection.
pub(crate) fn read_body(
    connection: &mut HttpConnection<'_>,
    head: &ResponseHead,
    url: &HttpUrl,
) -> Result<Vec<u8>, TransferError> {
    let no_http = |why| TransferError::NoHttp { url: url.to_string(), why };
    if matches!(head.status, 204 | 304) {
        return Ok(Vec::new());
    }
    if head.headers.has_word("transfer-encoding", "chunked") {
        return read_chunks(connection, url);
    }
    match head.headers.content_length().map_err(no_http)? {
        Some(bytes) if bytes <= MOST_ANSWER_BYTES => connection.read_text(Some(bytes), url),
        Some(_) => Err(TransferError::LongAnswer { url: url.to_string() }),
        None => {
            connection.spend();
            let (mut body, mut chunk) = (Vec::new(), vec![0; READ_BYTES]);
            loop {
                match connection.read(&mut chunk, url)? {
                    0 => return Ok(body),
                    read => body.extend_from_slice(&chunk[..read]),
                }
                if body.len() as u64 > MOST_ANSWER_BYTES {
                    return Err(TransferError::LongAnswer { url: url.to_string() });
                }
            }
        }
    }
}

fn read_chunks(connection: &mut HttpConnection<'_>, url: &HttpUrl) -> Result<Vec<u8>, TransferError> {
    let (mut chunks, mut body, mut buffer) = (ChunkedBody::begin(), Vec::new(), vec![0; READ_BYTES]);
    while !chunks.is_over() {
        let wanted = chunks.wants(READ_BYTES);
        let read = connection.read(&mut buffer[..wanted], url)?;
        if read == 0 {
            // How much is missing no chunk says.
            return Err(TransferError::broken(url, std::io::ErrorKind::UnexpectedEof.into()));
        }
        let error = match chunks.take(&buffer[..read], &mut body) {
            Err(_) => TransferError::NoLength { url: url.to_string() },
            Ok(()) if body.len() as u64 <= MOST_ANSWER_BYTES => continue,
            Ok(()) => TransferError::LongAnswer { url: url.to_string() },
        };
        connection.spend();
        return Err(error);
    }
    Ok(body)
}
