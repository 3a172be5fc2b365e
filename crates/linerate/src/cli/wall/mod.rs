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
use linerate_facts::failure::Failure;

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
