//! PCI of a machine that somebody else describes: what `lspci` printed there, and bytes of a configuration
//! space.

use linerate::probe::lspci::from_lspci;
use linerate::probe::pci::config;
use linerate::probe::{Machine, PciLink};
use linerate::topology::Topology;

/// Any text as a listing. What comes of it is a tree without rings, and can be saved.
pub fn lspci(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let devices = match from_lspci(&text) {
        Ok(devices) => devices,
        Err(error) => {
            assert!(error.to_string().len() < 1000, "{error}");
            return;
        }
    };
    assert!(!devices.is_empty() && devices.windows(2).all(|pair| pair[0].address != pair[1].address));
    let machine = Machine { pci: devices, ..Machine::default() };
    let tree = Topology::new(&machine);
    for device in &machine.pci {
        device.link.known().iter().chain(&device.link_max.known()).for_each(|link| sane(link));
        let parent = device.parent.as_deref();
        assert!(parent.is_none_or(|parent| tree.find(parent).is_some()), "{device:?}");
        let above = tree.above(device);
        assert!(above.iter().all(|bridge| bridge.address != device.address), "a ring at {}", device.address);
        tree.link(device);
        tree.max_payload(device);
    }
    serde_json::to_string(&machine.pci).expect("devices are JSON");
}

/// Any bytes as a configuration space.
pub fn pci_config(input: &[u8]) {
    let space = config::decode(input);
    space.link.known().iter().chain(&space.link_max.known()).for_each(|link| sane(link));
    for size in [&space.express.max_payload_bytes, &space.express.max_read_request_bytes] {
        assert!(size.known().is_none_or(|bytes| bytes.is_power_of_two() && (128..=4096).contains(bytes)));
    }
}

fn sane(link: &PciLink) {
    assert!((2.5..=128.0).contains(&link.gt_per_second) && (1..=32).contains(&link.width), "{link:?}");
}
