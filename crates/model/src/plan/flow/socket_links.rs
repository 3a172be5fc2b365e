//! Links between nodes, each direction a resource.

use super::figures::rated;
use crate::plan::parts::MachineParts;
use crate::plan::{Resource, ResourceKind};

/// Links between nodes, each direction one resource.
pub(super) struct Links {
    pub all: Vec<SocketWay>,
}

/// One direction of a link.
pub(super) struct SocketWay {
    pub from: u32,
    pub to: Vec<u32>,
    pub resource: Resource,
}

impl Links {
    /// The links that the machine reports; where it reports none, what leaves each node, of unknown capacity.
    pub(crate) fn new(parts: &MachineParts) -> Self {
        let mut all = Vec::new();
        for link in &parts.socket_links {
            let (a, b) = link.between;
            for (from, to) in [(a, b), (b, a)] {
                let id = format!("socket-link:{from}>{to}");
                let mut resource =
                    rated(Resource::unknown(id, ResourceKind::SocketLink, ""), &link.bytes_per_second);
                if resource.rated.is_some() {
                    resource.why = Some(link.words.clone());
                }
                all.push(SocketWay { from, to: vec![to], resource });
            }
        }
        if all.is_empty() && parts.nodes.len() > 1 {
            let why = "no rate of the links between the sockets is known";
            for node in &parts.nodes {
                let id = format!("socket-link:{}", node.id);
                let resource = Resource::unknown(id, ResourceKind::SocketLink, why);
                let to = parts.nodes.iter().map(|other| other.id).filter(|id| *id != node.id).collect();
                all.push(SocketWay { from: node.id, to, resource });
            }
        }
        Links { all }
    }

    /// Ids of the links that leave a node.
    pub(crate) fn leaving(&self, node: u32) -> impl Iterator<Item = String> {
        self.all.iter().filter(move |link| link.from == node).map(|link| link.resource.id.clone())
    }

    /// Ids of the links that bytes take after this one at `node`; none where one link reaches every node.
    pub(crate) fn onward(&self, link: &SocketWay, node: u32) -> Vec<String> {
        let direct = link.to.len() > 1;
        let back = link.from;
        let on = self.all.iter().filter(|next| !direct && next.from == node && next.to != [back]);
        on.map(|next| next.resource.id.clone()).collect()
    }
}
