//! linerate says what its readers say: `docs/words.toml` has the words that were given up, and where.

use crate::docs::all_help;
use crate::layering::source::{in_tests, texts};
use crate::layering::{rust_files, sources};
use crate::support::root;
use serde::Deserialize;
use std::collections::BTreeSet;

#[derive(Deserialize)]
struct WordList {
    banned: Vec<BannedWords>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BannedWords {
    words: Vec<String>,
    #[serde(rename = "in")]
    places: BTreeSet<WordPlace>,
    say: String,
    #[serde(default)]
    unless: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
enum WordPlace {
    Type,
    /// The whole name of a type, where one word more makes it right.
    WholeType,
    TestName,
    Screen,
}

fn banned() -> Vec<BannedWords> {
    let text = std::fs::read_to_string(root().join("docs/words.toml")).expect("docs/words.toml");
    toml::from_str::<WordList>(&text).expect("a list of words").banned
}

/// Small letters, one space between words; what is filled in is a `#`.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0;
    for letter in text.chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => {
                depth -= 1;
                plain.push('#');
            }
            _ if depth > 0 => {}
            // The end of a line within a literal.
            '\\' => plain.push(' '),
            _ => plain.extend(letter.to_lowercase()),
        }
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether the word is in the text and no part of a longer one.
fn holds(text: &str, word: &str) -> bool {
    let inner =
        |letter: Option<char>| letter.is_some_and(|it| it.is_alphanumeric() || matches!(it, '-' | '_'));
    text.match_indices(word).any(|(at, _)| {
        !inner(text[..at].chars().next_back()) && !inner(text[at + word.len()..].chars().next())
    })
}

/// What is wrong with a text that is already plain.
fn wrong(banned: &[BannedWords], place: WordPlace, text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for entry in banned.iter().filter(|entry| entry.places.contains(&place)) {
        let rest = entry.unless.iter().fold(text.to_string(), |text, right| text.replace(&plain(right), "…"));
        let is_there = |word: &&String| match place {
            WordPlace::WholeType => rest == **word,
            _ => holds(&rest, word),
        };
        if let Some(word) = entry.words.iter().find(is_there) {
            wrong.push(format!("“{word}” in “{text}”; say {}", entry.say));
        }
    }
    wrong
}

/// `FlowShare` as `flow share`.
fn parts_of(name: &str) -> String {
    let mut parts = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !parts.is_empty() {
            parts.push(' ');
        }
        parts.extend(letter.to_lowercase());
    }
    parts
}

/// The word behind a keyword at the begin of a line.
fn named<'a>(line: &'a str, keywords: &[&str]) -> Option<&'a str> {
    let mut words =
        line.trim_start().split([' ', '(', '<', '{', ';', ':', '=']).filter(|word| !word.is_empty());
    let first = words.find(|word| !matches!(*word, "pub" | "crate)" | "super)" | "unsafe" | "async"))?;
    keywords.contains(&first).then(|| words.next())?
}

#[test]
fn types_are_called_by_words_of_the_field() {
    let banned = banned();
    let mut seen = 0;
    let mut complaints = Vec::new();
    for (file, text) in sources() {
        for name in text.lines().filter_map(|line| named(line, &["struct", "enum", "trait", "type", "union"]))
        {
            if !name.starts_with(|first: char| first.is_ascii_uppercase()) {
                continue;
            }
            seen += 1;
            for place in [WordPlace::Type, WordPlace::WholeType] {
                let found = wrong(&banned, place, &parts_of(name));
                complaints.extend(found.into_iter().map(|it| format!("{}: {name}: {it}", file.display())));
            }
        }
    }
    assert!(seen > 1000, "the search finds the types: {seen}");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn tests_are_called_by_words_of_the_field() {
    let banned = banned();
    let mut seen = 0;
    let mut complaints = Vec::new();
    for (path, text) in rust_files() {
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            if let Some(name) = named(line, &["fn"]).filter(|_| is_test) {
                seen += 1;
                let found = wrong(&banned, WordPlace::TestName, &name.replace('_', " "));
                complaints.extend(found.into_iter().map(|it| format!("{}: {it}", path.display())));
            }
            is_test = line == "#[test]" || is_test && line.starts_with("#[");
        }
    }
    assert!(seen > 1000, "the search finds the tests: {seen}");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Crates whose texts a user reads.
const SAYING: &str = "linerate deliver machine measure model report transport tune wall watch web";

#[test]
fn screens_pages_and_help_are_written_in_words_of_the_field() {
    let banned = banned();
    let mut seen = 0;
    let mut complaints = Vec::new();
    let mut look = |of: &str, text: &str| {
        seen += 1;
        let found = wrong(&banned, WordPlace::Screen, &plain(text));
        complaints.extend(found.into_iter().map(|it| format!("{of}: {it}")));
    };
    for (file, text) in sources() {
        let is_of_a_test = file.components().any(|part| part.as_os_str() == "tests")
            || file.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"))
            || !SAYING.split(' ').any(|name| file.starts_with(name));
        // Style sheets stand in texts too.
        if is_of_a_test || file.ends_with("style.rs") {
            continue;
        }
        let tested = in_tests(&text);
        for (line, literal) in texts(&text) {
            // A single word is a key, a name or a label: of those the pages and the keys have their own tests.
            if literal.trim().contains(' ') && !tested.iter().any(|lines| lines.contains(&line)) {
                look(&format!("{}:{line}", file.display()), literal);
            }
        }
    }
    for line in all_help().lines() {
        look("the help", line);
    }
    for page in ["wall/src/page/page.html", "watch/src/page/page.html"] {
        let html = std::fs::read_to_string(root().join("crates").join(page)).expect(page);
        for text in html.split('<').filter_map(|tag| tag.split_once('>')).map(|(_, text)| text.trim()) {
            look(page, text);
        }
    }
    assert!(seen > 3000, "the search finds the texts: {seen}");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn a_word_is_found_as_a_whole_and_not_in_its_exceptions() {
    let banned = vec![BannedWords {
        words: vec!["lane".into(), "held by".into()],
        places: [WordPlace::Screen].into(),
        say: "worker".into(),
        unless: vec!["a PCIe lane".into()],
    }];
    let found = |text: &str| wrong(&banned, WordPlace::Screen, &plain(text)).len();
    assert_eq!(["a lane.", "Held\\\n    by {it}", "the lane of a PCIe lane"].map(found), [1, 1, 1]);
    assert_eq!(["planes", "{lane} held_by", "a PCIe lane", "lane-wise"].map(found), [0; 4]);
    assert_eq!(
        (parts_of("FlowShare").as_str(), named("    pub(crate) fn a_test(x: u8)", &["fn"])),
        ("flow share", Some("a_test"))
    );
}
