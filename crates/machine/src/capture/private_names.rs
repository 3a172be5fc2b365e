//! The owner's words in paths, mounts and links: folders, volumes, users, hosts.

use super::names::{NameKind, Names};
use super::passing::is_among;
use std::collections::HashSet;
use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

/// Parts of paths that every server has; others are the owner's words.
const COMMON: &str = "\
    . .. - / bin boot dev efi EFI etc export home lib lib64 media mnt opt proc root run sbin scratch srv \
    swap sys tmp usr var data local lock log cache shm pts mqueue hugepages user docker containers \
    containerd overlay overlay2 merged snap mapper disk md by-id by-uuid by-label by-path by-partuuid \
    by-partlabel none tmpfs devtmpfs sysfs cgroup cgroup2 udev system.slice user.slice init.scope \
    machine.slice kubepods kubepods.slice cpu cpuacct cpu,cpuacct memory unified systemd blkio cpuset \
    devices freezer pids net_cls net_prio net_cls,net_prio hugetlb perf_event rdma misc io name=systemd";

/// A path of the kernel's own words.
pub(crate) fn is_kernels(path: &str) -> bool {
    let below =
        |tree: &str| path.strip_prefix(tree).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    (below("/sys") || below("/proc")) && !is_owned(Path::new(path.trim_start_matches('/')))
}

/// There the owner's words are in paths: control groups, device files, ZFS pools.
pub(crate) fn is_owned(path: &Path) -> bool {
    ["sys/fs/cgroup", "dev", "proc/spl"].iter().any(|place| path.starts_with(place))
}

/// The owner's words: folders, volumes, users.
pub(crate) struct PrivateNames<'a> {
    pub names: &'a mut Names,
    /// Names in the kernel's trees, which stay.
    pub kernel: HashSet<String>,
}

impl PrivateNames<'_> {
    /// A part of a path, replaced unless every server has it.
    pub(crate) fn word(&mut self, word: &str) -> String {
        match word.is_empty()
            || is_among(COMMON, word)
            || self.names.is_other(word)
            || self.kernel.contains(word)
        {
            true => self.names.text(word),
            false => self.names.of(NameKind::Word, word),
        }
    }

    /// A path (or `pool/volume`), part by part; the kernel's own trees stay.
    pub(crate) fn path(&mut self, path: &str) -> String {
        if is_kernels(path) {
            return self.names.text(path);
        }
        path.split('/').map(|part| self.word(part)).collect::<Vec<_>>().join("/")
    }

    /// What is mounted: a device, `host:/export`, `//host/share`, a pool, a word of the kernel.
    pub(crate) fn source(&mut self, source: &str, kind: &str) -> String {
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
        // However it is written: `[2001:DB8::7]`.
        let bare = host.trim_matches(['[', ']']);
        match bare.parse::<IpAddr>() {
            Ok(address) => host.replace(bare, &self.names.address(address).to_string()),
            Err(_) => self.names.of(NameKind::Host, host),
        }
    }

    /// Mount options: what names a place, a user or a host is replaced, figures and switches stay.
    pub(crate) fn options(&mut self, options: &str) -> String {
        const TELLING: &str = "user username uname aname domain servern nodename label fsname name clientid \
             unc prefixpath dev fsid ecryptfs_sig ecryptfs_fnek_sig";
        let mut option = |option: &str| -> String {
            let Some((key, value)) = option.split_once('=') else { return self.names.text(option) };
            let value = match value.parse::<IpAddr>() {
                Ok(address) => self.names.address(address).to_string(),
                Err(_) if is_among(TELLING, key) => self.word(value),
                Err(_) if value.contains('/') => {
                    value.split(':').map(|path| self.path(path)).collect::<Vec<_>>().join(":")
                }
                Err(_) => {
                    // With a port, or several: `mon_addr=192.0.2.7:6789`.
                    let value = self.names.dotted(value);
                    self.names.text(&value)
                }
            };
            format!("{key}={value}")
        };
        options.split(',').map(&mut option).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn mountinfo(&mut self, line: &str) -> String {
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

    pub(crate) fn mounts(&mut self, line: &str) -> String {
        let mut fields: Vec<String> = line.split(' ').map(str::to_string).collect();
        if let [source, place, kind, options, ..] = fields.as_mut_slice() {
            *source = self.source(source, kind);
            *place = self.path(place);
            *options = self.options(options);
            return fields.join(" ");
        }
        // What cannot be taken apart is left out.
        String::new()
    }

    /// Where an entry lies, or what a link at `path` points to: in control groups and among device files the
    /// owner's words are replaced that were found elsewhere.
    pub(crate) fn place(&mut self, path: &Path, place: &Path) -> PathBuf {
        let owned = is_owned(path);
        let mut one = |part: Component| -> PathBuf {
            let Component::Normal(name) = part else { return Path::new(part.as_os_str()).to_path_buf() };
            let name = name.to_string_lossy();
            let word = self.names.known(NameKind::Word, &name).filter(|_| owned);
            PathBuf::from(word.map(str::to_string).unwrap_or_else(|| self.names.text(&name)))
        };
        place.components().map(&mut one).collect()
    }
}
