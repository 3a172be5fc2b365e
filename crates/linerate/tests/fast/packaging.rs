//! The systemd unit: what it must say, that its words are words of the program, and what systemd itself
//! thinks of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn unit() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/linerate-agent.service");
    std::fs::read_to_string(path).expect("the unit")
}

/// All values of a setting, in order.
fn values<'a>(unit: &'a str, name: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('=')).collect()
}

#[test]
fn the_unit_gives_no_right_that_the_agent_does_not_need() {
    let unit = unit();
    for name in [
        "DynamicUser",
        "NoNewPrivileges",
        "ProtectHome",
        "PrivateTmp",
        "PrivateDevices",
        "ProtectKernelTunables",
        "ProtectKernelModules",
        "ProtectKernelLogs",
        "ProtectControlGroups",
        "ProtectClock",
        "ProtectHostname",
        "RestrictNamespaces",
        "RestrictRealtime",
        "RestrictSUIDSGID",
        "LockPersonality",
        "MemoryDenyWriteExecute",
    ] {
        assert_eq!(values(&unit, name), ["yes"], "{name}");
    }
    assert_eq!(values(&unit, "ProtectSystem"), ["strict"]);
    assert_eq!(
        (values(&unit, "CapabilityBoundingSet"), values(&unit, "AmbientCapabilities")),
        (vec![""], vec![""])
    );
    assert_eq!(values(&unit, "RestrictAddressFamilies"), ["AF_INET AF_INET6 AF_NETLINK AF_UNIX"]);
    let calls = values(&unit, "SystemCallFilter").join("\n");
    for call in ["@system-service", "io_uring_setup", "io_uring_enter", "io_uring_register", "~@privileged"] {
        assert!(calls.contains(call), "{call}");
    }
    for bound in ["LimitMEMLOCK", "LimitNOFILE", "TasksMax", "MemoryMax"] {
        assert_eq!(values(&unit, bound).len(), 1, "{bound}");
    }
    assert_eq!(values(&unit, "StandardOutput"), ["null"], "the key is not for the journal");
}

#[test]
fn its_words_are_words_of_the_program() {
    let unit = unit();
    let example =
        unit.lines().find_map(|line| line.split_once("LINERATE_AGENT_OPTIONS=")).expect("an example").1;
    let start = values(&unit, "ExecStart")[0];
    let (_, words) = start.split_once(' ').expect("words");
    let state = tempfile::tempdir().expect("a directory");
    let words = words.replace("${STATE_DIRECTORY}", state.path().to_str().expect("a path"));
    let words = words.replace("$LINERATE_AGENT_OPTIONS", example);
    // An address of no interface here: it ends after all words were understood.
    let mut command = crate::support::linerate();
    let output = command.args(words.split(' ')).args(["--listen", "192.0.2.1:0"]).output().expect("linerate");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("192.0.2.1"), "{said}");
    assert!(state.path().join("key").is_file(), "the key is made where the unit says");
}

fn analyze(words: &[&str], unit: &Path) -> Option<Output> {
    Command::new("systemd-analyze").args(words).arg(unit).output().ok()
}

#[test]
fn systemd_finds_nothing_wrong() {
    let folder = tempfile::tempdir().expect("a directory");
    let path: PathBuf = folder.path().join("linerate-agent.service");
    // The program lies where cargo built it.
    std::fs::write(&path, unit().replace("/usr/bin/linerate", env!("CARGO_BIN_EXE_linerate")))
        .expect("a unit");
    let Some(verified) = analyze(&["verify", "--recursive-errors=no"], &path) else {
        println!("skipped: no systemd-analyze here");
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && !said.contains("linerate-agent.service"), "{said}");
    // `--offline` came with systemd 250.
    let offline = analyze(&["security", "--offline=true", "--threshold=20", "--no-pager"], &path)
        .expect("systemd-analyze");
    let told = String::from_utf8_lossy(&offline.stdout);
    assert!(offline.status.success() || !told.contains("Overall exposure"), "{told}");
}

#[test]
fn packages_hold_what_a_system_looks_for() {
    let output = tempfile::tempdir().expect("a folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("packaging/build"));
    command.args(["--fast", "--program", env!("CARGO_BIN_EXE_linerate"), "--output"]).arg(output.path());
    let built = command.output().expect("a script");
    let said = String::from_utf8_lossy(&built.stderr);
    if built.status.code() == Some(3) {
        println!("skipped: packages: {}", said.trim());
        return;
    }
    assert!(built.status.success(), "{said}");
    let name = format!("linerate-{}-{}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
    let unpacked = output.path().join("unpacked");
    std::fs::create_dir(&unpacked).expect("a folder");
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(output.path().join(format!("{name}.tar.xz"))).arg("-C").arg(&unpacked);
    assert!(tar.status().expect("tar").success());
    let tree = unpacked.join(&name).join("usr");
    for file in [
        "share/man/man1/linerate.1.gz",
        "share/man/man1/linerate-run.1.gz",
        "share/bash-completion/completions/linerate",
        "share/zsh/vendor-completions/_linerate",
        "share/fish/vendor_completions.d/linerate.fish",
        "lib/systemd/system/linerate-agent.service",
        "share/doc/linerate/copyright",
        "share/doc/linerate/third-party.gz",
    ] {
        let length =
            std::fs::metadata(tree.join(file)).unwrap_or_else(|error| panic!("{file}: {error}")).len();
        assert!(length > 200, "{file}: {length} bytes");
    }
    let version = Command::new(tree.join("bin/linerate")).arg("--version").output().expect("linerate");
    assert_eq!(String::from_utf8_lossy(&version.stdout), format!("linerate {}\n", env!("CARGO_PKG_VERSION")));
    let parts = std::fs::read_to_string(output.path().join(format!("{name}.cdx.json"))).expect("a list");
    let parts: serde_json::Value = serde_json::from_str(&parts).expect("JSON");
    let parts = parts["components"].as_array().expect("components");
    for library in ["clap", "io-uring", "snow", "tokio"] {
        let part = parts.iter().find(|part| part["name"] == library);
        let licences = part.map(|part| part["licenses"][0]["expression"].as_str().unwrap_or_default().len());
        assert!(licences.is_some_and(|letters| letters >= 3), "{library}: {part:?}");
    }
    assert!(!parts.iter().any(|part| part["name"] == "proptest"), "what only tests use is not in it");
}
