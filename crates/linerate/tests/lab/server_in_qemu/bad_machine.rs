//! A machine that cannot have a guest: it lacks QEMU, the kernel, memory or room, or its QEMU fails. One sentence, the
//! log's last lines, nothing left. Programs that stand in for the real ones make it so; nothing boots.

use super::guest::{QemuServer, said};
use crate::support::lab::lacking;
use crate::support::process::{Ends, ProcessEnd};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of 1 GiB that the emulator itself wants, and what a guest has at least.
const LITTLE: [&str; 2] = ["--memory", "512M"];

/// Programs and a kernel of a test's own.
struct Machine {
    folder: tempfile::TempDir,
    /// What programs are looked for in.
    path: String,
}

impl Machine {
    /// This one; none, with a message, where it can have no lab.
    fn here() -> Option<Machine> {
        if let Some(lacking) = lacking() {
            eprintln!("skipped: {lacking}");
            return None;
        }
        let machine = Machine { folder: tempfile::tempdir().expect("a folder"), path: String::new() };
        fs::create_dir(machine.place("programs")).expect("a folder");
        let path = std::env::var("PATH").expect("PATH");
        Some(Machine { path: format!("{}:{path}", machine.place("programs").display()), ..machine })
    }

    /// The same without some of its programs.
    fn without(mut self, absent: &[&str]) -> Machine {
        let all = self.place("all");
        fs::create_dir(&all).expect("a folder");
        let mut taken: BTreeSet<_> = absent.iter().map(Into::into).collect();
        for folder in std::env::split_paths(&self.path) {
            for program in fs::read_dir(folder).into_iter().flatten().flatten() {
                if taken.insert(program.file_name()) {
                    symlink(program.path(), all.join(program.file_name())).expect("a link");
                }
            }
        }
        self.path = all.display().to_string();
        self
    }

    /// The same with a program of this content, before the real one.
    fn with(self, name: &str, script: &str) -> Machine {
        let file = self.place("programs").join(name);
        fs::write(&file, format!("#!/bin/bash\n{script}\n")).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("executable");
        self
    }

    /// The same with a QEMU that does this, and a kernel and modules that nobody reads.
    fn with_qemu(self, script: &str) -> Machine {
        let kernel = self.place("kernel");
        fs::create_dir_all(kernel.join("boot")).expect("a folder");
        fs::create_dir_all(kernel.join("lib/modules/9.9")).expect("a folder");
        fs::write(kernel.join("boot/vmlinuz-9.9"), "").expect("written");
        fs::write(kernel.join("module.ko"), "").expect("written");
        let modprobe = format!("echo insmod {}", kernel.join("module.ko").display());
        let begin = "for word; do case $word in file:*) console=${word#file:} ;; esac; done";
        self.with("modprobe", &modprobe).with("qemu-system-x86_64", &format!("{begin}\n{script}"))
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `lab up --qemu`, in the shell's place for `"$@"`, with mounts of its own.
    fn up(&self, guest: &QemuServer, before: &str, options: &[&str]) -> ProcessEnd {
        let up = guest.lab("up");
        let mut command = Command::new("unshare");
        command.args("--mount --propagation private bash -c".split(' '));
        command.args([&format!("{before} \"$@\""), "up"]);
        command.arg(up.get_program()).args(up.get_args()).arg("--qemu").args(options);
        command.envs(up.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("PATH", &self.path).env("LINERATE_INSTALL", "0");
        command.ended()
    }

    /// A sentence with this status, and nothing is left of the guest.
    fn refuses(&self, test: &str, before: &str, options: &[&str], status: i32) -> String {
        let guest = QemuServer::named(test);
        let output = self.up(&guest, before, options);
        assert_eq!(output.status.code(), Some(status), "{test}: {}", said(&output));
        assert_eq!(guest.remains(), Vec::<String>::new(), "{test}");
        said(&output)
    }
}

#[test]
fn programs_that_a_guest_needs_are_named_with_their_packages() {
    let Some(machine) = Machine::here() else { return };
    let machine = machine.without(&["qemu-system-x86_64"]);
    assert_eq!(
        machine.refuses("no-qemu", "", &[], 3),
        "a guest needs qemu-system-x86_64 (apt install qemu-system-x86), which this machine lacks"
    );
    let Some(machine) = Machine::here() else { return };
    let machine = machine.with("qemu-system-x86_64", "exit 1").without(&["busybox", "modprobe", "depmod"]);
    assert_eq!(
        machine.refuses("no-tools", "", &[], 3),
        "a guest needs busybox (apt install busybox-static), modprobe (apt install kmod), depmod (apt install kmod), \
         which this machine lacks"
    );
}

/// An empty cache of kernels, of this size.
fn no_kernel(size: &str) -> String {
    format!("mount -t tmpfs -o size={size} kernels /var/cache &&")
}

#[test]
fn a_kernel_that_is_not_there_is_said_with_what_fetches_it() {
    let qemu = || Machine::here().map(|machine| machine.with_qemu("exit 1"));
    let Some(machine) = qemu() else { return };
    let none = no_kernel("1g");
    let allowed = format!("{none} LINERATE_INSTALL=1");
    let said = machine.refuses("no-kernel", &none, &LITTLE, 3);
    assert_eq!(
        said,
        "a guest needs the package linux-image-amd64: `lab kernel` fetches it (LINERATE_INSTALL=0 forbids it here)"
    );
    let said = machine.refuses("no-room", &format!("{} LINERATE_INSTALL=1", no_kernel("64m")), &LITTLE, 3);
    assert_eq!(said, "/var/cache/linerate-lab has 64 MiB free and 700 are needed: make room");
    let folder = machine.place("").display().to_string();
    let said = machine.refuses("not-unpacked", &format!("LINERATE_LAB_KERNEL={folder}"), &LITTLE, 3);
    assert!(said.starts_with("there is no boot/vmlinuz-* in "), "{said}");
    fs::remove_dir(machine.place("kernel/lib/modules/9.9")).expect("removed");
    let said = machine.refuses("no-modules", &format!("LINERATE_LAB_KERNEL={folder}/kernel"), &LITTLE, 3);
    assert!(said.ends_with("has no lib/modules/9.9: the kernel package is not complete"), "{said}");
    let machine = machine.without(&["apt-get"]);
    let said = machine.refuses("no-apt", &allowed, &LITTLE, 3);
    assert_eq!(
        said,
        "a guest needs a distribution's kernel: without apt, LINERATE_LAB_KERNEL names the folder of an unpacked one"
    );
}

#[test]
fn a_kernel_that_cannot_be_fetched_or_unpacked_leaves_nothing_in_the_cache() {
    let Some(machine) = Machine::here().map(|machine| machine.with_qemu("exit 1")) else { return };
    // What the cache holds afterwards would follow the sentence.
    let listed = |machine: &Machine, test: &str, status| {
        let before = format!(
            "{} LINERATE_INSTALL=1 bash -c '\"$@\"; status=$?; ls /var/cache/linerate-lab >&2; exit $status' up",
            no_kernel("1g")
        );
        machine.refuses(test, &before, &LITTLE, status)
    };
    let machine = machine.with("apt-cache", "exit 1").with("apt-get", "exit 1");
    let fetching =
        "fetching linux-image-amd64 and unpacking it in /var/cache/linerate-lab (70 MB, once)\nlab: ";
    let said = listed(&machine, "no-package", 3);
    let why = "the package linux-image-amd64 cannot be downloaded: apt knows no such package";
    assert_eq!(said, format!("{fetching}{why}"));
    let machine = machine
        .with("apt-cache", "echo '  Depends: linux-image-9.9-amd64'")
        .with("apt-get", "echo 'E: Failed to fetch http://deb.example: no route' >&2; exit 100");
    let said = listed(&machine, "no-network", 3);
    assert!(
        said.ends_with("cannot be downloaded: E: Failed to fetch http://deb.example: no route"),
        "{said}"
    );
    let machine =
        machine.with("apt-get", "[[ $* != *download* ]] || echo no package >linux-image-9.9-amd64_1.deb");
    let said = listed(&machine, "damaged", 1);
    assert!(
        said.ends_with(
            "linux-image-9.9-amd64_1.deb cannot be unpacked: is there room in /var/cache/linerate-lab?"
        ),
        "{said}"
    );
}

/// Where memory has no room for the disks, they are files, for which there has to be room, too.
#[test]
fn disks_that_have_no_room_are_refused() {
    let Some(machine) = Machine::here().map(|machine| machine.with_qemu("exit 1")) else { return };
    let place = machine.place("small");
    fs::create_dir(&place).expect("a folder");
    let (place, kernel) = (place.display().to_string(), machine.place("kernel").display().to_string());
    let before =
        format!("mount -t tmpfs -o size=64m small {place} && TMPDIR={place} LINERATE_LAB_KERNEL={kernel}");
    let said = machine.refuses("no-disk", &before, &[&LITTLE[..], &["--disk-size", "100G"]].concat(), 3);
    let (free, wanted) = said.split_once(" has 64 MiB free and ").expect("what is free");
    assert!(free.starts_with(&place), "{said}");
    assert_eq!(
        wanted,
        "614400 are needed: make room, name another place with TMPDIR, or ask for less with --disk-size"
    );
}

/// Ends with its own complaint, panics, hangs: the guest is taken down, with what was printed last.
#[test]
fn a_qemu_that_fails_is_taken_down_with_its_last_words() {
    let qemu = |test: &str, script: &str, options: &[&str]| {
        let machine = Machine::here()?.with_qemu(script);
        let kernel = format!("LINERATE_LAB_KERNEL={}", machine.place("kernel").display());
        let said = machine.refuses(test, &kernel, &[&LITTLE[..], options].concat(), 1);
        assert_ended(&machine.place("kernel/processes"));
        Some(said)
    };
    let Some(said) = qemu("refuses", "echo 'qemu-system-x86_64: -device nvme: no such bus' >&2; exit 1", &[])
    else {
        return;
    };
    assert_eq!(
        said,
        "the guest ended while it booted; the last lines of its log:\nqemu-system-x86_64: -device nvme: no such bus"
    );
    let said = qemu("silent", "exit 0", &[]).expect("a sentence");
    assert_eq!(said, "the guest ended while it booted; the last lines of its log:\n(it printed nothing)");
    let panics = "printf '%s\\r\\n' '[ 0.1] mounting' '[ 0.2] Kernel panic - not syncing: VFS: no root' \
                  '[ 0.2] Call Trace:' >\"$console\"";
    let said = qemu("panics", panics, &[]).expect("a sentence");
    assert_eq!(
        said,
        "the guest ended while it booted (its kernel panicked); the last lines of its log:\n\
         Kernel panic - not syncing: VFS: no root\n[ 0.2] Call Trace:"
    );
    let hangs = "echo '[ 0.3] nvme nvme0: I/O timeout' >\"$console\"; sleep 1000 &
                 echo $$ $! >\"${LINERATE_LAB_KERNEL:?}/processes\"; wait";
    let said = qemu("hangs", hangs, &["--boot-seconds", "8"]).expect("a sentence");
    assert_eq!(
        said,
        "the guest was not up after 8 seconds (--boot-seconds); the last lines of its log:\n\
         [ 0.3] nvme nvme0: I/O timeout"
    );
}

/// None of these processes runs. One that was killed may wait for its parent to ask for its end.
fn assert_ended(file: &Path) {
    let Ok(processes) = fs::read_to_string(file) else { return };
    for process in processes.split_whitespace() {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        assert!(matches!(state, None | Some('Z' | 'X')), "process {process} runs: {stat}");
    }
}
