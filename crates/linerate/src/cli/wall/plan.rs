//! `linerate wall plan`.

use crate::cli::arguments::{MachineArgs, machine_of, sysroot_of};
use crate::cli::commands::{colour, complain, print, print_json, width};
use clap::Args;
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_machine::probe::Machine;
use linerate_measure::measure::{Measurement, Stage};
use linerate_model::plan::{Origin, Resource, ResourceKind};
use linerate_report as report;
use linerate_wall::geometry::{FrameRate, Size, WallGrid};
use linerate_wall::movie::Movie;
use linerate_wall::need::{DiskShare, WallFigure, WallFigures, WallNeed, places_of};
use std::path::{Path, PathBuf};

/// Of Ethernet, where no NIC reports another.
const ETHERNET_MTU: u32 = 1500;

/// The figure of a run that tells what all memory carries.
const ALL_CORES_COPY: &str = "copy all cores";

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
    /// Count what `linerate run` has measured of this machine, where it has, instead of data sheets: its
    /// run.json, or the folder that holds it
    #[arg(long, value_name = "RUN")]
    pub measured: Option<PathBuf>,
    #[command(flatten)]
    pub machine: MachineArgs,
    /// Print the plan as JSON on standard output, and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Says what the wall needs, and whether the server has it.
pub(super) fn plan(words: &WallPlanArgs) -> Result<u8, Failure> {
    let movie = words.movie.as_deref().map(Movie::open).transpose()?;
    let machine = machine_of(&words.machine)?;
    let mtu = words.mtu.unwrap_or_else(|| own_mtu(&machine, &words.nic));
    let need = need(words, movie.as_ref(), mtu)?;
    let disks = disks(words, &machine, movie.as_ref())?;
    let measured = match &words.measured {
        Some(path) => measured(path, &machine)?,
        None => WallFigures::default(),
    };
    for problem in movie.iter().flat_map(Movie::problems) {
        complain(&problem);
    }
    let verdict = need.judge(&machine, &disks, &words.nic, &measured).map_err(Failure::lacks)?;
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
fn measured(path: &Path, machine: &Machine) -> Result<WallFigures, Failure> {
    let shown = path.display();
    let run = report::results::read(path)?;
    if let (Some(here), Some(there)) = (machine.host.known(), run.machine.host.known())
        && here != there
    {
        return Err(Failure::Usage(format!(
            "--measured {shown}: that was measured on {}, and this plan is for {}: measure there with \
             `linerate run`",
            linerate_facts::printable::printable(there),
            linerate_facts::printable::printable(here)
        )));
    }
    let Some(diagnosis) = &run.diagnosis else {
        return Err(Failure::Lacks(format!(
            "--measured {shown}: that run ended before its figures were judged; let `linerate run` come to \
             its end"
        )));
    };
    let udp = diagnosis.by_protocol.iter().find(|found| found.protocol == Protocol::Udp);
    let Some(udp) = udp else {
        return Err(Failure::Lacks(format!(
            "--measured {shown}: that run measured no UDP, and a wall is UDP: measure with `linerate run \
             --protocol udp` or both"
        )));
    };
    let figure = |resource: &Resource| {
        let rate = resource.measured.filter(|rate| rate.is_finite() && *rate > 0.0)?;
        let at_least = resource.lower_bound || resource.origin != Origin::Measured;
        Some((resource.id.clone(), WallFigure { bytes_per_second: rate, at_least }))
    };
    let own = |resource: &&Resource| matches!(resource.kind, ResourceKind::Disk | ResourceKind::Nic);
    let parts = udp.resources.iter().filter(own).filter_map(figure).collect();
    // On loopback the receiver's work is in the figure, too.
    let loopback = |name: &str| run.machine.nics.iter().any(|nic| nic.loopback && nic.name == name);
    let away = udp.resources.iter().any(|resource| {
        resource.kind == ResourceKind::Nic
            && resource.id.split_once(':').is_some_and(|(_, name)| !loopback(name))
    });
    let by_udp =
        |figure: &&Measurement| figure.stage == Stage::Path && figure.protocol == Some(Protocol::Udp);
    let path = run.measurements.iter().find(by_udp);
    let copied =
        run.measurements.iter().find(|figure| figure.stage == Stage::Memory && figure.name == ALL_CORES_COPY);
    let cost = path.map(|path| path.cpu_seconds_per_gb).filter(|cost| cost.is_finite() && *cost > 0.0);
    // Read and written: each byte crosses the bus twice.
    let memory =
        copied.map(|copy| 2.0 * copy.bytes_per_second).filter(|rate| rate.is_finite() && *rate > 0.0);
    Ok(WallFigures { parts, memory_bytes_per_second: memory, cpu_seconds_per_gb: cost.filter(|_| away) })
}

/// Where the movie's tiles lie; a machine that was described elsewhere has not these disks.
fn disks(words: &WallPlanArgs, machine: &Machine, movie: Option<&Movie>) -> Result<Vec<DiskShare>, Failure> {
    let Some(movie) = movie else { return Ok(Vec::new()) };
    if !words.machine.is_live() && words.machine.root.is_none() {
        return Ok(Vec::new());
    }
    let sysroot = sysroot_of(words.machine.root.as_deref())?;
    Ok(places_of(&sysroot, machine, movie))
}

/// The smallest MTU of the NICs that will be used.
fn own_mtu(machine: &Machine, named: &[String]) -> u32 {
    let used = machine.nics.iter().filter(|nic| !nic.loopback).filter(|nic| match named.is_empty() {
        true => nic.state.known().is_none_or(|state| state != "down"),
        false => named.contains(&nic.name),
    });
    used.filter_map(|nic| nic.mtu.known().copied()).min().unwrap_or(ETHERNET_MTU)
}
