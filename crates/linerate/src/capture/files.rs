//! What each file of a capture becomes. Paths, mounts, control groups and the network's tables have rules of their own; any other text
//! is searched for what tells whose it is.

use super::names::{Kind, Names};
use super::{binary, identities};
use crate::sysroot::Recorded;
use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Component, Path, PathBuf};

/// Parts of paths that every server has; others are the owner's words.
const COMMON: [&str; 88] = [
    "",
    ".",
    "..",
    "-",
    "/",
    "bin",
    "boot",
    "dev",
    "efi",
    "EFI",
    "etc",
    "export",
    "home",
    "lib",
    "lib64",
    "media",
    "mnt",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "scratch",
    "srv",
    "swap",
    "sys",
    "tmp",
    "usr",
    "var",
    "data",
    "local",
    "lock",
    "log",
    "cache",
    "shm",
    "pts",
    "mqueue",
    "hugepages",
    "user",
    "docker",
    "containers",
    "containerd",
    "overlay",
    "overlay2",
    "merged",
    "snap",
    "mapper",
    "disk",
    "md",
    "by-id",
    "by-uuid",
    "by-label",
    "by-path",
    "by-partuuid",
    "by-partlabel",
    "none",
    "tmpfs",
    "devtmpfs",
    "sysfs",
    "cgroup",
    "cgroup2",
    "udev",
    "system.slice",
    "user.slice",
    "init.scope",
    "machine.slice",
    "kubepods",
    "kubepods.slice",
    "cpu",
    "cpuacct",
    "cpu,cpuacct",
    "memory",
    "unified",
    "systemd",
    "blkio",
    "cpuset",
    "devices",
    "freezer",
    "pids",
    "net_cls",
    "net_prio",
    "net_cls,net_prio",
    "hugetlb",
    "perf_event",
    "rdma",
    "misc",
    "io",
    "name=systemd",
];

/// All entries, with what tells whose machine it is replaced (or noted, in the first pass).
pub fn rewrite(entries: &BTreeMap<PathBuf, Recorded>, names: &mut Names) -> BTreeMap<PathBuf, Recorded> {
    // What the kernel calls its own files tells nothing, block devices among them.
    let kernels = entries
        .keys()
        .filter(|path| ["sys", "proc"].iter().any(|tree| path.starts_with(tree)) && !is_owned(path));
    let parts = kernels.flat_map(|path| path.components()).filter_map(|part| part.as_os_str().to_str());
    let kernel = parts.map(str::to_string).collect();
    let mut words = Words { names, kernel };
    let mut rewritten = BTreeMap::new();
    for (path, entry) in entries {
        let entry = match entry {
            Recorded::File(bytes) => file(path, bytes, &mut words),
            Recorded::Unread(why) => Recorded::Unread(words.names.text(why)),
            Recorded::Link(target) => Recorded::Link(words.place(path, target)),
            Recorded::Directory => Recorded::Directory,
        };
        rewritten.insert(words.place(path, path), entry);
    }
    rewritten
}

fn file(path: &Path, bytes: &[u8], words: &mut Words) -> Recorded {
    let is = |name: &str| path.ends_with(name);
    if is("dmi/tables/DMI") {
        return Recorded::File(binary::smbios(bytes, words.names));
    }
    if is("config") && path.starts_with("sys/devices") {
        return Recorded::File(binary::configuration(bytes));
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        words.names.leave_out();
        return Recorded::Unread("binary: left out of the capture, it may tell whose machine it is".into());
    };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let lines = |of: &mut dyn FnMut(&str) -> String| -> String {
        text.split('\n').map(of).collect::<Vec<_>>().join("\n")
    };
    let rewritten = match name {
        "hostname" | "domainname" if path.starts_with("proc/sys/kernel") => whole(text, |host| match host {
            "" | "(none)" | "localhost" => host.to_string(),
            _ => words.names.of(Kind::Host, host),
        }),
        "mountinfo" => lines(&mut |line| words.mountinfo(line)),
        "mounts" => lines(&mut |line| words.mounts(line)),
        "cgroup" => lines(&mut |line| match line.rsplit_once(':') {
            Some((controllers, path)) => format!("{controllers}:{}", words.path(path)),
            None => line.to_string(),
        }),
        "backing_file" => whole(text, |file| words.path(file)),
        "name" if is("dm/name") => whole(text, |name| words.word(name)),
        "route" | "ipv6_route" | "if_inet6" => lines(&mut |line| hexadecimal(line, words.names)),
        "fib_trie" => lines(&mut |line| dotted(line, words.names)),
        "cmdline" => lines(&mut |line| words.cmdline(line)),
        "version" => text
            .split(' ')
            .map(|word| if word.contains('@') { "(user@host)" } else { word })
            .collect::<Vec<_>>()
            .join(" "),
        "address" => {
            let text = dotted(text, words.names);
            words.names.text(&text)
        }
        _ if identities::is_identity(path) => {
            identities::serial(text, words.names);
            match identities::is_serial(text.trim()) && words.names.text(text) == text {
                // Written in a form that the list of what is searched for does not have.
                true => whole(text, |text| words.names.of(Kind::Serial, text.trim())),
                false => words.names.text(text),
            }
        }
        _ => words.names.text(text),
    };
    Recorded::File(rewritten.into_bytes())
}

/// A path of the kernel's own words.
pub fn is_kernels(path: &str) -> bool {
    let below =
        |tree: &str| path.strip_prefix(tree).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    (below("/sys") || below("/proc")) && !is_owned(Path::new(path.trim_start_matches('/')))
}

/// There the owner's words stand in paths: control groups, device files, ZFS pools.
fn is_owned(path: &Path) -> bool {
    ["sys/fs/cgroup", "dev", "proc/spl"].iter().any(|place| path.starts_with(place))
}

/// The content without the line break at its end.
fn whole(text: &str, of: impl FnOnce(&str) -> String) -> String {
    let content = text.trim_end_matches(['\n', '\0']);
    of(content) + &text[content.len()..]
}

/// Words of 8 or 32 digits are addresses, but netmasks, which say how long a network's part is.
fn hexadecimal(line: &str, names: &mut Names) -> String {
    let mut column = 0;
    let mut of = |word: &str| -> String {
        column += usize::from(!word.is_empty());
        let digits = word.bytes().all(|byte| byte.is_ascii_hexdigit());
        match (word.len(), column) {
            // /proc/net/route: interface, destination, gateway; in the byte order of x86 and of ARM servers.
            (8, 2 | 3) if digits => match u32::from_str_radix(word, 16) {
                Ok(bits) => match names.address(Ipv4Addr::from(bits.swap_bytes()).into()) {
                    IpAddr::V4(address) => format!("{:08X}", address.to_bits().swap_bytes()),
                    IpAddr::V6(_) => word.to_string(),
                },
                Err(_) => word.to_string(),
            },
            (32, _) if digits => match u128::from_str_radix(word, 16) {
                Ok(bits) => match names.address(Ipv6Addr::from(bits).into()) {
                    IpAddr::V6(address) => format!("{:032x}", address.to_bits()),
                    IpAddr::V4(_) => word.to_string(),
                },
                Err(_) => word.to_string(),
            },
            _ => names.text(word),
        }
    };
    line.split([' ', '\t']).zip(separators(line)).map(|(word, after)| of(word) + after).collect()
}

/// What stands after each word of a line: a blank, a tab, at the end nothing.
fn separators(line: &str) -> impl Iterator<Item = &str> {
    line.matches([' ', '\t']).chain(std::iter::once(""))
}

/// Every dotted address of a line, whether noted or not.
fn dotted(line: &str, names: &mut Names) -> String {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let mut rewritten = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(is_part) {
        let end = rest[start..].find(|c| !is_part(c)).map_or(rest.len(), |length| start + length);
        rewritten.push_str(&rest[..start]);
        match rest[start..end].parse::<Ipv4Addr>() {
            Ok(address) => rewritten.push_str(&names.address(address.into()).to_string()),
            Err(_) => rewritten.push_str(&rest[start..end]),
        }
        rest = &rest[end..];
    }
    rewritten + rest
}

/// The owner's words: folders, volumes, users.
struct Words<'a> {
    names: &'a mut Names,
    /// Names in the kernel's trees, which stay.
    kernel: HashSet<String>,
}

impl Words<'_> {
    /// A part of a path, replaced unless every server has it.
    fn word(&mut self, word: &str) -> String {
        match COMMON.contains(&word) || self.names.is_other(word) || self.kernel.contains(word) {
            true => self.names.text(word),
            false => self.names.of(Kind::Word, word),
        }
    }

    /// A path (or `pool/volume`), part by part; the kernel's own trees stay.
    fn path(&mut self, path: &str) -> String {
        if is_kernels(path) {
            return self.names.text(path);
        }
        path.split('/').map(|part| self.word(part)).collect::<Vec<_>>().join("/")
    }

    /// What is mounted: a device, `host:/export`, `//host/share`, a pool, a word of the kernel.
    fn source(&mut self, source: &str, kind: &str) -> String {
        if source == kind {
            return source.to_string();
        }
        if let Some((host, path)) = source.split_once(":/") {
            return format!("{}:{}", self.host(host), self.path(&format!("/{path}")));
        }
        match source.strip_prefix("//").and_then(|share| share.split_once('/')) {
            Some((host, share)) => format!("//{}/{}", self.host(host), self.path(share)),
            None => self.path(source),
        }
    }

    fn host(&mut self, host: &str) -> String {
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) => host.replace(&address.to_string(), &self.names.address(address).to_string()),
            Err(_) => self.names.of(Kind::Host, host),
        }
    }

    /// Mount options: what names a place, a user or a host is replaced, figures and switches stay.
    fn options(&mut self, options: &str) -> String {
        const TELLING: [&str; 9] =
            ["user", "username", "domain", "servern", "nodename", "label", "fsname", "name", "clientid"];
        let mut option = |option: &str| -> String {
            let Some((key, value)) = option.split_once('=') else { return self.names.text(option) };
            let value = match value.parse::<IpAddr>() {
                Ok(address) => self.names.address(address).to_string(),
                Err(_) if TELLING.contains(&key) => self.word(value),
                Err(_) if value.contains('/') => {
                    value.split(':').map(|path| self.path(path)).collect::<Vec<_>>().join(":")
                }
                Err(_) => self.names.text(value),
            };
            format!("{key}={value}")
        };
        options.split(',').map(&mut option).collect::<Vec<_>>().join(",")
    }

    fn mountinfo(&mut self, line: &str) -> String {
        // What cannot be taken apart is left out.
        let Some((left, right)) = line.split_once(" - ") else { return String::new() };
        let mut left: Vec<String> = left.split(' ').map(str::to_string).collect();
        let mut right: Vec<String> = right.split(' ').map(str::to_string).collect();
        for (at, field) in left.iter_mut().enumerate() {
            match at {
                3 | 4 => *field = self.path(field),
                5 => *field = self.options(field),
                _ => {}
            }
        }
        if let [kind, source, rest @ ..] = right.as_mut_slice() {
            *source = self.source(source, kind);
            rest.iter_mut().for_each(|options| *options = self.options(options));
        }
        format!("{} - {}", left.join(" "), right.join(" "))
    }

    fn mounts(&mut self, line: &str) -> String {
        let mut fields: Vec<String> = line.split(' ').map(str::to_string).collect();
        if let [source, place, kind, options, ..] = fields.as_mut_slice() {
            *source = self.source(source, kind);
            *place = self.path(place);
            *options = self.options(options);
        }
        fields.join(" ")
    }

    /// The kernel's own options; what names a file system, a file or a network is replaced.
    fn cmdline(&mut self, line: &str) -> String {
        let mut option = |option: &str| -> String {
            let Some((key, value)) = option.split_once('=') else { return self.names.text(option) };
            let places = [
                "root",
                "resume",
                "nfsroot",
                "ip",
                "initrd",
                "BOOT_IMAGE",
                "hostname",
                "cryptdevice",
                "zfs",
                "ds",
                "ks",
            ];
            let telling = places.contains(&key)
                || key.starts_with("rd.")
                || key.starts_with("inst.")
                || key.starts_with("systemd.");
            let value = match telling || value.contains('/') {
                true => {
                    let mut part = |part: &str| self.path(part);
                    value
                        .split(':')
                        .map(|piece| piece.split('=').map(&mut part).collect::<Vec<_>>().join("="))
                        .collect::<Vec<_>>()
                        .join(":")
                }
                false => self.names.text(value),
            };
            format!("{key}={value}")
        };
        line.split(' ').map(&mut option).collect::<Vec<_>>().join(" ")
    }

    /// Where an entry lies, or what a link at `path` points to: in control groups and among device files the owner's words are replaced
    /// that were found elsewhere.
    fn place(&mut self, path: &Path, place: &Path) -> PathBuf {
        let owned = is_owned(path);
        let mut one = |part: Component| -> PathBuf {
            let Component::Normal(name) = part else { return Path::new(part.as_os_str()).to_path_buf() };
            let name = name.to_string_lossy();
            let word = self.names.known(Kind::Word, &name).filter(|_| owned);
            PathBuf::from(word.map(str::to_string).unwrap_or_else(|| self.names.text(&name)))
        };
        place.components().map(&mut one).collect()
    }
}
