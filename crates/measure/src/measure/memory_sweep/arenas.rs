//! The memory of a sweep: one arena for each node that is used, kept from point to point so that pages are
//! taken once.

use super::points::Point;
use linerate_system::memory::Arena;
use std::collections::BTreeMap;

/// A worker's part of an arena.
#[derive(Debug)]
pub(crate) struct Share<'a> {
    pub words: &'a mut [u64],
    /// Words from here on have not been touched yet.
    pub untouched_from: usize,
}

/// Arenas by the node that they are bound to; none: where the kernel puts them.
#[derive(Debug)]
pub(crate) struct Arenas {
    need_bytes: BTreeMap<Option<u32>, u64>,
    arenas: BTreeMap<Option<u32>, Touched>,
    /// What did not go as asked, once each.
    pub notes: Vec<String>,
}

#[derive(Debug)]
struct Touched {
    arena: Arena,
    words: usize,
}

impl Arenas {
    /// Large enough for each of these; nothing is taken yet.
    pub(crate) fn for_points(points: &[Point]) -> Self {
        let mut need_bytes = BTreeMap::new();
        for point in points {
            for (node, bytes) in need(point) {
                let most: &mut u64 = need_bytes.entry(node).or_insert(0);
                *most = (*most).max(bytes);
            }
        }
        Arenas { need_bytes, arenas: BTreeMap::new(), notes: Vec::new() }
    }

    /// The share of each core of the point, in their order.
    pub(crate) fn shares(&mut self, point: &Point) -> Result<Vec<Share<'_>>, String> {
        for node in need(point).into_keys() {
            self.make(node, point.nodes.is_some())?;
        }
        let words_each = words_of_a_core(point);
        let mut rest: BTreeMap<Option<u32>, (&mut [u64], usize)> = BTreeMap::new();
        for (node, touched) in &mut self.arenas {
            let untouched = touched.words;
            rest.insert(*node, (touched.arena.words(), untouched));
        }
        let mut shares = Vec::new();
        for index in 0..point.cores.len() {
            let (words, untouched) =
                rest.remove(&point.memory_node(index)).ok_or("no memory was made for a node")?;
            let (words, after) =
                words.split_at_mut_checked(words_each).ok_or("the memory is too small for the arrays")?;
            rest.insert(point.memory_node(index), (after, untouched.saturating_sub(words_each)));
            shares.push(Share { words, untouched_from: untouched.min(words_each) });
        }
        Ok(shares)
    }

    /// The point was measured: its pages are there.
    pub(crate) fn touched(&mut self, point: &Point) {
        for (node, bytes) in need(point) {
            if let Some(touched) = self.arenas.get_mut(&node) {
                touched.words = touched.words.max((bytes / 8) as usize);
            }
        }
    }

    fn make(&mut self, node: Option<u32>, exactly: bool) -> Result<(), String> {
        if self.arenas.contains_key(&node) {
            return Ok(());
        }
        let bytes = self.need_bytes.get(&node).copied().unwrap_or_default() as usize;
        let arena = match Arena::new(bytes, node) {
            // Containers forbid mbind: a pair of nodes then has no meaning, but a core's own memory is near
            // it anyway.
            Err(error) if node.is_some() && !exactly => {
                let note = format!(
                    "memory could not be bound to its node ({error}): it lies where it was first touched"
                );
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
                Arena::new(bytes, None)
            }
            made => made,
        };
        let arena = arena.map_err(|error| match node {
            Some(node) => {
                format!("memory cannot be bound to node {node}: {error} (mbind; a container may forbid it)")
            }
            None => format!("{bytes} bytes of memory cannot be had: {error}; name a smaller --working-set"),
        })?;
        self.arenas.insert(node, Touched { arena, words: 0 });
        Ok(())
    }
}

fn words_of_a_core(point: &Point) -> usize {
    (point.array_bytes * point.kernel.arrays() / 8) as usize
}

/// Bytes that the point needs of each node.
fn need(point: &Point) -> BTreeMap<Option<u32>, u64> {
    let mut need = BTreeMap::new();
    for index in 0..point.cores.len() {
        *need.entry(point.memory_node(index)).or_insert(0) += words_of_a_core(point) as u64 * 8;
    }
    need
}
