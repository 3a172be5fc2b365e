//! What a server has behind a URL: a file, or a folder and its names. A part of a file is asked for also while
//! the one before it is on its way, and held to what was asked for.

use crate::archived::Archived;
use crate::client::ask::{ask_when_free, length, read_body, refuse};
use crate::client::{ClientSettings, HttpConnection, TransferError};
use crate::evidence::rate_limit_of;
use crate::http::conditions::parse_date;
use crate::http::head::ResponseHead;
use crate::http::ranges::{ByteRange, parse_content_range};
use crate::http::url::{HttpUrl, encoded};
use crate::index_page::{IndexEntry, NoIndex, parse_index};
use crate::listing::{ListedEntry, ListedKind, Listing, ListingError, MOST_LIST_BYTES};
use crate::s3::{ObjectSum, TagMd5};
use linerate_facts::printable::foreign;
use std::net::SocketAddr;

/// Redirections that are followed.
const MOST_REDIRECTIONS: u32 = 10;
/// The next part is asked for when so much of this one is still to come: more than a socket's buffers hold.
pub(super) const AHEAD_BYTES: u64 = 16 << 20;

/// What is behind a URL.
#[derive(Clone, Debug)]
pub(super) enum Remote {
    File(RemoteFile),
    Folder(RemoteFolder),
}

/// A folder of a server, by its last URL.
#[derive(Clone, Debug)]
pub(super) struct RemoteFolder {
    pub(super) url: HttpUrl,
    /// Of `linerate serve`, which has a list of it; else there may be a page.
    pub(super) has_list: bool,
}

/// One name in such a folder.
pub(super) struct RemoteEntry {
    pub(super) url: HttpUrl,
    /// Of the file here.
    pub(super) name: Result<Vec<u8>, ListingError>,
    pub(super) kind: ListedKind,
    /// The name is a link to it.
    pub(super) link: bool,
    /// None: the server is asked when its turn comes.
    pub(super) bytes: Option<u64>,
    pub(super) modified: Option<u64>,
    /// Of a list for a copy that keeps it.
    pub(super) archived: Option<Archived>,
}

/// A file of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteFile {
    /// After all redirections.
    pub(super) url: HttpUrl,
    pub(crate) bytes: u64,
    pub(super) entity_tag: Option<String>,
    pub(super) last_modified: Option<String>,
    /// The server sends parts of it.
    pub(super) has_ranges: bool,
    /// The server has sums of its blocks.
    pub(super) has_sums: bool,
    /// It is an object of a store: its parts are asked for with `If-Match`.
    pub(super) is_object: bool,
    /// What a store says that its content sums up to.
    pub(super) sum: Option<ObjectSum>,
    /// The MD5 that a store has of it, where it has no such sum.
    pub(super) md5: Option<TagMd5>,
    /// It keeps its connections, by HTTP/1.1: it can be asked for the next part while this one comes.
    pub(super) keeps_open: bool,
    /// What the server sends at most, bytes per second for all its clients.
    pub(super) rate_limit: Option<u64>,
    /// The one of its server that said so.
    pub(super) address: Option<SocketAddr>,
    /// Its zeros are holes here.
    pub(super) has_holes: bool,
}

impl RemoteFile {
    /// Of an answer's head; `bytes` is the length of the whole.
    pub(super) fn new(url: &HttpUrl, head: &ResponseHead, bytes: u64) -> Self {
        let text = |name| head.headers.text(name).filter(|text| !text.is_empty()).map(String::from);
        RemoteFile {
            url: url.clone(),
            bytes,
            entity_tag: text("etag"),
            last_modified: text("last-modified"),
            has_ranges: head.headers.has_word("accept-ranges", "bytes"),
            has_sums: head.headers.has_word("linerate", "blocks"),
            is_object: false,
            sum: ObjectSum::of_lines(&head.headers),
            md5: None,
            keeps_open: head.is_1_1 && head.keeps_alive(),
            rate_limit: rate_limit_of(&head.headers),
            address: None,
            has_holes: false,
        }
    }

    /// Of an object store's answer: all of them send parts, whatever they say.
    pub(crate) fn object(url: &HttpUrl, head: &ResponseHead, bytes: u64) -> Self {
        let file = RemoteFile::new(url, head, bytes);
        let md5 = TagMd5::of_lines(&head.headers).filter(|_| file.sum.is_none());
        RemoteFile { has_ranges: true, is_object: true, md5, ..file }
    }

    /// Both answers are of one content, as far as they say.
    pub(super) fn is_same(&self, other: &RemoteFile) -> bool {
        self.bytes == other.bytes
            && self.entity_tag == other.entity_tag
            && self.last_modified == other.last_modified
    }

    /// The line that holds a part to this content; none where the server has neither tag nor time. A store knows
    /// `If-Match` for certain, a server answers a part with the whole where it has no conditions.
    fn condition(&self) -> Option<String> {
        let name = if self.is_object { "If-Match" } else { "If-Range" };
        self.if_range().map(|tag| format!("{name}: {tag}\r\n"))
    }

    /// A strong tag, else the time. None: the server has neither.
    pub(super) fn if_range(&self) -> Option<&str> {
        let strong = self.entity_tag.as_deref().filter(|tag| !tag.starts_with("W/"));
        strong.or(self.last_modified.as_deref())
    }

    /// Seconds since 1970.
    pub(crate) fn modified(&self) -> Option<u64> {
        self.last_modified.as_deref().and_then(parse_date)
    }
}

/// Asks what is there, along all redirections.
pub(super) fn probe<'a>(
    connection: &mut Option<HttpConnection<'a>>,
    settings: &'a ClientSettings<'a>,
    first: &HttpUrl,
) -> Result<Remote, TransferError> {
    if let Some(store) = settings.store_of(first) {
        return crate::s3::requests::probe(connection, settings, store, first).map(Remote::File);
    }
    let mut url = first.clone();
    for _ in 0..=MOST_REDIRECTIONS {
        let head = ask_when_free(connection, settings, "HEAD", &url, "")?;
        if let Some(next) = redirection(&head, &url)? {
            url = next;
            continue;
        }
        refuse(&head, &url)?;
        if head.headers.has_word("linerate", "list") {
            return Ok(Remote::Folder(RemoteFolder { url, has_list: true }));
        }
        if url.path().ends_with('/') {
            return Ok(Remote::Folder(RemoteFolder { url, has_list: false }));
        }
        let bytes = length(&head, &url)?;
        let address = connection.as_ref().map(|open| open.address().address);
        return Ok(Remote::File(RemoteFile { address, ..RemoteFile::new(&url, &head, bytes) }));
    }
    Err(TransferError::Redirections { url: first.to_string(), most: MOST_REDIRECTIONS })
}

fn redirection(head: &ResponseHead, url: &HttpUrl) -> Result<Option<HttpUrl>, TransferError> {
    if !matches!(head.status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = head.headers.text("location") else {
        return Err(TransferError::Status { url: url.to_string(), status: head.status });
    };
    let next = url.joined(location).map_err(|why| TransferError::Location {
        url: url.to_string(),
        // What follows the path may be a key.
        location: foreign(location.split('?').next().unwrap_or_default()),
        why,
    })?;
    Ok(Some(next))
}

/// As [`refuse`]; a store says why in the body, and how an object is packed is the object's own matter.
pub(super) fn refuse_answer(
    connection: &mut Option<HttpConnection<'_>>,
    settings: &ClientSettings<'_>,
    head: &ResponseHead,
    url: &HttpUrl,
) -> Result<(), TransferError> {
    match (settings.store_of(url), connection) {
        (Some(_), _) if matches!(head.status, 200 | 206) => Ok(()),
        (Some(store), Some(open)) => {
            Err(crate::s3::requests::refusal(open, store, store.place(url), head, url))
        }
        _ => refuse(head, url),
    }
}

/// A folder's names, and what a copy keeps of the folder itself.
pub(super) fn list<'a>(
    connection: &mut Option<HttpConnection<'a>>,
    settings: &'a ClientSettings<'a>,
    folder: &RemoteFolder,
) -> Result<(Vec<RemoteEntry>, Option<Archived>), TransferError> {
    if !folder.has_list {
        return list_by_page(connection, settings, &folder.url).map(|entries| (entries, None));
    }
    let folder = &folder.url;
    let url = folder.with_target(&format!("{}?linerate=list", folder.path()));
    let head = ask_when_free(connection, settings, "GET", &url, "")?;
    refuse(&head, &url)?;
    let length = length(&head, &url)?;
    if length > MOST_LIST_BYTES {
        return Err(TransferError::Listing { url: folder.to_string(), why: ListingError::TooLarge });
    }
    // The same connection, also where the server will close it after this.
    let Some(open) = connection else { return Err(TransferError::NoLength { url: url.to_string() }) };
    let body = open.read_text(Some(length), &url)?;
    let list =
        Listing::parse(&body).map_err(|why| TransferError::Listing { url: folder.to_string(), why })?;
    let entry = |entry: ListedEntry| RemoteEntry {
        url: folder.with_target(&format!("{}{}", folder.path(), entry.href)),
        name: entry.file_name().map_err(|why| ListingError::Name { name: foreign(&entry.href), why }),
        kind: entry.kind,
        link: entry.link,
        bytes: Some(entry.bytes),
        modified: Some(entry.modified),
        archived: entry.archived,
    };
    Ok((list.entries.into_iter().map(entry).collect(), list.archived))
}

/// The names of the page by which another server shows a folder.
fn list_by_page<'a>(
    connection: &mut Option<HttpConnection<'a>>,
    settings: &'a ClientSettings<'a>,
    folder: &HttpUrl,
) -> Result<Vec<RemoteEntry>, TransferError> {
    let head = ask_when_free(connection, settings, "GET", folder, "")?;
    refuse(&head, folder)?;
    let Some(open) = connection else { return Err(TransferError::NoLength { url: folder.to_string() }) };
    let page = read_body(open, &head, folder)?;
    let entries = parse_index(&page, folder.path()).map_err(|why| match why {
        NoIndex::Unknown => TransferError::Folder { url: folder.to_string() },
        NoIndex::TooMany => TransferError::Listing { url: folder.to_string(), why: ListingError::TooMany },
    })?;
    let entry = |IndexEntry { shown, name, kind }| {
        let slash = if kind == ListedKind::Folder { "/" } else { "" };
        // Encoded by us: what a stranger wrote does not go into a request.
        let segment = name.as_ref().map(|name| encoded(name)).unwrap_or_default();
        RemoteEntry {
            url: folder.with_target(&format!("{}{segment}{slash}", folder.path())),
            name: name.map_err(|why| ListingError::Name { name: shown, why }),
            kind,
            link: false,
            bytes: None,
            modified: None,
            archived: None,
        }
    };
    Ok(entries.into_iter().map(entry).collect())
}

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
) -> Result<(), TransferError> {
    let url = &file.url;
    let asked = connection.as_mut().filter(|_| is_asked).map(|open| open.answer(url));
    let head = match asked {
        // A server may close a connection that it kept, also between two answers.
        None | Some(Err(TransferError::Broken { .. })) => {
            ask_when_free(connection, settings, "GET", url, lines)?
        }
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
        return Err(TransferError::Changed { url: url.to_string() });
    }
    let is_part = match head.headers.text("content-range").and_then(parse_content_range) {
        Some((range, whole)) => range == part && whole.is_none_or(|whole| whole == file.bytes),
        None => !file.has_ranges && head.status == 200,
    };
    if !is_part || own_length != bytes {
        return Err(TransferError::OtherPart { url: url.to_string() });
    }
    Ok(())
}
