//! The parts of a picture: nodes, and on each the tree of links down to ports and disks; chips in strips.

use super::edge::Edge;
use super::used::Use;

/// All of the picture.
#[derive(Clone, Debug, Default)]
pub(super) struct Picture {
    pub host: String,
    pub about: String,
    pub nodes: Vec<NodeBox>,
    /// Nodes with memory only; arrays and volumes; interfaces and disks on no PCI function.
    pub strips: Vec<Strip>,
    /// What the bar between the nodes says, where there are several.
    pub between: Option<String>,
    /// PCI functions without a part in any flow.
    pub left_out: usize,
    /// A flow lies over it.
    pub loaded: bool,
}

/// A node, or all of a machine that tells of none.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeBox {
    /// Its number; none for the machine as a whole.
    pub id: Option<u32>,
    pub title: String,
    pub cpu: Vec<String>,
    pub memory: Vec<String>,
    /// Bandwidth of its memory, bytes per second; 0 where it is not known.
    pub memory_rate: f64,
    pub roots: Vec<Branch>,
    pub cpu_used: Option<Use>,
    pub memory_used: Option<Use>,
}

/// What a box of the tree stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Root,
    Switch,
    Card,
}

/// A root, a switch or a card, with what hangs on it.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub part: Part,
    pub title: String,
    pub sub: String,
    pub tip: String,
    /// How many it stands for.
    pub count: usize,
    /// The functions whose links these are.
    pub addresses: Vec<String>,
    /// The link above it.
    pub edge: Edge,
    pub below: Vec<Branch>,
    pub leaves: Vec<Leaf>,
    /// What makes it like another, and the network is behind it.
    pub alike: String,
    pub network: bool,
}

/// A port, a disk, or several.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leaf {
    pub text: String,
    pub tip: String,
    /// Rate of the port, bytes per second; 0 where it is not known.
    pub rate: f64,
    /// It is up, or a disk.
    pub live: bool,
    pub names: Vec<String>,
    pub used: Option<Use>,
    /// What it has in common with others of its like.
    pub kind: String,
}

/// A row of chips with a title.
#[derive(Clone, Debug)]
pub(super) struct Strip {
    pub title: String,
    pub chips: Vec<Chip>,
}

/// Some lines in a frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Chip {
    pub title: String,
    pub sub: String,
    pub tip: String,
    /// The resource of a flow that it may be.
    pub id: Option<String>,
    pub used: Option<Use>,
}

/// Parts of a line; what is absent or empty is left out.
pub(super) fn joined(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}
