//! What a file server and its client read from each other.

use linerate::cli::written_again;
use linerate::deliver::blocks::{BlockList, BlockRequest, MOST_SUMMED_BYTES};
use linerate::deliver::file_bytes::HeldBytes;
use linerate::deliver::get::journal::JournalContent;
use linerate::deliver::http::chunks::ChunkedBody;
use linerate::deliver::http::conditions::{
    Validators, parse_date, precondition, range_applies, show_date, wanted_digest,
};
use linerate::deliver::http::head::{MOST_HEAD_BYTES, parse_request, parse_response};
use linerate::deliver::http::ranges::{SelectedRange, parse_content_range, selected};
use linerate::deliver::http::url::{HttpUrl, segments};
use linerate::deliver::index_page::parse_index;
use linerate::deliver::listing::Listing;
use linerate::deliver::s3::answers::{
    parse_completed, parse_fault, parse_list, parse_parts, parse_upload, parse_uploads,
};
use linerate::deliver::s3::{S3Location, file_below};
use std::os::unix::ffi::OsStrExt;
use std::path::Component;

/// A request's head, its path and its conditions: bounded, and no name leads elsewhere.
pub fn http_request(bytes: &[u8]) {
    let Ok(Some((head, length))) = parse_request(bytes) else { return };
    assert!(length <= bytes.len().min(MOST_HEAD_BYTES), "the head lies within the input");
    let _ = (head.keeps_alive(), head.has_body());
    if let Ok((names, _)) = segments(&head.target) {
        for name in names {
            let plain = !name.contains(&b'/') && !name.contains(&0) && name != b".." && name != b".";
            assert!(plain && !name.is_empty(), "a name leads nowhere else: {name:?}");
        }
    }
    let query = head.target.split_once('?').map_or("", |(_, query)| query);
    for file_bytes in [0, 1, 1 << 30, u64::MAX] {
        if let Some(asked) = BlockRequest::parse(query, file_bytes) {
            let is_bounded = asked.count <= 1 || asked.count * asked.block_bytes <= MOST_SUMMED_BYTES;
            assert!(is_bounded, "{asked:?} is bounded");
        }
    }
    let file = Validators { entity_tag: "\"a\"".into(), modified: 784_111_777 };
    let _ = precondition(&head.headers, &file);
    let _ = wanted_digest(&head.headers);
    let _ = range_applies(head.headers.text("if-range"), &file, 784_111_999);
    let shown = head.headers.text("if-modified-since").and_then(parse_date);
    assert!(shown.is_none_or(|time| parse_date(&show_date(time)) == Some(time)), "times go there and back");
}

/// A response's head, where it sends on to, and what its body may be.
pub fn http_response(bytes: &[u8]) {
    let asked = BlockRequest { block_bytes: 1 << 20, first: 0, count: 1 };
    let _ = BlockList::parse(bytes, asked);
    if let Ok(list) = Listing::parse(bytes) {
        for entry in list.entries {
            let name = entry.file_name().expect("a list has names alone");
            assert!(!name.contains(&b'/') && name != b"..", "a name leads nowhere else: {name:?}");
            let target = entry.archived.and_then(|archived| archived.link_target()).unwrap_or_default();
            assert!(!target.as_bytes().contains(&0) && target.len() < 4096, "a link can hold it: {target:?}");
        }
    }
    let _ = JournalContent::parse(bytes);
    let held = HeldBytes::parse(bytes);
    assert!(held.is_none_or(|held| held.tail_sum.len() == 16), "a sum has its digits");
    let Ok(Some((head, length))) = parse_response(bytes) else { return };
    assert!(length <= bytes.len().min(MOST_HEAD_BYTES), "the head lies within the input");
    let _ = (head.keeps_alive(), head.headers.content_length());
    let from: HttpUrl = "http://h/a/b".parse().expect("a URL");
    if let Some(next) = head.headers.text("location").and_then(|location| from.joined(location).ok()) {
        assert!(next.target.bytes().all(|byte| byte.is_ascii_graphic()), "no line is added: {next}");
    }
    let range = head.headers.text("content-range").and_then(parse_content_range);
    assert!(range.is_none_or(|(range, _)| range.length() > 0), "a part is never empty");
}

/// What the two halves of a copy send each other: what one understands, it can write so that it is understood.
pub fn copy_half(bytes: &[u8]) {
    let Some(again) = written_again(bytes) else { return };
    assert!(written_again(&again).is_some(), "understood again: {}", String::from_utf8_lossy(&again));
    let is_greeting = again.starts_with(b"linerate copy-half");
    assert!(is_greeting || !again.contains(&b'\n'), "a message is a line");
}

/// A range of files of several lengths, and the same text as a part that a server names.
pub fn http_range(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for length in [0, 1, 10_000, 1 << 63, u64::MAX] {
        if let SelectedRange::Part(range) = selected(&text, length) {
            assert!(range.first <= range.last && range.last < length, "{range:?} lies within {length}");
        }
    }
    if let Some((range, whole)) = parse_content_range(&text) {
        assert!(range.first <= range.last && whole.is_none_or(|whole| range.last < whole), "{range:?}");
    }
}

/// A page by which another server shows a folder: no name of it leads out of that.
pub fn index_page(bytes: &[u8]) {
    for entry in parse_index(bytes, "/f/").unwrap_or_default() {
        assert!(!entry.shown.chars().any(char::is_control), "no line is added: {entry:?}");
        let Ok(name) = entry.name else { continue };
        assert!(
            !name.contains(&b'/') && !name.contains(&0) && name != b".." && name != b".",
            "it stays: {name:?}"
        );
    }
}

/// What an object store answers: XML, also in chunks, and keys that lead nowhere else as names.
pub fn s3_answer(bytes: &[u8]) {
    let (mut chunks, mut body, mut rest) = (ChunkedBody::begin(), Vec::new(), bytes);
    while !chunks.is_over() && !rest.is_empty() {
        let (taken, behind) = rest.split_at(chunks.wants(rest.len()));
        assert!(!taken.is_empty(), "chunks that are not over want more");
        if chunks.take(taken, &mut body).is_err() {
            break;
        }
        rest = behind;
    }
    assert!(body.len() <= bytes.len(), "chunks have no more than came");
    for text in [bytes, &body] {
        let _ = (parse_completed(text), parse_fault(text));
        if let Ok(id) = parse_upload(text) {
            assert!(!id.chars().any(char::is_control), "no line is added: {id:?}");
        }
        let plain = |text: &str| !text.chars().any(char::is_control);
        for upload in parse_uploads(text).unwrap_or_default() {
            assert!(plain(&upload.id), "no line is added: {upload:?}");
        }
        let parts = parse_parts(text).map(|page| page.parts).unwrap_or_default();
        for (number, part) in parts {
            assert!((1..=10_000).contains(&number) && plain(&part.tag), "it can be sent back: {part:?}");
        }
        for object in parse_list(text).map(|page| page.objects).unwrap_or_default() {
            if let Ok((path, _)) = file_below(&object.key) {
                assert!(
                    path.components().all(|part| matches!(part, Component::Normal(_))),
                    "it stays: {path:?}"
                );
            }
        }
    }
    let _ = String::from_utf8_lossy(bytes).parse::<S3Location>();
}
