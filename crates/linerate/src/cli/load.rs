//! `linerate load`: the words made into a search, the library called, the curve printed and saved.

use super::arguments::LoadArgs;
use super::output::Output;
use super::saving::{ResultTarget, conducted};
use linerate_facts::failure::Failure;
use linerate_measure::measure::access::Permissions;
use linerate_measure::run::load::{LoadSpec, Search, conduct_load};
use std::path::PathBuf;

/// Most users in a closed loop, most requests in flight in an open one, where none is told.
const USUAL_WORKERS: (u32, u32) = (4096, 256);

/// Measures, prints, saves.
pub(super) fn load(words: &LoadArgs, output: &Output) -> Result<u8, Failure> {
    let order = order(words)?;
    conducted(ResultTarget::of(&words.output), "load", &words.live, None, output, |context| {
        conduct_load(context, &order)
    })
}

fn order(words: &LoadArgs) -> Result<LoadSpec, Failure> {
    if words.amount < words.transfer {
        return Err(Failure::Usage(format!(
            "--amount {}: smaller than one request of {} bytes; give a larger --amount or a smaller \
             --transfer",
            words.amount, words.transfer
        )));
    }
    let search = match (words.rate, words.find_rate) {
        (Some(rate), _) => Search::Rate(rate),
        (None, true) => Search::HighestRate,
        (None, false) => Search::Users,
    };
    let usual = if search == Search::Users { USUAL_WORKERS.0 } else { USUAL_WORKERS.1 };
    Ok(LoadSpec {
        name: words.name.clone(),
        sources: if words.source.is_empty() { vec![PathBuf::from(".")] } else { words.source.clone() },
        search,
        keep: words.keep,
        transfer_bytes: words.transfer,
        read_share: words.read_share / 100.0,
        order: words.pattern,
        file_bytes: words.amount,
        workers: words.workers.unwrap_or(usual),
        direct: !words.buffered,
        seconds: words.seconds,
        repeats: words.repeats,
        seed: words.seed,
        permissions: Permissions {
            destroy_data: words.destroy_data.clone(),
            keep: false,
            shorten_after: None,
        },
        io_uring: !words.no_io_uring,
    })
}
