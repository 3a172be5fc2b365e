//! Made ready before it plays: files opened, memory and cores dealt, and the machine asked whether it carries
//! the wall.

use super::keeper::Keeper;
use super::source::{TileFile, slot_bytes};
use super::tiles::{Tile, TileParts};
use super::{ServeSettings, nics};
use crate::geometry::WallGrid;
use crate::need::{Fits, WallFigures, WallNeed, places_of};
use linerate_facts::fact::Fact;
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_machine::probe::source::devices_behind;
use linerate_model::plan::{PathPlan, Pin, place_streams};
use linerate_transport::agent::random;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Frames in memory at least: one that is sent, one that is read, one between.
const FEWEST_SLOTS: usize = 3;
/// So much is read ahead.
const PREFETCH: Duration = Duration::from_millis(250);
/// All workers' frames take at most this part of the memory, as the pool of a run does.
const MEMORY_DIVISOR: u64 = 10;

/// Holds what this server's tiles need against the machine: what it carries, where that is known. Fails where
/// it is too little.
pub(crate) fn predict(
    machine: &Machine,
    settings: &ServeSettings,
    keeper: &Keeper,
) -> Result<Option<f64>, Failure> {
    let movie = &settings.movies[0];
    let nics = keeper.nics();
    let used = keeper.tiles.iter().filter(|tile| tile.plays).flat_map(|tile| &tile.ways);
    let mut names: Vec<String> = used.map(|way| nics[way.nic].name.clone()).collect();
    names.sort();
    names.dedup();
    let least = keeper.tiles.iter().flat_map(|tile| {
        let mtu =
            |way: &nics::ScreenRoute| nics::mtu(&keeper.sysroot, &nics[way.nic].name, settings.sending.mtu);
        tile.ways.iter().map(mtu).collect::<Vec<u32>>()
    });
    let Some(mtu) = least.min() else { return Ok(None) };
    let tiles = keeper.tiles.iter().filter(|tile| tile.plays).count();
    let grid = match tiles == movie.manifest.grid.len() {
        true => movie.manifest.grid,
        false => WallGrid { columns: u16::try_from(tiles).unwrap_or(u16::MAX), rows: 1 },
    };
    let need = WallNeed::of(movie.manifest.tile, grid, movie.manifest.frames_per_second, mtu)
        .map_err(|why| Failure::Usage(format!("--mtu: {why}")))?;
    let disks =
        if grid == movie.manifest.grid { places_of(&keeper.sysroot, machine, movie) } else { Vec::new() };
    // Of the links of loopback and the like the model knows nothing, but of the CPUs.
    let Ok(verdict) = need.judge(machine, &disks, &names, &WallFigures::default()) else {
        return check_cores(machine, &need, settings.anyway).map(|()| None);
    };
    if verdict.fits == Fits::No && !settings.anyway {
        return Err(Failure::Lacks(format!("{} (--anyway plays what fits)", verdict.sentence)));
    }
    Ok(verdict.predicted_bytes_per_second)
}

/// Fails where the CPUs alone are too few.
fn check_cores(machine: &Machine, need: &WallNeed, anyway: bool) -> Result<(), Failure> {
    let cores = machine.cpu.allowed.known().map_or(machine.cpu.logical.len(), Vec::len) as f64;
    if anyway || need.cpu_cores <= cores {
        return Ok(());
    }
    Err(Failure::Lacks(format!(
        "it cannot: the processors give {cores} cores of {:.1}, at {} CPU seconds per GB (rated); {:.1} \
         frames a second would fit (--anyway plays what fits)",
        need.cpu_cores,
        need.cpu_seconds_per_gb,
        need.frames_per_second.per_second() * cores / need.cpu_cores
    )))
}

/// Frames in memory for each worker.
pub(crate) fn slots(machine: &Machine, settings: &ServeSettings, notes: &mut Vec<String>) -> usize {
    let manifest = &settings.movies[0].manifest;
    let period = Duration::from_nanos(manifest.frames_per_second.frame_nanos().max(1));
    // The one that is being sent comes on top.
    let wished = (PREFETCH.as_nanos().div_ceil(period.as_nanos()) as usize).saturating_add(1);
    let wished = wished.clamp(FEWEST_SLOTS, 4096);
    let slot = (slot_bytes(manifest.tile.frame_bytes()) * settings.screens.len()).max(1) as u64;
    let fits = |bytes: Option<u64>| bytes.map_or(usize::MAX, |bytes| (bytes / slot) as usize);
    let memory = fits(machine.memory.total_bytes.known().map(|bytes| bytes / MEMORY_DIVISOR));
    let locked = fits(linerate_system::process::memlock_bytes().filter(|_| !may_lock(machine)));
    let mut slots = wished.min(memory).max(FEWEST_SLOTS);
    if locked >= FEWEST_SLOTS {
        slots = slots.min(locked);
    } else {
        notes.push(
            "buffers are not registered with the kernel: RLIMIT_MEMLOCK is too small (raise it with \
                    `ulimit -l`)"
                .into(),
        );
    }
    if slots < wished {
        notes.push(format!(
            "{slots} frames are read ahead instead of {wished}: memory and RLIMIT_MEMLOCK allow no more"
        ));
    }
    slots
}

/// Who may lock memory without a limit (CAP_IPC_LOCK) is shown by the probe as unlimited.
fn may_lock(machine: &Machine) -> bool {
    machine.kernel.memlock_bytes.known().is_some_and(|bytes| *bytes == u64::MAX)
}

/// By tile and movie; none where a file is not fit to be played.
pub(crate) type Files = Vec<Vec<Option<TileFile>>>;

/// Each tile with its files, in the order of the screens.
pub(crate) fn open_tiles(
    sysroot: &Sysroot,
    machine: &Machine,
    settings: &ServeSettings,
    nics: &[nics::TileNic],
) -> Result<(Vec<Tile>, Files), Failure> {
    let bytes = random::<4>().map_err(|error| Failure::Lacks(format!("no random bytes: {error}")))?;
    let seed = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) & 0xffff_0000;
    let (mut tiles, mut all) = (Vec::new(), Vec::new());
    for screen in &settings.screens {
        let id = screen.tile;
        let mut problem = None;
        let mut files = Vec::new();
        for movie in &settings.movies {
            files.push(TileFile::open(movie, id).map_err(|why| problem = problem.take().or(Some(why))).ok());
        }
        let path = settings.movies[0].tile_path(id);
        let disk = disk_of(sysroot, machine, &path);
        let node = machine.disk(&disk).and_then(|disk| disk.node.known());
        let ways = nics::ways(sysroot, machine, nics, !settings.nics.is_empty(), &screen.to);
        tiles.push(Tile::new(TileParts {
            id,
            screen: screen.named.clone(),
            ways,
            // The tile stands in the low half, so that a screen's log can be read by people.
            ssrc: seed | u32::from(id.row) << 8 | u32::from(id.column),
            plays: files.iter().any(Option::is_some),
            problem,
            disk,
            disk_node: node.copied(),
        }));
        all.push(files);
    }
    Ok((tiles, all))
}

/// The disk at the bottom of a file; what the file system is mounted from where there are several or none.
fn disk_of(sysroot: &Sysroot, machine: &Machine, path: &std::path::Path) -> String {
    match devices_behind(sysroot, machine, path) {
        Fact::Known(behind) => match &behind.leaves[..] {
            [leaf] => leaf.clone(),
            _ => behind.device,
        },
        Fact::Unknown { .. } => "unknown".into(),
    }
}

/// A core for each worker next to its NIC, else to its disk; none where there are more workers than cores:
/// then the kernel shares them out better.
pub(crate) fn cores(machine: &Machine, keeper: &Keeper) -> Vec<Option<u32>> {
    let nics = keeper.nics();
    let path = |tile: &Tile| {
        let node = tile.nic().and_then(|nic| nics.get(nic)?.node).or(tile.disk_node);
        PathPlan {
            name: tile.id.to_string(),
            peer: SocketAddr::from(([0, 0, 0, 0], 0)),
            local: Ipv4Addr::UNSPECIFIED.into(),
            nic: None,
            resource: String::new(),
            receiver: String::new(),
            node: Fact::from_option(node, "neither NIC nor disk has a node"),
            mtu: Fact::unknown("not asked"),
            peer_mtu: Fact::unknown("not asked"),
            rate: Fact::unknown("not asked"),
            worker_cost: None,
        }
    };
    let paths: Vec<PathPlan> = keeper.tiles.iter().map(path).collect();
    let senders = paths.len() as u32;
    let allowed = machine.cpu.allowed.known().map_or(machine.cpu.logical.len(), Vec::len);
    if paths.len() > allowed {
        return vec![None; paths.len()];
    }
    let mut cores = vec![None; paths.len()];
    for placed in place_streams(machine, &paths, senders, 1, &Pin::Auto, false).into_iter().flatten() {
        cores[placed.path] = placed.core;
    }
    cores
}
