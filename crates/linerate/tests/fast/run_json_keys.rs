//! docs/run-json.md against the types that are written: every key is documented, every documented key is
//! there.
//!
//! The keys are read from the source of the types, from `Run` down through the types of its fields, so that a
//! key which no sample has counts, too. What serde is shown by attributes (`rename`, `flatten`, `skip`) is
//! followed.

use crate::support::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A type that serialises: where it is, and its fields with their keys.
struct Written {
    file: PathBuf,
    /// Key (none: flattened) and the field's line.
    fields: Vec<(Option<String>, String)>,
}

type Types = BTreeMap<String, Vec<Written>>;

fn types() -> Types {
    let mut types = Types::new();
    for entry in std::fs::read_dir(root().join("crates")).expect("the crates").flatten() {
        below(&entry.path().join("src"), &mut types);
    }
    types
}

fn below(folder: &Path, types: &mut Types) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            below(&path, types);
        } else if path.extension().is_some_and(|end| end == "rs") {
            of_file(&path, types);
        }
    }
}

/// Structs and enums of one file, as rustfmt leaves them: a field a line, or a variant with its fields a
/// line.
fn of_file(path: &Path, types: &mut Types) {
    let text = std::fs::read_to_string(path).expect("a source file");
    let mut lines = text.lines();
    let mut attributes = String::new();
    while let Some(line) = lines.next() {
        let code = line.trim();
        if code.starts_with("#[") || (attributes.matches('[').count() > attributes.matches(']').count()) {
            attributes += code;
            continue;
        }
        if code.starts_with("//") {
            continue;
        }
        if let Some(name) = opens_type(code).filter(|_| attributes.contains("Serialize")) {
            let end = line.replace(code, "}");
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
            let mut fields = fields(&body);
            // An enum with a tag has that as a key.
            let tag = attributes.split_once("tag = \"").and_then(|(_, after)| after.split('"').next());
            fields.extend(tag.map(|tag| (Some(tag.to_string()), String::new())));
            let written = Written { file: path.to_path_buf(), fields };
            types.entry(name).or_default().push(written);
        }
        attributes.clear();
    }
}

/// `pub struct Run {`, `enum Access {`; generic ones are transparent (`Fact`).
fn opens_type(code: &str) -> Option<String> {
    let mut words = code.strip_suffix(" {")?.split(' ');
    let name = words.find(|word| ["struct", "enum"].contains(word)).and_then(|_| words.next())?;
    name.chars().all(char::is_alphanumeric).then(|| name.to_string())
}

fn fields(body: &[&str]) -> Vec<(Option<String>, String)> {
    let mut fields = Vec::new();
    let mut attributes = String::new();
    for line in body.iter().map(|line| line.trim()).filter(|line| !line.starts_with("//")) {
        if line.starts_with("#[") {
            attributes += line;
            continue;
        }
        let skipped = attributes.contains("serde(skip)");
        for name in field_names(line).into_iter().filter(|_| !skipped) {
            let renamed = attributes.split_once("rename = \"").and_then(|(_, after)| after.split('"').next());
            let key = renamed.map_or(name, str::to_string);
            fields.push(((!attributes.contains("flatten")).then_some(key), line.to_string()));
        }
        attributes.clear();
    }
    fields
}

/// The names before a single colon: `pub name: Type,`, `Mixed { read_share: f64 },`.
fn field_names(line: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in line.match_indices(": ") {
        let word = line[..at].rsplit([' ', '(', '{', ',']).next().unwrap_or_default();
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if !word.is_empty() && word.chars().all(is_name) {
            names.push(word.to_string());
        }
    }
    names
}

/// Type names are unique within a crate where they are written; the same file's and the same crate's come
/// first.
fn find<'t>(types: &'t Types, name: &str, from: &Path) -> Option<&'t Written> {
    let named = types.get(name)?;
    let crate_of = |path: &Path| {
        path.strip_prefix(root().join("crates"))
            .ok()
            .and_then(|path| path.iter().next())
            .map(ToOwned::to_owned)
    };
    let own_file = named.iter().find(|written| written.file == from);
    own_file
        .or_else(|| named.iter().find(|written| crate_of(&written.file) == crate_of(from)))
        .or(named.first())
}

/// All keys from a type down, but for the types that have a section of their own.
fn keys(types: &Types, of: (&str, &str), apart: &[&str]) -> BTreeSet<String> {
    let start = root().join("crates").join(of.0).join("src/lib.rs");
    let first = find(types, of.1, &start).unwrap_or_else(|| panic!("no type {} in {}", of.1, of.0));
    let (mut keys, mut done, mut next) = (BTreeSet::new(), Vec::new(), vec![first]);
    while let Some(written) = next.pop() {
        if done.iter().any(|other| std::ptr::eq(*other, written)) {
            continue;
        }
        done.push(written);
        for (key, line) in &written.fields {
            keys.extend(key.clone());
            let after = line.split_once(": ").map_or("", |(_, after)| after);
            let words = after.split(|c: char| !c.is_alphanumeric());
            // An alias: `Measurements` are a list of `Measurement`.
            let words = words.flat_map(|word| [word, word.strip_suffix('s').unwrap_or(word)]);
            let types_of_it = words.filter(|word| !apart.contains(word));
            next.extend(types_of_it.filter_map(|word| find(types, word, &written.file)));
        }
    }
    keys
}

/// Of each heading of level 2 its text.
fn sections(text: &str) -> BTreeMap<String, String> {
    let mut sections = BTreeMap::new();
    for part in text.split("\n## ").skip(1) {
        let (heading, body) = part.split_once('\n').unwrap_or((part, ""));
        sections.insert(heading.replace('`', ""), body.to_string());
    }
    sections
}

/// What stands between backquotes and is a key, or a path of keys: `measurements[].streams.job`. A value has
/// quotes.
fn documented(text: &str) -> BTreeSet<String> {
    let spans = text.split('`').skip(1).step_by(2);
    let path = |span: &&str| {
        let part = |part: &str| {
            let part = part.strip_suffix("[]").unwrap_or(part);
            part.starts_with(|c: char| c.is_ascii_lowercase())
                && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        };
        span.split('.').all(part)
    };
    spans
        .filter(path)
        .flat_map(|path| path.split('.'))
        .map(|part| part.trim_end_matches("[]").to_string())
        .collect()
}

/// Headings, the types (crate, name) whose keys they hold, and the types that have sections of their own.
type Section = (&'static [&'static str], &'static [(&'static str, &'static str)], &'static str);

/// Sections of the page, and the types whose keys they are.
const SECTIONS: [Section; 11] = [
    (
        &["Top level"],
        &[("measure", "Run")],
        "Machine Goal Plan Measurement Diagnosis MeasuredLedger TestOutcome Scaling LoadCurve RunPower TransferResult \
         ServedResult FleetResult",
    ),
    (&["machine"], &[("machine", "Machine")], ""),
    (&["goal"], &[("model", "Goal")], ""),
    (&["plan"], &[("model", "Plan")], "Resource"),
    (
        &["measurements[]", "One stage"],
        &[
            ("measure", "Measurement"),
            ("measure", "Scaling"),
            ("measure", "LoadCurve"),
            ("measure", "MeasuredLedger"),
            ("transport", "TestOutcome"),
        ],
        "Finding",
    ),
    (&["diagnosis"], &[("measure", "Diagnosis")], "Resource"),
    (&["resources[]"], &[("model", "Resource")], ""),
    (&["power"], &[("measure", "RunPower")], ""),
    (&["transfer"], &[("measure", "TransferResult")], ""),
    (&["served"], &[("measure", "ServedResult")], ""),
    (&["fleet"], &[("measure", "FleetResult")], "Machine CoreUse"),
];

#[test]
fn the_page_of_run_json_has_the_keys_of_the_types_and_no_others() {
    let types = types();
    let text = std::fs::read_to_string(root().join("docs/run-json.md")).expect("the page");
    let page = sections(&text);
    let all: BTreeSet<String> = SECTIONS
        .iter()
        .flat_map(|(_, roots, _)| roots.iter())
        .flat_map(|root| keys(&types, *root, &[]))
        .collect();
    assert!(all.len() > 300, "the reader of the types has lost its way: {} keys", all.len());
    let mut wrong = Vec::new();
    for (headings, roots, apart) in SECTIONS {
        let text: String =
            headings.iter().map(|heading| page.get(*heading).expect(heading).as_str()).collect();
        let documented = documented(&text);
        let apart: Vec<&str> = apart.split(' ').collect();
        let written: BTreeSet<String> = roots.iter().flat_map(|root| keys(&types, *root, &apart)).collect();
        let missing = written.iter().filter(|key| !documented.contains(*key));
        wrong.extend(missing.map(|key| format!("{}: `{key}` is not documented", headings[0])));
        // What is in another section may be named here.
        let gone = documented.iter().filter(|key| !all.contains(*key));
        wrong.extend(gone.map(|key| format!("{}: no type has `{key}`", headings[0])));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
