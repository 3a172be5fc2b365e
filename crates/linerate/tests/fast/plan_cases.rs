//! `plan` and `wall plan` on what the documents ask of described servers: changes in any order, a controller that
//! nobody rated, SARA's wall on SARA's server, clients of a rate, and the servers of today in `examples/machines`.

use crate::support;
use crate::support::process::Ends;
use serde_json::Value;
use std::path::Path;

/// Exit status, screen in one line of single blanks, complaint.
fn linerate(words: &[&str]) -> (Option<i32>, String, String) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (code, screen, complaint) = support::linerate().current_dir(root).args(words).ended().parts();
    (code, screen.split_whitespace().collect::<Vec<_>>().join(" "), complaint)
}

fn planned(file: &str, words: &[&str]) -> String {
    let file = format!("examples/machines/{file}");
    let (status, screen, complaint) = linerate(&[&["plan", "--machine", &file], words].concat());
    assert_eq!(status, Some(0), "{file} {words:?}: {complaint}");
    screen
}

fn json(file: &str, words: &[&str]) -> Value {
    serde_json::from_str(&planned(file, &[words, &["--json"]].concat())).expect("JSON")
}

fn gigabits(plan: &Value) -> f64 {
    plan["ceiling"]["likely_bytes_per_second"].as_f64().expect("a likely rate") * 8.0 / 1e9
}

/// SARA's stated next test (D1.1, section 6): one true dual-port card of PCIe 2.0 in place of all old ones.
#[test]
fn all_nics_are_replaced_in_one_go_and_in_any_order() {
    let flow = ["--flow", "memory-to-network", "--protocol", "udp"];
    let take = ["--remove", "eth0", "--remove", "eth1", "--remove", "eth2"];
    let give = ["--add", "nic=2x10G:pcie2x8@slot2", "--set", "mtu=9000"];
    let one = json("dell-t610.toml", &[&flow[..], &take, &give].concat());
    let other = json("dell-t610.toml", &[&give[..], &take, &flow].concat());
    assert!((gigabits(&one) - 19.85).abs() < 0.05, "{}", gigabits(&one));
    assert_eq!(one["ceiling"], other["ceiling"]);
    // Where no NIC is left there is no flow yet: that is not an error.
    let steps = one["changes"].as_array().expect("steps");
    assert_eq!(steps.len(), 5);
    let why = steps[2]["bytes_per_second"]["unknown"].as_str().expect("no NIC is left");
    assert!(why.contains("there is no nic"), "{why}");
    assert!(steps[3]["bytes_per_second"].is_f64() && steps[3]["gain"].is_null());
    // What is missing at the end is one.
    let (status, _, complaint) =
        linerate(&[&["plan", "--machine", "examples/machines/dell-t610.toml"], &flow[..], &take].concat());
    assert!(status == Some(3) && complaint.contains("there is no nic"), "{complaint}");
}

/// D1.1, section 3.3: 813 MiB/s (852.5 MB/s) with the RAID card in its x4 slot, 980 MiB/s in one of eight lanes,
/// where six disks of 250 MB/s would give more: what is between them is the controller, which nobody rates.
#[test]
fn a_raid_cards_own_rate_is_an_input() {
    let flow = ["--flow", "disk-to-memory"];
    let wide = [&flow[..], &["--remove", "eth2", "--move", "perc=slot3"]].concat();
    let unrated = planned("dell-t610.toml", &wide);
    assert!(
        unrated.contains("The controller perc is between them and memory, and its own rate is unknown"),
        "{unrated}"
    );
    assert!(unrated.contains("--set perc.rate="), "{unrated}");
    let rated = planned("dell-t610.toml", &[&wide[..], &["--set", "perc.rate=980MiB/s"]].concat());
    assert!(
        rated.contains("limited by perc that the disks share (Dell PERC 6/i, measured elsewhere, 1.03 GB/s)"),
        "{rated}"
    );
}

/// Slides: 15 tiles of 2560 × 1600 at 24 frames a second, from one server.
#[test]
fn saras_server_carries_saras_wall_and_a_smaller_one_does_not() {
    let wall = |file: &str| {
        let file = format!("examples/machines/{file}");
        let words = ["wall", "plan", "--machine", &file, "--grid", "5x3", "--tile", "2560x1600"];
        let (status, screen, complaint) = linerate(&words);
        assert_eq!(status, Some(0), "{complaint}");
        screen
    };
    let carries = wall("streaming-server.toml");
    assert!(carries.contains("35.4 Gb/s"), "{carries}");
    assert!(carries.contains("this server carries it: the most that its parts allow is"), "{carries}");
    assert!(carries.contains("limited by the CPU;"), "{carries}");
    assert!(carries.contains("the rates of controllers hba0 and hba1 are not known"), "{carries}");
    assert!(
        carries.contains("6.10 cores: 1.38 CPU seconds per GB, a default (SARA, 40G slides"),
        "{carries}"
    );
    let small = wall("dell-t610.toml");
    assert!(small.contains("it cannot:"), "{small}");
    let (status, _, complaint) =
        linerate(&["wall", "plan", "--machine", "/nonexistent", "--grid", "1x1", "--tile", "64x64"]);
    assert!(status == Some(3) && complaint.contains("cannot be read"), "{complaint}");
}

#[test]
fn clients_are_counted_and_the_next_ones_limit_is_named() {
    let words = ["--protocol", "udp", "--each", "2.4G"];
    let plan = json("streaming-server.toml", &words);
    let demand = &plan["demand"];
    assert_eq!(demand["kind"], "demand");
    // 9.93 Gb/s of a port are four clients each, and the CPUs carry 46.4 Gb/s at what SARA's cost: 19.
    assert_eq!(demand["clients"], 19, "{demand}");
    assert_eq!(demand["next_limit"], serde_json::json!(["cpu:0", "cpu:1"]));
    let screen = planned("streaming-server.toml", &words);
    assert!(screen.contains("clients 19 clients of 2.40 Gb/s each, 45.6 Gb/s together"), "{screen}");
    let none = json("streaming-server.toml", &["--each", "80G"]);
    assert_eq!((&none["demand"]["clients"], none["demand"]["kind"] == "demand"), (&Value::from(0), false));
    assert!(json("streaming-server.toml", &[])["demand"].is_null());
    // An accelerator by its name reads 3.18 GB/s, and may wait for a tenth of its time.
    let fed = |words: &[&str]| {
        let words = [&["--each", "unet3d/h100"], words].concat();
        let demand = json("gen5-two-socket.toml", &words)["demand"].clone();
        (demand["clients"].as_u64(), demand["busy"].as_f64(), demand["load"] == "unet3d/h100")
    };
    assert_eq!(fed(&[]), (Some(34), Some(0.9), true));
    assert_eq!(fed(&["--busy", "100%"]), (Some(30), Some(1.0), true));
    assert_eq!(fed(&["--busy", "100%", "--over", "all-ports"]), (Some(31), Some(1.0), true));
    for words in [&["--each", "unet3d/none"][..], &["--each", "5G", "--busy", "0"], &["--busy", "90%"]] {
        let (status, _, complaint) =
            linerate(&[&["plan", "--machine", "examples/machines/dell-t610.toml"], words].concat());
        assert_eq!(status, Some(2), "{words:?}: {complaint}");
        assert!(words[1] != "unet3d/none" || complaint.contains("unet3d/h100"), "{complaint}");
    }
}

/// What the plan says of four servers of today; docs/plan.md has the same.
#[test]
fn the_servers_of_today_are_planned() {
    let limit = |file: &str, words: &[&str]| {
        let plan = json(file, words);
        (gigabits(&plan).round(), plan["sentence"].as_str().expect("a sentence").to_string())
    };
    let (rate, why) = limit("gen5-two-socket.toml", &[]);
    assert!((700.0..=800.0).contains(&rate) && why.contains("NICs (cx7-0 and cx7-1"), "{rate} {why}");
    let (rate, why) = limit("streamer-one-socket.toml", &["--protocol", "udp"]);
    assert!((390.0..=400.0).contains(&rate) && why.contains("NICs (cx7-0 and cx7-1"), "{rate} {why}");
    let (rate, why) = limit("azure-l80s-v3.toml", &[]);
    assert!((29.0..=32.0).contains(&rate) && why.contains("NIC eth0"), "{rate} {why}");
    let (rate, why) =
        limit("dgx-h100.toml", &["--flow", "network-to-gpu", "--from", "nic:ib*", "--method", "rdma"]);
    // People measure 2.9 to 3.1 Tb/s: GPUs and NICs share switches.
    assert!((3100.0..=3200.0).contains(&rate) && why.contains("NICs (ib"), "{rate} {why}");
}

/// D1.3 §5 with its own listing and the slots that a T610's firmware lists: the ports of empty slots are in no lspci.
#[test]
fn a_card_goes_into_the_free_slot_that_the_firmware_lists() {
    let listings =
        ["listings/lspci-2010-card.txt", "listings/lspci-2010-slot.txt", "listings/lspci-2010-tree.txt"];
    let files = listings.into_iter().chain(["described/t610-slots.dmidecode.txt"]);
    let files: Vec<String> = files.map(|name| format!("fixtures/{name}")).collect();
    let machine = files.iter().flat_map(|file| ["--machine", file.as_str()]);
    let flow = ["--flow", "memory-to-network", "--protocol", "udp", "--place"];
    let words: Vec<&str> = ["plan"].into_iter().chain(machine).chain(flow).collect();
    let (status, screen, complaint) = linerate(&words);
    assert_eq!(status, Some(0), "{complaint}");
    let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "put 0000:04:00.0 into slot3",
        "slot3 (PCI3) is PCIe 2.0 x8, and 0000:04:00.0 runs at PCIe 1.0 x8 there: 16.0 Gb/s",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let probed: Vec<&str> = ["probe"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let (_, screen, _) = linerate(&probed);
    for part in [
        "Free slots for cards: slot1 (PCI1) 5 GT/s x4, slot3 (PCI3) 5 GT/s x8",
        "slot3 (“PCI3” in the firmware's list) is free",
    ] {
        let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(screen.contains(part), "{part}: {screen}");
    }
}

#[test]
fn a_described_server_is_drawn_with_its_flow() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t610.svg");
    let svg = file.to_str().expect("a path");
    let words = "plan --machine examples/machines/dell-t610.toml --flow memory-to-network --svg";
    let words: Vec<&str> = words.split(' ').chain([svg]).collect();
    let (status, _, complaint) = linerate(&words);
    assert_eq!(status, Some(0), "{complaint}");
    let picture = std::fs::read_to_string(&file).expect("a picture");
    for part in ["eth0", "slot1", "free slot", "card can 2.5 GT/s x8", "6 × ssd0 – ssd5", "PREDICTED"] {
        assert!(picture.contains(part), "{part}");
    }
    let (status, _, complaint) = linerate(&[&words[..6], &["/nonexistent/a.svg"]].concat());
    assert_eq!(status, Some(3), "{complaint}");
    assert!(complaint.contains("the picture cannot be written"), "{complaint}");
}

/// D1.3: “file system is important”: SARA's 15 tiles from XFS on eight SSDs, and on four times eight.
#[test]
fn the_tiles_of_a_wall_are_read_through_a_file_system() {
    let wall: Vec<&str> = "wall plan --machine examples/machines/streaming-server.toml --grid 5x3 --tile \
        2560x1600"
        .split(' ')
        .collect();
    let (_, screen, _) = linerate(&[&wall[..], &["--from", "volume:xfs"]].concat());
    assert!(screen.contains("it cannot: volume:xfs gives 12.7 Gb/s of 35.4 Gb/s"), "{screen}");
    let all =
        ["volume:xfs", "volume:xfs1", "volume:xfs2", "volume:xfs3"].map(|volume| ["--from", volume]).concat();
    let (_, screen, _) = linerate(&[&wall[..], &all].concat());
    assert!(screen.contains("this server carries it"), "{screen}");
    let (status, _, complaint) = linerate(&[&wall[..], &["--from", "volume:zfs9"]].concat());
    assert_eq!(status, Some(3));
    assert!(complaint.contains("there is no volume:zfs9"), "{complaint}");
}
