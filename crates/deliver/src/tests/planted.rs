//! Bugs that a test switches on for its thread, at the places where they would be made: a simulation that does not find
//! each of them has a hole. Builds that are no tests have none of this.

/// What would be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlantedBug {
    /// A part is gone on with by its journal alone: no block is read.
    JournalBelieved,
    /// So is one of another content of the server's file.
    OtherContent,
    /// A journal's torn line stays, and the next are written behind it.
    TornLine,
    /// A piece that a stream gives back is nobody's.
    LostPiece,
    /// A piece that one stream has is given to another.
    TwicePiece,
    /// A block that differs from the server's stays.
    DifferentBlock,
    /// A block counts as there before it was written.
    EarlyBlock,
    /// What failed is tried again at once.
    NoWait,
    /// … and never given up.
    EndlessTries,
    /// A server that is busy is not waited for as long as it asks.
    BusyAskedAtOnce,
    /// What a server refuses for good is asked for again.
    RefusedAskedAgain,
    /// A connection is as good as any while a byte comes now and then.
    EachByteIsProgress,
    /// A small file's sum is not compared.
    SmallSumIgnored,
    /// A server gives a file its name by any sum.
    SumNotCompared,
    /// A file that changes while it is put is not noticed.
    ChangeUnnoticed,
    /// What a failed try sent counts as there.
    SentForNothingCounts,
}
