//! The firmware's tables as somebody hands them over: SMBIOS in bytes, and the text of dmidecode.

use linerate::probe::Machine;
use linerate::probe::smbios::{Firmware, FirmwareError, apply, from_bytes, from_dmidecode, from_table};

/// Any bytes as a table, bare or behind its entry point.
pub fn smbios(input: &[u8]) {
    show(from_table(input));
    show(from_bytes(input));
}

/// Any text as dmidecode's.
pub fn dmidecode(input: &[u8]) {
    show(from_dmidecode(&String::from_utf8_lossy(input)));
}

/// What comes of it can be saved and read again, counts no module twice, and carries no infinite rate.
fn show(firmware: Result<Firmware, FirmwareError>) {
    if let Err(why) = &firmware {
        let why = why.to_string();
        assert!(!why.is_empty() && why.len() < 1000 && !why.contains(char::is_control), "{why:?}");
    }
    let mut machine = Machine::default();
    apply(firmware, &mut machine);
    let memory = &machine.memory;
    let on_channels: u32 = memory.channel_states.iter().map(|state| state.populated).sum();
    let populated = memory.modules.iter().filter(|module| module.populated()).count();
    assert!(usize::try_from(on_channels).is_ok_and(|on_channels| on_channels <= populated));
    if let (Some(channels), 1..) = (memory.channels.known(), on_channels) {
        let held = memory.channel_states.iter().filter(|state| state.populated > 0).count();
        assert_eq!(usize::try_from(*channels).ok(), Some(held));
    }
    assert!(memory.rated_bytes_per_second.known().is_none_or(|rate| rate.is_finite() && *rate >= 0.0));
    let json = serde_json::to_string(&machine).expect("a machine is JSON");
    assert!(serde_json::from_str::<Machine>(&json).is_ok_and(|again| again == machine), "{json}");
}
