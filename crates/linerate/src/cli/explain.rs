//! `linerate explain`: looks on while another program works, and says what limits it; with `--experiment` by what it loses
//! while a little of what it uses is taken.

use super::arguments::ExplainArgs;
use super::measured::measured_devices;
use super::output::Output;
use super::saving::keep;
use super::stop::stop_on_signals;
use linerate_explain::{
    ExplainSpec, Explanation, NoExperiment, ProgramExperiment, TargetError, explain as observe,
};
use linerate_facts::failure::Failure;
use linerate_facts::sysroot::Sysroot;
use linerate_machine::probe::{Machine, probe};
use linerate_report as report;
use linerate_system::stop::Stop;
use linerate_transport::agent::find_peers;

/// Does `linerate explain`. Ctrl-C ends the time early: what the program did until then is explained.
pub(super) fn explain(args: &ExplainArgs, output: &Output) -> Result<u8, Failure> {
    if args.experiment && !args.yes && !output.can_ask() {
        return Err(Failure::usage(
            "nobody can be asked here whether --experiment may take of what the program uses: add --yes",
        ));
    }
    let stop = stop_on_signals()?;
    let sysroot = Sysroot::live();
    let machine = probe(&sysroot);
    let measured = measured_devices(&sysroot);
    let peer = find_peers(args.peer.as_slice(), args.key_file.as_deref(), &stop)?.pop();
    let experiment = args.experiment;
    let spec = ExplainSpec { target: args.target(), time: args.seconds, measured, experiment, peer };
    let (mut found, experiment) = observe(&sysroot, &machine, &spec, &stop).map_err(|why| match why {
        TargetError::SeveralPrograms { .. } => Failure::usage(why),
        _ => Failure::lacks(why),
    })?;
    if args.experiment && !stop.is_ended() {
        take(&mut found, experiment, &sysroot, machine, &stop, args, output);
    }
    output.show(args.json, &found, || report::explanation(&found, output.width(), output.colour()))?;
    Ok(0)
}

/// Takes where the user agrees, and keeps what came of it; else what was observed stands, with the reason.
fn take(
    explanation: &mut Explanation,
    experiment: Result<ProgramExperiment, NoExperiment>,
    sysroot: &Sysroot,
    machine: Machine,
    stop: &Stop,
    args: &ExplainArgs,
    output: &Output,
) {
    let taken = experiment.and_then(|experiment| {
        let words = experiment.words();
        if args.yes {
            output.complain(words.trim_end());
        } else if !output.agrees(&words, "Take it") {
            return Err(NoExperiment::NotWanted);
        }
        Ok((experiment.conduct(sysroot, stop)?, experiment.untaken))
    });
    match taken {
        Ok((record, untaken)) => {
            explanation.measured(&record, &untaken);
            if !args.keeping.no_save {
                keep(&explanation.run(machine, record), output);
            }
        }
        Err(why) => explanation.not_measured(why),
    }
}
