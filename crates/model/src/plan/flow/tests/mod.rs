//! Flows over machines whose answer is known, and over random ones.

mod data_plane;
mod measured;
mod probed;
mod properties;
mod published;
mod random;

use super::*;
use crate::plan::machine_file::parse;
use linerate_facts::protocol::Protocol;

pub(super) fn flow(parts: &MachineParts, from: &str, to: &str) -> Flow {
    Flow::between(parts, [&[from], &[to]], Protocol::Tcp, Method::Direct).expect("ends")
}

fn planned(parts: &MachineParts, from: &str, to: &str) -> FlowPlan {
    plan_flow(parts, &flow(parts, from, to))
}

fn rate(plan: &FlowPlan) -> f64 {
    plan.ceiling.likely_bytes_per_second.expect("a likely rate")
}

fn resource<'a>(plan: &'a FlowPlan, id: &str) -> &'a crate::plan::Resource {
    plan.resources.iter().find(|resource| resource.id == id).unwrap_or_else(|| panic!("no {id}"))
}

/// Two sockets with a slow link between; a disk at each, and a NIC at node 1 only.
fn lopsided(link: &str) -> MachineParts {
    parse(&format!(
        r#"
        [processor]
        sockets = 2
        {link}
        [[slot]]
        name = "free"
        on = "node1"
        pcie = "3x8"
        [[disk]]
        name = "here"
        on = "node1"
        pcie = "3x4"
        read = "1GB/s"
        write = "1GB/s"
        [[disk]]
        name = "there"
        on = "node0"
        pcie = "3x4"
        read = "2GB/s"
        write = "2GB/s"
        [[nic]]
        name = "eth0"
        on = "node1"
        pcie = "3x16"
        rate = "100G"
        mtu = 9000
        [[gpu]]
        name = "gpu0"
        on = "node0"
        pcie = "3x16"
        "#
    ))
    .expect("a machine")
}

const SLOW_LINK: &str = "[[socket_link]]\nbetween = [0, 1]\nrate = \"500MB/s\"";

#[test]
fn what_crosses_the_socket_link_is_bounded_by_it_and_better_placed() {
    let parts = lopsided(SLOW_LINK);
    let plan = planned(&parts, "disk", "nic");
    assert!((rate(&plan) - 1.5e9).abs() < 2.0);
    assert_eq!(plan.likely.cut, ["disk:here", "socket-link:0>1"]);
    assert!((plan.placement.crossing_bytes_per_second - 5e8).abs() < 1e6);
    let advice = plan.placement.advice.join("\n");
    assert!(advice.contains("from disk:there to nic:eth0"), "{advice}");
    assert!(advice.contains("--move there=node1") && advice.contains("nothing crosses"), "{advice}");
    // The other direction of the link is another: a byte received for the disk of node 0.
    let back = planned(&parts, "nic", "disk");
    assert!((rate(&back) - 1.5e9).abs() < 2.0);
    assert_eq!(resource(&back, "socket-link:1>0").next, ["pcie:there"]);
    assert!(back.likely.cut.contains(&"socket-link:1>0".to_string()), "{:?}", back.ceiling);
}

#[test]
fn without_a_rate_the_socket_link_is_unknown_with_the_reason_and_never_binds() {
    let plan = planned(&lopsided(""), "disk", "nic");
    assert!((rate(&plan) - 3e9).abs() < 2.0);
    let link = resource(&plan, "socket-link:0");
    assert!(link.why.as_deref().is_some_and(|why| why.contains("no rate")));
    assert!((plan.placement.crossing_bytes_per_second - 2e9).abs() < 4e6, "{:?}", plan.placement);
}

#[test]
fn bytes_between_disk_and_memory_stay_on_the_disks_node() {
    let plan = planned(&lopsided(SLOW_LINK), "disk", "memory");
    assert!((rate(&plan) - 3e9).abs() < 2.0 && plan.placement.crossing_bytes_per_second == 0.0);
    assert!(plan.resources.iter().all(|resource| !resource.id.starts_with("socket-link")));
    let shares: Vec<(&str, Option<u32>)> =
        plan.shares.iter().map(|share| (share.source.as_str(), share.node)).collect();
    assert_eq!(shares, [("disk:here", Some(1)), ("disk:there", Some(0))]);
}

#[test]
fn a_gpu_at_the_other_socket_is_fed_over_the_link() {
    let plan = planned(&lopsided(SLOW_LINK), "nic", "gpu");
    assert_eq!(plan.likely.cut, ["socket-link:1>0"]);
    assert_eq!(plan.shares.iter().map(|share| share.sink.as_str()).collect::<Vec<_>>(), ["gpu:gpu0"]);
}

#[test]
fn three_sockets_in_a_row_pass_bytes_on() {
    let parts = parse(
        "[processor]\nsockets = 3\n[[socket_link]]\nbetween = [0, 1]\nrate = \
         \"3GB/s\"\n[[socket_link]]\nbetween = [1, 2]\nrate = \"2GB/s\"\n\
         [[disk]]\nname = \"d\"\non = \"node0\"\nread = \"9GB/s\"\n[[nic]]\nname = \"n\"\non = \
         \"node2\"\nrate = \"100G\"",
    )
    .expect("a machine");
    let plan = planned(&parts, "disk", "nic");
    assert_eq!((plan.likely.cut.as_slice(), rate(&plan)), (["socket-link:1>2".to_string()].as_slice(), 2e9));
    let ids: Vec<&str> = plan.resources.iter().map(|resource| resource.id.as_str()).collect();
    assert_eq!(ids, ["disk:d", "socket-link:0>1", "socket-link:1>2", "memory:2", "cpu:2", "nic:n"]);
}

#[test]
fn memory_is_divided_by_the_crossings_of_the_method() {
    let parts = parse(
        "[memory]\nrate = \"12GB/s\"\n[[disk]]\nname = \"d\"\nread = \"90GB/s\"\nwrite = \
         \"90GB/s\"\n[[nic]]\nname = \"n\"\nrate = \"800G\"",
    )
    .expect("a machine");
    let with = |from, to, method| {
        let flow = Flow { method, ..flow(&parts, from, to) };
        rate(&plan_flow(&parts, &flow)) / 1e9
    };
    assert_eq!(with("disk", "nic", Method::Direct), 3.0);
    assert_eq!(with("disk", "nic", Method::Zerocopy), 6.0);
    assert_eq!(with("disk", "nic", Method::Cached), 2.0);
    assert_eq!(with("memory", "nic", Method::Direct), 4.0);
    assert_eq!(with("disk", "memory", Method::Direct), 12.0);
    assert_eq!(with("nic", "disk", Method::Direct), 3.0);
}

#[test]
fn a_parallel_bus_that_every_byte_passes_twice_carries_half() {
    let parts = parse(
        "[[bus]]\nname = \"pci\"\nrate = \"1GB/s\"\n[[nic]]\nname = \"n\"\non = \"pci\"\nrate = \"100G\"\n\
         [[controller]]\nname = \"c\"\non = \"pci\"\n[[disk]]\nname = \"d\"\non = \"c\"\nread = \"3GB/s\"",
    )
    .expect("a machine");
    assert_eq!(rate(&planned(&parts, "disk", "memory")), 1e9);
    let through = planned(&parts, "disk", "nic");
    assert!(rate(&through) <= 0.5e9, "{}", rate(&through));
    assert!(resource(&through, "controller:pci").why.as_deref().is_some_and(|why| why.contains("twice")));
}

#[test]
fn the_cpu_holds_where_its_cost_is_known() {
    let text = "[processor]\ncores = 4\ncpu_seconds_per_gb = 2\n[[disk]]\nname = \"d\"\nread = \
                \"9GB/s\"\n[[nic]]\nname = \"n\"\nrate = \"100G\"";
    let plan = planned(&parse(text).expect("a machine"), "disk", "nic");
    assert_eq!((rate(&plan), plan.likely.cut.as_slice()), (2e9, ["cpu".to_string()].as_slice()));
    assert!(
        plan.sentence.starts_with(
            "The bottleneck is the CPU (4 cores at 2 CPU seconds per GB), which limits the flow to 16.0 Gb/s. \
             The next limit is disk d at 72.0 Gb/s"
        ),
        "{}",
        plan.sentence
    );
}

#[test]
fn like_devices_are_loaded_alike() {
    let text = "[[disk]]\nname = \"d\"\ncount = 8\nread = \"1GB/s\"\n[[nic]]\nname = \"n\"\ncount = 2\nrate \
                = \"10G\"";
    let plan = planned(&parse(text).expect("a machine"), "disk", "nic");
    for disk in 0..8 {
        let used = resource(&plan, &format!("disk:d{disk}")).utilisation;
        assert!((used - 0.29).abs() < 0.03, "{used}");
    }
}

#[test]
fn ends_that_are_not_there_are_reported_with_those_that_are() {
    let parts = lopsided("");
    let wrong = |word| ends(&parts, word).expect_err("no such end").to_string();
    assert_eq!(wrong("nic:eth7"), "there is no nic:eth7: there is nic:eth0");
    assert!(wrong("gpu:x").contains("gpu:gpu0") && wrong("tape").contains("disk:NAME"));
    assert_eq!(ends(&parts, "disk:h*").expect("one").len(), 1);
    assert_eq!(ends(&parts, "disk").expect("all").len(), 2);
    assert!(
        ends(&parse("").expect("empty"), "nic")
            .expect_err("none")
            .to_string()
            .contains("the machine has no nic")
    );
}

#[test]
fn what_is_not_known_is_reported_with_the_remedy() {
    let parts = parse("[[disk]]\nname = \"d\"\n[[gpu]]\nname = \"g\"\npcie = \"3x8\"").expect("a machine");
    let plan = planned(&parts, "disk", "memory");
    assert!(plan.ceiling.bytes_per_second.why().is_some() && plan.shares.is_empty());
    assert!(
        plan.sentence.contains("the rate of disk d must") && plan.sentence.contains("linerate run"),
        "{}",
        plan.sentence
    );
}

/// 75 % of what is read comes from one flash drive of 3 GB/s, the rest from four slow disks of 200 MB/s.
#[test]
fn a_tiered_volume_is_as_fast_as_the_tier_that_gives_its_share_last() {
    let tiered = |hits: &str| {
        let disks = "[[disk]]\nname = \"ssd\"\nread = \"3GB/s\"\n\
                     [[disk]]\nname = \"hdd\"\ncount = 4\nread = \"200MB/s\"\n";
        let volume = "[[volume]]\nname = \"pool\"\nover = [\"ssd\", \"hdd\"]\ntier = \"ssd\"\n";
        parse(&format!("{disks}{volume}hits = {hits}\n")).expect("a machine")
    };
    let plan = planned(&tiered("0.75"), "volume:pool", "memory");
    assert!((rate(&plan) - 3.2e9).abs() < 1e3, "{}", rate(&plan));
    let why = resource(&plan, "volume:pool").why.clone().expect("why");
    assert_eq!(why, "over 5 disks: 75 % of the bytes come from the faster");
    assert!((rate(&planned(&tiered("0.9"), "volume:pool", "memory")) - 3e9 / 0.9).abs() < 1e3);
}

/// Two disks of 1 GB/s below two volumes of one disk each, or one of both.
fn with_volumes(volumes: &str) -> MachineParts {
    let disks = "[[disk]]\nname = \"d\"\ncount = 2\nread = \"1GB/s\"\nwrite = \"500MB/s\"\n";
    parse(&format!("{disks}{volumes}")).expect("a machine")
}

#[test]
fn all_disks_are_read_through_their_volumes_unless_those_are_alternatives() {
    let volume = |name: &str, over: &str, limit: &str| {
        format!("[[volume]]\nname = \"{name}\"\nover = \"{over}\"\n{limit}\n")
    };
    let half = volume("a", "d0", "efficiency = 0.5");
    let apart = with_volumes(&(half.clone() + &volume("b", "d1", "read = \"800MB/s\"")));
    let plan = planned(&apart, "disk", "memory");
    assert_eq!(
        (rate(&plan), plan.likely.cut.as_slice()),
        (1.3e9, &["volume:a".into(), "volume:b".into()][..])
    );
    assert!(plan.sentence.contains("the two volumes"), "{}", plan.sentence);
    let why = resource(&plan, "volume:a").why.clone().expect("why");
    assert_eq!(why, "over 1 disk: 50 % of theirs, measured elsewhere");
    // A disk that is named is read past its volume; what has no figure never binds.
    assert_eq!(rate(&planned(&apart, "disk:d0", "memory")), 1e9);
    assert_eq!(rate(&planned(&apart, "memory", "disk")), 0.25e9 + 0.5e9);
    let alternatives = with_volumes(&(half + &volume("b", "d", "read = \"1.5GB/s\"")));
    assert_eq!(rate(&planned(&alternatives, "disk", "memory")), 2e9);
    assert_eq!(rate(&planned(&alternatives, "volume:b", "memory")), 1.5e9);
    let both =
        Flow::between(&alternatives, [&["volume:a", "volume:b"], &["memory"]], Protocol::Tcp, Method::Direct);
    assert!(both.is_err_and(|why| why.to_string().contains("a and b have disks in common")));
    let mut removed = with_volumes(&volume("b", "d", "efficiency = 0.9"));
    let gone = crate::plan::whatif::WhatIfChange::Remove("d1".into());
    crate::plan::whatif::apply(&mut removed, &gone).expect("a disk less");
    assert_eq!(rate(&planned(&removed, "volume:b", "memory")), 0.9e9);
}
