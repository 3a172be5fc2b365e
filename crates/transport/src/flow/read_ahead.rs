//! How many blocks a worker holds for its sink, those that are being read included: as few as keep the sink
//! busy, and as many as there are where the source is the slower end.
//!
//! Where the source limits, each pause of the sink has to be bridged by blocks that wait for it, or the device
//! stands still and the time is lost. Where the sink limits, what waits long falls out of the cache before it
//! is copied out: 16 blocks of 1 MiB cost a sixth more CPU a byte than 8 did, from tmpfs to loopback.
//! Which of both limits shows by itself: a sink that is ready while nothing is there to send.

/// Being read while one waits: fewer make no pipeline.
const FEWEST: usize = 2;
/// Sends without a wait for the source before one block fewer is held, until the first wait.
const SENDS_AT_FIRST: u32 = 8;
/// And from then on: each try may cost the sink a wait for the device.
const SENDS_LATER: u32 = 1024;

/// The blocks that are held, and what they are changed by.
#[derive(Debug)]
pub(super) struct ReadAhead {
    blocks: usize,
    most: usize,
    sends: u32,
    /// Sends without a wait before fewer are tried.
    sends_before_fewer: u32,
}

impl ReadAhead {
    /// Begins with as many as there are reads in flight; `most` are there.
    pub(super) fn new(depth: usize, most: usize) -> Self {
        let most = most.max(1);
        ReadAhead { blocks: depth.clamp(1, most), most, sends: 0, sends_before_fewer: SENDS_AT_FIRST }
    }

    /// Blocks that are held at most, read or being read.
    pub(super) fn blocks(&self) -> usize {
        self.blocks
    }

    /// A block went out while the next was there already.
    pub(super) fn sent_with_more_ready(&mut self) {
        self.sends += 1;
        if self.sends >= self.sends_before_fewer {
            self.sends = 0;
            self.blocks = (self.blocks - 1).max(FEWEST.min(self.most));
        }
    }

    /// The sink waits, and nothing is there.
    pub(super) fn ran_dry(&mut self) {
        self.blocks = (self.blocks + self.blocks.div_ceil(4)).min(self.most);
        self.sends = 0;
        self.sends_before_fewer = SENDS_LATER;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_source_gets_all_blocks_and_a_slow_sink_few() {
        let mut ahead = ReadAhead::new(8, 16);
        (0..4).for_each(|_| ahead.ran_dry());
        assert_eq!(ahead.blocks(), 16);
        let mut ahead = ReadAhead::new(8, 16);
        (0..48).for_each(|_| ahead.sent_with_more_ready());
        assert_eq!(ahead.blocks(), 2);
        (0..1000).for_each(|_| ahead.sent_with_more_ready());
        assert_eq!(ahead.blocks(), 2);
    }

    /// A device that needs five in flight to keep up with the sink is asked for fewer once in a thousand
    /// blocks, no more.
    #[test]
    fn what_the_source_needs_is_found_and_kept() {
        let mut ahead = ReadAhead::new(8, 16);
        let mut waits = 0;
        for _ in 0..20_000 {
            if ahead.blocks() < 5 {
                ahead.ran_dry();
                waits += 1;
            } else {
                ahead.sent_with_more_ready();
            }
        }
        assert!(waits <= 20, "{waits}");
        assert!((5..=7).contains(&ahead.blocks()), "{ahead:?}");
    }

    #[test]
    fn a_pool_of_one_block_stays_at_one() {
        let mut ahead = ReadAhead::new(1, 1);
        ahead.ran_dry();
        (0..100).for_each(|_| ahead.sent_with_more_ready());
        assert_eq!(ahead.blocks(), 1);
    }
}
