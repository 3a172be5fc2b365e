//! Which host it is, and whether it is a virtual machine or a container; and what was chosen when it was started and holds
//! until it is started again: boot options, the IOMMU.

use linerate_facts::fact::Fact;
use linerate_facts::sysroot::{Sysroot, Unreadable};
use std::collections::BTreeSet;
use std::path::Path;

/// A virtual machine whose hypervisor does not report its name.
const UNNAMED: &str = "unnamed hypervisor";

/// `PROC_PID_INIT_INO` of `include/linux/proc_ns.h`: the process namespace that the kernel starts with.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Hypervisors whose firmware no board has.
const EMULATED: [&str; 6] = ["virtualbox", "vmware", "qemu", "bochs", "parallels", "bhyve"];
const PCI_DEVICES: &str = "/sys/bus/pci/devices";

const LONGEST_OPTION: usize = 256;
const MOST_GROUPS: usize = 4096;

/// The end of a reason that is usual in a guest, and said of one alone.
pub(crate) fn usual_in_a_guest(virtualisation: &Fact<String>) -> &'static str {
    let is_guest = virtualisation.known().is_some_and(|name| name != "none");
    if is_guest { ", as usual in a virtual machine" } else { "" }
}

/// Host name, without the domain that some hosts put into it left off.
pub(crate) fn name(sysroot: &Sysroot) -> Fact<String> {
    sysroot.fact("/proc/sys/kernel/hostname")
}

/// Hypervisor (`kvm`, `vmware`, `microsoft`, `xen`, `amazon`, …), `none` on bare metal.
///
/// x86 processors tell of any hypervisor by a flag (CPUID leaf 1, ECX bit 31); its name comes from the
/// firmware or the clock that it offers. Other processors have no such flag: there the firmware decides.
pub fn virtualisation(sysroot: &Sysroot) -> Fact<String> {
    let known = |name: &str| Fact::Known(name.to_string());
    if sysroot.text("/sys/hypervisor/type").as_deref() == Ok("xen") {
        // The first domain of Xen drives the hardware itself.
        let control = sysroot.text("/proc/xen/capabilities").is_ok_and(|text| text.contains("control_d"));
        return known(if control { "none" } else { "xen" });
    }
    let cpuinfo = match sysroot.text("/proc/cpuinfo") {
        Ok(text) => text,
        Err(why) => return Fact::unknown(why),
    };
    let firmware = by_firmware(sysroot);
    match x86_flags(&cpuinfo) {
        Some(flags) if flags.split_ascii_whitespace().any(|flag| flag == "hypervisor") => {
            known(firmware.or_else(|| by_clock(sysroot)).unwrap_or(UNNAMED))
        }
        // Old and bare hypervisors do not set the flag, and show devices that no board has.
        Some(_) => known(
            firmware.filter(|name| EMULATED.contains(name)).or_else(|| by_devices(sysroot)).unwrap_or("none"),
        ),
        None => match (firmware, by_device_tree(sysroot, &cpuinfo)) {
            (Some(name), _) | (None, Some(name)) => known(name),
            (None, None) if sysroot.exists("/sys/class/dmi/id/sys_vendor") => known("none"),
            (None, None) => Fact::unknown("neither the CPU nor the firmware reports it"),
        },
    }
}

/// Container that linerate runs in (`docker`, `podman`, `kubernetes`, `lxc`, …), `none` outside of any: there
/// a container's limits (CPUs, memory, locked memory, network namespace) are what is seen, not the machine's.
pub(crate) fn container(sysroot: &Sysroot) -> Fact<String> {
    let named = by_init(sysroot).or_else(|| by_places(sysroot).map(str::to_string));
    match (named, sysroot.link_name("/proc/self/ns/pid").as_deref()) {
        (Some(name), _) => Fact::Known(name),
        (None, Some(FIRST_NAMESPACE)) => Fact::Known("none".into()),
        (None, Some(_)) => Fact::Known("unnamed container".into()),
        (None, None) => Fact::unknown(Unreadable::absent("/proc/self/ns/pid")),
    }
}

/// By the variable that podman, LXC and systemd-nspawn give the first process (systemd's Container
/// Interface); only root reads it.
fn by_init(sysroot: &Sysroot) -> Option<String> {
    container_of(&sysroot.text("/proc/1/environ").ok()?)
}

/// The container's name in an environment; nothing else of it is ever looked at.
pub(crate) fn container_of(environment: &str) -> Option<String> {
    let name = environment.split('\0').find_map(|variable| variable.strip_prefix("container="))?;
    // `oci` is what podman says inside of Kubernetes and the like; the name is another program's, so it is
    // kept short.
    let name: String = name.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').take(32).collect();
    (!name.is_empty()).then_some(name)
}

/// By where the control group and the root file system lie.
fn by_places(sysroot: &Sysroot) -> Option<&'static str> {
    let groups = sysroot.text("/proc/self/cgroup").unwrap_or_default();
    let mounts = sysroot.text("/proc/self/mountinfo").unwrap_or_default();
    // The fifth field is the mount point.
    let root = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some("/")).unwrap_or_default();
    let table = [
        ("kubepods", "kubernetes"),
        ("/docker/", "docker"),
        ("docker-", "docker"),
        ("libpod", "podman"),
        ("containers/storage/overlay", "podman"),
        ("containerd", "containerd"),
        ("/lxc", "lxc"),
        ("machine.slice/systemd-nspawn", "systemd-nspawn"),
    ];
    // A service of the host such as docker.service or containerd.service is in no container.
    let inside = |text: &str, mark: &str| {
        text.lines().any(|line| line.contains(mark) && !line.trim_end().ends_with(".service"))
    };
    table.iter().find(|(mark, _)| inside(&groups, mark) || inside(root, mark)).map(|(_, name)| *name)
}

fn x86_flags(cpuinfo: &str) -> Option<&str> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "flags").then_some(value)
    })
}

/// By the DMI strings, as `systemd-detect-virt` knows them.
fn by_firmware(sysroot: &Sysroot) -> Option<&'static str> {
    let text = |name: &str| sysroot.text(format!("/sys/class/dmi/id/{name}")).unwrap_or_default();
    let product = text("product_name");
    let all = [product.as_str(), &text("sys_vendor"), &text("board_vendor"), &text("bios_vendor")].join("\n");
    // EC2 sells whole machines under the same vendor: m5.metal, c6g.metal.
    if product.ends_with(".metal") || product.contains(".metal-") {
        return None;
    }
    let table = [
        ("KVM", "kvm"),
        ("OpenStack", "kvm"),
        ("Amazon EC2", "amazon"),
        ("Google", "google"),
        ("QEMU", "qemu"),
        ("VMware", "vmware"),
        ("VMW", "vmware"),
        ("innotek GmbH", "virtualbox"),
        ("VirtualBox", "virtualbox"),
        ("Xen", "xen"),
        ("Bochs", "bochs"),
        ("Parallels", "parallels"),
        ("BHYVE", "bhyve"),
        ("Apple Virtualization", "apple"),
    ];
    if all.contains("Microsoft Corporation") && product.contains("Virtual Machine") {
        return Some("microsoft");
    }
    table.iter().find(|(mark, _)| all.contains(mark)).map(|(_, name)| *name)
}

/// By emulated devices: the vendors' numbers and those of the devices, as `lscpu` of util-linux knows them.
fn by_devices(sysroot: &Sysroot) -> Option<&'static str> {
    let listed = sysroot.text("/proc/bus/pci/devices").unwrap_or_default();
    let mut ids: Vec<String> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1))
        .map(str::to_ascii_lowercase)
        .collect();
    for name in sysroot.list(PCI_DEVICES) {
        let id = |key: &str| sysroot.text(format!("{PCI_DEVICES}/{name}/{key}")).unwrap_or_default();
        let (vendor, device) = (id("vendor"), id("device"));
        ids.push(format!("{}{}", vendor.trim_start_matches("0x"), device.trim_start_matches("0x")));
    }
    let table = [
        ("80eebeef", "virtualbox"),
        ("80eecafe", "virtualbox"),
        ("15ad0710", "vmware"),
        ("15ad0405", "vmware"),
    ];
    table.iter().find(|(id, _)| ids.iter().any(|known| known == id)).map(|(_, name)| *name)
}

/// By the clock that only guests of a hypervisor are offered.
fn by_clock(sysroot: &Sysroot) -> Option<&'static str> {
    let clocks = sysroot
        .text("/sys/devices/system/clocksource/clocksource0/available_clocksource")
        .unwrap_or_default();
    let table = [("kvm-clock", "kvm"), ("hyperv", "microsoft"), ("xen", "xen"), ("vmware", "vmware")];
    table.iter().find(|(mark, _)| clocks.contains(mark)).map(|(_, name)| *name)
}

/// ARM and POWER without DMI.
fn by_device_tree(sysroot: &Sysroot, cpuinfo: &str) -> Option<&'static str> {
    match sysroot.text("/proc/device-tree/hypervisor/compatible") {
        Ok(text) if text.contains("kvm") => return Some("kvm"),
        Ok(text) if text.contains("xen") => return Some("xen"),
        Ok(text) if text.contains("vmware") => return Some("vmware"),
        _ => {}
    }
    let platform = cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "platform").then_some(value.trim())
    });
    match platform {
        Some("PowerNV") => Some("none"),
        // A pSeries partition is always a guest, of PowerVM or of KVM.
        Some("pSeries") => Some("powervm or kvm"),
        _ => None,
    }
}

/// Options that bear on the way of the bytes (`Documentation/admin-guide/kernel-parameters.txt`). The others
/// are left out: some installations put secrets on that line.
const BOOT_OPTIONS: &str = "\
    amd_iommu amd_pstate cpufreq.default_governor default_hugepagesz hugepages hugepagesz idle \
    intel_idle.max_cstate intel_iommu intel_pstate iommu iommu.passthrough iommu.strict irqaffinity \
    isolcpus maxcpus mem mitigations nohz_full nosmt nr_cpus numa numa_balancing \
    nvme_core.default_ps_max_latency_us nvme.poll_queues pci pcie_aspm processor.max_cstate rcu_nocbs \
    transparent_hugepage";

/// The boot options that bear on speed, in their order.
pub(super) fn boot_options(sysroot: &Sysroot) -> Fact<Vec<String>> {
    sysroot.fact("/proc/cmdline").map(|line| chosen_options(&line))
}

/// Those options of a kernel's command line.
pub(crate) fn chosen_options(line: &str) -> Vec<String> {
    // What follows `--` is for the first process.
    let words = line.split_ascii_whitespace().take_while(|word| *word != "--");
    // The kernel takes `-` and `_` in a name for the same.
    let wanted = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default().replace('-', "_");
        BOOT_OPTIONS.split_ascii_whitespace().any(|option| option == name)
    };
    words.filter(wanted).take(MOST_GROUPS).map(|word| word.chars().take(LONGEST_OPTION).collect()).collect()
}

/// How the IOMMU translates, each way once (`DMA`: each mapping is taken down at once; `DMA-FQ`: in batches;
/// `identity`: not at all); empty where none is in use.
/// `Documentation/ABI/testing/sysfs-kernel-iommu_groups`.
pub(super) fn iommu(sysroot: &Sysroot) -> Fact<Vec<String>> {
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

    const GUEST: (&str, &str) = ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n");

    const METAL: (&str, &str) = ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme lahf_lm\n");

    const ARM: (&str, &str) = ("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\n");

    fn of(files: &[(&str, &str)]) -> Fact<String> {
        virtualisation(&Tree::new(files).sysroot())
    }

    fn is(name: &str) -> Fact<String> {
        Fact::Known(name.into())
    }

    #[test]
    fn x86_guests_by_firmware_or_clock() {
        let vendor = "sys/class/dmi/id/sys_vendor";
        let product = "sys/class/dmi/id/product_name";
        assert_eq!(of(&[GUEST, (vendor, "VMware, Inc.\n")]), is("vmware"));
        assert_eq!(of(&[GUEST, (vendor, "Amazon EC2\n"), (product, "m5.large\n")]), is("amazon"));
        assert_eq!(
            of(&[GUEST, (vendor, "Microsoft Corporation"), (product, "Virtual Machine")]),
            is("microsoft")
        );
        assert_eq!(of(&[GUEST, (product, "CloudStack KVM Hypervisor\n")]), is("kvm"));
        let clock = "sys/devices/system/clocksource/clocksource0/available_clocksource";
        assert_eq!(of(&[GUEST, (clock, "tsc kvm-clock \n")]), is("kvm"));
        assert_eq!(of(&[GUEST]), is(UNNAMED));
        assert_eq!(of(&[GUEST, ("sys/hypervisor/type", "xen\n")]), is("xen"));
    }

    #[test]
    fn a_guest_whose_hypervisor_sets_no_flag() {
        assert_eq!(of(&[METAL, ("sys/class/dmi/id/product_name", "VirtualBox\n")]), is("virtualbox"));
        let listed = "0010\t80eebeef\t12\t        f0000008\n";
        assert_eq!(of(&[METAL, ("proc/bus/pci/devices", listed)]), is("virtualbox"));
        let of_sysfs = ["vendor", "device"].map(|key| format!("sys/bus/pci/devices/0000:00:02.0/{key}"));
        assert_eq!(of(&[METAL, (&of_sysfs[0], "0x15ad\n"), (&of_sysfs[1], "0x0405\n")]), is("vmware"));
    }

    #[test]
    fn bare_metal() {
        assert_eq!(of(&[METAL, ("sys/class/dmi/id/sys_vendor", "Supermicro\n")]), is("none"));
        let control = ("proc/xen/capabilities", "control_d\n");
        assert_eq!(of(&[METAL, ("sys/hypervisor/type", "xen\n"), control]), is("none"));
        assert_eq!(of(&[ARM, ("sys/class/dmi/id/sys_vendor", "Ampere(R)\n")]), is("none"));
        let metal =
            [("sys/class/dmi/id/sys_vendor", "Amazon EC2"), ("sys/class/dmi/id/product_name", "c6g.metal")];
        assert_eq!(of(&[ARM, metal[0], metal[1]]), is("none"));
    }

    #[test]
    fn containers() {
        let of = |files: &[(&str, &str)], namespace: &str| {
            let mut tree = Tree::new(files);
            tree.link("proc/self/ns/pid", namespace);
            container(&tree.sysroot())
        };
        assert_eq!(of(&[], FIRST_NAMESPACE), is("none"));
        assert_eq!(of(&[("proc/self/cgroup", "0::/\n")], "pid:[4026532281]"), is("unnamed container"));
        let podman = ("proc/1/environ", "PATH=/bin\0container=podman\0HOME=/root");
        assert_eq!(of(&[podman], "pid:[4026532281]"), is("podman"));
        let pod = ("proc/self/cgroup", "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-2.scope\n");
        assert_eq!(of(&[pod], FIRST_NAMESPACE), is("kubernetes"), "a pod that shares the host's processes");
        let overlay = "9 1 0:5 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A\n";
        assert_eq!(of(&[("proc/self/mountinfo", overlay)], "pid:[4026532281]"), is("docker"));
        let service = ("proc/self/cgroup", "0::/system.slice/containerd.service\n");
        assert_eq!(of(&[service], FIRST_NAMESPACE), is("none"));
        assert!(container(&Tree::new(&[]).sysroot()).why().is_some());
    }

    #[test]
    fn what_does_not_report_is_unknown() {
        assert!(of(&[ARM]).why().is_some());
        assert_eq!(of(&[]).why(), Some("/proc/cpuinfo: not there"));
        assert_eq!(of(&[ARM, ("proc/device-tree/hypervisor/compatible", "linux,kvm\0")]), is("kvm"));
    }

    #[test]
    fn options_that_bear_on_speed() {
        let line = "BOOT_IMAGE=/vmlinuz root=UUID=1 intel_iommu=on iommu=pt luks.key=secret isolcpus=2-5 \
                    nosmt pcie-aspm=off -- idle=poll";
        let tree = Tree::new(&[("proc/cmdline", line)]);
        let expected =
            ["intel_iommu=on", "iommu=pt", "isolcpus=2-5", "nosmt", "pcie-aspm=off"].map(str::to_string);
        assert_eq!(boot_options(&tree.sysroot()), Fact::Known(expected.to_vec()));
        assert!(boot_options(&Tree::new(&[]).sysroot()).why().is_some());
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
            for option in chosen_options(&line) {
                prop_assert!(BOOT_OPTIONS.split_ascii_whitespace().any(|name| option.replace('-', "_").starts_with(name)));
            }
        }
    }
}
