//! `/proc/interrupts` and `/proc/softirqs` (`show_interrupts` in `kernel/irq/proc.c`): tables with a column for
//! each CPU that is online, ` 36:   12   0   PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0`.

/// More lines than any kernel has.
const MOST_LINES: usize = 16_384;
/// More CPUs than the kernel can be built for.
const MOST_CORES: usize = 8192;
/// Names longer than this are cut: drivers have room for some 30 characters.
const LONGEST_NAME: usize = 128;

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interrupts {
    /// The cores of the columns.
    pub cores: Vec<u32>,
    pub lines: Vec<IrqCounts>,
}

/// One line. Counts are 32 bits wide in the kernel and wrap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IrqCounts {
    /// `45`, `NMI`, `NET_RX`.
    pub number: String,
    /// Interrupt controller (`IO-APIC`, `PCI-MSIX-0000:00:02.0`, `GICv3`); older kernels write the trigger into
    /// it. Empty for interrupts of the CPUs themselves (`NMI`, `LOC`).
    pub controller: String,
    /// Its number there (`524288-edge`), where one is printed.
    pub at_controller: Option<u64>,
    /// Names that drivers gave it, comma separated where several share it; empty where none has. Of the CPUs'
    /// own what the kernel calls it.
    pub name: String,
    /// By column.
    pub counts: Vec<u64>,
}

impl Interrupts {
    /// One line by its number and name: a number may be given to another device.
    pub fn line(&self, number: &str, name: &str) -> Option<&IrqCounts> {
        self.lines.iter().find(|line| line.number == number && line.name == name)
    }

    /// The column of a core.
    pub fn column(&self, core: u32) -> Option<usize> {
        self.cores.iter().position(|other| *other == core)
    }
}

impl IrqCounts {
    /// The number of a device's interrupt; those of the CPUs themselves have letters.
    pub fn of_device(&self) -> Option<u32> {
        self.number.parse().ok()
    }
}

/// Reads `/proc/interrupts`. Lines of one count alone (`ERR`, `MIS`) are of no core and left out.
pub fn parse_interrupts(text: &str) -> Option<Interrupts> {
    parse_table(text, |line, described| match line.of_device() {
        Some(_) => {
            let mut words = described.split_ascii_whitespace();
            line.controller = irq_name(words.next().unwrap_or_default());
            line.at_controller = words.next().and_then(|word| word.split('-').next()?.parse().ok());
            line.name = irq_name(device_name(described));
        }
        // In words: `Local timer interrupts`.
        None => line.name = irq_name(described),
    })
}

/// Reads `/proc/softirqs`.
pub fn parse_softirqs(text: &str) -> Option<Interrupts> {
    parse_table(text, |_, _| {})
}

fn parse_table(text: &str, describe: impl Fn(&mut IrqCounts, &str)) -> Option<Interrupts> {
    let mut lines = text.lines();
    let head = lines.next()?.split_ascii_whitespace();
    let cores: Option<Vec<u32>> =
        head.take(MOST_CORES).map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    let cores = cores.filter(|cores| !cores.is_empty())?;
    let mut read = Interrupts { cores, lines: Vec::new() };
    for line in lines.take(MOST_LINES) {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let Some((counts, rest)) = parse_counts(rest, read.cores.len()) else { continue };
        let number = number.trim();
        if super::plain(number) {
            let mut line = IrqCounts { number: number.to_string(), counts, ..IrqCounts::default() };
            describe(&mut line, rest.trim());
            read.lines.push(line);
        }
    }
    Some(read)
}

/// The names: what follows the last gap of two blanks or more, which the kernel puts before them, unless that
/// is the trigger of an interrupt that nobody has asked for.
fn device_name(described: &str) -> &str {
    let Some((_, last)) = described.rsplit_once("  ") else { return "" };
    let last = last.trim();
    let triggers = ["-edge", "-level", "-fasteoi", "-simple", "-percpu", "-msi", "-event"];
    let trigger = matches!(last, "Edge" | "Level")
        // A number and the trigger (`9 Level`, `1-edge`): the number of the line at its controller.
        || last.starts_with(|c: char| c.is_ascii_digit())
            && (last.ends_with("Edge")
                || last.ends_with("Level")
                || triggers.iter().any(|end| last.ends_with(end)));
    if trigger { "" } else { last }
}

/// A name as far as it is kept and may be printed.
pub fn irq_name(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect()
}

/// As many counts as there are columns, and what follows them.
fn parse_counts(mut rest: &str, columns: usize) -> Option<(Vec<u64>, &str)> {
    let mut counts = Vec::with_capacity(columns);
    for _ in 0..columns {
        rest = rest.trim_start_matches(' ');
        let end = rest.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        counts.push(rest[..end].parse().ok()?);
        rest = &rest[end..];
    }
    Some((counts, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_devices_and_of_processors() {
        let text = "           CPU0       CPU2       \n 36:          5     231390 PCI-MSIX-0000:00:02.0   \
                    1-edge      virtio1-req.0\n\
                    \u{20} 8:          0          1   IO-APIC   8-edge      rtc0\nNMI:          1          \
                    2   Non-maskable interrupts\nERR:          0\n 99: 1\n";
        let read = parse_interrupts(text).expect("a table");
        assert_eq!(read.cores, [0, 2]);
        assert_eq!(read.lines.len(), 3);
        assert_eq!(read.line("36", "virtio1-req.0").map(|line| line.counts.clone()), Some(vec![5, 231_390]));
        assert_eq!(read.lines[2].number, "NMI");
        assert_eq!(read.column(2), Some(1));
        let soft = parse_softirqs("  CPU0  CPU1\n  NET_RX:  7  8\n").expect("a table");
        assert_eq!((soft.lines[0].number.as_str(), &soft.lines[0].counts), ("NET_RX", &vec![7, 8]));
        assert_eq!(parse_interrupts("intr 5\n"), None);
        assert_eq!(parse_interrupts("\n"), None);
    }

    /// Number, controller and name of each interrupt of a device.
    fn devices(text: &str) -> Vec<(u32, String, String)> {
        let lines = parse_interrupts(text).unwrap_or_default().lines.into_iter();
        lines.filter_map(|line| Some((line.of_device()?, line.controller, line.name))).collect()
    }

    fn read(lines: &str) -> Vec<(u32, String, String)> {
        let text = format!("           CPU0       CPU1\n{lines}");
        devices(&text)
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
        assert_eq!(devices(" 9:    1   12   IO-APIC   9-fasteoi   acpi"), [], "the head is missing");
        let many = format!("CPU0\n{}", " 1: 0 X  a\n".repeat(MOST_LINES + 1));
        assert_eq!(devices(&many).len(), MOST_LINES);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "( {0,2}CPU[0-9]){0,3}\n(( ?[0-9A-Z]{1,3}: ?)?([0-9]{1,22} \
                                                ){0,4}[a-zé0-9 -]{0,12}\n){0,8}") {
            if let Some(read) = parse_interrupts(&text) {
                prop_assert!(read.lines.iter().all(|line| line.counts.len() == read.cores.len()));
            }
            let _ = parse_softirqs(&text);
        }

        #[test]
        fn any_name_is_cut(text in "(CPU0  )?[0-9a-zA-Z:é \n-]{0,200}") {
            for line in parse_interrupts(&text).unwrap_or_default().lines {
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
            let expected = (number, "PCI-MSI".to_string(), name);
            prop_assert_eq!(devices(&format!("{head}\n{line}\n")), [expected]);
        }
    }
}
