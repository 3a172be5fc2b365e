//! Which program the user means: a number, a name, who listens at a port, a unit of systemd, a container.

use linerate_facts::counters::{ProcessIdentity, ProcessReading};
use linerate_facts::sysroot::Sysroot;
use linerate_facts::wording::first_of;
use linerate_system::tcp_sockets;
use linerate_system::user::is_root;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use thiserror::Error;

/// Descriptors that are looked at for who has a socket or a pipe open.
const MOST_DESCRIPTORS: usize = 65_536;
/// The kernel keeps so many bytes of a program's name.
const NAME_BYTES: usize = 15;
/// Programs that a sentence names.
const MOST_NAMED: usize = 6;

/// What the user named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplainTarget {
    Process(u32),
    Name(String),
    Port(u16),
    Unit(String),
    Container(String),
}

/// Why it cannot be explained.
#[derive(Debug, Error)]
pub enum TargetError {
    #[error("no process has the number {0}: it may have ended; `linerate watch` shows those that move bytes")]
    NoProcess(u32),
    #[error(
        "{0} is a thread of the kernel, which works for others: explain the program whose bytes it moves; \
         `linerate watch` shows them"
    )]
    OfKernel(String),
    #[error("no program that is visible here is called {0}: `linerate watch` shows those that move bytes")]
    NoName(String),
    #[error(
        "several programs are called {name}: {list}; name one of them by its pid, or the one that started them"
    )]
    SeveralPrograms { name: String, list: String },
    #[error("nobody listens at TCP port {0} in this network namespace: `ss -ltn` lists the ports")]
    NobodyListens(u16),
    #[error("who listens at TCP port {0} is not visible to this user: as root linerate sees it")]
    HiddenListener(u16),
    #[error(
        "no process that is visible here has TCP port {0} open: the kernel itself does (NFS), or a program of \
         another container: explain it from there"
    )]
    NoHolder(u16),
    #[error("the kernel lists no sockets ({0}), so who listens is unknown: name the program by its pid")]
    NoSockets(io::Error),
    #[error(
        "no process is in the unit {0}: it may not run; `systemctl list-units --state=running` lists those that do"
    )]
    NoUnit(String),
    #[error(
        "no process is in a container {0}: give the begin of its ID (`docker ps`, `podman ps`, `crictl ps`), 8 digits \
         or more, or the name of its control group"
    )]
    NoContainer(String),
    #[error(
        "{name} (pid {pid}) belongs to another user, or has rights of its own (setuid, capabilities): what it moves is not \
         this user's to read; root may"
    )]
    OfOthers { name: String, pid: u32 },
}

/// The processes of `/proc` at one moment.
struct ListedProcesses(BTreeMap<u32, ProcessIdentity>);

impl ListedProcesses {
    fn read(sysroot: &Sysroot) -> Self {
        let pids = sysroot.list("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
        let own = std::process::id();
        let is_other = |pid: &u32| !sysroot.is_live() || *pid != own;
        let one = |pid| Some((pid, ProcessReading::without_io(sysroot, pid)?.identity));
        ListedProcesses(pids.filter(is_other).filter_map(one).collect())
    }

    /// Those of them that no other of them started.
    fn roots(&self, of: &BTreeSet<u32>) -> Vec<u32> {
        let is_below = |pid: &u32| {
            let mut at = *pid;
            // A longer chain would be a circle, of readings at different moments.
            for _ in 0..64 {
                let Some(parent) = self.0.get(&at).map(|one| one.parent) else { return false };
                if of.contains(&parent) {
                    return true;
                }
                at = parent;
            }
            false
        };
        of.iter().filter(|pid| !is_below(pid)).copied().collect()
    }

    fn named(&self, pid: u32) -> String {
        self.0.get(&pid).map_or_else(|| format!("pid {pid}"), |one| format!("{} (pid {pid})", one.name))
    }
}

/// The first processes of the program: what they start belongs to it.
pub(crate) fn roots(sysroot: &Sysroot, target: &ExplainTarget) -> Result<Vec<u32>, TargetError> {
    let listed = ListedProcesses::read(sysroot);
    let found: Vec<u32> = match target {
        ExplainTarget::Process(pid) => match ProcessReading::without_io(sysroot, *pid) {
            Some(_) => vec![*pid],
            None => return Err(TargetError::NoProcess(*pid)),
        },
        ExplainTarget::Name(name) => of_name(sysroot, &listed, name)?,
        ExplainTarget::Port(port) => of_port(sysroot, &listed, *port)?,
        ExplainTarget::Unit(unit) => {
            let full = if unit.contains('.') { unit.clone() } else { format!("{unit}.service") };
            let found = in_group(sysroot, &listed, |part| part == full);
            found.ok_or_else(|| TargetError::NoUnit(full.clone()))?
        }
        ExplainTarget::Container(name) => {
            let found = in_group(sysroot, &listed, |part| is_container(part, name));
            found.ok_or_else(|| TargetError::NoContainer(name.clone()))?
        }
    };
    for pid in &found {
        let Some(reading) = ProcessReading::read(sysroot, *pid) else { continue };
        if reading.identity.of_kernel {
            return Err(TargetError::OfKernel(format!("{} (pid {pid})", reading.identity.name)));
        }
        if reading.forbidden {
            return Err(TargetError::OfOthers { name: reading.identity.name, pid: *pid });
        }
    }
    Ok(found)
}

fn of_name(sysroot: &Sysroot, listed: &ListedProcesses, name: &str) -> Result<Vec<u32>, TargetError> {
    let short = name.as_bytes().get(..NAME_BYTES).unwrap_or(name.as_bytes());
    let is_called = |pid: u32, one: &ProcessIdentity| {
        let is_program = || sysroot.link_name(format!("/proc/{pid}/exe")).as_deref() == Some(name);
        !one.of_kernel && (one.name.as_bytes() == short || is_program())
    };
    let all: BTreeSet<u32> =
        listed.0.iter().filter(|(pid, one)| is_called(**pid, one)).map(|(pid, _)| *pid).collect();
    let roots = listed.roots(&all);
    match &roots[..] {
        [] => Err(TargetError::NoName(name.into())),
        [_] => Ok(roots),
        several => {
            let started = |pid: &u32| {
                let parent = listed.0.get(pid).map_or(0, |one| one.parent);
                format!("pid {pid}, started by {}", listed.named(parent))
            };
            let list: Vec<String> = several.iter().map(started).collect();
            Err(TargetError::SeveralPrograms { name: name.into(), list: first_of(&list, MOST_NAMED) })
        }
    }
}

fn of_port(sysroot: &Sysroot, listed: &ListedProcesses, port: u16) -> Result<Vec<u32>, TargetError> {
    let sockets = tcp_sockets::listening().map_err(TargetError::NoSockets)?;
    let at_port = sockets.iter().filter(|one| one.ends.is_some_and(|[local, _]| local.port() == port));
    let wanted: BTreeSet<String> = at_port.map(|one| format!("socket:[{}]", one.inode)).collect();
    if wanted.is_empty() {
        return Err(TargetError::NobodyListens(port));
    }
    let mut holders: BTreeSet<u32> =
        holders(sysroot, listed.0.keys().copied(), &wanted).into_iter().map(|(pid, _)| pid).collect();
    // systemd keeps the sockets that it made for a unit.
    if holders.len() > 1 {
        holders.remove(&1);
    }
    match holders.is_empty() {
        true if is_root() => Err(TargetError::NoHolder(port)),
        true => Err(TargetError::HiddenListener(port)),
        false => Ok(listed.roots(&holders)),
    }
}

/// Which of these processes have one of these sockets or pipes open, as the links of their descriptors name them, and by
/// which descriptor.
pub(crate) fn holders(
    sysroot: &Sysroot,
    pids: impl Iterator<Item = u32>,
    wanted: &BTreeSet<String>,
) -> Vec<(u32, String)> {
    let (mut found, mut looked_at) = (Vec::new(), 0);
    for pid in pids {
        let folder = format!("/proc/{pid}/fd");
        for name in sysroot.list(&folder) {
            looked_at += 1;
            let link = sysroot.link_name(Path::new(&folder).join(&name));
            found.extend(link.filter(|link| wanted.contains(link)).map(|_| (pid, name)));
        }
        if looked_at > MOST_DESCRIPTORS {
            break;
        }
    }
    found
}

/// Processes of a control group; none where there are none.
fn in_group(
    sysroot: &Sysroot,
    listed: &ListedProcesses,
    is_meant: impl Fn(&str) -> bool,
) -> Option<Vec<u32>> {
    let is_in = |pid: &u32| {
        let text = sysroot.text(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).any(|path| path.split('/').any(&is_meant))
    };
    let all: BTreeSet<u32> = listed.0.keys().filter(|pid| is_in(pid)).copied().collect();
    (!all.is_empty()).then(|| listed.roots(&all))
}

/// A part of a control group's path is that of this container: `docker-ID.scope`, `libpod-ID.scope`,
/// `cri-containerd-ID.scope`, `/docker/ID`, `lxc.payload.NAME`, `machine-NAME.scope`.
fn is_container(part: &str, name: &str) -> bool {
    let bare = part.strip_suffix(".scope").unwrap_or(part);
    let beginnings = ["docker-", "libpod-", "cri-containerd-", "crio-", "lxc.payload.", "machine-"];
    let bare = beginnings.iter().find_map(|beginning| bare.strip_prefix(beginning)).unwrap_or(bare);
    let is_id = name.len() >= 8 && name.bytes().all(|digit| digit.is_ascii_hexdigit());
    bare == name || is_id && bare.len() == 64 && bare.starts_with(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_testing::Tree;

    fn tree() -> Tree {
        let mut tree = Tree::new(&[]);
        let id = "0123456789abcdef".repeat(4);
        for (pid, parent, name, group) in [
            (1, 0, "systemd", "/init.scope".to_string()),
            (10, 1, "nginx", "/system.slice/nginx.service".into()),
            (11, 10, "nginx", "/system.slice/nginx.service".into()),
            (20, 1, "bash", "/user.slice".into()),
            (21, 20, "dd", format!("/docker/{id}")),
            (22, 20, "dd", format!("/system.slice/docker-{id}.scope")),
        ] {
            let stat =
                format!("{pid} ({name}) S {parent} 1 1 0 -1 4194560 1 2 0 4 0 0 0 0 20 0 1 0 {pid} 1 2");
            tree.put(&format!("proc/{pid}/stat"), &stat);
            tree.put(&format!("proc/{pid}/cgroup"), &format!("0::{group}\n"));
        }
        tree.put("proc/2/stat", "2 (kworker/0:1) I 0 0 0 0 -1 2129984 0 0 0 0 0 5 0 0 20 0 1 0 7 0");
        tree
    }

    fn found(target: ExplainTarget) -> Vec<u32> {
        roots(&tree().sysroot(), &target).expect("a program")
    }

    fn refusal(target: ExplainTarget) -> String {
        roots(&tree().sysroot(), &target).expect_err("refused").to_string()
    }

    #[test]
    fn a_name_is_one_program_with_all_that_it_started() {
        assert_eq!(found(ExplainTarget::Name("nginx".into())), [10]);
        assert_eq!(found(ExplainTarget::Process(21)), [21]);
        let several = refusal(ExplainTarget::Name("dd".into()));
        assert!(several.contains("pid 21, started by bash (pid 20), pid 22"), "{several}");
    }

    #[test]
    fn units_and_containers_are_control_groups() {
        assert_eq!(found(ExplainTarget::Unit("nginx".into())), [10]);
        assert_eq!(found(ExplainTarget::Unit("nginx.service".into())), [10]);
        assert_eq!(found(ExplainTarget::Container("0123456789ab".into())), [21, 22]);
        assert!(is_container("lxc.payload.web", "web") && is_container("machine-web.scope", "web"));
        assert!(!is_container("webserver", "web"));
    }

    #[test]
    fn what_is_no_program_is_one_sentence() {
        for (target, sentence) in [
            (ExplainTarget::Process(4711), "no process has the number 4711"),
            (ExplainTarget::Process(2), "kworker/0:1 (pid 2) is a thread of the kernel"),
            (ExplainTarget::Name("fio".into()), "no program that is visible here is called fio"),
            (ExplainTarget::Unit("fio".into()), "no process is in the unit fio.service"),
            (ExplainTarget::Container("fio".into()), "no process is in a container fio"),
        ] {
            let why = refusal(target);
            assert!(why.starts_with(sentence) && !why.contains('\n'), "{why}");
        }
    }
}
