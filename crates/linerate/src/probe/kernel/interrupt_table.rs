//! The lines of `/proc/interrupts` (`show_interrupts` in `kernel/irq/proc.c`):
//! ` 36:   12   0   PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0`, one count for each CPU that is online.

/// One line that has a number: an interrupt of a device. Those of the processors themselves (`NMI`, `LOC`) have letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Number of the interrupt.
    pub number: u32,
    /// Interrupt controller (`IO-APIC`, `PCI-MSIX-0000:00:02.0`, `GICv3`); older kernels write the trigger into it.
    pub controller: String,
    /// Names that drivers gave it, comma separated where several share it; empty where none has.
    pub name: String,
}

/// Names longer than this are cut: drivers have room for some 30 characters.
const LONGEST_NAME: usize = 128;

/// Reads the table, in its order; what is no line of it is left out. At most `most` lines.
pub fn parse(text: &str, most: usize) -> Vec<Line> {
    let mut lines = text.lines();
    // A table that begins without the names of the CPUs is none.
    let cpus = lines
        .next()
        .map_or(0, |head| head.split_ascii_whitespace().filter(|word| word.starts_with("CPU")).count());
    if cpus == 0 {
        return Vec::new();
    }
    lines.filter_map(|line| one(line, cpus)).take(most).collect()
}

fn one(line: &str, cpus: usize) -> Option<Line> {
    let (number, rest) = line.split_once(':')?;
    let number = number.trim().parse().ok()?;
    let described = after_counts(rest, cpus)?;
    let controller = described.split_ascii_whitespace().next().unwrap_or_default();
    Some(Line { number, controller: cut(controller), name: cut(name(described)) })
}

/// What follows the counts.
fn after_counts(mut rest: &str, cpus: usize) -> Option<&str> {
    for _ in 0..cpus {
        rest = rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if end == 0 {
            return None;
        }
        rest = &rest[end..];
    }
    Some(rest.trim())
}

/// The names: what follows the last gap of two blanks or more, which the kernel puts before them, unless that is the trigger of an
/// interrupt that nobody has asked for.
fn name(described: &str) -> &str {
    let Some((_, last)) = described.rsplit_once("  ") else { return "" };
    let last = last.trim();
    let triggers = ["-edge", "-level", "-fasteoi", "-simple", "-percpu", "-msi", "-event"];
    let trigger = matches!(last, "Edge" | "Level")
        // A number and the trigger (`9 Level`, `1-edge`): the number of the line at its controller stands before it.
        || last.starts_with(|c: char| c.is_ascii_digit())
            && (last.ends_with("Edge") || last.ends_with("Level") || triggers.iter().any(|end| last.ends_with(end)));
    if trigger { "" } else { last }
}

/// A name as long as is kept of it.
pub fn cut(text: &str) -> String {
    text.chars().take(LONGEST_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(lines: &str) -> Vec<(u32, String, String)> {
        let text = format!("           CPU0       CPU1\n{lines}");
        parse(&text, 100).into_iter().map(|line| (line.number, line.controller, line.name)).collect()
    }

    fn is(number: u32, controller: &str, name: &str) -> Vec<(u32, String, String)> {
        vec![(number, controller.into(), name.into())]
    }

    #[test]
    fn lines_of_several_kernels_and_architectures() {
        for (line, expected) in [
            ("  9:    0   12   IO-APIC   9-fasteoi   acpi", is(9, "IO-APIC", "acpi")),
            (
                " 16:    0    1   IO-APIC  16-fasteoi   ehci_hcd:usb1, ahci[0000:00:1f.2]",
                is(16, "IO-APIC", "ehci_hcd:usb1, ahci[0000:00:1f.2]"),
            ),
            (
                " 29:    1    0   PCI-MSI 512000-edge      ahci[0000:00:1f.2]",
                is(29, "PCI-MSI", "ahci[0000:00:1f.2]"),
            ),
            (
                "130:   12    0  IR-PCI-MSIX-0000:b1:00.0    3-edge      mlx5_comp3@pci:0000:b1:00.0",
                is(130, "IR-PCI-MSIX-0000:b1:00.0", "mlx5_comp3@pci:0000:b1:00.0"),
            ),
            (" 59:  332    0  PCI-MSI-edge      eth0-TxRx-0", is(59, "PCI-MSI-edge", "eth0-TxRx-0")),
            (" 14: 7815    0     GICv3  37 Level     ttyS0", is(14, "GICv3", "ttyS0")),
            (" 76:    0    0  xen-pirq-msi       eth1", is(76, "xen-pirq-msi", "eth1")),
            (" 45:  4294967296 1  XICS 4101 Level     IPI", is(45, "XICS", "IPI")),
            (" 44:    3    0  ITS-MSI 524290 Edge      nvme0q2", is(44, "ITS-MSI", "nvme0q2")),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn nobody_asked_for_it() {
        assert_eq!(read("  9:    1   12   IO-APIC   9-fasteoi"), is(9, "IO-APIC", ""));
        assert_eq!(read(" 14:    1   12     GICv3  37 Level"), is(14, "GICv3", ""));
        assert_eq!(read(" 14:    1   12"), is(14, "", ""));
    }

    #[test]
    fn what_is_no_interrupt_of_a_device() {
        assert_eq!(read("NMI:   1    2   Non-maskable interrupts\nERR:   0\n\nx\n 7: a b\n 8: 1"), []);
        assert_eq!(parse(" 9:    1   12   IO-APIC   9-fasteoi   acpi", 9), [], "the head is missing");
        assert_eq!(parse("CPU0\n 1: 0 X  a\n 2: 0 X  b", 1).len(), 1);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_left_out(text in "(CPU0  )?[0-9a-zA-Z:é \n-]{0,200}") {
            for line in parse(&text, 10) {
                prop_assert!(line.name.chars().count() <= LONGEST_NAME);
            }
        }

        #[test]
        fn a_line_as_the_kernel_writes_it(
            number in any::<u32>(), counts in proptest::collection::vec(any::<u32>(), 1..9),
            hardware in 0u64..1 << 40, name in "[a-z][a-z0-9_.@:-]{0,20}[a-z]",
        ) {
            let head: String = (0..counts.len()).map(|cpu| format!("{:>10}", format!("CPU{cpu}"))).collect();
            let columns: String = counts.iter().map(|count| format!("{count:>10} ")).collect();
            let line = format!("{number:>3}: {columns} {:>8} {hardware:>4}{:<8}  {name}", "PCI-MSI", "-edge");
            let expected = Line { number, controller: "PCI-MSI".into(), name };
            prop_assert_eq!(parse(&format!("{head}\n{line}\n"), 9), [expected]);
        }
    }
}
