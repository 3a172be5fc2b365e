//! `linerate run`: its arguments made into a goal, the library called; and the flow that `check` measures, too.

use super::arguments::{FlowArgs, GentleArgs, RunArgs};
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
use linerate_system::latency::Awake;

/// `run --thorough`: as many rounds as this time holds.
const THOROUGH_SECONDS: f64 = 300.0;
const MOST_ROUNDS: u32 = 1000;

/// Measures, prints, saves.
pub(super) fn run(args: RunArgs, output: &Output) -> Result<u8, Failure> {
    let _awake = stay_awake(args.awake)?;
    let gate = Gate::open(&args.expect)?;
    if let Some(url) = from_server::url_of(&args)? {
        return from_server::run(args, url, &gate, output);
    }
    args.server.refuse()?;
    let sink_room = StorageLimits { keep_bytes: args.sink_keep, limit_bytes: args.sink_limit };
    let (goal, order) = flow_of(args.flow.clone(), args.protocol, &args.gentle)?;
    let protocols = run_flow::check(args.run_flow, &goal, &order, &args.sink)?;
    let goal = Goal {
        flow: args.run_flow,
        sinks: args.sink.clone(),
        protocols,
        seconds: args.seconds,
        repeats: if args.thorough { MOST_ROUNDS } else { args.repeats },
        budget_seconds: if args.thorough { THOROUGH_SECONDS } else { args.budget },
        experiment: !args.observe,
        ..goal
    };
    let order = RunSpec { stages: args.stages.clone(), sink_room, ..order };
    let target = ResultTarget::of_run(&args, &gate);
    conducted(target, "run", &args.live, Some(&args.power), output, |context| conduct(context, goal, &order))
}

/// `--awake`: as long as the value lives.
pub(super) fn stay_awake(wanted: bool) -> Result<Option<Awake>, Failure> {
    let held = wanted.then(|| Awake::hold(0)).transpose();
    held.map_err(|error| {
        Failure::Lacks(format!(
            "--awake: /dev/cpu_dma_latency cannot be held ({error}): start as root, on a kernel that has it, \
             or leave the option away"
        ))
    })
}

/// Six rounds of all stages, within what `budget_seconds` then says.
const ROUNDS: u32 = 6;

/// The flow that was named, to be measured in all its stages.
pub(super) fn flow_of(
    args: FlowArgs,
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
        block_bytes: args.transfer,
        queue_depth: args.queue_depth,
        workers: args.workers,
        datagram_bytes: args.datagram,
        congestion_control: args.congestion_control,
        zero_copy: args.method,
        verify: args.verify,
        rate_limit,
        idle,
        experiment: false,
        flow: RunFlow::default(),
        sinks: Vec::new(),
    };
    let order = RunSpec {
        stages: vec![Stage::Memory, Stage::Disk, Stage::Network, Stage::Path],
        scratch: args.scratch,
        scratch_bytes: args.amount,
        sink_room: StorageLimits::default(),
        key_file: args.key_file,
        io_uring: !args.no_io_uring,
        earlier: measured::earlier,
    };
    Ok((goal, order))
}

/// What was asked for, where this process may do so.
pub(super) fn gentle(args: &GentleArgs) -> Result<GentleArgs, Failure> {
    if args.idle {
        linerate_system::idle::is_allowed().map_err(|error| {
            Failure::Lacks(format!(
                "--idle: {error}; a container's seccomp filter may forbid it: allow sched_setscheduler and \
                 ioprio_set, or leave it away"
            ))
        })?;
    }
    Ok(args.clone())
}
