//! Machines that one does not own: what other tools wrote about a server, put together into one machine.

mod hwset;
mod link_rate;
pub mod lstopo;
pub mod nccl;
mod xml;

use super::lspci::LspciError;
use super::smbios::FirmwareError;
use super::{Machine, fill, lspci, nic, pci, smbios};
use linerate_facts::fact::NOT_RECORDED;
use linerate_facts::sysroot::Sysroot;
use serde_json::Value;
use thiserror::Error;
pub use xml::TopologyError;

/// A file's content and where it came from, for messages.
#[derive(Clone, Debug)]
pub struct NamedText {
    /// The file's name.
    pub name: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// What is known of a machine. Each source reports its part; where two tell the same, the one that stands first
/// here is believed.
#[derive(Clone, Debug, Default)]
pub struct ForeignSources {
    /// A recorded tree (or this machine's own).
    pub tree: Option<Sysroot>,
    /// What `lspci` printed.
    pub lspci: Option<NamedText>,
    /// What `dmidecode` printed, or the table itself. It is believed before the tree's own table, which often
    /// only root may read.
    pub dmidecode: Option<NamedText>,
    /// `lstopo` XML.
    pub lstopo: Option<NamedText>,
    /// NCCL's topology XML.
    pub nccl: Option<NamedText>,
}

/// A file that says nothing of a machine: a sentence with the file, the line, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}: {why}")]
pub struct SourceError {
    pub file: String,
    pub why: SourceFault,
}

/// What is wrong with a file, by the tool that should have written it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(transparent)]
pub enum SourceFault {
    Lspci(#[from] LspciError),
    Firmware(#[from] FirmwareError),
    Topology(#[from] TopologyError),
}

/// One machine of all sources.
pub fn machine(sources: &ForeignSources) -> Result<Machine, SourceError> {
    type Reader = fn(&str) -> Result<Machine, SourceFault>;
    let readers: [(&Option<NamedText>, &str, Reader); 3] = [
        (&sources.lspci, "lspci", from_lspci),
        (&sources.lstopo, "lstopo", |text| Ok(lstopo::from_lstopo(text)?)),
        (&sources.nccl, "NCCL", |text| Ok(nccl::from_nccl(text)?)),
    ];
    let mut parts = Vec::new();
    for (source, tool, read) in readers {
        let Some(source) = source else { continue };
        let machine = read(&String::from_utf8_lossy(&source.bytes)).map_err(|why| source.fault(why))?;
        parts.push(told_by(machine, tool));
    }
    let mut machine = sources.tree.as_ref().map(super::probe);
    let on_function = |machine: &Machine| machine.nics.iter().any(|nic| nic.pci.is_some());
    let interfaces_are_listed = machine.as_ref().is_some_and(on_function);
    for part in parts {
        machine = match machine {
            None => serde_json::from_value(part).ok(),
            Some(machine) => Some(fill::fill(machine, &part)),
        };
    }
    let mut machine = machine.unwrap_or_default();
    pci::names::name(&mut machine.pci);
    nic::by_class::add(&mut machine, interfaces_are_listed);
    if let Some(source) = &sources.dmidecode {
        let firmware = smbios::from_bytes(&source.bytes).map_err(|why| source.fault(why.into()))?;
        smbios::apply(Ok(firmware), &mut machine);
    }
    Ok(machine)
}

fn from_lspci(text: &str) -> Result<Machine, SourceFault> {
    Ok(Machine { pci: lspci::from_lspci(text)?, ..Default::default() })
}

impl NamedText {
    fn fault(&self, why: SourceFault) -> SourceError {
        SourceError { file: self.name.clone(), why }
    }
}

/// The machine's JSON with a reason where the reader had none.
fn told_by(machine: Machine, tool: &str) -> Value {
    fn give_reason(value: &mut Value, why: &str) {
        match value {
            Value::Object(fields) => match fields.get_mut("unknown") {
                Some(Value::String(text)) if text == NOT_RECORDED => *text = why.to_string(),
                _ => fields.values_mut().for_each(|value| give_reason(value, why)),
            },
            Value::Array(list) => list.iter_mut().for_each(|value| give_reason(value, why)),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(machine).unwrap_or_default();
    give_reason(&mut value, &format!("{tool} does not report"));
    value
}

#[cfg(test)]
mod tests;
