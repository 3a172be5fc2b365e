//! The memory of a sweep, and what each core does with its share: one arena for each node that is used, kept from point
//! to point so that pages are taken once; the worker goes round and round its share, counting as it goes.

use super::points::{CONTIGUOUS_BYTES, Point};
use super::{MemoryKernel, Store};
use linerate_system::affinity;
use linerate_system::memory::{Arena, Strided, chase, copy, fill, link_cycle, read_all, strided, triad};
use linerate_transport::flow::counters::WorkerCounters;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of one link of the chase.
pub(crate) const LINK_BYTES: u64 = 8;
/// At most this much of an array before the next look at `end`, bytes.
const CHUNK_BYTES: usize = 1 << 20;
/// Words touched between two marks: the clock is read once for so many.
const BATCH_WORDS: u64 = 1 << 17;
/// Links followed between two marks.
const BATCH_LINKS: usize = 1 << 13;
/// A page: one word of each is touched to have it.
const PAGE_WORDS: usize = 512;
/// Bytes of a cache line.
const LINE_BYTES: usize = 64;
/// What the arrays are set to: as a double a normal number, also as two singles.
const FILLING: u64 = 0x3f80_0000_3f80_0000;
/// Arrays whose starts are equal in the low 12 bits stand in each other's way (a load waits for a store that
/// only looks alike).
const ALIAS_BYTES: usize = 4096;
/// Taken off an array's end against that, words.
const ALIAS_WORDS: usize = 136;

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

/// What to do, without where.
#[derive(Clone, Debug)]
pub(crate) struct SweepWork {
    kernel: MemoryKernel,
    store: Store,
    stride_bytes: usize,
    in_cache: bool,
}

impl SweepWork {
    /// Of a point.
    pub(crate) fn of(point: &Point) -> Self {
        SweepWork {
            kernel: point.kernel,
            store: point.store.unwrap_or(Store::Plain),
            stride_bytes: point.stride_bytes as usize,
            in_cache: point.level != "memory",
        }
    }
}

/// Pins the thread, takes the pages, then works until `end`. `ready` goes up by one before what counts
/// begins.
pub(crate) fn run(
    work: &SweepWork,
    core: u32,
    share: Share<'_>,
    counters: &WorkerCounters,
    end: &AtomicBool,
    ready: &AtomicUsize,
) {
    // A core that went offline meanwhile: run anywhere rather than not at all.
    let _ = affinity::pin_to(core);
    let Share { words, untouched_from } = share;
    for chunk in words[untouched_from..].chunks_mut(CHUNK_BYTES / 8) {
        if end.load(Ordering::Relaxed) {
            return;
        }
        chunk.iter_mut().step_by(PAGE_WORDS).for_each(|word| *word = FILLING);
    }
    if work.kernel == MemoryKernel::Latency {
        return follow(words, u64::from(core), counters, end, ready);
    }
    let mut round = Round::new(work, words);
    // What is to be in a cache is brought there.
    while work.in_cache && round.passes == 0 && !end.load(Ordering::Relaxed) {
        round.step();
    }
    ready.fetch_add(1, Ordering::Release);
    while !end.load(Ordering::Relaxed) {
        let (mut words, mut bytes) = (0, 0);
        while words < BATCH_WORDS {
            let moved = round.step();
            words += moved.0;
            bytes += moved.1;
        }
        counters.progress.add(bytes);
    }
}

fn follow(words: &mut [u64], seed: u64, counters: &WorkerCounters, end: &AtomicBool, ready: &AtomicUsize) {
    if link_cycle(words, seed.wrapping_mul(0x9e37_79b9) + 1) == 0 {
        return;
    }
    ready.fetch_add(1, Ordering::Release);
    let mut at = 0;
    while !end.load(Ordering::Relaxed) {
        at = chase(words, at, BATCH_LINKS);
        counters.progress.add(BATCH_LINKS as u64 * LINK_BYTES);
    }
}

/// Goes round the arrays in pieces.
struct Round<'a> {
    work: &'a SweepWork,
    /// Written to by kernels that store; read by the one that reads.
    to: &'a mut [u64],
    one: &'a [u64],
    other: &'a [u64],
    /// Words of a piece; a multiple of the stride.
    piece: usize,
    at: usize,
    passes: usize,
}

impl<'a> Round<'a> {
    fn new(work: &'a SweepWork, words: &'a mut [u64]) -> Self {
        let arrays = work.kernel.arrays() as usize;
        let mut length = words.len() / arrays / 8 * 8;
        if arrays > 1 && length > 2 * ALIAS_WORDS && length * 8 % ALIAS_BYTES < 256 {
            length -= ALIAS_WORDS;
        }
        let (to, rest) = words.split_at_mut(length);
        let rest: &'a [u64] = rest;
        let one = rest.get(..length).unwrap_or_default();
        let other = rest.get(length..2 * length).unwrap_or_default();
        // An even number of strides: whole words of 8 bytes.
        let piece = (CHUNK_BYTES / work.stride_bytes / 2 * 2).max(2) * work.stride_bytes / 8;
        Round { work, to, one, other, piece, at: 0, passes: 0 }
    }

    /// One piece: words touched, and bytes as STREAM counts them.
    fn step(&mut self) -> (u64, u64) {
        let strided_work = self.strided();
        let piece = self.at..self.to.len().min(self.at + self.piece);
        let source = |array: &'a [u64]| array.get(piece.clone()).unwrap_or_default();
        let (one, other) = (source(self.one), source(self.other));
        let to = &mut self.to[piece.clone()];
        let arrays = self.work.kernel.arrays();
        let moved = if self.work.stride_bytes > CONTIGUOUS_BYTES as usize {
            // In words of 4 bytes. Each pass touches other lines, until all were: else a long stride would
            // stay in a cache.
            let step = self.work.stride_bytes / 4;
            let offset = self.passes * (LINE_BYTES / 4) % step.max(LINE_BYTES / 4);
            let touched = strided(strided_work, to, one, other, offset, step) as u64;
            (touched * arrays, touched * arrays * 4)
        } else {
            let store = self.work.store;
            match self.work.kernel {
                MemoryKernel::Read | MemoryKernel::Latency => {
                    std::hint::black_box(read_all(to));
                }
                MemoryKernel::Write => fill(to, f64::from_bits(FILLING), store),
                MemoryKernel::Copy => copy(one, to, store),
                MemoryKernel::Triad => triad(to, one, other, 3.0, store),
            }
            (piece.len() as u64 * arrays, piece.len() as u64 * arrays * 8)
        };
        self.at = piece.end;
        if self.at >= self.to.len() {
            self.at = 0;
            self.passes += 1;
        }
        (moved.0.max(1), moved.1)
    }

    fn strided(&self) -> Strided {
        match self.work.kernel {
            MemoryKernel::Write => Strided::Write,
            MemoryKernel::Copy => Strided::Copy,
            MemoryKernel::Triad => Strided::Triad,
            MemoryKernel::Read | MemoryKernel::Latency => Strided::Read,
        }
    }
}
