//! `linerate wall`: the streaming server and its screens; one file for each of its commands.

mod control;
mod demo;
mod generate;
mod hosts;
mod import;
mod plan;
mod serve;
mod show;
mod view;

use crate::cli::arguments::wall::{WallArgs, WallCommand};
use crate::cli::output::Output;
use linerate_facts::failure::Failure;

/// Does the command.
pub(super) fn wall(args: WallArgs, output: &Output) -> Result<u8, Failure> {
    match args.command {
        WallCommand::Demo(args) => demo::demo(&args, output),
        WallCommand::Import(args) => import::import(&args, output),
        WallCommand::Generate(args) => generate::generate(&args, output),
        WallCommand::Plan(args) => plan::plan(&args, output),
        WallCommand::Serve(args) => serve::serve(&args, output),
        WallCommand::Show(args) => show::show(&args, output),
        WallCommand::Control(args) => control::control(&args, output),
    }
}
