//! Which points are measured: the default programme, or the grid of what the user named, by the cache levels that a
//! working set can lie in. Pure.

use super::{MemoryKernel, Store, store_word};
use crate::measure::window::WindowSpec;
use linerate_facts::units::show_size;
use linerate_machine::probe::{Cache, Machine};
use linerate_system::memory::has_streaming;
use std::time::Duration;
use strum::VariantArray;

/// Stride of every word after the other.
pub(crate) const CONTIGUOUS_BYTES: u64 = 4;
/// STREAM's rule: each array at least so many times the last-level cache.
const TIMES_LAST_LEVEL: u64 = 4;
/// Where the kernel reports no cache, this is taken for the last level.
const ASSUMED_LAST_LEVEL_BYTES: u64 = 64 << 20;
/// This share of the available memory is used at most.
const SHARE_OF_AVAILABLE: u64 = 3;
/// An array is no smaller: a loop's start and end would be measured.
const SMALLEST_ARRAY_BYTES: u64 = 2048;
/// Strides of the default programme: from a word to a page.
const STRIDES: [u64; 11] = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// The default programme's measuring takes so long at most, seconds; memory is touched before.
const PROGRAMME_SECONDS: f64 = 12.0;
/// Longest and shortest default sample, seconds.
const SAMPLE_SECONDS: (f64, f64) = (0.02, 0.1);

/// How large the arrays are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkingSet {
    /// Half of this cache level.
    Level(u32),
    /// Each array four times the last level.
    Memory,
    /// All arrays of all cores together.
    Bytes(u64),
}

/// How many cores work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    Some(u32),
    All,
}

/// What the user asked for; an empty list: the default.
#[derive(Clone, Debug, Default)]
pub struct MemorySpec {
    pub kernels: Vec<MemoryKernel>,
    /// Multiples of 4 bytes.
    pub strides: Vec<u64>,
    pub working_sets: Vec<WorkingSet>,
    pub cores: Vec<Cores>,
    /// Length of one sample, seconds; none: fitted to the number of points.
    pub seconds: Option<f64>,
    pub repeats: u32,
}

impl MemorySpec {
    /// Windows of each of so many points.
    pub fn windows(&self, points: usize) -> WindowSpec {
        let repeats = self.repeats.max(1);
        let fitted = PROGRAMME_SECONDS / (points.max(1) as f64 * (f64::from(repeats) + 0.5));
        let window = self.seconds.unwrap_or_else(|| fitted.clamp(SAMPLE_SECONDS.0, SAMPLE_SECONDS.1));
        let warm_up = Duration::from_secs_f64((window / 2.0).clamp(0.01, 0.3));
        WindowSpec { warm_up, window: Duration::from_secs_f64(window), repeats }
    }

    fn kernels(&self) -> Vec<MemoryKernel> {
        if self.kernels.is_empty() { MemoryKernel::VARIANTS.to_vec() } else { self.kernels.clone() }
    }
}

/// One figure to take.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub kernel: MemoryKernel,
    /// None for kernels that do not store.
    pub store: Option<Store>,
    /// 4: every word.
    pub stride_bytes: u64,
    /// Of one array of one core.
    pub array_bytes: u64,
    /// CPUs that work.
    pub cores: Vec<u32>,
    /// The NUMA node of each core; none where there is one node or it is not known.
    pub home: Vec<Option<u32>>,
    /// A node pair: where the cores and where the memory.
    pub nodes: Option<(u32, u32)>,
    /// `L1`, `L2` …, `memory`.
    pub level: String,
    /// Memory was meant, but the arrays are less than four times the last-level cache.
    pub small_arrays: bool,
}

impl Point {
    /// Of all arrays of all cores.
    pub fn working_set_bytes(&self) -> u64 {
        self.array_bytes * self.kernel.arrays() * self.cores.len() as u64
    }

    /// `copy streaming, 2 cores, memory 7.5 GiB`.
    pub fn name(&self) -> String {
        let store = self.store.map_or_else(String::new, |store| format!(" {}", store_word(store)));
        let plural = if self.cores.len() == 1 { "" } else { "s" };
        let stride = match self.stride_bytes {
            CONTIGUOUS_BYTES => String::new(),
            stride => format!(", stride {stride}"),
        };
        let nodes = self.nodes.map_or_else(String::new, |(cores, memory)| {
            format!(", cores of node {cores}, memory of node {memory}")
        });
        format!(
            "{}{store}, {} core{plural}, {} {}{stride}{nodes}",
            self.kernel.word(),
            self.cores.len(),
            self.level,
            show_size(self.working_set_bytes())
        )
    }

    /// Where the memory of the `index`-th core lies; none: where the kernel puts it.
    pub(crate) fn memory_node(&self, index: usize) -> Option<u32> {
        self.nodes.map(|(_, memory)| memory).or_else(|| self.home.get(index).copied().flatten())
    }
}

/// Why an order has no points on a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryPointError {
    #[error("no processor is known that may be used")]
    NoCores,
    #[error(
        "nothing is left to measure: streaming stores have no stride, and latency has neither stride nor \
         store"
    )]
    Nothing,
    #[error("{wanted} cores: this process may use {allowed}; name 1 to {allowed} or all")]
    Cores { wanted: u32, allowed: usize },
    #[error(
        "a working set of {}: linerate takes a third of the available memory at most, {}; name less",
        show_size(*bytes),
        show_size(*most)
    )]
    TooLarge { bytes: u64, most: u64 },
    #[error(
        "a working set of {} is {} for each array of {} on {cores} cores; name at least {}",
        show_size(array_bytes * arrays),
        show_size(*array_bytes),
        kernel.word(),
        show_size(SMALLEST_ARRAY_BYTES * arrays)
    )]
    TooSmall { array_bytes: u64, arrays: u64, kernel: MemoryKernel, cores: usize },
    #[error("L{0}: this machine reports no such cache; name a size such as 256k, or memory")]
    NoCache(u32),
}

/// All points of an order. An order that names a stride, a working set or cores is the grid of these, else it
/// is the default programme.
pub fn points(machine: &Machine, spec: &MemorySpec) -> Result<Vec<Point>, MemoryPointError> {
    let maker = Maker { machine, cores: cores_in_order(machine) };
    if maker.cores.is_empty() {
        return Err(MemoryPointError::NoCores);
    }
    let grid = !(spec.strides.is_empty() && spec.working_sets.is_empty() && spec.cores.is_empty());
    let mut points = if grid { maker.grid(spec)? } else { maker.programme(spec)? };
    // The links of a chase are numbers that a triad would add slowly (denormals): they come last.
    points.sort_by_key(|point| point.kernel == MemoryKernel::Latency);
    if points.is_empty() {
        return Err(MemoryPointError::Nothing);
    }
    Ok(points)
}

/// One thread of each core before the second ones, node by node.
fn cores_in_order(machine: &Machine) -> Vec<u32> {
    let online: Vec<u32> = machine.cpu.online().map(|cpu| cpu.id).collect();
    let allowed = machine.cpu.allowed.known().filter(|allowed| !allowed.is_empty());
    let mut cores = allowed.cloned().unwrap_or(online);
    let key = |core: &u32| {
        let cpu = machine.cpu.logical.iter().find(|cpu| cpu.id == *core);
        let siblings = cpu.and_then(|cpu| cpu.siblings.known());
        let second = siblings.and_then(|siblings| siblings.iter().position(|id| id == core)).unwrap_or(0);
        (second, cpu.and_then(|cpu| cpu.node.known().copied()).unwrap_or(0), *core)
    };
    cores.sort_by_key(key);
    cores
}

struct Maker<'a> {
    machine: &'a Machine,
    cores: Vec<u32>,
}

impl Maker<'_> {
    fn programme(&self, spec: &MemorySpec) -> Result<Vec<Point>, MemoryPointError> {
        let (one, all) = (&self.cores[..1], &self.cores[..]);
        let counts: Vec<&[u32]> = if all.len() > 1 { vec![one, all] } else { vec![one] };
        let sets: Vec<WorkingSet> = levels(self.machine, self.cores[0])
            .iter()
            .map(|level| WorkingSet::Level(level.level))
            .chain([WorkingSet::Memory])
            .collect();
        let mut points = Vec::new();
        for cores in counts {
            for set in &sets {
                for (kernel, store) in kinds(spec) {
                    let cached = *set != WorkingSet::Memory;
                    // A streaming store leaves the caches by design; several chains say nothing that one does
                    // not.
                    if (cached && store == Some(Store::Streaming))
                        || (kernel == MemoryKernel::Latency && cores.len() > 1)
                    {
                        continue;
                    }
                    points.push(self.point(kernel, store, CONTIGUOUS_BYTES, *set, cores, None)?);
                }
            }
        }
        if spec.kernels().contains(&MemoryKernel::Read) {
            for stride in STRIDES.into_iter().filter(|stride| *stride != CONTIGUOUS_BYTES) {
                points.push(self.point(MemoryKernel::Read, None, stride, WorkingSet::Memory, one, None)?);
            }
        }
        points.extend(self.node_pairs(spec)?);
        Ok(points)
    }

    fn grid(&self, spec: &MemorySpec) -> Result<Vec<Point>, MemoryPointError> {
        let or = |named: &[u64], default: u64| if named.is_empty() { vec![default] } else { named.to_vec() };
        let strides = or(&spec.strides, CONTIGUOUS_BYTES);
        let sets =
            if spec.working_sets.is_empty() { vec![WorkingSet::Memory] } else { spec.working_sets.clone() };
        let counts = if spec.cores.is_empty() { vec![Cores::All] } else { spec.cores.clone() };
        let mut points = Vec::new();
        for count in counts {
            let cores = self.first(count)?;
            for set in &sets {
                for stride in &strides {
                    for (kernel, store) in kinds(spec) {
                        let strided = *stride != CONTIGUOUS_BYTES;
                        if strided && (kernel == MemoryKernel::Latency || store == Some(Store::Streaming)) {
                            continue;
                        }
                        let point = self.point(kernel, store, *stride, *set, cores, None)?;
                        // Half of a level may be the very size that was named as well.
                        if !points.contains(&point) {
                            points.push(point);
                        }
                    }
                }
            }
        }
        Ok(points)
    }

    fn first(&self, count: Cores) -> Result<&[u32], MemoryPointError> {
        match count {
            Cores::All => Ok(&self.cores),
            Cores::Some(count) => {
                let some = self.cores.get(..count as usize).filter(|some| !some.is_empty());
                some.ok_or(MemoryPointError::Cores { wanted: count, allowed: self.cores.len() })
            }
        }
    }

    /// Read and latency from the cores of each node to the memory of each; nothing on a machine of one node.
    fn node_pairs(&self, spec: &MemorySpec) -> Result<Vec<Point>, MemoryPointError> {
        let nodes = &self.machine.memory.nodes;
        let mut points = Vec::new();
        for from in nodes {
            let cores: Vec<u32> =
                self.cores.iter().copied().filter(|core| from.cpus.contains(core)).collect();
            let with_memory =
                nodes.iter().filter(|node| node.total_bytes.known().is_none_or(|total| *total > 0));
            for to in with_memory.filter(|_| nodes.len() > 1 && !cores.is_empty()) {
                let pair = Some((from.id, to.id));
                for (kernel, cores) in
                    [(MemoryKernel::Read, &cores[..]), (MemoryKernel::Latency, &cores[..1])]
                {
                    if spec.kernels().contains(&kernel) {
                        let set = WorkingSet::Memory;
                        points.push(self.point(kernel, None, CONTIGUOUS_BYTES, set, cores, pair)?);
                    }
                }
            }
        }
        Ok(points)
    }

    fn point(
        &self,
        kernel: MemoryKernel,
        store: Option<Store>,
        stride_bytes: u64,
        set: WorkingSet,
        cores: &[u32],
        nodes: Option<(u32, u32)>,
    ) -> Result<Point, MemoryPointError> {
        let arrays = kernel.arrays() * cores.len() as u64;
        let most = self.most_bytes(cores, nodes);
        let wanted = match set {
            WorkingSet::Bytes(bytes) => bytes / arrays,
            WorkingSet::Level(level) => self.half_of(level, cores)? / kernel.arrays(),
            WorkingSet::Memory => self.memory_array_bytes(cores) / cores.len() as u64,
        };
        if matches!(set, WorkingSet::Bytes(_)) && wanted.saturating_mul(arrays) > most {
            return Err(MemoryPointError::TooLarge { bytes: wanted * arrays, most });
        }
        if wanted < SMALLEST_ARRAY_BYTES {
            let (array_bytes, cores) = (wanted, cores.len());
            return Err(MemoryPointError::TooSmall { array_bytes, arrays, kernel, cores });
        }
        let array_bytes = wanted.min(most / arrays) / 64 * 64;
        let level = match set {
            WorkingSet::Memory => "memory".into(),
            WorkingSet::Level(level) => format!("L{level}"),
            WorkingSet::Bytes(_) => level_of(self.machine, cores, array_bytes * kernel.arrays()),
        };
        let small_arrays = set == WorkingSet::Memory && array_bytes + 64 <= wanted;
        let home = cores.iter().map(|core| self.node_of(*core)).collect();
        Ok(Point {
            kernel,
            store,
            stride_bytes,
            array_bytes,
            cores: cores.to_vec(),
            home,
            nodes,
            level,
            small_arrays,
        })
    }

    /// What the arrays of a point may take: a share of what is available, of one node where they lie on one.
    fn most_bytes(&self, cores: &[u32], nodes: Option<(u32, u32)>) -> u64 {
        let available = self.machine.memory.available_bytes.known().copied().unwrap_or(1 << 30);
        let all = self.machine.memory.nodes.len().max(1) as u64;
        let mut used: Vec<Option<u32>> = cores.iter().map(|core| self.node_of(*core)).collect();
        used.sort();
        used.dedup();
        let on = if nodes.is_some() { 1 } else { used.len().max(1) as u64 };
        available / SHARE_OF_AVAILABLE * on.min(all) / all
    }

    /// Of one array over all cores.
    fn memory_array_bytes(&self, cores: &[u32]) -> u64 {
        TIMES_LAST_LEVEL * last_level_bytes(self.machine, cores).unwrap_or(ASSUMED_LAST_LEVEL_BYTES)
    }

    /// Each core's part of half of a cache level.
    fn half_of(&self, level: u32, cores: &[u32]) -> Result<u64, MemoryPointError> {
        let part = |core: &u32| {
            let level = levels(self.machine, *core).into_iter().find(|known| known.level == level)?;
            let sharing = cores.iter().filter(|core| level.cpus.contains(core)).count() as u64;
            Some(level.size_bytes / 2 / sharing.max(1))
        };
        let parts: Option<Vec<u64>> = cores.iter().map(part).collect();
        parts.and_then(|parts| parts.into_iter().min()).ok_or(MemoryPointError::NoCache(level))
    }

    fn node_of(&self, core: u32) -> Option<u32> {
        let nodes = &self.machine.memory.nodes;
        if nodes.len() < 2 {
            return None;
        }
        nodes.iter().find(|node| node.cpus.contains(&core)).map(|node| node.id)
    }
}

/// Each kernel with each kind of store that it and this processor have.
fn kinds(spec: &MemorySpec) -> Vec<(MemoryKernel, Option<Store>)> {
    let of = |kernel: MemoryKernel| match kernel.stores() {
        true if has_streaming() => vec![(kernel, Some(Store::Plain)), (kernel, Some(Store::Streaming))],
        true => vec![(kernel, Some(Store::Plain))],
        false => vec![(kernel, None)],
    };
    spec.kernels().into_iter().flat_map(of).collect()
}

/// One level as a core sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheLevel {
    /// 1, 2, 3 …
    pub level: u32,
    /// Of the one that this core uses.
    pub size_bytes: u64,
    /// CPUs that share it.
    pub cpus: Vec<u32>,
}

/// Data caches of this core, smallest first; nothing where the kernel tells none.
pub fn levels(machine: &Machine, core: u32) -> Vec<CacheLevel> {
    let mut levels: Vec<CacheLevel> = data_caches(machine)
        .filter(|cache| cache.cpus.contains(&core))
        .filter_map(|cache| {
            let size_bytes = *cache.size_bytes.known()?;
            Some(CacheLevel { level: cache.level, size_bytes, cpus: cache.cpus.clone() })
        })
        .filter(|level| level.size_bytes > 0)
        .collect();
    levels.sort_by_key(|level| level.level);
    levels.dedup_by_key(|level| level.level);
    levels
}

/// Bytes of all last-level caches that these cores use together; none where the kernel reports no cache.
fn last_level_bytes(machine: &Machine, cores: &[u32]) -> Option<u64> {
    let last = data_caches(machine).map(|cache| cache.level).max()?;
    let used = data_caches(machine)
        .filter(|cache| cache.level == last && cache.cpus.iter().any(|cpu| cores.contains(cpu)));
    let total: u64 = used.filter_map(|cache| cache.size_bytes.known()).sum();
    (total > 0).then_some(total)
}

/// The smallest level that holds `bytes_per_core` of each of the cores: `L1`, `L2` …, else `memory`.
fn level_of(machine: &Machine, cores: &[u32], bytes_per_core: u64) -> String {
    let holds = |level: &CacheLevel| {
        let sharing = cores.iter().filter(|core| level.cpus.contains(core)).count() as u64;
        bytes_per_core.saturating_mul(sharing) <= level.size_bytes
    };
    let first = cores.first().copied().unwrap_or_default();
    let level = levels(machine, first).into_iter().find(holds);
    level.map_or_else(|| "memory".into(), |level| format!("L{}", level.level))
}

fn data_caches(machine: &Machine) -> impl Iterator<Item = &Cache> {
    machine.cpu.caches.iter().filter(|cache| cache.kind != "Instruction")
}
