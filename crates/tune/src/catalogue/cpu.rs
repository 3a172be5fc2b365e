//! Frequency, and the sleep of cores, links and devices.

use super::{Advice, CatalogueContext, PATH, Risk, Setting, SettingGroup, SettingStage, Where};
use crate::setting_place::Shape;

const FREQUENCY: &str = "https://docs.kernel.org/admin-guide/pm/cpufreq.html";
const PSTATE: &str = "https://docs.kernel.org/admin-guide/pm/intel_pstate.html";
const IDLE: &str = "https://docs.kernel.org/admin-guide/pm/cpuidle.html";
/// Folder of the clocks of the mesh between cores, memory and PCIe.
const UNCORE: &str = "/sys/devices/system/cpu/intel_uncore_frequency";

/// More power for less waiting, nearly each of them.
const CPU: SettingGroup = SettingGroup { stage: SettingStage::Network, figure: PATH };

pub(crate) const ENTRIES: &[Setting] = &[
    CPU.entry(
        "governor",
        "how the clock of cores is chosen",
        Where::CpuPolicy("scaling_governor"),
        |look| match offered(look, "scaling_available_governors", "performance") {
            false => Advice::leave("the driver offers no governor “performance”"),
            true => look.exactly(
                "performance",
                "a core that handles packets sleeps in between, and its clock drops each time",
            ),
        },
        FREQUENCY,
        "more power",
    ),
    CPU.entry(
        "energy-preference",
        "whether the processor itself prefers speed or savings",
        Where::CpuPolicy("energy_performance_preference"),
        |look| match offered(look, "energy_performance_available_preferences", "performance") {
            false => Advice::leave("the driver offers no preference “performance”"),
            true => look.exactly("performance", "the processor raises its clock without waiting"),
        },
        PSTATE,
        "more power",
    ),
    Setting {
        range: Some((0, 1)),
        ..CPU.entry(
            "boost",
            "clocks above the nominal one",
            Where::File("/sys/devices/system/cpu/cpufreq/boost"),
            |look| {
                look.exactly(
                    "1",
                    "the cores may go faster; for figures that are to repeat exactly, leave it off",
                )
            },
            FREQUENCY,
            "more power",
        )
    },
    Setting {
        range: Some((0, 1)),
        ..CPU.entry(
            "no-turbo",
            "clocks above the nominal one are forbidden",
            Where::File("/sys/devices/system/cpu/intel_pstate/no_turbo"),
            |look| {
                look.exactly(
                    "0",
                    "the cores may go faster; for figures that are to repeat exactly, leave it at 1",
                )
            },
            PSTATE,
            "more power",
        )
    },
    Setting {
        range: Some((0, 100)),
        left: Some("100 holds the highest clock always; the governor “performance” asks for as much"),
        ..CPU.entry(
            "min-performance",
            "least clock, per cent of the highest",
            Where::File("/sys/devices/system/cpu/intel_pstate/min_perf_pct"),
            |_| Advice::Right,
            PSTATE,
            "more power",
        )
    },
    Setting {
        left: Some(
            "the mesh carries bytes between PCIe and memory; its highest clock is max_freq_khz beside it: \
             measure",
        ),
        ..CPU.entry(
            "uncore-frequency",
            "least clock of the mesh between cores, memory and PCIe, kHz",
            Where::Each(UNCORE, "min_freq_khz"),
            |_| Advice::Right,
            "https://docs.kernel.org/admin-guide/pm/intel_uncore_frequency_scaling.html",
            "more power",
        )
    },
    Setting {
        left: Some("deep sleep is better forbidden while a program works, and only then: dma-latency"),
        risk: Risk::High,
        ..CPU.entry(
            "idle-states",
            "cores may go to sleep deeper than polling: the governor of sleep",
            Where::File("/sys/devices/system/cpu/cpuidle/current_governor"),
            |_| Advice::Right,
            IDLE,
            "more power, and less boost for the other cores",
        )
    },
    Setting {
        left: Some("two threads of a core share it; off only where a measurement says so"),
        risk: Risk::High,
        ..CPU.entry(
            "smt",
            "two threads a core",
            Where::File("/sys/devices/system/cpu/smt/control"),
            |_| Advice::Right,
            "https://docs.kernel.org/admin-guide/hw-vuln/l1tf.html",
            "half of the processors are gone",
        )
    },
    Setting {
        shape: Shape::Choice,
        ..CPU.entry(
            "pcie-aspm",
            "sleep of PCIe links",
            Where::File("/sys/module/pcie_aspm/parameters/policy"),
            |look| look.exactly("performance", "a link that sleeps takes microseconds to wake up"),
            "https://docs.kernel.org/admin-guide/kernel-parameters.html",
            "more power",
        )
    },
    CPU.entry(
        "runtime-power",
        "a NIC or a disk's controller may be put to sleep",
        Where::Pci("power/control"),
        |look| look.exactly("on", "a device that sleeps takes milliseconds to wake up"),
        "https://docs.kernel.org/power/runtime_pm.html",
        "more power",
    ),
    Setting {
        left: Some("0 keeps NVMe drives that are found from now on out of their deep sleeps"),
        range: Some((0, u32::MAX as u64)),
        ..CPU.entry(
            "nvme-sleep",
            "longest time that an NVMe drive may take to wake up, microseconds",
            Where::File("/sys/module/nvme_core/parameters/default_ps_max_latency_us"),
            |_| Advice::Right,
            "https://docs.kernel.org/admin-guide/kernel-parameters.html",
            "more power",
        )
    },
];

/// The policy's list has this word; a list that is absent forbids nothing.
fn offered(look: &CatalogueContext<'_>, list: &str, word: &str) -> bool {
    let path = format!("/sys/devices/system/cpu/cpufreq/{}/{list}", look.device);
    look.facts.sysroot.text(path).map_or(true, |list| list.split_whitespace().any(|one| one == word))
}
