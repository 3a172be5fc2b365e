//! What the manifests of the crates cannot say: who may open `/sys` and `/proc`, who may write settings, that
//! only `system` may be unsafe, and that errors have types where they leave a crate.

pub mod source;

use source::{calls, errors_of_text, proc_or_sys_opened, said};
use std::path::{Path, PathBuf};

#[test]
fn every_crate_but_system_forbids_unsafe_code() {
    let mut seen = 0;
    for entry in std::fs::read_dir(crates()).expect("crates").flatten() {
        let name = entry.file_name();
        for root in ["src/lib.rs", "src/main.rs"] {
            let Ok(text) = std::fs::read_to_string(entry.path().join(root)) else { continue };
            seen += 1;
            let forbids = text.lines().any(|line| line == "#![forbid(unsafe_code)]");
            assert_eq!(forbids, name != "system", "{name:?} {root}: #![forbid(unsafe_code)]");
        }
    }
    assert!(seen > 12, "the search finds the crates: {seen}");
}

#[test]
fn sys_and_proc_are_opened_only_through_sysroot() {
    let broken: Vec<String> = sources()
        .iter()
        .filter(|(file, _)| !file.starts_with("system") && !file.starts_with("facts/src/sysroot"))
        .flat_map(|(file, text)| {
            proc_or_sys_opened(file, text).into_iter().map(move |line| format!("{}:{line}", file.display()))
        })
        .collect();
    assert!(
        broken.is_empty(),
        "these open /sys or /proc themselves; ask a `Sysroot`, so that a recorded tree works: {}",
        broken.join(", ")
    );
}

#[test]
fn only_tune_asks_for_a_writer_of_settings() {
    let mut asked = 0;
    for (file, text) in sources() {
        let lines = calls(&file, &text, "writer");
        if file.starts_with("tune") {
            asked += lines.len();
        } else if !file.starts_with("facts/src/sysroot") {
            assert!(lines.is_empty(), "{}: {lines:?}: only `tune` may write settings", file.display());
        }
    }
    assert!(asked > 0, "the search finds the one door");
}

#[test]
fn only_system_reads_the_clock_and_sleeps() {
    let own = ["Instant::now", "SystemTime::now", "thread::sleep"];
    let is_product = |file: &Path| {
        let is_test = |name: &str| name == "tests" || name.ends_with("_tests");
        !file.starts_with("system")
            && !file.starts_with("testing")
            && !file.with_extension("").iter().any(|part| part.to_str().is_some_and(is_test))
    };
    let broken: Vec<String> = sources()
        .iter()
        .filter(|(file, _)| is_product(file))
        .flat_map(|(file, text)| {
            let lines = own.iter().flat_map(|phrase| said(text, phrase)).chain(calls(file, text, "elapsed"));
            lines.map(move |line| format!("{}:{line}", file.display()))
        })
        .collect();
    assert!(
        broken.is_empty(),
        "these have a clock of their own, which no test can replace; take `linerate_system::clock`, and a `Stop` to \
         wait: {}",
        broken.join(", ")
    );
}

#[test]
fn no_error_is_a_text_across_the_edge_of_a_crate() {
    let broken: Vec<String> = sources()
        .iter()
        .flat_map(|(file, text)| {
            errors_of_text(file, text).into_iter().map(move |line| format!("{}:{line}", file.display()))
        })
        .collect();
    assert!(
        broken.is_empty(),
        "these fail with a text, which callers can only compare; give the error a type: {}",
        broken.join(", ")
    );
}

/// A test that starts linerate in its own way would leave its results among those of whoever runs the tests.
#[test]
fn tests_start_linerate_in_one_place() {
    // In two parts, so that they are not found here.
    let direct =
        ["env!(\"CARGO_BIN_EXE_linerate\")", "program()"].map(|program| format!("Command::new({program})"));
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut pending = vec![tests.clone()];
    let (mut broken, mut seen) = (Vec::new(), 0);
    while let Some(folder) = pending.pop() {
        for path in std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                pending.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            seen += 1;
            if path != tests.join("support/mod.rs") && direct.iter().any(|way| text.contains(way)) {
                broken.push(path);
            }
        }
    }
    assert!(seen > 50 && broken.is_empty(), "these start linerate; take `support::linerate`: {broken:?}");
}

/// Fakes and entry points for fuzzing stay out of the program: cargo joins the features of what it builds together, and a
/// build of the program alone takes none of dev-dependencies.
#[test]
fn only_dev_dependencies_switch_on_what_is_for_tests() {
    let mut seen = 0;
    for entry in std::fs::read_dir(crates()).expect("crates").flatten() {
        let text = std::fs::read_to_string(entry.path().join("Cargo.toml")).expect("a manifest");
        let (product, tests) = text.split_once("[dev-dependencies]").unwrap_or((&text, ""));
        assert!(
            !product.contains("features = [\"testing\"]"),
            "{:?}: `testing` in the program",
            entry.file_name()
        );
        seen += tests.matches("features = [\"testing\"]").count();
    }
    assert!(seen > 2, "the search finds the dev-dependencies: {seen}");
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All product files, by their path below `crates/`, with their text.
pub fn sources() -> Vec<(PathBuf, String)> {
    let is_source = |path: &Path| path.components().nth(1).is_some_and(|folder| folder.as_os_str() == "src");
    let found: Vec<_> = rust_files().into_iter().filter(|(path, _)| is_source(path)).collect();
    assert!(found.len() > 100, "the search finds the product: {}", found.len());
    found
}

/// The same with those of tests, benchmarks and examples.
pub fn rust_files() -> Vec<(PathBuf, String)> {
    let (mut found, mut pending) = (Vec::new(), vec![crates()]);
    while let Some(folder) = pending.pop() {
        for path in std::fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source file");
                found.push((path.strip_prefix(crates()).expect("below crates").to_path_buf(), text));
            }
        }
    }
    found
}

#[test]
fn a_search_is_not_fooled_by_comments_texts_and_tests() {
    let text = "fs::read_to_string(\"/proc/stat\");\nFile::open(&format!(\"/sys/{a}\"))\nsysroot.text(\"/proc/stat\");\n\
                std::fs::read_dir(\n    Path::new(\"/sys/class/net\"))\nfs::read(\"/etc/x\")\n// \
                fs::read(\"/sys\")";
    assert_eq!(proc_or_sys_opened(Path::new("machine/src/probe/cpu.rs"), text), [1, 2, 4]);
    let text =
        "// sysroot.writer()\nsysroot.writer()?;\nlet a = \"s.writer()\";\nmod tests {\n    x.writer();\n}\n";
    assert_eq!(calls(Path::new("tune/src/door.rs"), text, "writer"), [2]);
    let text = "// Instant::now\nlet a = Instant::now();\nlet b = \"Instant::now\";\nmod tests {\n    Instant::now();\n}\n";
    assert_eq!(said(text, "Instant::now"), [2]);
    let text = "pub fn a(\n    b: u8,\n) -> Result<Vec<(u8, u8)>, String> {\n    let c: Result<u8, String> = d;\n}\n\
                fn e() -> Result<u8, String> {}\npub fn f() -> Result<String, Wrong> {}\n\
                pub(crate) fn g() -> Result<u8, String> {}\npub struct H(Result<u8, String>);\n\
                pub struct I {\n    pub j: Result<u8, String>,\n    k: Result<u8, String>,\n}\n\
                pub(crate) struct P {\n    pub q: Result<u8, String>,\n}\n\
                pub trait L {\n    fn m(&self) -> Result<\n        u8,\n        String>;\n}\n\
                impl FromStr for N {\n    type Err = String;\n}\n// pub fn o() -> Result<u8, String>\n";
    assert_eq!(errors_of_text(Path::new("wall/src/layout.rs"), text), [3, 11, 18, 23]);
}
