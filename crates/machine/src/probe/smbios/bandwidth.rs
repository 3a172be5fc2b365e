//! What the channels carry by the clock that the firmware configured: transfers per second × data width.

use super::processor::Channels;
use crate::probe::{ChannelState, MemoryChannel, MemoryModule};
use linerate_facts::fact::Fact;
use std::collections::BTreeMap;

/// Faster modules are not sold; firmware with such figures has them from somewhere else in its memory.
const MOST_MT_PER_SECOND: u32 = 20_000;

/// Data bits that a module moves in one transfer; `None` where the firmware reports nothing credible.
///
/// A module that is plugged has 64 (JEDEC MO-207 and its like), whatever the firmware makes of ECC: of 14,600
/// server modules it called 72 bits data in 260. Soldered memory has the width that is reported.
pub(super) fn data_bits(module: &MemoryModule) -> Option<u32> {
    let plugged = matches!(module.form.as_str(), "DIMM" | "SODIMM" | "FB-DIMM" | "RIMM" | "SRIMM");
    match module.data_width_bits.known() {
        Some(bits @ (16 | 32 | 64)) => Some(*bits),
        Some(72) => Some(64),
        Some(40) => Some(32),
        _ => plugged.then_some(64),
    }
}

/// The configured speed of a module, where it can be.
fn configured(module: &MemoryModule) -> Fact<u32> {
    let speed = match &module.configured_mt_per_second {
        Fact::Known(speed) => *speed,
        Fact::Unknown { why } => {
            return Fact::unknown(format!("configured clock of {}: {why}", module_name(module)));
        }
    };
    let slowest = match module.kind.as_str() {
        "DDR2" | "DDR2 FB-DIMM" => 400,
        "DDR3" => 800,
        "DDR4" => 1600,
        "DDR5" => 3200,
        _ => 0,
    };
    let kind = &module.kind;
    match speed {
        ..MOST_MT_PER_SECOND if speed >= slowest => Fact::Known(speed),
        ..MOST_MT_PER_SECOND => Fact::unknown(format!(
            "configured clock of {}: {speed} is below the slowest {kind}, {slowest} MT/s; the firmware may \
             mean MHz, half of it",
            module_name(module)
        )),
        _ => Fact::unknown(format!("configured clock of {}: {speed} MT/s cannot be", module_name(module))),
    }
}

fn module_name(module: &MemoryModule) -> String {
    match module.locator.as_str() {
        "" => "a module".into(),
        locator => locator.to_string(),
    }
}

/// The channels of the modules, ascending, with what is on them.
pub(super) fn states(modules: &[MemoryModule]) -> Vec<ChannelState> {
    let mut channels: BTreeMap<MemoryChannel, Vec<&MemoryModule>> = BTreeMap::new();
    for module in modules {
        if let Fact::Known(channel) = &module.channel {
            channels.entry(*channel).or_default().push(module);
        }
    }
    channels.into_iter().map(|(channel, slots)| state(channel, &slots)).collect()
}

fn state(channel: MemoryChannel, slots: &[&MemoryModule]) -> ChannelState {
    let populated: Vec<&MemoryModule> = slots.iter().copied().filter(|module| module.populated()).collect();
    let empty = || Fact::unknown("the channel is empty");
    let configured = slowest(populated.iter().map(|module| configured(module))).unwrap_or_else(empty);
    let bits: Option<u32> = populated.iter().map(|module| data_bits(module)).max().flatten();
    ChannelState {
        channel,
        slots: u32::try_from(slots.len()).unwrap_or(u32::MAX),
        populated: u32::try_from(populated.len()).unwrap_or(u32::MAX),
        rated_mt_per_second: slowest(populated.iter().map(|module| module.rated_mt_per_second.clone()))
            .unwrap_or_else(empty),
        bytes_per_second: match (populated.is_empty(), bits) {
            (true, _) => Fact::Known(0.0),
            (false, Some(bits)) => configured.clone().map(|speed| bytes_per_second(speed, bits)),
            (false, None) => Fact::unknown("the firmware does not report the width of the modules"),
        },
        configured_mt_per_second: configured,
    }
}

fn bytes_per_second(mt_per_second: u32, bits: u32) -> f64 {
    f64::from(mt_per_second) * 1e6 * f64::from(bits / 8)
}

/// The slowest module sets a channel's pace; one that is unknown leaves it unknown. `None`: no module.
fn slowest(speeds: impl Iterator<Item = Fact<u32>>) -> Option<Fact<u32>> {
    speeds.reduce(|slowest, speed| match (slowest, speed) {
        (Fact::Known(a), Fact::Known(b)) => Fact::Known(a.min(b)),
        (Fact::Unknown { why }, _) | (_, Fact::Unknown { why }) => Fact::unknown(why),
    })
}

/// Bandwidth of all channels together, bytes per second.
pub(super) fn rated(
    modules: &[MemoryModule],
    states: &[ChannelState],
    channels: &Fact<u32>,
    processor: Channels,
) -> Fact<f64> {
    if processor == Channels::Buffered {
        return Fact::unknown(
            "the modules are behind memory buffers, whose links to the processor bound them",
        );
    }
    let channels = match channels {
        Fact::Known(channels) => *channels,
        Fact::Unknown { why } => return Fact::unknown(format!("memory channels: {why}")),
    };
    if states.is_empty() {
        return equal_channels(modules, channels);
    }
    let mut sum = 0.0;
    for state in states {
        match &state.bytes_per_second {
            Fact::Known(rate) => sum += rate,
            Fact::Unknown { why } => return Fact::unknown(why.clone()),
        }
    }
    Fact::Known(sum)
}

/// Only the number of channels is known: enough where all modules run alike.
fn equal_channels(modules: &[MemoryModule], channels: u32) -> Fact<f64> {
    let populated = || modules.iter().filter(|module| module.populated());
    let speed = match slowest(populated().map(configured)) {
        Some(Fact::Known(speed)) => speed,
        Some(Fact::Unknown { why }) => return Fact::unknown(why),
        None => return Fact::unknown("no slot holds a module"),
    };
    let alike = populated().all(|module| configured(module) == Fact::Known(speed));
    let bits = populated().map(data_bits).reduce(|a, b| a.filter(|_| a == b)).flatten();
    match bits.filter(|_| alike) {
        Some(bits) => Fact::Known(f64::from(channels) * bytes_per_second(speed, bits)),
        None => Fact::unknown("the modules run at different rates, and their channels are unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(socket: u32, channel: u32, size: u64, speeds: (u32, u32)) -> MemoryModule {
        MemoryModule {
            locator: format!("S{socket}C{channel}"),
            size_bytes: Fact::Known(size),
            kind: "DDR4".into(),
            form: "DIMM".into(),
            data_width_bits: Fact::Known(64),
            rated_mt_per_second: Fact::Known(speeds.0),
            configured_mt_per_second: Fact::Known(speeds.1),
            channel: Fact::Known(MemoryChannel { socket, channel }),
            ..Default::default()
        }
    }

    fn rate(modules: &[MemoryModule], channels: u32) -> Fact<f64> {
        rated(modules, &states(modules), &Fact::Known(channels), Channels::Unknown)
    }

    #[test]
    fn the_slowest_module_of_each_channel_counts() {
        let modules = [
            module(0, 0, 1, (2933, 2666)),
            module(0, 0, 1, (2666, 2400)),
            module(0, 1, 0, (2933, 2933)),
            module(1, 0, 1, (2933, 2933)),
        ];
        let states = states(&modules);
        assert_eq!(
            states.iter().map(|state| (state.slots, state.populated)).collect::<Vec<_>>(),
            [(2, 2), (1, 0), (1, 1)]
        );
        assert_eq!(states[0].rated_mt_per_second, Fact::Known(2666));
        assert_eq!(states[0].configured_mt_per_second, Fact::Known(2400));
        assert_eq!(states[1].bytes_per_second, Fact::Known(0.0));
        assert_eq!(states[1].configured_mt_per_second.why(), Some("the channel is empty"));
        assert_eq!(rate(&modules, 2), Fact::Known((2400.0 + 2933.0) * 1e6 * 8.0));
    }

    #[test]
    fn only_the_number_of_channels() {
        let alone = |speed| MemoryModule { channel: Fact::unknown("-"), ..module(0, 0, 1, (3200, speed)) };
        assert_eq!(rate(&[alone(3200), alone(3200), alone(3200)], 2), Fact::Known(2.0 * 3200e6 * 8.0));
        let unlike = rate(&[alone(3200), alone(2933)], 2);
        assert_eq!(unlike.why(), Some("the modules run at different rates, and their channels are unknown"));
    }

    #[test]
    fn clocks_that_cannot_be() {
        let why = |speed, kind: &str| {
            let module = MemoryModule { kind: kind.into(), ..module(0, 0, 1, (1600, speed)) };
            rate(&[module], 1).why().map(String::from)
        };
        assert!(why(667, "DDR3").is_some_and(|why| why.contains("667 is below the slowest DDR3, 800 MT/s")));
        assert!(why(32_768, "DDR3").is_some_and(|why| why.contains("32768 MT/s cannot be")));
        assert_eq!(why(667, "DDR2"), None);
        let without_clock =
            MemoryModule { configured_mt_per_second: Fact::unknown("unknown"), ..module(0, 0, 1, (1, 1)) };
        assert_eq!(rate(&[without_clock], 1).why(), Some("configured clock of S0C0: unknown"));
    }

    #[test]
    fn widths() {
        let with = |form: &str, bits: Option<u32>| {
            let data_width_bits = Fact::from_option(bits, "-");
            data_bits(&MemoryModule { form: form.into(), data_width_bits, ..Default::default() })
        };
        assert_eq!(with("DIMM", Some(72)), Some(64), "ECC is not payload");
        assert_eq!(with("DIMM", Some(41_544)), Some(64), "a plugged module has 64");
        assert_eq!(with("DIMM", None), Some(64));
        assert_eq!(with("Row Of Chips", Some(16)), Some(16));
        assert_eq!(with("Row Of Chips", None), None);
    }

    #[test]
    fn buffers_bound_the_modules_behind_them() {
        let modules = [module(0, 0, 1, (1066, 1066))];
        let rate = rated(&modules, &states(&modules), &Fact::Known(1), Channels::Buffered);
        assert!(rate.why().is_some_and(|why| why.contains("memory buffers")));
    }
}
