//! Machine files as people write them, and as they get them wrong.

use super::*;
use crate::plan::parts::{DeviceKind, JointKind, PartPlace};
use proptest::prelude::*;

const SMALL: &str = include_str!("small.toml");

/// The message with its place, of a file that is wrong.
fn wrong(text: &str) -> String {
    parse(text).expect_err("a mistake").to_string()
}

#[test]
fn a_small_machine() {
    let parts = parse(SMALL).expect("a machine");
    assert_eq!(parts.nodes.len(), 2);
    let memory = parts.nodes[1].memory_bytes_per_second.known().expect("a rate");
    assert!((memory - 6.0 * 8.0 * (8800.0 / 3.0) * 1e6).abs() < 1e3, "{memory}");
    assert_eq!(parts.nodes[0].cores.known(), Some(&8.0));
    let link = &parts.socket_links[0];
    assert_eq!((link.bytes_per_second.known(), link.words.as_str()), (Some(&41.6e9), "2 × UPI 10.4 GT/s"));
    let names: Vec<String> = parts.devices.iter().map(|device| device.id()).collect();
    assert_eq!(names, ["nic:eth0p0", "nic:eth0p1", "disk:sd0", "disk:sd1", "disk:sd2", "disk:nvme0"]);
    assert_eq!(parts.node_of(&parts.devices[0].place), Some(1));
    assert_eq!(parts.joint("hba").map(|joint| joint.kind), Some(JointKind::Controller));
    assert_eq!(parts.devices[5].place, PartPlace::Joint("nvme0".into()));
    assert!(matches!(&parts.devices[2].what, DeviceKind::Disk { write, .. } if write.why().is_some()));
}

#[test]
fn an_empty_file_is_a_machine_with_one_node() {
    let parts = parse("").expect("a machine");
    assert_eq!((parts.nodes.len(), parts.devices.len()), (1, 0));
    assert!(parts.nodes[0].memory_bytes_per_second.why().is_some_and(|why| why.contains("machine file")));
}

#[test]
fn mistakes_are_reported_with_their_place_and_the_remedy() {
    for (text, place, words) in [
        ("name = ", "line 1, ", ""),
        ("[memory]\nspede = 3", "line 2, column 1", "unknown field `spede`"),
        ("[[nic]]\nname = \"a\"\nrate = 10\n", "line 3, column 8", "\"10G\""),
        ("[[nic]]\nname = \"a\"\nrate = \"10GiB\"\n", "line 3, column 8", "not a rate"),
        ("[[nic]]\nname = \"a\"\nrate = \"100TB/s\"\n", "line 3, column 8", "check its unit"),
        ("[[nic]]\nname = \"a\"\n", "line 1, ", "missing field `rate`"),
        ("[[slot]]\nname = \"s\"\npcie = \"9x8\"\n", "line 3, column 8", "1 to 7"),
        ("[[hub]]\nname = \"h\"\nlink = \"qpi\"\n", "line 3, column 8", "qpi 6.4"),
        ("[[hub]]\nname = \"h\"\non = \"node7\"\n", "line 3, column 6", "one node, node0"),
        (
            "[[nic]]\nname = \"a\"\nrate = \"1G\"\non = \"slot9\"\n",
            "line 4, column 6",
            "nothing is called “slot9”",
        ),
        (
            "[[slot]]\nname = \"s\"\npcie = \"3x8\"\n[[disk]]\nname = \"d\"\non = \"s\"\n",
            "line 6, column 6",
            "add pcie",
        ),
        ("[[hub]]\nname = \"x\"\n[[hub]]\nname = \"x\"\n", "line 4, column 8", "is taken by a hub"),
        ("[[hub]]\nname = \"node1\"\n", "line 2, column 8", "choose another"),
        ("[[hub]]\nname = \"a b\"\n", "line 2, column 8", "is not a name"),
        ("[processor]\nsockets = 0\n", "line 2, column 11", "1 to 256"),
        ("[processor]\nsockets = -1\n", "line 2, column 11", "-1"),
        ("[processor]\ncpu_seconds_per_gb = nan\n", "line 2, column 22", "cannot be"),
        ("[processor]\nclock = \"2660\"\n", "line 2, column 9", "2.66GHz"),
        ("[memory]\nspeed = 3200\nchannels = 99\n", "line 3, column 12", "1 to 64"),
        ("[memory]\nrate = \"50GB/s\"\nspeed = 3200\n", "line 2, column 8", "give one of them"),
        (
            "[processor]\nsockets = 2\n[[nic]]\nname = \"a\"\nrate = \"1G\"\n",
            "line 4, column 8",
            "on = \"node0\"",
        ),
        ("[[socket_link]]\nbetween = [0, 1]\nlink = \"qpi 6.4\"\n", "line 2, column 11", "no node1"),
        ("[[socket_link]]\nbetween = [0]\nlink = \"qpi 6.4\"\n", "line 2, column 11", "two nodes"),
        ("[[nic]]\nname = \"a\"\nrate = \"1G\"\nmtu = 9\n", "line 4, column 7", "576 to 65535"),
        (
            "[[nic]]\nname = \"a\"\nrate = \"1G\"\npcie=\"3x8\"\nmax_payload = 100\n",
            "line 5, column 15",
            "128, 256",
        ),
        ("[[disk]]\nname = \"d\"\ncount = 100000\n", "line 3, column 9", "1 to 1024"),
        ("[[disk]]\nname = \"d\"\ncount = 1\non = [\"a\", \"b\"]\n", "line 4, column 6", "2 places"),
        (
            "[[hub]]\nname = \"h\"\nlanes = 4\n[[slot]]\nname = \"s\"\non = \"h\"\npcie = \"3x8\"\n",
            "line 3, column 9",
            "4 lanes",
        ),
        (
            "[[switch]]\nname = \"a\"\non = \"b\"\npcie = \"3x8\"\n[[switch]]\nname = \"b\"\non = \
             \"a\"\npcie = \"3x8\"\n",
            "line 2, column 8",
            "circle",
        ),
        (
            "[[slot]]\nname = \"s\"\npcie = \"3x8\"\n[[gpu]]\nname = \"g\"\ncount = 2\non = \"s\"\npcie = \
             \"3x8\"\n",
            "line 7, column 6",
            "holds g0 already",
        ),
        (
            "[[controller]]\nname = \"c\"\ndisk_ports = 1\n[[disk]]\nname = \"d\"\ncount = 2\non = \"c\"\n",
            "line 7, column 6",
            "1 disk_ports",
        ),
        (
            "[[slot]]\nname = \"s\"\npcie = \"3x8\"\n[[nic]]\nname = \"a\"\non = \"s\"\nrate = \"10G\"\n\
             [[nic]]\nname = \"b\"\non = \"s\"\nrate = \"10G\"\n",
            "line 10, column 6",
            "s holds a already: a slot takes one card",
        ),
        ("[[volume]]\nname = \"v\"\nover = \"d\"\n", "line 3, column 8", "no [[disk]] called “d”"),
        ("[[volume]]\nname = \"v\"\nover = []\n", "line 3, column 8", "at least one disk"),
        (
            "[[disk]]\nname = \"d\"\n[[volume]]\nname = \"v\"\nover = \"d\"\nefficiency = 1.5\n",
            "line 6, column 14",
            "at most 1",
        ),
        (
            "[[disk]]\nname = \"d\"\n[[volume]]\nname = \"v\"\nover = \"d\"\nread = \"1GB/s\"\nefficiency = 0.5\n",
            "line 7, column 14",
            "replaces read and write",
        ),
        (
            "[[disk]]\nname = \"d\"\n[[volume]]\nname = \"v\"\nover = \"d\"\ntier = \"d\"\n",
            "line 6, column 8",
            "say with hits",
        ),
        (
            "[[disk]]\nname = \"d\"\n[[volume]]\nname = \"v\"\nover = \"d\"\nhits = 0.5\n",
            "line 6, column 8",
            "say with tier",
        ),
        (
            "[[disk]]\nname = \"d\"\n[[volume]]\nname = \"v\"\nover = \"d\"\ntier = \"d\"\nhits = 1.5\n",
            "line 7, column 8",
            "below 1",
        ),
        (
            "[[disk]]\nname = \"d\"\n[[volume]]\nname = \"v\"\nover = \"d\"\ntier = \"d\"\nhits = 0.5\n",
            "line 6, column 8",
            "all disks of the volume",
        ),
        (
            "[[disk]]\nname = \"d\"\n[[volume]]\nname = \"v\"\nover = \"d\"\ntier = \"d\"\nhits = 0.5\nread = \"1GB/s\"\n",
            "line 7, column 8",
            "replaces read",
        ),
        (
            "[[disk]]\nname = \"d\"\n[[volume]]\nname = \"d\"\nover = \"d\"\n",
            "line 4, column 8",
            "taken by a disk",
        ),
        ("[[bus]]\nname = \"b\"\n", "line 1, ", "missing field `rate`"),
        (
            "[processor]\nsockets = 3\n[[socket_link]]\nbetween = [0, 1]\nrate = \"9GB/s\"\n",
            "line 4, column 11",
            "leads to node2",
        ),
    ] {
        let complaint = wrong(text);
        assert!(complaint.starts_with(place) && complaint.contains(words), "{text:?}: {complaint}");
        assert!(!complaint.contains('\n'), "one line: {complaint:?}");
    }
    assert!(wrong(&"#".repeat(LARGEST_FILE_BYTES + 1)).contains("at most 1 MiB"));
    assert!(wrong(&format!("a = {}", "[".repeat(100_000))).contains("line 1"));
}

#[test]
fn places_are_counted_in_letters() {
    let error = parse("# ä\nname = \"ü\"\nnane = 1\n").expect_err("a mistake");
    assert_eq!((error.line, error.column), (3, 1));
    let error = parse("name = \"ü\"  \nhub = \"üü\" ").expect_err("a mistake");
    assert_eq!(error.line, 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_text_makes_a_panic(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    /// A machine with one place overwritten: it reads or it tells where.
    #[test]
    fn no_edit_makes_a_panic(at in 0usize..SMALL.len(), with in "[\"a-z0-9=\\[\\]. \
                                                                 \n]{0,6}", drop in 0usize..40) {
        let mut text = String::new();
        text.push_str(&SMALL[..at]);
        text.push_str(&with);
        text.push_str(SMALL.get(at + drop..).unwrap_or_default());
        match parse(&text) {
            Ok(parts) => prop_assert!(parts.joints.iter().all(|joint| parts.node_of(&joint.up).is_some())),
            Err(error) => prop_assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1 && !error.message.is_empty()),
        }
    }
}
