//! The PCI Express capability (PCIe base specification, 7.5.3; register names as `lspci` has them).

use super::config_space::ConfigSpace;
use super::link::{link, most_of_vector, speed_of_code};
use super::registers::Registers;
use crate::probe::machine::{Express, PortKind};
use linerate_facts::fact::Fact;

const NO_LINK: &str = "a part of the chip itself: it has no link";
const CUT_OFF: &str = "its configuration space is cut off";

/// Nothing is known, for one reason.
pub(in crate::probe) fn unknown(why: &str) -> Express {
    Express {
        port: Fact::unknown(why),
        max_payload_bytes: Fact::unknown(why),
        max_payload_supported_bytes: Fact::unknown(why),
        max_read_request_bytes: Fact::unknown(why),
        power_saving: Fact::unknown(why),
        slot: Fact::unknown(why),
        target_gt_per_second: Fact::unknown(why),
        autonomous_change: Fact::unknown(why),
    }
}

/// Decodes the capability at `at`: the link and what is at this end of it.
pub(super) fn decode(registers: &Registers, at: usize, space: &mut ConfigSpace) {
    let Some(flags) = registers.word(at + 0x02) else {
        space.express = unknown(CUT_OFF);
        return;
    };
    let port = port(flags >> 4 & 0xf);
    let integrated = matches!(port, Some(PortKind::IntegratedEndpoint | PortKind::EventCollector));
    // Link registers of an integrated endpoint are not there, or filled with what means nothing.
    let of_link = |offset: usize| if integrated { None } else { registers.word(at + offset) };
    let why = if integrated { NO_LINK } else { CUT_OFF };

    let (status, control) = (of_link(0x12).map(u32::from), of_link(0x10));
    space.link = match status {
        Some(status) => link(speed_of_code(status & 0xf), Some(status >> 4 & 0x3f)),
        None => Fact::unknown(why),
    };
    // The second set of registers came with version 2; the speeds vector with PCIe 3.
    let second = |offset: usize| (flags & 0xf >= 2).then(|| of_link(offset)).flatten();
    space.link_max = match registers.long(at + 0x0c).filter(|_| !integrated) {
        Some(most) => {
            let vector = u32::from(second(0x2c).unwrap_or(0)) & 0xfe;
            link(most_of_vector(most & 0xf, vector), Some(most >> 4 & 0x3f))
        }
        None => Fact::unknown(why),
    };
    let device_control = registers.word(at + 0x08);
    space.express = Express {
        port: Fact::from_option(port, "a kind of port that the specification does not know"),
        max_payload_bytes: size(device_control.map(|control| control >> 5 & 7)),
        max_payload_supported_bytes: size(registers.word(at + 0x04).map(|able| able & 7)),
        max_read_request_bytes: size(device_control.map(|control| control >> 12 & 7)),
        power_saving: Fact::from_option(control.map(|control| control & 3 != 0), why),
        slot: slot(registers, at, port, flags),
        target_gt_per_second: target(second(0x30), if integrated { NO_LINK } else { NO_TARGET }),
        autonomous_change: Fact::from_option(status.map(|status| status & 0x8000 != 0), why),
    };
}

const NO_TARGET: &str = "it has no register for it: before PCIe 2, or a further function of a card";

fn target(control: Option<u16>, why: &str) -> Fact<f64> {
    Fact::from_option(control.and_then(|control| speed_of_code(u32::from(control & 0xf))), why)
}

/// Kinds of ports by their code.
fn port(code: u16) -> Option<PortKind> {
    Some(match code {
        0x0 => PortKind::Endpoint,
        0x1 => PortKind::LegacyEndpoint,
        0x4 => PortKind::RootPort,
        0x5 => PortKind::SwitchUpstream,
        0x6 => PortKind::SwitchDownstream,
        0x7 => PortKind::BridgeToPci,
        0x8 => PortKind::BridgeFromPci,
        0x9 => PortKind::IntegratedEndpoint,
        0xa => PortKind::EventCollector,
        _ => return None,
    })
}

/// MaxPayload or MaxReadRequest, bytes, from its code: 128 doubled up to 4096.
fn size(code: Option<u16>) -> Fact<u32> {
    match code {
        Some(code @ 0..=5) => Fact::Known(128 << code),
        Some(_) => Fact::unknown("a size that the specification does not know"),
        None => Fact::unknown(CUT_OFF),
    }
}

fn slot(registers: &Registers, at: usize, port: Option<PortKind>, flags: u16) -> Fact<u32> {
    let may = matches!(port, Some(PortKind::RootPort | PortKind::SwitchDownstream | PortKind::BridgeFromPci));
    if !may || flags & 0x100 == 0 {
        return Fact::unknown(NO_SLOT);
    }
    match registers.long(at + 0x14) {
        Some(able) => slot_number(able >> 19),
        None => Fact::unknown(CUT_OFF),
    }
}

/// Why a function has no slot number.
pub(in crate::probe) const NO_SLOT: &str = "no slot is reported for it";

/// 0 is for what is soldered to the board; much firmware leaves it at that for slots, too.
pub(in crate::probe) fn slot_number(number: u32) -> Fact<u32> {
    match number {
        0 => Fact::unknown("slot number 0: soldered to the board, or not reported"),
        number => Fact::Known(number),
    }
}
