//! Reads Rust source just well enough to find its imports: comments and texts are blanked, inline modules are followed.

use std::path::Path;

/// A path into the crate that a file uses.
#[derive(Debug, PartialEq)]
pub struct Import {
    /// The room that uses it: `probe` for `src/probe/cpu.rs`, `run` for `src/run.rs`.
    pub room: String,
    /// The path below the crate's root, braces resolved, without `self` and `*`: `plan::Protocol`.
    pub path: String,
    /// Counted from 1.
    pub line: usize,
}

/// Every path into the crate's root outside test modules: in `use` trees and inline, by `crate::` or by enough `super::`.
/// Tests may look forward: what they import is in no build.
pub fn imports(file: &Path, text: &str) -> Vec<Import> {
    let within = file.strip_prefix("src").unwrap_or(file);
    let mut modules: Vec<String> =
        within.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let room = modules.first().cloned().unwrap_or_default();
    if modules.last().is_some_and(|name| name == "tests") {
        return Vec::new();
    }
    if matches!(modules.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        modules.pop();
    }
    let code = blank_tests(&blank(text, true));
    let mut found = Vec::new();
    for (at, supers, rest) in rooted_paths(&code) {
        let depth = modules.len() + inline_modules_around(&code, at);
        // `crate::` has no `super`; so many that they leave the room's own tree reach the root as well.
        if supers == 0 || supers == depth {
            let mut leaves = Vec::new();
            expand(&code, rest, "", &mut leaves);
            found.extend(leaves.into_iter().map(|(path, at)| Import {
                room: room.clone(),
                path,
                line: line_of(&code, at),
            }));
        }
    }
    found
}

/// Places where `unsafe` is a word of the code.
pub fn unsafe_lines(text: &str) -> Vec<usize> {
    let code = blank(text, true);
    words(&code, "unsafe").map(|at| line_of(&code, at)).collect()
}

/// Places where a file below `/sys` or `/proc` is opened by the standard library.
pub fn proc_or_sys_opened(file: &Path, text: &str) -> Vec<usize> {
    if file.file_stem().is_some_and(|name| name == "tests") {
        return Vec::new();
    }
    const OPENERS: [&str; 9] = [
        "open",
        "read_to_string",
        "read",
        "read_dir",
        "read_link",
        "canonicalize",
        "metadata",
        "write",
        "exists",
    ];
    let code = blank_tests(&blank(text, true));
    let literals = blank(text, false);
    let mut lines = Vec::new();
    for opener in OPENERS {
        for at in words(&code, opener) {
            let before = code[..at].trim_end();
            let of_std = before.ends_with("fs::") || before.ends_with("File::");
            let argument = literals[at + opener.len()..].trim_start_matches(|c: char| "(&! \n".contains(c));
            let argument = ["format!(", "Path::new(", "PathBuf::from(", "std::path::Path::new("]
                .iter()
                .fold(argument, |argument, wrapper| argument.strip_prefix(wrapper).unwrap_or(argument));
            if of_std && (argument.starts_with("\"/proc") || argument.starts_with("\"/sys")) {
                lines.push(line_of(&code, at));
            }
        }
    }
    lines.sort_unstable();
    lines
}

/// The text with its comments blanked.
pub fn without_comments(text: &str) -> String {
    blank(text, false)
}

/// Replaces comments, and texts if asked, by spaces; line breaks and positions stay.
fn blank(text: &str, texts_too: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (length, is_text) = if rest.starts_with(b"//") {
            (rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()), false)
        } else if rest.starts_with(b"/*") {
            (block_comment(rest), false)
        } else if let Some(length) = text_literal(rest, at.checked_sub(1).map(|before| bytes[before])) {
            (length, true)
        } else {
            at += 1;
            continue;
        };
        if texts_too || !is_text {
            out[at..at + length].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
        }
        at += length;
    }
    String::from_utf8(out).expect("whole literals and comments were blanked")
}

/// Length of a block comment, which may hold others.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length of a string, raw string or character literal that begins here; none for a lifetime.
fn text_literal(rest: &[u8], before: Option<u8>) -> Option<usize> {
    let in_word = before.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_');
    match rest[0] {
        b'"' => Some(quoted(rest, b'"')),
        b'\'' => {
            let is_char = rest.get(1) == Some(&b'\\')
                || std::str::from_utf8(&rest[1..rest.len().min(6)])
                    .map_or_else(|error| std::str::from_utf8(&rest[1..1 + error.valid_up_to()]), Ok)
                    .is_ok_and(|text| text.chars().nth(1) == Some('\''));
            is_char.then(|| quoted(rest, b'\''))
        }
        b'r' if !in_word || before == Some(b'b') => {
            let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
            (rest.get(1 + hashes) == Some(&b'"')).then(|| {
                let end: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
                let body = &rest[2 + hashes..];
                body.windows(end.len())
                    .position(|w| w == end)
                    .map_or(rest.len(), |at| 2 + hashes + at + end.len())
            })
        }
        _ => None,
    }
}

/// Length up to the closing quote, escapes passed over.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// Blanks what stands in `mod tests { … }`.
fn blank_tests(code: &str) -> String {
    let mut out = code.to_string();
    for at in words(code, "mod") {
        let after = code[at + 3..].trim_start();
        if after.strip_prefix("tests").is_some_and(|after| after.trim_start().starts_with('{')) {
            let open = at + code[at..].find('{').unwrap_or(0);
            let blanked: String = code[open..block_end(code, open)].chars().map(blank_char).collect();
            out.replace_range(open..open + blanked.len(), &blanked);
        }
    }
    out
}

/// A space for every byte, so that positions stay.
fn blank_char(c: char) -> char {
    // Comments and texts are gone already: what is left beyond ASCII could only be an identifier.
    assert!(c.is_ascii(), "an identifier with “{c}”");
    if c == '\n' { '\n' } else { ' ' }
}

/// One past the brace that closes the one at `open`.
fn block_end(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        depth += i32::from(byte == b'{') - i32::from(byte == b'}');
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// How many inline modules a place stands in.
fn inline_modules_around(code: &str, place: usize) -> usize {
    words(code, "mod")
        .filter(|at| {
            let end = at + code[*at..].find(['{', ';']).unwrap_or(0);
            code.as_bytes().get(end) == Some(&b'{') && end < place && place < block_end(code, end)
        })
        .count()
}

/// Where a word stands as a whole word.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let bytes = code.as_bytes();
        let free_before = at.checked_sub(1).is_none_or(|before| !inner(bytes[before]));
        free_before && bytes.get(at + word.len()).is_none_or(|after| !inner(*after))
    })
}

/// Each `crate::…` and each chain of `super::…`: its place, the number of `super`s, the place of what follows.
fn rooted_paths(code: &str) -> Vec<(usize, usize, usize)> {
    let mut found: Vec<(usize, usize, usize)> = words(code, "crate")
        .filter(|at| code[at + 5..].starts_with("::") && !code[..*at].ends_with('$'))
        .map(|at| (at, 0, at + 7))
        .collect();
    for at in words(code, "super").filter(|at| !code[..*at].ends_with("::")) {
        let mut rest = at;
        let mut supers = 0;
        while code[rest..].starts_with("super::") {
            (rest, supers) = (rest + 7, supers + 1);
        }
        if supers > 0 {
            found.push((at, supers, rest));
        }
    }
    found.sort_unstable();
    found
}

/// The leaves of a path or use tree that begins at `at`, each with its place; returns where it ends.
fn expand(code: &str, at: usize, prefix: &str, leaves: &mut Vec<(String, usize)>) -> usize {
    let joined = |name: &str| if prefix.is_empty() { name.to_string() } else { format!("{prefix}::{name}") };
    let at = at + (code[at..].len() - code[at..].trim_start().len());
    if code[at..].starts_with('{') {
        let end = block_end(code, at);
        let mut next = at + 1;
        while next < end - 1 && !code[next..end - 1].trim().is_empty() {
            next = expand(code, next, prefix, leaves);
            next += code[next..]
                .find(',')
                .filter(|comma| next + comma < end)
                .map_or(end - next, |comma| comma + 1);
        }
        return end;
    }
    let length =
        code[at..].find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(code.len() - at);
    let name = &code[at..at + length];
    if length > 0 && name != "self" && code[at + length..].starts_with("::") {
        return expand(code, at + length + 2, &joined(name), leaves);
    }
    let path = if name == "self" || name.is_empty() { prefix.to_string() } else { joined(name) };
    leaves.push((path, at));
    at + length
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}
