//! `linerate plan rates`: the published rates as tables.

use super::arguments::RatesArgs;
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_machine::rates::table::{KINDS, Table, tables};
use linerate_report as report;

/// Narrower screens wrap the lines themselves.
const LEAST_WIDTH: usize = 80;

/// Does `linerate plan rates`.
pub(super) fn rates(args: &RatesArgs, output: &Output) -> Result<u8, Failure> {
    let kinds = args.table.map_or(KINDS.to_vec(), |kind| vec![kind]);
    let tables: Vec<Table> = kinds.into_iter().flat_map(tables).collect();
    if args.json {
        output.print_json(&tables)?;
    } else {
        output.print(&report::rates(&tables, output.width().max(LEAST_WIDTH), output.colour()))?;
    }
    Ok(0)
}
