//! What a lab is made of: data, sides that see their own, file systems.

use super::named;
use crate::support::process::Ends;
use std::io::Read;
use std::process::Command;

#[test]
fn data_is_written_and_differs_between_disks() {
    let Some(lab) = named("data") else { return };
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
    let Some(lab) = named("sides") else { return };
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
        assert!(groups.contains(&format!("/linerate-{}/{end}", lab.name())), "{side}: {groups}");
        // The control groups' files are still below /sys: linerate reads the quota there.
        assert!(!lab.succeed(side, &["--", "ls", "/sys/fs/cgroup"]).trim().is_empty());
    }
    let netns = format!("linerate-{}-server", lab.name());
    let shaped = Command::new("tc").args(["-n", &netns, "qdisc", "show"]).ended();
    let shaped = &shaped.stdout;
    assert!(
        shaped.contains("tbf") && shaped.contains("rate 1Gbit") && shaped.contains("rate 500Mbit"),
        "{shaped}"
    );
    assert_eq!(lab.succeed("address", &[]).lines().count(), 2);
    assert!(lab.call("address", &["2"]).status.code() == Some(2), "there is no third NIC");
    // Nobody listens on the peer: that it refuses shows that the second path leads there.
    let knock = format!("exec 3<>/dev/tcp/{}/9", lab.succeed("address", &["1"]).trim());
    let refused = lab.call("run", &["--", "timeout", "5", "bash", "-c", &knock]);
    assert!(refused.stderr.contains("refused"), "{}", refused.stderr);
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
    let Some(lab) = named("btrfs") else { return };
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
        let used = Command::new("btrfs").args(["filesystem", "df", place]).ended();
        let used = used.stdout.to_ascii_lowercase();
        let level = kind.strip_prefix("btrfs-").unwrap_or("single");
        assert!(used.contains(&format!("data, {level}")), "{kind}: {used}");
        lab.succeed("down", &[]);
        lab.assert_nothing_remains(kind);
    }
    let one = lab.call("up", &["--disks", "1x0", "--fs", "btrfs-raid1"]);
    assert_eq!(
        (one.status.code(), one.stderr.contains("two disks or more")),
        (Some(2), true),
        "{}",
        one.stderr
    );
}
