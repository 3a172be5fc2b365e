//! How often one byte crosses the memory bus: the one formula for a run and for a flow over parts.

/// What happens to a byte between its source and its sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MemoryPassage {
    /// A device writes it into memory.
    pub from_device: bool,
    /// The kernel copies it out of a socket's buffers: a remote disk over TCP.
    pub received: bool,
    /// It is copied out of the page cache.
    pub page_cache: bool,
    /// It is copied into a socket.
    pub socket: bool,
    /// How it leaves memory.
    pub leaves: Leaves,
    /// A checksum reads it once more.
    pub verify: bool,
}

/// How a byte leaves memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    /// It does not: memory is the sink.
    Stays,
    /// A device reads it from memory.
    ByDevice,
    /// A receiver on this machine copies it.
    Copied,
}

impl MemoryPassage {
    /// Crossings of the memory bus: one for each access of a device, two for each copy.
    pub(super) fn touches(&self) -> f64 {
        let one = |crosses: bool| if crosses { 1.0 } else { 0.0 };
        let leaves = match self.leaves {
            Leaves::Stays => 0.0,
            Leaves::ByDevice => 1.0,
            Leaves::Copied => 2.0,
        };
        one(self.from_device)
            + 2.0 * one(self.received)
            + 2.0 * one(self.page_cache)
            + 2.0 * one(self.socket)
            + leaves
            + one(self.verify)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_copy_crosses_twice_and_each_device_once() {
        let direct = MemoryPassage {
            from_device: true,
            received: false,
            page_cache: false,
            socket: true,
            leaves: Leaves::ByDevice,
            verify: false,
        };
        assert_eq!(direct.touches(), 4.0);
        assert_eq!(MemoryPassage { page_cache: true, ..direct }.touches(), 6.0);
        assert_eq!(MemoryPassage { received: true, ..direct }.touches(), 6.0);
        assert_eq!(MemoryPassage { socket: false, ..direct }.touches(), 2.0);
        assert_eq!(MemoryPassage { leaves: Leaves::Copied, verify: true, ..direct }.touches(), 6.0);
        assert_eq!(MemoryPassage { socket: false, leaves: Leaves::Stays, ..direct }.touches(), 1.0);
    }
}
