//! Clients of ports and parts, and those of servers that MLPerf Storage v3.0 published.

use super::*;
use crate::plan::flow::{Method, plan_flow};
use crate::plan::machine_file;
use linerate_facts::protocol::Protocol;
use linerate_machine::rates::published;

/// Two ports of 23.5 Gb/s of TCP payload at an MTU of 1500.
const SERVER: &str = "[processor]\ncores = 64\n[memory]\nrate = \"200GB/s\"\n\
    [[nic]]\nname = \"eth\"\ncount = 2\npcie = \"4.0 x8\"\nrate = \"25G\"\nmtu = 1500\n";

fn fed(text: &str, gigabits: f64) -> Demand {
    let parts = machine_file::parse(text).expect("a machine");
    let ends: [&[&str]; 2] = [&["memory"], &["nic"]];
    let flow = Flow::between(&parts, ends, Protocol::Tcp, Method::Direct).expect("ends");
    clients(&plan_flow(&parts, &flow), &flow, &of_rate(gigabits * 1e9 / 8.0))
}

fn of_rate(bytes_per_second: f64) -> ClientSpec {
    ClientSpec { bytes_per_second, load: None, busy: 1.0, over_all_ports: false }
}

#[test]
fn demand_is_the_limit_up_to_the_last_client_that_is_fed() {
    let one_gigabit = fed(SERVER, 1.0);
    assert_eq!((one_gigabit.clients, one_gigabit.kind), (Some(46), LimitKind::Demand));
    // 47.07 Gb/s of both ports would feed one more; each port has 0.53 Gb/s left.
    assert_eq!(one_gigabit.next_limit, ["nic:eth0", "nic:eth1"]);
    assert!(
        one_gigabit.sentence.contains("no port has enough left for one more: NICs eth0 and eth1"),
        "{}",
        one_gigabit.sentence
    );
    let five = fed(SERVER, 5.5);
    assert_eq!((five.clients, five.kind), (Some(8), LimitKind::Demand));
    assert!(five.sentence.contains("8 clients of 5.50 Gb/s each, 44.0 Gb/s together"), "{}", five.sentence);
}

#[test]
fn a_client_that_asks_for_more_than_there_is_names_the_part() {
    let none = fed(SERVER, 30.0);
    assert_eq!((none.clients, none.kind), (Some(0), LimitKind::Nic));
    assert!(none.sentence.starts_with("not one client of 30.0 Gb/s"), "{}", none.sentence);
    // One port is fed by its slot.
    let narrow = fed(&SERVER.replace("4.0 x8", "1.0 x4"), 6.0);
    assert_eq!(narrow.clients, Some(2), "{}", narrow.sentence);
    assert!(narrow.sentence.contains("PCIe link"), "{}", narrow.sentence);
}

#[test]
fn a_client_takes_from_all_ports_or_is_not_always_busy() {
    let parts = machine_file::parse(SERVER).expect("a machine");
    let ends: [&[&str]; 2] = [&["memory"], &["nic"]];
    let flow = Flow::between(&parts, ends, Protocol::Tcp, Method::Direct).expect("ends");
    let plan = plan_flow(&parts, &flow);
    let one_gigabit = of_rate(1e9 / 8.0);
    let striped = clients(&plan, &flow, &ClientSpec { over_all_ports: true, ..one_gigabit });
    // 47.07 Gb/s of both ports.
    assert_eq!(striped.clients, Some(47), "{}", striped.sentence);
    assert!(!striped.sentence.contains("no port has enough left"), "{}", striped.sentence);
    let idle = clients(&plan, &flow, &ClientSpec { busy: 0.9, ..one_gigabit });
    // 26.1 times 0.9 Gb/s in a port.
    assert_eq!(idle.clients, Some(52), "{}", idle.sentence);
    assert!(idle.sentence.contains("of 900 Mb/s each, busy 90 % of the time"), "{}", idle.sentence);
}

/// One server that a training run of `unet3d` on emulated B200s was published of, or one of its clients where these are
/// narrower.
struct PublishedFeed {
    name: &'static str,
    /// Of 400 Gb/s InfiniBand, 200 or 100 Gb/s Ethernet.
    ports: (u32, u32),
    /// Drives and their rate in MB/s; none where that is published nowhere: bytes come from memory then.
    drives: Option<(u32, u32)>,
    /// Accelerators of all servers, and servers.
    accelerators: (u32, u32),
    /// The share of the time that these were busy: `train_au_mean_percentage`.
    busy: f64,
}

/// Of mlcommons/storage_results_v3.0 at 068d91f6d7bc57a6e6309f59d73980fe9e6e0336: `closed/OWNER/systems/NAME.yaml`, and
/// `summary.json` of the first counted run. Drives' rates are their makers', as the submissions have them (PM1743: the
/// data sheet). The last has no NIC in its path: the drive is in the host that reads.
const FEEDS: [PublishedFeed; 8] = [
    PublishedFeed {
        name: "HPE/k3000-unet3d",
        ports: (2, 400),
        drives: Some((16, 14_000)),
        accelerators: (60, 4),
        busy: 0.9776,
    },
    PublishedFeed {
        name: "YanRongTech/YanRongTech_F9000X_9_Clients",
        ports: (4, 400),
        drives: Some((16, 14_500)),
        accelerators: (99, 3),
        busy: 0.9374,
    },
    PublishedFeed {
        name: "TuringData/TuringData_F9200_8_Clients",
        ports: (4, 400),
        drives: Some((16, 14_500)),
        accelerators: (96, 3),
        busy: 0.9378,
    },
    PublishedFeed {
        name: "XSKY/XSKY_AIMesh_3StorageNode_7Client",
        ports: (8, 200),
        drives: None,
        accelerators: (70, 3),
        busy: 0.9216,
    },
    PublishedFeed {
        name: "Alluxio/aws_c5n18xlarge_i3en24xlarge_8c_10s_8a, a client",
        ports: (1, 100),
        drives: None,
        accelerators: (8, 8),
        busy: 0.9257,
    },
    PublishedFeed {
        name: "InspurData/InspurData_InDataOS_AS13000G7_10clients",
        ports: (8, 400),
        drives: None,
        accelerators: (50, 1),
        busy: 0.9099,
    },
    PublishedFeed {
        name: "TTA/seahorse-storage",
        ports: (1, 400),
        drives: Some((16, 14_500)),
        accelerators: (16, 3),
        busy: 0.9420,
    },
    PublishedFeed {
        name: "NewFW/Solidigm_D7-PS1010_7TB_Gen5_NVMe_TLC",
        ports: (0, 0),
        drives: Some((1, 14_500)),
        accelerators: (2, 1),
        busy: 0.9843,
    },
];

/// A part binds what reached this share of the likely rate.
const BINDS: f64 = 0.95 - 0.005;

#[test]
fn published_servers_feed_what_they_fed() {
    let load = published::load_named("unet3d/b200").expect("a load");
    let mut bound = 0;
    for feed in &FEEDS {
        let (ports, gigabits) = feed.ports;
        let mut text = "[processor]\ncores = 192\n[memory]\nrate = \"600GB/s\"\n".to_string();
        if ports > 0 {
            let slot = if gigabits > 200 { "5.0 x16" } else { "4.0 x16" };
            text += &format!(
                "[[nic]]\nname = \"nic\"\ncount = {ports}\nrate = \"{gigabits}G\"\npcie = \"{slot}\"\n"
            );
        }
        if let Some((drives, megabytes)) = feed.drives {
            text += &format!(
                "[[disk]]\nname = \"nvme\"\ncount = {drives}\npcie = \"5.0 x4\"\nread = \"{megabytes}MB/s\"\n"
            );
        }
        let parts = machine_file::parse(&text).expect("a machine");
        let from = if feed.drives.is_some() { "disk" } else { "memory" };
        let to = if ports > 0 { "nic" } else { "memory" };
        let flow = Flow::between(&parts, [&[from], &[to]], Protocol::Tcp, Method::Rdma).expect("ends");
        let plan = plan_flow(&parts, &flow);
        let published = f64::from(feed.accelerators.0) / f64::from(feed.accelerators.1);
        let fed = |busy: f64| {
            let spec = ClientSpec {
                bytes_per_second: load.bytes_per_second(),
                load: Some(load),
                busy,
                over_all_ports: true,
            };
            let demand = clients(&plan, &flow, &spec);
            demand.clients.unwrap_or_else(|| panic!("{}: {}", feed.name, demand.sentence)) as f64
        };
        // What the benchmark asks for, and what the accelerators of that run had.
        let (asked, had) = (fed(load.busy), fed(feed.busy));
        assert!(
            asked >= published.floor() && had >= published.floor(),
            "{}: {asked}, {had} of {published}",
            feed.name
        );
        let moved = published * load.bytes_per_second() * feed.busy;
        let likely = *plan.likely.bytes_per_second.known().expect("a likely rate");
        println!(
            "{}: published {published:.1}, as busy as there {had}, 90 % busy {asked}; {:.2} of likely",
            feed.name,
            moved / likely
        );
        if moved >= BINDS * likely {
            bound += 1;
            assert!(had <= published * 1.1, "{}: {had} of {published}", feed.name);
        }
    }
    assert_eq!(bound, 3, "servers whose ports or drives were full");
}

/// Each rate is its file's arithmetic; these three are in MLPerf's own tables.
#[test]
fn loads_read_what_the_benchmark_says() {
    let megabytes = |name: &str| (published::load_named(name).expect(name).bytes_per_second() / 1e6).round();
    assert_eq!(megabytes("unet3d/h100"), 3177.0);
    assert_eq!(megabytes("resnet50/h100"), 205.0);
    assert_eq!(megabytes("cosmoflow/a100"), 513.0);
    assert!(published::load_named("unet3d/v100").is_none());
}
