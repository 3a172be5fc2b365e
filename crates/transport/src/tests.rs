//! Bugs that the simulation of admission must find.

/// What would be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub(crate) enum PlantedBug {
    /// One permit more than there are is given.
    PermitBeyond,
    /// One origin has as many as it likes.
    AllForOne,
    /// A permit does not come back.
    PermitKept,
    /// The oldest of all goes from a full list, whoever crowds it.
    OldestOfAllGoes,
    /// A token is good for ever.
    TokenForEver,
    /// Tokens outlive their test.
    TokensStay,
    /// A stream that nobody comes for stays.
    UnusedStays,
    /// Who has no stream any more owes nothing.
    DebtForgotten,
    /// Memory is counted by client.
    MemoryEach,
    /// What a stream took of its client's share does not come back.
    ShareKept,
}
