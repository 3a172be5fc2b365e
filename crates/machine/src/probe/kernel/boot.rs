//! What was chosen when the machine was started and holds until it is started again: boot options, the IOMMU.

use linerate_facts::fact::Fact;
use linerate_facts::sysroot::{Sysroot, Unreadable};
use std::collections::BTreeSet;
use std::path::Path;

/// Options that bear on the way of the bytes (`Documentation/admin-guide/kernel-parameters.txt`). The others
/// are left out: some installations put secrets on that line.
const OPTIONS: [&str; 30] = [
    "amd_iommu",
    "amd_pstate",
    "cpufreq.default_governor",
    "default_hugepagesz",
    "hugepages",
    "hugepagesz",
    "idle",
    "intel_idle.max_cstate",
    "intel_iommu",
    "intel_pstate",
    "iommu",
    "iommu.passthrough",
    "iommu.strict",
    "irqaffinity",
    "isolcpus",
    "maxcpus",
    "mem",
    "mitigations",
    "nohz_full",
    "nosmt",
    "nr_cpus",
    "numa",
    "numa_balancing",
    "nvme_core.default_ps_max_latency_us",
    "nvme.poll_queues",
    "pci",
    "pcie_aspm",
    "processor.max_cstate",
    "rcu_nocbs",
    "transparent_hugepage",
];
const LONGEST_OPTION: usize = 256;
const MOST_GROUPS: usize = 4096;

/// The boot options that bear on speed, in their order.
pub fn options(sysroot: &Sysroot) -> Fact<Vec<String>> {
    sysroot.fact("/proc/cmdline").map(|line| chosen(&line))
}

/// Those options of a kernel's command line.
pub fn chosen(line: &str) -> Vec<String> {
    // What follows `--` is for the first process.
    let words = line.split_ascii_whitespace().take_while(|word| *word != "--");
    // The kernel takes `-` and `_` in a name for the same.
    let wanted = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default().replace('-', "_");
        OPTIONS.contains(&name.as_str())
    };
    words.filter(wanted).take(MOST_GROUPS).map(|word| word.chars().take(LONGEST_OPTION).collect()).collect()
}

/// How the IOMMU translates, each way once (`DMA`: each mapping is taken down at once; `DMA-FQ`: in batches;
/// `identity`: not at all); empty where none is in use.
/// `Documentation/ABI/testing/sysfs-kernel-iommu_groups`.
pub fn iommu(sysroot: &Sysroot) -> Fact<Vec<String>> {
    let groups = Path::new("/sys/kernel/iommu_groups");
    let numbers = sysroot.list(groups);
    if numbers.is_empty() {
        return match sysroot.is_directory(groups) {
            true => Fact::Known(Vec::new()),
            false => Fact::unknown(Unreadable::absent(groups)),
        };
    }
    let types: BTreeSet<String> = numbers
        .iter()
        .take(MOST_GROUPS)
        .filter_map(|group| sysroot.text(groups.join(group).join("type")).ok())
        .collect();
    Fact::from_option(
        (!types.is_empty()).then(|| types.into_iter().collect()),
        "an IOMMU is in use, but this kernel does not report how",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;
    use proptest::prelude::*;

    #[test]
    fn options_that_bear_on_speed() {
        let line = "BOOT_IMAGE=/vmlinuz root=UUID=1 intel_iommu=on iommu=pt luks.key=secret isolcpus=2-5 \
                    nosmt pcie-aspm=off -- idle=poll";
        let tree = Tree::new(&[("proc/cmdline", line)]);
        let expected =
            ["intel_iommu=on", "iommu=pt", "isolcpus=2-5", "nosmt", "pcie-aspm=off"].map(str::to_string);
        assert_eq!(options(&tree.sysroot()), Fact::Known(expected.to_vec()));
        assert!(options(&Tree::new(&[]).sysroot()).why().is_some());
    }

    #[test]
    fn how_the_iommu_translates() {
        let group =
            |number: u32, kind: &'static str| (format!("sys/kernel/iommu_groups/{number}/type"), kind);
        let files = [group(0, "DMA-FQ\n"), group(1, "identity\n"), group(2, "DMA-FQ\n")];
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        assert_eq!(
            iommu(&Tree::new(&files).sysroot()),
            Fact::Known(vec!["DMA-FQ".into(), "identity".into()])
        );
        let older = Tree::new(&[("sys/kernel/iommu_groups/0/devices/x", "")]);
        assert!(iommu(&older.sysroot()).why().is_some_and(|why| why.contains("in use")));
        assert!(iommu(&Tree::new(&[]).sysroot()).why().is_some());
    }

    proptest! {
        #[test]
        fn nothing_but_what_is_asked_for(line in "[a-z_=., \n-]{0,200}") {
            for option in chosen(&line) {
                prop_assert!(OPTIONS.iter().any(|name| option.replace('-', "_").starts_with(name)));
            }
        }
    }
}
