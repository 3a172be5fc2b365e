//! The loss ledger, live: every counter of drops that is not 0, with its rate, its meaning and its cure
//! (`diagnose::ledger` has the table).

use crate::kept::FileReading;
use crate::model::DropLine;
use crate::sources::{DriverReading, NetworkReading};
use linerate_facts::counters::NetworkCounters;
use linerate_facts::counters::rates::Elapsed;
use linerate_facts::fact::Fact;
use linerate_measure::diagnose::ledger::{Drop, Layer, drops_by_interface};
use std::collections::BTreeMap;
use std::time::Instant;

type Key = (Layer, Option<String>, String);

/// What each counter was when it was read last, with the line made of it.
#[derive(Debug, Default)]
pub(crate) struct Drops {
    protocols: DropSide,
    interfaces: DropSide,
}

#[derive(Debug, Default)]
struct DropSide {
    at: Option<Instant>,
    totals: BTreeMap<Key, u64>,
    lines: Vec<(Layer, DropLine)>,
}

impl Drops {
    /// The lines now, in the order of the layers.
    pub(crate) fn lines(
        &mut self,
        network: Option<&NetworkReading>,
        drivers: Option<&DriverReading>,
        wanted: &[String],
    ) -> Vec<DropLine> {
        if let Some((network, at)) =
            network.and_then(|network| Some((network, network.snmp.as_ref().ok()?.at)))
        {
            self.protocols.take(at, || of_protocols(network));
        }
        if let Some(drivers) = drivers {
            self.interfaces.take(drivers.at, || NetworkCounters {
                interfaces: drivers.interfaces.clone(),
                ..NetworkCounters::default()
            });
        }
        let shown = |line: &&(Layer, DropLine)| {
            wanted.is_empty() || line.1.interface.as_ref().is_none_or(|name| wanted.contains(name))
        };
        let mut all: Vec<&(Layer, DropLine)> =
            self.protocols.lines.iter().chain(&self.interfaces.lines).filter(shown).collect();
        all.sort_by_key(|(layer, _)| *layer);
        all.into_iter().map(|(_, line)| line.clone()).collect()
    }
}

impl DropSide {
    /// A reading that was seen before changes nothing.
    fn take(&mut self, at: Instant, counters: impl FnOnce() -> NetworkCounters) {
        if self.at == Some(at) {
            return;
        }
        let span = self.at.and_then(|before| Elapsed::between(before, at));
        let mut totals = BTreeMap::new();
        let mut lines = Vec::new();
        for (layer, interface, drop) in drops_by_interface(&counters()) {
            let key = (layer, interface.clone(), drop.counter.clone());
            // What was 0 before was in no line.
            let before = self.totals.get(&key).copied().unwrap_or(0);
            let rate = span.and_then(|span| span.rate(before, drop.counted));
            totals.insert(key, drop.counted);
            lines.push((layer, line(layer, interface, drop, rate)));
        }
        *self = DropSide { at: Some(at), totals, lines };
    }
}

fn line(layer: Layer, interface: Option<String>, drop: Drop, per_second: Option<f64>) -> DropLine {
    let unit: &str = drop.unit.into();
    DropLine {
        layer: layer.to_string(),
        interface,
        counter: drop.counter,
        unit: unit.into(),
        per_second,
        total: drop.counted,
        meaning: drop.meaning,
        cure: drop.cure,
    }
}

fn of_protocols(network: &NetworkReading) -> NetworkCounters {
    NetworkCounters {
        snmp: fact(&network.snmp),
        snmp6: fact(&network.snmp6),
        netstat: fact(&network.netstat),
        softnet: fact(&network.softnet),
        ..NetworkCounters::default()
    }
}

fn fact<T: Clone>(read: &FileReading<T>) -> Fact<T> {
    match read {
        Ok(read) => Fact::Known(read.value.clone()),
        Err(why) => Fact::unknown(why),
    }
}
