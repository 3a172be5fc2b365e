//! `linerate wall` and its commands; with `linerate wall control`, which steers a wall that plays.

mod serve;

pub(crate) use serve::{PageArg, ShowArgs, WallServeArgs, WindowArg, WindowArgs, resolve};

use super::values::{Choices, one_of, seconds};
use clap::{ArgAction, Args, Subcommand};
use linerate_wall::control::View;
use linerate_wall::geometry::{FrameRate, Size, WallGrid};
use linerate_wall::movie::{Fit, PixelFormat};
use std::path::PathBuf;

/// `linerate wall`.
#[derive(Debug, Args)]
pub struct WallArgs {
    #[command(subcommand)]
    pub command: WallCommand,
}

/// What to do with a wall.
#[derive(Debug, Subcommand)]
pub enum WallCommand {
    /// Play a wall on this machine: a test movie or a film, its server, a window for each tile, the control
    /// page
    Demo(DemoArgs),
    /// Cut a film or a sequence of pictures into the tiles of a wall, with ffmpeg
    Import(ImportArgs),
    /// Make a test movie of any size, whose every frame proves itself
    Generate(WallGenerateArgs),
    /// Say what rate a wall needs at each stage, and whether this server has it
    Plan(WallPlanArgs),
    /// Stream a movie, tile by tile, to the screens of a wall
    Serve(Box<WallServeArgs>),
    /// Be a screen: receive a tile and show it, prove it or write it
    Show(Box<ShowArgs>),
    /// Tell a server to play, pause, seek …, or ask how the wall does
    Control(ControlArgs),
}

/// `linerate wall demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// A film that ffmpeg reads: as much of its beginning as 512 MiB hold, again and again [default: a test
    /// movie whose every frame proves itself]
    pub film: Option<PathBuf>,
    /// Tiles, columns x rows
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "2x2", alias = "grid")]
    pub tiles: WallGrid,
    /// Pixels of each tile [default: what the display has room for, 640x400 at most]
    #[arg(long, value_name = "WIDTHxHEIGHT")]
    pub tile: Option<Size>,
    /// Frames a second, like 24 or 30000/1001 [default: those of the film; of the test movie 24]
    #[arg(long, value_name = "RATE", alias = "rate")]
    pub fps: Option<FrameRate>,
    /// End after this time, such as 90 (seconds) or 5m [default: with q in a window, or Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Open no windows: the screens receive and prove every frame, and no display is needed
    #[arg(long)]
    pub no_windows: bool,
    /// Do not open the control page in a browser; its address is printed all the same
    #[arg(long)]
    pub no_browser: bool,
}

/// `linerate wall import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Anything that ffmpeg reads: a film, or a sequence of pictures in its own writing, like frame%04d.png
    pub film: PathBuf,
    /// Folder of the new movie; it must not be there yet, or be empty
    pub folder: PathBuf,
    /// Pixels of each picture of a film that is raw pictures without a header; with --pixels
    #[arg(long, value_name = "WIDTHxHEIGHT", requires = "pixels")]
    pub size: Option<Size>,
    /// How the pixels of raw pictures are stored; with --size
    #[arg(long, value_name = "FORMAT", value_parser = one_of(RAW_PIXELS), requires = "size")]
    pub pixels: Option<PixelFormat>,
    /// Tiles, columns x rows
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "1x1")]
    pub grid: WallGrid,
    /// Pixels of each tile [default: those of the film, in square pixels, divided by the grid]
    #[arg(long, value_name = "WIDTHxHEIGHT")]
    pub tile: Option<Size>,
    /// Frames a second [default: those of the film; of pictures 24]
    #[arg(long, value_name = "RATE")]
    pub fps: Option<FrameRate>,
    /// At most this number of frames [default: all]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub frames: Option<u32>,
    /// How a film of another shape fills the wall; pixels that are no squares (DVDs, anamorphic film) are
    /// made square first
    #[arg(long, value_name = "HOW", value_parser = one_of(FITS), default_value = "pad")]
    pub fit: Fit,
    /// Stamp each frame over its upper left corner, so that it proves itself
    #[arg(long)]
    pub stamp: bool,
    /// Put the tiles' files on other disks: into a folder with the movie's name in this directory; several
    /// directories take them in turn
    #[arg(long, value_name = "DIR")]
    pub spread: Vec<PathBuf>,
}

/// `--pixels`.
const RAW_PIXELS: Choices<PixelFormat> =
    &[("rgb24", "Red, green and blue, a byte each, line after line", PixelFormat::Rgb8)];

/// `--fit`.
const FITS: Choices<Fit> = &[
    ("pad", "All of it, with black bars", Fit::Pad),
    ("crop", "No bars; what is over is cut off", Fit::Crop),
    ("stretch", "No bars, nothing cut off, another shape", Fit::Stretch),
];

/// `linerate wall generate`.
#[derive(Debug, Args)]
pub struct WallGenerateArgs {
    /// Folder of the new movie; it must not be there yet, or be empty
    pub folder: PathBuf,
    /// Tiles, columns x rows
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "1x1")]
    pub grid: WallGrid,
    /// Pixels of each tile
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value = "1920x1080")]
    pub tile: Size,
    /// Frames a second, like 24 or 30000/1001
    #[arg(long, value_name = "RATE", default_value = "24")]
    pub fps: FrameRate,
    /// Frames of the movie
    #[arg(long, value_name = "NUMBER", default_value_t = 240, value_parser = clap::value_parser!(u32).range(1..))]
    pub frames: u32,
    /// Put the tiles' files on other disks: into a folder with the movie's name in this directory; several
    /// directories take them in turn
    #[arg(long, value_name = "DIR")]
    pub spread: Vec<PathBuf>,
}

/// `linerate wall plan`.
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
    /// Where the tiles are read: volume:NAME, disk:NAME, disk for all, or memory; repeat for several [default: the
    /// movie's disks, else all]
    #[arg(long, value_name = "END")]
    pub from: Vec<String>,
    /// Use only this NIC; may be given several times [default: all that are up]
    #[arg(long, value_name = "NAME")]
    pub nic: Vec<String>,
    /// Count what `linerate run` has measured of this machine, where it has, instead of data sheets: a kept
    /// result (@-1 is the newest of all), a run.json, or the folder that holds it [without RUN: the newest kept
    /// run of this host; then another option, or nothing, follows]
    #[arg(long, value_name = "RUN", num_args = 0..=1)]
    pub measured: Option<Option<PathBuf>>,
    /// Server to plan for: a description in TOML, the output of `linerate probe --json`, a run.json, a kept result like
    /// @-1, or what other tools printed about it; repeat for several listings [default: this machine]
    #[arg(long, value_name = "FILE")]
    pub machine: Vec<PathBuf>,
    #[arg(from_global)]
    pub json: bool,
}

/// `linerate wall control`.
#[derive(Debug, Args)]
pub struct ControlArgs {
    /// Where the server of the wall is; port 7412 where none is given
    #[arg(long, value_name = "HOST[:PORT]", default_value = "127.0.0.1", global = true)]
    pub server: String,
    /// File with the key of the server [default: the digits in LINERATE_KEY]
    #[arg(long, value_name = "FILE", global = true)]
    pub key_file: Option<PathBuf>,
    #[arg(from_global)]
    pub json: bool,
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// What to say; without any of them: JSON lines from standard input to the server, its messages as JSON lines
/// on standard output.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Go on from the current frame
    Play,
    /// Stand still
    Pause,
    /// Go on from another frame
    Seek {
        #[arg(value_name = "FRAME")]
        frame: u32,
    },
    /// Frames of the movie for each frame of the wall; 1 is as it was made, -1 backwards
    Speed {
        #[arg(value_name = "FACTOR", allow_negative_numbers = true, value_parser = finite)]
        speed: f64,
    },
    /// Begin again after the last frame, or not
    Loop {
        #[arg(value_name = "SWITCH", value_parser = one_of(&[("on", "", true), ("off", "", false)]), action = ArgAction::Set)]
        switch: bool,
    },
    /// Which part of the movie the wall shows: its left and upper edge in movie pixels, and wall pixels for
    /// each movie pixel
    View {
        #[arg(value_name = "LEFT,TOP,ZOOM", allow_hyphen_values = true, value_parser = view)]
        view: View,
    },
    /// List the movies that the server has
    Movies,
    /// Play another movie of the same grid and tile size
    Open {
        #[arg(value_name = "NAME")]
        movie: String,
    },
    /// Show how the whole wall does
    Status,
    /// Show it every second, until Ctrl-C
    Watch,
}

fn finite(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("“{text}” is not a number: write one like 1, 0.5 or -2"))
}

fn view(text: &str) -> Result<View, String> {
    let wrong = || format!("“{text}” is not a view: write LEFT,TOP,ZOOM, like 0,0,1; zoom is above 0");
    let numbers: Vec<f64> = text.split(',').map(finite).collect::<Result<_, _>>().map_err(|_| wrong())?;
    match numbers[..] {
        [left, top, zoom] if zoom > 0.0 => Ok(View { left, top, zoom }),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_three_numbers() {
        assert_eq!(view("-1.5,2,0.5"), Ok(View { left: -1.5, top: 2.0, zoom: 0.5 }));
        for text in ["", "1,2", "1,2,0", "1,2,-1", "1,2,3,4", "a,b,c", "1,2,inf", "nan,0,1"] {
            assert!(view(text).is_err(), "{text}");
        }
        assert!(finite("1e999").is_err() && finite("-2") == Ok(-2.0));
    }
}
