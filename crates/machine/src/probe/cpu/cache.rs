//! Caches, each once with the processors that share it: `/sys/devices/system/cpu/cpu*/cache/index*`
//! (`Documentation/ABI/testing/sysfs-devices-system-cpu`).

use super::{CPUS, cpu_list};
use crate::probe::machine::{Cache, LogicalCpu};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Sharers of all caches together. 4,096 CPUs with three private caches and a shared one have 16,384; a
/// recorded tree that claims that each of its thousands of CPUs has caches shared by all must not fill the
/// memory.
const MOST_SHARERS: usize = 1 << 18;

/// Reads the caches of the processors that are online, smallest level first, then by their first processor.
pub(crate) fn read(sysroot: &Sysroot, logical: &[LogicalCpu]) -> Vec<Cache> {
    let mut caches: Vec<Cache> = Vec::new();
    // A cache is listed by each of its sharers under the same index; it is read at the first of them only.
    let mut seen: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    let mut sharers = 0;
    let online: BTreeSet<u32> = logical.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect();
    for cpu in &online {
        let directory = Path::new(CPUS).join(format!("cpu{cpu}/cache"));
        for index in sysroot.list(&directory) {
            if !index.starts_with("index") || seen.get(&index).is_some_and(|seen| seen.contains(cpu)) {
                continue;
            }
            let Some(cache) = read_cache(sysroot, &directory.join(&index), *cpu, &online) else { continue };
            sharers += cache.cpus.len();
            if sharers > MOST_SHARERS {
                return sorted(caches);
            }
            seen.entry(index).or_default().extend(&cache.cpus);
            caches.push(cache);
        }
    }
    sorted(caches)
}

fn sorted(mut caches: Vec<Cache>) -> Vec<Cache> {
    caches.sort_by(|a, b| (a.level, &a.kind, &a.cpus).cmp(&(b.level, &b.kind, &b.cpus)));
    // Sharers that do not agree on the index list a cache twice.
    caches.dedup_by(|a, b| (a.level, &a.kind, &a.cpus) == (b.level, &b.kind, &b.cpus));
    caches
}

/// One cache; `None` where it reports no level, without which it is nothing.
fn read_cache(sysroot: &Sysroot, directory: &Path, cpu: u32, online: &BTreeSet<u32>) -> Option<Cache> {
    let level = *sysroot.parse(directory.join("level")).known()?;
    let shared = cpu_list::read(sysroot, directory.join("shared_cpu_list"), directory.join("shared_cpu_map"));
    // Some firmware lists no sharers, or not the processor itself; some kernels leave those in that went
    // offline.
    let cpus = shared.known().filter(|shared| shared.contains(&cpu));
    let cpus = cpus.map(|shared| shared.iter().filter(|id| online.contains(id)).copied().collect());
    Some(Cache {
        level,
        kind: sysroot.text(directory.join("type")).unwrap_or_else(|_| "Unified".into()),
        size_bytes: size(sysroot, directory),
        line_bytes: sysroot.parse(directory.join("coherency_line_size")),
        cpus: cpus.unwrap_or_else(|| vec![cpu]),
    })
}

fn size(sysroot: &Sysroot, directory: &Path) -> Fact<u64> {
    let size = |text: String| Fact::from_option(parse_size(&text), "the kernel does not report its size");
    sysroot.fact(directory.join("size")).and_then(size)
}

/// `32K`, and `M` for those who come after; bytes. 0 is "not reported".
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, factor) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(factor).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    fn processors(count: u32) -> Vec<LogicalCpu> {
        (0..count).map(|id| LogicalCpu { id, online: true, ..Default::default() }).collect()
    }

    fn put(tree: &mut Tree, cpu: u32, index: u32, texts: [&str; 4]) {
        for (name, text) in ["level", "type", "size", "shared_cpu_list"].into_iter().zip(texts) {
            tree.put(&format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}"), text);
        }
    }

    #[test]
    fn each_cache_once_with_its_sharers() {
        let mut tree = Tree::new(&[("sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size", "64\n")]);
        for cpu in 0..4 {
            let own = if cpu < 2 { "0-1\n" } else { "2-3\n" };
            put(&mut tree, cpu, 0, ["1\n", "Data\n", "32K\n", own]);
            put(&mut tree, cpu, 3, ["3\n", "Unified\n", "30720K\n", "0-3\n"]);
        }
        let mut logical = processors(5);
        logical[4].online = false;
        let caches = read(&tree.sysroot(), &logical);
        let shared: Vec<&[u32]> = caches.iter().map(|cache| cache.cpus.as_slice()).collect();
        assert_eq!(shared, [&[0, 1][..], &[2, 3], &[0, 1, 2, 3]]);
        assert_eq!(caches[0].size_bytes, Fact::Known(32 << 10));
        assert_eq!((caches[0].line_bytes.known(), caches[0].kind.as_str()), (Some(&64), "Data"));
        assert!(caches[1].line_bytes.why().is_some());
        assert_eq!((caches[2].level, caches[2].size_bytes.known()), (3, Some(&(30 << 20))));
    }

    #[test]
    fn sharers_that_are_missing_or_nonsense() {
        let mut tree = Tree::new(&[("sys/devices/system/cpu/cpu1/cache/index1/type", "Data")]);
        put(&mut tree, 0, 0, ["1", "Data", "0K", "7"]);
        put(&mut tree, 1, 0, ["1", "Data", "x", "?"]);
        let caches = read(&tree.sysroot(), &processors(2));
        assert_eq!(caches.len(), 2, "an index without a level is not a cache");
        assert_eq!((caches[0].cpus.as_slice(), caches[1].cpus.as_slice()), (&[0][..], &[1][..]));
        assert!(caches.iter().all(|cache| cache.size_bytes.why().is_some()));
        assert!(read(&Tree::new(&[]).sysroot(), &processors(2)).is_empty());
    }

    #[test]
    fn a_tree_that_shares_everything_with_everybody_is_bounded() {
        let mut tree = Tree::new(&[]);
        // Each under an index of its own, so that none is taken for another.
        for index in 0..120 {
            let directory = format!("sys/devices/system/cpu/cpu0/cache/index{index}");
            tree.put(&format!("{directory}/level"), "1");
            tree.put(&format!("{directory}/shared_cpu_list"), &format!("0-{}", 3_000 + index));
        }
        let caches = read(&tree.sysroot(), &processors(3_500));
        let sharers: usize = caches.iter().map(|cache| cache.cpus.len()).sum();
        assert!(caches.len() > 80 && sharers <= MOST_SHARERS, "{} caches", caches.len());
    }

    proptest! {
        #[test]
        fn any_size_is_read_or_refused(text in "[0-9]{0,20}[KMGé ]{0,2}") {
            let _ = parse_size(&text);
        }

        #[test]
        fn sizes_in_kibibytes(kibibytes in 1u64..1 << 40) {
            prop_assert_eq!(parse_size(&format!("{kibibytes}K")), Some(kibibytes << 10));
        }
    }
}
