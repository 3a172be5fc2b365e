//! The commands of `linerate-wall`: the streaming server and its screens.

mod control;
mod demo;
mod hosts;
mod launched;
mod movie;
mod plan;
mod serve;
mod show;
mod view;

use crate::cli::arguments::wall::WallCommand;
use crate::cli::output::Output;
use linerate_facts::failure::Failure;

/// Does the command.
pub(super) fn wall(command: WallCommand, output: &Output) -> Result<u8, Failure> {
    match command {
        WallCommand::Demo(args) => demo::demo(&args, output),
        WallCommand::Import(args) => movie::import(&args, output),
        WallCommand::Generate(args) => movie::generate(&args, output),
        WallCommand::Plan(args) => plan::plan(&args, output),
        WallCommand::Serve(args) => serve::serve(&args, output),
        WallCommand::Show(args) => show::show(&args, output),
        WallCommand::Control(args) => control::control(&args, output),
    }
}
