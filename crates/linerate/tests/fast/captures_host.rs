//! Caches and NUMA distances of recorded trees against what hwloc's `lstopo` reads from the same trees.
//! Without the captures (`LINERATE_CAPTURES`, or `../shared/captures` beside the workspace) this is skipped
//! and says so.

use crate::support::place::{captures, unpack};
use linerate::fact::Fact;
use linerate::probe::cpu_list::parse_mask;
use linerate::probe::{Machine, probe};
use linerate::sysroot::Sysroot;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Unpacks what of an archive tells of processors and nodes; `None` (and a message) where `tar` cannot.
fn unpacked(archive: &Path) -> Option<(tempfile::TempDir, PathBuf)> {
    // Making files is what takes the time. Of lists and masks the masks stay, which lstopo reads, too: in one
    // tree the two contradict each other.
    let unread = "pci[0-9]* device-tree hugepages bus class access? ve memory[0-9]* crash_notes* cpuidle \
                  cpufreq power \
        coherency_line_size *_list number_of_sets ways_of_associativity physical_line_partition id uevent \
        die_* cluster_* thermal_throttle microcode";
    let words: Vec<String> =
        unread.split_ascii_whitespace().map(|name| format!("--exclude=*/{name}")).collect();
    let place = unpack(archive, &words.iter().map(String::as_str).collect::<Vec<_>>())?;
    let entries = std::fs::read_dir(place.path()).expect("the unpacked archive");
    let root = entries.flatten().map(|entry| entry.path()).find(|path| path.join("sys").is_dir());
    Some((place, root.expect("a tree in the archive")))
}

/// What `lstopo` reads from the same tree.
fn lstopo(root: &Path) -> Option<String> {
    let output = Command::new("lstopo-no-graphics")
        .args(["--of", "xml", "--filter", "all:all"])
        .env("HWLOC_FSROOT", root)
        .env("HWLOC_THISSYSTEM", "0")
        .env("HWLOC_COMPONENTS", "linux,stop")
        .output();
    match output {
        Ok(output) if output.status.success() => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        _ => {
            println!("skipped: no lstopo to compare with");
            None
        }
    }
}

/// Level, kind, size and sharers of a cache.
type Known = (u32, String, u64, Vec<u32>);

fn caches_of_lstopo(xml: &str) -> BTreeSet<Known> {
    let objects = xml.lines().filter(|line| line.contains("<object type=\"L") && line.contains("Cache\""));
    objects
        .map(|line| {
            let value = |key: &str| {
                line.split(&format!(" {key}=\"")).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or("")
            };
            let kind =
                ["Unified", "Data", "Instruction"][value("cache_type").parse::<usize>().expect("a type")];
            let words = value("complete_cpuset").replace("0x", "");
            let words: Vec<&str> =
                words.split(',').map(|word| if word.is_empty() { "0" } else { word }).collect();
            let cpus = parse_mask(&words.join(",")).expect("a set of processors");
            let number = |key: &str| value(key).parse::<u64>().expect("a number");
            (number("depth") as u32, kind.to_string(), number("cache_size"), cpus)
        })
        .collect()
}

fn caches_of(machine: &Machine) -> BTreeSet<Known> {
    let size = |size: &Fact<u64>| size.known().copied().unwrap_or(0);
    let caches = machine.cpu.caches.iter();
    caches
        .map(|cache| (cache.level, cache.kind.clone(), size(&cache.size_bytes), cache.cpus.clone()))
        .collect()
}

/// The matrix that the firmware gave, and the nodes of its rows; `None` where lstopo shows none.
fn distances_of_lstopo(xml: &str) -> Option<(Vec<u32>, Vec<u32>)> {
    let matrix = xml.split("name=\"NUMALatency\"").nth(1)?.split("</distances2>").next()?;
    let numbers = |element: &str| -> Vec<u32> {
        let element = format!("<{element} ");
        let parts = matrix.split(&element).skip(1);
        let texts = parts.map(|part| part.split(['>', '<']).nth(1).unwrap_or(""));
        texts.flat_map(str::split_ascii_whitespace).map(|word| word.parse().expect("a number")).collect()
    };
    Some((numbers("indexes"), numbers("u64values")))
}

/// Our matrix of some nodes: lstopo leaves out those without memory and those that the recorded control group
/// does not grant.
fn distances_of(machine: &Machine, wanted: &[u32]) -> Option<Vec<u32>> {
    let nodes = &machine.memory.nodes;
    let column = |id: &u32| nodes.iter().position(|node| node.id == *id);
    let columns: Vec<usize> = wanted.iter().map(column).collect::<Option<_>>()?;
    let mut matrix = Vec::new();
    for row in &columns {
        let row = nodes.get(*row)?.distances.known()?;
        matrix.extend(columns.iter().map(|column| row[*column]));
    }
    Some(matrix)
}

#[test]
fn caches_and_distances_of_every_hwloc_tree_as_lstopo_shows_them() {
    let Some(captures) = captures() else { return };
    let entries = std::fs::read_dir(captures.join("hwloc/linux")).expect("the trees");
    let mut archives: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    archives.retain(|path| path.extension().is_some_and(|ending| ending == "bz2"));
    archives.sort();
    let (mut with_caches, mut with_distances) = (0, 0);
    for archive in &archives {
        let name = archive.file_name().expect("a name").to_string_lossy().replace(".tar.bz2", "");
        let Some((_place, root)) = unpacked(archive) else { return };
        let Some(xml) = lstopo(&root) else { return };
        let machine = probe(&Sysroot::recorded(&root));
        with_caches += compare_caches(&name, &machine, &caches_of_lstopo(&xml));
        if let Some((nodes, expected)) = distances_of_lstopo(&xml) {
            assert_eq!(distances_of(&machine, &nodes), Some(expected), "{name}: distances");
            with_distances += 1;
        }
    }
    assert!(with_caches >= 16 && with_distances >= 12, "{with_caches} trees, {with_distances} matrices");
}

/// 1 where the tree has caches.
fn compare_caches(name: &str, machine: &Machine, expected: &BTreeSet<Known>) -> usize {
    let found = caches_of(machine);
    match name {
        // lstopo shows what the recorded control group grants; in the other tree it merges two packages whose
        // PCI buses conflict on purpose.
        "32amd64-4s2n4c-cgroup2" | "40intel64-4n10c+pci-conflicts" => {
            assert!(found.is_superset(expected), "{name}: caches");
        }
        _ => assert_eq!(&found, expected, "{name}: caches"),
    }
    usize::from(!found.is_empty())
}
