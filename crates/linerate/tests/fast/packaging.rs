//! The systemd units: what they must say, that their words are words of the program, and what systemd itself
//! thinks of them; the dashboard and the alerts; the packages.

use crate::support::process::{Ends, ProcessEnd};
use crate::support::rights;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    for name in "DynamicUser NoNewPrivileges ProtectHome PrivateTmp PrivateDevices ProtectKernelTunables \
        ProtectKernelModules ProtectKernelLogs ProtectControlGroups ProtectClock ProtectHostname \
        RestrictNamespaces RestrictRealtime RestrictSUIDSGID LockPersonality \
        MemoryDenyWriteExecute"
        .split(' ')
    {
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
    command
        .args(words.split(' '))
        .args(["--listen", "192.0.2.1:0"])
        .ended()
        .gives(3)
        .mentions(&["192.0.2.1"]);
    assert!(state.path().join("key").is_file(), "the key is made where the unit says");
}

/// What the unit of `serve` looks at before it starts: the exit status, and what it says.
fn may_serve(options: &str) -> (Option<i32>, String) {
    let unit = std::fs::read_to_string(packaging().join("linerate-serve.service")).expect("the unit");
    assert_eq!(values(&unit, "Environment"), [""; 0], "nothing is served by default");
    let condition = values(&unit, "ExecCondition")[0].strip_prefix("/bin/sh -c '").expect("a script");
    // As systemd gives it to the shell.
    let script = condition.strip_suffix('\'').expect("its end").replace("$$", "$");
    let mut shell = Command::new("/bin/sh");
    let output = shell.args(["-c", &script]).env("LINERATE_SERVE_OPTIONS", options).ended();
    (output.status.code(), output.stdout)
}

#[test]
fn the_server_of_files_serves_nothing_before_a_token_or_an_address_is_set() {
    for options in ["", "/srv", "/srv --rate-limit 20G --tls"] {
        let (status, said) = may_serve(options);
        assert!(status == Some(1) && said.contains("/etc/default/linerate-serve"), "{options}: {said}");
    }
    for options in ["/srv --token-file /t", "--listen 192.0.2.7 /srv", "/srv --token-file=/t"] {
        assert_eq!(may_serve(options), (Some(0), String::new()), "{options}");
    }
}

fn analyze(words: &[&str], unit: &Path) -> Option<ProcessEnd> {
    rights::there("systemd-analyze").then(|| Command::new("systemd-analyze").args(words).arg(unit).ended())
}

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// The units of all services and timers, by name.
fn units() -> Vec<(String, String)> {
    let mut units = Vec::new();
    for entry in std::fs::read_dir(packaging()).expect("a folder").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".service") || name.ends_with(".timer") {
            units.push((name, std::fs::read_to_string(entry.path()).expect("a unit")));
        }
    }
    assert_eq!(units.len(), 5, "agent, watch, serve, check and its timer");
    units
}

#[test]
fn each_unit_starts_words_of_the_program_and_says_what_to_adapt() {
    for (name, unit) in units().iter().filter(|(name, _)| name.ends_with(".service")) {
        let start = values(unit, "ExecStart")[0];
        let (program, words) = start.split_once(' ').expect("words");
        assert_eq!(program, "/usr/bin/linerate", "{name}");
        let example = unit.lines().find_map(|line| line.strip_prefix("# Such as: ")?.split_once('='));
        let (variable, more) = example.expect("an example of options");
        let words = words.replace("${STATE_DIRECTORY}", "state").replace(&format!("${variable}"), more);
        let refused =
            linerate::cli::try_parse_from(std::iter::once("linerate").chain(words.split(' '))).err();
        assert!(refused.is_none(), "{name}: {}", refused.expect("one"));
        let file = values(unit, "EnvironmentFile")[0];
        assert_eq!(file, format!("-/etc/default/{}", name.trim_end_matches(".service")));
        for setting in ["NoNewPrivileges", "PrivateDevices", "ProtectKernelModules", "MemoryDenyWriteExecute"]
        {
            assert_eq!(values(unit, setting), ["yes"], "{name}: {setting}");
        }
        if name == "linerate-serve.service" {
            // Both have systemd refuse openat2, which confines what is served.
            assert_eq!(values(unit, "DynamicUser").len() + values(unit, "RestrictSUIDSGID").len(), 0);
            let user = std::fs::read_to_string(packaging().join("linerate-serve.conf")).expect("its user");
            assert!(user.contains(&format!("\nu {} -", values(unit, "User")[0])), "{user}");
        } else {
            assert_eq!(values(unit, "DynamicUser"), ["yes"], "{name}");
        }
        assert_eq!(values(unit, "CapabilityBoundingSet"), [""], "{name}");
    }
}

#[test]
fn systemd_finds_nothing_wrong() {
    let folder = tempfile::tempdir().expect("a directory");
    let units = units();
    for (name, unit) in &units {
        // The program lies where cargo built it.
        let unit = unit.replace("/usr/bin/linerate", env!("CARGO_BIN_EXE_linerate"));
        std::fs::write(folder.path().join(name), unit).expect("a unit");
    }
    for (name, _) in &units {
        let path: PathBuf = folder.path().join(name);
        let Some(verified) = analyze(&["verify", "--recursive-errors=no"], &path) else { return };
        let said = &verified.stderr;
        assert!(verified.status.success() && !said.contains("linerate-"), "{name}: {said}");
        if name.ends_with(".timer") {
            continue;
        }
        // In tenths. `--offline` came with systemd 250.
        let offline = analyze(&["security", "--offline=true", "--threshold=20", "--page noner"], &path)
            .expect("systemd-analyze");
        let told = &offline.stdout;
        assert!(offline.status.success() || !told.contains("Overall exposure"), "{name}: {told}");
    }
}

/// Every name of a metric in a text.
fn metrics_named(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    words.filter(|word| word.starts_with("linerate_")).map(String::from).collect()
}

/// Every metric that linerate writes where all is known: of a watch, and of a check.
fn metrics_written() -> BTreeSet<String> {
    let file = packaging().join("../fixtures/run-lab-disks.json");
    let run = linerate::report::read(&file).expect("a run");
    let earlier: Vec<_> = (0..9).map(|_| run.clone()).collect();
    let check = linerate::report::check::check(&run, &earlier, 0).prometheus_text();
    let watch = linerate::watch::prometheus_text(&super::watch::fixture::moment());
    metrics_named(&watch).union(&metrics_named(&check)).cloned().collect()
}

#[test]
fn every_metric_of_dashboard_and_alerts_is_one_that_linerate_writes() {
    let written = metrics_written();
    let dashboard = std::fs::read_to_string(packaging().join("grafana-dashboard.json")).expect("a dashboard");
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    assert!(panels.len() > 10 && panels.iter().all(|panel| panel["title"].is_string()));
    let rules = std::fs::read_to_string(packaging().join("prometheus-rules.yml")).expect("rules");
    for (file, text) in [("dashboard", dashboard.to_string()), ("rules", rules)] {
        let named = metrics_named(&text);
        assert!(named.len() > 7, "{file}: {named:?}");
        let unknown: Vec<_> = named.difference(&written).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?} are not metrics of linerate");
    }
}

#[test]
fn prometheus_takes_the_alerts() {
    if !rights::there("promtool") {
        return;
    }
    let rules = packaging().join("prometheus-rules.yml");
    Command::new("promtool").args(["check", "rules"]).arg(rules).ended().gives(0);
}

#[test]
fn packages_hold_what_a_system_looks_for() {
    let output = tempfile::tempdir().expect("a folder");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new(root.join("packaging/build"));
    // A few words that start each program are packed in its place: what takes long is to compress it, several times over.
    for (name, built) in
        [("program", env!("CARGO_BIN_EXE_linerate")), ("program-wall", env!("CARGO_BIN_EXE_linerate-wall"))]
    {
        let program = output.path().join(name);
        std::fs::write(&program, format!("#!/bin/sh\nexec '{built}' \"$@\"\n")).expect("written");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    command
        .args(["--fast", "--program"])
        .arg(output.path().join("program"))
        .arg("--output")
        .arg(output.path());
    let built = command.ended();
    let said = &built.stderr;
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
    for file in "share/man/man1/linerate.1.gz share/man/man1/linerate-run.1.gz \
        share/man/man1/linerate-wall.1.gz share/bash-completion/completions/linerate \
        share/bash-completion/completions/linerate-wall share/zsh/vendor-completions/_linerate \
        share/zsh/vendor-completions/_linerate-wall share/fish/vendor_completions.d/linerate.fish \
        share/fish/vendor_completions.d/linerate-wall.fish \
        lib/systemd/system/linerate-agent.service lib/systemd/system/linerate-watch.service \
        lib/systemd/system/linerate-serve.service lib/systemd/system/linerate-check.service \
        lib/systemd/system/linerate-check.timer share/doc/linerate/examples/grafana-dashboard.json \
        share/doc/linerate/examples/prometheus-rules.yml \
        share/doc/linerate/examples/pscheduler/README.md \
        share/doc/linerate/examples/pscheduler/linerate/linerate_tool.py \
        share/man/man1/linerate-check.1.gz share/doc/linerate/CHANGELOG.md.gz \
        share/doc/linerate/copyright share/doc/linerate/third-party.gz"
        .split(' ')
    {
        let length =
            std::fs::metadata(tree.join(file)).unwrap_or_else(|error| panic!("{file}: {error}")).len();
        assert!(length > 200, "{file}: {length} bytes");
    }
    assert!(tree.join("lib/sysusers.d/linerate-serve.conf").is_file());
    let plugin = Command::new(tree.join("share/doc/linerate/examples/pscheduler/linerate/enumerate"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output();
    if Command::new("python3").arg("--version").output().is_ok() {
        let said = plugin.expect("an executable").stdout;
        assert!(String::from_utf8_lossy(&said).contains("linerate"), "{said:?}");
    }
    for program in ["linerate", "linerate-wall"] {
        let version = Command::new(tree.join("bin").join(program)).arg("--version").ended();
        assert_eq!(version.stdout, format!("{program} {}\n", env!("CARGO_PKG_VERSION")));
    }
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

/// The gates: a prolog of Slurm, a pod, a workflow. Their words are words of the program.
#[test]
fn the_gates_say_what_the_program_takes() {
    let read = |name: &str| std::fs::read_to_string(packaging().join(name)).expect(name);
    let mut seen = 0;
    let mut takes = |words: Vec<String>| {
        seen += 1;
        let taken =
            linerate::cli::try_parse_from(std::iter::once("linerate".to_string()).chain(words.clone()));
        taken.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    };
    for name in ["slurm-prolog.sh", "ci-gate.yml"] {
        let text =
            read(name).replace("\\\n", "").replace("${LINERATE_FLOW:-}", "").replace("\"$seconds\"", "45");
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            let Some((before, rest)) = line.split_once("linerate ") else { continue };
            if before.contains('=') {
                continue;
            }
            let rest = rest.split(" || ").next().unwrap_or_default();
            let parts = rest.split('\'').enumerate();
            let words = parts.flat_map(|(index, part)| match index % 2 {
                0 => part.split_whitespace().map(String::from).collect::<Vec<_>>(),
                _ => vec![part.to_string()],
            });
            takes(words.collect());
        }
    }
    let pod = read("gate-pod.yaml");
    let args =
        pod.lines().find_map(|line| line.trim().strip_prefix("args: [")?.strip_suffix(']')).expect("words");
    let args = args.split(", ").map(|word| word.trim_matches('"').to_string());
    takes(std::iter::once("run".to_string()).chain(args).collect());
    assert_eq!(seen, 5);
}

/// The prolog with stand-ins for linerate and Slurm: what fails drains the node with its cause, what cannot be judged
/// takes the job.
#[test]
fn the_prolog_drains_a_node_that_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("node.toml"), "").expect("rules");
    let stand_in = |name: &str, script: &str| {
        std::fs::write(at(name), format!("#!/bin/sh\n{script}\n")).expect("written");
        std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(0o755)).expect("a mode");
    };
    stand_in("logger", "exit 0");
    stand_in("scontrol", "echo \"$@\"");
    let prolog = |status: u8, says: &str| {
        stand_in("linerate", &format!("echo '{says}'; [ \"$1\" = probe ] || exit {status}"));
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("/bin/sh");
        shell.arg(packaging().join("slurm-prolog.sh")).env("PATH", path).env("SLURMD_NODENAME", "node7");
        shell.env("LINERATE_RULES", at("node.toml")).env("LINERATE_STATE", at("state")).ended()
    };
    let failed = prolog(5, "failed      path >= 2GB/s: path tcp 1.20 GB/s");
    failed.gives(1).shows(&["NodeName=node7 State=DRAIN Reason=linerate: path >= 2GB/s: path tcp 1.20 GB/s"]);
    assert!(!at("state/passed").exists());
    prolog(6, "not judged  path >= 2GB/s: others").gives(0);
    assert!(!at("state/passed").exists());
    prolog(0, "held        path >= 2GB/s: 2.1 GB/s").gives(0);
    assert!(at("state/passed").exists());
    assert!(prolog(5, "failed      x: y").stdout.is_empty(), "it passed within a day");
}
