//! Memory, sockets and slots for cards as the firmware describes them: SMBIOS types 4, 9, 16 and 17, from the
//! kernel's table, a dump, or `dmidecode`'s text.
//!
//! `read(&Sysroot)`, [`from_table`], [`from_dmidecode`] → [`Firmware`]; [`apply`] puts it into a `Machine`,
//! with channels and bandwidth.

mod bandwidth;
mod channels;
mod decode;
mod error;
mod firmware;
mod locator;
mod names;
mod processor;
mod slot;
mod table;
mod text;

pub use error::FirmwareError;
pub use firmware::Firmware;

use super::{ChannelState, Machine, Socket, cloud};
use linerate_facts::fact::Fact;
use linerate_facts::sysroot::Sysroot;
use std::collections::BTreeSet;

const TABLE: &str = "/sys/firmware/dmi/tables/DMI";

/// Reads an SMBIOS table: the bytes of `/sys/firmware/dmi/tables/DMI`, or an entry point and a table as
/// `dmidecode --dump-bin` writes them.
/// A table that breaks off is no error: see [`Firmware::damage`].
pub fn from_table(bytes: &[u8]) -> Result<Firmware, FirmwareError> {
    decode::read(bytes)
}

/// Reads the text that `dmidecode` prints.
pub fn from_dmidecode(text: &str) -> Result<Firmware, FirmwareError> {
    text::read(text)
}

/// Reads either: a file that somebody gave as `dmidecode`'s output may be the table itself.
pub fn from_bytes(bytes: &[u8]) -> Result<Firmware, FirmwareError> {
    if bytes.starts_with(b"_SM") || bytes.contains(&0) {
        return from_table(bytes);
    }
    from_dmidecode(&String::from_utf8_lossy(bytes))
}

/// Reads the table of this machine or of a recorded tree. What the
/// processor reports of a hypervisor counts where the table looks like a real machine's.
pub(super) fn read(sysroot: &Sysroot, virtualisation: &Fact<String>) -> Result<Firmware, FirmwareError> {
    if !sysroot.exists(TABLE) {
        return Err(FirmwareError::NoTable);
    }
    let mut firmware = from_table(&sysroot.bytes(TABLE)?)?;
    let by_processor = virtualisation.known().filter(|name| *name != "none").cloned();
    firmware.hypervisor = firmware.hypervisor.or(by_processor);
    Ok(firmware)
}

/// Puts what the firmware tells into a machine: sockets, slots, channels, bandwidth; or why it reports nothing.
/// What else the machine holds stays.
pub fn apply(firmware: Result<Firmware, FirmwareError>, machine: &mut Machine) {
    let known = firmware.as_ref().ok().filter(|_| machine.instance.known().is_none());
    if let Some(firmware) = known {
        machine.instance = cloud::by_firmware(&firmware.maker, &firmware.product);
    }
    let memory = &mut machine.memory;
    let mut firmware = match firmware {
        Ok(firmware) => firmware,
        Err(why) => {
            memory.rated_bytes_per_second = Fact::unknown(&why);
            memory.channels = Fact::unknown(why);
            return;
        }
    };
    for socket in &mut firmware.sockets {
        let version = socket.version.known().map(String::as_str).unwrap_or_default();
        socket.memory_channels = Fact::from_option(
            processor::channels(version).own(),
            "no data sheet of this processor is known here",
        );
    }
    let inferred = channels::infer(&firmware);
    for (module, channel) in firmware.modules.iter_mut().zip(inferred.of_modules) {
        module.channel = channel;
    }
    let processor = processor::of(&firmware.sockets);
    let states = bandwidth::states(&firmware.modules);
    memory.rated_bytes_per_second =
        bandwidth::rated(&firmware.modules, &states, &inferred.populated, processor);
    memory.channel_states = without_empty_sockets(states, &firmware.sockets);
    memory.channels = inferred.populated;
    memory.channels_confidence = inferred.confidence;
    memory.modules = firmware.modules;
    memory.arrays = firmware.arrays;
    machine.cpu.sockets = firmware.sockets;
    // A hypervisor makes them up.
    if firmware.hypervisor.is_none() {
        machine.slots = firmware.slots;
    }
}

/// Slots of a socket without a processor cannot be used: their channels are not empty, they are not there.
/// Such sockets are those that hold no module, where as many processors are missing.
fn without_empty_sockets(states: Vec<ChannelState>, sockets: &[Socket]) -> Vec<ChannelState> {
    let with_modules: BTreeSet<u32> =
        states.iter().filter(|state| state.populated > 0).map(|state| state.channel.socket).collect();
    let all: BTreeSet<u32> = states.iter().map(|state| state.channel.socket).collect();
    let missing = sockets.iter().filter(|socket| !socket.populated).count();
    match all.len() - with_modules.len() <= missing {
        true => states.into_iter().filter(|state| with_modules.contains(&state.channel.socket)).collect(),
        false => states,
    }
}

#[cfg(test)]
mod tests;
