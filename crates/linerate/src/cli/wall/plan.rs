//! `linerate wall plan`.

use crate::cli::arguments::{MachineArgs, machine_of, sysroot_of};
use crate::cli::commands::{colour, complain, print, print_json, width};
use crate::cli::measured;
use clap::Args;
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_machine::probe::Machine;
use linerate_model::plan::parts::{DeviceKind, MachineParts, MeasuredDevice, from_machine};
use linerate_report as report;
use linerate_wall::geometry::{FrameRate, Size, WallGrid};
use linerate_wall::movie::Movie;
use linerate_wall::need::{DiskShare, WallFigure, WallFigures, WallNeed, places_of};
use std::path::{Path, PathBuf};

/// Of Ethernet, where no NIC reports another.
const ETHERNET_MTU: u32 = 1500;

/// Its words.
#[derive(Debug, Args)]
pub struct WallPlanArgs {
    /// The movie that shall play [default: none; then --grid and --tile say what the wall is]
    #[arg(conflicts_with_all = ["grid", "tile"])]
    pub movie: Option<PathBuf>,
    /// Tiles, columns x rows
    #[arg(long, value_name = "COLUMNSxROWS", requires = "tile")]
    pub grid: Option<WallGrid>,
    /// Pixels of each tile
    #[arg(long, value_name = "WIDTHxHEIGHT", requires = "grid")]
    pub tile: Option<Size>,
    /// Frames a second [default: those of the movie, else 24]
    #[arg(long, value_name = "RATE")]
    pub fps: Option<FrameRate>,
    /// MTU of the network, bytes [default: the smallest of the NICs that are up]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(68..=65_535))]
    pub mtu: Option<u32>,
    /// Use only this NIC; may be given several times [default: all that are up]
    #[arg(long, value_name = "NAME")]
    pub nic: Vec<String>,
    /// Count what `linerate run` has measured of this machine, where it has, instead of data sheets: a kept
    /// result (@-1 is the newest of all), a run.json, or the folder that holds it [without RUN: the newest kept
    /// run of this host; then another option, or nothing, follows]
    #[arg(long, value_name = "RUN", num_args = 0..=1)]
    pub measured: Option<Option<PathBuf>>,
    /// Server to plan for: a description in TOML, the output of `linerate probe --json`, a run.json, or a kept
    /// result like @-1 [default: this machine]
    #[arg(long = "machine", value_name = "FILE", conflicts_with_all = ["root", "lspci", "dmidecode", "lstopo", "nccl"])]
    pub described: Option<PathBuf>,
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Print the plan as JSON on standard output, and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Says what the wall needs, and whether the server has it.
pub(super) fn plan(words: &WallPlanArgs) -> Result<u8, Failure> {
    let movie = words.movie.as_deref().map(Movie::open).transpose()?;
    let (parts, machine) = match &words.described {
        Some(file) => super::super::plan::read(file)?,
        None => {
            let machine = machine_of(&words.machine)?;
            (from_machine(&machine), Some(machine))
        }
    };
    let mtu = words.mtu.unwrap_or_else(|| own_mtu(&parts, &words.nic));
    let need = need(words, movie.as_ref(), mtu)?;
    let disks = match &machine {
        Some(machine) => disks(words, machine, movie.as_ref())?,
        None => Vec::new(),
    };
    let measured = match &words.measured {
        Some(word) => measured(word.as_deref(), machine.as_ref())?,
        None => WallFigures::default(),
    };
    for problem in movie.iter().flat_map(Movie::problems) {
        complain(&problem);
    }
    let verdict = need.judge_parts(parts, &disks, &words.nic, &measured).map_err(Failure::lacks)?;
    if words.json {
        print_json(&verdict)?;
    } else {
        print(&report::wall_plan(&verdict, width(), colour()))?;
    }
    Ok(0)
}

fn need(words: &WallPlanArgs, movie: Option<&Movie>, mtu: u32) -> Result<WallNeed, Failure> {
    let cinema = FrameRate { numerator: 24, denominator: 1 };
    let (grid, tile, rate) = match (movie, words.grid, words.tile) {
        (Some(movie), _, _) => {
            let manifest = &movie.manifest;
            (manifest.grid, manifest.tile, manifest.frames_per_second)
        }
        (None, Some(grid), Some(tile)) => (grid, tile, cinema),
        _ => return Err(Failure::Usage("name a movie, or give --grid and --tile".into())),
    };
    WallNeed::of(tile, grid, words.fps.unwrap_or(rate), mtu)
        .map_err(|why| Failure::Usage(format!("--mtu: {why}")))
}

/// What a run has measured of the machine.
fn measured(word: Option<&Path>, machine: Option<&Machine>) -> Result<WallFigures, Failure> {
    let run = measured::run_of(word, machine)?;
    let Some(parts) = measured::parts_of(&run, Protocol::Udp) else {
        let shown = word.map(|word| format!(" {}", word.display())).unwrap_or_default();
        return Err(Failure::Lacks(format!(
            "--measured{shown}: that run measured no UDP, and a wall is UDP: measure with `linerate run \
             --protocol udp` or both"
        )));
    };
    let figure = |device: MeasuredDevice| {
        (device.id, WallFigure { bytes_per_second: device.bytes_per_second, at_least: device.at_least })
    };
    Ok(WallFigures {
        parts: parts.disks.into_iter().chain(parts.nics).map(figure).collect(),
        memory_bytes_per_second: parts.memory_bytes_per_second,
        cpu_seconds_per_gb: parts.cpu_seconds_per_gb,
    })
}

/// Where the movie's tiles lie; a machine that was described elsewhere has not these disks.
fn disks(words: &WallPlanArgs, machine: &Machine, movie: Option<&Movie>) -> Result<Vec<DiskShare>, Failure> {
    let Some(movie) = movie else { return Ok(Vec::new()) };
    if words.described.is_some() || !words.machine.is_live() && words.machine.root.is_none() {
        return Ok(Vec::new());
    }
    let sysroot = sysroot_of(words.machine.root.as_deref())?;
    Ok(places_of(&sysroot, machine, movie))
}

/// The smallest MTU of the NICs that will be used.
fn own_mtu(parts: &MachineParts, named: &[String]) -> u32 {
    let mtus = parts.devices.iter().filter_map(|device| match &device.what {
        DeviceKind::Nic { mtu, down, .. } => {
            let used = if named.is_empty() { !down } else { named.contains(&device.name) };
            mtu.known().copied().filter(|_| used)
        }
        _ => None,
    });
    mtus.min().unwrap_or(ETHERNET_MTU)
}
