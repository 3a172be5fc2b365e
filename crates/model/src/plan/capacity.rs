//! The capacity model: max-flow over resources, its minimum cut, and what lifting some of them gains.
//!
//! Nodes are resources with a capacity each (split into an entry and an exit, Ford and Fulkerson 1962), edges
//! carry bytes from sources to the sink. A resource whose capacity is unknown, or of which only a lower bound
//! is known, never binds. The flow is petgraph's Dinic in whole bytes per second: integers end exactly and
//! leave no dust that a cut could trip over.
//!
//! Which cut, where several are equal: of all that are within 0.5 % of the smallest, the one nearest the
//! source, so that two measurements of one machine name the same thing. For that, a second flow is solved
//! with capacities that grow by up to 0.5 % towards the sink; its cut is the one nearest the source by
//! construction.

use super::product::{Bound, Origin, Resource, ResourceKind};
use linerate_facts::fact::Fact;
use petgraph::algo::dinics;
use petgraph::graph::{DiGraph, EdgeIndex, NodeIndex};
use petgraph::visit::EdgeRef;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Cuts that differ by less than this share are one and the same for a measurement.
const TIE: f64 = 0.005;
/// No part of a server moves 10¹³ bytes per second: more counts as unlimited.
/// (Thousands of them still add up without overflow, at the finer unit in which the cut is looked for.)
const LARGEST_BYTES_PER_SECOND: f64 = 1e13;
/// Capacity of what never binds: above any sum of real capacities, far below the overflow of sums of itself.
const UNLIMITED: u64 = 1 << 60;

/// A graph of resources, ready to be solved.
#[derive(Clone, Debug)]
pub struct Model {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug)]
struct Node {
    id: String,
    /// Whole bytes per second; none never binds.
    capacity: Option<u64>,
    /// Where bytes go next; empty: the sink.
    next: Vec<usize>,
    /// No other resource leads here: bytes start here.
    first: bool,
    /// Steps from the source.
    depth: u32,
}

/// The largest flow and what bounds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Unknown where bytes can go from source to sink over resources none of which has a known capacity.
    pub bytes_per_second: Fact<f64>,
    /// Ids of the minimum cut, in the order of the resources; empty where the flow is unknown.
    pub cut: Vec<String>,
    /// Bytes per second through each resource at that flow (one of possibly many ways to split it).
    pub through: BTreeMap<String, f64>,
}

impl Solution {
    /// The flow and its cut, as products carry them.
    pub fn bound(&self) -> Bound {
        let bytes_per_second = self.bytes_per_second.clone();
        Bound { bytes_per_second, likely_bytes_per_second: None, interval: None, cut: self.cut.clone() }
    }
}

impl Model {
    /// The graph that `Resource::next` draws, with the capacities of the usual case. Ids that nobody has are
    /// left out of `next`; of two resources with one id the first counts.
    pub fn new(resources: &[Resource]) -> Self {
        Model::with(resources, |resource| resource.capacity)
    }

    /// The same graph with the capacities of the best case; a measurement has but one, and a default CPU cost is no
    /// limit of the machine.
    pub fn best(resources: &[Resource]) -> Self {
        Model::with(resources, |resource| match resource.origin {
            Origin::Measured => resource.capacity,
            Origin::Rated if resource.kind == ResourceKind::Cpu => f64::INFINITY,
            _ => resource.best.unwrap_or(resource.capacity),
        })
    }

    fn with(resources: &[Resource], capacity: impl Fn(&Resource) -> f64) -> Self {
        let mut index: HashMap<&str, usize> = HashMap::new();
        let mut kept: Vec<&Resource> = Vec::new();
        for resource in resources {
            index.entry(&resource.id).or_insert_with(|| {
                kept.push(resource);
                kept.len() - 1
            });
        }
        let mut nodes: Vec<Node> = kept
            .iter()
            .map(|resource| Node {
                id: resource.id.clone(),
                capacity: binding(resource, capacity(resource)),
                next: resource.next.iter().filter_map(|id| index.get(id.as_str()).copied()).collect(),
                first: true,
                depth: 0,
            })
            .collect();
        for from in 0..nodes.len() {
            for to in nodes[from].next.clone() {
                nodes[to].first &= to == from;
            }
        }
        set_depths(&mut nodes);
        Model { nodes }
    }

    /// The largest flow, its minimum cut (see the top of the file for which), and a way to split it.
    pub fn solve(&self) -> Solution {
        if let Some(path) = self.unlimited_path() {
            let why = format!("no capacity is known on the way {}", path.join(" → "));
            return Solution {
                bytes_per_second: Fact::unknown(why),
                cut: Vec::new(),
                through: BTreeMap::new(),
            };
        }
        let exact = Network::new(self, |node| node.capacity);
        let (flow, flows) = exact.flow();
        let through =
            self.nodes.iter().zip(&flows).map(|(node, flow)| (node.id.clone(), *flow as f64)).collect();
        Solution { bytes_per_second: Fact::Known(flow as f64), cut: self.cut_nearest_the_source(), through }
    }

    /// The largest flow alone, bytes per second: half the work of `solve`. None where it is unknown.
    pub fn largest(&self) -> Option<f64> {
        if self.unlimited_path().is_some() {
            return None;
        }
        Some(Network::new(self, |node| node.capacity).flow().0 as f64)
    }

    /// The same with some resources lifted away (never binding).
    pub fn solve_without<S: AsRef<str>>(&self, ids: &[S]) -> Solution {
        self.without(ids).solve()
    }

    /// The largest flow with some resources lifted away; none where it has no known bound then.
    pub(crate) fn largest_without<S: AsRef<str>>(&self, ids: &[S]) -> Option<f64> {
        self.without(ids).largest()
    }

    fn without<S: AsRef<str>>(&self, ids: &[S]) -> Model {
        let mut lifted = self.clone();
        for node in &mut lifted.nodes {
            if ids.iter().any(|id| id.as_ref() == node.id) {
                node.capacity = None;
            }
        }
        lifted
    }

    /// Bytes per second that the flow gains where these are lifted away; none where it has no known bound
    /// then (or now).
    pub fn gain<S: AsRef<str>>(&self, ids: &[S]) -> Option<f64> {
        Some((self.largest_without(ids)? - self.largest()?).max(0.0))
    }

    /// The largest flow taken apart: ids from a source to the sink, and bytes per second that take this path.
    /// Empty where the flow is unknown. One of possibly many ways to split it.
    pub fn paths(&self) -> Vec<(Vec<String>, f64)> {
        if self.unlimited_path().is_some() {
            return Vec::new();
        }
        let exact = Network::new(self, |node| node.capacity);
        let (_, mut left) = exact.flow();
        let mut paths = Vec::new();
        // Each round empties an edge at least.
        for _ in 0..left.len() {
            let Some(walk) = exact.walk(&left) else { break };
            let bytes = walk.iter().map(|edge| left[*edge]).min().unwrap_or(0);
            walk.iter().for_each(|edge| left[*edge] -= bytes);
            // Edge n is resource n itself; a walk that is a circle carries nothing from a source to the sink.
            if exact.ends_in_sink(&walk) {
                let resources = walk.iter().filter_map(|edge| self.nodes.get(*edge));
                paths.push((resources.map(|node| node.id.clone()).collect(), bytes as f64));
            }
        }
        paths
    }

    fn cut_nearest_the_source(&self) -> Vec<String> {
        let deepest = f64::from(self.nodes.iter().map(|node| node.depth).max().unwrap_or(0).max(1));
        let tilted = Network::new(self, |node| {
            let growth = 1.0 + TIE * f64::from(node.depth) / deepest;
            // In units of 1/100 byte per second, so that small capacities are tilted, too.
            node.capacity.map(|capacity| (capacity as f64 * 100.0 * growth) as u64)
        });
        let (_, flows) = tilted.flow();
        let reached = tilted.reachable(&flows);
        let cut =
            self.nodes.iter().enumerate().filter(|(at, _)| {
                reached.contains(&tilted.entry(*at)) && !reached.contains(&tilted.exit(*at))
            });
        cut.map(|(_, node)| node.id.clone()).collect()
    }

    /// A path from source to sink over resources that never bind.
    fn unlimited_path(&self) -> Option<Vec<String>> {
        let mut from: Vec<Option<usize>> = vec![None; self.nodes.len()];
        let mut visited = vec![false; self.nodes.len()];
        let mut queue: VecDeque<usize> = VecDeque::new();
        for (at, node) in self.nodes.iter().enumerate() {
            if node.first && node.capacity.is_none() {
                visited[at] = true;
                queue.push_back(at);
            }
        }
        while let Some(at) = queue.pop_front() {
            if self.nodes[at].next.is_empty() {
                let path = std::iter::successors(Some(at), |here| from[*here]);
                let mut ids: Vec<String> = path.map(|here| self.nodes[here].id.clone()).collect();
                ids.reverse();
                return Some(ids);
            }
            for &to in &self.nodes[at].next {
                if !visited[to] && self.nodes[to].capacity.is_none() {
                    visited[to] = true;
                    from[to] = Some(at);
                    queue.push_back(to);
                }
            }
        }
        None
    }
}

/// The capacity with which a resource binds: known, finite, and more than a lower bound.
fn binding(resource: &Resource, capacity: f64) -> Option<u64> {
    let known = resource.origin != Origin::Unknown && !resource.lower_bound;
    let sane = (0.0..LARGEST_BYTES_PER_SECOND).contains(&capacity);
    (known && sane).then(|| capacity.round() as u64)
}

/// Steps from the source, breadth first; what no source reaches keeps 0 (it carries nothing).
fn set_depths(nodes: &mut [Node]) {
    let mut seen: Vec<bool> = nodes.iter().map(|node| node.first).collect();
    let mut queue: VecDeque<usize> = (0..nodes.len()).filter(|at| seen[*at]).collect();
    while let Some(at) = queue.pop_front() {
        for to in nodes[at].next.clone() {
            if !seen[to] {
                seen[to] = true;
                nodes[to].depth = nodes[at].depth + 1;
                queue.push_back(to);
            }
        }
    }
}

/// The split graph: source 0, sink 1, resource n's entry 2 + 2n and exit 3 + 2n; edge n is resource n itself.
struct Network {
    graph: DiGraph<(), u64>,
}

impl Network {
    fn new(model: &Model, capacity: impl Fn(&Node) -> Option<u64>) -> Self {
        let mut graph = DiGraph::with_capacity(2 + 2 * model.nodes.len(), 4 * model.nodes.len());
        (0..2 + 2 * model.nodes.len()).for_each(|_| {
            graph.add_node(());
        });
        let mut network = Network { graph };
        for (at, node) in model.nodes.iter().enumerate() {
            network.add(network.entry(at), network.exit(at), capacity(node).unwrap_or(UNLIMITED));
        }
        for (at, node) in model.nodes.iter().enumerate() {
            if node.first {
                network.add(NodeIndex::new(0), network.entry(at), UNLIMITED);
            }
            for &to in &node.next {
                network.add(network.exit(at), network.entry(to), UNLIMITED);
            }
            if node.next.is_empty() {
                network.add(network.exit(at), NodeIndex::new(1), UNLIMITED);
            }
        }
        network
    }

    fn add(&mut self, from: NodeIndex, to: NodeIndex, capacity: u64) {
        self.graph.add_edge(from, to, capacity);
    }

    fn entry(&self, resource: usize) -> NodeIndex {
        NodeIndex::new(2 + 2 * resource)
    }

    fn exit(&self, resource: usize) -> NodeIndex {
        NodeIndex::new(3 + 2 * resource)
    }

    /// The largest flow, and the flow of each edge.
    fn flow(&self) -> (u64, Vec<u64>) {
        dinics(&self.graph, NodeIndex::new(0), NodeIndex::new(1))
    }

    /// Edges with flow from the source to the sink, or round in a circle where the walk met one; none where
    /// nothing is left.
    fn walk(&self, left: &[u64]) -> Option<Vec<usize>> {
        let mut walk: Vec<usize> = Vec::new();
        let mut met: Vec<NodeIndex> = vec![NodeIndex::new(0)];
        loop {
            let here = *met.last()?;
            if here == NodeIndex::new(1) {
                return Some(walk);
            }
            let edge = self.graph.edges(here).find(|edge| left[edge.id().index()] > 0)?;
            walk.push(edge.id().index());
            if let Some(at) = met.iter().position(|node| *node == edge.target()) {
                return Some(walk.split_off(at));
            }
            met.push(edge.target());
        }
    }

    fn ends_in_sink(&self, walk: &[usize]) -> bool {
        let end = walk.last().and_then(|edge| self.graph.edge_endpoints(EdgeIndex::new(*edge)));
        end.is_some_and(|(_, to)| to == NodeIndex::new(1))
    }

    /// What the source still reaches in the residual graph: the source's side of the cut.
    fn reachable(&self, flows: &[u64]) -> BTreeSet<NodeIndex> {
        let mut reached = BTreeSet::from([NodeIndex::new(0)]);
        let mut queue = VecDeque::from([NodeIndex::new(0)]);
        while let Some(at) = queue.pop_front() {
            let onward = self.graph.edges_directed(at, petgraph::Outgoing);
            let onward =
                onward.filter(|edge| flows[edge.id().index()] < *edge.weight()).map(|edge| edge.target());
            let back = self.graph.edges_directed(at, petgraph::Incoming);
            let back = back.filter(|edge| flows[edge.id().index()] > 0).map(|edge| edge.source());
            for to in onward.chain(back).collect::<Vec<_>>() {
                if reached.insert(to) {
                    queue.push_back(to);
                }
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests;
