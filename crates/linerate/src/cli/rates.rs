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
pub(super) fn rates(words: &RatesArgs, output: &Output) -> Result<u8, Failure> {
    if let Some(RatesWhat::Goodput(words)) = &words.what {
        let ask = GoodputQuery {
            link_bytes_per_second: words.link,
            mtu: words.mtu,
            tags: words.vlan_tags,
            stacks: words.protocol.iter().map(|protocol| stack(words, *protocol)).collect(),
        };
        let table = goodput(&ask).map_err(|why| Failure::Usage(format!("--mtu: {why}")))?;
        return show(&[table], words.json, output);
    }
    let kinds = words.table.map_or(KINDS.to_vec(), |kind| vec![kind]);
    show(&kinds.into_iter().flat_map(tables).collect::<Vec<_>>(), words.json, output)
}

fn stack(words: &GoodputArgs, protocol: Protocol) -> Stack {
    match (protocol, words.no_timestamps, words.ipv6) {
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
