//! Differences of two readings, and rates from them. A counter that went back has wrapped where that explains
//! it, else it began again and has no rate: never a negative one, never a huge one.

use super::{Counters, Groups, InterfaceCounters, NetworkCounters, QdiscCounters, SoftnetCounters};
use crate::fact::Fact;
use std::collections::BTreeMap;
use std::time::Instant;

/// How wide the kernel keeps a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    Bits32,
    Bits64,
}

/// A wrap is believed only where it means less than this per second: what wraps at 32 bits are counts of
/// interrupts, packets of one core and milliseconds, and none of them comes near.
const MOST_32_PER_SECOND: f64 = 1e8;
/// … 1 TB/s.
const MOST_64_PER_SECOND: f64 = 1e12;

/// The time between two readings, seconds; more than 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elapsed(f64);

impl Elapsed {
    /// None for less than a millisecond: too short for a rate.
    pub fn between(before: Instant, now: Instant) -> Option<Elapsed> {
        Elapsed::of_seconds(now.checked_duration_since(before)?.as_secs_f64())
    }

    /// The same, of seconds.
    pub fn of_seconds(seconds: f64) -> Option<Elapsed> {
        (seconds.is_finite() && seconds >= 1e-3).then_some(Elapsed(seconds))
    }

    /// Seconds.
    pub fn seconds(self) -> f64 {
        self.0
    }

    /// What was counted in between; none where the counter began again.
    pub fn counted(self, before: u64, now: u64, width: Width) -> Option<u64> {
        if let Some(counted) = now.checked_sub(before) {
            return Some(counted);
        }
        let (counted, most) = match width {
            Width::Bits32 if before <= u64::from(u32::MAX) => {
                ((1u64 << 32) - before + now, MOST_32_PER_SECOND)
            }
            // Wider than it should be: it can not have wrapped there.
            Width::Bits32 => return None,
            Width::Bits64 => (now.wrapping_sub(before), MOST_64_PER_SECOND),
        };
        (counted as f64 <= most * self.0).then_some(counted)
    }

    /// Per second, of a counter of 64 bits.
    pub fn rate(self, before: u64, now: u64) -> Option<f64> {
        self.rate_of(before, now, Width::Bits64)
    }

    /// Per second.
    pub fn rate_of(self, before: u64, now: u64, width: Width) -> Option<f64> {
        self.counted(before, now, width).map(|counted| rounded(counted as f64 / self.0))
    }

    /// Per second, where both are known.
    pub fn rate_known(self, before: Option<u64>, now: Option<u64>) -> Option<f64> {
        self.rate(before?, now?)
    }
}

/// Six digits that count: more are noise, and cost bytes in each recorded line. What is not a number becomes 0.
pub fn rounded(value: f64) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return 0.0;
    }
    let digits = 5 - value.abs().log10().floor() as i32;
    // Beyond what a power of ten can be; nothing that is counted is.
    if digits.abs() > 300 {
        return value;
    }
    let scale = 10f64.powi(digits);
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { value }
}

/// A sum of what is known; none where nothing is.
pub fn sum(parts: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    parts.into_iter().flatten().reduce(|a, b| a + b).map(rounded)
}

/// In the protocols' files, but states: as they are now.
const STATES: [&str; 7] =
    ["Forwarding", "DefaultTTL", "RtoAlgorithm", "RtoMin", "RtoMax", "MaxConn", "CurrEstab"];

pub(super) fn all_since(now: &NetworkCounters, earlier: &NetworkCounters) -> NetworkCounters {
    NetworkCounters {
        snmp: facts_since(&now.snmp, &earlier.snmp, groups_since),
        snmp6: facts_since(&now.snmp6, &earlier.snmp6, counters_since),
        netstat: facts_since(&now.netstat, &earlier.netstat, groups_since),
        softnet: facts_since(&now.softnet, &earlier.softnet, |now, earlier| softnet_since(now, earlier)),
        interfaces: now.interfaces.iter().map(|one| interface_since(one, earlier)).collect(),
        drop_reasons: facts_since(&now.drop_reasons, &earlier.drop_reasons, reasons_since),
    }
}

/// Both are known, or it is not known why.
fn facts_since<T>(now: &Fact<T>, earlier: &Fact<T>, difference: impl FnOnce(&T, &T) -> T) -> Fact<T> {
    match (now, earlier) {
        (Fact::Known(now), Fact::Known(earlier)) => Fact::Known(difference(now, earlier)),
        (Fact::Unknown { why }, _) | (_, Fact::Unknown { why }) => Fact::unknown(why.clone()),
    }
}

fn count_since(now: &Fact<u64>, earlier: &Fact<u64>) -> Fact<u64> {
    match (now, earlier) {
        (Fact::Known(now), Fact::Known(earlier)) => {
            Fact::from_option(now.checked_sub(*earlier), "the counter went back: it wrapped, or was set to 0")
        }
        (Fact::Unknown { why }, _) | (_, Fact::Unknown { why }) => Fact::unknown(why.clone()),
    }
}

fn groups_since(now: &Groups, earlier: &Groups) -> Groups {
    let none = Counters::new();
    let of_group = |(name, now)| counters_since(now, earlier.get(name).unwrap_or(&none));
    now.iter().map(|group| (group.0.clone(), of_group(group))).collect()
}

fn counters_since(now: &Counters, earlier: &Counters) -> Counters {
    let pair = |(name, value): (&String, &Fact<u64>)| {
        let difference = match earlier.get(name) {
            _ if STATES.contains(&name.as_str()) => value.clone(),
            Some(earlier) => count_since(value, earlier),
            // IcmpMsg shows a type from its first message on.
            None => value.clone(),
        };
        (name.clone(), difference)
    };
    now.iter().map(pair).collect()
}

/// A driver's: those of 0 are not kept, so that one which is missing now went back.
fn driver_since(now: &Counters, earlier: &Counters) -> Counters {
    let mut difference = counters_since(now, earlier);
    let gone = earlier.keys().filter(|name| !now.contains_key(*name));
    difference.extend(gone.map(|name| (name.clone(), Fact::unknown("the counter went back"))));
    difference.retain(|_, value| value.known() != Some(&0));
    difference
}

fn softnet_since(now: &[SoftnetCounters], earlier: &[SoftnetCounters]) -> Vec<SoftnetCounters> {
    let before: BTreeMap<u32, &SoftnetCounters> = earlier.iter().map(|one| (one.core, one)).collect();
    let one = |now: &SoftnetCounters| {
        let earlier = before.get(&now.core)?;
        Some(SoftnetCounters {
            core: now.core,
            processed: count_since(&now.processed, &earlier.processed),
            dropped: count_since(&now.dropped, &earlier.dropped),
            squeezed: count_since(&now.squeezed, &earlier.squeezed),
            flow_limited: count_since(&now.flow_limited, &earlier.flow_limited),
            backlog: now.backlog.clone(),
        })
    };
    // A CPU that was not there before has no difference.
    now.iter().filter_map(one).collect()
}

fn interface_since(now: &InterfaceCounters, earlier: &NetworkCounters) -> InterfaceCounters {
    let Some(earlier) = earlier.interface(&now.name) else {
        let why = "the interface was not there before";
        return InterfaceCounters {
            statistics: Fact::unknown(why),
            driver: Fact::unknown(why),
            qdiscs: Fact::unknown(why),
            ..now.clone()
        };
    };
    InterfaceCounters {
        name: now.name.clone(),
        kind: now.kind.clone(),
        mtu: now.mtu.clone(),
        tx_queue_length: now.tx_queue_length.clone(),
        statistics: facts_since(&now.statistics, &earlier.statistics, counters_since),
        driver: facts_since(&now.driver, &earlier.driver, driver_since),
        qdiscs: facts_since(&now.qdiscs, &earlier.qdiscs, |now, earlier| {
            now.iter().map(|one| qdisc_since(one, earlier)).collect()
        }),
    }
}

fn qdisc_since(now: &QdiscCounters, earlier: &[QdiscCounters]) -> QdiscCounters {
    let same = |other: &&QdiscCounters| {
        (&other.kind, &other.handle, &other.parent) == (&now.kind, &now.handle, &now.parent)
    };
    // One that was put there in between began at 0.
    let Some(earlier) = earlier.iter().find(same) else { return now.clone() };
    QdiscCounters {
        bytes: count_since(&now.bytes, &earlier.bytes),
        packets: count_since(&now.packets, &earlier.packets),
        drops: count_since(&now.drops, &earlier.drops),
        overlimits: count_since(&now.overlimits, &earlier.overlimits),
        requeues: count_since(&now.requeues, &earlier.requeues),
        ..now.clone()
    }
}

fn reasons_since(now: &BTreeMap<String, u64>, earlier: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let difference = |(name, count): (&String, &u64)| {
        (name.clone(), count.saturating_sub(earlier.get(name).copied().unwrap_or(0)))
    };
    now.iter().map(difference).filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn second() -> Elapsed {
        Elapsed::of_seconds(1.0).expect("a second")
    }

    #[test]
    fn wraps_and_resets() {
        assert_eq!(second().counted(10, 25, Width::Bits64), Some(15));
        assert_eq!(second().counted(u64::from(u32::MAX) - 4, 10, Width::Bits32), Some(15));
        assert_eq!(second().counted(u64::MAX - 4, 10, Width::Bits64), Some(15));
        assert_eq!(second().counted(3_000_000_000, 5, Width::Bits32), None, "a driver was loaded again");
        assert_eq!(second().counted(1000, 5, Width::Bits64), None);
        assert_eq!(second().counted(1 << 40, 5, Width::Bits32), None);
        assert_eq!(Elapsed::of_seconds(0.0).or(Elapsed::of_seconds(f64::NAN)), None);
    }

    #[test]
    fn six_digits() {
        assert_eq!(rounded(1_234_567_890.0), 1_234_570_000.0);
        assert_eq!(rounded(0.000_123_456_789), 0.000_123_457);
        assert_eq!((rounded(f64::NAN), rounded(-0.0), rounded(f64::INFINITY)), (0.0, 0.0, 0.0));
        assert_eq!(rounded(f64::MIN_POSITIVE), f64::MIN_POSITIVE);
    }

    proptest! {
        #[test]
        fn a_rate_is_never_negative_and_never_beyond_what_is_plausible(
            before in any::<u64>(), now in any::<u64>(), seconds in 0.001f64..10_000.0, wide in any::<bool>()
        ) {
            let span = Elapsed::of_seconds(seconds).expect("a span");
            let (width, most) = match wide {
                true => (Width::Bits64, MOST_64_PER_SECOND),
                false => (Width::Bits32, MOST_32_PER_SECOND),
            };
            match span.rate_of(before, now, width) {
                Some(rate) if now < before => prop_assert!((0.0..=most * 1.001).contains(&rate), "{rate}"),
                Some(rate) => prop_assert!(rate >= 0.0),
                None => prop_assert!(now < before),
            }
        }

        #[test]
        fn a_wrap_counts_as_if_there_were_none(start in any::<u32>(), counted in 0u64..100_000_000) {
            let now = (u64::from(start) + counted) & u64::from(u32::MAX);
            prop_assert_eq!(second().counted(u64::from(start), now, Width::Bits32), Some(counted));
            let start = u64::MAX - u64::from(start);
            prop_assert_eq!(second().counted(start, start.wrapping_add(counted), Width::Bits64), Some(counted));
        }

        #[test]
        fn rounding_keeps_the_value(value in -1e18f64..1e18) {
            prop_assert!((rounded(value) - value).abs() <= value.abs() * 1e-5);
        }
    }

    fn udp(values: &[(&str, u64)]) -> NetworkCounters {
        let counters = values.iter().map(|(name, value)| (name.to_string(), Fact::Known(*value))).collect();
        NetworkCounters {
            snmp: Fact::Known([("Udp".to_string(), counters)].into_iter().collect()),
            ..NetworkCounters::default()
        }
    }

    #[test]
    fn what_went_back_is_unknown_and_the_rest_is_not() {
        let before = udp(&[("InDatagrams", 10), ("InErrors", 7)]);
        let after = udp(&[("InDatagrams", 25), ("InErrors", 3), ("NoPorts", 2)]);
        let between = after.since(&before);
        assert_eq!(between.count("Udp", "InDatagrams"), Some(15));
        assert_eq!(between.count("Udp", "NoPorts"), Some(2));
        let groups = between.snmp.known().expect("counters");
        assert!(groups["Udp"]["InErrors"].why().is_some_and(|why| why.contains("went back")));
        assert_eq!(between.softnet.why(), Some("not recorded"));
    }

    #[test]
    fn an_interface_that_came_in_between_is_unknown() {
        let known = |value| Fact::Known([("rx_bytes".to_string(), Fact::Known(value))].into_iter().collect());
        let interface = |name: &str, value| InterfaceCounters {
            name: name.into(),
            statistics: known(value),
            ..Default::default()
        };
        let counters = |interfaces| NetworkCounters { interfaces, ..NetworkCounters::default() };
        let before = counters(vec![interface("eth0", 100)]);
        let after = counters(vec![interface("eth0", 130), interface("eth1", 5)]);
        let between = after.since(&before);
        assert_eq!(between.interfaces[0].count("rx_bytes"), Some(30));
        assert_eq!(between.interfaces[1].statistics.why(), Some("the interface was not there before"));
    }

    #[test]
    fn the_counters_of_drivers_and_disciplines() {
        let driver = |values: &[(&str, u64)]| {
            values.iter().map(|(name, value)| (name.to_string(), Fact::Known(*value))).collect::<Counters>()
        };
        let between = super::driver_since(&driver(&[("a", 5), ("b", 3)]), &driver(&[("a", 5), ("gone", 1)]));
        assert_eq!(between.get("b"), Some(&Fact::Known(3)));
        assert!(!between.contains_key("a") && between["gone"].why().is_some());
        let tbf =
            |drops| QdiscCounters { kind: "tbf".into(), drops: Fact::Known(drops), ..Default::default() };
        assert_eq!(qdisc_since(&tbf(9), &[tbf(4)]).drops, Fact::Known(5));
        assert_eq!(qdisc_since(&tbf(9), &[]).drops, Fact::Known(9), "put there in between");
    }

    #[test]
    fn the_live_host_survives_json_and_a_difference() {
        let now = super::super::read(&crate::sysroot::Sysroot::live(), &["lo".into()]);
        assert!(now.count("Udp", "OutDatagrams").is_some(), "{:?}", now.snmp.why());
        let json = serde_json::to_string(&now).expect("JSON");
        assert_eq!(serde_json::from_str::<NetworkCounters>(&json).expect("counters"), now);
        let nothing = now.since(&now);
        assert_eq!(nothing.count("Udp", "OutDatagrams"), Some(0));
        assert_eq!(nothing.interfaces[0].count("tx_bytes"), Some(0));
    }
}
