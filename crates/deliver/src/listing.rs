//! What a folder holds: as JSON for `linerate get` and other programs, as a page for people.

use super::get::names::refused_name;
use super::http::url::{encoded, name};
use crate::archived::Archived;
use linerate_facts::printable::{foreign, printable};
use linerate_facts::units::show_size;
use linerate_facts::wording::{counted, in_order};
use linerate_system::beneath::{ConfinedEntry, EntryKind};
use maud::{DOCTYPE, PreEscaped, html};
use serde::{Deserialize, Serialize};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, UNIX_EPOCH};
use thiserror::Error;

/// The most names of a list.
pub const MOST_NAMES: usize = 200_000;
/// The most files of a transfer, whose lists may be many.
pub(crate) const MOST_FILES: usize = 1_000_000;
/// The longest list: twice what `linerate serve` sends.
pub(crate) const MOST_LIST_BYTES: u64 = 32 << 20;
/// The end of the year 9999, after which a date has more digits.
const LAST_SECOND: u64 = 253_402_300_799;

/// The names in one folder, in the order of people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    pub entries: Vec<ListedEntry>,
    /// There are more names than a list may have.
    #[serde(default)]
    pub truncated: bool,
    /// Of the folder itself, for a copy that keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<Archived>,
}

/// One name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedEntry {
    /// For people: what is not UTF-8 is replaced.
    pub name: String,
    /// The name in a URL, relative to the folder; a folder's ends with a slash.
    pub href: String,
    pub kind: ListedKind,
    #[serde(default)]
    pub bytes: u64,
    /// When the content was changed last, seconds since 1970.
    #[serde(default)]
    pub modified: u64,
    /// The name is a link to it.
    #[serde(default)]
    pub link: bool,
    /// For a copy that keeps it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<Archived>,
}

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListedKind {
    File,
    Folder,
    /// Itself, not what it leads to: in the list for a copy that keeps it.
    Link,
}

/// Why a list of another host is of no use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ListingError {
    #[error("it is not a list: {0}")]
    NoJson(String),
    #[error("it names {name}, which is not a name of a file here: {why}")]
    Name { name: String, why: &'static str },
    #[error("it has more than {MOST_NAMES} names")]
    TooMany,
    #[error("with it there are more than {MOST_FILES} files; copy fewer folders at a time")]
    TooManyFiles,
    #[error("it takes more memory than a list may; copy fewer folders at a time")]
    TooLarge,
}

impl Listing {
    /// Of what was found.
    pub fn new(mut found: Vec<ConfinedEntry>, truncated: bool) -> Self {
        found.sort_by(|a, b| in_order(&a.name.to_string_lossy(), &b.name.to_string_lossy()));
        Listing { entries: found.iter().map(ListedEntry::new).collect(), truncated, archived: None }
    }

    /// What another host sent: every name is one that leads nowhere else.
    pub fn parse(json: &[u8]) -> Result<Self, ListingError> {
        let no_json = |error: serde_json::Error| ListingError::NoJson(foreign(&error.to_string()));
        let list: Listing = serde_json::from_slice(json).map_err(no_json)?;
        if list.entries.len() > MOST_NAMES || list.truncated {
            return Err(ListingError::TooMany);
        }
        let refused = |entry: &ListedEntry| {
            let why = entry.file_name().err()?;
            Some(ListingError::Name { name: foreign(&entry.href), why })
        };
        list.entries.iter().find_map(refused).map_or(Ok(list), Err)
    }

    /// A page that needs nothing else: light or dark, sorted by the column of which the head is chosen.
    pub fn page(&self, path: &str, is_top: bool) -> String {
        let title = format!("Files in {}", printable(path));
        let row = |entry: &ListedEntry| {
            let is_folder = entry.kind == ListedKind::Folder;
            let (bytes, slash) = if is_folder { (0, "/") } else { (entry.bytes, "") };
            html! { tr data-kind=(if is_folder { "folder" } else { "file" }) {
                // `./`: a name with a colon is not a scheme.
                td { a href={ "./" (entry.href) } { (printable(&entry.name)) (slash) } }
                td class="r" data-value=(bytes) { @if !is_folder { (show_size(bytes)) } }
                td class="t" data-value=(entry.modified) { (shown_minute(entry.modified)) }
            } }
        };
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (title) }
                    style { (PreEscaped(include_str!("listing.css"))) }
                }
                body { main {
                    h1 { (title) " " span { (counted(self.entries.len(), "name")) } }
                    table {
                        thead { tr {
                            @for (class, head) in [(None, "Name"), (Some("r"), "Size"), (Some("t"), "Changed (UTC)")] {
                                th scope="col" class=[class] { button { (head) } }
                            }
                        } }
                        tbody {
                            @if !is_top { tr { td { a href="../" { "../" } } td {} td class="t" {} } }
                            @for entry in &self.entries { (row(entry)) }
                        }
                    }
                    @if self.truncated { p { "There are more." } }
                } }
                script { (PreEscaped(include_str!("listing.js"))) }
            }
        };
        page.into_string()
    }
}

/// `2026-11-27 08:56`.
fn shown_minute(seconds: u64) -> String {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds.min(LAST_SECOND))).unwrap_or(UNIX_EPOCH);
    humantime::format_rfc3339_seconds(time).to_string()[..16].replace('T', " ")
}

impl ListedEntry {
    fn new(entry: &ConfinedEntry) -> Self {
        let kind = if entry.kind == EntryKind::Folder { ListedKind::Folder } else { ListedKind::File };
        let slash = if kind == ListedKind::Folder { "/" } else { "" };
        ListedEntry {
            name: entry.name.to_string_lossy().into_owned(),
            href: encoded(entry.name.as_bytes()) + slash,
            kind,
            bytes: entry.bytes,
            modified: entry.modified,
            link: entry.is_link,
            archived: None,
        }
    }

    /// The name of the file here, decoded from its URL; or why there is none.
    pub fn file_name(&self) -> Result<Vec<u8>, &'static str> {
        let slash = if self.kind == ListedKind::Folder { "/" } else { "" };
        let segment = self.href.strip_suffix(slash).filter(|segment| !segment.contains(['/', '?', '#']));
        let name = segment.and_then(|segment| name(segment).ok()).ok_or("it leads elsewhere")?;
        refused_name(&name).map_or(Ok(name), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    fn entry(name: &[u8], kind: EntryKind) -> ConfinedEntry {
        let name = OsString::from_vec(name.to_vec());
        ConfinedEntry { name, kind, bytes: 2048, modified: 784_111_777, is_link: false }
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let found = vec![
            entry(b"b10", EntryKind::File),
            entry(b"b2", EntryKind::File),
            entry(b"a b", EntryKind::Folder),
            entry(b"\xff<script>", EntryKind::File),
        ];
        let list = Listing::new(found, false);
        let names: Vec<_> = list.entries.iter().map(|entry| entry.href.as_str()).collect();
        assert_eq!(names, ["a%20b/", "b2", "b10", "%FF%3Cscript%3E"]);
        let json = serde_json::to_vec(&list).expect("JSON");
        let read = Listing::parse(&json).expect("a list");
        assert_eq!(read, list);
        assert_eq!(read.entries[3].file_name(), Ok(b"\xff<script>".to_vec()));
        let page = list.page("/x/<", false);
        assert!(
            page.contains("href=\"./a%20b/\"") && page.contains("2 KiB") && page.contains("../"),
            "{page}"
        );
        assert!(page.matches("<script>").count() == 1 && page.contains("&lt;script&gt;"), "{page}");
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for (href, kind) in [
            ("../etc", "file"),
            ("..", "file"),
            ("../", "folder"),
            ("/etc/passwd", "file"),
            ("a/b", "file"),
            ("a%2fb", "file"),
            ("%2e%2e", "file"),
            ("", "file"),
            ("a%00", "file"),
            ("a", "folder"),
            ("a?b", "file"),
            ("http://x/", "folder"),
            (".image.iso.linerate-part", "file"),
            (".image.iso.LINERATE%2Djournal", "file"),
            (".x.linerate-part/", "folder"),
        ] {
            let json =
                format!("{{\"entries\":[{{\"name\":\"x\",\"href\":\"{href}\",\"kind\":\"{kind}\"}}]}}");
            assert!(matches!(Listing::parse(json.as_bytes()), Err(ListingError::Name { .. })), "{href}");
        }
        assert!(matches!(Listing::parse(b"<html>"), Err(ListingError::NoJson(_))));
        assert_eq!(Listing::parse(b"{\"entries\":[],\"truncated\":true}"), Err(ListingError::TooMany));
    }

    proptest! {
        #[test]
        fn any_name_goes_there_and_back(name in proptest::collection::vec(1u8.., 1..40), folder in any::<bool>()) {
            prop_assume!(!name.contains(&b'/') && name != b"." && name != b"..");
            let kind = if folder { EntryKind::Folder } else { EntryKind::File };
            let list = Listing::new(vec![entry(&name, kind)], false);
            let read = Listing::parse(&serde_json::to_vec(&list).expect("JSON")).expect("a list");
            prop_assert_eq!(read.entries[0].file_name(), Ok(name));
        }
    }
}
