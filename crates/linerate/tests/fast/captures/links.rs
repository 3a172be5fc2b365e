//! Every view says the same of the same PCIe link: probe's text and picture, the plan, the findings, watch.

use super::{captures, files, read};
use crate::support::process::Ends;
use crate::watch::captures::moment_of;
use linerate::diagnose::map_findings;
use linerate::plan::parts::from_machine;
use linerate::probe::{Machine, probe};
use linerate::report::map_svg;
use linerate::report::tree::show_tree;
use linerate::sysroot::Sysroot;
use linerate::topology::{LinkCondition, LinkEnds, Topology, carries_bytes};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How many links of each condition were compared in each view.
type Compared = BTreeMap<(&'static str, &'static str), usize>;

fn count(compared: &mut Compared, view: &'static str, link: &LinkEnds) {
    *compared.entry((view, link.condition.word())).or_default() += 1;
}

/// The words of probe's text for a condition; none of them for the others.
const WORDS: [(&str, &str); 3] =
    [("below", ", below the "), ("idle", ", idle: "), ("formality", ", a formality")];

/// All views of one machine. `root` is its tree, which watch reads for itself.
fn compare(name: &str, root: &Path, machine: &Machine, compared: &mut Compared) {
    let tree = Topology::new(machine);
    let links = tree.links();
    in_probes_text(name, machine, &links, compared);
    in_probes_picture(name, machine, &links, compared);
    in_the_plan(name, machine, &links, compared);
    in_the_findings(name, &tree, &links, compared);
    in_watch(name, root, &tree, &links, compared);
}

/// Entries of the text tree: lines that belong together as one, after the branches.
fn entries(text: &str) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for line in text.lines() {
        let words = line.trim_start_matches([' ', '│']);
        match words.strip_prefix("├─ ").or(words.strip_prefix("└─ ")) {
            Some(entry) => entries.push(entry.to_string()),
            None => {
                if let Some(last) = entries.last_mut() {
                    *last += " ";
                    *last += words;
                }
            }
        }
    }
    entries
}

fn in_probes_text(name: &str, machine: &Machine, links: &[LinkEnds], compared: &mut Compared) {
    let entries = entries(&show_tree(machine));
    for link in links {
        let address = &link.device.address;
        // Alike functions share an entry that begins with their number and the first.
        let starts = |entry: &&String| {
            let of_many = entry.split_once(" × ").map_or(entry.as_str(), |(_, rest)| rest);
            of_many.strip_prefix(address.as_str()).is_some_and(|rest| rest.starts_with(' '))
        };
        let Some(entry) = entries.iter().find(starts).filter(|_| link.device.link.known().is_some()) else {
            continue;
        };
        for (word, words) in WORDS {
            assert_eq!(entry.contains(words), word == link.condition.word(), "{name}: {link:?} is\n{entry}");
        }
        count(compared, "probe", link);
    }
}

fn in_probes_picture(name: &str, machine: &Machine, links: &[LinkEnds], compared: &mut Compared) {
    let svg = map_svg(machine);
    let tips: Vec<&str> = svg.lines().flat_map(|line| line.split("<title>")).collect();
    for link in links {
        let address = format!(" · {} · ", link.device.address);
        let Some(tip) = tips.iter().find(|tip| tip.contains(&address) && tip.contains(" GT/s x")) else {
            continue;
        };
        let tip = tip.split(&address).nth(1).and_then(|rest| rest.lines().next()).unwrap_or_default();
        // A tip of many cards is cut off.
        let Some((_, said)) = tip.split_once("; ") else { continue };
        assert!(said.starts_with(&format!("{}: ", link.condition.word())), "{name}: {link:?} is\n{said}");
        count(compared, "picture", link);
    }
}

fn in_the_plan(name: &str, machine: &Machine, links: &[LinkEnds], compared: &mut Compared) {
    let parts = from_machine(machine);
    for link in links {
        let Some(joint) = parts.joint(&link.device.address) else { continue };
        let said = match (&joint.formality, joint.words.as_str()) {
            (Some(_), _) => "formality",
            (None, words) if words.starts_with("below the ") => "below",
            (None, words) if words.starts_with("idle at ") => "idle",
            (None, words) => {
                assert!(words.is_empty(), "{name}: {words}");
                ""
            }
        };
        let expected = Some(link.condition.word()).filter(|word| WORDS.iter().any(|(one, _)| one == word));
        assert_eq!(said, expected.unwrap_or_default(), "{name}: {link:?}");
        assert_eq!(joint.running, link.under_load(), "{name}: {link:?}");
        count(compared, "plan", link);
    }
}

fn in_the_findings(name: &str, tree: &Topology, links: &[LinkEnds], compared: &mut Compared) {
    let findings = map_findings(tree.machine);
    let named = |ids: &[&str]| -> BTreeSet<String> {
        let own = findings.iter().filter(|one| ids.contains(&one.id.as_str()));
        // What the card alone could do is not a statement about the link.
        let own = own.filter(|one| one.evidence.get("both_ends").is_some());
        let devices = own.filter_map(|one| one.evidence["devices"].as_array()).flatten();
        devices.filter_map(|device| device.as_str()).map(str::to_string).collect()
    };
    let (below, idle) = (named(&["pcie-width", "pcie-speed"]), named(&["pcie-idle"]));
    for link in links {
        let carries = link.device.class.known().is_some_and(|class| carries_bytes(*class));
        if !carries && !tree.is_bridge(link.device) {
            continue;
        }
        let said = (below.contains(&link.device.address), idle.contains(&link.device.address));
        let expected = (link.condition.word() == "below", link.condition.word() == "idle");
        assert_eq!(said, expected, "{name}: {link:?}");
        count(compared, "findings", link);
    }
}

fn in_watch(name: &str, root: &Path, tree: &Topology, links: &[LinkEnds], compared: &mut Compared) {
    let moment = moment_of(root);
    let listed: BTreeSet<&str> = moment.links.iter().map(|link| link.address.as_str()).collect();
    // Watch looks at what is behind a link: interfaces and disks.
    let is_used = |link: &LinkEnds| {
        let used = |pci: Option<&str>| {
            let device = pci.and_then(|address| tree.find(address));
            let ways =
                device.into_iter().flat_map(|device| std::iter::once(device).chain(tree.above(device)));
            ways.filter_map(|one| tree.link(one)).any(|one| one.device.address == link.device.address)
        };
        let machine = tree.machine;
        machine.nics.iter().any(|nic| used(nic.pci.as_deref()))
            || machine.disks.iter().any(|disk| used(disk.pci.as_deref()))
    };
    for link in links.iter().filter(|link| is_used(link)) {
        let said = listed.contains(link.device.address.as_str());
        assert_eq!(said, link.condition.word() == "below", "{name}: {link:?}, watch lists {listed:?}");
        count(compared, "watch", link);
    }
}

/// The whole way, on every recorded tree.
#[test]
fn every_view_says_the_same_of_the_same_link() {
    let Some(captures) = captures() else { return };
    let mut compared = Compared::new();
    for (folder, ending) in [("hwloc/linux", ".tar.bz2"), ("ghw", ".tar.gz"), ("libnvme", ".tar.xz")] {
        for archive in files(&captures.join(folder), ending) {
            let machine = read(&archive);
            compare(&archive.display().to_string(), &archive, &machine, &mut compared);
        }
    }
    println!("links compared: {compared:?}");
    // Few of the recorded trees have their links, and none has one below its best: what follows makes those.
    for (view, least) in [("probe", 9), ("picture", 14), ("plan", 13), ("findings", 15), ("watch", 3)] {
        let all: usize = compared.iter().filter(|((one, _), _)| *one == view).map(|(_, links)| links).sum();
        assert!(all >= least, "only {all} links in {view}: {compared:?}");
    }
    let conditions: BTreeSet<&str> = compared.keys().map(|(_, word)| *word).collect();
    assert!(["full", "formality", "unknown"].iter().all(|word| conditions.contains(word)), "{compared:?}");
}

/// A card of 16 GT/s x8 in a port of the same, running at 2.5 GT/s.
fn slowed(place: &Path, class: &str, state: &str) {
    let port = "sys/devices/pci0000:00/0000:00:01.0";
    let card = format!("{port}/0000:01:00.0");
    let put = |path: &str, text: &str| {
        let path = place.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::fs::write(path, text).expect("a file");
    };
    for (directory, class) in [(port, "0x060400"), (card.as_str(), class)] {
        put(&format!("{directory}/class"), class);
        put(&format!("{directory}/current_link_speed"), "2.5 GT/s PCIe");
        put(&format!("{directory}/current_link_width"), "8");
        put(&format!("{directory}/max_link_speed"), "16.0 GT/s PCIe");
        put(&format!("{directory}/max_link_width"), "8");
    }
    put(&format!("{card}/net/eth0/operstate"), state);
    put(&format!("{card}/net/eth0/mtu"), "1500");
    if state == "up" {
        put(&format!("{card}/net/eth0/speed"), "100000");
    }
    put("proc/cpuinfo", "model name : ACME 9000\nflags : fpu\n");
    let link = |path: &str, target: &str| {
        let path = place.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        std::os::unix::fs::symlink(target, path).expect("a link");
    };
    link("sys/bus/pci/devices/0000:00:01.0", &format!("../../../../{port}"));
    link("sys/bus/pci/devices/0000:01:00.0", &format!("../../../../{card}"));
    link("sys/class/net/eth0", &format!("../../../{card}/net/eth0"));
    link(&format!("{card}/net/eth0/device"), "../../../0000:01:00.0");
}

/// Watch said "below", the picture "idle" and the text "could do 16 GT/s".
#[test]
fn a_nic_without_a_cable_is_idle_in_every_view() {
    for (state, expected) in [("down", "idle"), ("up", "below")] {
        let place = linerate_testing::folder_in_memory();
        slowed(place.path(), "0x020000", state);
        let machine = probe(&Sysroot::at(place.path()).expect("a recorded machine"));
        let tree = Topology::new(&machine);
        let conditions: Vec<LinkCondition> = tree.links().into_iter().map(|link| link.condition).collect();
        assert_eq!(conditions.iter().map(LinkCondition::word).collect::<Vec<_>>(), [expected]);
        let mut compared = Compared::new();
        compare(state, place.path(), &machine, &mut compared);
        let views: Vec<&str> = compared.keys().map(|(view, _)| *view).collect();
        assert_eq!(views, ["findings", "picture", "plan", "probe", "watch"], "{compared:?}");
        let mut probe = crate::support::linerate();
        probe.args(["probe", "--expect", "probe: no link below its best"]).arg(place.path());
        probe.ended().gives(if state == "up" { 5 } else { 0 });
    }
}
