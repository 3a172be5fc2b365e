//! `linerate run`: its arguments made into a goal, the library called; and the flow that `check` measures, too.

use super::arguments::{FlowArgs, GentleArgs, RunArgs};
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
pub(super) fn run(words: RunArgs, output: &Output) -> Result<u8, Failure> {
    let _awake = stay_awake(words.awake)?;
    if let Some(url) = from_server::url_of(&words)? {
        return from_server::run(words, url, output);
    }
    words.server.refuse()?;
    let sink_room = StorageLimits { keep_bytes: words.sink_keep, limit_bytes: words.sink_limit };
    let (goal, order) = flow_of(words.flow.clone(), words.protocol, &words.gentle)?;
    let protocols = run_flow::check(words.run_flow, &goal, &order, &words.sink)?;
    let goal = Goal {
        flow: words.run_flow,
        sinks: words.sink.clone(),
        protocols,
        seconds: words.seconds,
        repeats: if words.thorough { MOST_ROUNDS } else { words.repeats },
        budget_seconds: if words.thorough { THOROUGH_SECONDS } else { words.budget },
        ..goal
    };
    let order = RunSpec { stages: words.stages.clone(), sink_room, ..order };
    let target = ResultTarget::of_run(&words);
    conducted(target, "run", &words.live, Some(&words.power), output, |context| {
        conduct(context, goal, &order)
    })
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
    words: FlowArgs,
    protocols: &[Protocol],
    limits: &GentleArgs,
) -> Result<(Goal, RunSpec), Failure> {
    let GentleArgs { rate_limit, idle } = gentle(limits)?;
    let goal = Goal {
        sources: words.source,
        peers: words.peer,
        protocols: protocols.to_vec(),
        seconds: None,
        repeats: ROUNDS,
        budget_seconds: 0.0,
        block_bytes: words.transfer,
        queue_depth: words.queue_depth,
        workers: words.workers,
        datagram_bytes: words.datagram,
        congestion_control: words.congestion_control,
        zero_copy: words.method,
        verify: words.verify,
        rate_limit,
        idle,
        flow: RunFlow::default(),
        sinks: Vec::new(),
    };
    let order = RunSpec {
        stages: vec![Stage::Memory, Stage::Disk, Stage::Network, Stage::Path],
        scratch: words.scratch,
        scratch_bytes: words.amount,
        sink_room: StorageLimits::default(),
        key_file: words.key_file,
        io_uring: !words.no_io_uring,
        earlier: measured::earlier,
    };
    Ok((goal, order))
}

/// What was asked for, where this process may do so.
pub(super) fn gentle(words: &GentleArgs) -> Result<GentleArgs, Failure> {
    if words.idle {
        linerate_system::idle::is_allowed().map_err(|error| {
            Failure::Lacks(format!(
                "--idle: {error}; a container's seccomp filter may forbid it: allow sched_setscheduler and \
                 ioprio_set, or leave it away"
            ))
        })?;
    }
    Ok(words.clone())
}
