//! `/proc/interrupts` and `/proc/softirqs`: tables with a column for each online core.

/// More lines than any kernel has.
const MOST_LINES: usize = 16_384;
/// More processors than the kernel can be built for.
const MOST_CORES: usize = 8192;

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
    /// What the driver calls it; empty where none does.
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

/// Reads `/proc/interrupts`. Lines of one count alone (`ERR`, `MIS`) are of no core and left out.
pub fn parse_interrupts(text: &str) -> Option<Interrupts> {
    table(text, |number, described| match described.rsplit_once("  ") {
        // Those of the processors are described in words: `Local timer interrupts`.
        _ if !number.starts_with(|c: char| c.is_ascii_digit()) => described,
        Some((_, last)) => last.trim(),
        None => described.rsplit(' ').next().unwrap_or_default(),
    })
}

/// Reads `/proc/softirqs`.
pub fn parse_softirqs(text: &str) -> Option<Interrupts> {
    table(text, |_, _| "")
}

fn table(text: &str, name: impl for<'a> Fn(&str, &'a str) -> &'a str) -> Option<Interrupts> {
    let mut lines = text.lines();
    let head = lines.next()?.split_ascii_whitespace();
    let cores: Option<Vec<u32>> =
        head.take(MOST_CORES).map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
    let cores = cores.filter(|cores| !cores.is_empty())?;
    let mut read = Interrupts { cores, lines: Vec::new() };
    for line in lines.take(MOST_LINES) {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let Some((counts, rest)) = counts(rest, read.cores.len()) else { continue };
        let number = number.trim();
        if super::plain(number) {
            let name: String =
                name(number, rest.trim()).chars().filter(|c| !c.is_control()).take(128).collect();
            read.lines.push(IrqCounts { number: number.to_string(), name, counts });
        }
    }
    Some(read)
}

/// As many counts as there are columns, and what follows them.
fn counts(mut rest: &str, columns: usize) -> Option<(Vec<u64>, &str)> {
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
        let text = "           CPU0       CPU2       \n 36:          5     231390 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n\
                    \u{20} 8:          0          1   IO-APIC   8-edge      rtc0\nNMI:          1          2   Non-maskable interrupts\nERR:          0\n 99: 1\n";
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

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "( {0,2}CPU[0-9]){0,3}\n(( ?[0-9A-Z]{1,3}: ?)?([0-9]{1,22} ){0,4}[a-zé0-9 -]{0,12}\n){0,8}") {
            if let Some(read) = parse_interrupts(&text) {
                prop_assert!(read.lines.iter().all(|line| line.counts.len() == read.cores.len()));
            }
            let _ = parse_softirqs(&text);
        }
    }
}
