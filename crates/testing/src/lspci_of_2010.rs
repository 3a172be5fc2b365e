//! The listing of SARA's D1.3, section 5: a 10 Gb/s card of 2.5 GT/s and eight lanes in a slot of four.

/// SARA D1.3 §5: a card that is a “PCIe v2.0 (2.5GT/s)”, in a slot with four lanes. Without indentation, as
/// the document has it.
pub const CARD: &str = include_str!("../../../fixtures/listings/lspci-2010-card.txt");

/// The same section: where the card is …
pub const TREE: &str = include_str!("../../../fixtures/listings/lspci-2010-tree.txt");

/// … and what its slot can do.
pub const SLOT: &str = include_str!("../../../fixtures/listings/lspci-2010-slot.txt");
