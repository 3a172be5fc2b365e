//! `linerate plan rates`: the published rates as tables, and the goodput of a link.

use super::arguments::{RatesArgs, RatesWhat};
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_machine::rates::ethernet::Stack;
use linerate_machine::rates::table::{GoodputQuery, KINDS, Table, goodput, tables};
use linerate_report as report;

/// Narrower screens wrap the lines themselves.
const LEAST_WIDTH: usize = 80;
/// IPv6 needs links that carry this (RFC 8200).
const LEAST_IPV6_MTU: u32 = 1280;

/// Does `linerate plan rates`.
pub(super) fn rates(args: &RatesArgs, output: &Output) -> Result<u8, Failure> {
    if let Some(RatesWhat::Goodput(args)) = &args.what {
        let query = GoodputQuery {
            link_bytes_per_second: args.link,
            mtu: args.mtu,
            tags: args.vlan_tags,
            stacks: stacks(args.mtu),
        };
        let table = goodput(&query).map_err(|why| Failure::Usage(format!("--mtu: {why}")))?;
        return show(&[table], args.json, output);
    }
    let kinds = args.table.map_or(KINDS.to_vec(), |kind| vec![kind]);
    show(&kinds.into_iter().flat_map(tables).collect::<Vec<_>>(), args.json, output)
}

/// All that a packet of this size may carry, TCP with the timestamps that Linux sends.
fn stacks(mtu: u32) -> Vec<Stack> {
    let versions: &[bool] = if mtu < LEAST_IPV6_MTU { &[false] } else { &[false, true] };
    versions.iter().flat_map(|ipv6| [Stack::tcp(*ipv6), Stack::udp(*ipv6)]).collect()
}

fn show(tables: &[Table], json: bool, output: &Output) -> Result<u8, Failure> {
    if json {
        output.print_json(tables)?;
    } else {
        output.print(&report::rates(tables, output.width().max(LEAST_WIDTH), output.colour()))?;
    }
    Ok(0)
}
