//! `linerate plan raid`: chunk, stripe and command lines of an array, or a check of the arrays that are
//! there.

use super::arguments::{RaidArgs, sysroot_of};
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_machine::probe::probe;
use linerate_model::plan::raid::{RaidSpec, check, raid as layout_of};
use linerate_report as report;

/// What an application asks for at once where the user does not say, bytes: what linerate itself reads.
const DEFAULT_REQUEST_BYTES: u64 = linerate_model::plan::DEFAULT_BLOCK_BYTES;

/// Does `linerate plan raid`.
pub(super) fn raid(args: &RaidArgs, output: &Output) -> Result<u8, Failure> {
    if args.check {
        return check_arrays(args, output);
    }
    let Some(level) = args.level else {
        return Err(Failure::Usage(
            "--level is missing: say how data is spread, such as --level raid6".into(),
        ));
    };
    let layout = layout_of(&RaidSpec {
        level,
        disks: args.disks.unwrap_or(u32::try_from(args.device.len()).unwrap_or(u32::MAX)),
        block_bytes: args.block,
        file_system_block_bytes: args.file_system_block,
        request_bytes: args.request.unwrap_or(DEFAULT_REQUEST_BYTES.max(args.block)),
        pattern: args.pattern,
        chunk_bytes: args.chunk,
        devices: args.device.clone(),
    })
    .map_err(Failure::usage)?;
    if args.json {
        output.print_json(&layout)?;
        return Ok(0);
    }
    output.print(&report::raid(&layout, output.text_width(), output.colour()))?;
    Ok(0)
}

fn check_arrays(args: &RaidArgs, output: &Output) -> Result<u8, Failure> {
    let machine = probe(&sysroot_of(args.root.as_deref(), output)?);
    let requests = args.request.map(|bytes| (bytes, args.pattern));
    let arrays = check(&machine, requests);
    if arrays.is_empty() {
        let place = args.root.as_ref().map_or("this machine".to_string(), |root| root.display().to_string());
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
