//! What the graphs show: the last minute, hour and day of every rate, in a memory that does not grow; and where the
//! sampler leaves its moments and the views find them: the newest one, and the past.
//!
//! A moment stands for the time since the one before, so it goes into every slot that this time touches,
//! weighted by how much of it: a watch with an interval of 10 s has no holes in its minute, one of 100 ms has
//! means. The hour and the day also keep the highest moment.
//!
//! Nobody makes the sampler wait. A view that is slow finds the newest moment when it comes back, and has
//! lost those between.

#[cfg(test)]
mod tests;

use crate::model::{Eight, Moment, summed};
use linerate_system::lock;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use tokio::sync::watch;

/// Series kept at most: about 20 KB each. The ones that were silent for longest go.
const SERIES: usize = 512;

/// How much of the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Span {
    #[default]
    Minute,
    Hour,
    Day,
}

impl Span {
    /// All, the shortest first.
    pub const ALL: [Span; 3] = [Span::Minute, Span::Hour, Span::Day];

    /// Its word.
    pub fn word(self) -> &'static str {
        self.into()
    }

    /// By its word.
    pub(crate) fn of_word(word: &str) -> Option<Span> {
        Span::ALL.into_iter().find(|span| span.word() == word)
    }

    /// Time of one slot, milliseconds.
    pub(crate) fn step_ms(self) -> i64 {
        match self {
            Span::Minute => 1_000,
            Span::Hour => 10_000,
            Span::Day => 60_000,
        }
    }

    /// Slots kept.
    pub fn slots(self) -> usize {
        match self {
            Span::Minute => 60,
            Span::Hour => 360,
            Span::Day => 1440,
        }
    }
}

/// What a series is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeriesKind {
    /// Bits per second that a NIC received, as it counts.
    NicReceive,
    /// … that it sent.
    NicSend,
    /// Of all NICs together, each packet once; without a name.
    SumReceive,
    SumSend,
    /// Bytes per second.
    DiskRead,
    DiskWrite,
    /// Share of all CPUs' time; by class.
    Cpu,
    /// Watts by the best meter; without a name.
    Power,
}

/// One slot: the sum of value × milliseconds, the milliseconds, the highest value.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    sum: f32,
    weight_ms: f32,
    most: f32,
}

#[derive(Clone)]
struct Series {
    slots: [Vec<Slot>; 3],
    /// The last moment that it had a value in, Unix milliseconds.
    seen_ms: i64,
}

/// The past of every rate.
#[derive(Clone, Default)]
pub struct History {
    /// By span, the number of the newest slot: Unix milliseconds ÷ step.
    newest: [Option<i64>; 3],
    series: BTreeMap<(SeriesKind, String), Series>,
}

/// The past of one rate, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Past {
    pub kind: SeriesKind,
    pub name: String,
    /// Mean of each slot; none where nothing is known.
    pub mean: Vec<Option<f32>>,
    /// The highest moment in each slot.
    pub most: Vec<Option<f32>>,
}

/// The past of all rates over one span, as the page gets it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryReport {
    pub span: &'static str,
    pub step_ms: i64,
    /// Start of the newest slot, Unix milliseconds; none before the first rates.
    pub newest_ms: Option<i64>,
    pub series: Vec<Past>,
}

impl History {
    /// Takes in a moment; the first one of a watch has no rates.
    pub fn push(&mut self, moment: &Moment) {
        if moment.interval_ms.is_nan() || moment.interval_ms <= 0.0 {
            return;
        }
        for span in Span::ALL {
            self.go_on(span, moment.at_ms);
        }
        for (kind, name, value) in rates_of(moment) {
            self.add(kind, name, value as f32, moment);
        }
        let day_ago = moment.at_ms.saturating_sub(Span::Day.step_ms() * Span::Day.slots() as i64);
        self.series.retain(|_, series| series.seen_ms >= day_ago);
    }

    /// One rate over a span; empty where it is not known at all.
    pub fn past(&self, span: Span, kind: SeriesKind, name: &str) -> Option<Past> {
        let series = self.series.get(&(kind, name.to_string()))?;
        Some(self.read(span, kind, name, series))
    }

    /// All rates over a span.
    pub fn report(&self, span: Span) -> HistoryReport {
        let newest_ms = self.newest[span as usize].map(|newest| newest * span.step_ms());
        let series = self.series.iter().map(|((kind, name), series)| self.read(span, *kind, name, series));
        HistoryReport { span: span.word(), step_ms: span.step_ms(), newest_ms, series: series.collect() }
    }

    fn read(&self, span: Span, kind: SeriesKind, name: &str, series: &Series) -> Past {
        let newest = self.newest[span as usize].unwrap_or(0);
        let slots = &series.slots[span as usize];
        let in_order = || {
            let oldest = newest + 1 - slots.len() as i64;
            (oldest..=newest).map(|number| slots[place(number, slots.len())])
        };
        let known = |slot: &Slot| slot.weight_ms > 0.0;
        let mean = in_order().map(|slot| known(&slot).then(|| slot.sum / slot.weight_ms)).collect();
        let most = in_order().map(|slot| known(&slot).then_some(slot.most)).collect();
        Past { kind, name: name.to_string(), mean, most }
    }

    /// Opens the slots up to this time. A clock that was set back by more than a slot begins again: two times
    /// cannot are in one slot.
    fn go_on(&mut self, span: Span, at_ms: i64) {
        let number = at_ms.div_euclid(span.step_ms());
        let newest = self.newest[span as usize].unwrap_or(number.saturating_sub(span.slots() as i64));
        let set_back = number < newest - 1;
        let from = if set_back { number + 1 - span.slots() as i64 } else { newest + 1 };
        let from = from.max(number + 1 - span.slots() as i64);
        for series in self.series.values_mut() {
            let slots = &mut series.slots[span as usize];
            (from..=number).for_each(|number| slots[place(number, span.slots())] = Slot::default());
        }
        self.newest[span as usize] = Some(if set_back { number } else { newest.max(number) });
    }

    fn add(&mut self, kind: SeriesKind, name: &str, value: f32, moment: &Moment) {
        let key = (kind, name.to_string());
        if !self.series.contains_key(&key) && self.series.len() >= SERIES {
            let silent = self.series.iter().min_by_key(|(_, series)| series.seen_ms);
            match silent.filter(|(_, series)| series.seen_ms < moment.at_ms) {
                Some((silent, _)) => self.series.remove(&silent.clone()),
                // All are of this moment: more than this is shown nowhere.
                None => return,
            };
        }
        let empty =
            || Series { slots: Span::ALL.map(|span| vec![Slot::default(); span.slots()]), seen_ms: 0 };
        let series = self.series.entry(key).or_insert_with(empty);
        series.seen_ms = moment.at_ms;
        for span in Span::ALL {
            let Some(newest) = self.newest[span as usize] else { continue };
            series.put(span, newest, moment, value);
        }
    }
}

impl Series {
    /// The value into every slot that the moment's time touches.
    fn put(&mut self, span: Span, newest: i64, moment: &Moment, value: f32) {
        let step = span.step_ms() as f64;
        let end = moment.at_ms as f64;
        let start = end - moment.interval_ms;
        let first = ((start / step).floor() as i64).max(newest + 1 - span.slots() as i64);
        let last = moment.at_ms.div_euclid(span.step_ms()).min(newest);
        let slots = &mut self.slots[span as usize];
        for number in first..=last {
            let from = (number as f64 * step).max(start);
            let to = ((number + 1) as f64 * step).min(end);
            let slot = &mut slots[place(number, span.slots())];
            // A moment that ends where a slot begins says nothing of it.
            if to <= from {
                continue;
            }
            slot.most = if slot.weight_ms > 0.0 { slot.most.max(value) } else { value };
            slot.sum += value * (to - from) as f32;
            slot.weight_ms += (to - from) as f32;
        }
    }
}

fn place(number: i64, slots: usize) -> usize {
    number.rem_euclid(slots as i64) as usize
}

/// The rates of a moment that graphs are drawn of.
fn rates_of(moment: &Moment) -> Vec<(SeriesKind, &str, f64)> {
    let mut all: Vec<(SeriesKind, &str, f64)> = Vec::new();
    let mut tell = |kind, name, value: Option<f64>| all.extend(value.map(|value| (kind, name, value)));
    for nic in &moment.nics {
        tell(SeriesKind::NicReceive, nic.name.as_str(), nic.receive.bits_per_second);
        tell(SeriesKind::NicSend, nic.name.as_str(), nic.send.bits_per_second);
    }
    tell(SeriesKind::SumReceive, "", sum(summed(&moment.nics).map(|nic| nic.receive.bits_per_second)));
    tell(SeriesKind::SumSend, "", sum(summed(&moment.nics).map(|nic| nic.send.bits_per_second)));
    for disk in &moment.disks {
        tell(SeriesKind::DiskRead, disk.name.as_str(), disk.read.bytes_per_second);
        tell(SeriesKind::DiskWrite, disk.name.as_str(), disk.write.bytes_per_second);
    }
    if let Some(eight) = &moment.cpus.total {
        for (class, share) in classes(eight) {
            tell(SeriesKind::Cpu, class, Some(share));
        }
    }
    tell(SeriesKind::Power, "", moment.energy.watts);
    all
}

/// Of those that are known; none where none is.
pub fn sum(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.flatten().fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

/// The classes of CPU time but idle, in the order in which they are stacked.
pub fn classes(eight: &Eight) -> [(&'static str, f64); 7] {
    [
        ("user", eight.user),
        ("nice", eight.nice),
        ("system", eight.system),
        ("softirq", eight.softirq),
        ("irq", eight.irq),
        ("steal", eight.steal),
        ("iowait", eight.iowait),
    ]
}

/// A moment, and its JSON once for all who read it.
pub struct EncodedMoment {
    pub moment: Moment,
    json: OnceLock<String>,
}

impl EncodedMoment {
    /// One line of JSON.
    pub fn json(&self) -> &str {
        self.json.get_or_init(|| serde_json::to_string(&self.moment).unwrap_or_default())
    }
}

/// The newest moment and the past.
#[derive(Default)]
pub struct LatestMoment {
    newest: watch::Sender<Option<Arc<EncodedMoment>>>,
    history: Mutex<History>,
    ended: AtomicBool,
}

impl LatestMoment {
    /// Leaves a moment; returns at once.
    pub fn tell(&self, moment: Moment) {
        self.history().push(&moment);
        self.newest.send_replace(Some(Arc::new(EncodedMoment { moment, json: OnceLock::new() })));
    }

    /// The newest moment, once there is one.
    pub fn newest(&self) -> Option<Arc<EncodedMoment>> {
        self.newest.borrow().clone()
    }

    /// Nothing more comes: a recording has ended.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        // anyone who shows the newest moment looks again.
        self.newest.send_modify(|_| ());
    }

    /// See [`LatestMoment::end`].
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Waits for moments.
    pub fn listen(&self) -> watch::Receiver<Option<Arc<EncodedMoment>>> {
        self.newest.subscribe()
    }

    /// The past. Hold it briefly: the sampler waits for it.
    pub fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }
}
