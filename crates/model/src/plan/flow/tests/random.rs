//! What holds of every flow, on random machines: a thousand of them for each test here.

use super::*;
use crate::plan::capacity::{Model, Solution};
use crate::plan::whatif::{WhatIfChange, apply};
use crate::plan::{Origin, Resource};
use linerate_testing::cases;
use proptest::prelude::*;
use std::fmt::Write;

/// Cuts within this share of the least are the same (`capacity`).
const TIE: f64 = 0.005;

#[derive(Clone, Debug)]
struct Card {
    node: u32,
    /// Directly at the node, at its hub, or behind its switch.
    at: u8,
    generation: u32,
    width: u32,
    megabytes: u32,
    ports: u32,
}

#[derive(Clone, Debug)]
struct Server {
    sockets: u32,
    linked: bool,
    memory: Option<u32>,
    cost: bool,
    nics: Vec<Card>,
    nvmes: Vec<Card>,
    boxes: Vec<Card>,
    gpus: Vec<Card>,
}

fn card() -> impl Strategy<Value = Card> {
    let width = prop_oneof![Just(1u32), Just(4), Just(8), Just(16)];
    (0..3u32, 0..3u8, 1..=6u32, width, 10..20_000u32, 1..=3u32).prop_map(
        |(node, at, generation, width, megabytes, ports)| Card {
            node,
            at,
            generation,
            width,
            megabytes,
            ports,
        },
    )
}

fn server() -> impl Strategy<Value = Server> {
    use proptest::collection::vec;
    let cards = (vec(card(), 1..5), vec(card(), 1..5), vec(card(), 0..3), vec(card(), 1..3));
    (1..=3u32, any::<bool>(), proptest::option::of(100..200_000u32), any::<bool>(), cards).prop_map(
        |(sockets, linked, memory, cost, (nics, nvmes, boxes, gpus))| Server {
            sockets,
            linked,
            memory,
            cost,
            nics,
            nvmes,
            boxes,
            gpus,
        },
    )
}

impl Server {
    fn parts(&self) -> MachineParts {
        let mut text = format!("[processor]\nsockets = {}\ncores = 8\n", self.sockets);
        if self.cost {
            text.push_str("cpu_seconds_per_gb = 0.9\n");
        }
        if let Some(megabytes) = self.memory {
            let _ = writeln!(text, "[memory]\nrate = \"{megabytes}MB/s\"");
        }
        for node in 1..if self.linked { self.sockets } else { 0 } {
            let _ = writeln!(
                text,
                "[[socket_link]]\nbetween = [{}, {node}]\nrate = \"{}MB/s\"",
                node - 1,
                900 * node
            );
        }
        for node in 0..self.sockets {
            let _ = writeln!(text, "[[hub]]\nname = \"hub{node}\"\non = \"node{node}\"\nlink = \"qpi 6.4\"");
            let _ =
                writeln!(text, "[[switch]]\nname = \"switch{node}\"\non = \"node{node}\"\npcie = \"3x8\"");
        }
        let place = |card: &Card| {
            let node = card.node % self.sockets;
            let place = ["node", "hub", "switch"][usize::from(card.at)];
            format!("on = \"{place}{node}\"\npcie = \"{}x{}\"", card.generation, card.width)
        };
        for (index, card) in self.nics.iter().enumerate() {
            let (place, ports, rate) = (place(card), card.ports, card.megabytes);
            let _ = writeln!(
                text,
                "[[nic]]\nname = \"n{index}\"\n{place}\nports = {ports}\nrate = \"{rate}MB/s\"\nmtu = 9000"
            );
        }
        for (index, card) in self.nvmes.iter().enumerate() {
            let (place, read) = (place(card), card.megabytes);
            let _ = writeln!(
                text,
                "[[disk]]\nname = \"d{index}\"\n{place}\nread = \"{read}MB/s\"\nwrite = \"{read}MB/s\""
            );
        }
        for (index, card) in self.boxes.iter().enumerate() {
            let (place, ports, rate) = (place(card), card.ports, card.megabytes);
            let _ = writeln!(text, "[[controller]]\nname = \"c{index}\"\n{place}\nrate = \"{rate}MB/s\"");
            let _ = writeln!(
                text,
                "[[disk]]\nname = \"s{index}-\"\ncount = {ports}\non = \"c{index}\"\nread = \
                 \"700MB/s\"\nwrite = \"300MB/s\""
            );
        }
        for (index, card) in self.gpus.iter().enumerate() {
            let _ = writeln!(text, "[[gpu]]\nname = \"g{index}\"\n{}", place(card));
        }
        parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }
}

fn any_flow() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop_oneof![
        Just(("disk", "nic")),
        Just(("nic", "disk")),
        Just(("memory", "nic")),
        Just(("disk", "memory")),
        Just(("nic", "gpu")),
        Just(("disk", "gpu")),
    ]
}

fn solved(parts: &MachineParts, (from, to): (&str, &str)) -> (Vec<Resource>, Model, Solution, f64) {
    let resources = flow_resources(parts, &flow(parts, from, to));
    let model = Model::new(&resources);
    let solution = model.solve();
    let rate = *solution.bytes_per_second.known().expect("links bound every way");
    (resources, model, solution, rate)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(1_000), max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_enters_leaves_and_nothing_is_over_its_capacity(server in server(), ends in any_flow()) {
        let (resources, model, solution, rate) = solved(&server.parts(), ends);
        let paths = model.paths();
        let whole: f64 = paths.iter().map(|(_, bytes)| bytes).sum();
        prop_assert_eq!(whole, rate, "the paths are the flow");
        for resource in &resources {
            let through: f64 = paths.iter().filter(|(path, _)| path.contains(&resource.id)).map(|(_, bytes)| bytes).sum();
            prop_assert!(through <= solution.through[&resource.id] + 0.5, "circles apart, paths add up to \
                what passes");
            if resource.origin != Origin::Unknown {
                prop_assert!(solution.through[&resource.id] <= resource.capacity.round(), "{}", resource.id);
            }
        }
        for (path, _) in &paths {
            for pair in path.windows(2) {
                let from = resources.iter().find(|resource| resource.id == pair[0]).expect("it");
                prop_assert!(from.next.contains(&pair[1]), "{:?}", path);
            }
        }
    }

    #[test]
    fn the_cut_carries_the_flow(server in server(), ends in any_flow()) {
        let (resources, model, solution, rate) = solved(&server.parts(), ends);
        let cut: f64 = resources.iter().filter(|resource| solution.cut.contains(&resource.id)).map(|resource| resource.capacity).sum();
        prop_assert!((cut - rate).abs() <= rate * TIE + solution.cut.len() as f64, "{cut} {rate}");
        // Without the cut nothing is left that limits the flow there.
        if let Some(lifted) = model.solve_without(&solution.cut).bytes_per_second.known() {
            prop_assert!(*lifted >= rate);
        }
    }

    /// One graph, two sets of capacities: the best case of each part is never less than its usual one.
    #[test]
    fn likely_is_never_above_the_ceiling(server in server(), ends in any_flow()) {
        let (resources, .., likely) = solved(&server.parts(), ends);
        for resource in &resources {
            prop_assert!(resource.best.is_none_or(|best| best >= resource.capacity), "{resource:?}");
        }
        let best = Model::best(&resources).largest().expect("links bound every way");
        prop_assert!(likely <= best, "{likely} {best}");
    }

    #[test]
    fn raising_what_is_not_in_the_cut_gains_nothing(server in server(), ends in any_flow(), pick in any::<proptest::sample::Index>()) {
        let (resources, model, solution, rate) = solved(&server.parts(), ends);
        let others: Vec<&Resource> = resources.iter().filter(|resource| !solution.cut.contains(&resource.id)).collect();
        prop_assume!(!others.is_empty());
        let other = pick.get(&others);
        // Cuts within the tie are one cut by two names.
        let gain = model.gain(&[&other.id]);
        prop_assert!(gain.is_some_and(|gain| gain <= rate * TIE + 1.0), "{} gains {gain:?} of \
            {rate}", other.id);
    }

    #[test]
    fn a_part_more_never_takes_from_the_flow(server in server(), ends in any_flow(), what in 0..4usize, node in 0..3u32) {
        let mut parts = server.parts();
        let (.., before) = solved(&parts, ends);
        let place = ["node", "hub", "switch"][node as usize % 3];
        let add = ["nic=2x25G:pcie3x8", "disk=3GB/s:pcie3x4", "gpu=pcie4x16", "disk=1GB/s/500MB/s:pcie2x8"][what];
        let place = if place == "node" { "hub" } else { place };
        apply(&mut parts, &WhatIfChange::Add(format!("{add}@{place}{}", node % server.sockets))).expect("it fits");
        let (.., after) = solved(&parts, ends);
        prop_assert!(after + 1.0 >= before, "{before} {after}");
    }
}
