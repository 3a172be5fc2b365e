//! The commands of `linerate plan` that need no flow: `plan raid` with chunk, stripe and command lines of an
//! array, or a check of the arrays that are there; `plan rates` with the published rates as tables.

use super::arguments::{RaidArgs, RatesArgs, sysroot_of};
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_machine::probe::probe;
use linerate_machine::rates::table::{KINDS, Table, tables};
use linerate_model::plan::raid::{RaidSpec, check, raid as layout_of};
use linerate_report as report;
use std::path::Path;

/// What an application asks for at once where the user does not say, bytes: what linerate itself reads.
const DEFAULT_REQUEST_BYTES: u64 = linerate_model::plan::DEFAULT_BLOCK_BYTES;

/// Does `linerate plan raid`.
pub(super) fn raid(args: &RaidArgs, output: &Output) -> Result<u8, Failure> {
    if let Some(root) = &args.check {
        return check_arrays(root.as_deref(), args, output);
    }
    let Some(level) = args.level else {
        return Err(Failure::Usage(
            "--level is missing: say how data is spread, such as --level raid6".into(),
        ));
    };
    let count = args.disks.first().filter(|_| args.disks.len() == 1).and_then(|count| count.parse().ok());
    let devices = if count.is_some() { Vec::new() } else { args.disks.clone() };
    let layout = layout_of(&RaidSpec {
        level,
        disks: count.unwrap_or(devices.len() as u32),
        block_bytes: args.block,
        request_bytes: args.request.unwrap_or(DEFAULT_REQUEST_BYTES.max(args.block)),
        pattern: args.pattern,
        chunk_bytes: args.chunk,
        devices,
    })
    .map_err(Failure::usage)?;
    if args.json {
        output.print_json(&layout)?;
        return Ok(0);
    }
    output.print(&report::raid(&layout, output.text_width(), output.colour()))?;
    Ok(0)
}

fn check_arrays(root: Option<&Path>, args: &RaidArgs, output: &Output) -> Result<u8, Failure> {
    let machine = probe(&sysroot_of(root, output)?);
    let requests = args.request.map(|bytes| (bytes, args.pattern));
    let arrays = check(&machine, requests);
    if arrays.is_empty() {
        let place = root.map_or("this machine".to_string(), |root| root.display().to_string());
        return Err(Failure::Lacks(format!(
            "{place} shows no array (md, striped LVM, btrfs or ZFS over several disks); what a hardware \
             controller makes \
             looks like one disk: compute it with --level and --disks"
        )));
    }
    if args.json {
        output.print_json(&arrays)?;
        return Ok(0);
    }
    output.print(&report::raid_check(&arrays, output.text_width(), output.colour()))?;
    Ok(0)
}

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
