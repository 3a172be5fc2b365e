//! What the graphs show: the last minute, hour and day of every rate, in a memory that does not grow.
//!
//! A moment stands for the time since the one before, so it goes into every slot that this time touches, weighted by how much of it: a
//! watch with an interval of 10 s has no holes in its minute, one of 100 ms has means. The hour and the day also keep the highest moment.

use super::model::{Eight, Moment, summed};
use serde::Serialize;
use std::collections::BTreeMap;

/// Series kept at most: about 20 KB each. The ones that were silent for longest go.
const SERIES: usize = 512;

/// How much of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    Minute,
    Hour,
    Day,
}

impl Span {
    /// All, the shortest first.
    pub const ALL: [Span; 3] = [Span::Minute, Span::Hour, Span::Day];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Span::Minute => "minute",
            Span::Hour => "hour",
            Span::Day => "day",
        }
    }

    /// By its word.
    pub fn of_word(word: &str) -> Option<Span> {
        Span::ALL.into_iter().find(|span| span.word() == word)
    }

    /// Time of one slot, milliseconds.
    pub fn step_ms(self) -> i64 {
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
pub enum Kind {
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
    /// Share of all processors' time; by class.
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
    series: BTreeMap<(Kind, String), Series>,
}

/// The past of one rate, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Past {
    pub kind: Kind,
    pub name: String,
    /// Mean of each slot; none where nothing is known.
    pub mean: Vec<Option<f32>>,
    /// The highest moment in each slot.
    pub most: Vec<Option<f32>>,
}

/// The past of all rates over one span, as the page gets it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
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
        for (kind, name, value) in rates(moment) {
            self.add(kind, name, value as f32, moment);
        }
        let day_ago = moment.at_ms.saturating_sub(Span::Day.step_ms() * Span::Day.slots() as i64);
        self.series.retain(|_, series| series.seen_ms >= day_ago);
    }

    /// One rate over a span; empty where it is not known at all.
    pub fn past(&self, span: Span, kind: Kind, name: &str) -> Option<Past> {
        let series = self.series.get(&(kind, name.to_string()))?;
        Some(self.read(span, kind, name, series))
    }

    /// All rates over a span.
    pub fn told(&self, span: Span) -> Told {
        let newest_ms = self.newest[span as usize].map(|newest| newest * span.step_ms());
        let series = self.series.iter().map(|((kind, name), series)| self.read(span, *kind, name, series));
        Told { span: span.word(), step_ms: span.step_ms(), newest_ms, series: series.collect() }
    }

    fn read(&self, span: Span, kind: Kind, name: &str, series: &Series) -> Past {
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

    /// Opens the slots up to this time. A clock that was set back by more than a slot begins anew: two times cannot stand in one slot.
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

    fn add(&mut self, kind: Kind, name: &str, value: f32, moment: &Moment) {
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
fn rates(moment: &Moment) -> Vec<(Kind, &str, f64)> {
    let mut all: Vec<(Kind, &str, f64)> = Vec::new();
    let mut tell = |kind, name, value: Option<f64>| all.extend(value.map(|value| (kind, name, value)));
    for nic in &moment.nics {
        tell(Kind::NicReceive, nic.name.as_str(), nic.receive.bits_per_second);
        tell(Kind::NicSend, nic.name.as_str(), nic.send.bits_per_second);
    }
    tell(Kind::SumReceive, "", sum(summed(&moment.nics).map(|nic| nic.receive.bits_per_second)));
    tell(Kind::SumSend, "", sum(summed(&moment.nics).map(|nic| nic.send.bits_per_second)));
    for disk in &moment.disks {
        tell(Kind::DiskRead, disk.name.as_str(), disk.read.bytes_per_second);
        tell(Kind::DiskWrite, disk.name.as_str(), disk.write.bytes_per_second);
    }
    if let Some(eight) = &moment.cpus.total {
        for (class, share) in classes(eight) {
            tell(Kind::Cpu, class, Some(share));
        }
    }
    tell(Kind::Power, "", moment.energy.watts);
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

#[cfg(test)]
mod tests {
    use super::super::model::{Nic, Way};
    use super::*;

    /// A moment in which each of these NICs sent so much.
    fn moment(at_ms: i64, interval_ms: f64, sent: &[(&str, f64)]) -> Moment {
        let nic = |(name, rate): &(&str, f64)| Nic {
            name: name.to_string(),
            send: Way { bits_per_second: Some(*rate), ..Way::default() },
            ..Nic::default()
        };
        Moment { at_ms, interval_ms, nics: sent.iter().map(nic).collect(), ..Moment::default() }
    }

    fn sent(history: &History, span: Span, name: &str) -> Vec<Option<f32>> {
        history.past(span, Kind::NicSend, name).expect("a series").mean
    }

    #[test]
    fn a_minute_of_seconds_is_a_minute_and_each_slot_its_second() {
        let mut history = History::default();
        for second in 0..90 {
            history.push(&moment(second * 1000, 1000.0, &[("eth0", second as f64)]));
        }
        let minute = sent(&history, Span::Minute, "eth0");
        assert_eq!(minute.len(), 60);
        // The newest second has only begun: the moment at 89.000 s was of the second before.
        assert_eq!(minute[59], None);
        assert_eq!(minute[58], Some(89.0));
        assert_eq!(minute[0], Some(31.0));
        let hour = sent(&history, Span::Hour, "eth0");
        // 80.000 to 90.000 s: the moments 81 to 89.
        assert_eq!(hour[359], Some(85.0));
        let most = history.past(Span::Hour, Kind::NicSend, "eth0").expect("a series").most;
        assert_eq!(most[359], Some(89.0));
    }

    #[test]
    fn a_long_interval_leaves_no_holes_and_a_short_one_is_a_mean() {
        let mut history = History::default();
        history.push(&moment(100_000, 10_000.0, &[("eth0", 7.0)]));
        let minute = sent(&history, Span::Minute, "eth0");
        assert_eq!(minute.iter().flatten().count(), 10);
        assert!(minute.iter().flatten().all(|rate| *rate == 7.0));
        let mut history = History::default();
        for tenth in 1..=10 {
            history.push(&moment(5_000 + tenth * 100, 100.0, &[("eth0", tenth as f64)]));
        }
        let minute = sent(&history, Span::Minute, "eth0");
        assert!((minute[58].expect("a mean") - 5.5).abs() < 0.001, "{minute:?}");
    }

    #[test]
    fn what_was_silent_is_unknown_and_what_left_is_forgotten_after_a_day() {
        let mut history = History::default();
        history.push(&moment(1_000_500, 500.0, &[("old", 1.0), ("eth0", 1.0)]));
        history.push(&moment(1_030_500, 500.0, &[("eth0", 3.0)]));
        let minute = sent(&history, Span::Minute, "old");
        assert_eq!((minute[29], minute[59]), (Some(1.0), None));
        let both = history.past(Span::Minute, Kind::SumSend, "").expect("the sum").mean;
        assert_eq!((both[29], both[59], both[45]), (Some(2.0), Some(3.0), None));
        history.push(&moment(1_000_500 + 86_400_000, 500.0, &[("eth0", 3.0)]));
        assert!(history.past(Span::Day, Kind::NicSend, "old").is_some());
        history.push(&moment(1_001_500 + 86_400_000, 500.0, &[("eth0", 3.0)]));
        assert!(history.past(Span::Day, Kind::NicSend, "old").is_none());
    }

    #[test]
    fn a_clock_set_back_begins_anew_and_one_that_trembles_does_not() {
        let mut history = History::default();
        history.push(&moment(10_000_900, 900.0, &[("eth0", 1.0)]));
        history.push(&moment(10_001_100, 100.0, &[("eth0", 2.0)]));
        history.push(&moment(10_000_950, 100.0, &[("eth0", 3.0)]));
        assert_eq!(sent(&history, Span::Minute, "eth0")[59], Some(2.0));
        history.push(&moment(5_000_900, 500.0, &[("eth0", 4.0)]));
        let minute = sent(&history, Span::Minute, "eth0");
        assert_eq!((minute[59], minute.iter().flatten().count()), (Some(4.0), 1));
        for span in Span::ALL {
            assert_eq!(history.told(span).series[0].mean.len(), span.slots());
        }
    }

    #[test]
    fn memory_is_bounded_however_many_devices_come_and_go() {
        let mut history = History::default();
        for round in 0..40 {
            let names: Vec<String> = (0..30).map(|n| format!("veth{round}x{n}")).collect();
            let all: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 1.0)).collect();
            history.push(&moment(1_000_000 + round * 1000, 1000.0, &all));
            assert!(history.series.len() <= SERIES);
        }
        assert!(history.past(Span::Minute, Kind::NicSend, "veth39x0").is_some());
        assert!(history.past(Span::Minute, Kind::NicSend, "veth0x0").is_none());
        let crowd: Vec<String> = (0..SERIES + 50).map(|n| format!("n{n}")).collect();
        let all: Vec<(&str, f64)> = crowd.iter().map(|name| (name.as_str(), 1.0)).collect();
        history.push(&moment(2_000_000, 1000.0, &all));
        assert_eq!(history.series.len(), SERIES);
    }

    #[test]
    fn wild_times_do_no_harm() {
        let mut history = History::default();
        for (at, interval) in [(0, 1e30), (i64::MAX / 4, 1000.0), (-5, f64::NAN), (1000, -1.0), (-1, 5.0)] {
            history.push(&moment(at, interval, &[("eth0", 1.0)]));
        }
        assert_eq!(history.told(Span::Day).series[0].mean.len(), 1440);
    }
}
