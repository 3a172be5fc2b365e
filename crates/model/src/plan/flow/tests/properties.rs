//! What holds of every machine: a fact that is forgotten never makes the answer better or surer, order and names change
//! nothing, and twice all capacities is twice the rate.

use super::*;
use crate::plan::capacity::Model;
use crate::plan::flow::sentence::open_ends;
use crate::plan::parts::{ByteDevice, DeviceKind, Joint, JointKind, Node, PartPlace, SocketLink};
use crate::plan::{Origin, Resource};
use linerate_facts::fact::Fact;
use linerate_machine::probe::PciLink;
use linerate_testing::cases;
use proptest::prelude::*;
use proptest::sample::Index;

/// Words of the usual case of something unknown, where the resource has a rate all the same.
const STATED: [&str; 2] = ["taken as", "a default"];

#[derive(Clone, Debug)]
struct Card {
    node: u32,
    /// Below the switch of its node.
    switched: bool,
    link: PciLink,
    max_payload_bytes: Option<u32>,
    rate: f64,
    jumbo: bool,
    gpu_direct: Option<bool>,
}

fn card() -> impl Strategy<Value = Card> {
    let speed = prop_oneof![Just(2.5), Just(8.0), Just(16.0), Just(32.0)];
    let width = prop_oneof![Just(1u32), Just(4), Just(8), Just(16)];
    let payload = proptest::option::of(prop_oneof![Just(128u32), Just(256), Just(512)]);
    let link = (speed, width).prop_map(|(gt_per_second, width)| PciLink { gt_per_second, width });
    (0..2u32, any::<bool>(), link, payload, 1e7..5e10, any::<bool>(), proptest::option::of(any::<bool>()))
        .prop_map(|(node, switched, link, max_payload_bytes, rate, jumbo, gpu_direct)| Card {
            node,
            switched,
            link,
            max_payload_bytes,
            rate,
            jumbo,
            gpu_direct,
        })
}

/// A machine of some cards, all facts known, and a flow over it.
fn machine() -> impl Strategy<Value = (MachineParts, Flow)> {
    use proptest::collection::vec;
    let cards = (vec(card(), 1..3), vec(card(), 1..3), vec(card(), 1..3));
    let whole = (1..=2u32, any::<bool>(), 1e9..4e11, proptest::option::of(0.05..3.0));
    (cards, whole, 0..8usize).prop_map(|((nics, disks, gpus), (sockets, linked, memory, cost), which)| {
        let mut parts = MachineParts {
            nodes: (0..sockets).map(|id| node(id, memory)).collect(),
            cpu_seconds_per_gb: Fact::from_option(cost, "not measured"),
            ..MachineParts::default()
        };
        if linked && sockets == 2 {
            let (between, words) = ((0, 1), "UPI".to_string());
            parts.socket_links.push(SocketLink { between, bytes_per_second: Fact::Known(2e10), words });
        }
        for id in 0..sockets {
            let mut switch = Joint::new(format!("switch{id}"), JointKind::Switch, PartPlace::Node(id));
            switch.link = Some(PciLink { gt_per_second: 16.0, width: 16 });
            parts.joints.push(switch);
        }
        nics.iter().enumerate().for_each(|(index, card)| put(&mut parts, "n", index, card));
        disks.iter().enumerate().for_each(|(index, card)| put(&mut parts, "d", index, card));
        gpus.iter().enumerate().for_each(|(index, card)| put(&mut parts, "g", index, card));
        let (from, to, method) = [
            ("memory", "nic", Method::Direct),
            ("disk", "nic", Method::Direct),
            ("disk", "nic", Method::Cached),
            ("nic", "disk", Method::Direct),
            ("disk", "memory", Method::Direct),
            ("nic", "gpu", Method::Rdma),
            ("disk", "gpu", Method::Direct),
            ("memory", "nic", Method::Tls),
        ][which];
        let flow = Flow::between(&parts, [&[from], &[to]], Protocol::Tcp, method).expect("ends");
        (parts, flow)
    })
}

fn node(id: u32, memory: f64) -> Node {
    Node {
        id,
        cores: Fact::Known(8.0),
        memory_bytes_per_second: Fact::Known(memory),
        memory_efficiency: Some(0.8),
        ..Node::default()
    }
}

fn put(parts: &mut MachineParts, word: &str, index: usize, card: &Card) {
    let name = format!("{word}{index}");
    let node = card.node % parts.nodes.len() as u32;
    let up = match card.switched {
        true => PartPlace::Joint(format!("switch{node}")),
        false => PartPlace::Node(node),
    };
    let mut joint = Joint::new(&name, JointKind::Card, up);
    joint.link = Some(card.link);
    joint.max_payload_bytes = card.max_payload_bytes;
    joint.gpu_direct = card.gpu_direct;
    parts.joints.push(joint);
    let rate = Fact::Known(card.rate);
    let what = match word {
        "n" => {
            let mtu = Fact::Known(if card.jumbo { 9000 } else { 1500 });
            DeviceKind::Nic { rate, mtu, tagged: false, ipv6: false, down: false }
        }
        "d" => DeviceKind::Disk { read: rate.clone(), write: rate },
        _ => DeviceKind::Gpu,
    };
    let place = PartPlace::Joint(name.clone());
    parts.devices.push(ByteDevice { group: name.clone(), name, place, what });
}

/// Ceiling and likely rate; none: unknown.
fn bounds(parts: &MachineParts, flow: &Flow) -> (Option<f64>, Option<f64>, Vec<Resource>) {
    let resources = flow_resources(parts, flow);
    (Model::best(&resources).largest(), likely(&resources), resources)
}

fn likely(resources: &[Resource]) -> Option<f64> {
    let most = Model::new(resources).largest();
    most.filter(|_| open_ends(resources, most).is_empty())
}

/// Forgets a fact; gives how the ids of the resources begin that have it.
fn forget(parts: &mut MachineParts, which: Index) -> String {
    let why = "forgotten";
    let (nodes, joints, devices) = (parts.nodes.len(), parts.joints.len(), parts.devices.len());
    let links = parts.socket_links.len();
    let mut at = which.index(2 * nodes + 3 * joints + 2 * devices + links + 1);
    if at < 2 * nodes {
        let node = &mut parts.nodes[at / 2];
        if at.is_multiple_of(2) {
            node.cores = Fact::unknown(why);
            return "cpu".into();
        }
        node.memory_bytes_per_second = Fact::unknown(why);
        return "memory".into();
    }
    at -= 2 * nodes;
    if at < 3 * joints {
        let joint = &mut parts.joints[at / 3];
        match at % 3 {
            0 => (joint.link, joint.unknown_link) = (None, Some(why.into())),
            1 => joint.max_payload_bytes = None,
            _ => {
                joint.gpu_direct = None;
                return "nic".into();
            }
        }
        return format!("pcie:{}", joint.name);
    }
    at -= 3 * joints;
    if at < 2 * devices {
        let device = &mut parts.devices[at / 2];
        match &mut device.what {
            DeviceKind::Nic { mtu, .. } if at.is_multiple_of(2) => *mtu = Fact::unknown(why),
            DeviceKind::Nic { rate, .. } => *rate = Fact::unknown(why),
            DeviceKind::Disk { read, .. } if at.is_multiple_of(2) => *read = Fact::unknown(why),
            DeviceKind::Disk { write, .. } => *write = Fact::unknown(why),
            DeviceKind::Gpu => {}
        }
        return device.id();
    }
    at -= 2 * devices;
    if at < links {
        parts.socket_links[at].bytes_per_second = Fact::unknown(why);
        return "socket-link".into();
    }
    parts.cpu_seconds_per_gb = Fact::unknown(why);
    "cpu".into()
}

/// The usual case of what is unknown is in the plan: it has no rate, which is listed, or says what is taken.
fn is_stated(resource: &Resource) -> bool {
    let says = |why: &String| STATED.iter().any(|words| why.contains(words));
    resource.origin == Origin::Unknown || resource.why.as_ref().is_some_and(says)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(3_000), max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_fact_that_is_forgotten_never_makes_the_answer_better((parts, flow) in machine(), which in any::<Index>()) {
        let (ceiling, likely, before) = bounds(&parts, &flow);
        let mut less = parts.clone();
        let id = forget(&mut less, which);
        let (lower_ceiling, lower_likely, after) = bounds(&less, &flow);
        let unlimited = |rate: Option<f64>| rate.unwrap_or(f64::INFINITY);
        prop_assert!(unlimited(lower_ceiling) + 1.0 >= unlimited(ceiling), "{id}: the ceiling fell from {ceiling:?} to \
            {lower_ceiling:?}");
        let Some(now) = lower_likely else { return Ok(()) };
        let Some(was) = likely else { return Err(TestCaseError::fail(format!("{id}: unknown became {now}"))) };
        if now > was * (1.0 + 1e-9) + 1.0 {
            // Frame headers cross the card's link, too.
            let about = |resource: &&Resource| resource.id.starts_with(&id) || id.starts_with("nic:") && is_stated(resource);
            let stated = after.iter().filter(about).any(is_stated);
            prop_assert!(stated, "{id}: likely rose from {was} to {now}: {before:?} {after:?}");
        }
    }

    #[test]
    fn order_and_names_change_nothing((parts, flow) in machine(), turn in any::<Index>()) {
        let mut other = parts.clone();
        other.devices.reverse();
        let at = turn.index(other.joints.len());
        other.joints.rotate_left(at);
        other.nodes.reverse();
        let renamed = |name: &str| format!("{}-{}", name.len() * 7 + name.bytes().map(usize::from).sum::<usize>(), name);
        let place = |place: &mut PartPlace| if let PartPlace::Joint(name) = place { *name = renamed(name) };
        for joint in &mut other.joints {
            joint.name = renamed(&joint.name);
            place(&mut joint.up);
        }
        for device in &mut other.devices {
            (device.name, device.group) = (renamed(&device.name), renamed(&device.group));
            place(&mut device.place);
        }
        let ends = |ends: &[FlowEnd]| -> Vec<FlowEnd> {
            let named = |end: &FlowEnd| match end {
                FlowEnd::Device(id) => {
                    let (word, name) = id.split_once(':').expect("an id");
                    FlowEnd::Device(format!("{word}:{}", renamed(name)))
                }
                FlowEnd::Memory => FlowEnd::Memory,
            };
            ends.iter().rev().map(named).collect()
        };
        let same = Flow { from: ends(&flow.from), to: ends(&flow.to), ..flow.clone() };
        let (ceiling, likely, _) = bounds(&parts, &flow);
        let (other_ceiling, other_likely, _) = bounds(&other, &same);
        prop_assert_eq!((ceiling, likely), (other_ceiling, other_likely));
    }

    #[test]
    fn twice_all_capacities_is_twice_the_rate((parts, flow) in machine()) {
        let (ceiling, likely, mut resources) = bounds(&parts, &flow);
        for resource in &mut resources {
            // Whole bytes, as the flow is solved in.
            resource.capacity = 2.0 * resource.capacity.round();
            resource.best = resource.best.map(|best| 2.0 * best.round());
        }
        prop_assert_eq!(Model::best(&resources).largest(), ceiling.map(|rate| 2.0 * rate));
        prop_assert_eq!(super::properties::likely(&resources), likely.map(|rate| 2.0 * rate));
    }
}
