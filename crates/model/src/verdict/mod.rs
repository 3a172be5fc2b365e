//! The verdict: what limits a flow. One judge and one table of thresholds, for the result of a run, the panel
//! beside it, `watch`, `wall` and anyone who comes later. Pure, over one [`Evidence`] that knows nothing of
//! linerate's own workers.

mod certainty;
mod each_connection;
mod evidence;
mod judge;
mod limit;
mod others;
mod sentences;
mod statement;
pub mod thresholds;

pub use certainty::{Claim, Distrust, Doubt, Verdict, verdict};
pub use each_connection::{ArrivalCount, ConnectionLimit, each_connection};
pub use evidence::{
    CpuUsers, DiskAlone, DiskEvidence, DropEvidence, Evidence, LeftOut, LinkEvidence, ProgramEvidence,
    QuotaEvidence, ReadsEvidence, ReceiverEvidence, RequestsEvidence, Route, SinkEvidence, TcpEvidence,
    VolumeEvidence, WorkerEvidence,
};
pub use judge::{
    full_of_interrupts, is_full, is_full_thread, is_nearly_full_of_interrupts, is_stolen, judge,
};
pub use limit::{Judgement, Limit, LimitKind, Missing};
pub use others::{OthersOnCpu, OthersOnDisk};
pub use sentences::share_sentence;
pub use statement::{FlowRate, NamedLimit, Statement, beside_others};

#[cfg(test)]
mod tests;
