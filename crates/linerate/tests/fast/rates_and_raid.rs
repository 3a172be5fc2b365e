//! `linerate plan rates` and `linerate plan raid` as a user has them; and the mkfs lines that they print, run by
//! mkfs itself on sparse files.

use crate::support::process::{Ends, ProcessEnd};
use linerate::plan::raid::{Pattern, RaidCommand, RaidLayout, RaidLevel, RaidSpec, raid};
use std::path::{Path, PathBuf};
use std::process::Command;

fn linerate(words: &[&str]) -> ProcessEnd {
    crate::support::linerate().args(words).env("COLUMNS", "80").env("LC_ALL", "C.UTF-8").ended()
}

/// What it printed; it has to have gone well.
fn printed(words: &[&str]) -> String {
    let output = linerate(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    assert!(output.stderr.is_empty(), "{words:?}: {output:?}");
    output.stdout
}

/// It refuses, with this status and all of these words on standard error.
fn refused(words: &[&str], status: i32, said: &[&str]) {
    let output = linerate(words);
    let error = &output.stderr;
    output.gives(status);
    assert!(output.stdout.is_empty(), "{words:?}");
    for word in said {
        assert!(error.contains(word), "{words:?}: {error} lacks “{word}”");
    }
}

#[test]
fn every_table_fits_the_screen_and_is_json() {
    for table in ["pcie", "memory", "interconnect", "ethernet", "otn", "storage"] {
        let text = printed(&["plan", "rates", table]);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("rated") && text.contains("effective"), "{text}");
        let json: serde_json::Value =
            serde_json::from_str(&printed(&["plan", "rates", table, "--json"])).expect("JSON");
        let rows = json[0]["rows"].as_array().expect("rows");
        assert!(
            rows.iter().all(|row| row["source"].as_str().is_some_and(|source| !source.is_empty())),
            "{json}"
        );
    }
    let all = printed(&["plan", "rates"]);
    assert!(
        all.contains("PC3-10600")
            && all.contains("OTU2e")
            && all.contains("Ultra320")
            && all.contains("PCI-X")
    );
}

#[test]
fn wrong_words_are_named() {
    refused(&["plan", "rates", "token-ring"], 2, &["token-ring", "pcie", "storage"]);
    refused(&["plan", "raid"], 2, &["--level", "--disks"]);
    refused(&["plan", "raid", "--level", "raid5", "--disks", "2"], 2, &["at least 3", "raid1"]);
    refused(&["plan", "raid", "--level", "raid5", "--disks", "8", "--chunk", "6000"], 2, &["--chunk 8192"]);
    refused(
        &["plan", "raid", "--level", "raid5", "--disks", "8", "--request", "512"],
        2,
        &["--request", "--block"],
    );
    refused(&["plan", "raid", "--level", "raid5", "--disks", "0"], 2, &["not 0"]);
    refused(&["plan", "raid", "--check", "/nonexistent"], 3, &["/nonexistent", "check the path"]);
    refused(&["plan", "raid", "--check", "--level", "raid5"], 2, &["--check"]);
}

#[test]
fn a_machine_without_arrays_is_said_to_have_none() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/virtual-machine");
    let root = root.display().to_string();
    refused(&["plan", "raid", "--check", &root], 3, &["no array", "--level"]);
}

fn layout(level: RaidLevel, disks: u32) -> RaidLayout {
    raid(&RaidSpec {
        level,
        disks,
        block_bytes: 4096,
        request_bytes: 1 << 20,
        pattern: Pattern::SequentialWrite,
        chunk_bytes: None,
        devices: Vec::new(),
    })
    .expect("a layout")
}

/// The line of a program that names all of these words.
fn line<'a>(layout: &'a RaidLayout, program: &str, words: &[&str]) -> &'a RaidCommand {
    let fits = |line: &&RaidCommand| {
        line.words[0] == program && words.iter().all(|word| line.shell().contains(word))
    };
    layout.lines.iter().find(fits).expect("a line")
}

/// A sparse file in place of a device.
fn device(folder: &Path, name: &str, bytes: u64) -> PathBuf {
    let path = folder.join(name);
    std::fs::File::create(&path).and_then(|file| file.set_len(bytes)).expect("a sparse file");
    path
}

/// Runs a printed line with files instead of its devices; none, with a message, where the program is not
/// installed.
fn run(line: &RaidCommand, dry: &[&str], files: &[PathBuf]) -> Option<String> {
    let program = &line.words[0];
    let devices = line.words.iter().position(|word| word.starts_with("/dev/") || word.starts_with("DISK"));
    let options = &line.words[1..devices.expect("devices")];
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(dry).args(options).args(files).env("PATH", path).output();
    let Ok(output) = output else {
        println!("skipped: {program} is not installed");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", line.shell());
    Some(text.into_owned())
}

#[test]
fn mkfs_xfs_takes_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = [device(folder.path(), "array", 4 << 30)];
    for (level, disks) in
        [(RaidLevel::Raid0, 8), (RaidLevel::Raid5, 4), (RaidLevel::Raid6, 7), (RaidLevel::Raid10, 6)]
    {
        let layout = layout(level, disks);
        let Some(text) = run(line(&layout, "mkfs.xfs", &["su="]), &["-N"], &file) else { return };
        let blocks = |bytes: Option<u64>| bytes.unwrap_or_default() / 4096;
        let believed =
            format!("sunit={:<6} swidth={} blks", blocks(layout.chunk_bytes), blocks(layout.stripe_bytes));
        assert!(text.contains(&believed), "{believed}: {text}");
    }
    let plain = layout(RaidLevel::Raid1, 2);
    run(line(&plain, "mkfs.xfs", &[]), &["-N"], &file);
}

#[test]
fn mkfs_ext4_takes_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = [device(folder.path(), "array", 1 << 30)];
    for (level, disks) in
        [(RaidLevel::Raid0, 8), (RaidLevel::Raid5, 4), (RaidLevel::Raid6, 7), (RaidLevel::Raid10, 6)]
    {
        let layout = layout(level, disks);
        let Some(text) = run(line(&layout, "mkfs.ext4", &["stride="]), &["-n", "-v"], &file) else { return };
        let (stride, wide) = (layout.stride_blocks, layout.stripe_width_blocks);
        let believed =
            format!("Stride={} blocks, Stripe width={} blocks", stride.unwrap_or(0), wide.unwrap_or(0));
        assert!(text.contains(&believed), "{believed}: {text}");
    }
}

#[test]
fn mkfs_btrfs_takes_its_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    for (level, disks, profile) in [
        (RaidLevel::BtrfsRaid0, 3, "RAID0"),
        (RaidLevel::BtrfsRaid1, 3, "RAID1"),
        (RaidLevel::BtrfsRaid10, 4, "RAID10"),
        (RaidLevel::Linear, 2, "single"),
    ] {
        let files: Vec<PathBuf> =
            (0..disks).map(|disk| device(folder.path(), &format!("disk{disk}"), 1 << 30)).collect();
        let layout = layout(level, disks);
        let made = line(&layout, "mkfs.btrfs", &["DISK1"]);
        let Some(text) = run(made, &["--force"], &files) else { return };
        let data = text.lines().find(|line| line.trim_start().starts_with("Data:")).unwrap_or_default();
        assert!(data.contains(profile), "{profile}: {text}");
    }
    let file = [device(folder.path(), "array", 1 << 30)];
    let on_md = layout(RaidLevel::Raid6, 6);
    run(line(&on_md, "mkfs.btrfs", &["single", "/dev/md/data"]), &["--force"], &file);
}
