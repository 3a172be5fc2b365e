//! The documents tell the truth: command lines parse, files and rooms that they name are there, the changelog
//! has the version.

use crate::support::root;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Documents whose links and code spans are held to the tree.
fn documents() -> Vec<String> {
    let mut found: Vec<String> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "ROADMAP.md", "SECURITY.md", "CHANGELOG.md"]
            .map(String::from)
            .into();
    found.push("lab/README.md".into());
    for folder in ["docs", "docs/decisions"] {
        let entries = std::fs::read_dir(root().join(folder)).expect(folder).flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        found.extend(names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}")));
    }
    found
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Lines inside ``` blocks, joined where they end in a backslash.
fn code_lines(text: &str) -> Vec<String> {
    let mut inside = false;
    let mut lines: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
            open = false;
        } else if inside {
            let (part, continues) = line.strip_suffix('\\').map_or((line, false), |part| (part, true));
            match lines.last_mut().filter(|_| open) {
                Some(last) => last.push_str(part.trim_start()),
                None => lines.push(part.to_string()),
            }
            open = continues;
        }
    }
    lines
}

/// Text between single backticks, outside of code blocks.
fn code_spans(text: &str) -> Vec<String> {
    let mut inside = false;
    let mut spans = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside {
            spans.extend(line.split('`').skip(1).step_by(2).map(str::to_string));
        }
    }
    spans
}

/// The words of a command line of our own; none where it is another program's, or a line of output.
fn our_words(line: &str) -> Option<Vec<String>> {
    let line = line.trim_start().trim_start_matches("$ ").trim_end_matches(" &");
    let line = line.split(" # ").next().unwrap_or_default().trim();
    let mut words = shell_words(line);
    while words.first().is_some_and(|word| is_setting(word) || *word == "sudo") {
        words.remove(0);
    }
    if words.first() == Some(&"linerate-wall") {
        words.splice(..1, ["linerate", "wall"]);
    }
    let rest = match words[..] {
        ["cargo", "run", "--release", "--", ref rest @ ..] => rest,
        [program, ref rest @ ..] if program == "linerate" || program.ends_with("/linerate") => rest,
        _ => return None,
    };
    // `linerate 0.2.0 on …` is the first line of a report, `linerate: …` of an error.
    if rest.first().is_some_and(|word| word.starts_with(|first: char| first.is_ascii_digit())) {
        return None;
    }
    let redirected = rest.iter().position(|word| matches!(*word, ">" | "|" | "2>" | "&&"));
    let rest = &rest[..redirected.unwrap_or(rest.len())];
    Some(std::iter::once("linerate").chain(rest.iter().copied()).map(String::from).collect())
}

/// As a shell parts them: what stands in single quotes is one word.
fn shell_words(line: &str) -> Vec<&str> {
    let (mut words, mut rest) = (Vec::new(), line.trim_start());
    while !rest.is_empty() {
        let quoted = rest.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
        let (word, after) = quoted.or_else(|| rest.split_once(char::is_whitespace)).unwrap_or((rest, ""));
        words.push(word);
        rest = after.trim_start();
    }
    words
}

/// `NAME=value` before a command.
fn is_setting(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
    })
}

/// Whether the command line takes the words; its help and version count as taken.
fn parses(words: &[String]) -> Result<(), String> {
    use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
    match linerate::cli::try_parse_from(words) {
        Err(error) if !matches!(error.kind(), DisplayHelp | DisplayVersion) => Err(error.to_string()),
        _ => Ok(()),
    }
}

#[test]
fn every_command_line_in_the_documents_parses() {
    let mut seen = 0;
    for document in documents() {
        for line in code_lines(&read(&document)) {
            // What the lab's own help writes with $(…) is not for this parser.
            let Some(words) = our_words(&line).filter(|_| !line.contains("$(")) else { continue };
            seen += 1;
            parses(&words).unwrap_or_else(|error| panic!("{document}: `{}`: {error}", line.trim()));
        }
    }
    assert!(seen >= 30, "the documents show command lines: {seen}");
}

/// Pages that send a reader to one command each, as it is typed.
#[test]
fn answers_are_whole_command_lines() {
    for document in ["docs/index.md", "docs/guide.md", "docs/slow.md"] {
        let mut parsed = 0;
        for span in code_spans(&read(document)) {
            let Some(words) = our_words(&span).filter(|words| words.len() > 1) else { continue };
            parsed += 1;
            parses(&words).unwrap_or_else(|error| panic!("{document}: `{span}`: {error}"));
        }
        assert!(parsed >= 10, "{document} names {parsed} commands");
    }
}

#[test]
fn commands_and_options_named_in_the_text_exist() {
    let help = all_help();
    let user = ["run", "agent", "plan", "disk", "network", "index", "guide", "slow"];
    let user = user.map(|name| format!("docs/{name}.md"));
    for document in ["README.md", "ARCHITECTURE.md"].map(String::from).iter().chain(&user) {
        for span in code_spans(&read(document)) {
            if let Some(words) = our_words(&span)
                && !span.contains('…')
                && words.len() > 1
            {
                let command = &words[1];
                assert!(help.contains(&format!("\n  {command} ")), "{document}: `{span}`: no such command");
            }
            let word = span.split([' ', '=']).next().unwrap_or_default();
            if word.starts_with("--") && word.len() > 2 {
                // `--scaling[=<RESULT>]`: a value that may be left out.
                let is_there = [" ", "\n", "[="].iter().any(|end| help.contains(&format!("{word}{end}")));
                assert!(is_there, "{document}: `{span}`");
            }
        }
    }
}

/// The help of every command in one text.
pub fn all_help() -> String {
    let mut command = linerate::cli::definition();
    let mut text = command.render_help().to_string();
    for sub in command.get_subcommands_mut() {
        text.push_str(&sub.render_long_help().to_string());
        for below in sub.get_subcommands_mut() {
            text.push_str(&below.render_long_help().to_string());
        }
    }
    text
}

#[test]
fn every_linked_file_exists() {
    for document in documents() {
        let text = read(&document);
        let folder = root().join(&document).parent().expect("a folder").to_path_buf();
        let markdown = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let pictures = text.split("src=\"").chain(text.split("srcset=\"")).skip(1);
        let pictures = pictures
            .filter_map(|rest| rest.split('"').next())
            .filter(|link| link.contains('.') && !link.contains('\n'));
        for link in markdown.chain(pictures) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, section) = link.split_once('#').unwrap_or((link, ""));
            let file = if file.is_empty() { root().join(&document) } else { folder.join(file) };
            assert!(file.exists(), "{document} links to {link}, which is not there");
            if !section.is_empty() && file.extension().is_some_and(|ending| ending == "md") {
                let text = std::fs::read_to_string(&file).expect("the page");
                assert!(sections(&text).contains(section), "{document} links to {link}: no such section");
            }
        }
    }
}

/// What links to a page's headings end in: small letters, hyphens for blanks, nothing else but letters and digits.
fn sections(text: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut sections = BTreeSet::new();
    for line in text.lines() {
        inside ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if !inside && heading.len() < line.len() && heading.starts_with(' ') {
            let letters = heading.trim().to_lowercase().replace(' ', "-");
            let dropped = |letter: char| !letter.is_alphanumeric() && !matches!(letter, '-' | '_');
            sections.insert(letters.replace(dropped, ""));
        }
    }
    sections
}

/// `probe/` and `tests/layering.rs` between backticks are places in the tree.
#[test]
fn rooms_and_source_files_named_exist() {
    let crates = std::fs::read_dir(root().join("crates")).expect("crates").flatten();
    let mut places: Vec<PathBuf> = crates.flat_map(|c| [c.path(), c.path().join("src")]).collect();
    places.extend(["", "crates", "crates/measure/src/diagnose"].map(|place| root().join(place)));
    let mut seen = 0;
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        for span in code_spans(&read(document)) {
            let plain = span.chars().all(|letter| letter.is_ascii_alphanumeric() || "/_.-".contains(letter));
            let names_a_place = span.ends_with('/') || span.ends_with(".rs") || span.starts_with("crates/");
            // `product.rs` stands for all files of that name.
            if !plain
                || !names_a_place
                || span.starts_with('/')
                || span == "product.rs"
                || span == "machine.rs"
                || span == "mod.rs"
            {
                continue;
            }
            seen += 1;
            assert!(
                places.iter().any(|place| place.join(&span).exists()),
                "{document}: `{span}` is not there"
            );
        }
    }
    assert!(seen > 5, "the documents name places: {seen}");
}

/// A page that explains everything is read by nobody.
#[test]
fn the_first_pages_are_short() {
    for (document, most) in [("README.md", 8_000), ("ARCHITECTURE.md", 10_000)] {
        let bytes = read(document).len();
        assert!(bytes <= most, "{document} has {bytes} bytes, {most} at most");
    }
}

/// Lines of prose fit a terminal; tables, outputs and links need not.
#[test]
fn prose_is_wrapped_at_110_columns() {
    for document in documents().iter().filter(|name| *name != "CHANGELOG.md" && *name != "CONTRIBUTING.md") {
        let mut inside = false;
        for (line, text) in read(document).lines().enumerate() {
            inside ^= text.trim_start().starts_with("```");
            let free = inside || text.starts_with('|') || text.contains("](") || text.starts_with(['<', ' ']);
            let wide = text.chars().count();
            assert!(free || wide <= 110, "{document}:{}: {wide} columns", line + 1);
        }
    }
}

#[test]
fn the_changelog_has_the_version() {
    let heading = format!("## [{}]", env!("CARGO_PKG_VERSION"));
    assert!(read("CHANGELOG.md").contains(&heading), "CHANGELOG.md has no {heading}");
}

#[test]
fn every_finding_and_flag_is_documented() {
    let fields = read("docs/run-json.md");
    let sources = root().join("crates/measure/src");
    let mut ids = Vec::new();
    let entries = |folder: &str| std::fs::read_dir(sources.join(folder)).expect("findings").flatten();
    for entry in entries("diagnose/findings").chain(entries("diagnose/findings/map")) {
        let path = entry.path();
        if path.is_file() && !path.ends_with("tests.rs") {
            ids.extend(finding_ids(&std::fs::read_to_string(path).expect("a finding's file")));
        }
    }
    assert!(ids.len() > 10, "{ids:?}");
    let trust = std::fs::read_to_string(sources.join("measure/trust.rs")).expect("the flags");
    let flags: Vec<String> = trust
        .lines()
        .filter(|line| line.trim().starts_with("add("))
        .filter_map(|line| Some(line.rsplit_once(", \"")?.1.split('"').next()?.to_string()))
        .collect();
    assert!(flags.len() > 4, "{flags:?}");
    for name in ids.iter().chain(&flags) {
        assert!(fields.contains(&format!("`\"{name}\"`")), "docs/run-json.md lacks `\"{name}\"`");
    }
}

/// The first text of each `Finding::loss("…`, `slow`, `note` or `new`.
fn finding_ids(text: &str) -> Vec<String> {
    let made = text.split("Finding::").skip(1);
    let made =
        made.filter(|rest| ["loss(", "slow(", "note(", "new("].iter().any(|name| rest.starts_with(name)));
    made.filter_map(|rest| rest.split('"').nth(1).map(String::from)).collect()
}

mod the_search_itself {
    use super::*;

    #[test]
    fn finds_our_command_lines() {
        let words = |line: &str| our_words(line).map(|words| words.join(" "));
        assert_eq!(
            words("$ LINERATE_KEY=ab linerate run --peer host").as_deref(),
            Some("linerate run --peer host")
        );
        assert_eq!(words("cargo run --release -- probe | head").as_deref(), Some("linerate probe"));
        assert_eq!(
            words("linerate-wall demo --tiles 2x2").as_deref(),
            Some("linerate wall demo --tiles 2x2")
        );
        assert_eq!(words("linerate 0.2.0 on vm, disk vda to loopback"), None);
        assert_eq!(words("linerate: source x: not there"), None);
        assert_eq!(words("cargo build --release"), None);
        assert!(parses(&["linerate".into(), "fly".into()]).is_err());
    }

    #[test]
    fn finds_sections() {
        let found = sections("# A, b?\n```\n# no\n```\n## The whole: `run`\n#no\n");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a-b", "the-whole-run"]);
    }

    #[test]
    fn joins_continued_lines() {
        assert_eq!(code_lines("a\n```\nlinerate run \\\n  --json\nb\n```\nc"), ["linerate run --json", "b"]);
        assert_eq!(code_spans("`a` b `c d`\n```\n`e`\n```"), ["a", "c d"]);
    }
}
