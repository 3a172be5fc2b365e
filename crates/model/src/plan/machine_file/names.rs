//! Names, places and what hangs from what.

use super::build::Builder;
use super::numbers::{names, number};
use super::tables::File;
use super::values::PlaceValue;
use super::{LONGEST_NAME, MOST_PARTS, Wrong};
use crate::plan::parts::{Joint, PartPlace};
use linerate_machine::topology::DEEPEST;
use toml::Spanned;

/// What a part may be plugged into, by its word.
fn takes(word: &str) -> &'static [&'static str] {
    match word {
        "hub" => &["node"],
        "slot" => &["node", "hub", "switch"],
        "switch" => &["node", "hub", "switch", "slot"],
        "bus" => &["node", "hub", "controller", "bus"],
        "disk" => &["node", "hub", "switch", "slot", "controller", "bus", "nic"],
        _ => &["node", "hub", "switch", "slot", "bus"],
    }
}

impl Builder {
    pub(super) fn name(
        &mut self,
        word: &'static str,
        name: &Spanned<String>,
        count: &Option<Spanned<u32>>,
        on: &Option<Spanned<PlaceValue>>,
    ) -> Result<(), Wrong> {
        let text = name.get_ref();
        let letters = text.chars().all(|c| c.is_alphanumeric() || "_-.+".contains(c));
        if text.is_empty() || text.chars().count() > LONGEST_NAME || !letters {
            let message = format!(
                "“{}” is not a name: use 1 to {LONGEST_NAME} letters, digits, _ - . +",
                text.escape_debug().take(2 * LONGEST_NAME).collect::<String>()
            );
            return Err((name.span(), message));
        }
        if text == "memory" || text.strip_prefix("node").is_some_and(|rest| rest.parse::<u32>().is_ok()) {
            return Err((name.span(), format!("“{text}” is the machine's own name for it: choose another")));
        }
        for one in names(text, count, on)? {
            if let Some(other) = self.kinds.insert(one.clone(), word) {
                let message = format!("the name {one} is taken by a {other} above: choose another");
                return Err((name.span(), message));
            }
            self.span.insert(one, name.span());
            if self.kinds.len() > MOST_PARTS {
                return Err((name.span(), format!("more than {MOST_PARTS} parts are not a server")));
            }
        }
        Ok(())
    }

    /// Where some links between nodes are given, each node is reached over them.
    pub(super) fn connected(&self, file: &File) -> Result<(), Wrong> {
        let Some(first) = file.socket_link.first() else { return Ok(()) };
        let mut reached = vec![self.parts.nodes[0].id];
        let mut at = 0;
        while let Some(here) = reached.get(at).copied() {
            at += 1;
            for link in &self.parts.socket_links {
                let other = match link.between {
                    (a, b) if a == here => b,
                    (a, b) if b == here => a,
                    _ => continue,
                };
                if !reached.contains(&other) {
                    reached.push(other);
                }
            }
        }
        match self.parts.nodes.iter().find(|node| !reached.contains(&node.id)) {
            Some(node) => {
                let message =
                    format!("no [[socket_link]] leads to node{}: give one, or none at all", node.id);
                Err((first.between.span(), message))
            }
            None => Ok(()),
        }
    }

    /// Where part `index` of `count` goes: places are filled evenly and in order.
    pub(super) fn place(
        &self,
        word: &'static str,
        name: &Spanned<String>,
        on: &Option<Spanned<PlaceValue>>,
        index: usize,
        count: usize,
    ) -> Result<PartPlace, Wrong> {
        let Some(on) = on else {
            return match self.parts.nodes.as_slice() {
                [only] => Ok(PartPlace::Node(only.id)),
                _ => Err((name.span(), format!("say what {} is on, like on = \"node0\"", name.get_ref()))),
            };
        };
        let places = &on.get_ref().0;
        let Some(place) = places.get(index.saturating_mul(places.len()) / count.max(1)) else {
            return Err((on.span(), "name at least one place".into()));
        };
        let kind = match place.strip_prefix("node").and_then(|id| id.parse::<u32>().ok()) {
            Some(id) if self.parts.node(id).is_some() => "node",
            Some(_) => return Err((on.span(), format!("there is no {place}: {}", self.nodes_there()))),
            None => match self.kinds.get(place) {
                Some(kind) => kind,
                None => return Err((on.span(), self.nothing_called(place, word))),
            },
        };
        if !takes(word).contains(&kind) {
            let message = format!(
                "{place} is a {kind}, and a {word} goes on a {}",
                takes(word).join(" or a ").replace("a hub or", "hub or")
            );
            return Err((on.span(), message));
        }
        Ok(match kind {
            "node" => PartPlace::Node(place["node".len()..].parse().unwrap_or(0)),
            _ => PartPlace::Joint(place.clone()),
        })
    }

    pub(super) fn nothing_called(&self, place: &str, word: &str) -> String {
        let like: Vec<&str> = self
            .kinds
            .iter()
            .filter(|(_, kind)| takes(word).contains(*kind))
            .map(|(name, _)| name.as_str())
            .take(8)
            .collect();
        let shown: String = place.escape_debug().take(LONGEST_NAME).collect();
        let there = if like.is_empty() { "nothing that could hold it".to_string() } else { like.join(", ") };
        format!("nothing is called “{shown}”; there is {there}, and node0")
    }

    pub(super) fn nodes_there(&self) -> String {
        match self.parts.nodes.len() {
            1 => "the machine has one node, node0".into(),
            many => format!("the machine has node0 to node{}", many - 1),
        }
    }

    pub(super) fn no_circles(&self) -> Result<(), Wrong> {
        for joint in &self.parts.joints {
            let place = PartPlace::Joint(joint.name.clone());
            if self.parts.node_of(&place).is_none() {
                let span = self.span.get(&joint.name).cloned().unwrap_or(0..0);
                let message = format!(
                    "{} does not hang from a node: what it is on leads in a circle, or is more than \
                     {DEEPEST} deep",
                    joint.name
                );
                return Err((span, message));
            }
        }
        Ok(())
    }

    /// The slots of a hub have no more lanes than it.
    pub(super) fn lanes(&self, file: &File) -> Result<(), Wrong> {
        for hub in &file.hub {
            let Some(lanes) = number(&hub.lanes, "lanes", 1..=1024)? else { continue };
            let on_hub = |joint: &&Joint| joint.up == PartPlace::Joint(hub.name.get_ref().clone());
            let width = |joint: &Joint| joint.link.map_or(0, |link| link.width);
            let used: u32 = self.parts.joints.iter().filter(on_hub).map(width).sum();
            if let (true, Some(given)) = (used > lanes, &hub.lanes) {
                let name = hub.name.get_ref();
                let message = format!("{name} has {lanes} lanes, and what is on it takes {used}");
                return Err((given.span(), message));
            }
        }
        Ok(())
    }
}
