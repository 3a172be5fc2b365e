//! How deep cores may sleep while this process works.

use std::fs::OpenOptions;
use std::io::{self, Write};

/// The kernel's door for it; open to root only, unless an administrator said otherwise.
const DEVICE: &str = "/dev/cpu_dma_latency";

/// No core sleeps deeper than asked for as long as this lives; the kernel takes it back when the process ends,
/// however it ends.
#[derive(Debug)]
pub struct Awake {
    _held: std::fs::File,
}

impl Awake {
    /// Asks for cores that wake up within this many microseconds (PM QoS,
    /// docs.kernel.org/power/pm_qos_interface.html).
    pub fn hold(microseconds: i32) -> io::Result<Awake> {
        let mut device = OpenOptions::new().write(true).open(DEVICE)?;
        device.write_all(&microseconds.to_ne_bytes())?;
        Ok(Awake { _held: device })
    }
}
