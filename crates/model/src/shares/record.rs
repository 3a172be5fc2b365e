//! What was counted while something was taken: by slot, cut to the window. Amounts are whole numbers (bytes, or
//! nanoseconds of CPU time), which JSON keeps to the last bit: a replay gives the same shares.

use crate::plan::ResourceKind;
use serde::{Deserialize, Serialize};

/// Shares are not looked at before so many slots: stopping as soon as they look well would lie.
pub const LEAST_SLOTS: usize = 32;
/// Half of the interval to which a share is to be known.
pub const TARGET_HALF_WIDTH: f64 = 0.15;

/// A window of fewer periods would lose too much by slopes.
const LEAST_SLOPED: u32 = 3;

/// The CPUs of another host that receives; and those of all such hosts at once.
const RECEIVER_CPUS: &str = "receiver-cpus:";
pub const ALL_RECEIVERS: &str = "receivers";

/// An experiment, as it is kept in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShareRecord {
    /// What is taken from; bit `k` of a mask is the `k`-th of these.
    pub taken: Vec<TakenResource>,
    /// What is raised in the same slots; their bits follow those of the takers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raised: Vec<RaisedSetting>,
    /// Connections or NICs that are counted apart.
    pub subflows: Vec<String>,
    /// What observation found busy and no taker takes from; as `kind:name`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busy_untaken: Vec<String>,
    pub timing: Timing,
    pub noise: NoiseReport,
    /// In the order of time; pairs are 0 and 1, 2 and 3, … A slot that was lost makes its whole pair go.
    pub slots: Vec<SlotRecord>,
}

/// What a taker takes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TakenResource {
    /// `kind:name`, e.g. `disk:vda`, `nic:eth0`, `cpu:workers`, `receiver-cpus:peer`; `disks` and `nics` where all are taken from at once.
    pub id: String,
    /// Ids of all that are taken from at once, of each as large a part; empty: of the one alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    pub kind: ResourceKind,
    pub unit: TakenUnit,
    /// Disks of one volume, links of one bond have the same word here; none: it is not one of several like parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Share of the time in which it was busy while nothing was taken; none: not known, which counts as busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TakenUnit {
    Bytes,
    CpuNanos,
}

/// The CPUs of a receiver, by the id that a plan has for the receiver.
pub fn receiver_cpus(receiver: &str) -> String {
    format!("{RECEIVER_CPUS}{}", receiver.strip_prefix("receiver:").unwrap_or(receiver))
}

/// These are the CPUs of one receiver, or of all.
pub fn is_receiver_cpus(taken: &str) -> bool {
    taken == ALL_RECEIVERS || taken.starts_with(RECEIVER_CPUS)
}

/// The id that a plan has for what was taken from.
pub fn planned_id(taken: &str) -> String {
    taken.strip_prefix(RECEIVER_CPUS).map_or_else(|| taken.into(), |host| format!("receiver:{host}"))
}

/// A setting of the flow that is raised for some slots, e.g. reads in flight from 1 to 2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaisedSetting {
    pub id: String,
    pub from: u64,
    pub to: u64,
}

/// The times of each slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timing {
    /// After the start of a slot until counting begins.
    pub settling_ms: u32,
    /// Counting lasts exactly this long: a whole number of periods.
    pub window_ms: u32,
    /// Of what shapes the flow; none where it shows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_ms: Option<u32>,
}

impl Timing {
    /// From each edge of a window, what flows counts less for so long: a period; nothing where there is none.
    pub fn slope_ms(&self) -> u32 {
        self.period_ms.filter(|period| self.window_ms >= period.saturating_mul(LEAST_SLOPED)).unwrap_or(0)
    }
}

/// What observation showed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NoiseReport {
    /// Allan deviation as a part of the flow, by averaging time in milliseconds.
    pub allan: Vec<(u32, f64)>,
    /// The same of the chosen window.
    pub at_window: f64,
    /// Seconds of taking until every share is known to ± 0.15.
    pub forecast_seconds: f64,
}

/// What was counted between two readings of all counters: a tick of 25 ms, or the window of a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareCounts {
    pub nanos: u64,
    /// Bytes of each subflow, at its end.
    pub flow: Vec<u64>,
    /// The whole use of each taken resource, the takers' included: bytes of the device's counter; busy time of the
    /// pool of CPUs without that of other programs. Where nothing counts it: the flow's bytes and what was taken.
    pub used: Vec<u64>,
    /// What each taker really got.
    pub taken: Vec<u64>,
    /// What each taker was meant to get, 0 while it is off.
    pub wanted: Vec<u64>,
    /// CPU time of each taker's own threads in nanoseconds; for a taker of CPU time the same as `taken`.
    pub own_cpu_nanos: Vec<u64>,
}

/// A slot, cut to its window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRecord {
    /// Who took, and what was raised.
    pub mask: u32,
    #[serde(flatten)]
    pub counted: ShareCounts,
}

impl SlotRecord {
    /// Of all ticks since the slot's start, in order: what lies in its window; a tick that lies partly in it counts by
    /// its part. None where the ticks end before the window does.
    ///
    /// Of a flow that comes in bursts, one at an edge of the window would be in it or not by chance: for the length of a
    /// period from either edge it counts the less the nearer to that it is.
    pub fn cut(mask: u32, ticks: &[ShareCounts], timing: &Timing) -> Option<Self> {
        let nanos = |ms: u32| u64::from(ms) * 1_000_000;
        let (from, window) = (nanos(timing.settling_ms), nanos(timing.window_ms));
        let slope = nanos(timing.slope_ms());
        let (mut counted, mut start) = (ShareCounts::default(), 0u64);
        let until = |moment: u64| counted_until(moment.saturating_sub(from).min(window), window, slope);
        for tick in ticks {
            let end = start.saturating_add(tick.nanos);
            counted.add(tick, until(end) - until(start));
            start = end;
        }
        (start >= from + window && window > 0).then_some(SlotRecord { mask, counted })
    }
}

/// Time of a window that counts, from its begin until this moment, where all counts but for slopes at both ends.
fn counted_until(moment: u64, window: u64, slope: u64) -> u64 {
    // From either end of the window.
    let on_slope =
        |nanos: u64| (u128::from(nanos) * u128::from(nanos) / (2 * u128::from(slope.max(1)))) as u64;
    match moment {
        _ if moment < slope => on_slope(moment),
        _ if moment > window - slope => window - slope - on_slope(window - moment),
        _ => moment - slope / 2,
    }
}

impl ShareCounts {
    /// Adds so many of the tick's nanoseconds.
    fn add(&mut self, tick: &ShareCounts, nanos: u64) {
        if nanos == 0 {
            return;
        }
        let part = |amount: u64| (u128::from(amount) * u128::from(nanos) / u128::from(tick.nanos)) as u64;
        let add = |sums: &mut Vec<u64>, amounts: &[u64]| {
            sums.resize(sums.len().max(amounts.len()), 0);
            sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum = sum.saturating_add(part(*amount)));
        };
        self.nanos += nanos;
        add(&mut self.flow, &tick.flow);
        add(&mut self.used, &tick.used);
        add(&mut self.taken, &tick.taken);
        add(&mut self.wanted, &tick.wanted);
        add(&mut self.own_cpu_nanos, &tick.own_cpu_nanos);
    }
}
