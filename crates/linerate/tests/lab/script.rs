//! The lab keeps its word: the speeds that it was told, one sentence on what is wrong, nothing left behind in
//! any ending.
//!
//! Needs root and the tools of `lab/lab up`; without them, or with LINERATE_LAB=0, each test says that it is
//! skipped. With LINERATE_LAB=1 a lab that cannot be made is a failure.

use crate::support::neighbours::undisturbed;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// One lab of a test, taken down whatever happens.
struct Lab {
    name: String,
}

impl Lab {
    /// A name of its own for each test of each process; none where this machine cannot have a lab.
    fn named(test: &str) -> Option<Lab> {
        let wanted = std::env::var("LINERATE_LAB").unwrap_or_default();
        let lacking = lacking();
        if wanted == "0" {
            eprintln!("skipped: LINERATE_LAB=0");
            return None;
        }
        if let Some(lacking) = lacking {
            assert_ne!(wanted, "1", "LINERATE_LAB=1, but {lacking}");
            eprintln!("skipped: {lacking}");
            return None;
        }
        Some(Lab { name: format!("test-{test}-{}", std::process::id()) })
    }

    /// A command of the lab script: `up`, `run`, `down`, … with the lab's name put in.
    fn command(&self, command: &str, arguments: &[&str]) -> Command {
        let mut child = Command::new(script());
        child.arg(command).args(["--name", &self.name]).args(arguments);
        child
    }

    fn call(&self, command: &str, arguments: &[&str]) -> Output {
        self.command(command, arguments).stdin(Stdio::null()).output().expect("the lab script starts")
    }

    fn succeed(&self, command: &str, arguments: &[&str]) -> String {
        let output = self.call(command, arguments);
        assert!(output.status.success(), "lab {command} {arguments:?}: {}", said(&output));
        String::from_utf8(output.stdout).expect("text")
    }

    /// What is left of the lab anywhere on the machine; empty after `down`.
    fn remains(&self) -> Vec<String> {
        let mut remains = Vec::new();
        let loops = Command::new("losetup").args(["--list", "--noheadings"]).output().expect("losetup");
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        let text = format!("{}{mounts}", String::from_utf8_lossy(&loops.stdout));
        remains.extend(text.lines().filter(|line| line.contains(&self.name)).map(String::from));
        for dir in ["/run/linerate-lab", "/run/netns", "/tmp"] {
            remains.extend(entries(dir).into_iter().filter(|path| path.contains(&self.name)));
        }
        for controller in entries("/sys/fs/cgroup") {
            remains.extend(entries(&controller).into_iter().filter(|path| path.contains(&self.name)));
        }
        remains
    }

    fn assert_nothing_remains(&self, after: &str) {
        let remains = self.remains();
        assert!(remains.is_empty(), "after {after} there is still:\n{}", remains.join("\n"));
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.call("down", &[]);
    }
}

fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../lab/lab")
}

/// Why no lab can be made here.
fn lacking() -> Option<String> {
    let id = Command::new("id").arg("-u").output().ok()?;
    if String::from_utf8_lossy(&id.stdout).trim() != "0" {
        return Some("a lab needs root".into());
    }
    for tool in ["losetup", "mkfs.xfs", "ip", "tc", "nsenter", "flock", "dd"] {
        let found =
            Command::new("sh").args(["-c", &format!("command -v {tool}")]).stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            return Some(format!("a lab needs {tool}; ./test installs it"));
        }
    }
    // Containers with a root that may not mount are common.
    let may = Command::new("unshare").args(["--mount", "--net", "true"]).stderr(Stdio::null()).status();
    (!may.is_ok_and(|status| status.success())).then(|| "this root may not make namespaces".into())
}

fn entries(dir: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path().to_string_lossy().into_owned()).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim().to_string()
}

/// Waits for a child no longer than it may take.
fn ends_within(child: &mut Child, limit: Duration) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < limit {
        if child.try_wait().expect("child").is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn disks_have_the_speeds_that_were_asked_for() {
    undisturbed("the disks' speeds", 2, || {
        let Some(lab) = Lab::named("disks") else { return };
        lab.succeed("up", &["--disks", "100,25", "--nics", "0", "--file-size", "256M"]);
        let sources = lab.succeed("sources", &[]);
        assert_eq!(sources.lines().count(), 2);
        let readers: Vec<_> =
            sources.lines().zip([200, 50]).map(|(file, mib)| read_directly(&lab, file, mib)).collect();
        for (reader, expected) in readers.into_iter().zip([100e6, 25e6]) {
            let rate = reader.join().expect("reader");
            let share = rate / expected;
            // The kernel's throttle gives a reader that begins some 50 ms for nothing; a busy machine takes as
            // much.
            assert!(
                (0.9..1.06).contains(&share),
                "{:.1} MB/s where {:.0} were asked for",
                rate / 1e6,
                expected / 1e6
            );
        }
        lab.succeed("down", &[]);
        lab.assert_nothing_remains("down");
    });
}

/// Reads a file past the page cache on the server's side, some of it beforehand; the rate by `dd`'s own
/// clock, bytes per second.
fn read_directly(lab: &Lab, file: &str, mib: u32) -> std::thread::JoinHandle<f64> {
    let dd = format!("dd if={file} of=/dev/null bs=1M iflag=direct");
    let both = format!("{dd} count={} status=none; exec {dd} skip=10 count={mib}", mib / 5);
    let mut reader = lab.command("run", &["--", "bash", "-c", &both]);
    let child = reader.env("LC_ALL", "C").stderr(Stdio::piped()).spawn().expect("dd starts");
    std::thread::spawn(move || {
        let said = said(&child.wait_with_output().expect("dd ends"));
        // "209715200 bytes (210 MB, 200 MiB) copied, 2.09 s, 100 MB/s"
        let seconds = said.rsplit("copied, ").next().and_then(|rest| rest.split(' ').next());
        let seconds =
            seconds.and_then(|text| text.parse::<f64>().ok()).unwrap_or_else(|| panic!("dd: {said}"));
        f64::from(mib) * 1048576.0 / seconds
    })
}

#[test]
fn data_is_written_and_differs_between_disks() {
    let Some(lab) = Lab::named("data") else { return };
    lab.succeed("up", &["--disks", "2x0", "--nics", "0", "--file-size", "40M", "--fs", "ext4"]);
    let mut heads = Vec::new();
    for file in lab.succeed("sources", &[]).lines() {
        let mut bytes = vec![0; 40 << 20];
        std::fs::File::open(file).and_then(|mut file| file.read_exact(&mut bytes)).expect("40 MiB of data");
        let zeros = bytes.iter().filter(|byte| **byte == 0).count();
        assert!(zeros < bytes.len() / 100, "{zeros} zeros in {file}");
        heads.push(bytes[..4096].to_vec());
    }
    assert_ne!(heads[0], heads[1]);
}

#[test]
fn sides_see_their_own_nics_groups_and_each_other() {
    let Some(lab) = Lab::named("sides") else { return };
    lab.succeed(
        "up",
        &["--disks", "1x0", "--nics", "1000,500", "--mtu", "9000", "--file-size", "1M", "--peer-cpu", "10"],
    );
    for side in ["run", "peer"] {
        let nics = lab.succeed(side, &["--", "ls", "/sys/class/net"]);
        assert_eq!(nics.split_whitespace().collect::<Vec<_>>(), ["lo", "nic0", "nic1"], "{side}");
        assert_eq!(lab.succeed(side, &["--", "cat", "/sys/class/net/nic1/mtu"]).trim(), "9000");
        let groups = lab.succeed(side, &["--", "cat", "/proc/self/cgroup"]);
        let end = if side == "run" { "server" } else { "peer" };
        assert!(groups.contains(&format!("/linerate-{}/{end}", lab.name)), "{side}: {groups}");
        // The control groups' files are still below /sys: linerate reads the quota there.
        assert!(!lab.succeed(side, &["--", "ls", "/sys/fs/cgroup"]).trim().is_empty());
    }
    let netns = format!("linerate-{}-server", lab.name);
    let shaped = Command::new("tc").args(["-n", &netns, "qdisc", "show"]).output().expect("tc");
    let shaped = String::from_utf8_lossy(&shaped.stdout).into_owned();
    assert!(
        shaped.contains("tbf") && shaped.contains("rate 1Gbit") && shaped.contains("rate 500Mbit"),
        "{shaped}"
    );
    assert_eq!(lab.succeed("address", &[]).lines().count(), 2);
    assert!(lab.call("address", &["2"]).status.code() == Some(2), "there is no third NIC");
    // Nobody listens on the peer: that it refuses shows that the second path leads there.
    let knock = format!("exec 3<>/dev/tcp/{}/9", lab.succeed("address", &["1"]).trim());
    let refused = lab.call("run", &["--", "timeout", "5", "bash", "-c", &knock]);
    assert!(said(&refused).contains("refused"), "{}", said(&refused));
}

#[test]
fn quota_holds_the_cpu() {
    undisturbed("CPU time under a quota", 2, || {
        let Some(lab) = Lab::named("quota") else { return };
        lab.succeed("up", &["--disks", "1x0", "--nics", "0", "--file-size", "1M", "--server-cpu", "40"]);
        let burn = "t=$(date +%s%N); while (($(date +%s%N) - t < 2000000000)); do :; done; times";
        let times = lab.succeed("run", &["--", "bash", "-c", burn]);
        let seconds: f64 =
            times.split_whitespace().map(|time| minutes_and_seconds(time).expect("0m1.234s")).sum();
        assert!((0.5..1.0).contains(&seconds), "40 % of 2 s of one core is 0.8 s, not {seconds:.2} s");
    });
}

/// `0m1.234s` in seconds.
fn minutes_and_seconds(time: &str) -> Option<f64> {
    let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
    Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
}

#[test]
fn up_twice_says_so_and_down_twice_is_no_error() {
    let Some(lab) = Lab::named("twice") else { return };
    let up = ["--disks", "1x0", "--nics", "0", "--file-size", "1M"];
    lab.succeed("up", &up);
    let again = lab.call("up", &up);
    assert_eq!(again.status.code(), Some(1));
    assert!(said(&again).contains("is up already"), "{}", said(&again));
    lab.succeed("status", &[]);
    lab.succeed("down", &[]);
    lab.succeed("down", &[]);
    lab.assert_nothing_remains("two downs");
}

#[test]
fn down_kills_what_runs_in_it() {
    let Some(lab) = Lab::named("kill") else { return };
    lab.succeed("up", &["--disks", "1x0", "--nics", "0", "--file-size", "1M"]);
    let mut children: Vec<Child> = ["run", "peer"]
        .map(|side| lab.command(side, &["--", "sleep", "1000"]).spawn().expect("sleep starts"))
        .into();
    std::thread::sleep(Duration::from_millis(300));
    assert!(children.iter_mut().all(|child| child.try_wait().expect("child").is_none()), "they run");
    lab.succeed("down", &[]);
    assert!(children.iter_mut().all(|child| ends_within(child, Duration::from_secs(2))), "they were killed");
    lab.assert_nothing_remains("down");
}

#[test]
fn wrong_words_make_nothing() {
    let Some(lab) = Lab::named("words") else { return };
    for wrong in [
        ["--nics", "1000,bad"],
        ["--disks", "4x"],
        ["--disks", "1,"],
        ["--mtu", "9"],
        ["--fs", "fat"],
        ["--fs", "btrfs-raid5"],
        ["--file-size", "7k"],
        ["--server-cpu", "-4"],
    ] {
        let output = lab.call("up", &wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", said(&output));
        assert_eq!(said(&output).lines().count(), 1, "one sentence: {}", said(&output));
        lab.assert_nothing_remains("wrong words");
    }
}

/// Why no lab with btrfs can be made here.
fn lacking_btrfs() -> Option<&'static str> {
    let tools = Command::new("sh").args(["-c", "command -v mkfs.btrfs && command -v btrfs"]).output();
    if !tools.is_ok_and(|output| output.status.success()) {
        return Some("a lab with btrfs needs btrfs-progs; ./test installs it");
    }
    let kinds = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let module =
        || Command::new("modprobe").args(["-q", "btrfs"]).status().is_ok_and(|status| status.success());
    (!kinds.contains("btrfs") && !module()).then_some("this kernel has no btrfs")
}

#[test]
fn one_file_system_over_all_disks_is_one_source() {
    let Some(lab) = Lab::named("btrfs") else { return };
    if let Some(lacking) = lacking_btrfs() {
        eprintln!("skipped: {lacking}");
        return;
    }
    for (kind, disks, places) in [("btrfs", "2x0", 2), ("btrfs-raid0", "2x0", 1), ("btrfs-raid1", "3x0", 1)] {
        lab.succeed("up", &["--disks", disks, "--nics", "0", "--file-size", "8M", "--fs", kind]);
        assert_eq!(lab.succeed("mounts", &[]).lines().count(), places, "{kind}");
        let sources = lab.succeed("sources", &[]);
        assert_eq!(sources.lines().count(), places, "{kind}");
        for file in sources.lines() {
            assert_eq!(std::fs::metadata(file).expect("data").len(), 8 << 20, "{kind}: {file}");
        }
        let mounted = lab.succeed("mounts", &[]);
        let place = mounted.lines().next().expect("a place");
        let used = Command::new("btrfs").args(["filesystem", "df", place]).output().expect("btrfs");
        let used = String::from_utf8_lossy(&used.stdout).to_ascii_lowercase();
        let level = kind.strip_prefix("btrfs-").unwrap_or("single");
        assert!(used.contains(&format!("data, {level}")), "{kind}: {used}");
        lab.succeed("down", &[]);
        lab.assert_nothing_remains(kind);
    }
    let one = lab.call("up", &["--disks", "1x0", "--fs", "btrfs-raid1"]);
    assert_eq!(
        (one.status.code(), said(&one).contains("two disks or more")),
        (Some(2), true),
        "{}",
        said(&one)
    );
}

#[test]
fn a_study_ends_in_the_comparison_and_leaves_only_its_results() {
    let Some(_lab) = Lab::named("study") else { return };
    let place = tempfile::tempdir().expect("a temporary directory");
    let output = place.path().join("results");
    let output_word = output.to_string_lossy();
    let study = ["study", "--fs", "xfs,ext4", "--disks", "2x0", "--rounds", "3", "--output", &output_word];
    let job = [
        "--",
        "--workers",
        "1",
        "--access",
        "read",
        "--pattern",
        "random",
        "--amount",
        "4M",
        "--seconds",
        "0.2",
    ];
    let child = Command::new(script())
        .args(study)
        .args(job)
        .env("LINERATE", env!("CARGO_BIN_EXE_linerate"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the lab script starts");
    let labs = Lab { name: format!("linerate-study-{}", child.id()) };
    let ended = child.wait_with_output().expect("the study ends");
    assert_eq!(ended.status.code(), Some(0), "{}", said(&ended));
    labs.assert_nothing_remains("a study");
    let screen = String::from_utf8_lossy(&ended.stdout);
    assert!(screen.contains("ext4 against xfs:") && !screen.contains("too few"), "{screen}");
    assert_eq!(entries(&output_word).len(), 7, "three rounds of two layouts, and their comparison");
    assert!(output.join("comparison/report.html").exists());
    let again = Command::new(script()).args(study).output().expect("the lab script starts");
    let there =
        said(&again).contains("is there already") || said(&again).contains("there is no linerate yet");
    assert!(there && again.status.code() != Some(0), "{}", said(&again));
    labs.assert_nothing_remains("a study that was refused");
}

#[test]
fn failure_midway_leaves_nothing() {
    let Some(lab) = Lab::named("midway") else { return };
    let tools = tempfile::tempdir().expect("directory");
    for fails in ["mkfs.xfs", "tc"] {
        let fake = tools.path().join(fails);
        std::fs::write(&fake, "#!/bin/sh\necho 'no luck today' >&2\nexit 1\n").expect("fake tool");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&fake, mode).expect("mode");
        let path = format!("{}:{}", tools.path().display(), std::env::var("PATH").expect("PATH"));
        let output =
            lab.command("up", &["--disks", "2x50"]).env("PATH", path).output().expect("the script starts");
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains("no luck today"), "{}", said(&output));
        assert_eq!(said(&output).lines().count(), 1, "one sentence: {}", said(&output));
        lab.assert_nothing_remains(fails);
        std::fs::remove_file(&fake).expect("fake tool");
    }
}

#[test]
fn killed_up_is_cleared_by_down_and_by_the_next_up() {
    let Some(lab) = Lab::named("killed") else { return };
    let up = ["--disks", "2x50", "--file-size", "64M"];
    for after_ms in [30, 120, 220, 320, 450] {
        let mut child = lab.command("up", &up).stdout(Stdio::null()).spawn().expect("up starts");
        std::thread::sleep(Duration::from_millis(after_ms));
        child.kill().expect("SIGKILL");
        child.wait().expect("child");
        lab.succeed("down", &[]);
        lab.assert_nothing_remains(&format!("kill -9 after {after_ms} ms and down"));
    }
    let mut child = lab.command("up", &up).stdout(Stdio::null()).spawn().expect("up starts");
    std::thread::sleep(Duration::from_millis(200));
    child.kill().expect("SIGKILL");
    child.wait().expect("child");
    let next = lab.call("up", &up);
    assert!(next.status.success() || said(&next).contains("is up already"), "{}", said(&next));
}

#[test]
fn interrupted_up_leaves_nothing() {
    let Some(lab) = Lab::named("stopped") else { return };
    for after_ms in [100, 250, 350] {
        let mut child =
            lab.command("up", &["--disks", "4x50"]).stdout(Stdio::null()).spawn().expect("up starts");
        std::thread::sleep(Duration::from_millis(after_ms));
        let process = child.id().to_string();
        Command::new("kill").args(["-TERM", &process]).stderr(Stdio::null()).status().expect("kill");
        let status = child.wait().expect("child");
        if status.success() {
            lab.succeed("down", &[]); // it was up before the signal came
        }
        lab.assert_nothing_remains(&format!("SIGTERM after {after_ms} ms ({status})"));
    }
}

#[test]
fn without_root_it_says_so() {
    if let Some(lacking) = lacking() {
        eprintln!("skipped: {lacking}");
        return;
    }
    // Nobody may not be able to read where this checkout is.
    let copy = tempfile::tempdir().expect("directory");
    let from = script();
    let from = from.parent().expect("the lab's directory");
    for file in entries(&from.to_string_lossy()) {
        let name = std::path::Path::new(&file).file_name().expect("name").to_owned();
        std::fs::copy(&file, copy.path().join(name)).expect("copy");
    }
    let open: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(copy.path(), open).expect("mode");
    for command in ["up", "down", "run", "peer", "demo", "study"] {
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        let output = Command::new("setpriv")
            .args(nobody)
            .arg(copy.path().join("lab"))
            .arg(command)
            .output()
            .expect("setpriv");
        assert_eq!(output.status.code(), Some(3), "{command}: {}", said(&output));
        assert!(said(&output).contains("must run as root"), "{}", said(&output));
        assert_eq!(said(&output).lines().count(), 1, "one sentence: {}", said(&output));
    }
}
