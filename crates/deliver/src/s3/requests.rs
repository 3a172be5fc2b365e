//! What a store is asked besides the bytes of objects: heads, and answers in XML.

use super::answers::{AnswerError, MOST_ANSWER_BYTES, parse_fault};
use super::error::S3Error;
use super::location::S3Location;
use super::store::S3Store;
use crate::get::client::{ClientSettings, HttpConnection};
use crate::get::error::GetError;
use crate::get::remote::{RemoteFile, ask_again, connected, length};
use crate::http::chunked::ChunkedBody;
use crate::http::head::ResponseHead;
use crate::http::url::HttpUrl;

const READ_BYTES: usize = 16 << 10;

/// What is known of an object.
pub(crate) fn probe<'a>(
    connection: &mut Option<HttpConnection<'a>>,
    settings: &'a ClientSettings<'a>,
    store: &S3Store,
    url: &HttpUrl,
) -> Result<RemoteFile, GetError> {
    let head = ask_again(connection, settings, "HEAD", url, "")?;
    if head.status == 200 {
        let bytes = length(&head, url)?;
        return Ok(RemoteFile::object(url, &head, bytes));
    }
    // Without a body it does not say why: the object itself is asked for.
    let asked = ask_again(connection, settings, "GET", url, "Range: bytes=0-0\r\n")?;
    let (Some(open), 300..) = (connection.as_mut(), asked.status) else {
        *connection = None;
        return Err(S3Error::of(store, store.place(url), &head, Default::default()));
    };
    Err(refusal(open, store, store.place(url), &asked, url))
}

/// Why a store refused, by the body that follows the head.
pub(crate) fn refusal(
    connection: &mut HttpConnection<'_>,
    store: &S3Store,
    place: S3Location,
    head: &ResponseHead,
    url: &HttpUrl,
) -> GetError {
    match read_body(connection, head, url) {
        Ok(body) => S3Error::of(store, place, head, parse_fault(&body).unwrap_or_default()),
        Err(GetError::Interrupted) => GetError::Interrupted,
        // The status says enough.
        Err(_) => {
            connection.spend();
            S3Error::of(store, place, head, Default::default())
        }
    }
}

/// Asks for an answer in XML, or refuses what is no success.
pub(crate) fn ask_text<'a>(
    connection: &mut Option<HttpConnection<'a>>,
    settings: &'a ClientSettings<'a>,
    (store, place): (&S3Store, &S3Location),
    (method, url, lines): (&str, &HttpUrl, &str),
    body: &[u8],
) -> Result<Vec<u8>, GetError> {
    let head = match method {
        "GET" => ask_again(connection, settings, method, url, lines)?,
        _ => {
            let open = connected(connection, settings, url)?;
            open.send(&[(method, url, lines)])?;
            open.write(body, url)?;
            open.answer(url)?
        }
    };
    let Some(open) = connection.as_mut() else { return Err(GetError::Interrupted) };
    match head.status {
        200 | 204 => read_body(open, &head, url),
        _ => Err(refusal(open, store, place.clone(), &head, url)),
    }
}

/// A body that is no file: of a length that is said, in chunks, or until the end of the connection.
pub(crate) fn read_body(
    connection: &mut HttpConnection<'_>,
    head: &ResponseHead,
    url: &HttpUrl,
) -> Result<Vec<u8>, GetError> {
    let no_http = |why| GetError::NoHttp { url: url.to_string(), why };
    if matches!(head.status, 204 | 304) {
        return Ok(Vec::new());
    }
    if head.headers.has_word("transfer-encoding", "chunked") {
        return read_chunks(connection, url);
    }
    match head.headers.content_length().map_err(no_http)? {
        Some(bytes) if bytes <= MOST_ANSWER_BYTES => connection.read_text(Some(bytes), url),
        Some(_) => Err(too_long(url)),
        None => {
            connection.spend();
            let (mut body, mut chunk) = (Vec::new(), vec![0; READ_BYTES]);
            loop {
                match connection.read(&mut chunk, url)? {
                    0 => return Ok(body),
                    read => body.extend_from_slice(&chunk[..read]),
                }
                if body.len() as u64 > MOST_ANSWER_BYTES {
                    return Err(too_long(url));
                }
            }
        }
    }
}

fn read_chunks(connection: &mut HttpConnection<'_>, url: &HttpUrl) -> Result<Vec<u8>, GetError> {
    let (mut chunks, mut body, mut buffer) = (ChunkedBody::begin(), Vec::new(), vec![0; READ_BYTES]);
    while !chunks.is_over() {
        let wanted = chunks.wants(READ_BYTES);
        let read = connection.read(&mut buffer[..wanted], url)?;
        if read == 0 {
            return Err(GetError::CutShort { url: url.to_string(), missing: 1 });
        }
        let taken = chunks.take(&buffer[..read], &mut body);
        if taken.is_err() || body.len() as u64 > MOST_ANSWER_BYTES {
            connection.spend();
            return Err(if taken.is_err() {
                GetError::NoLength { url: url.to_string() }
            } else {
                too_long(url)
            });
        }
    }
    Ok(body)
}

fn too_long(url: &HttpUrl) -> GetError {
    let place = S3Location { bucket: url.authority(), key: url.path().into() };
    S3Error::Answer { place, why: AnswerError::TooLong }.into()
}
