//! The cache levels that a working set can lie in, as the kernel tells them.

use linerate_machine::probe::{Cache, Machine};

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
pub(crate) fn last_level_bytes(machine: &Machine, cores: &[u32]) -> Option<u64> {
    let last = data_caches(machine).map(|cache| cache.level).max()?;
    let used = data_caches(machine)
        .filter(|cache| cache.level == last && cache.cpus.iter().any(|cpu| cores.contains(cpu)));
    let total: u64 = used.filter_map(|cache| cache.size_bytes.known()).sum();
    (total > 0).then_some(total)
}

/// The smallest level that holds `bytes_per_core` of each of the cores: `L1`, `L2` …, else `memory`.
pub(crate) fn level_of(machine: &Machine, cores: &[u32], bytes_per_core: u64) -> String {
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
