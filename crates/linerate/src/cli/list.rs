//! `linerate list`: the kept results, one below the other.

use super::arguments::ListArgs;
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_report::results::ResultList;
use std::path::Path;

/// Prints them.
pub(super) fn list(args: &ListArgs, output: &Output) -> Result<u8, Failure> {
    let list = match &args.folder {
        Some(folder) => of_folder(folder, args.all)?,
        None => ResultList::read(args.all)
            .map_err(|why| Failure::Lacks(format!("kept results cannot be read: {why}")))?,
    };
    output.print(&if args.json { list.json() } else { list.screen(output.width(), output.colour()) })?;
    Ok(0)
}

fn of_folder(folder: &Path, transfers: bool) -> Result<ResultList, Failure> {
    ResultList::of_folder(folder, transfers).map_err(|why| {
        Failure::Lacks(format!(
            "{}: {why}; name a folder that holds results, or nothing for the kept ones",
            folder.display()
        ))
    })
}
