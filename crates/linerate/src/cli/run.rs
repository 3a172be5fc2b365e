//! `linerate run`: its arguments made into a goal, the library called; and the flow that `check` measures,
//! too. Which arguments go with which `--flow` is checked first. With `--source URL` the flow comes from a
//! server of another program.

use super::arguments::values::PROTOCOLS;
use super::arguments::{EndsArgs, GentleArgs, MethodArgs, ROUNDS, RunArgs, may_use_io_uring};
use super::measured;
use super::output::Output;
use super::saving::{Gate, ResultTarget, conducted};
use linerate_deliver::get::{ServerFlowSpec, measure_server};
use linerate_deliver::http::url::HttpUrl;
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_facts::room::StorageLimits;
use linerate_measure::measure::Stage;
use linerate_measure::run::conduct::{RunSpec, conduct};
use linerate_model::plan::{Goal, RunFlow};
use std::path::{Path, PathBuf};

/// Measures, prints, saves.
pub(super) fn run(args: RunArgs, output: &Output) -> Result<u8, Failure> {
    let gate = Gate::open(&args.output.expect)?;
    if let Some(url) = url_of(&args)? {
        return run_from_server(args, url, &gate, output);
    }
    args.server.refuse()?;
    let sink_room = StorageLimits { keep_bytes: None, limit_bytes: args.sink_limit };
    let (goal, spec) = flow_of(args.ends.clone(), args.method.clone(), args.protocol, &args.gentle)?;
    let protocols = check_flow(args.run_flow, &goal, &spec, &args.sink)?;
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
        repeats: ROUNDS,
        block_bytes: method.transfer,
        queue_depth: method.queue_depth,
        workers: method.workers,
        datagram_bytes: method.datagram,
        congestion_control: method.congestion_control,
        zero_copy: method.method,
        verify: method.verify,
        rate_limit,
        idle,
        ..Goal::default()
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
        linerate_system::process::check_allowed().map_err(|error| {
            Failure::Lacks(format!(
                "--idle: {error}; a container's seccomp filter may forbid it: allow sched_setscheduler and \
                 ioprio_set, or leave it away"
            ))
        })?;
    }
    Ok(args.clone())
}

/// The protocols of such a flow; why its words do not go together.
fn check_flow(
    flow: RunFlow,
    goal: &Goal,
    spec: &RunSpec,
    sinks: &[PathBuf],
) -> Result<Vec<Protocol>, Failure> {
    if flow != RunFlow::NetworkToDisk && !sinks.is_empty() {
        return Err(Failure::usage(
            "--sink is where --flow network-to-disk stores; the sink of a peer is named there: `linerate agent --sink \
             DIR`",
        ));
    }
    let name = match flow {
        RunFlow::DiskToNetwork => return Ok(goal.protocols.clone()),
        RunFlow::DiskToDisk => "disk-to-disk",
        RunFlow::NetworkToDisk => "network-to-disk",
        RunFlow::NetworkToMemory => "network-to-memory",
    };
    if goal.peers.is_empty() {
        let needs = match flow {
            RunFlow::DiskToDisk => {
                "stores: name it with --peer HOST, and start `linerate agent --sink DIR` there"
            }
            _ => "sends: name it with --peer HOST, and start `linerate agent` there",
        };
        return Err(Failure::usage(format!("--flow {name} needs the host that {needs}")));
    }
    if !goal.protocols.contains(&Protocol::Tcp) {
        return Err(Failure::usage(format!(
            "--flow {name} goes over TCP, and --protocol udp leaves that out; leave --protocol away"
        )));
    }
    if flow == RunFlow::NetworkToDisk && sinks.is_empty() {
        return Err(Failure::usage(
            "--flow network-to-disk needs a directory to store in: name it with --sink DIR, once for each disk",
        ));
    }
    if flow.receives() {
        nothing_read(name, goal, spec)?;
    }
    Ok(vec![Protocol::Tcp])
}

/// What comes in is read from no file here, and written as all sinks are.
fn nothing_read(name: &str, goal: &Goal, spec: &RunSpec) -> Result<(), Failure> {
    let options = [
        ("--source", !goal.sources.is_empty()),
        ("--amount", spec.scratch_bytes.is_some()),
        ("--transfer", goal.block_bytes.is_some()),
        ("--queue-depth", goal.queue_depth.is_some()),
        ("--datagram", goal.datagram_bytes.is_some()),
        ("--method", goal.zero_copy.is_some()),
    ];
    match options.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((word, _)) => Err(Failure::usage(format!(
            "{word} is about what is read and sent here, and with --flow {name} nothing is: leave it away"
        ))),
    }
}

/// Workers, where the user names none: as `linerate get` has streams.
const SERVER_STREAMS: u32 = 4;
const URL_SCHEMES: [&str; 2] = ["http://", "https://"];

/// The one source of these words that is a URL; none where there is none.
fn url_of(args: &RunArgs) -> Result<Option<HttpUrl>, Failure> {
    let sources = &args.ends.source;
    let Some(text) = sources.iter().find_map(|source| as_url(source)) else { return Ok(None) };
    if sources.len() > 1 {
        return Err(Failure::usage(format!(
            "--source {text}: what comes from a server is measured alone; name no other --source beside it"
        )));
    }
    text.parse().map(Some).map_err(|why| Failure::usage(format!("--source {text}: {why}")))
}

fn as_url(source: &Path) -> Option<&str> {
    let text = source.to_str()?;
    let begins = |scheme: &&str| text.get(..scheme.len()).is_some_and(|own| own.eq_ignore_ascii_case(scheme));
    URL_SCHEMES.iter().any(begins).then_some(text)
}

/// Measures it, prints, and gives the exit status of the contract.
fn run_from_server(args: RunArgs, url: HttpUrl, gate: &Option<Gate>, output: &Output) -> Result<u8, Failure> {
    refuse_others(&args)?;
    let flow = match (args.run_flow, args.sink.is_empty()) {
        (RunFlow::DiskToDisk, _) => {
            return Err(Failure::usage(
                "--flow disk-to-disk begins at a disk of this host, and the source is a server; leave it away",
            ));
        }
        (RunFlow::NetworkToDisk, true) => {
            return Err(Failure::usage(
                "--flow network-to-disk needs a directory to store in: name it with --sink DIR, once for each disk",
            ));
        }
        (RunFlow::NetworkToMemory, false) => {
            return Err(Failure::usage(
                "--sink is where --flow network-to-disk stores; leave one of them away",
            ));
        }
        (_, true) => RunFlow::NetworkToMemory,
        (_, false) => RunFlow::NetworkToDisk,
    };
    let goal = args.with_time(Goal {
        flow,
        sinks: args.sink.clone(),
        protocols: vec![Protocol::Tcp],
        seconds: args.seconds,
        workers: Some(args.method.workers.unwrap_or(SERVER_STREAMS)),
        rate_limit: args.gentle.rate_limit,
        ..Goal::default()
    });
    let goal = Goal { repeats: args.repeats.unwrap_or(ROUNDS), ..goal };
    let spec = ServerFlowSpec {
        url,
        goal,
        sink_space: StorageLimits { keep_bytes: None, limit_bytes: args.sink_limit },
        token: args.server.token()?,
        trust: args.server.trust(),
    };
    let target = ResultTarget::of(&args.output, gate);
    conducted(target, "run", &args.live, true, output, |context| measure_server(context, &spec))
}

/// What is about a peer's agent, or about what is read here.
fn refuse_others(args: &RunArgs) -> Result<(), Failure> {
    let (ends, flow) = (&args.ends, &args.method);
    let all = [Stage::Memory, Stage::Disk, Stage::Network, Stage::Path];
    let udp = PROTOCOLS.iter().any(|(name, _, protocols)| *name == "udp" && *protocols == args.protocol);
    let options = [
        ("--peer", !ends.peer.is_empty()),
        ("--amount", ends.amount.is_some()),
        ("--key-file", ends.key_file.is_some()),
        ("--transfer", flow.transfer.is_some()),
        ("--queue-depth", flow.queue_depth.is_some()),
        ("--datagram", flow.datagram.is_some()),
        ("--congestion-control", flow.congestion_control.is_some()),
        ("--method", flow.method.is_some()),
        ("--verify", flow.verify),
        ("--protocol udp", udp),
        ("--stages", args.stages != all),
        ("--idle", args.gentle.idle),
    ];
    match options.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((word, _)) => Err(Failure::usage(format!(
            "{word} says nothing of what comes from a server, which is all that --source with a URL measures: leave it away"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_begins_as_a_url_is_one() {
        assert_eq!(as_url(Path::new("http://h/f")), Some("http://h/f"));
        assert_eq!(as_url(Path::new("HTTPS://h/f")), Some("HTTPS://h/f"));
        for path in ["http:/h/f", "/http://h/f", "./https://h", "httpß://", ""] {
            assert_eq!(as_url(Path::new(path)), None, "{path}");
        }
    }
}
