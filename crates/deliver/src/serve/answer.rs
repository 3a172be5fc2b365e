//! What a request gets: a reply, and the part of a file that follows it.

use super::Shared;
use super::block_sums::{computed_sums, kept_sums};
use super::lists::ListKey;
use super::reply::{Reply, not_found, now, of_error};
use super::tree::{OpenedFile, ServedKind, content_type};
use super::work::Work;
use crate::blocks::{BlockList, BlockRequest, BlockSum, HASH, SMALL_BYTES, block_bytes_of, show_sum};
use crate::evidence::RATE_LIMIT_LINE;
use crate::file_bytes::{FileBytes, HeldBytes, sum_of};
use crate::http::conditions::{Precondition, precondition, range_applies, show_date, show_digest};
use crate::http::head::RequestHead;
use crate::http::ranges::{ByteRange, SelectedRange, selected};
use crate::http::url::{joined, segments};
use crate::listing::{Listing, MOST_NAMES};
use linerate_transport::admission::Permit;
use std::io;
use std::net::{IpAddr, TcpStream};

/// The part of a file that follows a reply.
pub(super) struct FilePart {
    pub(super) opened: OpenedFile,
    pub(super) names: Vec<Vec<u8>>,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) block_bytes: Option<u64>,
}

/// What a request gets.
pub(super) enum Answer {
    /// The file is there only where its bytes are to be sent.
    Reply(Reply, Option<FilePart>),
    /// Threads of this work are to answer it, of sums with this permit.
    Later(Work, Option<Permit>),
}

/// Who asks.
pub(super) struct Asking<'a, 's> {
    pub(super) shared: &'a Shared<'s>,
    pub(super) socket: &'a TcpStream,
    pub(super) client: IpAddr,
    /// The connection can go to the threads of another work.
    pub(super) moves: bool,
}

/// Answers a request, with the permit that it has got already.
pub(super) fn answer(request: &RequestHead, permit: Option<Permit>, asking: &Asking<'_, '_>) -> Answer {
    match refused(request, asking.shared).map_or_else(|| look_up(request, permit, asking), Err) {
        Ok(answered) => answered,
        Err(reply) => Answer::Reply(reply, None),
    }
}

/// What is refused whatever it asks for.
pub(super) fn refused(request: &RequestHead, shared: &Shared<'_>) -> Option<Reply> {
    let puts = shared.writable && request.method == "PUT";
    if request.has_body() && !puts {
        let why = match shared.writable {
            true => "Only PUT brings something.",
            false => "Nothing is taken: this server is read-only.",
        };
        return Some(Reply::refused(413, why).closing());
    }
    let hosts = request.headers.all("host").count();
    if hosts > 1 || hosts == 0 && request.is_1_1 {
        return Some(Reply::refused(400, "A request of HTTP/1.1 has one Host line."));
    }
    if let Some(reply) = misdirected(request, shared) {
        return Some(reply);
    }
    if request.method != "GET" && request.method != "HEAD" && !puts {
        if shared.writable {
            let reply = Reply::refused(405, "GET, HEAD and PUT are answered.");
            return Some(reply.line("Allow", "GET, HEAD, PUT"));
        }
        let reply = Reply::refused(405, "This server is read-only: GET and HEAD are answered.");
        return Some(reply.line("Allow", "GET, HEAD"));
    }
    let shown = |token: &super::BearerToken| token.is_shown_by(request.headers.text("authorization"));
    if !shared.token.is_none_or(shown) {
        let reply = Reply::refused(401, "This server wants its token: Authorization: Bearer TOKEN.");
        return Some(reply.line("WWW-Authenticate", "Bearer realm=\"linerate\""));
    }
    None
}

/// Where anyone may read, a page of another site must not read through its visitors' browsers: what is asked of a name
/// that somebody else may own is refused. A request of HTTP/1.0 without a host comes from no browser.
fn misdirected(request: &RequestHead, shared: &Shared<'_>) -> Option<Reply> {
    let guard = shared.guard.as_ref()?;
    // What is not text is not a name of ours.
    let named = request.headers.all("host").map(|host| std::str::from_utf8(host).unwrap_or_default());
    let mut hosts = named.chain(absolute_form(&request.target).map(|(host, _)| host));
    let foreign = hosts.find_map(|host| guard.check_host(host).err())?;
    let why = format!("{foreign} A name is added with `linerate serve --name NAME`.");
    Some(Reply::refused(421, &why))
}

fn look_up(request: &RequestHead, permit: Option<Permit>, asking: &Asking<'_, '_>) -> Result<Answer, Reply> {
    let shared = asking.shared;
    let target = origin_form(&request.target);
    let (names, is_folder) =
        segments(target).map_err(|why| Reply::refused(400, &format!("The path: {why}.")))?;
    let query = target.split_once('?').map_or("", |(_, query)| query.split('#').next().unwrap_or_default());
    if shared.writable && !is_folder && asks_for(query, "held") {
        return held_reply(&names, shared).map(|reply| Answer::Reply(reply, None));
    }
    match shared.tree.kind(&names).map_err(|error| of_error(&error))? {
        ServedKind::Folder if !is_folder => {
            // Of the names, not of what was sent: `//other/` would lead to another host.
            let slash = joined(&names) + "/";
            Err(Reply::refused(301, "It is a folder.").line("Location", slash))
        }
        ServedKind::Folder if asking.moves => Ok(Answer::Later(Work::List, None)),
        ServedKind::Folder => folder_reply(&names, query, asking).map(|reply| Answer::Reply(reply, None)),
        ServedKind::File if is_folder => Err(not_found()),
        ServedKind::File => file_answer(request, names, (query, permit), asking),
    }
}

/// `http://host/path` is its path (RFC 9112 section 3.2.2).
pub(super) fn origin_form(target: &str) -> &str {
    absolute_form(target).map_or(target, |(_, path)| path)
}

/// The host and the path of a target that has both.
fn absolute_form(target: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = target.split_once("://")?;
    let is_http = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let path = if rest[end..].starts_with('/') { &rest[end..] } else { "/" };
    is_http.then_some((&rest[..end], path))
}

fn folder_reply(names: &[Vec<u8>], query: &str, asking: &Asking<'_, '_>) -> Result<Reply, Reply> {
    let shared = asking.shared;
    let reply = Reply::new(200)
        .line("Linerate", if shared.writable { "list, put" } else { "list" })
        .line("Cache-Control", "no-cache");
    let failed = |error: io::Error| of_error(&error);
    let read = || shared.tree.list(names, MOST_NAMES).map_err(failed);
    let folder = shared.tree.folder_id(names).map_err(failed)?;
    if asks_for(query, "list") {
        let json = |(found, more)| {
            let mut list = Listing::new(found, more);
            shared.tree.add_archived(names, &mut list).map_err(failed)?;
            serde_json::to_vec(&list).map_err(|why| Reply::refused(500, &why.to_string()))
        };
        let list = shared.lists.get(asking.client, ListKey { folder, page_of: None }, read, json)?;
        return Ok(reply.with_list("application/json", list));
    }
    let path: Vec<String> = names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    let path = format!("/{}", path.join("/"));
    let page = |(found, more)| Ok(Listing::new(found, more).page(&path, names.is_empty()).into_bytes());
    let key = ListKey { folder, page_of: Some(path.clone()) };
    let list = shared.lists.get(asking.client, key, read, page)?;
    Ok(reply.with_list("text/html; charset=utf-8", list))
}

/// What is there of a file that a client did not put to its end.
fn held_reply(names: &[Vec<u8>], shared: &Shared<'_>) -> Result<Reply, Reply> {
    let held = shared.tree.open_unfinished(names).and_then(|part| HeldBytes::of(&part));
    let held = held.map_err(|error| of_error(&error))?;
    let json = serde_json::to_vec(&held).map_err(|error| Reply::refused(500, &error.to_string()))?;
    let reply = Reply::new(200).line("Linerate", "held").line("Cache-Control", "no-cache");
    Ok(reply.with_body("application/json", json))
}

fn asks_for(query: &str, what: &str) -> bool {
    query.split('&').any(|word| word.strip_prefix("linerate=") == Some(what))
}

fn file_answer(
    request: &RequestHead,
    names: Vec<Vec<u8>>,
    (query, permit): (&str, Option<Permit>),
    asking: &Asking<'_, '_>,
) -> Result<Answer, Reply> {
    let shared = asking.shared;
    let opened = shared.tree.open_file(&names, false).and_then(OpenedFile::new);
    let opened = opened.map_err(|error| of_error(&error))?;
    let (length, headers) = (opened.id.bytes, &request.headers);
    let with_validators = |reply: Reply| {
        let modified = show_date(opened.validators.modified);
        reply.line("ETag", &opened.validators.entity_tag).line("Last-Modified", modified)
    };
    match precondition(headers, &opened.validators) {
        Precondition::Holds => {}
        Precondition::NotModified => return Err(with_validators(Reply::new(304))),
        Precondition::Failed => return Err(Reply::refused(412, "The file is not the one that was meant.")),
    }
    if asks_for(query, "blocks") {
        let asked = BlockRequest::parse(query, length);
        let asked = asked.ok_or_else(|| Reply::refused(400, "No such blocks, or too many at once."))?;
        let sums = match (kept_sums(&opened, asked, shared), permit) {
            (Some(kept), _) => kept,
            (None, Some(_permit)) => computed_sums(&opened, &names, asked, (asking.socket, shared))?,
            (None, None) => {
                let permit = shared.sum_reads.permit(asking.client)?;
                if asking.moves {
                    return Ok(Answer::Later(Work::Sum, Some(permit)));
                }
                computed_sums(&opened, &names, asked, (asking.socket, shared))?
            }
        };
        let list = BlockList::new(asked.block_bytes, length, asked.first, &sums);
        let json = serde_json::to_vec(&list).map_err(|error| Reply::refused(500, &error.to_string()))?;
        let reply = with_validators(Reply::new(200)).with_body("application/json", json);
        return Ok(Answer::Reply(reply, None));
    }
    let range = headers.text("range").filter(|_| request.method == "GET");
    let applies = range_applies(headers.text("if-range"), &opened.validators, now());
    let part = match range.filter(|_| applies).map_or(SelectedRange::Whole, |range| selected(range, length)) {
        SelectedRange::Unsatisfiable => {
            let reply = Reply::refused(416, "The file has no such part.");
            return Err(reply.line("Content-Range", format!("bytes */{length}")));
        }
        SelectedRange::Part(part) => Some(part),
        SelectedRange::Whole => None,
    };
    let reply = with_validators(Reply::new(if part.is_some() { 206 } else { 200 }))
        .line("Accept-Ranges", "bytes")
        .line("Content-Type", content_type(names.last().map_or(b"".as_slice(), Vec::as_slice)))
        .line("Linerate", "blocks");
    let rate = shared.rate.as_ref().map(|rate| rate.bytes_per_second().round() as u64);
    let digest = shared.digests.get(opened.id).map(|sha256| show_digest(&sha256));
    let range = part.map(|ByteRange { first, last }| format!("bytes {first}-{last}/{length}"));
    let (offset, bytes) = part.map_or((0, length), |part| (part.first, part.length()));
    let reply = reply.line_of(RATE_LIMIT_LINE, rate).line_of("Repr-Digest", digest);
    let reply = reply.line_of("Content-Range", range).line("Content-Length", bytes);
    let wants_sum = request.method == "GET" && headers.has_word("linerate-sum", HASH);
    let reply = match part {
        None if wants_sum && length <= SMALL_BYTES => {
            // Of the bytes that are sent, also where the file grows; they are in the page cache then.
            let (mut sum, content) = (BlockSum::begin(), FileBytes::copied(&opened.file, 0..length));
            let read = || shared.flow.sent.at_disk(|| sum_of(content, &mut sum, || false));
            shared.flow.sends(read).map_err(|error| of_error(&error))?;
            reply.line("Linerate-Sum", show_sum(sum.end()))
        }
        _ => reply,
    };
    let wanted = headers.text("linerate-block-bytes").and_then(|text| text.parse::<u64>().ok());
    let block_bytes = wanted.filter(|bytes| *bytes == block_bytes_of(length));
    let body = FilePart { opened, names, offset, length: bytes, block_bytes };
    Ok(Answer::Reply(reply, Some(body).filter(|_| request.method == "GET")))
}
