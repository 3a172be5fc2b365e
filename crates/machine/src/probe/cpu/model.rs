//! What a processor is called.

use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_facts::wording::listed;

/// Implementers of ARM processors by their number (`lscpu-arm.c` of util-linux; Arm's own list of MIDR_EL1).
const IMPLEMENTERS: [(u32, &str); 12] = [
    (0x41, "Arm"),
    (0x42, "Broadcom"),
    (0x43, "Cavium"),
    (0x46, "Fujitsu"),
    (0x48, "HiSilicon"),
    (0x4d, "Microsoft"),
    (0x4e, "NVIDIA"),
    (0x50, "APM"),
    (0x51, "Qualcomm"),
    (0x53, "Samsung"),
    (0x61, "Apple"),
    (0xc0, "Ampere"),
];

/// Parts of servers and of small boards, by implementer and part (the same sources).
const PARTS: [(u32, u32, &str); 36] = [
    (0x41, 0xd03, "Cortex-A53"),
    (0x41, 0xd04, "Cortex-A35"),
    (0x41, 0xd05, "Cortex-A55"),
    (0x41, 0xd07, "Cortex-A57"),
    (0x41, 0xd08, "Cortex-A72"),
    (0x41, 0xd09, "Cortex-A73"),
    (0x41, 0xd0a, "Cortex-A75"),
    (0x41, 0xd0b, "Cortex-A76"),
    (0x41, 0xd0c, "Neoverse N1"),
    (0x41, 0xd0d, "Cortex-A77"),
    (0x41, 0xd40, "Neoverse V1"),
    (0x41, 0xd41, "Cortex-A78"),
    (0x41, 0xd46, "Cortex-A510"),
    (0x41, 0xd47, "Cortex-A710"),
    (0x41, 0xd49, "Neoverse N2"),
    (0x41, 0xd4a, "Neoverse E1"),
    (0x41, 0xd4b, "Cortex-A78C"),
    (0x41, 0xd4f, "Neoverse V2"),
    (0x41, 0xd83, "Neoverse V3AE"),
    (0x41, 0xd84, "Neoverse V3"),
    (0x41, 0xd85, "Cortex-X925"),
    (0x41, 0xd87, "Cortex-A725"),
    (0x41, 0xd8e, "Neoverse N3"),
    (0x42, 0x516, "ThunderX2"),
    (0x43, 0x0a1, "ThunderX"),
    (0x43, 0x0af, "ThunderX2"),
    (0x43, 0x0b8, "ThunderX3"),
    (0x46, 0x001, "A64FX"),
    (0x48, 0xd01, "Kunpeng 920"),
    (0x48, 0xd02, "Kunpeng 930"),
    (0x4d, 0xd49, "Azure Cobalt 100"),
    (0x4e, 0x004, "Carmel"),
    (0x50, 0x000, "X-Gene"),
    (0x51, 0xc00, "Falkor"),
    (0xc0, 0xac3, "One"),
    (0xc0, 0xac4, "One A"),
];

/// Name of the first package: `model name` on x86, `cpu` on POWER, `cpu model` on MIPS; ARM reports numbers, which
/// have names.
pub(super) fn name(sysroot: &Sysroot) -> Fact<String> {
    let text = match sysroot.text("/proc/cpuinfo") {
        Ok(text) => text,
        Err(why) => return Fact::unknown(why),
    };
    let written = ["model name", "Model Name", "cpu model", "cpu"].iter().find_map(|key| value(&text, key));
    let why = match implementer(&text) {
        Some((number, part)) => format!("no name is known of implementer {number:#04x}, part {part:#05x}"),
        None => "/proc/cpuinfo names no model".into(),
    };
    Fact::from_option(written.or_else(|| of_arm(&text)), why)
}

/// The first value of a key that is not empty, its blanks made one.
fn value(text: &str, wanted: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        (key.trim() == wanted && !value.is_empty()).then_some(value)
    })
}

/// Implementer and part of the first core.
fn implementer(text: &str) -> Option<(u32, u32)> {
    let number = |key: &str| u32::from_str_radix(value(text, key)?.strip_prefix("0x")?, 16).ok();
    Some((number("CPU implementer")?, number("CPU part")?))
}

/// `Arm Neoverse V2`; cores of several kinds each once, one without a name by its number. None: no kind has a name.
fn of_arm(text: &str) -> Option<String> {
    let known = |kind: (u32, u32)| {
        PARTS.iter().find(|(maker, part, _)| (*maker, *part) == kind).map(|(.., name)| *name)
    };
    let mut kinds: Vec<(u32, u32)> = Vec::new();
    for kind in text.split("\n\n").filter_map(implementer) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.iter().find_map(|kind| known(*kind))?;
    let mut before = None;
    let names = kinds.iter().map(|(number, part)| {
        let name = known((*number, *part)).map_or_else(|| format!("part {part:#05x}"), str::to_string);
        if before.replace(*number) == Some(*number) {
            return name;
        }
        match IMPLEMENTERS.iter().find(|(known, _)| known == number) {
            Some((_, maker)) => format!("{maker} {name}"),
            None => format!("implementer {number:#04x} {name}"),
        }
    });
    let names: Vec<String> = names.collect();
    Some(listed(&names.iter().map(String::as_str).collect::<Vec<_>>(), names.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;

    fn of(cpuinfo: &str) -> Fact<String> {
        name(&Tree::new(&[("proc/cpuinfo", cpuinfo)]).sysroot())
    }

    fn core(number: u32, implementer: &str, part: &str) -> String {
        format!("processor\t: {number}\nCPU implementer\t: {implementer}\nCPU part\t: {part}\n")
    }

    #[test]
    fn arm_processors_are_named_by_implementer_and_part() {
        assert_eq!(of(&core(0, "0x41", "0xd4f")), Fact::Known("Arm Neoverse V2".into()));
        assert_eq!(of(&core(0, "0xc0", "0xac3")), Fact::Known("Ampere One".into()));
        let both = format!("{}\n{}", core(0, "0x41", "0xd05"), core(1, "0x41", "0xd0b"));
        assert_eq!(of(&both), Fact::Known("Arm Cortex-A55 and Cortex-A76".into()));
        // The first has a name, the second none, and the third is of another maker.
        let mixed = format!("{both}\n{}\n{}", core(2, "0x41", "0xfff"), core(3, "0xc0", "0xac3"));
        let named = "Arm Cortex-A55, Cortex-A76, part 0xfff and Ampere One";
        assert_eq!(of(&mixed), Fact::Known(named.into()));
    }

    #[test]
    fn what_has_no_name_says_its_numbers() {
        let why = of(&core(0, "0x41", "0xfff"));
        assert_eq!(why.why(), Some("no name is known of implementer 0x41, part 0xfff"));
        assert_eq!(of("processor: 0\n").why(), Some("/proc/cpuinfo names no model"));
        assert_eq!(of("cpu : POWER9, altivec\n"), Fact::Known("POWER9, altivec".into()));
    }
}
