//! Places to tune: a tree of files, a network namespace, a loop device, a folder for journals. Each is taken
//! down with its value.

#![allow(dead_code, reason = "each test takes the part that it needs")]

use super::disk_places::LoopDevice;
use super::namespaces::Namespaces;
use crate::support::process::Ends;
use linerate_testing::folder_in_memory;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `linerate tune` with these words.
pub fn linerate(words: &[&str]) -> Command {
    let mut command = super::linerate();
    command.arg("tune").args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end; gives the exit status and all that it said.
pub fn ran(words: &[&str]) -> (i32, String) {
    let ended = linerate(words).ended();
    (ended.code().unwrap_or(-1), ended.text())
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

/// Numbers below a limit, the same in each run.
pub fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |limit| linerate_testing::next(&mut state) % limit.max(1)
}

/// What the kernel says of TCP and of the interface `v0` in the namespace `own`, read without linerate.
pub fn namespace_values(namespaces: &Namespaces) -> Vec<String> {
    let script = "cd /proc/sys/net/ipv4; cat tcp_rmem tcp_wmem tcp_notsent_lowat \
                  tcp_slow_start_after_idle; \
                  cd /sys/class/net/v0; cat mtu tx_queue_len; ethtool -k v0 | grep \
                  '^generic-receive-offload:'";
    let lines: Vec<String> =
        namespaces.printed("own", &["sh", "-c", script]).lines().map(str::to_string).collect();
    assert_eq!(lines.len(), 7, "{lines:?}");
    lines
}

/// A network namespace `own` with a pair of interfaces; none, with a message, where this machine cannot have one.
pub fn namespace() -> Option<Namespaces> {
    let namespaces = Namespaces::new("tune", &["own"])?;
    namespaces.ip("own", &["link", "add", "v0", "type", "veth", "peer", "name", "v1"]);
    Some(namespaces)
}

/// What the kernel says of a block device.
pub fn device_values(device: &LoopDevice) -> Vec<String> {
    let queue = Path::new("/sys/block").join(device.name()).join("queue");
    ["read_ahead_kb", "scheduler", "nr_requests"]
        .iter()
        .map(|name| std::fs::read_to_string(queue.join(name)).unwrap_or_else(|error| error.to_string()))
        .collect()
}
