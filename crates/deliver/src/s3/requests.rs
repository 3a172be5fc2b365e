//! What a store is asked besides the bytes of objects: heads, and answers in XML.

use super::answers::parse_fault;
use super::error::S3Error;
use super::location::S3Location;
use super::store::S3Store;
use crate::client::ask::{ask_again, connected, length, read_body};
use crate::client::{ClientSettings, HttpConnection, TransferError};
use crate::get::remote::RemoteFile;
use crate::http::head::ResponseHead;
use crate::http::url::HttpUrl;

/// What is known of an object.
pub(crate) fn probe<'a>(
    connection: &mut Option<HttpConnection<'a>>,
    settings: &'a ClientSettings<'a>,
    store: &S3Store,
    url: &HttpUrl,
) -> Result<RemoteFile, TransferError> {
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
) -> TransferError {
    match read_body(connection, head, url) {
        Ok(body) => S3Error::of(store, place, head, parse_fault(&body).unwrap_or_default()),
        Err(TransferError::Interrupted) => TransferError::Interrupted,
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
) -> Result<Vec<u8>, TransferError> {
    let head = match method {
        "GET" => ask_again(connection, settings, method, url, lines)?,
        _ => {
            let open = connected(connection, settings, url)?;
            open.send(&[(method, url, lines)])?;
            open.write(body, url)?;
            open.answer(url)?
        }
    };
    let open = connection.as_mut().ok_or_else(|| TransferError::closed(url))?;
    match head.status {
        200 | 204 => read_body(open, &head, url),
        _ => Err(refusal(open, store, place.clone(), &head, url)),
    }
}
