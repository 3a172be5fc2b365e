//! `linerate wall`: the streaming server and its screens; one file for each of its commands, with its words.

mod control;
mod demo;
mod generate;
mod hosts;
mod import;
mod plan;
mod serve;
mod show;
mod view;

use clap::{Args, Subcommand};
use linerate_facts::failure::Failure;

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
    Demo(demo::DemoArgs),
    /// Cut a film or a sequence of pictures into the tiles of a wall, with ffmpeg
    Import(import::ImportArgs),
    /// Make a test movie of any size, whose every frame proves itself
    Generate(generate::WallGenerateArgs),
    /// Say what rate a wall needs at each stage, and whether this server has it
    Plan(plan::WallPlanArgs),
    /// Stream a movie, tile by tile, to the screens of a wall
    Serve(Box<serve::WallServeArgs>),
    /// Be a screen: receive a tile and show it, prove it or write it
    Show(Box<show::ShowArgs>),
    /// Tell a server to play, pause, seek …, or ask how the wall does
    Control(control::ControlArgs),
}

/// Does the command.
pub(super) fn wall(words: WallArgs) -> Result<u8, Failure> {
    match words.command {
        WallCommand::Demo(words) => demo::demo(&words),
        WallCommand::Import(words) => import::import(&words),
        WallCommand::Generate(words) => generate::generate(&words),
        WallCommand::Plan(words) => plan::plan(&words),
        WallCommand::Serve(words) => serve::serve(&words),
        WallCommand::Show(words) => show::show(&words),
        WallCommand::Control(words) => control::control(&words),
    }
}
