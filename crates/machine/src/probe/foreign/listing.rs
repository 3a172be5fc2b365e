//! Which tool printed what: a text is parted into listings by the lines that each tool begins with, whatever the file is called.
//!
//! A prompt (`$ ethtool -S eth0`) and the end of a block of code of a page part listings, too. What no tool begins is passed over.

use super::places;
use crate::probe::lspci;
use linerate_facts::counters::listed;
use serde_json::Value;

/// Listings of one file: a sosreport's largest has some hundred.
const MOST_SECTIONS: usize = 16_384;
/// Places of one text where JSON is looked for: each costs a look at what follows.
const MOST_DOCUMENTS: usize = 16;

/// What printed a listing, in the order in which they are believed where two report the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ListingKind {
    Lspci,
    Lstopo,
    Nccl,
    EthtoolDriver,
    Ethtool,
    IpLink,
    LscpuTable,
    Lscpu,
    Numactl,
    NvmeList,
    Lsblk,
    Mdadm,
    Links,
    Lshw,
    Dmidecode,
    EthtoolStatistics,
    Netstat,
    Nstat,
    SsSockets,
    TcQdisc,
    Sysctl,
    /// A file of `/proc` by its path.
    KernelFile(&'static str),
}

/// One listing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Listing {
    pub(super) kind: ListingKind,
    /// The interface that a prompt or the file's name has, for those that do not name their own.
    pub(super) interface: Option<String>,
    pub(super) content: ListingContent,
}

/// Text, or a document that is read already.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ListingContent {
    Text(String),
    Json(Value),
}

impl Listing {
    pub(super) fn text(&self) -> &str {
        match &self.content {
            ListingContent::Text(text) => text,
            ListingContent::Json(_) => "",
        }
    }

    pub(super) fn json(&self) -> Option<&Value> {
        match &self.content {
            ListingContent::Json(value) => Some(value),
            ListingContent::Text(_) => None,
        }
    }
}

/// All listings of a text, in their order.
pub(super) fn listings(file: &str, text: &str) -> Vec<Listing> {
    let trimmed = text.trim_start();
    if trimmed.starts_with('<')
        && let Some(kind) = of_xml(trimmed)
    {
        let content = ListingContent::Text(text.to_string());
        return vec![Listing { kind, interface: None, content }];
    }
    let mut found: Vec<Listing> = Vec::new();
    let mut interface = interface_in(file);
    let (mut current, mut documents, mut offset, mut skip_to) = (None, 0, 0, 0);
    for line in text.split_inclusive('\n') {
        let at = offset;
        offset += line.len();
        if at < skip_to {
            continue;
        }
        let begins_document = matches!(line.as_bytes().first(), Some(b'{' | b'['));
        if begins_document && documents < MOST_DOCUMENTS {
            documents += 1;
            if let Some((kind, value, length)) = document(&text[at..]) {
                skip_to = at + length;
                let content = ListingContent::Json(value);
                found.push(Listing { kind, interface: interface.clone(), content });
                current = None;
                continue;
            }
        }
        let line = line.trim_end();
        if let Some(command) = prompt(line) {
            interface = command;
            current = None;
        } else if line.starts_with("```") {
            current = None;
        } else if let Some(kind) = begins(line, current) {
            if found.len() >= MOST_SECTIONS {
                break;
            }
            let content = ListingContent::Text(format!("{line}\n"));
            found.push(Listing { kind, interface: interface.clone(), content });
            current = Some(kind);
        } else if let (Some(_), Some(Listing { content: ListingContent::Text(text), .. })) =
            (current, found.last_mut())
        {
            text.push_str(line);
            text.push('\n');
        }
    }
    found
}

fn of_xml(text: &str) -> Option<ListingKind> {
    let root = text.lines().flat_map(|line| line.split('<')).map(str::trim_start);
    root.take(200).find_map(|element| {
        let name = element.split([' ', '>', '/', '\n']).next()?;
        match name {
            "topology" => Some(ListingKind::Lstopo),
            "system" => Some(ListingKind::Nccl),
            "list" | "node" => Some(ListingKind::Lshw),
            _ => None,
        }
    })
}

/// A document at the start of a text: what it is, and its length.
fn document(text: &str) -> Option<(ListingKind, Value, usize)> {
    let mut documents = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = documents.next()?.ok()?;
    let length = documents.byte_offset();
    let first = value.as_array().and_then(|all| all.first()).unwrap_or(&value);
    let has = |key: &str| first.get(key).is_some();
    let kind = match () {
        () if has("blockdevices") => ListingKind::Lsblk,
        () if has("Devices") => ListingKind::NvmeList,
        () if has("lscpu") => ListingKind::Lscpu,
        // A machine as linerate prints it has a kernel, too.
        () if first
            .get("kernel")
            .is_some_and(|kernel| kernel.get("IpInReceives").or(kernel.get("TcpOutSegs")).is_some()) =>
        {
            ListingKind::Nstat
        }
        () if has("id") && has("class") => ListingKind::Lshw,
        () => return None,
    };
    Some((kind, value, length))
}

/// Tools whose prompt parts listings.
const TOOLS: &str = "lspci dmidecode lshw lstopo lscpu numactl lsblk nvme mdadm ip ethtool netstat nstat ss tc sysctl ls \
    cat";

/// `$ ethtool -S eth0`, `[root@host ~]# cat …`: the interface that it names, if it does. None: the line is no prompt.
fn prompt(line: &str) -> Option<Option<String>> {
    let (_, command) = ["$ ", "# "]
        .iter()
        .filter_map(|mark| line.split_once(mark))
        .min_by_key(|(before, _)| before.len())?;
    let mut words = command.split_whitespace().filter(|word| *word != "sudo");
    let tool = words.next()?.rsplit('/').next()?;
    // dmidecode's own head is a comment: `# dmidecode 3.3`.
    let is_head = tool == "dmidecode"
        && line.starts_with("# ")
        && words.clone().next().is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    if !TOOLS.split(' ').any(|known| known == tool) || is_head {
        return None;
    }
    let last = words.next_back().filter(|word| tool == "ethtool" && !word.starts_with('-'));
    Some(last.map(str::to_string))
}

/// `ethtool_-S_eth0` of a sosreport.
fn interface_in(file: &str) -> Option<String> {
    let name = file.rsplit('/').next()?.split_once("ethtool_")?.1;
    let name = name.trim_end_matches(".txt");
    let interface = match name.strip_prefix('-') {
        Some(option) => option.split_once('_')?.1,
        None => name,
    };
    (!interface.is_empty()).then(|| interface.to_string())
}

/// Files of the kernel by how their first line begins.
const KERNEL_FILES: [(&str, &str); 7] = [
    ("Inter-|", "/proc/net/dev"),
    ("MemTotal:", "/proc/meminfo"),
    ("processor\t:", "/proc/cpuinfo"),
    ("Personalities :", "/proc/mdstat"),
    ("Ip: Forwarding", "/proc/net/snmp"),
    ("TcpExt: ", "/proc/net/netstat"),
    ("Ip6InReceives", "/proc/net/snmp6"),
];
/// Settings of `sysctl -a` begin with one of these.
const SETTINGS: [&str; 8] = ["kernel.", "net.", "vm.", "fs.", "dev.", "user.", "abi.", "sunrpc."];

/// The listing that a line begins; `current` is the one that it would belong to otherwise.
fn begins(line: &str, current: Option<ListingKind>) -> Option<ListingKind> {
    use ListingKind::*;
    let first = line.as_bytes().first()?;
    if first.is_ascii_whitespace() {
        let starts = line.trim_start();
        let is_table = starts.starts_with("CPU")
            && starts
                .split_ascii_whitespace()
                .all(|word| word.strip_prefix("CPU").is_some_and(|number| number.parse::<u32>().is_ok()));
        return match () {
            () if is_table => Some(KernelFile("/proc/interrupts")),
            () if starts.starts_with("*-") && current != Some(Lshw) => Some(Lshw),
            // Indentation may be lost in what is quoted.
            () if current.is_none() && is_pci(starts) => Some(Lspci),
            () => None,
        };
    }
    let colon = line.ends_with(':');
    let of_ethtool = [
        "Settings for ",
        "Features for ",
        "Ring parameters for ",
        "Channel parameters for ",
        "Coalesce parameters for ",
        "Pause parameters for ",
        "FEC parameters for ",
    ];
    let new = |kind: ListingKind| (current != Some(kind)).then_some(kind);
    let file = || {
        let (_, path) = KERNEL_FILES.iter().find(|(begin, _)| line.starts_with(begin))?;
        new(KernelFile(path))
    };
    match () {
        () if colon && of_ethtool.iter().any(|begin| line.starts_with(begin)) => Some(Ethtool),
        () if line == "NIC statistics:" => Some(EthtoolStatistics),
        () if line.starts_with("driver: ") => Some(EthtoolDriver),
        () if matches!(line, "Ip:" | "Icmp:" | "Tcp:" | "Udp:") => new(Netstat),
        () if line.starts_with("#kernel") || is_nstat(line) => new(Nstat),
        () if line.starts_with("State ") && line.contains("Recv-Q") => Some(SsSockets),
        () if line.starts_with("qdisc ") && line.contains(" dev ") => new(TcQdisc),
        () if listed::interface_line(line).is_some() => new(IpLink),
        () if line.starts_with("Architecture:") => Some(Lscpu),
        () if line.starts_with("# The following is the parsable format")
            || line.starts_with("CPU ") && line.contains(" CORE") =>
        {
            Some(LscpuTable)
        }
        () if line.starts_with("available: ") && line.contains(" node") => Some(Numactl),
        () if line.starts_with("/dev/md") && colon => Some(Mdadm),
        () if places::of_line(line).is_some() => new(Links),
        () if line.starts_with("# dmidecode ")
            || line.starts_with("Handle 0x") && line.contains("DMI type") =>
        {
            new(Dmidecode)
        }
        () if is_softnet(line) => new(KernelFile("/proc/net/softnet_stat")),
        () if SETTINGS.iter().any(|begin| line.starts_with(begin)) && line.contains('=') => new(Sysctl),
        () if line.starts_with("*-") => new(Lshw),
        () if is_pci(line) => new(Lspci),
        () => file(),
    }
}

fn is_pci(line: &str) -> bool {
    lspci::begins(line) && !line.starts_with("00: ")
}

/// `TcpActiveOpens    2824    0.0`.
fn is_nstat(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let (Some(name), Some(count), Some(rate), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return false;
    };
    let group = ["Ip", "Icmp", "Tcp", "Udp"].iter().any(|group| name.starts_with(group));
    group && count.parse::<u64>().is_ok() && rate.contains('.') && rate.parse::<f64>().is_ok()
}

/// `02de5b99 00000000 00000002 …`: nine words of eight digits at least.
fn is_softnet(line: &str) -> bool {
    let is_word = |word: &str| word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    line.split_ascii_whitespace().all(is_word) && line.split_ascii_whitespace().count() >= 9
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kinds(text: &str) -> Vec<ListingKind> {
        listings("given", text).into_iter().map(|one| one.kind).collect()
    }

    #[test]
    fn each_tool_is_known_by_its_lines() {
        use ListingKind::*;
        for (text, kind) in [
            ("0000:04:00.0 Ethernet controller: A card\n\tCapabilities: x\n", Lspci),
            ("-[0000:00]-+-00.0  Intel\n", Lspci),
            ("00:00.0 \"Host bridge\" \"Intel\" \"Chip\"\n", Lspci),
            ("Slot:\t00:00.0\nClass:\tHost bridge\n", Lspci),
            ("# dmidecode 3.3\nHandle 0x1100, DMI type 17, 84 bytes\n", Dmidecode),
            ("host\n    description: Computer\n  *-core\n", Lshw),
            ("[ { \"id\": \"host\", \"class\": \"system\" } ]", Lshw),
            (
                "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\"/>",
                Lstopo,
            ),
            ("<system version=\"1\"/>", Nccl),
            ("Architecture:        x86_64\nCPU(s): 4\n", Lscpu),
            ("{\"lscpu\":[]}", Lscpu),
            ("CPU NODE SOCKET CORE ONLINE\n  0 0 0 0 yes\n", LscpuTable),
            ("available: 2 nodes (0-1)\nnode 0 cpus: 0 1\n", Numactl),
            ("{\n \"blockdevices\": []\n}", Lsblk),
            ("{\"Devices\":[]}", NvmeList),
            ("/dev/md0:\n           Version : 1.2\n", Mdadm),
            (
                "lrwxrwxrwx 1 root root 0 Nov 29 13:14 sda -> ../devices/pci0000:00/0000:00:1f.2/ata1/sda\n",
                Links,
            ),
            ("2: eth0: <UP> mtu 1500\n", IpLink),
            ("Settings for eth0:\n\tSpeed: 10000Mb/s\n", Ethtool),
            ("driver: ixgbe\nversion: 6\n", EthtoolDriver),
            ("NIC statistics:\n     rx_packets: 1\n", EthtoolStatistics),
            ("Ip:\n    1 forwarded\nTcp:\n    2 resets sent\n", Netstat),
            ("#kernel\nTcpOutSegs 1 0.0\n", Nstat),
            ("State Recv-Q Send-Q Local Address:Port\n", SsSockets),
            ("qdisc mq 0: dev eth0 root\n", TcQdisc),
            ("net.core.rmem_max = 212992\nnet.core.wmem_max = 1\n", Sysctl),
            ("            CPU0       CPU1\n 36:  1  2 PCI-MSI 1-edge eth0\n", KernelFile("/proc/interrupts")),
            (
                "02de5b99 00000000 00000002 00000000 00000000 00000000 00000000 00000000 00000000\n",
                KernelFile("/proc/net/softnet_stat"),
            ),
            ("Inter-|   Receive\n face |bytes\n", KernelFile("/proc/net/dev")),
        ] {
            assert_eq!(kinds(text), [kind], "{text}");
            assert_eq!(kinds(&text.replace('\n', "\r\n")), [kind], "with CRLF: {text}");
        }
        assert_eq!(kinds("Dear all,\nwhy is it slow?\n"), []);
        assert_eq!(kinds("{\"blockdevices\": ["), [], "it ends too early");
    }

    #[test]
    fn a_paste_is_parted_and_names_its_interface() {
        let text = "```\n$ sudo ethtool -S ens1f0\nNIC statistics:\n     rx_packets: 1\n$ netstat -s\nIp:\n    1 forwarded\n```\nnot this\n";
        let found = listings("given", text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].interface.as_deref(), Some("ens1f0"));
        assert_eq!(found[1].text(), "Ip:\n    1 forwarded\n");
        let of_sosreport = listings("sos/networking/ethtool_-S_eth7", "NIC statistics:\n x: 1\n");
        assert_eq!(of_sosreport[0].interface.as_deref(), Some("eth7"));
    }

    proptest! {
        #[test]
        fn any_text_is_parted_within_itself(
            text in "((Ip:|Settings for eth0:|\\{|\\[|\"Devices\"|qdisc mq 0: dev eth0| |00:01.0 |# |\\$ |ip|é|```|CPU0)[\n ]?){0,60}",
        ) {
            let found = listings("given", &text);
            let length: usize = found.iter().map(|one| one.text().len()).sum();
            prop_assert!(length <= text.len() + 2 * text.lines().count());
        }
    }
}
