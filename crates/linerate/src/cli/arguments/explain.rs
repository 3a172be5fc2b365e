//! `linerate explain`.

use super::output::KeepingArgs;
use super::values::time;
use clap::Args;
use linerate_explain::ExplainTarget;
use std::time::Duration;

/// `linerate explain`.
#[derive(Debug, Args)]
#[group(skip)]
pub struct ExplainArgs {
    /// The program: the number of a process, or its name
    #[arg(value_name = "PID|NAME", required_unless_present_any = ["port", "unit", "container"])]
    pub program: Option<String>,
    /// The program that listens at this TCP port
    #[arg(short, long, value_name = "N", conflicts_with_all = ["program", "unit", "container"], value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// All processes of this unit of systemd
    #[arg(long, value_name = "UNIT", conflicts_with_all = ["program", "container"])]
    pub unit: Option<String>,
    /// All processes of this container, by its ID
    #[arg(long, value_name = "ID", conflicts_with = "program")]
    pub container: Option<String>,
    /// How long it is observed
    #[arg(short = 't', long, value_name = "TIME", value_parser = time(Duration::from_secs(1)..=Duration::from_secs(3600)), default_value = "10")]
    pub seconds: Duration,
    /// Then takes a little of the disks that it reads and of its CPUs, for moments, 40 s at most: what it loses by that shows
    /// what limits it. Says what it takes and asks first; nothing is written
    #[arg(long)]
    pub experiment: bool,
    /// Take it without asking
    #[arg(long, requires = "experiment")]
    pub yes: bool,
    #[arg(from_global)]
    pub json: bool,
    #[command(flatten)]
    pub keeping: KeepingArgs,
}

impl ExplainArgs {
    /// Which program is meant.
    pub fn target(&self) -> ExplainTarget {
        match (&self.program, self.port, &self.unit, &self.container) {
            (_, Some(port), ..) => ExplainTarget::Port(port),
            (_, _, Some(unit), _) => ExplainTarget::Unit(unit.clone()),
            (_, _, _, Some(container)) => ExplainTarget::Container(container.clone()),
            (program, ..) => {
                let name = program.clone().unwrap_or_default();
                name.parse().map_or(ExplainTarget::Name(name), ExplainTarget::Process)
            }
        }
    }
}
