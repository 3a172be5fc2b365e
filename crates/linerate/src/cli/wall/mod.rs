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
pub(super) fn wall(words: WallArgs, output: &Output) -> Result<u8, Failure> {
    match words.command {
        WallCommand::Demo(words) => demo::demo(&words, output),
        WallCommand::Import(words) => import::import(&words, output),
        WallCommand::Generate(words) => generate::generate(&words, output),
        WallCommand::Plan(words) => plan::plan(&words, output),
        WallCommand::Serve(words) => serve::serve(&words, output),
        WallCommand::Show(words) => show::show(&words, output),
        WallCommand::Control(words) => control::control(&words, output),
    }
}
