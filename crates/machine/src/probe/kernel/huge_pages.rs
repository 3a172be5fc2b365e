//! Huge pages: those set aside, and whether the kernel makes its own
//! (`Documentation/admin-guide/mm/hugetlbpage.rst`, `transhuge.rst`).

use crate::probe::machine::HugePages;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::path::Path;

const POOLS: &str = "/sys/kernel/mm/hugepages";
const TRANSPARENT: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
/// No architecture has more than a handful of sizes.
const MOST_SIZES: usize = 16;

/// Reads the pools, smallest pages first.
pub(crate) fn pools(sysroot: &Sysroot) -> Vec<HugePages> {
    let names = sysroot.list(POOLS);
    let mut pools: Vec<HugePages> = names
        .iter()
        .filter_map(|name| {
            let directory = Path::new(POOLS).join(name);
            Some(HugePages {
                page_bytes: page_bytes(name)?,
                total: sysroot.parse(directory.join("nr_hugepages")),
                free: sysroot.parse(directory.join("free_hugepages")),
            })
        })
        .take(MOST_SIZES)
        .collect();
    pools.sort_by_key(|pool| pool.page_bytes);
    pools
}

/// `hugepages-2048kB`.
fn page_bytes(name: &str) -> Option<u64> {
    name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The choice in force: `always`, `madvise` or `never`.
pub(crate) fn transparent(sysroot: &Sysroot) -> Fact<String> {
    match sysroot.text(TRANSPARENT) {
        Ok(text) => {
            Fact::from_option(chosen(&text).map(str::to_string), format!("{TRANSPARENT}: none is chosen"))
        }
        Err(why) => Fact::unknown(why),
    }
}

/// The word in brackets, as sysfs marks the one of several that is in force: `always [madvise] never`.
fn chosen(text: &str) -> Option<&str> {
    text.split_ascii_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    #[test]
    fn two_sizes_and_the_choice() {
        let tree = Tree::new(&[
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n"),
            ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
            ("sys/kernel/mm/hugepages/other/x", ""),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ]);
        let found = pools(&tree.sysroot());
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].page_bytes, found[0].total.known(), found[0].free.known()),
            (2 << 20, Some(&512), Some(&500))
        );
        assert_eq!((found[1].page_bytes, found[1].total.known()), (1 << 30, Some(&0)));
        assert!(found[1].free.why().is_some());
        assert_eq!(transparent(&tree.sysroot()), Fact::Known("madvise".into()));
        assert!(transparent(&Tree::new(&[]).sysroot()).why().is_some());
    }

    proptest! {
        #[test]
        fn any_name_and_any_choice(name in "(hugepages-)?[0-9é]{0,22}(kB)?", text in "[a-z\\[\\] é]{0,30}") {
            let _ = page_bytes(&name);
            if let Some(word) = chosen(&text) {
                prop_assert!(text.contains(word));
            }
        }
    }
}
