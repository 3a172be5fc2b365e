//! What `plan` and `probe` say of machines that people describe: by a listing, a recorded tree, a file of NCCL.

use crate::flow::FlowReport;
use crate::tree::show_tree;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::units::show_bits_rate;
use linerate_machine::probe::foreign::{ForeignSources, NamedText, described};
use linerate_machine::probe::{Machine, probe};
use linerate_measure::diagnose::map_findings;
use linerate_model::plan::flow::{Flow, FlowPlan, Method, plan_flow};
use linerate_model::plan::parts::from_machine;
use linerate_model::plan::whatif::{WhatIfChange, apply};
use linerate_testing::Tree;

fn fixture(name: &str) -> String {
    format!("{}/../../fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn listed(name: &str) -> Machine {
    let bytes = std::fs::read(fixture(&format!("described/{name}.lspci.txt"))).expect("a listing");
    let files = vec![NamedText { name: name.into(), bytes }];
    described(&ForeignSources { files, tree: None }).expect("a machine").machine
}

fn planned(machine: &Machine, ends: [&str; 2], method: Method, set: &[&str]) -> FlowPlan {
    let mut parts = from_machine(machine);
    for one in set {
        apply(&mut parts, &WhatIfChange::Set((*one).into())).expect("a change");
    }
    let [from, to] = ends;
    plan_flow(&parts, &Flow::between(&parts, [&[from], &[to]], Protocol::Tcp, method).expect("ends"))
}

fn report(plan: FlowPlan) -> FlowReport {
    FlowReport {
        processors: String::new(),
        before: None,
        likely_before: None,
        steps: Vec::new(),
        plan,
        sizing: None,
        demand: None,
        long_path: None,
        findings: Vec::new(),
        in_bits: true,
        measured: None,
    }
}

/// On one line each, however the screen was broken.
fn screen(plan: FlowPlan) -> String {
    report(plan).screen(120, false).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_guest_with_unknown_disk_and_nic_has_no_likely_rate() {
    let guest = probe(&Sysroot::recorded(fixture("virtual-machine")));
    for from in ["disk", "memory"] {
        let plan = planned(&guest, [from, "nic"], Method::Direct, &[]);
        assert_eq!(plan.ceiling.likely_bytes_per_second, None);
        let text = screen(plan);
        assert!(text.contains("ceiling not known"), "{text}");
        assert!(text.contains("NIC eth0; at most 84.0 Gb/s (10.5 GB/s) by the CPU"), "{text}");
        assert!(text.contains("--set eth0.rate=10G") && text.contains("linerate run"), "{text}");
        assert!(!text.contains("raising") && !text.contains("limited by"), "{text}");
        assert_eq!(text.matches("Cai et al.").count(), 1, "the source of the default is said once: {text}");
    }
    let text = screen(planned(&guest, ["disk", "nic"], Method::Direct, &[]));
    assert!(text.contains("not known: the rates of disk vda and NIC eth0"), "{text}");
}

#[test]
fn an_idle_gpu_counts_as_it_can_and_is_to_be_looked_at_under_load() {
    let machine = listed("idle-gpu");
    let plan = planned(&machine, ["nic", "gpu"], Method::Rdma, &["0000:61:00.0.rate=400G"]);
    let likely = plan.ceiling.likely_bytes_per_second.expect("a rate") * 8.0 / 1e9;
    assert!((likely - 234.0).abs() < 2.0, "{likely}: {}", plan.sentence);
    assert!(plan.flow.contains("RDMA") && !plan.flow.contains("TCP"), "{}", plan.flow);
    let findings = map_findings(&machine);
    let idle = findings.iter().find(|finding| finding.id == "pcie-idle").expect("it is idle");
    assert!(
        idle.text.contains("where the card can do 16 GT/s x16") && idle.remedy.contains("again under load")
    );
    assert!(findings.iter().all(|finding| finding.id != "pcie-speed"), "{findings:?}");
}

#[test]
fn a_family_of_chips_is_no_rate() {
    let plan = planned(&listed("family-of-chips"), ["memory", "nic"], Method::Direct, &[]);
    let missing = plan.missing.clone().expect("both rates");
    assert_eq!(missing.resources, ["nic:0000:81:00.0", "nic:0000:81:00.1"]);
    let text = screen(plan);
    assert!(text.contains("10 to 100 Gb/s"), "{text}");
}

#[test]
fn a_cloud_instance_has_disks_whose_rate_is_to_be_given() {
    let plan = planned(&listed("cloud-instance"), ["disk", "nic"], Method::Direct, &[]);
    let missing = plan.missing.clone().expect("their rates");
    assert_eq!(missing.resources.len(), 4, "{:?}", missing.resources);
    assert!(missing.options().contains("--set 0000:00:1c.0.read=500MB/s"), "{}", missing.options());
    let text = screen(plan);
    assert!(text.contains("a cloud's volume, which comes over the network"), "{text}");
    assert!(!text.contains("of 0"), "no CPU is listed: {text}");
    let set = [
        "0000:00:05.0.rate=25G",
        "0000:00:08.0.read=1GB/s",
        "0000:00:1c.0.read=2GB/s",
        "0000:00:1d.0.read=2GB/s",
    ];
    let plan = planned(&listed("cloud-instance"), ["disk", "nic"], Method::Direct, &set);
    assert!(plan.ceiling.likely_bytes_per_second.is_some());
    let text = screen(plan);
    assert!(!text.contains("of 0") && !text.contains("on CPUs of node"), "{text}");
}

#[test]
fn a_tree_with_names_has_nics_and_a_drive() {
    let machine = listed("tree-with-names");
    let text = show_tree(&machine);
    assert_eq!(text.matches("10.0 Gb/s by its name").count(), 2, "{text}");
    assert!(text.contains("NVMe") && text.contains("PM173X"), "{text}");
    assert!(text.contains("1 further PCI function: class not reported"), "{text}");
    assert!(!text.contains("0 threads"), "{text}");
}

#[test]
fn an_arm_server_has_a_name_and_cpus() {
    let core = |number: u32| format!("processor\t: {number}\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n\n");
    let tree =
        Tree::new(&[("proc/cpuinfo", &(core(0) + &core(1))), ("sys/devices/system/cpu/online", "0-1\n")]);
    let text = show_tree(&probe(&tree.sysroot()));
    assert!(text.contains("Arm Neoverse V2 · 2 threads"), "{text}");
}

#[test]
fn a_cost_that_the_user_gave_is_no_data_sheet() {
    let text = "[processor]\nsockets = 2\ncores = 4\n[[nic]]\nname = \"n\"\ncount = 2\non = [\"node0\", \"node1\"]\nrate = \
                \"100G\"\nmtu = 9000\n";
    let mut parts = linerate_model::plan::machine_file::parse(text).expect("a machine");
    apply(&mut parts, &WhatIfChange::Set("cpu.cost=1.38".into())).expect("a cost");
    let flow = Flow::between(&parts, [&["memory"], &["nic"]], Protocol::Tcp, Method::Direct).expect("ends");
    let plan = plan_flow(&parts, &flow);
    assert!(
        plan.sentence.contains("the two nodes' CPUs") && plan.sentence.contains("at 1.38 CPU seconds per GB")
    );
    assert!(!plan.sentence.contains("data sheet"), "{}", plan.sentence);
}

mod once {
    use super::*;
    use crate::map::link_of_picture;
    use linerate_facts::fact::Fact;
    use linerate_machine::probe::{Nic, PciDevice, PciLink};
    use linerate_machine::topology::Topology;
    use linerate_testing::cases;
    use proptest::prelude::*;

    /// A card with one port in a slot that may be narrower.
    fn server() -> impl Strategy<Value = Machine> {
        let speed = || prop_oneof![Just(2.5), Just(5.0), Just(8.0), Just(16.0), Just(32.0)];
        let width = || prop_oneof![Just(1u32), Just(4), Just(8), Just(16)];
        let payload = proptest::option::of(prop_oneof![Just(128u32), Just(256), Just(512)]);
        let mtu = proptest::option::of(prop_oneof![Just(1500u32), Just(9000)]);
        ((speed(), width()), (speed(), width()), payload, 1..800u64, mtu).prop_map(
            |(card, port, payload, gigabits, mtu)| {
                let link = |(gt_per_second, width)| PciLink { gt_per_second, width };
                let runs = link((f64::min(card.0, port.0), card.1.min(port.1)));
                let one = |address: &str, parent: Option<&str>, class: u32, most: PciLink| PciDevice {
                    address: address.into(),
                    parent: parent.map(str::to_string),
                    class: Fact::Known(class),
                    link: Fact::Known(runs),
                    link_max: Fact::Known(most),
                    ..PciDevice::default()
                };
                let mut nic = one("0000:17:00.0", Some("0000:16:02.0"), 0x02_0000, link(card));
                nic.express.max_payload_bytes = Fact::from_option(payload, "root reads it");
                Machine {
                    pci: vec![one("0000:16:02.0", None, 0x06_0400, link(port)), nic],
                    nics: vec![Nic {
                        name: "ens1".into(),
                        pci: Some("0000:17:00.0".into()),
                        speed_bits_per_second: Fact::Known(gigabits * 1_000_000_000),
                        mtu: Fact::from_option(mtu, "not listed"),
                        ..Nic::default()
                    }],
                    virtualisation: Fact::Known("none".into()),
                    ..Machine::default()
                }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: cases(3_000), max_shrink_iters: 200, ..ProptestConfig::default() })]

        #[test]
        fn one_link_has_one_rate_in_finding_table_and_picture(machine in server()) {
            let plan = planned(&machine, ["memory", "nic"], Method::Direct, &[]);
            let Some(link) = plan.resources.iter().find(|resource| resource.id == "pcie:0000:17:00.0") else {
                return Ok(());
            };
            let Some(carries) = link.effective else { return Ok(()) };
            let tree = Topology::new(&machine);
            let (rate, slow) = link_of_picture(&tree, "0000:17:00.0");
            prop_assert!((rate - carries).abs() <= 1.0, "picture {rate}, plan {carries}");
            let findings = map_findings(&machine);
            if let Some(ports) = findings.iter().find(|finding| finding.id == "pcie-ports") {
                let found = ports.evidence["link_bytes_per_second"].as_f64().expect("a rate");
                prop_assert!((found - carries).abs() <= 1.0, "finding {found}, plan {carries}");
                prop_assert!(ports.text.contains(&show_bits_rate(carries)), "{}", ports.text);
                prop_assert!(slow, "the picture has the finding's colour");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: cases(1_000), max_shrink_iters: 200, ..ProptestConfig::default() })]

        #[test]
        fn the_screen_has_the_figures_of_the_json(machine in server()) {
            let report = report(planned(&machine, ["memory", "nic"], Method::Direct, &[]));
            let json: serde_json::Value = serde_json::from_str(&report.json()).expect("JSON");
            let text = report.screen(120, false);
            for key in ["bytes_per_second", "likely_bytes_per_second"] {
                if let Some(rate) = json["ceiling"][key].as_f64() {
                    let shown = show_bits_rate(rate);
                    prop_assert!(text.contains(&shown), "{key} {shown}: {text}");
                }
            }
            for resource in json["resources"].as_array().expect("resources") {
                let rate = resource["effective"].as_f64().or(resource["capacity"].as_f64()).expect("a rate");
                if resource["kind"] == "nic" && rate > 0.0 {
                    prop_assert!(text.contains(&show_bits_rate(rate)), "{resource}: {text}");
                }
            }
        }
    }
}
