//! The lines below a function's first one in the verbose listing, in the wording of pciutils 2.2 (2006) to
//! 3.14.

use crate::probe::machine::{ParallelBus, PciLink, PortKind};
use crate::probe::pci::address::{Buses, hexadecimal};
use crate::probe::pci::link::{NO_SLOT, behind, link, of_conventional, of_pci_x, parse_speed, slot_number};
use linerate_facts::fact::Fact;

/// What the lines have said so far; `None` is not known.
#[derive(Clone, Debug, Default)]
pub(super) struct VerboseFacts {
    pub(super) driver: Option<String>,
    pub(super) card_name: Option<String>,
    pub(super) node: Option<u32>,
    pub(super) buses: Option<Buses>,
    pub(super) link: Option<Fact<PciLink>>,
    pub(super) link_max: Option<Fact<PciLink>>,
    /// Fastest of the speeds in LnkCap2.
    pub(super) fastest: Option<f64>,
    pub(super) port: Option<Fact<PortKind>>,
    pub(super) max_payload: Option<Fact<u32>>,
    pub(super) max_payload_supported: Option<Fact<u32>>,
    pub(super) max_read_request: Option<Fact<u32>>,
    pub(super) power_saving: Option<Fact<bool>>,
    pub(super) target: Option<Fact<f64>>,
    pub(super) autonomous_change: Option<Fact<bool>>,
    /// Slot below this port.
    pub(super) slot: Option<Fact<u32>>,
    /// Slot that this card is in.
    pub(super) in_slot: Option<Fact<u32>>,
    pub(super) parallel_below: Option<Fact<ParallelBus>>,
    pci_x: Option<ParallelBus>,
    /// The status in the header: conventional PCI at 66 MHz.
    fast: Option<bool>,
    gone: bool,
    refused: bool,
}

impl VerboseFacts {
    /// One line without its indentation.
    pub(super) fn line(&mut self, line: &str) {
        let (label, rest) = line.split_once(':').unwrap_or((line, ""));
        let rest = rest.trim_start();
        match label {
            "Bus" => self.buses = buses(rest).or(self.buses),
            "Kernel driver in use" => self.driver = Some(rest.to_string()),
            "Subsystem" => self.card_name = known_name(rest).or(self.card_name.take()),
            "NUMA node" => self.node = number(rest),
            "Physical Slot" => self.in_slot = rest.parse().ok().map(Fact::Known),
            "Flags" => self.flags(rest),
            "Status" | "Secondary Status" => self.status(label, rest),
            "Capabilities" => self.capability(rest),
            "DevCap" => self.max_payload_supported = after(rest, "MaxPayload ").map(size),
            "LnkCap" => self.link_max = Some(speed_and_width(rest)),
            "LnkCap2" => self.fastest = after(rest, "Supported Link Speeds: ").and_then(fastest),
            "LnkCtl" => self.power_saving = power_saving(rest).or(self.power_saving.take()),
            "LnkCtl2" => self.target = after(rest, "Target Link Speed: ").map(target),
            "LnkSta" => {
                self.link = Some(speed_and_width(rest));
                self.changed(rest);
            }
            "Device" | "Link" => self.before_pciutils_3(rest),
            _ if label.starts_with("MaxPayload ") => self.settings(line),
            _ if label.starts_with("Slot #") => {
                self.slot = label.get("Slot #".len()..).and_then(number).map(slot_number);
            }
            _ if label.starts_with("!!! Unknown header type") => self.gone = true,
            _ => self.changed(line),
        }
    }

    /// The parallel bus that the function is made for: its words on PCI-X, else what its header says if it is
    /// conventional PCI.
    pub(super) fn parallel(&self) -> Option<Fact<ParallelBus>> {
        match (&self.port, &self.pci_x) {
            (Some(_), _) => Some(Fact::unknown("it is PCI Express")),
            (None, Some(bus)) => Some(Fact::Known(bus.clone())),
            (None, None) if self.refused => None,
            (None, None) => self.fast.map(|fast| Fact::Known(of_conventional(fast))),
        }
    }

    /// Why the words do not tell something.
    pub(super) fn why_missing(&self) -> &'static str {
        match self {
            VerboseFacts { gone: true, .. } => "it does not answer: powered off, or gone",
            VerboseFacts { refused: true, .. } => "lspci ran without root, and was shown no capabilities",
            VerboseFacts { port: Some(_), .. } => "lspci did not print it",
            VerboseFacts { fast: Some(_), .. } => {
                "it has no PCI Express capability: conventional PCI, or a part of the chip itself"
            }
            _ => "only its name or place is given: lspci -vv as root shows more",
        }
    }

    /// `lspci -v`: `Flags: bus master, 66MHz, medium devsel, latency 32, IRQ 10, NUMA node 0`.
    fn flags(&mut self, rest: &str) {
        // Power management has a line of this name, too, that begins with `PMEClk`.
        if rest.contains("devsel") {
            self.fast = Some(rest.contains("66MHz"));
            self.node = after(rest, "NUMA node ").and_then(number).or(self.node);
        }
    }

    /// The header's status, or that of PCI-X.
    fn status(&mut self, label: &str, rest: &str) {
        let pci_x = rest.contains("64bit") && rest.contains("133MHz");
        let wide = rest.contains("64bit+");
        if pci_x && label == "Secondary Status" {
            let clock = after(rest, "Freq=")
                .map(|freq| if freq.starts_with("conv") { Some(0) } else { number(freq) });
            self.parallel_below =
                clock.map(|clock| Fact::Known(behind(wide, clock.filter(|mhz| *mhz == 0 || *mhz >= 66))));
        } else if pci_x {
            let clocks = [("533MHz+", 533), ("266MHz+", 266), ("133MHz+", 133)];
            let fastest = clocks.iter().find(|(flag, _)| rest.contains(flag)).map_or(66, |(_, mhz)| *mhz);
            self.pci_x = Some(of_pci_x(wide, fastest));
        } else if label == "Status" && rest.starts_with("Cap") {
            self.fast = Some(rest.contains("66MHz+"));
        }
    }

    /// `[a0] Express (v2) Endpoint, MSI 00`, `<access denied>`.
    fn capability(&mut self, rest: &str) {
        if rest.starts_with("<access denied>") {
            self.refused = true;
            return;
        }
        let Some(kind) = rest.split_once("] ").and_then(|(_, name)| name.strip_prefix("Express ")) else {
            return;
        };
        self.refused = false;
        let kind = match kind.strip_prefix('(').and_then(|version| version.split_once(") ")) {
            Some((_, kind)) => kind,
            None => kind,
        };
        self.port = Some(Fact::from_option(port(kind), "a kind of port that is not known here"));
        if !kind.contains("(Slot+)") {
            self.slot = Some(Fact::unknown(NO_SLOT));
        }
    }

    /// `MaxPayload 256 bytes, MaxReadReq 512 bytes`: what is set.
    fn settings(&mut self, line: &str) {
        self.max_payload = after(line, "MaxPayload ").map(size);
        self.max_read_request = after(line, "MaxReadReq ").map(size);
    }

    /// `TrErr- Train- SlotClk+ DLActive+ BWMgmt+ ABWMgmt-`, on a line of its own or at the end of LnkSta.
    fn changed(&mut self, line: &str) {
        if let Some(flag) = after(line, " ABWMgmt") {
            self.autonomous_change = Some(Fact::Known(flag.starts_with('+')));
        }
    }

    /// `Device: Supported: MaxPayload 256 bytes, …`, `Link: Supported Speed 2.5Gb/s, Width x8, …`, `Link:
    /// Speed 2.5Gb/s, Width x4`.
    fn before_pciutils_3(&mut self, rest: &str) {
        if rest.starts_with("Supported: MaxPayload ") {
            self.max_payload_supported = after(rest, "MaxPayload ").map(size);
        } else if rest.starts_with("MaxPayload ") {
            self.settings(rest);
        } else if rest.starts_with("Supported Speed ") {
            self.link_max = Some(speed_and_width(&rest.replace("Gb/s", "GT/s")));
        } else if rest.starts_with("Speed ") {
            self.link = Some(speed_and_width(&rest.replace("Gb/s", "GT/s")));
        } else {
            self.power_saving = power_saving(rest).or(self.power_saving.take());
        }
    }
}

/// A name, and not only a number that the list of names does not have (`Intel Corporation Device a05f`).
fn known_name(rest: &str) -> Option<String> {
    let (name, last) = rest.rsplit_once(' ').unwrap_or(("", rest));
    let unnamed = name.ends_with("Device") && hexadecimal(last, 4..=4).is_some() || rest.contains("[Unknown");
    (!unnamed && !rest.is_empty()).then(|| rest.to_string())
}

/// The text behind the first occurrence of a word.
fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.split_once(word).map(|(_, rest)| rest)
}

/// The number that a text begins with.
fn number(text: &str) -> Option<u32> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

/// `Port #1, Speed 8GT/s (ok), Width x4 (downgraded), …`
fn speed_and_width(rest: &str) -> Fact<PciLink> {
    let speed = after(rest, "Speed ").and_then(|speed| parse_speed(speed.split(',').next()?));
    link(speed, after(rest, "Width x").and_then(number))
}

/// The last of `2.5-8GT/s`, or `2.5GT/s` alone.
fn fastest(rest: &str) -> Option<f64> {
    let range = rest.split(',').next()?;
    parse_speed(range.rsplit('-').next()?)
}

fn target(rest: &str) -> Fact<f64> {
    Fact::from_option(rest.split(',').next().and_then(parse_speed), "a speed that no generation has")
}

/// `ASPM L0s L1 Enabled; RCB 64 bytes, …`
fn power_saving(rest: &str) -> Option<Fact<bool>> {
    let state = rest.strip_prefix("ASPM ")?;
    Some(Fact::Known(!state.starts_with("Disabled")))
}

/// `256 bytes, …`: one of the sizes that the registers can hold.
fn size(rest: &str) -> Fact<u32> {
    let bytes = number(rest).filter(|bytes| bytes.is_power_of_two() && (128..=4096).contains(bytes));
    Fact::from_option(bytes, "a size that the specification does not know")
}

/// `primary=00, secondary=04, subordinate=04, sec-latency=0`
fn buses(rest: &str) -> Option<Buses> {
    let bus = |name: &str| {
        let digits = after(rest, name)?.split(',').next()?.trim();
        u8::try_from(hexadecimal(digits, 2..=2)?).ok()
    };
    Some(Buses {
        primary: bus("primary=")?,
        secondary: bus("secondary=")?,
        subordinate: bus("subordinate=")?,
    })
}

/// Kinds of ports by the words that lspci has and had for them; a longer word before one that it begins with.
fn port(words: &str) -> Option<PortKind> {
    let kinds = [
        ("Endpoint", PortKind::Endpoint),
        ("Legacy Endpoint", PortKind::LegacyEndpoint),
        ("Root Port", PortKind::RootPort),
        ("Upstream Port", PortKind::SwitchUpstream),
        ("Downstream Port", PortKind::SwitchDownstream),
        ("PCI/PCI-X to PCI-Express Bridge", PortKind::BridgeFromPci),
        ("PCI-Express to PCI/PCI-X Bridge", PortKind::BridgeToPci),
        ("PCI/PCI-X Bridge", PortKind::BridgeToPci),
        ("Root Complex Integrated Endpoint", PortKind::IntegratedEndpoint),
        ("Root Complex Event Collector", PortKind::EventCollector),
    ];
    kinds.into_iter().find(|(name, _)| words.starts_with(name)).map(|(_, kind)| kind)
}
