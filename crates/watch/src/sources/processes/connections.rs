//! The TCP bytes of processes: what each connection moved since the last reading, and who holds its socket.

use super::{CpuAllowance, StorageTable, started_ticks_now};
use linerate_facts::counters::rates::Elapsed;
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use linerate_system::tcp_sockets::{self, TcpSocket};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// File descriptors looked at in one reading, about a microsecond each: a search goes on with the next.
const MOST_DESCRIPTORS: usize = 4096;
/// A socket that nobody was found for is not searched for again before.
const SEARCH_AGAIN: Duration = Duration::from_secs(30);

/// What TCP moved.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// Sent and received bytes per second.
    pub by_process: BTreeMap<u32, [f64; 2]>,
    /// Of sockets without a known owner; none before the second reading.
    pub unowned: Option<[f64; 2]>,
    /// Connections.
    pub looked_at: Fact<u64>,
}

/// The connections of the last reading, and the owners of those that moved something. By cookie, which no two
/// sockets share.
#[derive(Debug, Default)]
pub(super) struct Connections {
    before: Option<(Instant, BTreeMap<u64, [u64; 2]>)>,
    owners: BTreeMap<u64, Owner>,
    search: Search,
}

#[derive(Clone, Copy, Debug)]
enum Owner {
    Process {
        pid: u32,
        started_ticks: u64,
    },
    /// Searched for in vain, until then.
    Nobody(Instant),
}

impl Connections {
    /// Reads all connections; owners are searched for among these processes, the youngest first.
    pub(super) fn read(
        &mut self,
        sysroot: &Sysroot,
        processes: &StorageTable,
        allowance: CpuAllowance,
    ) -> Traffic {
        match tcp_sockets::read() {
            Ok(sockets) => self.taken(clock::now(), &sockets, sysroot, processes, allowance),
            Err(error) => {
                self.before = None;
                let why = format!("the kernel lists no TCP connections: {error}");
                Traffic { looked_at: Fact::unknown(why), ..Traffic::default() }
            }
        }
    }

    /// Processes that hold a socket that moved bytes.
    pub(super) fn owners(&self) -> BTreeSet<u32> {
        let pid = |owner: &Owner| match owner {
            Owner::Process { pid, .. } => Some(*pid),
            Owner::Nobody(_) => None,
        };
        self.owners.values().filter_map(pid).collect()
    }

    pub(super) fn taken(
        &mut self,
        now: Instant,
        sockets: &[TcpSocket],
        sysroot: &Sysroot,
        processes: &StorageTable,
        allowance: CpuAllowance,
    ) -> Traffic {
        let counted = |socket: &TcpSocket| [socket.info.acknowledged_bytes, socket.info.received_bytes];
        let counters = sockets.iter().map(|socket| (socket.cookie, counted(socket))).collect();
        let before = self.before.replace((now, counters));
        let mut traffic = Traffic { looked_at: Fact::Known(sockets.len() as u64), ..Traffic::default() };
        let Some((before, span)) = before.and_then(|(at, map)| Some((map, Elapsed::between(at, now)?)))
        else {
            return traffic;
        };
        // One that was not there has been opened since: all of its bytes are of this time, but for the SYN, which the
        // kernel counts as one that was acknowledged (tcp_snd_una_update).
        let moved = |socket: &TcpSocket| {
            let then = before.get(&socket.cookie).copied().unwrap_or([1, 0]);
            let [sent, received] = counted(socket);
            [sent.saturating_sub(then[0]), received.saturating_sub(then[1])]
        };
        let moving: Vec<(&TcpSocket, [u64; 2])> = sockets
            .iter()
            .map(|socket| (socket, moved(socket)))
            .filter(|(_, both)| *both != [0, 0])
            .collect();
        self.find_owners(now, &moving, sysroot, processes, allowance);
        let mut unowned = [0.0; 2];
        for (socket, bytes) in moving {
            let sum = match self.owners.get(&socket.cookie) {
                Some(Owner::Process { pid, .. }) => traffic.by_process.entry(*pid).or_default(),
                _ => &mut unowned,
            };
            for (sum, bytes) in sum.iter_mut().zip(bytes) {
                *sum += bytes as f64 / span.seconds();
            }
        }
        traffic.unowned = Some(unowned);
        traffic
    }

    fn find_owners(
        &mut self,
        now: Instant,
        moving: &[(&TcpSocket, [u64; 2])],
        sysroot: &Sysroot,
        processes: &StorageTable,
        allowance: CpuAllowance,
    ) {
        if let Some((_, counters)) = &self.before {
            self.owners.retain(|cookie, owner| match owner {
                _ if !counters.contains_key(cookie) => false,
                // Another process may have the number by now.
                Owner::Process { pid, started_ticks } => {
                    let now = processes.started_ticks(*pid);
                    processes.lists(*pid) && now.is_none_or(|now| now == *started_ticks)
                }
                Owner::Nobody(until) => *until > now,
            });
        }
        let unknown = moving.iter().filter(|(socket, _)| !self.owners.contains_key(&socket.cookie));
        // A socket whose program has closed it has no number.
        let mut wanted: BTreeMap<u32, u64> = unknown
            .filter(|(socket, _)| socket.inode != 0)
            .map(|(socket, _)| (socket.inode, socket.cookie))
            .collect();
        let ended = self.search.go_on(sysroot, processes, allowance, &mut wanted, &mut self.owners);
        if ended {
            let nobody = Owner::Nobody(now + SEARCH_AGAIN);
            self.owners.extend(wanted.into_values().map(|cookie| (cookie, nobody)));
        }
    }
}

/// A search through the open files of processes, which may take several readings.
#[derive(Debug, Default)]
struct Search {
    /// Looked through already.
    done: BTreeSet<u32>,
    /// Sockets that it began with: of others it says nothing.
    begun_with: BTreeSet<u32>,
}

impl Search {
    /// Looks until all are found, all processes are looked through, or it has been enough; true when all were
    /// looked through: then those that it has not looked for everywhere are wanted no more.
    fn go_on(
        &mut self,
        sysroot: &Sysroot,
        processes: &StorageTable,
        allowance: CpuAllowance,
        wanted: &mut BTreeMap<u32, u64>,
        owners: &mut BTreeMap<u64, Owner>,
    ) -> bool {
        let mut looked_at = 0;
        if self.done.is_empty() {
            self.begun_with = wanted.keys().copied().collect();
        }
        let mut ended = true;
        let order = if wanted.is_empty() { Vec::new() } else { processes.youngest_first() };
        for pid in order {
            if wanted.is_empty() {
                break;
            }
            if self.done.contains(&pid) {
                continue;
            }
            if looked_at >= MOST_DESCRIPTORS || (looked_at > 0 && allowance.is_spent()) {
                ended = false;
                break;
            }
            looked_at += search(sysroot, pid, wanted, owners);
            self.done.insert(pid);
        }
        if ended {
            wanted.retain(|inode, _| self.begun_with.contains(inode));
            self.done.clear();
        }
        ended
    }
}

/// Looks through the open files of one process; how many it has, and one more: a process without any costs as much
/// as a descriptor.
fn search(
    sysroot: &Sysroot,
    pid: u32,
    wanted: &mut BTreeMap<u32, u64>,
    owners: &mut BTreeMap<u64, Owner>,
) -> usize {
    let folder = PathBuf::from(format!("/proc/{pid}/fd"));
    let names = sysroot.list(&folder);
    let looked_at = names.len() + 1;
    for name in names {
        let Some(inode) = sysroot.link_name(folder.join(name)).as_deref().and_then(inode) else { continue };
        // One that has ended meanwhile holds nothing.
        if wanted.contains_key(&inode)
            && let Some(started_ticks) = started_ticks_now(sysroot, pid)
        {
            let cookie = wanted.remove(&inode);
            owners.extend(cookie.map(|cookie| (cookie, Owner::Process { pid, started_ticks })));
        }
    }
    looked_at
}

/// `socket:[4711]`.
fn inode(link: &str) -> Option<u32> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}
