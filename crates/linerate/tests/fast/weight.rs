//! What this tree weighs for those who must carry it, and that it does not grow: each figure has a bound, which goes down
//! with the figure.

use crate::layering::rust_files;
use clap::Command;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What is left of each after a change is its bound; the circles that are left are printed by the test.
const BOUNDS: [(&str, usize); 10] = [
    ("product lines", 143_621),
    ("test lines", 81_428),
    ("product files", 849),
    ("circles of files that import each other", 4),
    ("files in the largest circle", 6),
    ("options of all commands", 370),
    ("clock readings and sleeps outside system", 2),
    ("sleeps that no stop ends", 35),
    ("files outside facts that name readings of the host's counters", 10),
    ("files outside transport that take rates between marks of a flow", 4),
];

/// What a host did between two moments is the difference of two of these, which `facts::host` makes.
const HOST_READINGS: [&str; 7] = [
    "CpuTimes",
    "ProcessTable",
    "NicCounters",
    "parse_diskstats",
    "net_dev(",
    "Throttle::read",
    "process_cpu(",
];

/// How fast a flow is between two moments is the difference of two marks, which `measure`'s `window` makes.
const FLOW_RATES: [&str; 3] = ["rate_since(", "bytes_nanos", ".nanos.saturating_sub("];

/// Product code asks `linerate_system::clock` instead, which a test can simulate.
const STD_CLOCK: [&str; 3] = ["Instant::now", "SystemTime::now", "thread::sleep"];

#[test]
fn the_tree_weighs_no_more_than_its_bounds() {
    let sources: Vec<Source> = rust_files().into_iter().map(|(path, text)| source(path, &text)).collect();
    let product: Vec<&Source> = sources.iter().filter(|source| !source.is_test).collect();
    let circles = circles(&imports(&product));
    let outside = product.iter().filter(|source| !source.path.starts_with("system"));
    let weights = [
        product.iter().map(|source| source.product_lines).sum(),
        sources.iter().map(|source| source.test_lines).sum(),
        product.len(),
        circles.len(),
        circles.iter().map(Vec::len).max().unwrap_or(0),
        options(&linerate::cli::definition()),
        outside.clone().map(|source| calls(&source.product, &STD_CLOCK)).sum(),
        outside.clone().map(|source| calls(&source.product, &["clock::sleep"])).sum(),
        outside.filter(|source| !source.path.starts_with("facts") && names(source, &HOST_READINGS)).count(),
        product.iter().filter(|s| !s.path.starts_with("transport") && names(s, &FLOW_RATES)).count(),
    ];
    for circle in &circles {
        let files: Vec<String> =
            circle.iter().map(|file| product[*file].path.display().to_string()).collect();
        println!("circle of {}: {}", files.len(), files.join(", "));
    }
    let mut passed = Vec::new();
    for ((figure, bound), weight) in BOUNDS.into_iter().zip(weights) {
        println!("{weight:>7} {figure}, {bound} at most");
        if weight > bound {
            passed.push(format!("{weight} {figure}, and {bound} are the bound"));
        }
    }
    assert!(
        passed.is_empty(),
        "{}: take something away in its place. A bound goes down with its figure, and never up without a page in \
         docs/decisions that says why",
        passed.join("; ")
    );
}

/// A file, its lines without blanks and comments.
struct Source {
    /// Below `crates/`.
    path: PathBuf,
    is_test: bool,
    product: String,
    product_lines: usize,
    test_lines: usize,
}

/// Tests are a crate, a folder, a file, or items behind `#[cfg(test)]`.
fn source(path: PathBuf, text: &str) -> Source {
    let code = |line: &&str| !line.is_empty() && !line.starts_with("//");
    let mut lines = text.lines().map(str::trim).filter(code);
    let is_test = path
        .iter()
        .filter_map(|name| name.to_str())
        .any(|name| name.starts_with("tests") || name == "testing");
    let (mut product, mut product_lines, mut test_lines) = (String::new(), 0, 0);
    while let Some(line) = lines.next() {
        if is_test {
            test_lines += 1;
        } else if line.starts_with("#[cfg(test)]") {
            test_lines += 1 + item_lines(&mut lines);
        } else {
            product.push_str(line);
            product.push('\n');
            product_lines += 1;
        }
    }
    Source { path, is_test, product, product_lines, test_lines }
}

/// Takes an item: up to the brace that closes it, or to its semicolon.
fn item_lines<'a>(lines: &mut impl Iterator<Item = &'a str>) -> usize {
    let (mut depth, mut opened, mut count) = (0, false, 0);
    for line in lines {
        count += 1;
        opened |= line.contains('{');
        depth += line.matches('{').count() as isize - line.matches('}').count() as isize;
        if opened && depth <= 0 || !opened && line.ends_with(';') {
            break;
        }
    }
    count
}

fn calls(code: &str, names: &[&str]) -> usize {
    names.iter().map(|name| code.matches(name).count()).sum()
}

fn names(source: &Source, words: &[&str]) -> bool {
    calls(&source.product, words) > 0
}

/// Those with a name, of all commands that are not hidden; `--help` is each command's.
fn options(command: &Command) -> usize {
    let counts = |name: &str| name != "help";
    let own = command.get_arguments().filter(|one| one.get_long().is_some_and(counts) && !one.is_hide_set());
    let below = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    own.count() + below.map(options).sum::<usize>()
}

/// For each file the others that it names by `crate::`, `super::` or `self::`.
fn imports(product: &[&Source]) -> Vec<BTreeSet<usize>> {
    let modules: Vec<Vec<String>> = product.iter().map(|source| module_of(&source.path)).collect();
    let files: BTreeMap<&[String], usize> =
        modules.iter().enumerate().map(|(file, module)| (&module[..], file)).collect();
    let imports_of = |(file, source): (usize, &&Source)| {
        let target = |path: Vec<&str>| {
            let mut module = modules[file].clone();
            for segment in path {
                match segment {
                    "crate" => module.truncate(1),
                    "self" => {}
                    "super" => drop(module.pop()),
                    name => module.push(name.into()),
                }
            }
            // What follows the module is an item of it.
            while !module.is_empty() && !files.contains_key(&module[..]) {
                module.pop();
            }
            files.get(&module[..]).copied()
        };
        paths(&source.product).into_iter().filter_map(target).filter(|other| *other != file).collect()
    };
    product.iter().enumerate().map(imports_of).collect()
}

/// `[crate, module, …]` of `crate/src/module/….rs`.
fn module_of(path: &Path) -> Vec<String> {
    let whole = path.with_extension("");
    let mut module: Vec<String> = whole.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    module.retain(|name| name != "src");
    module.pop_if(|last| last == "mod" || last == "lib");
    module
}

/// All paths in the code that begin at the crate or nearby, those of a `use` with braces one by one.
fn paths(code: &str) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    for at in ["crate::", "super::", "self::"]
        .into_iter()
        .flat_map(|root| code.match_indices(root))
        .map(|(at, _)| at)
    {
        let inner = |before: char| before.is_alphanumeric() || "_:$".contains(before);
        if !code[..at].ends_with(inner) && !code[..at].ends_with("(in ") {
            follow(&code[at..], &mut found);
        }
    }
    found
}

fn follow<'a>(rest: &'a str, found: &mut Vec<Vec<&'a str>>) {
    let (mut path, mut open, mut last) = (Vec::new(), Vec::new(), "::");
    for token in tokens(rest) {
        let is_word = token.starts_with(|c: char| c.is_alphanumeric() || "_*".contains(c));
        match token {
            "::" => {}
            "{" if last == "::" => open.push(path.len()),
            "," | "}" if !open.is_empty() => {
                found.push(path.clone());
                path.truncate(open.last().copied().unwrap_or(0));
                if token == "}" && open.pop().is_some() && open.is_empty() {
                    return;
                }
            }
            word if is_word && matches!(last, "::" | "{" | ",") => path.push(word),
            // `as` another name.
            _ if is_word && !open.is_empty() => {}
            _ => break,
        }
        last = token;
    }
    found.push(path);
}

fn tokens(mut rest: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        rest = rest.trim_start();
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let sign = if rest.starts_with("::") { 2 } else { rest.chars().next()?.len_utf8() };
        let (token, after) = rest.split_at(if word > 0 { word } else { sign });
        rest = after;
        Some(token)
    })
}

/// Files of which each reaches each other one by imports.
fn circles(imports: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let reached = |from: usize| {
        let (mut seen, mut pending) = (BTreeSet::new(), vec![from]);
        while let Some(file) = pending.pop() {
            pending.extend(imports[file].iter().filter(|next| seen.insert(**next)));
        }
        seen
    };
    let all: Vec<BTreeSet<usize>> = (0..imports.len()).map(reached).collect();
    let circle =
        |file: usize| all[file].iter().copied().filter(|other| all[*other].contains(&file)).collect();
    let found: BTreeSet<Vec<usize>> =
        (0..imports.len()).filter(|file| all[*file].contains(file)).map(circle).collect();
    found.into_iter().collect()
}

#[test]
fn a_circle_is_found_through_braces_and_calls() {
    let file = |path: &str, text: &str| source(PathBuf::from(path), text);
    let files = [
        file("a/src/lib.rs", "mod b;\nmod c;"),
        file("a/src/b.rs", "use super::{d::{self, D as E}, c::C};\npub(in crate::e) struct B;"),
        file("a/src/c.rs", "fn c() { crate::d::d() }"),
        file("a/src/d/mod.rs", "fn d() {}\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}"),
        file("a/src/d/e.rs", "use super::super::b::B;"),
    ];
    let product: Vec<&Source> = files.iter().collect();
    let found = imports(&product);
    assert_eq!(found, [vec![], vec![2, 3], vec![3], vec![], vec![1]].map(BTreeSet::from_iter));
    assert!(circles(&found).is_empty() && files[3].test_lines == 4);
    let closed = [file("a/src/b.rs", "use super::c::C;"), file("a/src/c.rs", "use crate::b::B;")];
    assert_eq!(circles(&imports(&closed.iter().collect::<Vec<_>>())), [[0, 1]]);
}
