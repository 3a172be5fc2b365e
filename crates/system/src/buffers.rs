//! The buffer pool: one region of memory, cut into equal blocks that are handed out as leases.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of the region: a huge page, so that one can back it.
const REGION_ALIGNMENT_BYTES: usize = 2 << 20;

/// One anonymous mapping; unmapped when the pool and the last lease are gone.
#[derive(Debug)]
pub(crate) struct Region {
    start: NonNull<u8>,
    mapped_bytes: usize,
}

// SAFETY: the region is plain memory; leases give exclusive access to disjoint parts of it.
unsafe impl Send for Region {}
// SAFETY: as above; the region itself offers no access, only its address and length.
unsafe impl Sync for Region {}

impl Region {
    pub(crate) fn map(bytes: usize) -> io::Result<Self> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        let mapped_bytes = bytes.next_multiple_of(REGION_ALIGNMENT_BYTES);
        // SAFETY: a new anonymous private mapping at an address of the kernel's choice touches no memory of
        // ours.
        let address = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapped_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        // SAFETY: advice on our own mapping; transparent huge pages are asked for, and a refusal changes nothing.
        let _ = unsafe { madvise(address, mapped_bytes, Advice::LinuxHugepage) };
        let start = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Region { start, mapped_bytes })
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no lease refers to it any more (each holds a reference count).
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.mapped_bytes) };
    }
}

/// Blocks of one region. A worker has its own pool; nothing is allocated after it is made.
#[derive(Debug)]
pub struct Pool {
    pub(crate) region: Arc<Region>,
    /// Bytes from one block to the next.
    pub(crate) stride: usize,
    blocks: usize,
    free: Vec<Lease>,
}

impl Pool {
    /// `blocks` blocks of `block_bytes` each (rounded up to 4 KiB so that direct I/O finds them aligned).
    pub fn new(blocks: usize, block_bytes: usize) -> io::Result<Self> {
        // Lengths in the kernel's requests and answers have 31 bits.
        if block_bytes > i32::MAX as usize || blocks > u32::MAX as usize {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let stride = block_bytes.max(1).next_multiple_of(4096);
        let total = stride.checked_mul(blocks).ok_or(io::ErrorKind::OutOfMemory)?;
        let region = Arc::new(Region::map(total)?);
        let free = (0..blocks)
            .rev()
            .map(|index| Lease {
                region: Arc::clone(&region),
                offset: index * stride,
                number: index as u32,
                bytes: block_bytes as u32,
            })
            .collect();
        Ok(Pool { region, stride, blocks, free })
    }

    /// Blocks in all, free or not.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// A block, if one is free.
    pub fn take(&mut self) -> Option<Lease> {
        self.free.pop()
    }

    /// Gives a block back.
    pub fn give_back(&mut self, lease: Lease) {
        debug_assert!(Arc::ptr_eq(&lease.region, &self.region), "a lease of another pool");
        self.free.push(lease);
    }

    /// Blocks that are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }
}

/// Exclusive use of one block. Its holder may read and write it; nobody else can, the kernel
/// included.
#[derive(Debug)]
pub struct Lease {
    region: Arc<Region>,
    offset: usize,
    number: u32,
    bytes: u32,
}

impl Lease {
    /// Its place in the pool, from 0: no other block of the pool has it.
    pub fn number(&self) -> usize {
        self.number as usize
    }

    /// Length, bytes.
    pub fn len(&self) -> usize {
        self.bytes as usize
    }

    /// A block of this region.
    pub(crate) fn is_of(&self, region: &Arc<Region>) -> bool {
        Arc::ptr_eq(&self.region, region)
    }

    /// A lease of no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The block's bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the block lies inside the region, which the reference count keeps mapped; this lease alone
        // covers it.
        unsafe { std::slice::from_raw_parts(self.pointer(), self.len()) }
    }

    /// The block's bytes, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(), self.len()) }
    }

    pub(crate) fn pointer(&self) -> *mut u8 {
        // SAFETY: `offset + bytes` is within the region by construction in `Pool::new`.
        unsafe { self.region.start().add(self.offset) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_disjoint() {
        let mut pool = Pool::new(3, 5000).expect("a small pool");
        let mut leases: Vec<Lease> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(leases.len(), 3);
        for (value, lease) in leases.iter_mut().enumerate() {
            assert!((lease.pointer() as usize).is_multiple_of(4096));
            lease.bytes_mut().fill(value as u8 + 1);
        }
        for (value, lease) in leases.iter().enumerate() {
            assert!(lease.bytes().iter().all(|byte| *byte == value as u8 + 1));
        }
    }

    #[test]
    fn a_lease_outlives_its_pool() {
        let mut pool = Pool::new(1, 4096).expect("a small pool");
        let mut lease = pool.take().expect("one block");
        drop(pool);
        lease.bytes_mut()[4095] = 7;
        assert_eq!(lease.bytes()[4095], 7);
    }
}
