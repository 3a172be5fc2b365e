//! Reads Rust source just well enough to find calls: comments and texts are blanked.

use std::path::Path;

/// Places where a file below `/sys` or `/proc` is opened by the standard library.
pub fn proc_or_sys_opened(file: &Path, text: &str) -> Vec<usize> {
    if file.file_stem().is_some_and(|name| name == "tests") {
        return Vec::new();
    }
    const OPENERS: &str = "open read_to_string read read_dir read_link canonicalize metadata write exists";
    let code = blank_tests(&blank(text, true));
    let literals = blank(text, false);
    let mut lines = Vec::new();
    for opener in OPENERS.split(' ') {
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

/// Lines of the product that have this phrase.
pub fn said(text: &str, phrase: &str) -> Vec<usize> {
    let code = blank_tests(&blank(text, true));
    code.match_indices(phrase).map(|(at, _)| line_of(&code, at)).collect()
}

/// Lines on which a method of this name is called.
pub fn calls(file: &Path, text: &str, name: &str) -> Vec<usize> {
    if file.file_stem().is_some_and(|name| name == "tests") {
        return Vec::new();
    }
    let code = blank_tests(&blank(text, true));
    let called = |at: &usize| code[..*at].ends_with('.') && code[at + name.len()..].starts_with('(');
    words(&code, name).filter(called).map(|at| line_of(&code, at)).collect()
}

/// Texts within quotes, each with its line; comments hold none.
pub fn texts(text: &str) -> Vec<(usize, &str)> {
    let code = blank(text, false);
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match text_literal(&bytes[at..], at.checked_sub(1).map(|before| bytes[before])) {
            Some(length) => {
                let literal = &text[at..at + length];
                let body = literal.trim_start_matches(['r', '#']).trim_end_matches('#');
                if let Some(body) = body.strip_prefix('"') {
                    found.push((line_of(text, at), body.strip_suffix('"').unwrap_or(body)));
                }
                at += length;
            }
            None => at += 1,
        }
    }
    found
}

/// Lines of test modules.
pub fn in_tests(text: &str) -> Vec<std::ops::RangeInclusive<usize>> {
    let code = blank(text, true);
    test_modules(&code).iter().map(|part| line_of(&code, part.start)..=line_of(&code, part.end)).collect()
}

/// Lines on which something public fails with a text: a function, a method of a public trait, a field or an
/// alias with `Result<_, String>`, or a trait's `Err` that is a `String`.
pub fn errors_of_text(file: &Path, text: &str) -> Vec<usize> {
    if file.file_stem().is_some_and(|name| name == "tests") {
        return Vec::new();
    }
    let code = blank_tests(&blank(text, true));
    let public = words(&code, "trait").filter(|at| code[..*at].ends_with("pub "));
    let traits: Vec<_> =
        public.map(|at| at..block_end(&code, at + code[at..].find('{').unwrap_or(0))).collect();
    let exposed = |at: &usize| {
        let item = &code[code[..*at].rfind([';', '{', '}']).map_or(0, |end| end + 1)..*at];
        let function = words(item, "fn").any(|at| {
            let before = item[..at].trim_end();
            ["pub", "pub const", "pub async", "pub unsafe"].iter().any(|word| before.ends_with(word))
        });
        let line = item.rsplit('\n').next().unwrap_or_default().trim_start();
        let holder = code[..*at].rsplit('{').nth(1).and_then(|before| before.rsplit('\n').next());
        let holder_is_inner = holder.is_some_and(|line| line.trim_start().starts_with("pub("));
        let field = line.starts_with("pub ") && !line.starts_with("pub struct") && !holder_is_inner;
        function
            || field
            || line.starts_with("pub type")
            || line.ends_with("pub ")
            || traits.iter().any(|block| block.contains(at))
    };
    let results = words(&code, "Result").filter(|at| fails_with_string(&code[at + "Result".len()..]));
    let mut lines: Vec<usize> = results.filter(exposed).map(|at| line_of(&code, at)).collect();
    for name in ["Err", "Error"] {
        let strings = words(&code, name)
            .filter(|at| code[..*at].ends_with("type ") && code[at + name.len()..].starts_with(" = String;"));
        lines.extend(strings.map(|at| line_of(&code, at)));
    }
    lines.sort_unstable();
    lines
}

/// `<_, String>`, over however many lines.
fn fails_with_string(arguments: &str) -> bool {
    let (mut depth, mut second) = (0, None);
    for (at, c) in arguments.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '>' if !arguments[..at].ends_with('-') => depth -= 1,
            ',' if depth == 1 => second = Some(at + 1),
            _ => {}
        }
        if depth == 0 {
            return second.is_some_and(|from| arguments[from..at].trim() == "String");
        }
    }
    false
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

/// Blanks what is in `mod tests { … }`.
fn blank_tests(code: &str) -> String {
    let mut out = code.to_string();
    for part in test_modules(code) {
        let blanked: String = code[part.clone()].chars().map(blank_char).collect();
        out.replace_range(part, &blanked);
    }
    out
}

/// Where the braces of `mod tests { … }` are.
fn test_modules(code: &str) -> Vec<std::ops::Range<usize>> {
    let is_of_tests = |at: &usize| {
        let after = code[at + 3..].trim_start();
        after.strip_prefix("tests").is_some_and(|after| after.trim_start().starts_with('{'))
    };
    let braces = |at: usize| {
        let open = at + code[at..].find('{').unwrap_or(0);
        open..block_end(code, open)
    };
    words(code, "mod").filter(is_of_tests).map(braces).collect()
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

/// Where a word stands as a whole word.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let bytes = code.as_bytes();
        let free_before = at.checked_sub(1).is_none_or(|before| !inner(bytes[before]));
        free_before && bytes.get(at + word.len()).is_none_or(|after| !inner(*after))
    })
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}
