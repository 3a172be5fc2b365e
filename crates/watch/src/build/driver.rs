//! What the driver of an interface counts.

use crate::model::NamedCounter;
use crate::sources::DriverReading;
use linerate_facts::counters::rates::Elapsed;
use linerate_facts::counters::{Counters, InterfaceCounters};

/// Words in the names of drivers' counters that tell of a loss, or of what leads to one.
const LOSSES: [&str; 12] = [
    "drop",
    "err",
    "discard",
    "miss",
    "pause",
    "no_buf",
    "nobuf",
    "out_of_buffer",
    "overrun",
    "fifo",
    "crc",
    "timeout",
];
/// Lines of one interface's driver.
const MOST_NAMED: usize = 64;

/// Two readings of the drivers.
pub(crate) type DriverPair<'a> = (Option<&'a DriverReading>, Option<&'a DriverReading>);

/// What one interface's driver counted, now and before.
pub(crate) struct Driver<'a> {
    now: &'a Counters,
    before: Option<(&'a Counters, Elapsed)>,
}

impl<'a> Driver<'a> {
    pub(crate) fn of((before, now): DriverPair<'a>, name: &str) -> Option<Self> {
        let now = now?;
        let own =
            |interface: &'a InterfaceCounters| (interface.name == name).then_some(interface.driver.known()?);
        let counters = now.interfaces.iter().find_map(own)?;
        let before = before.and_then(|before| {
            Some((before.interfaces.iter().find_map(own)?, Elapsed::between(before.at, now.at)?))
        });
        Some(Driver { now: counters, before })
    }

    /// All that are not 0, with their rates.
    pub(crate) fn rates(&self) -> impl Iterator<Item = NamedCounter> + '_ {
        self.now.iter().filter_map(|(name, value)| {
            let total = *value.known()?;
            // Those of 0 are not kept: what is missing before was 0.
            let rate = self.before.and_then(|(before, span)| {
                let earlier = before.get(name).map_or(Some(0), |value| value.known().copied())?;
                span.rate(earlier, total)
            });
            Some(NamedCounter { name: name.clone(), per_second: rate, total })
        })
    }

    /// Those of losses, the fastest first.
    pub(crate) fn losses(&self) -> Vec<NamedCounter> {
        let tells = |name: &str| {
            let name = name.to_ascii_lowercase();
            LOSSES.iter().any(|word| name.contains(word))
        };
        let mut found: Vec<NamedCounter> = self.rates().filter(|one| tells(&one.name)).collect();
        found.sort_by(|a, b| {
            let rate = |one: &NamedCounter| one.per_second.unwrap_or(0.0);
            rate(b).total_cmp(&rate(a)).then(b.total.cmp(&a.total)).then_with(|| a.name.cmp(&b.name))
        });
        found.truncate(MOST_NAMED);
        found
    }
}
