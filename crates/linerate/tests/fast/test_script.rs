//! `./test` itself, with a cargo that only says what it was asked: without nextest, network or root it says what is
//! missing in one sentence each, and runs all tests that are left.

use crate::support::process::Ends;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `./test` takes from the system, without apt, sudo and the tools of the lab.
const TOOLS: [&str; 18] = [
    "awk", "basename", "bash", "cat", "dirname", "env", "grep", "mktemp", "nproc", "readlink", "rm", "sed",
    "sort", "tail", "tee", "touch", "uniq", "wc",
];

/// A cargo that has nextest, or cannot get it; what it is asked goes to the file `asked`.
const CARGO: &str = r#"#!/usr/bin/env bash
echo "$*" >>"$ASKED"
echo "${LINERATE_CAPTURES:-} ${LINERATE_REFERENCE:-}" >"$ASKED.shared"
case "$1" in
  nextest)
    $HAS_NEXTEST || exit 101
    if [[ $2 == list ]]; then printf '%s\n' "linerate::lab table::a" "linerate::lab table::b" "linerate::alone c"; fi
    [[ $2 == run ]] || exit 0
    mkdir -p target/nextest/default
    echo '<system-err>skipped: no &quot;lab&quot; here</system-err>' >target/nextest/default/junit.xml
    echo '     Summary [   1.000s] 7 tests run: 7 passed (1 flaky), 0 skipped'
    echo '   FLAKY 2/2 [   0.100s] linerate::fast disk::slow'
    ;;
  install) echo 'error: failed to fetch the index: no network' >&2; exit 101 ;;
  test)
    echo 'skipped: a lab needs root'
    echo "test result: ok. 3 passed; ${FAILED:-0} failed; 0 ignored; 0 measured; 0 filtered out"
    exit "${FAILED:-0}"
    ;;
esac
"#;

/// A folder with the script, the tools and the cargo.
struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        let stage = Stage { folder: tempfile::tempdir().expect("a folder") };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let bin = stage.root().join("bin");
        for folder in ["bin", ".ci", "lab", "crates/linerate", "crates/system/tests"] {
            std::fs::create_dir_all(stage.root().join(folder)).expect("a folder");
        }
        for file in ["test", ".ci/tool", "lab/acceptance.sh"] {
            std::fs::copy(root.join(file), stage.root().join(file)).expect("copied");
        }
        std::fs::write(stage.root().join("crates/system/tests/drop_trace.rs"), "").expect("a file");
        let path = std::env::var("PATH").expect("PATH");
        let found = |tool: &str| path.split(':').map(|at| Path::new(at).join(tool)).find(|at| at.is_file());
        for tool in TOOLS.iter().chain(&["mkdir"]) {
            symlink(found(tool).unwrap_or_else(|| panic!("no {tool}")), bin.join(tool)).expect("a link");
        }
        stage.program("cargo", CARGO);
        stage.program("id", "#!/usr/bin/env bash\necho 1000\n");
        stage
    }

    /// The checkout, beside which other folders may lie.
    fn root(&self) -> PathBuf {
        self.folder.path().join("checkout")
    }

    fn program(&self, name: &str, text: &str) {
        let path = self.root().join("bin").join(name);
        std::fs::write(&path, text).expect("a program");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a mode");
    }

    /// Exit status, what it said, and what cargo was asked.
    fn run(&self, nextest: bool, settings: &[(&str, &str)], words: &[&str]) -> (Option<i32>, String, String) {
        let asked = self.root().join("asked");
        let _ = std::fs::remove_file(&asked);
        let bin = self.root().join("bin");
        let mut command = Command::new(bin.join("bash"));
        command.arg(self.root().join("test")).args(words).env_clear().env("PATH", &bin);
        command.env("HAS_NEXTEST", nextest.to_string()).env("ASKED", &asked).envs(settings.iter().copied());
        let output = command.ended();
        let asked = std::fs::read_to_string(asked).unwrap_or_default();
        (output.code(), output.text(), asked)
    }
}

fn says(said: &str, part: &str) {
    assert_eq!(said.matches(part).count(), 1, "“{part}” once in:\n{said}");
}

#[test]
fn without_nextest_and_network_cargo_test_runs_everything() {
    let (status, said, asked) = Stage::new().run(false, &[], &[]);
    assert_eq!(status, Some(0), "{said}");
    says(
        &said,
        "test: no cargo-nextest (error: failed to fetch the index: no network): cargo test runs all tests",
    );
    says(&said, "test result: ok. 6 passed; 0 failed; 0 ignored\n");
    says(&said, "test: 2 skipped: a lab needs root");
    assert!(
        asked.contains("test --workspace --locked --no-fail-fast --lib --bins --test fast --test drop_trace")
    );
    assert!(asked.contains("--test alone --test lab -- --show-output --test-threads 1"), "{asked}");
}

#[test]
fn without_root_what_is_left_out_and_not_installed_is_said() {
    let (status, said, _) = Stage::new().run(true, &[], &[]);
    assert_eq!(status, Some(0), "{said}");
    says(&said, "test: not installed, for want of root or apt: ");
    // Before the build, and at the end.
    assert_eq!(
        said.matches("test: left out: the lab (throttled disks, shaped NICs, a peer): it needs root").count(),
        2
    );
}

#[test]
fn what_passed_only_on_a_retry_is_called_flaky_at_the_end() {
    let (status, said, asked) = Stage::new().run(true, &[], &[]);
    assert_eq!(status, Some(0), "{said}");
    let end = said.rsplit_once("of installing").expect("the summary").1;
    says(end, "Summary [   1.000s] 7 tests run: 7 passed (1 flaky)");
    says(end, "test: flaky, passed only on a retry: linerate::fast disk::slow");
    says(end, "test: 1 skipped: no \"lab\" here");
    says(end, "test: 1 tests skipped in all");
    assert!(asked.contains("nextest run --workspace --locked"), "{asked}");
}

#[test]
fn a_third_of_the_long_tests_runs_and_the_run_says_which() {
    let stage = Stage::new();
    let (status, said, asked) = stage.run(true, &[("LINERATE_THIRD", "2")], &[]);
    assert_eq!(status, Some(0), "{said}");
    says(
        &said,
        "test: left out: 2 tests that make a lab or move data for seconds: this run has third 2 of 3, LINERATE_THIRD=all has all",
    );
    let filter = "(binary_id(linerate::lab) & test(=table::a)) | (binary_id(linerate::alone) & test(=c))";
    assert!(asked.contains(&format!("-E not (({filter}) | ")), "{asked}");
    // Without a commit nothing is drawn.
    for settings in [&[("LINERATE_THIRD", "all")][..], &[]] {
        let (_, said, asked) = stage.run(true, settings, &[]);
        assert!(!said.contains("third") && !asked.contains("table::a"), "{said}{asked}");
    }
    let (status, said, asked) = stage.run(true, &[("LINERATE_THIRD", "4")], &[]);
    assert_eq!((status, asked.as_str()), (Some(2), ""));
    says(&said, "test: LINERATE_THIRD is 1, 2, 3 or all, not 4");
}

#[test]
fn nothing_is_installed_where_that_is_asked_for() {
    let (status, said, asked) =
        Stage::new().run(false, &[("LINERATE_INSTALL", "0"), ("LINERATE_LAB", "0")], &[]);
    assert_eq!(status, Some(0), "{said}");
    says(&said, "test: no cargo-nextest (LINERATE_INSTALL=0)");
    assert!(!said.contains("installing ") && !asked.contains("install"), "{said}{asked}");
    assert!(said.contains("test: left out: the lab: LINERATE_LAB=0"), "{said}");
}

#[test]
fn a_failure_is_the_exit_status_and_words_are_passed_on() {
    let stage = Stage::new();
    let (status, said, _) = stage.run(false, &[("FAILED", "1")], &[]);
    assert_eq!(status, Some(1), "{said}");
    says(&said, "test result: FAILED. 6 passed; 2 failed");
    says(&said, "test: FAILED");
    let (status, said, asked) = stage.run(true, &[], &["-p", "linerate-facts", "units"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(asked.ends_with("nextest run --locked -p linerate-facts units\n"), "{asked}");
}

#[test]
fn what_lies_beside_the_checkout_is_found_also_where_links_are_text() {
    let stage = Stage::new();
    let beside = |name: &str| stage.folder.path().join(name);
    let shared = || std::fs::read_to_string(stage.root().join("asked.shared")).expect("cargo was asked");
    let (_, said, _) = stage.run(true, &[], &[]);
    assert_eq!(shared(), " \n", "there is nothing");
    says(
        said.rsplit_once("of installing").expect("the summary").1,
        "test: left out: captures of real machines",
    );
    std::fs::create_dir_all(beside("elsewhere/captures")).expect("a folder");
    std::fs::write(beside("shared"), "elsewhere").expect("a link as text");
    stage.run(true, &[], &[]);
    assert!(shared().ends_with("elsewhere/captures \n"), "{}", shared());
    stage.run(true, &[("LINERATE_CAPTURES", "/own"), ("LINERATE_REFERENCE", "/tables")], &[]);
    assert_eq!(shared(), "/own /tables\n");
}

#[test]
fn without_cargo_it_says_where_cargo_is() {
    let stage = Stage::new();
    std::fs::remove_file(stage.root().join("bin/cargo")).expect("removed");
    let (status, said, _) = stage.run(true, &[], &[]);
    assert_eq!(
        (status, said.as_str()),
        (Some(3), "test: there is no cargo; https://rustup.rs installs it\n")
    );
}
