//! A guest of `lab up --qemu`, taken down with the value.

use crate::support::process::{Ends, ProcessEnd};
use crate::support::{lab::folder, program};
use serde_json::Value;
use std::process::{Command, Stdio};

/// eth1 becomes another host's, in the namespace `peer`, with address `$net.9`; `$net` is the network of eth0.
pub(super) const PEER_HOST: &str = r"
net=$(ip -4 -o addr show dev eth0 | sed -E 's|.*inet ([0-9]+[.][0-9]+[.][0-9]+)[.].*|\1|')
ip netns add peer && ip link set eth1 netns peer && ip netns exec peer ip addr add $net.9/24 dev eth1
ip netns exec peer ip link set eth1 up
for ((i = 0; i < 300; i++)); do
  [[ $(ip netns exec peer cat /sys/class/net/eth1/carrier) == 1 ]] && break; sleep 0.1
done
";

/// A server in QEMU that is up.
pub(super) struct QemuServer {
    name: String,
}

impl QemuServer {
    /// Booted with these options; none, with a message, where this machine cannot have one.
    pub(super) fn up(test: &str, options: &[&str]) -> Option<QemuServer> {
        if std::env::var("LINERATE_LAB").is_ok_and(|wanted| wanted == "0") {
            eprintln!("skipped: LINERATE_LAB=0");
            return None;
        }
        let guest = QemuServer { name: format!("qemu-{test}-{}", std::process::id()) };
        let output = guest.try_up(options);
        if output.status.code() == Some(3) {
            let lacking = said(&output);
            assert_ne!(std::env::var("LINERATE_LAB").as_deref(), Ok("1"), "LINERATE_LAB=1, but {lacking}");
            eprintln!("skipped: {lacking}");
            return None;
        }
        assert!(output.status.success(), "lab up --qemu: {}", said(&output));
        Some(guest)
    }

    /// A name for a guest that is not to come up.
    pub(super) fn named(test: &str) -> QemuServer {
        QemuServer { name: format!("qemu-{test}-{}", std::process::id()) }
    }

    /// `lab up --qemu` as it ends; nothing is downloaded for a test.
    pub(super) fn try_up(&self, options: &[&str]) -> ProcessEnd {
        let mut up = self.lab("up");
        up.arg("--qemu").args(options).env("LINERATE_INSTALL", "0");
        up.ended()
    }

    /// The script with one of its commands, for this guest.
    pub(super) fn lab(&self, command: &str) -> Command {
        let mut child = Command::new(folder().join("lab"));
        child.args([command, "--name", &self.name]).stdin(Stdio::null()).env("LINERATE", program());
        child
    }

    /// A shell's words in the guest, as they end.
    pub(super) fn shell(&self, words: &str) -> ProcessEnd {
        self.lab("run").args(["--", "bash", "-c", words]).ended()
    }

    /// The same, for what it prints; it must end well.
    pub(super) fn succeed(&self, words: &str) -> String {
        let output = self.shell(words);
        assert!(output.status.success(), "{words}: {}{}", said(&output), output.stdout);
        output.stdout
    }

    /// `linerate COMMAND --json` in the guest.
    pub(super) fn linerate(&self, command: &str) -> Value {
        self.linerate_after(":", command)
    }

    /// The same once these words have ended well, all of them.
    pub(super) fn linerate_after(&self, words: &str, command: &str) -> Value {
        let text = self.succeed(&format!("(set -e\n{words}\n) >&2 || exit; {} {command} --json", program()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{command}: {error}: {text}"))
    }

    /// What a command in the guest wrote to its `/run/lab/kept`.
    pub(super) fn kept(&self, file: &str) -> String {
        let file = self.shared("kept").join(file);
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// What `linerate probe` finds wrong, the first first.
    pub(super) fn findings(&self) -> Vec<String> {
        let machine = self.linerate("probe");
        let findings = machine["findings"].as_array().expect("findings");
        findings.iter().map(|finding| finding["id"].as_str().expect("an id").to_string()).collect()
    }

    /// `linerate probe --capture` in the guest: the tarball, until the guest is taken down.
    pub(super) fn capture(&self) -> std::path::PathBuf {
        let file = "/run/lab/kept/capture.tar.gz";
        self.succeed(&format!("rm -f {file} && {} probe --capture {file}", program()));
        self.shared("kept/capture.tar.gz")
    }

    /// A file below `/run/lab` of the guest, as this machine sees it.
    pub(super) fn shared(&self, file: &str) -> std::path::PathBuf {
        std::path::Path::new("/run/linerate-lab").join(&self.name).join("guest").join(file)
    }

    /// Power off, and the same server again.
    pub(super) fn reboot(&self) {
        let output = self.lab("reboot").ended();
        assert!(output.status.success(), "lab reboot: {}", said(&output));
    }

    /// Processes of it that are still there.
    pub(super) fn processes(&self) -> Vec<String> {
        let processes = Command::new("pgrep").args(["-af", &format!("linerate-{}", self.name)]).ended();
        processes.stdout.lines().map(String::from).collect()
    }

    /// Processes, mounts, folders and control groups of it that are still there.
    pub(super) fn remains(&self) -> Vec<String> {
        let mut remains = self.processes();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
        remains.extend(mounts.lines().filter(|line| line.contains(&self.name)).map(String::from));
        let homes = ["/run/linerate-lab".into(), std::env::temp_dir(), "/sys/fs/cgroup".into()];
        let controllers = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
        for home in homes.into_iter().chain(controllers.map(|entry| entry.path())) {
            let entries = std::fs::read_dir(home).into_iter().flatten().flatten();
            let places = entries.map(|entry| entry.path().display().to_string());
            remains.extend(places.filter(|place| place.contains(&self.name)));
        }
        remains
    }

    /// Taken down; nothing of it may be left.
    pub(super) fn down(self) {
        self.lab("down").ended().gives(0);
        assert_eq!(self.remains(), Vec::<String>::new());
    }
}

impl Drop for QemuServer {
    fn drop(&mut self) {
        let _ = self.lab("down").output();
    }
}

pub(super) fn said(output: &ProcessEnd) -> String {
    output.stderr.trim().trim_start_matches("lab: ").to_string()
}

/// Labs are root's.
pub(super) fn root() -> bool {
    let user = Command::new("id").arg("-u").ended();
    user.stdout.trim() == "0"
}
