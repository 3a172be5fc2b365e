//! The commands of `linerate-wall`, the streaming server and its screens; and `linerate wall plan`, what a
//! wall needs.

mod control;
mod demo;
mod launched;
mod movie;
mod serve;
mod show;

use super::wall::movie::CINEMA;
use crate::cli::arguments::wall::{WallCommand, WallPlanArgs};
use crate::cli::measured;
use crate::cli::output::Output;
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::Machine;
use linerate_model::plan::parts::{DeviceKind, MachineParts, MeasuredDevice};
use linerate_report as report;
use linerate_wall::movie::Movie;
use linerate_wall::need::{DiskShare, WallFigure, WallFigures, WallNeed, places_of};
use std::path::Path;

/// Does the command.
pub(super) fn wall(command: WallCommand, output: &Output) -> Result<u8, Failure> {
    match command {
        WallCommand::Demo(args) => demo::demo(&args, output),
        WallCommand::Import(args) => movie::import(&args, output),
        WallCommand::Generate(args) => movie::generate(&args, output),
        WallCommand::Plan(args) => plan(&args, output),
        WallCommand::Serve(args) => serve::serve(&args, output),
        WallCommand::Show(args) => show::show(&args, output),
        WallCommand::Control(args) => control::control(&args, output),
    }
}

/// Of Ethernet, where no NIC reports another.
const ETHERNET_MTU: u32 = 1500;

/// Says what the wall needs, and whether the server has it.
fn plan(args: &WallPlanArgs, output: &Output) -> Result<u8, Failure> {
    let movie = args.movie.as_deref().map(Movie::open).transpose()?;
    let (parts, machine) = crate::cli::plan::planned_machine(&args.machine, output)?;
    let mtu = args.mtu.unwrap_or_else(|| own_mtu(&parts, &args.nic));
    let need = need(args, movie.as_ref(), mtu)?;
    let disks = match &machine {
        Some(machine) if args.from.is_empty() => disks(args, machine, movie.as_ref()),
        _ => Vec::new(),
    };
    let measured = match &args.measured {
        Some(word) => measured_disks(word.as_deref(), machine.as_ref())?,
        None => WallFigures::default(),
    };
    for problem in movie.iter().flat_map(Movie::problems) {
        output.complain(&problem);
    }
    let verdict =
        need.judge_parts(parts, &args.from, &disks, &args.nic, &measured).map_err(Failure::lacks)?;
    output.show(args.json, &verdict, || report::wall_plan(&verdict, output.width(), output.colour()))?;
    Ok(0)
}

fn need(args: &WallPlanArgs, movie: Option<&Movie>, mtu: u32) -> Result<WallNeed, Failure> {
    let (grid, tile, rate) = match (movie, args.grid, args.tile) {
        (Some(movie), _, _) => {
            let manifest = &movie.manifest;
            (manifest.grid, manifest.tile, manifest.frames_per_second)
        }
        (None, Some(grid), Some(tile)) => (grid, tile, CINEMA),
        _ => return Err(Failure::Usage("name a movie, or give --grid and --tile".into())),
    };
    WallNeed::of(tile, grid, args.fps.unwrap_or(rate), mtu)
        .map_err(|why| Failure::Usage(format!("--mtu: {why}")))
}

/// What a run has measured of the machine.
fn measured_disks(word: Option<&Path>, machine: Option<&Machine>) -> Result<WallFigures, Failure> {
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
fn disks(args: &WallPlanArgs, machine: &Machine, movie: Option<&Movie>) -> Vec<DiskShare> {
    let movie = movie.filter(|_| args.machine.is_empty());
    movie.map(|movie| places_of(&Sysroot::live(), machine, movie)).unwrap_or_default()
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
