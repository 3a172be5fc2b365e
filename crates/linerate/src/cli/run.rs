//! `linerate run`: its arguments made into a goal, the library called; and the flow that `check` measures, too.

use super::arguments::{EndsArgs, GentleArgs, MethodArgs, ROUNDS, RunArgs};
use super::environment::may_use_io_uring;
use super::gate::Gate;
use super::output::Output;
use super::saving::{ResultTarget, conducted};
use super::{from_server, measured, run_flow};
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_facts::room::StorageLimits;
use linerate_measure::measure::Stage;
use linerate_measure::run::conduct::{RunSpec, conduct};
use linerate_model::plan::{Goal, RunFlow};

/// Measures, prints, saves.
pub(super) fn run(args: RunArgs, output: &Output) -> Result<u8, Failure> {
    let gate = Gate::open(&args.output.expect)?;
    if let Some(url) = from_server::url_of(&args)? {
        return from_server::run(args, url, &gate, output);
    }
    args.server.refuse()?;
    let sink_room = StorageLimits { keep_bytes: None, limit_bytes: args.sink_limit };
    let (goal, spec) = flow_of(args.ends.clone(), args.method.clone(), args.protocol, &args.gentle)?;
    let protocols = run_flow::check(args.run_flow, &goal, &spec, &args.sink)?;
    let goal = args.with_time(Goal {
        flow: args.run_flow,
        sinks: args.sink.clone(),
        protocols,
        seconds: args.seconds,
        experiment: !args.observe,
        ..goal
    });
    let spec = RunSpec { stages: args.stages.clone(), sink_room, ..spec };
    let target = ResultTarget::of(&args.output, &gate);
    conducted(target, "run", &args.live, true, output, |context| conduct(context, goal, &spec))
}

/// The flow that was named, to be measured in all its stages.
pub(super) fn flow_of(
    args: EndsArgs,
    method: MethodArgs,
    protocols: &[Protocol],
    limits: &GentleArgs,
) -> Result<(Goal, RunSpec), Failure> {
    let GentleArgs { rate_limit, idle } = gentle(limits)?;
    let goal = Goal {
        sources: args.source,
        peers: args.peer,
        protocols: protocols.to_vec(),
        seconds: None,
        repeats: ROUNDS,
        budget_seconds: 0.0,
        block_bytes: method.transfer,
        queue_depth: method.queue_depth,
        workers: method.workers,
        datagram_bytes: method.datagram,
        congestion_control: method.congestion_control,
        zero_copy: method.method,
        verify: method.verify,
        rate_limit,
        idle,
        experiment: false,
        flow: RunFlow::default(),
        sinks: Vec::new(),
    };
    let spec = RunSpec {
        stages: vec![Stage::Memory, Stage::Disk, Stage::Network, Stage::Path],
        scratch_bytes: args.amount,
        sink_room: StorageLimits::default(),
        key_file: args.key_file,
        io_uring: may_use_io_uring(),
        earlier: measured::earlier,
    };
    Ok((goal, spec))
}

/// What was asked for, where this process may do so.
pub(super) fn gentle(args: &GentleArgs) -> Result<GentleArgs, Failure> {
    if args.idle {
        linerate_system::idle::check_allowed().map_err(|error| {
            Failure::Lacks(format!(
                "--idle: {error}; a container's seccomp filter may forbid it: allow sched_setscheduler and \
                 ioprio_set, or leave it away"
            ))
        })?;
    }
    Ok(args.clone())
}
