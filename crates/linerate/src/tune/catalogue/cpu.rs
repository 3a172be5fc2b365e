//! Frequency, and the sleep of links and devices.

use super::super::shape::Shape;
use super::{Advice, Entry, Risk, Stage, Where};

const FREQUENCY: &str = "https://docs.kernel.org/admin-guide/pm/cpufreq.html";

pub const ENTRIES: &[Entry] = &[
    Entry {
        id: "governor",
        what: "how the clock of cores is chosen",
        stage: Stage::Network,
        at: Where::CpuPolicy("scaling_governor"),
        shape: Shape::Words,
        advice: |look| {
            let offered = look
                .seen
                .sysroot
                .text(format!("/sys/devices/system/cpu/cpufreq/{}/scaling_available_governors", look.device));
            match offered {
                Ok(offered) if !offered.split_whitespace().any(|word| word == "performance") => {
                    Advice::leave("the driver offers no governor “performance”")
                }
                _ => look.exactly(
                    "performance",
                    "a core that handles packets sleeps in between, and its clock drops each time",
                ),
            }
        },
        source: FREQUENCY,
        risk: Risk::Low,
        harm: "more power",
        findings: &[],
        range: None,
    },
    Entry {
        id: "boost",
        what: "clocks above the nominal one",
        stage: Stage::Network,
        at: Where::File("/sys/devices/system/cpu/cpufreq/boost"),
        shape: Shape::Words,
        advice: |look| {
            look.exactly("1", "the cores may go faster; for figures that are to repeat exactly, leave it off")
        },
        source: FREQUENCY,
        risk: Risk::Low,
        harm: "more power",
        findings: &[],
        range: Some((0, 1)),
    },
    Entry {
        id: "no-turbo",
        what: "clocks above the nominal one are forbidden",
        stage: Stage::Network,
        at: Where::File("/sys/devices/system/cpu/intel_pstate/no_turbo"),
        shape: Shape::Words,
        advice: |look| {
            look.exactly(
                "0",
                "the cores may go faster; for figures that are to repeat exactly, leave it at 1",
            )
        },
        source: "https://docs.kernel.org/admin-guide/pm/intel_pstate.html",
        risk: Risk::Low,
        harm: "more power",
        findings: &[],
        range: Some((0, 1)),
    },
    Entry {
        id: "pcie-aspm",
        what: "sleep of PCIe links",
        stage: Stage::Network,
        at: Where::File("/sys/module/pcie_aspm/parameters/policy"),
        shape: Shape::Choice,
        advice: |look| look.exactly("performance", "a link that sleeps takes microseconds to wake up"),
        source: "https://docs.kernel.org/admin-guide/kernel-parameters.html",
        risk: Risk::Low,
        harm: "more power",
        findings: &[],
        range: None,
    },
    Entry {
        id: "runtime-power",
        what: "a NIC or a disk's controller may be put to sleep",
        stage: Stage::Network,
        at: Where::Pci("power/control"),
        shape: Shape::Words,
        advice: |look| look.exactly("on", "a device that sleeps takes milliseconds to wake up"),
        source: "https://docs.kernel.org/power/runtime_pm.html",
        risk: Risk::Low,
        harm: "more power",
        findings: &[],
        range: None,
    },
];
