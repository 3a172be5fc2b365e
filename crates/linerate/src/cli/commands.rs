//! Which command does what: the only file that imports them all, and none of them imports it.

use super::arguments::wall::WallCommand;
use super::arguments::{Arguments, Command, CommonArgs, WallArguments};
use super::output::Output;
use super::{
    agent, check, copy, explain, fleet, generate, log, plan, probe, reproduce, results, run, serve, stages,
    stop, transfer, tune, wall, wall_program, watch,
};
use linerate_facts::failure::Failure;
use std::process::ExitCode;

/// Does the command; gives the exit status of the contract, or the failure that stands for one.
pub fn execute(arguments: Arguments, output: &Output) -> Result<u8, Failure> {
    let Arguments { common, command: wanted } = arguments;
    let in_child = stop::done_in_child(&wanted);
    let is_silent = matches!(
        wanted,
        Command::Agent(_) | Command::FleetMember(_) | Command::CopyHalf | Command::Generate(_)
    );
    in_child.map_or_else(|| begun(common, is_silent, output, || command(wanted, output)), Ok)
}

/// Does a command of `linerate-wall`: `linerate` starts that program and never comes here, so it is built without all
/// that only the wall needs.
pub fn execute_wall(arguments: WallArguments, output: &Output) -> Result<u8, Failure> {
    let WallArguments { common, command } = arguments;
    let is_silent =
        matches!(command, WallCommand::Demo(_) | WallCommand::Import(_) | WallCommand::Generate(_));
    let wall = || wall::wall(command, output);
    begun(common, is_silent, output, || fleet::refused_by_job("wall").unwrap_or_else(wall))
}

/// The exit status of a program that has done its command, or says why not.
pub fn ended(done: Result<u8, Failure>, output: &Output) -> ExitCode {
    let status = done.unwrap_or_else(|failure| {
        output.complain(&failure.to_string());
        failure.exit_status()
    });
    stop::report(status);
    ExitCode::from(status)
}

/// Does the command with what all have in common; one that `is_silent` gives no result.
fn begun(
    args: CommonArgs,
    is_silent: bool,
    output: &Output,
    command: impl FnOnce() -> Result<u8, Failure>,
) -> Result<u8, Failure> {
    if args.json && is_silent {
        return Err(Failure::usage("--json: this command gives no result; leave it away"));
    }
    log::start(args.log.as_deref(), args.verbose, output)?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), arguments = ?std::env::args_os().skip(1), "linerate starts");
    let done = command();
    match &done {
        Ok(status) => tracing::info!(status, "linerate ends"),
        Err(failure) => tracing::error!(status = failure.exit_status(), %failure, "linerate ends"),
    }
    done
}

fn command(command: Command, output: &Output) -> Result<u8, Failure> {
    if let Some(refused) = fleet::refused_in_job(&command) {
        return refused;
    }
    match command {
        Command::Run(args) => run::run(*args, output),
        Command::Probe(args) => probe::show_probe(&args, output),
        Command::Plan(args) => plan::plan(&args, output),
        Command::Disk(args) => stages::disk(&args, output),
        Command::Load(args) => stages::load(&args, output),
        Command::Memory(args) => stages::memory(&args, output),
        Command::Network(args) => stages::network(&args, output),
        Command::Agent(args) => agent::agent(&args, output),
        Command::Fleet(args) => fleet::fleet(&args, output),
        Command::FleetMember(args) => fleet::member(&args),
        Command::CopyHalf => copy::copy_half(),
        Command::Copy(args) => copy::copy(&args, output),
        Command::Serve(args) => serve::serve(&args, output),
        Command::Get(args) => transfer::get(&args, output),
        Command::Put(args) => transfer::put(&args, output),
        Command::Wall(_) => Err(wall_program::start()),
        Command::Tune(args) => tune::tune(&args, output),
        Command::Watch(args) => watch::watch(&args, output),
        Command::Explain(args) => explain::explain(&args, output),
        Command::Report(args) => results::show_report(&args, output),
        Command::Compare(args) => results::compare(&args, output),
        Command::Check(args) => check::check(args, output),
        Command::List(args) => results::list(&args, output),
        Command::Reproduce(args) => reproduce::reproduce(&args, output),
        Command::Generate(args) => generate::generate(&args.what, output),
    }
}
