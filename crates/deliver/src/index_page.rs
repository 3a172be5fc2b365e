//! Pages by which other servers show a folder: those of nginx, Apache, Caddy and Python's `http.server`. A page is a
//! stranger's: of its links only those count that name one thing in that very folder.

use super::get::names::refused_name;
use super::http::url::name;
use crate::listing::{ListedKind, MOST_NAMES};
use linerate_facts::printable::foreign;
use std::collections::BTreeSet;

/// What such a page has somewhere: nginx and Apache, Python, Caddy. A page without any may link to anything.
const MARKS: [&str; 3] =
    ["<title>index of ", "<title>directory listing for ", "href=\"https://caddyserver.com\""];
/// The longest name of a character reference, `&quot;`.
const MOST_REFERENCE_BYTES: usize = 10;

/// One name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// As it was written, for people.
    pub shown: String,
    /// Of the file here; or why there is none.
    pub name: Result<Vec<u8>, &'static str>,
    pub kind: ListedKind,
}

/// Why a page is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoIndex {
    /// It is the page of something else.
    Unknown,
    /// It has more names than a list may have.
    TooMany,
}

/// What is in the folder of this path (with a slash at its end), by its page.
pub fn parse_index(page: &[u8], folder: &str) -> Result<Vec<IndexEntry>, NoIndex> {
    let page = String::from_utf8_lossy(page);
    let lower = page.to_ascii_lowercase();
    if !MARKS.iter().any(|mark| lower.contains(mark)) {
        return Err(NoIndex::Unknown);
    }
    let (mut there, mut entries) = (BTreeSet::new(), Vec::new());
    for link in links(&page, &lower) {
        let Some((segment, kind)) = name_below(&link, folder) else { continue };
        // An icon may be a link as well.
        if !there.insert((segment.to_string(), kind == ListedKind::Folder)) {
            continue;
        }
        if entries.len() >= MOST_NAMES {
            return Err(NoIndex::TooMany);
        }
        let name = name(segment).map_err(|_| "it leads elsewhere");
        let name = name.and_then(|name| refused_name(&name).map_or(Ok(name), Err));
        entries.push(IndexEntry { shown: foreign(&link), name, kind });
    }
    Ok(entries)
}

/// The one name below the folder that a link leads to, still encoded; none: it leads elsewhere, as those to the parent,
/// those that sort and those of a footer do.
fn name_below<'a>(link: &'a str, folder: &str) -> Option<(&'a str, ListedKind)> {
    if link.contains(['?', '#']) {
        return None;
    }
    let below = link.strip_prefix("./").or_else(|| link.strip_prefix(folder));
    let is_bare = below.is_none();
    let rest = below.unwrap_or(link);
    let (segment, kind) = match rest.strip_suffix('/') {
        Some(segment) => (segment, ListedKind::Folder),
        None => (rest, ListedKind::File),
    };
    // Before a colon is a scheme, unless something is before it (RFC 3986 section 4.2).
    let leads_elsewhere = segment.contains('/') || is_bare && segment.contains(':');
    (!leads_elsewhere && !matches!(segment, "" | "." | "..")).then_some((segment, kind))
}

/// What the `href` of each `<a>` says, outside of comments and scripts. `lower` is the page in small letters.
fn links(page: &str, lower: &str) -> Vec<String> {
    let (mut at, mut found) = (0, Vec::new());
    while let Some(begin) = lower[at..].find('<').map(|offset| at + offset) {
        let rest = &lower[begin..];
        at = begin + 1;
        for (opens, closes) in [("<!--", "-->"), ("<script", "</script"), ("<style", "</style")] {
            if rest.starts_with(opens) {
                // What is never closed hides all that follows.
                at = rest.find(closes).map_or(page.len(), |offset| begin + offset + closes.len());
            }
        }
        if rest.starts_with("<a") && rest[2..].starts_with(|next: char| next.is_ascii_whitespace()) {
            let (link, end) = href(page, begin + 2);
            found.extend(link);
            at = end;
        }
    }
    found
}

/// The value of `href` in a tag whose attributes begin at `at`, and where the tag ends.
fn href(page: &str, mut at: usize) -> (Option<String>, usize) {
    let bytes = page.as_bytes();
    let mut link = None;
    loop {
        let skip = |at: usize, of: &dyn Fn(u8) -> bool| {
            at + bytes[at..].iter().take_while(|byte| of(**byte)).count()
        };
        at = skip(at, &|byte| byte.is_ascii_whitespace() || byte == b'/');
        let name_end = skip(at, &|byte| !byte.is_ascii_whitespace() && !matches!(byte, b'=' | b'>' | b'/'));
        let name = at..name_end;
        at = skip(name_end, &|byte| byte.is_ascii_whitespace());
        match bytes.get(at) {
            None => return (link, bytes.len()),
            Some(b'>') => return (link, at + 1),
            Some(b'=') => {}
            Some(_) if name.is_empty() => at += 1,
            Some(_) => continue,
        }
        if bytes.get(at) != Some(&b'=') {
            continue;
        }
        at = skip(at + 1, &|byte| byte.is_ascii_whitespace());
        let value = match bytes.get(at) {
            Some(quote @ (b'"' | b'\'')) => {
                let end = skip(at + 1, &|byte| byte != *quote);
                let value = at + 1..end;
                at = (end + 1).min(bytes.len());
                value
            }
            _ => {
                let end = skip(at, &|byte| !byte.is_ascii_whitespace() && byte != b'>');
                let value = at..end;
                at = end;
                value
            }
        };
        if link.is_none() && page[name].eq_ignore_ascii_case("href") {
            link = Some(unescaped(&page[value]));
        }
    }
}

/// A value with its character references replaced; those that are none of HTML's stay.
fn unescaped(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, behind)) = rest.split_once('&') {
        out.push_str(before);
        let end = behind.bytes().take(MOST_REFERENCE_BYTES).position(|byte| byte == b';');
        match end.and_then(|end| Some((referenced_character(&behind[..end])?, end))) {
            Some((character, end)) => {
                out.push(character);
                rest = &behind[end + 1..];
            }
            None => {
                out.push('&');
                rest = behind;
            }
        }
    }
    out + rest
}

fn referenced_character(reference: &str) -> Option<char> {
    if let Some(number) = reference.strip_prefix('#') {
        let hexadecimal = number.strip_prefix(['x', 'X']).map(|digits| u32::from_str_radix(digits, 16));
        return char::from_u32(hexadecimal.unwrap_or_else(|| number.parse()).ok()?);
    }
    let known = [("amp", '&'), ("lt", '<'), ("gt", '>'), ("quot", '"'), ("apos", '\'')];
    known.iter().find(|(name, _)| *name == reference).map(|(_, character)| *character)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::url::encoded;
    use proptest::prelude::*;

    /// `fixtures/index-pages`: one folder as each server shows it.
    fn sample(file: &str, folder: &str) -> Vec<(String, ListedKind)> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/index-pages/");
        let page = std::fs::read(format!("{path}{file}")).expect("a page");
        let entries = parse_index(&page, folder).expect("an index");
        let name = |entry: IndexEntry| {
            let name = entry.name.unwrap_or_else(|why| panic!("{file}: {}: {why}", entry.shown));
            (String::from_utf8(name).expect("UTF-8"), entry.kind)
        };
        let mut names: Vec<_> = entries.into_iter().map(name).collect();
        names.sort_by(|one, other| one.0.cmp(&other.0));
        names
    }

    #[test]
    fn the_pages_of_servers_name_what_is_in_the_folder() {
        let long = format!("{}.txt", "long".repeat(30));
        let files =
            ["a b", "a:b", "größe", "it's", "large.iso", &long, "per%cent #1?.bin", "x&y <z> \"q\".txt"];
        for (file, folder, shows_hidden) in [
            ("nginx-1.22.html", "/files/", false),
            ("apache-2.4-fancy.html", "/plain/", true),
            ("apache-2.4-table.html", "/files/", true),
            ("apache-2.4-list.html", "/plain/", true),
            ("caddy-2.6.html", "/files/", true),
            ("python-3.11.html", "/files/", true),
        ] {
            let mut wanted: Vec<_> = files.iter().map(|name| (name.to_string(), ListedKind::File)).collect();
            wanted.push(("sub".into(), ListedKind::Folder));
            wanted.extend(shows_hidden.then(|| (".hidden".to_string(), ListedKind::File)));
            wanted.sort_by(|one, other| one.0.cmp(&other.0));
            assert_eq!(sample(file, folder), wanted, "{file}");
        }
    }

    fn index(links: &str) -> Vec<(String, bool)> {
        let page = format!("<html><TITLE>Index of /f/</TITLE>{links}");
        let entries = parse_index(page.as_bytes(), "/f/").expect("an index");
        entries.into_iter().map(|entry| (entry.shown, entry.name.is_ok())).collect()
    }

    #[test]
    fn links_that_lead_elsewhere_are_none_of_the_folder() {
        let links = "../ .. ./ . /  ?C=N;O=D #top f?x=1 http://h/a //h/a mailto:a@b javascript:x \
            /etc/passwd ../../etc/passwd a/b a/../../b /f/ /f/../x /f /f/a/b";
        for link in links.split(' ') {
            assert_eq!(index(&format!("<a href=\"{link}\">x</a>")), [], "{link}");
        }
        assert_eq!(
            index("<!-- <a href=\"a\"> --><script>\"<a href='b'>\"</script><abbr href=\"c\"><a name=d>"),
            []
        );
        assert_eq!(index("<script><a href=\"a\">"), [], "a script that is never closed");
        let one = |name: &str| [(name.to_string(), true)];
        assert_eq!(index("<A class=x HREF = 'a&amp;b'>"), one("a&b"));
        assert_eq!(index("<a href=bare><img href=no></a>"), one("bare"));
        assert_eq!(index("<a href=\"/f/in\"><img></a> <a href=\"/f/in\">in</a>"), one("/f/in"));
        assert_eq!(index("<a href=\"./a:b\">"), one("./a:b"));
    }

    #[test]
    fn names_that_no_file_here_may_have_are_named_and_refused() {
        for link in ["%2e%2e", "%2E%2e/", "a%2fb", "a%00", ".x.linerate-part", "%zz", &"x".repeat(256)] {
            assert_eq!(index(&format!("<a href=\"{link}\">")), [(foreign(link), false)], "{link}");
        }
        assert_eq!(parse_index(b"<html><a href=\"a\">", "/"), Err(NoIndex::Unknown));
        let many: String = (0..=MOST_NAMES).map(|number| format!("<a href=\"{number}\">")).collect();
        let page = format!("<title>Index of /</title>{many}");
        assert_eq!(parse_index(page.as_bytes(), "/"), Err(NoIndex::TooMany));
    }

    proptest! {
        #[test]
        fn any_page_is_read_and_no_name_leads_out(
            links in "(<a |<A\n|<!--|-->|<script>|</script>|href|=|\"|'|>|\\.\\./|%2e|%2f|%00|&amp;|&#x2f;|&#47;|/f/|[ -~]|é){0,60}",
        ) {
            let page = format!("<title>Index of /f/</title>{links}");
            for name in parse_index(page.as_bytes(), "/f/").expect("an index").into_iter().filter_map(|entry| entry.name.ok()) {
                prop_assert!(refused_name(&name).is_none() && !name.contains(&b'/'), "{name:?}");
            }
        }

        #[test]
        fn any_name_comes_back(name in proptest::collection::vec(1u8.., 1..40), escaped in any::<bool>()) {
            prop_assume!(refused_name(&name).is_none());
            let link = if escaped { format!("./{}/", encoded(&name)) } else { format!("{}/", encoded(&name)) };
            let page = format!("<title>Index of /f/</title><a href=\"{link}\">");
            let entries = parse_index(page.as_bytes(), "/f/").expect("an index");
            prop_assert_eq!(&entries[0].name, &Ok(name));
        }
    }
}
