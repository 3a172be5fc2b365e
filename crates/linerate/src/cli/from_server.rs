//! `linerate run --source URL`: the flow comes from a server of another program.

use super::arguments::values::PROTOCOLS;
use super::arguments::{ROUNDS, RunArgs};
use super::gate::Gate;
use super::output::Output;
use super::saving::{ResultTarget, conducted};
use linerate_deliver::get::{ServerFlowSpec, measure_server};
use linerate_deliver::http::url::HttpUrl;
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_facts::room::StorageLimits;
use linerate_measure::measure::Stage;
use linerate_model::plan::{Goal, RunFlow};
use std::path::Path;

/// Workers, where the user names none: as `linerate get` has streams.
const WORKERS: u32 = 4;
const SCHEMES: [&str; 2] = ["http://", "https://"];

/// The one source of these words that is a URL; none where there is none.
pub(super) fn url_of(args: &RunArgs) -> Result<Option<HttpUrl>, Failure> {
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
    SCHEMES.iter().any(begins).then_some(text)
}

/// Measures it, prints, and gives the exit status of the contract.
pub(super) fn run(args: RunArgs, url: HttpUrl, gate: &Option<Gate>, output: &Output) -> Result<u8, Failure> {
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
        workers: Some(args.method.workers.unwrap_or(WORKERS)),
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
