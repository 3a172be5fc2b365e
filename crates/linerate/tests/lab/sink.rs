//! The sink of an agent: what limits `linerate run --flow disk-to-disk` on a server of known speeds, and that
//! nothing of what was stored is left behind.
//!
//! The lab's disks belong to its server: there the agent stores, and the peer sends from memory.

use crate::support::agent::StartedAgent;
use crate::support::disk_places::{LoopDevice, Tmpfs, can_mount, succeed};
use crate::support::lab::Lab;
use crate::support::process::{Ends, ProcessEnd};
use crate::support::{linerate, program};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A path of one worker, for a moment.
const BRIEFLY: [&str; 10] =
    ["--stages", "path", "--seconds", "0.3", "--repeats", "1", "--queue-depth", "1", "--workers", "1"];

impl StartedAgent {
    /// `linerate run` to it, from this file.
    pub(super) fn run(&self, begin: Command, source: &Path, words: &[&str]) -> Command {
        let mut begin = self.run_flow(begin, "disk-to-disk", words);
        begin.arg("--source").arg(source);
        begin
    }

    /// `linerate run` with it.
    pub(super) fn run_flow(&self, mut begin: Command, flow: &str, words: &[&str]) -> Command {
        begin.args(["run", "--flow", flow, "--no-save", "--json", "--peer", &self.address.to_string()]);
        begin.arg("--output").arg(self.folder.path().join(flow));
        begin.arg("--key-file").arg(self.key_file()).args(words);
        begin
    }

    /// The same, for a moment, over loopback.
    fn briefly(&self, source: &Path) -> ProcessEnd {
        self.run(linerate(), source, &BRIEFLY).ended()
    }

    /// Files below a folder that a process or its child has open; those without a name, too.
    fn open_in(process: u32, place: &str) -> usize {
        let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
        let children = children.unwrap_or_default();
        let processes = std::iter::once(process).chain(children.split(' ').filter_map(|id| id.parse().ok()));
        let open =
            |process: u32| std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let links = processes.flat_map(open).filter_map(|fd| std::fs::read_link(fd.path()).ok());
        links.filter(|to| to.starts_with(place)).count()
    }

    /// Until it stores there, or until it does no more.
    pub(super) fn awaits(&self, place: &str, stores: bool) {
        StartedAgent::awaits_of(self.child.id(), place, stores);
    }

    /// The same of any process.
    pub(super) fn awaits_of(process: u32, place: &str, stores: bool) {
        let mut patience = 200;
        while (StartedAgent::open_in(process, place) > 0) != stores {
            patience -= 1;
            assert!(patience > 0, "its file never came, or never went");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

fn source() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file");
    std::fs::write(file.path(), vec![7u8; 64 << 20]).expect("written");
    file
}

/// Runs on the peer, to an agent on the server that stores on its disk.
fn measured(lab: &Lab) -> Value {
    let mount = lab.succeed("mounts", &[]);
    // The server is 1 where the peer is 2.
    let peer = lab.succeed("address", &["0"]);
    let network = peer.trim().rsplit_once('.').expect("an address of IPv4").0;
    let agent = lab.agent("run", &format!("{network}.1:7471"), &["--sink", mount.trim()]);
    let file = source();
    let words = ["--stages", "disk,network,path", "--budget", "14"];
    let files = || std::fs::read_dir(mount.trim()).expect("a list").count();
    let before = files();
    let output = agent.run(lab.linerate("peer", &[]), file.path(), &words).ended();
    output.gives(0);
    assert_eq!(files(), before, "something is left");
    output.json()
}

/// Named, and within 5 % of what was predicted, from end to end.
pub(super) fn assert_limit(run: &Value, kind: &str, resource: &str, ends: &str) {
    let diagnosis = &run["diagnosis"];
    let cut = diagnosis["predicted"]["cut"].to_string();
    assert_eq!(diagnosis["bottleneck"]["kind"], kind, "{diagnosis:#}");
    assert!(cut.contains(resource), "{cut} without {resource}: {diagnosis:#}");
    // Rounds of a second, of a disk that is slowed down in bursts: by their interval.
    let interval = &diagnosis["achieved"]["of_predicted_interval"];
    let [low, high] = [0, 1].map(|end| interval[end].as_f64().expect("an end"));
    assert!(low <= 1.05 && high >= 0.95, "achieved {interval} of what was predicted: {diagnosis:#}");
    let said = diagnosis["bottleneck"]["sentences"][0].as_str().unwrap_or_default();
    assert!(said.ends_with(&format!(" from {ends}.")), "{said}");
}

#[test]
fn the_disk_of_the_sink_is_named() {
    let options = ["--disks", "1x50", "--nics", "2000", "--file-size", "32M"];
    let Some(lab) = Lab::up("sink-disk", &options) else { return };
    let run = measured(&lab);
    assert_limit(&run, "disk", "/disk:loop", "disk to disk");
    let path = run["measurements"].as_array().and_then(|all| all.iter().find(|one| one["stage"] == "path"));
    let sink = &path.expect("the path")["sink"];
    assert!(sink["waiting_disk"].as_f64().unwrap_or(0.0) > 0.5 && sink["disk"]["name"].is_string(), "{sink}");
}

#[test]
fn the_nic_before_a_sink_is_named() {
    let options = ["--disks", "1x100", "--nics", "200", "--file-size", "32M"];
    let Some(lab) = Lab::up("sink-nic", &options) else { return };
    assert_limit(&measured(&lab), "nic", "nic:", "disk to disk");
}

#[test]
fn a_sink_that_is_checked_keeps_all_that_was_sent() {
    let (folder, file) = (tempfile::tempdir().expect("a folder"), source());
    let agent = StartedAgent::start(&[
        "--sink",
        folder.path().to_str().expect("a plain path"),
        "--sink-limit",
        "64M",
    ]);
    let words = [&BRIEFLY[..], &["--verify"]].concat();
    let run = agent.run(linerate(), file.path(), &words).ended().gives(0).json();
    let path = &run["measurements"][0];
    assert_eq!(path["receiver"]["verified"], true, "{path:#}");
    assert!(path["sink"]["sync_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{path:#}");
}

#[test]
fn neither_end_that_is_killed_leaves_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = source();
    let place = folder.path().to_str().expect("a plain path");
    for victim in ["agent", "run"] {
        let mut agent = StartedAgent::start(&["--sink", place, "--sink-limit", "64M"]);
        let words = ["--stages", "path", "--seconds", "5", "--repeats", "1"];
        let mut run = agent.run(linerate(), file.path(), &words);
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        // The file has no name, but somebody has it open.
        agent.awaits(place, true);
        match victim {
            "agent" => agent.child.kill().expect("killed"),
            _ => run.kill().expect("killed"),
        }
        if victim == "run" {
            agent.awaits(place, false);
        }
        let _ = run.kill();
        let _ = run.wait();
        assert_eq!(std::fs::read_dir(place).expect("a list").count(), 0, "{victim} left a file");
    }
}

#[test]
fn a_sink_that_cannot_be_is_one_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_string();
    std::fs::write(path("file"), "x").expect("written");
    let refused = |place: &str, says: &str| {
        let words = ["agent", "--listen", "127.0.0.1:0", "--key-file", &path("key"), "--sink", place];
        linerate().args(words).ended().gives(3).says(&[says]);
    };
    refused(&path("none"), "it is not there");
    refused(&path("file"), "it is not a directory");
    let Some(()) = can_mount() else { return };
    let read_only = Tmpfs::new(16, ",ro");
    refused(read_only.path.to_str().expect("a plain path"), "read-only");
}

#[test]
fn an_agent_without_a_sink_or_without_room_says_so() {
    let file = source();
    let agent = StartedAgent::start(&[]);
    let output = agent.briefly(file.path());
    output.gives(3).mentions(&["linerate agent --sink DIR"]);
    let Some(()) = can_mount() else { return };
    let small = Tmpfs::new(20, "");
    std::fs::write(small.path.join("own"), vec![1; 8 << 20]).expect("written");
    let agent = StartedAgent::start(&["--sink", small.path.to_str().expect("a plain path")]);
    let output = agent.briefly(file.path());
    output.gives(1).mentions(&["has too little room"]);
    let own = std::fs::read(small.path.join("own")).expect("still there");
    assert!(own == vec![1; 8 << 20] && std::fs::read_dir(&small.path).expect("a list").count() == 1);
}

/// What a run that fails says, in its one sentence.
fn one_sentence(output: &ProcessEnd) -> String {
    let said = &output.stderr;
    let errors: Vec<&str> = said.lines().filter(|line| line.contains("path tcp: ")).collect();
    assert!(output.status.code() == Some(1) && errors.len() == 1, "{:?} {said}", output.status);
    errors[0].to_string()
}

/// A library that has fsync of files without a name take two seconds, or fail; none: it cannot be had here.
fn odd_fsync(folder: &Path) -> Option<PathBuf> {
    let head = std::fs::read(program()).expect("the program");
    if !head[..head.len().min(4096)].windows(8).any(|part| part == b"ld-linux") {
        eprintln!("skipped: a static program takes no other fsync");
        return None;
    }
    let (source, library) = (folder.join("fsync.c"), folder.join("fsync.so"));
    let text = "#include <errno.h>\n#include <stdlib.h>\n#include <sys/stat.h>\n#include <unistd.h>\n\
        int fsync(int fd) { struct stat found;\n\
        if (fstat(fd, &found) || found.st_nlink) return 0;\n\
        if (getenv(\"FSYNC_FAILS\")) { errno = EIO; return -1; }\n\
        sleep(2); return 0; }\n";
    std::fs::write(&source, text).expect("written");
    let made = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no C compiler");
        return None;
    }
    Some(library)
}

#[test]
fn an_fsync_that_takes_long_or_fails_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(library) = odd_fsync(folder.path()) else { return };
    let (file, place) = (source(), folder.path().to_str().expect("a plain path"));
    let words = ["--sink", place, "--sink-limit", "64M"];
    let begin = || {
        let mut begin = linerate();
        begin.env("LD_PRELOAD", &library);
        begin
    };
    let output = StartedAgent::of(begin(), "127.0.0.1:0", &words).briefly(file.path());
    output.gives(0);
    let run = output.json();
    let seconds = run["measurements"][0]["sink"]["sync_seconds"].as_f64();
    assert!(seconds.is_some_and(|seconds| seconds >= 2.0), "{run:#}");
    let mut failing = begin();
    failing.env("FSYNC_FAILS", "1");
    let said = one_sentence(&StartedAgent::of(failing, "127.0.0.1:0", &words).briefly(file.path()));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    for part in [&format!("the peer {}: the fsync of the sink {place}", host.trim()), "failed (", "broken?"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn addresses_of_a_peer_share_what_little_room_its_sink_has() {
    let (folder, file) = (tempfile::tempdir().expect("a folder"), source());
    let words = ["--sink", folder.path().to_str().expect("a plain path"), "--sink-limit", "64M"];
    let mut agent = StartedAgent::of(linerate(), "0.0.0.0:0", &words);
    agent.address.set_ip(Ipv4Addr::LOCALHOST.into());
    let second = format!("127.0.0.2:{}", agent.address.port());
    let words = [&BRIEFLY[..], &["--peer", &second]].concat();
    let run = agent.run(linerate(), file.path(), &words).ended().gives(0).json();
    let paths = run["plan"]["paths"].as_array().map(Vec::len);
    let workers = run["measurements"][0]["workers"].as_array().map(Vec::len);
    assert!(paths == Some(2) && workers >= Some(2), "{run:#}");
}

/// A small ext4 that cannot take room before it is written: it has no extents.
struct Small {
    mount: PathBuf,
    _device: LoopDevice,
    _folder: tempfile::TempDir,
}

impl Small {
    fn new(mib: u64) -> Small {
        let folder = tempfile::tempdir().expect("a folder");
        let (device, mount) = (LoopDevice::on(folder.path(), "image", mib), folder.path().join("mount"));
        std::fs::create_dir(&mount).expect("a mount point");
        succeed("mkfs.ext4", &["-q", "-m", "0", "-O", "^extent,^64bit", device.text()]);
        // Without extents the kernel promises late what it may then have no room for, and drops it.
        succeed("mount", &["-o", "nodelalloc", device.text(), mount.to_str().expect("a plain path")]);
        Small { mount, _device: device, _folder: folder }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.mount).status();
    }
}

#[test]
fn a_disk_that_somebody_fills_meanwhile_is_one_sentence() {
    let Some(()) = can_mount() else { return };
    let (small, file) = (Small::new(96), source());
    let place = small.mount.to_str().expect("a plain path");
    // So slow that there is room when the other one comes.
    let agent = StartedAgent::start(&["--sink", place, "--rate-limit", "12MB/s"]);
    let words =
        ["--stages", "path", "--seconds", "2", "--repeats", "1", "--queue-depth", "1", "--workers", "1"];
    let mut run = agent.run(linerate(), file.path(), &words);
    let run = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    agent.awaits(place, true);
    let own = small.mount.join("own");
    let mut beside = std::fs::File::create(&own).expect("made");
    let mut written = 0u64;
    while std::io::Write::write_all(&mut beside, &[7; 64 << 10]).is_ok() {
        written += 64 << 10;
    }
    let said = one_sentence(&run.ended());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    for part in [&format!("the peer {}: the sink {place}", host.trim()), "became full while it was written"] {
        assert!(said.contains(part), "{said}");
    }
    agent.awaits(place, false);
    let left = std::fs::read(&own).expect("still there");
    let odd = left.iter().position(|byte| *byte != 7);
    assert!(left.len() as u64 >= written && odd.is_none(), "of {} bytes from {odd:?} on", left.len());
}
