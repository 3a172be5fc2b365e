//! `linerate rates`: the published rates as tables, and the goodput of a link.

use super::arguments::{GoodputArgs, RatesArgs, RatesWhat};
use super::output::Output;
use linerate_facts::failure::Failure;
use linerate_facts::protocol::Protocol;
use linerate_machine::rates::ethernet::Stack;
use linerate_machine::rates::table::{GoodputQuery, KINDS, Table, goodput, tables};
use linerate_report as report;

/// Narrower screens wrap the lines themselves.
const LEAST_WIDTH: usize = 80;

/// Does `linerate rates`.
pub(super) fn rates(args: &RatesArgs, output: &Output) -> Result<u8, Failure> {
    if let Some(RatesWhat::Goodput(args)) = &args.what {
        let ask = GoodputQuery {
            link_bytes_per_second: args.link,
            mtu: args.mtu,
            tags: args.vlan_tags,
            stacks: args.protocol.iter().map(|protocol| stack(args, *protocol)).collect(),
        };
        let table = goodput(&ask).map_err(|why| Failure::Usage(format!("--mtu: {why}")))?;
        return show(&[table], args.json, output);
    }
    let kinds = args.table.map_or(KINDS.to_vec(), |kind| vec![kind]);
    show(&kinds.into_iter().flat_map(tables).collect::<Vec<_>>(), args.json, output)
}

fn stack(args: &GoodputArgs, protocol: Protocol) -> Stack {
    match (protocol, args.no_timestamps, args.ipv6) {
        (Protocol::Udp, _, ipv6) => Stack::udp(ipv6),
        (Protocol::Tcp, false, ipv6) => Stack::tcp(ipv6),
        (Protocol::Tcp, true, false) => Stack::Tcp4,
        (Protocol::Tcp, true, true) => Stack::Tcp6,
    }
}

fn show(tables: &[Table], json: bool, output: &Output) -> Result<u8, Failure> {
    if json {
        output.print_json(tables)?;
    } else {
        output.print(&report::rates(tables, output.width().max(LEAST_WIDTH), output.colour()))?;
    }
    Ok(0)
}
