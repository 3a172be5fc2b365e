//! `linerate list`: the kept results, one below the other.

use super::arguments::ListArgs;
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_report::results::ResultList;

/// Prints them.
pub(super) fn list(args: &ListArgs, output: &Output) -> Result<u8, Failure> {
    let list = ResultList::read(args.all)
        .map_err(|why| Failure::Lacks(format!("kept results cannot be read: {why}")))?;
    output.print(&if args.json { list.json() } else { list.screen(output.width(), output.colour()) })?;
    Ok(0)
}
