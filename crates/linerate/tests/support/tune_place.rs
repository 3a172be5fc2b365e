//! Places to tune: a tree of files, a network namespace, a loop device, a folder for journals. Each is taken
//! down with its value.

#![allow(dead_code, reason = "each test takes the part that it needs")]

use linerate_testing::folder_in_memory;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// `linerate tune` with these words.
pub fn linerate(words: &[&str]) -> Command {
    let mut command = super::linerate();
    command.arg("tune").args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// All that it said.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs it to its end; gives the exit status and all that it said.
pub fn ran(words: &[&str]) -> (i32, String) {
    let output = linerate(words).output().expect("linerate starts");
    (output.status.code().unwrap_or(-1), said(&output))
}

/// What a tree is made of.
const FILES: [(&str, &str); 16] = [
    ("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
    ("proc/sys/kernel/hostname", "rehearsal\n"),
    ("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n"),
    ("proc/meminfo", "MemTotal:       65536000 kB\nMemAvailable:   60000000 kB\n"),
    ("proc/sys/net/core/rmem_max", "4194304\n"),
    ("proc/sys/net/core/wmem_max", "4194304\n"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
    ("proc/sys/net/ipv4/tcp_notsent_lowat", "4294967295\n"),
    ("proc/sys/net/ipv4/tcp_sack", "0\n"),
    ("proc/sys/vm/swappiness", "60\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"),
    ("sys/block/vda/size", "2097152\n"),
    ("sys/block/vda/dev", "254:0\n"),
    ("sys/block/vda/queue/read_ahead_kb", "128\n"),
    ("sys/block/vda/queue/scheduler", "none [mq-deadline] kyber\n"),
    ("sys/block/vda/queue/rotational", "0\n"),
];

/// A folder that stands for a machine.
pub struct MachineFolder(tempfile::TempDir);

impl MachineFolder {
    pub fn new() -> MachineFolder {
        let tree = MachineFolder(folder_in_memory());
        for (path, text) in FILES {
            tree.write(path, text);
        }
        // Block devices are listed in the class.
        let class = tree.0.path().join("sys/class/block");
        std::fs::create_dir_all(&class).expect("directories");
        std::os::unix::fs::symlink("../../block/vda", class.join("vda")).expect("a link");
        tree
    }

    pub fn root(&self) -> String {
        self.0.path().display().to_string()
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("directories");
        std::fs::write(path, text).expect("a file");
    }

    pub fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.0.path().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Every file with its bytes; without the journal.
    pub fn content(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut pending = vec![self.0.path().to_path_buf()];
        while let Some(folder) = pending.pop() {
            for path in std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()) {
                let below = path.strip_prefix(self.0.path()).expect("below").to_path_buf();
                if path.is_symlink() || below.starts_with("var/lib/linerate") {
                    continue;
                }
                match path.is_dir() {
                    true => pending.push(path),
                    false => drop(files.insert(below, std::fs::read(&path).expect("a file"))),
                }
            }
        }
        files
    }
}

/// A folder for journals.
pub struct Journals(tempfile::TempDir);

impl Journals {
    pub fn new() -> Journals {
        Journals(folder_in_memory())
    }

    pub fn folder(&self) -> String {
        self.0.path().display().to_string()
    }

    pub fn folder_path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(format!("{name}.journal"))
    }
}

/// Bytes of a file, 0 where there is none.
pub fn journal_size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Numbers below a limit, the same in each run (xorshift).
pub fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |limit| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit.max(1)
    }
}

/// A network namespace with a pair of interfaces.
pub struct Namespace(String);

impl Namespace {
    /// None, with a message, where this machine cannot have one.
    pub fn new() -> Option<Namespace> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("lr-tune-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let made = Command::new("ip").args(["netns", "add", &name]).stderr(Stdio::null()).status();
        if !made.is_ok_and(|status| status.success()) {
            eprintln!("skipped: a network namespace needs root and ip");
            return None;
        }
        let namespace = Namespace(name);
        namespace.ip(&["link", "add", "v0", "type", "veth", "peer", "name", "v1"]);
        Some(namespace)
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    pub fn ip(&self, words: &[&str]) {
        let status = Command::new("ip").args(["-n", &self.0]).args(words).status().expect("ip starts");
        assert!(status.success(), "ip {words:?}");
    }

    /// What the kernel says, read without linerate.
    pub fn values(&self) -> Vec<String> {
        let script = "cd /proc/sys/net/ipv4; cat tcp_rmem tcp_wmem tcp_notsent_lowat \
                      tcp_slow_start_after_idle; \
                      cd /sys/class/net/v0; cat mtu tx_queue_len; ethtool -k v0 | grep \
                      '^generic-receive-offload:'";
        let output = Command::new("ip")
            .args(["netns", "exec", &self.0, "sh", "-c", script])
            .output()
            .expect("ip starts");
        let text = String::from_utf8(output.stdout).expect("text");
        let lines: Vec<String> = text.lines().map(str::to_string).collect();
        assert_eq!(lines.len(), 7, "{text} {}", String::from_utf8_lossy(&output.stderr));
        lines
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// A block device that is a file of our own.
pub struct LoopDevice {
    _folder: tempfile::TempDir,
    device: String,
}

impl LoopDevice {
    /// None, with a message, where this machine cannot have one.
    pub fn new() -> Option<LoopDevice> {
        LoopDevice::of_mib(16)
    }

    /// As [`LoopDevice::new`], of this size.
    pub fn of_mib(mebibytes: u64) -> Option<LoopDevice> {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let file = folder.path().join("disk");
        std::fs::File::create(&file).and_then(|file| file.set_len(mebibytes << 20)).expect("a file");
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&file).output();
        match output {
            Ok(output) if output.status.success() => {
                let device = String::from_utf8_lossy(&output.stdout).trim().to_string();
                Some(LoopDevice { _folder: folder, device })
            }
            _ => {
                eprintln!("skipped: a loop device needs root and losetup");
                None
            }
        }
    }

    pub fn name(&self) -> &str {
        self.device.trim_start_matches("/dev/")
    }

    /// What the kernel says.
    pub fn values(&self) -> Vec<String> {
        let queue = Path::new("/sys/block").join(self.name()).join("queue");
        ["read_ahead_kb", "scheduler", "nr_requests"]
            .iter()
            .map(|name| std::fs::read_to_string(queue.join(name)).unwrap_or_else(|error| error.to_string()))
            .collect()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}
