//! `linerate plan` on the servers whose limits are published: the machine files in `examples/machines`, which
//! hold parts only: what limits them. The figures that their makers measured are in `examples/papers`, which `linerate
//! reproduce` holds against the plans.

use crate::support::place::captures;
use crate::support::process::Ends;
use linerate::plan::flow::{Flow, FlowPlan, Method, plan_flow};
use linerate::plan::machine_file;
use linerate::plan::parts::{MachineParts, from_machine};
use linerate::plan::sizing::size;
use linerate::plan::whatif::{WhatIfChange, apply};
use linerate::probe::probe;
use linerate::protocol::Protocol;
use linerate::sysroot::Sysroot;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/machines")
}

fn machine(name: &str) -> MachineParts {
    let text = std::fs::read_to_string(folder().join(name)).expect("a machine file");
    machine_file::parse(&text).unwrap_or_else(|error| panic!("{name}, {error}"))
}

fn flow(parts: &MachineParts, from: &[&str], to: &[&str], protocol: Protocol, method: Method) -> FlowPlan {
    plan_flow(parts, &Flow::between(parts, [from, to], protocol, method).expect("ends"))
}

fn likely(plan: &FlowPlan) -> f64 {
    plan.ceiling.likely_bytes_per_second.expect("a likely rate")
}

fn gigabits(plan: &FlowPlan) -> f64 {
    likely(plan) * 8.0 / 1e9
}

/// `ours` is within this many percent of `theirs`.
#[track_caller]
fn close(ours: f64, theirs: f64, percent: f64) {
    let off = (ours / theirs - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{ours} is {off:+.1} % from {theirs}");
}

/// D1.1 §5: the x4 slot limits one of three NICs.
#[test]
fn three_nics_of_a_t610_are_limited_by_a_slot_and_two_ports() {
    let parts = machine("dell-t610.toml");
    let all = flow(&parts, &["memory"], &["nic"], Protocol::Udp, Method::Direct);
    assert_eq!(all.likely.cut, ["pcie:eth0", "nic:eth1", "nic:eth2"]);
    assert!(all.sentence.contains("eth0 in slot1"), "{}", all.sentence);
    assert!(all.sentence.contains("the card could use 8 lanes, the slot gives 4"), "{}", all.sentence);
    // The link leaves 8 Gb/s × 128 / 148 = 6.92 Gb/s of frames.
    let link = all.resources.iter().find(|resource| resource.id == "pcie:eth0").expect("the link");
    close(link.capacity * 8.0 / 1e9 * 9014.0 / 8972.0, 6.92, 0.1);
}

/// D1.1 §3.3: the RAID card's slot, and in a wider one the disks, since no data sheet of the card is known here.
#[test]
fn six_disks_of_a_t610_are_limited_by_the_raid_cards_slot() {
    let mut parts = machine("dell-t610.toml");
    let read = flow(&parts, &["disk"], &["memory"], Protocol::Tcp, Method::Direct);
    assert_eq!(read.likely.cut, ["pcie:perc"]);
    assert_eq!(read.next.as_ref().map(|next| next.cut.len()), Some(6), "then the six disks");
    apply(&mut parts, &WhatIfChange::Remove("eth2".into())).expect("a free slot");
    apply(&mut parts, &WhatIfChange::Move("perc=slot3".into())).expect("the card fits");
    let wide = flow(&parts, &["disk"], &["memory"], Protocol::Tcp, Method::Direct);
    assert_eq!(wide.likely.cut.len(), 6, "{}", wide.sentence);
    let controller = wide.resources.iter().find(|resource| resource.id == "controller:perc").expect("it");
    assert!(controller.why.as_deref().is_some_and(|why| why.contains("no data sheet")));
}

/// CUNY, tests 1 and 2, with the single card's own measurement in place of its data sheet.
#[test]
fn twelve_cards_of_a_uv_300_are_twelve_times_one() {
    let mut parts = machine("sgi-uv300.toml");
    let read = flow(&parts, &["disk"], &["memory"], Protocol::Tcp, Method::Direct);
    assert_eq!(read.likely.cut.len(), 12);
    assert!(read.sentence.contains("the 12 disks (nvme0–nvme11"), "{}", read.sentence);
    for figure in ["nvme.read=2.78GB/s", "nvme.write=2.05GB/s"] {
        apply(&mut parts, &WhatIfChange::Set(figure.into())).expect("a figure");
    }
    let of = |from: &[&str], to: &[&str]| likely(&flow(&parts, from, to, Protocol::Tcp, Method::Direct));
    close(of(&["disk"], &["memory"]), 33.36e9, 0.001);
    close(of(&["memory"], &["disk"]), 24.6e9, 0.001);
}

/// CUNY, tests 3 to 6: what is between the disks and the flow is software; named as an end, it is what limits.
#[test]
fn volumes_of_the_documents_limit_what_goes_through_them() {
    let uv = machine("sgi-uv300.toml");
    for name in ["md", "xvm", "gpfs-1m", "gpfs-4m"] {
        let volume = format!("volume:{name}");
        let plan = flow(&uv, &[&volume], &["memory"], Protocol::Tcp, Method::Direct);
        assert_eq!(plan.likely.cut, [volume]);
        assert!(plan.sentence.contains("over 12 disks, measured elsewhere"), "{}", plan.sentence);
        // The cards are what the bytes come from, each for its part.
        assert_eq!(plan.shares.len(), 12);
        plan.shares.iter().for_each(|share| close(share.bytes_per_second, likely(&plan) / 12.0, 0.1));
    }
    // Alternatives: “all disks” are the cards themselves.
    close(likely(&flow(&uv, &["disk"], &["memory"], Protocol::Tcp, Method::Direct)), 33.6e9, 0.001);
    let file = folder().join("sgi-uv300.toml");
    let (status, screen, _) =
        linerate(&["--machine", &file.to_string_lossy(), "--from", "volume:md", "--to", "memory"]);
    assert_eq!(status, Some(0));
    assert!(screen.contains("12 disks to memory, through the volume md"), "{screen}");
    assert!(screen.contains("limited by  the volume md (29.9 GB/s, md RAID 0"), "{screen}");
}

/// openBench: four drives of 72 MB/s on one Ultra320 bus.
#[test]
fn four_ultra320_drives_limit_before_their_bus() {
    let mut parts = machine("appro-1224xi.toml");
    let read = flow(&parts, &["disk"], &["memory"], Protocol::Tcp, Method::Direct);
    assert_eq!(read.likely.cut, ["disk:sd0", "disk:sd1", "disk:sd2", "disk:sd3"]);
    let next = read.next.as_ref().expect("a next limit");
    assert_eq!(next.cut, ["controller:scsi"], "a fifth drive would find 320 MB/s");
    close(*next.bytes_per_second.known().expect("known"), 320e6, 0.01);
    apply(&mut parts, &WhatIfChange::Add("disk=72MB/s@scsi".into())).expect("a fifth drive");
    let fifth = flow(&parts, &["disk"], &["memory"], Protocol::Tcp, Method::Direct);
    assert_eq!(fifth.likely.cut, ["controller:scsi"]);
    assert!(fifth.sentence.contains("Ultra320 SCSI"), "{}", fifth.sentence);
}

/// The 40G slides: one port of each card is the 40 Gb/s that the demonstration had of network; D1.3 §1 reached more than
/// 40 Gb/s, so more ports were used.
#[test]
fn the_streaming_servers_parts_allow_more_than_forty_gigabits() {
    let parts = machine("streaming-server.toml");
    let four = ["nic:myri0p0", "nic:myri1p0", "nic:myri2p0", "nic:myri3p0"];
    let demo = flow(&parts, &["disk"], &four, Protocol::Udp, Method::Cached);
    close(gigabits(&demo), 39.7, 0.1);
    assert_eq!(demo.likely.cut, four, "four ports limit first");
    // 8 cores 70 % busy at 32.5 Gb/s are 1.38 CPU seconds per GB, the default of servers of that age.
    let held = flow(&parts, &["disk"], &["nic"], Protocol::Udp, Method::Cached);
    let mut parts = parts;
    apply(&mut parts, &WhatIfChange::Set("cpu.cost=0.17".into())).expect("a cost");
    let all = flow(&parts, &["disk"], &["nic"], Protocol::Udp, Method::Cached);
    assert_eq!(all.likely.cut, ["pcie:hba0", "pcie:hba1"], "{}", all.sentence);
    close(gigabits(&all), 2.0 * 32.0 * 128.0 / 152.0, 0.1);
    assert_eq!(all.placement.crossing_bytes_per_second, 0.0, "disks and NICs are on both hubs");
    assert_eq!(held.likely.cut, ["cpu:0", "cpu:1"]);
    close(gigabits(&held), 32.5 / 0.7, 1.0);
}

/// D1.1 §6: "Finding a motherboard with 7 to 8 PCI Express 2.0 ×8 slots may be difficult". SARA divided 40 Gb/s by what its
/// one card had reached, 6.8 and 8.2 Gb/s, and put eight disks on each; here it is the disk's 154 MB/s "in practice" (§3.1)
/// and what disks give together (D1.3 table 8).
#[test]
fn the_cards_of_forty_gigabits_are_put_into_a_t610s_slots() {
    let parts = machine("dell-t610.toml");
    let wanted = Flow::between(&parts, [&["disk"], &["nic"]], Protocol::Udp, Method::Direct).expect("ends");
    let sizing = size(&parts, &wanted, 40e9 / 8.0);
    let need = |part: &str| sizing.needs.iter().find(|need| need.part == part).expect("a need").count;
    assert_eq!(need("memory channel"), 2);
    close(sizing.payload_bytes_per_second * 8.0 / 1e9, 39.7, 0.1);
    // Seven cards; this server has two slots for the NICs, three more that carry a controller, and one that
    // carries nothing of it.
    let takes = |slot: &str| sizing.slots.iter().find(|used| used.slot == slot).expect("a slot").takes;
    assert_eq!([takes("slot2"), takes("slot3")], [Some("NIC"); 2]);
    assert_eq!([takes("slot1"), takes("slot4"), takes("slot5")], [Some("disk controller"); 3]);
    assert_eq!((takes("storage"), sizing.without_slot), (None, 2));
    let why = sizing.slots.iter().find(|used| used.slot == "storage").and_then(|used| used.why.clone());
    assert!(why.as_deref().is_some_and(|why| why.contains("6.74 Gb/s of the 7.94 Gb/s")), "{why:?}");
    // A tenth of that is one of each, and the machine's own parts do for a file without a catalogue.
    assert_eq!(size(&parts, &wanted, 0.4e9 / 8.0).without_slot, 0);
    let own = machine("appro-1224xi.toml");
    let read = Flow::between(&own, [&["disk"], &["memory"]], Protocol::Tcp, Method::Direct).expect("ends");
    let disks = size(&own, &read, 500e6).needs.iter().find(|need| need.part == "disk").map(|need| need.count);
    assert_eq!(disks, Some(9), "500 MB/s of drives of 72 MB/s, 81 % of each");
}

/// hwloc's Skylake server, whose on-chip X722 shows 2.5 GT/s x1: no limit of it, now or next.
#[test]
fn the_x722_of_a_capture_is_not_held_at_2_5_gigatransfers() {
    let Some(captures) = captures() else { return };
    let tree = Sysroot::at(&captures.join("hwloc/linux/32intel64-2p8co2t+8ve.tar.bz2")).expect("the server");
    let parts = from_machine(&probe(&tree));
    let plan = flow(&parts, &["memory"], &["nic"], Protocol::Tcp, Method::Direct);
    assert!(plan.likely.cut.iter().all(|id| id.starts_with("nic:")), "{}", plan.sentence);
    // What comes next is the chip's link of 8 GT/s x8, not the one lane of 2.5 GT/s that each port shows.
    let next = plan.next.as_ref().expect("a next limit");
    let rate = next.bytes_per_second.known().copied();
    assert!(rate.is_none_or(|rate| rate > 5e9), "{}", plan.sentence);
}

/// The program itself: exit status, standard output, standard error.
fn linerate(words: &[&str]) -> (Option<i32>, String, String) {
    let state = tempfile::tempdir().expect("a folder without kept runs");
    let mut command = crate::support::linerate();
    command.env("XDG_STATE_HOME", state.path()).env("COLUMNS", "100");
    command.arg("plan").args(words).ended().parts()
}

#[test]
fn the_screen_shows_before_and_after() {
    let file = folder().join("dell-t610.toml");
    let file = file.to_str().expect("a path");
    let flow = ["--machine", file, "--flow", "memory-to-network", "--protocol", "udp"];
    let words = [&flow[..], &["--remove", "eth2", "--move", "eth0=slot3", "--set", "mtu=1500"]].concat();
    let (status, screen, complaint) = linerate(&words);
    assert_eq!((status, complaint.as_str()), (Some(0), ""));
    for line in [
        "before      26.7 Gb/s, limited by pcie:eth0 and nic:eth1 and eth2",
        "what if     remove eth2: 16.8 Gb/s (−9.93 Gb/s)",
        "what if     move eth0=slot3: 19.9 Gb/s (+3.04 Gb/s)",
        "what if     set mtu=1500: 19.1 Gb/s (−712 Mb/s)",
        "gain        26.7 Gb/s → 19.1 Gb/s (−7.60 Gb/s)",
        "ceiling     19.1 Gb/s (2.39 GB/s), in the best case of what is not known",
        "likely      19.1 Gb/s (2.39 GB/s), payload, by the data sheets less protocol overhead",
    ] {
        assert!(screen.contains(line), "no “{line}” in\n{screen}");
    }
    assert!(
        screen.lines().all(|line| line.chars().count() <= 100) && screen.lines().count() <= 40,
        "{screen}"
    );
}

/// The ceiling takes the best case of what is unknown: another part limits it, and it is not a rate that there was.
#[test]
fn what_was_before_the_changes_is_what_was_likely() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("machine.toml");
    let text = "[processor]\ncores = 1\n[[disk]]\nname = \"d\"\nread = \"9GB/s\"\n[[nic]]\nname = \"n\"\nrate = \"100G\"";
    std::fs::write(&path, text).expect("written");
    let words = ["--machine", path.to_str().expect("a path"), "--set", "d.read=8GB/s"];
    let (status, screen, complaint) = linerate(&words);
    assert_eq!(status, Some(0), "{complaint}");
    let before = screen.lines().find(|line| line.starts_with("before ")).expect("the line");
    assert!(before.ends_with(", limited by cpu"), "{before}");
}

/// A ceiling is not a promise: what is on the way and not in it stands right below.
#[test]
fn the_screen_says_what_the_ceiling_leaves_out() {
    let file = folder().join("streaming-server.toml");
    let words = ["--machine", file.to_str().expect("a path"), "--protocol", "udp"];
    let told = |more: &[&str]| {
        let (status, screen, _) = linerate(&[&words[..], more].concat());
        assert_eq!(status, Some(0));
        let words: Vec<&str> = screen.split_whitespace().collect();
        words.join(" ")
    };
    let screen = told(&[]);
    let all = "left out controller:hba0 and hba1, of which no rate is known: taken as no limit, and what the \
               file system takes of the disks; the flow may be less";
    assert!(screen.contains(all), "{screen}");
    // The cost of a byte is a default, and says so.
    let screen = told(&["--flow", "memory-to-network"]);
    let cost = "CPU cost 0.33 CPU seconds per GB (0.32 to 0.34) are a default (SARA, D1.1";
    assert!(screen.contains(cost) && screen.contains("the ceiling is without it"), "{screen}");
    assert!(!screen.contains("left out"), "{screen}");
    let screen = told(&["--flow", "memory-to-network", "--method", "zerocopy"]);
    assert!(
        screen.contains(
            "left out cpu:0 and 1, of which no rate is known: taken as no limit; the flow may be less"
        ),
        "{screen}"
    );
    let screen = told(&["--flow", "memory-to-network", "--set", "cpu.cost=1.38"]);
    assert!(!screen.contains("left out") && !screen.contains("a default"), "{screen}");
}

#[test]
fn the_json_has_the_keys_of_the_contract() {
    let file = folder().join("streaming-server.toml");
    let words = ["--machine", file.to_str().expect("a path"), "--json", "--target", "40G"];
    let (status, text, _) = linerate(&words);
    assert_eq!(status, Some(0));
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for key in ["ceiling", "workers", "resources", "findings", "next", "gains", "placement", "sizing"] {
        assert!(json.get(key).is_some(), "no {key}");
    }
    let rate = |key: &str| json["ceiling"][key].as_f64().expect("a rate");
    let (best, likely) = (rate("bytes_per_second"), rate("likely_bytes_per_second"));
    assert!(likely > 5e9 && likely <= best, "{likely} {best}");
    assert!(
        json["workers"]
            .as_array()
            .is_some_and(|workers| workers.len() >= 32 && workers[0]["source"] == "disk:ssd0")
    );
    assert!(json["resources"].as_array().is_some_and(|all| all.iter().all(|one| one["origin"].is_string())));
}

#[test]
fn a_probed_machine_reads_as_one_and_wrong_use_is_reported() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| place.path().join(name).to_str().expect("a path").to_string();
    let nic = linerate::probe::Nic {
        name: "eth0".into(),
        speed_bits_per_second: linerate::fact::Fact::Known(25_000_000_000),
        mtu: linerate::fact::Fact::Known(1500),
        ..Default::default()
    };
    let machine = linerate::probe::Machine { nics: vec![nic], ..Default::default() };
    let machine = serde_json::to_string(&machine).expect("JSON");
    std::fs::write(path("machine.json"), &machine).expect("a file");
    std::fs::write(path("run.json"), format!("{{\"machine\": {machine}}}")).expect("a file");
    for name in ["machine.json", "run.json"] {
        let (status, screen, complaint) =
            linerate(&["--machine", &path(name), "--flow", "memory-to-network"]);
        assert_eq!(status, Some(0), "{complaint}");
        assert!(
            screen.contains("ceiling     23.7 Gb/s") && screen.contains("likely      23.5 Gb/s"),
            "{screen}"
        );
    }
    std::fs::write(path("wrong.toml"), "[[nic]]\nname = \"a\"\nrate = 10\n").expect("a file");
    std::fs::write(path("wrong.json"), "{\"machine\": 3}").expect("a file");
    for (words, status, told) in [
        (vec!["--machine", "/nonexistent"], 3, "cannot be read"),
        (vec!["--machine", &path("wrong.toml")], 2, "wrong.toml, line 3, column 8: invalid type"),
        (vec!["--machine", &path("wrong.json")], 2, "neither a machine"),
        (vec!["--machine", &path("machine.json")], 3, "the machine has no disk"),
        (
            vec!["--machine", &path("machine.json"), "--from", "nic:eth0", "--to", "nic:eth0"],
            2,
            "both source and sink",
        ),
        (vec!["--machine", &path("machine.json"), "--from", "memory", "--to", "memory"], 2, "nothing moves"),
        (vec!["--machine", &path("machine.json"), "--from", "memory", "--set", "mtu=1"], 2, "576 to 65535"),
        (vec!["--machine", &path("machine.json"), "--from", "volume:md0"], 3, "the machine has no volume"),
        (vec!["--target", "40"], 2, "is not between 1.00 Mb/s and"),
    ] {
        let (ended, _, complaint) = linerate(&words);
        assert!(ended == Some(status) && complaint.contains(told), "{words:?}: {ended:?} {complaint}");
    }
}

/// A slow disk in a catalogue and a fast target: billions of cards, of which three have a slot. This took
/// hours.
#[test]
fn a_target_out_of_this_world_is_sized_at_once() {
    let text = "[processor]\ncores = 4\n[[slot]]\nname = \"s\"\ncount = 4\npcie = \"2.0 x8\"\n\
                [[nic]]\nname = \"eth0\"\non = \"s0\"\npcie = \"2.0 x8\"\nrate = \"10G\"\n\
                [[disk]]\nname = \"d\"\non = \"s1\"\npcie = \"2.0 x4\"\nread = \"1kB/s\"\n";
    let parts = linerate::plan::machine_file::parse(text).expect("a machine");
    let wanted = Flow::between(&parts, [&["disk"], &["nic"]], Protocol::Tcp, Method::Direct).expect("ends");
    let sizing = size(&parts, &wanted, 1e13);
    let need = |part: &str| sizing.needs.iter().find(|need| need.part == part).expect("a need").count;
    assert_eq!(need("disk"), u32::MAX);
    let takes = sizing.slots.iter().filter(|slot| slot.takes.is_some()).count();
    assert_eq!((sizing.slots.len(), takes, sizing.without_slot), (4, 4, u32::MAX));
}

/// No figure of a result may slip into a file of parts. Volumes, at its end, are measured by their nature, and no
/// plan passes these unless it names them.
#[test]
fn machine_files_hold_no_results() {
    for entry in std::fs::read_dir(folder()).expect("machine files").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("text");
        let parts = text.split("[[volume]]").next().unwrap_or_default();
        for line in parts.lines() {
            let figures = line.split('#').next().unwrap_or_default();
            for result in [
                "813", "6.82", "980", "8.22", "26.77", "6.91", "9.93", "32.9", "24.1", "32.5", "266", "3301",
                "2750", "1518", "2.78", "2.05",
            ] {
                assert!(!figures.contains(result), "{}: {line}", entry.path().display());
            }
        }
    }
}
