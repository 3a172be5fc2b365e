//! `linerate explain`: looks on while another program works, and says what limits it.

use super::arguments::ExplainArgs;
use super::measured::measured_devices;
use super::output::Output;
use super::stop::stop_on_signals;
use linerate_explain::{ExplainSpec, TargetError, explain as observe};
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::probe;
use linerate_report as report;

/// Does `linerate explain`. Ctrl-C ends the time early: what the program did until then is explained.
pub(super) fn explain(args: &ExplainArgs, output: &Output) -> Result<u8, Failure> {
    let stop = stop_on_signals()?;
    let sysroot = Sysroot::live();
    let machine = probe(&sysroot);
    let measured = measured_devices(&sysroot);
    let spec = ExplainSpec { target: args.target(), time: args.seconds, measured };
    let found = observe(&sysroot, &machine, &spec, &stop).map_err(|why| match why {
        TargetError::SeveralPrograms { .. } => Failure::usage(why),
        _ => Failure::lacks(why),
    })?;
    if args.json {
        output.print_json(&found)?;
    } else {
        output.print(&report::explanation(&found, output.width(), output.colour()))?;
    }
    Ok(0)
}
