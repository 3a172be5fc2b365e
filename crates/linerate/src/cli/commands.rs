//! Which command does what: the only file that imports them all, and none of them imports it.

use super::arguments::{Arguments, Command};
use super::output::Output;
use super::{
    agent, capture, check, child, compare, diagnose, disk, fleet, generate, get, list, load, log, memory,
    network, plan, probe, put, rates, remote, report, run, serve, tune, wall, watch,
};
use linerate_facts::failure::Failure;

/// Does the command; gives the exit status of the contract, or the failure that stands for one.
pub fn execute(arguments: Arguments, output: &Output) -> Result<u8, Failure> {
    match child::done_in_child(&arguments.command) {
        Some(status) => Ok(status),
        // What it logs goes to the host that asks: once its arguments are here.
        None if matches!(arguments.command, Command::RemoteCommand) => command(arguments.command, output),
        None => logged(arguments, output),
    }
}

fn logged(arguments: Arguments, output: &Output) -> Result<u8, Failure> {
    log::start(arguments.log.as_deref(), output)?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), arguments = ?std::env::args_os().skip(1), "linerate starts");
    let done = command(arguments.command, output);
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
    if let Some((host, name)) = remote::asked_for(&command) {
        return remote::run_on(host, name, output);
    }
    match command {
        Command::Run(words) => run::run(words, output),
        Command::Probe(words) => probe::show_probe(&words, output),
        Command::Capture(words) => capture::write_capture(&words, output),
        Command::Plan(words) => plan::plan(&words, output),
        Command::Disk(words) => disk::disk(&words, output),
        Command::Load(words) => load::load(&words, output),
        Command::Memory(words) => memory::memory(&words, output),
        Command::Network(words) => network::network(&words, output),
        Command::Agent(words) => agent::agent(&words, output),
        Command::Fleet(words) => fleet::fleet(&words, output),
        Command::FleetMember(words) => fleet::member(&words),
        Command::RemoteCommand => remote::remote_command(logged),
        Command::Serve(words) => serve::serve(&words, output),
        Command::Get(words) => get::get(&words, output),
        Command::Put(words) => put::put(&words, output),
        Command::Wall(words) => wall::wall(words, output),
        Command::Tune(words) => tune::tune(&words, output),
        Command::Watch(words) => watch::watch(&words, output),
        Command::Diagnose(words) => diagnose::diagnose(&words, output),
        Command::Report(words) => report::show_report(&words, output),
        Command::Compare(words) => compare::compare(&words, output),
        Command::Check(words) => check::check(words, output),
        Command::List(words) => list::list(&words, output),
        Command::Rates(words) => rates::rates(&words, output),
        Command::Generate(words) => generate::generate(&words.what, output),
    }
}
