//! `linerate wall plan`.

use crate::cli::commands::{colour, print, print_json, width};
use crate::cli::words::{MachineWords, machine_of, sysroot_of};
use crate::failure::Failure;
use crate::probe::Machine;
use crate::report;
use crate::wall::geometry::{FrameRate, Grid, Size};
use crate::wall::movie::Movie;
use crate::wall::need::{DiskShare, Need, places_of};
use clap::Args;
use std::path::PathBuf;

/// Of Ethernet, where no NIC tells another.
const ETHERNET_MTU: u32 = 1500;

/// Its words.
#[derive(Debug, Args)]
pub struct PlanWords {
    /// The movie that shall play [default: none; then --grid and --tile say what the wall is]
    #[arg(conflicts_with_all = ["grid", "tile"])]
    pub movie: Option<PathBuf>,
    /// Tiles, columns x rows
    #[arg(long, value_name = "COLUMNSxROWS", requires = "tile")]
    pub grid: Option<Grid>,
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
    #[command(flatten)]
    pub machine: MachineWords,
    /// Print the plan as JSON on standard output, and nothing else
    #[arg(long)]
    pub json: bool,
}

/// Says what the wall needs, and whether the server has it.
pub fn plan(words: &PlanWords) -> Result<u8, Failure> {
    let movie = words.movie.as_deref().map(Movie::open).transpose()?;
    let machine = machine_of(&words.machine)?;
    let mtu = words.mtu.unwrap_or_else(|| own_mtu(&machine, &words.nic));
    let need = need(words, movie.as_ref(), mtu)?;
    let disks = disks(words, &machine, movie.as_ref())?;
    let verdict = need.judge(&machine, &disks, &words.nic).map_err(Failure::Lacks)?;
    if words.json {
        print_json(&verdict)?;
    } else {
        print(&report::wall_plan(&verdict, width(), colour()))?;
    }
    Ok(0)
}

fn need(words: &PlanWords, movie: Option<&Movie>, mtu: u32) -> Result<Need, Failure> {
    let cinema = FrameRate { numerator: 24, denominator: 1 };
    let (grid, tile, rate) = match (movie, words.grid, words.tile) {
        (Some(movie), _, _) => {
            let manifest = &movie.manifest;
            (manifest.grid, manifest.tile, manifest.frames_per_second)
        }
        (None, Some(grid), Some(tile)) => (grid, tile, cinema),
        _ => return Err(Failure::Usage("name a movie, or give --grid and --tile".into())),
    };
    Need::of(tile, grid, words.fps.unwrap_or(rate), mtu)
        .map_err(|why| Failure::Usage(format!("--mtu: {why}")))
}

/// Where the movie's tiles lie; a machine that was described elsewhere has not these disks.
fn disks(words: &PlanWords, machine: &Machine, movie: Option<&Movie>) -> Result<Vec<DiskShare>, Failure> {
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
