//! `linerate load`: the words made into a search, the library called, the curve printed and saved.

use super::arguments::{LoadArgs, SEED};
use super::environment::may_use_io_uring;
use super::gate::Gate;
use super::output::Output;
use super::saving::{ResultTarget, conducted};
use linerate_facts::failure::Failure;
use linerate_measure::measure::access::Permissions;
use linerate_measure::run::load::{LoadSpec, Search, conduct_load};
use std::path::PathBuf;

/// Most users in a closed loop, most requests in flight in an open one, where none is told.
const USUAL_WORKERS: (u32, u32) = (4096, 256);

/// Measures, prints, saves.
pub(super) fn load(args: &LoadArgs, output: &Output) -> Result<u8, Failure> {
    let gate = Gate::open(&args.output.expect)?;
    let spec = spec_of(args)?;
    conducted(ResultTarget::of(&args.output, &gate), "load", &args.live, false, output, |context| {
        conduct_load(context, &spec)
    })
}

fn spec_of(args: &LoadArgs) -> Result<LoadSpec, Failure> {
    if args.amount < args.transfer {
        return Err(Failure::Usage(format!(
            "--amount {}: smaller than one request of {} bytes; give a larger --amount or a smaller \
             --transfer",
            args.amount, args.transfer
        )));
    }
    let search = match (args.rate, args.find_rate) {
        (Some(rate), _) => Search::Rate(rate),
        (None, true) => Search::HighestRate,
        (None, false) => Search::Users,
    };
    let usual = if search == Search::Users { USUAL_WORKERS.0 } else { USUAL_WORKERS.1 };
    Ok(LoadSpec {
        name: args.name.clone(),
        sources: if args.source.is_empty() { vec![PathBuf::from(".")] } else { args.source.clone() },
        search,
        keep: args.keep,
        transfer_bytes: args.transfer,
        access: args.access,
        order: args.pattern,
        file_bytes: args.amount,
        workers: args.workers.unwrap_or(usual),
        direct: !args.buffered,
        seconds: args.seconds,
        repeats: args.repeats,
        seed: SEED,
        permissions: Permissions {
            destroy_data: args.destroy_data.clone(),
            keep: false,
            shorten_after: None,
        },
        io_uring: may_use_io_uring(),
    })
}
