//! What the drivers and the queueing disciplines count (`ethtool -S`, `tc -s qdisc`) and the finer counters
//! of sysfs: a card may take a millisecond to answer, and some ask their firmware.

use linerate_facts::counters::{InterfaceCounters, interfaces};
use linerate_facts::sysroot::Sysroot;
use linerate_system::clock;
use std::time::Instant;

/// All interfaces at one time.
#[derive(Clone, Debug)]
pub struct DriverReading {
    pub at: Instant,
    pub interfaces: Vec<InterfaceCounters>,
}

pub(crate) fn drivers(sysroot: &Sysroot, names: &[String]) -> impl FnMut() -> DriverReading + Send + 'static {
    let (sysroot, names) = (sysroot.clone(), names.to_vec());
    move || {
        let before = clock::now();
        let interfaces = interfaces(&sysroot, &names);
        DriverReading { at: before + clock::since(before) / 2, interfaces }
    }
}
