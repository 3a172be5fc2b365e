//! The forms of `lspci` for programs, `-mm` and `-vmm`, written again as the forms for people are.

use crate::probe::pci::address::hexadecimal;

/// `00:1f.2 "SATA controller [0106]" "Intel [8086]" "A chip [2922]" -r02 -p01 "Dell" "A board"`: the same in the form for people.
/// None: it is no such line.
pub(super) fn line(text: &str) -> Option<String> {
    let (address, rest) = text.split_once(" \"")?;
    let mut quoted = rest.split('"').step_by(2);
    let (class, vendor, device) = (quoted.next()?, quoted.next()?, quoted.next()?);
    Some(format!("{address} {}", function_line(class, vendor, device)))
}

/// Class, vendor and device as the first line of a function has them.
fn function_line(class: &str, vendor: &str, device: &str) -> String {
    let (vendor_name, vendor_id) = id(vendor);
    let (device_name, device_id) = id(device);
    let name = format!("{vendor_name} {device_name}");
    match vendor_id.zip(device_id) {
        Some((vendor, device)) if name.trim().is_empty() => format!("{class}: {vendor}:{device}"),
        Some((vendor, device)) => format!("{class}: {name} [{vendor}:{device}]"),
        None => format!("{class}: {name}"),
    }
}

/// `Intel Corporation [8086]`, `8086` or a name alone: the name, and the number.
fn id(text: &str) -> (&str, Option<&str>) {
    let bracketed = text.rsplit_once(" [").and_then(|(name, last)| Some((name, last.strip_suffix(']')?)));
    let (name, number) =
        bracketed.unwrap_or(if hexadecimal(text, 4..=4).is_some() { ("", text) } else { (text, "") });
    (name, Some(number).filter(|number| hexadecimal(number, 4..=4).is_some()))
}

/// The lines `Slot:`, `Class:`, … of `-vmm`, gathered until a function is whole.
#[derive(Default)]
pub(super) struct Records {
    slot: Option<String>,
    class: String,
    vendor: String,
    device: String,
}

impl Records {
    /// A line of such a record as a line of the form for people: empty where it waits for others. None: it is no such line.
    pub(super) fn line(&mut self, text: &str) -> Option<String> {
        let (key, value) = text.split_once(":\t")?;
        match key {
            "Slot" => self.slot = Some(value.to_string()),
            "Class" => self.class = value.to_string(),
            "Vendor" => self.vendor = value.to_string(),
            "Device" => {
                self.device = value.to_string();
                let slot = self.slot.take()?;
                return Some(format!("{slot} {}", function_line(&self.class, &self.vendor, &self.device)));
            }
            "Driver" => return Some(format!("\tKernel driver in use: {value}")),
            "NUMANode" => return Some(format!("\tNUMA node: {value}")),
            "PhySlot" => return Some(format!("\tPhysical Slot: {value}")),
            "SVendor" | "SDevice" | "Rev" | "ProgIf" | "Module" | "IOMMUGroup" => {}
            _ => return None,
        }
        Some(String::new())
    }
}
