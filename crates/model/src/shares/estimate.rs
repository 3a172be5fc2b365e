//! Shares from what was counted: differences within pairs of slots, with the schedule as the instrument for what was
//! really taken. A disk that slows lowers the flow and the taking together; the schedule knows nothing of it.

use super::fit::{Differences, Estimate, Fit};
use super::record::{ShareRecord, SlotRecord, TakenResource, TakenUnit};
use crate::plan::ResourceKind;

/// Less than this part of what was meant to be taken is not enough for a share.
const ARRIVED: f64 = 0.5;
/// … nor is less than this part of what the flow uses.
const LEAST_TAKEN: f64 = 0.03;
/// A slot that felt more than this of the one before it was too short, …
const MOST_LAG: f64 = 0.1;
/// … beyond doubt: each of several columns is asked, at the end of every cycle, so that an interval of 95 % holds too little.
const SURELY: f64 = 1.5;
/// … tested with what drifts as a cosine for every so many seconds.
const DRIFT_SECONDS: f64 = 3.0;
/// A taker's own CPU time matters from this part of the flow's on …
const SIDE_EFFECT: f64 = 0.02;
/// … where the CPUs have this share.
const SIDE_EFFECT_SHARE: f64 = 0.2;

/// So few pairs that take from all of like parts or from none have a narrow interval by chance.
const LEAST_WHOLE_PAIRS: usize = 8;

/// What a byte costs the CPUs in a stage alone may be off by this part of it beside the flow, …
const COST_ERROR: f64 = 0.25;
/// … and what the taker's own threads have of it by all of it.
const OWN_COST_ERROR: f64 = 1.0;

/// What the flow lost for what was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct ShareReport {
    /// Slots that the shares are of.
    pub slots: usize,
    /// Standard deviation of a slot's flow after the fit, as a part of the flow.
    pub noise: f64,
    /// As in the record.
    pub resources: Vec<ResourceShare>,
    /// As in the record; empty where nothing was raised.
    pub raised: Vec<RaiseEffect>,
    /// Like parts together.
    pub pools: Vec<PoolShare>,
    /// Of all known shares, with their covariance.
    pub sum: Option<Estimate>,
    /// Shares of bytes are less what taking them cost the CPUs, and how much of that is known; none: it is too little to
    /// matter.
    pub less_cpu_costs: Option<CpuCosts>,
    /// What a slot still felt of the one before it, where that is too much for these shares to hold.
    pub carry_over: Option<CarryOver>,
}

/// What of the CPU time that taking costs is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuCosts {
    /// All of it, as a stage alone has measured it.
    Whole,
    /// That of the takers' own threads.
    OfThreads,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ResourceShare {
    pub id: String,
    /// As in the record.
    pub members: Vec<String>,
    pub kind: ResourceKind,
    /// Lost ÷ taken; or why it is not known.
    pub share: Result<Estimate, NoShare>,
    /// What was taken while the taker was on, as a part of what the flow uses of it.
    pub taken: f64,
    /// The same as a part of what was meant to be taken.
    pub arrived: f64,
    /// What the resource moved more for each byte that was taken: about 0 where it is full and the taker costs it as
    /// much as the flow does, 1 where there is room.
    pub rise: Option<Estimate>,
    /// Share of the time in which it was busy while nothing was taken.
    pub busy: Option<f64>,
}

impl ResourceShare {
    /// Of all that it is the share of.
    pub fn ids(&self) -> &[String] {
        if self.members.is_empty() { std::slice::from_ref(&self.id) } else { &self.members }
    }
}

/// Why a share is not known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoShare {
    /// Too few pairs of slots, or no flow.
    TooFewSlots,
    /// The flow does not use it measurably.
    Unused,
    /// Less than half of what was meant to be taken could be taken.
    DidNotArrive { arrived: f64 },
    /// Less than 3 % of what the flow uses was taken.
    TooLittle { taken: f64 },
}

/// Change of the flow while a setting is raised, as a part of the flow.
#[derive(Clone, Debug, PartialEq)]
pub struct RaiseEffect {
    pub id: String,
    pub gain: Option<Estimate>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PoolShare {
    pub name: String,
    /// Indexes of its resources.
    pub members: Vec<usize>,
    pub share: Estimate,
    /// What was taken of each in the mean, as a part of what the flow uses of it.
    pub taken: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CarryOver {
    /// What was taken or raised.
    pub id: String,
    /// Its effect on the slot after it, as a share.
    pub lag: Estimate,
}

/// Shares of all that was taken. Never fails: what is not known says why. `costs`: what a byte of each costs the CPUs, in
/// nanoseconds, with kernel threads and interrupts, where that is known: what is taken of it costs that as well. Of a flow
/// that full CPUs limit the NIC would else have as large a share as sending has of the CPUs' time.
pub fn estimate(record: &ShareRecord, costs: &[Option<f64>]) -> ShareReport {
    let experiment = Experiment::of(record, costs);
    let flow = experiment.rates(|slot| slot.counted.flow.iter().map(|bytes| *bytes as f64).sum());
    experiment.report(&flow)
}

/// What was taken of a resource, against what the flow uses of it.
struct Usage {
    per_second: f64,
    taken: f64,
    arrived: f64,
}

impl Usage {
    fn unknown(&self) -> Option<NoShare> {
        if self.per_second.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater) {
            Some(NoShare::Unused)
        } else if self.arrived < ARRIVED {
            Some(NoShare::DidNotArrive { arrived: self.arrived })
        } else if self.taken < LEAST_TAKEN {
            Some(NoShare::TooLittle { taken: self.taken })
        } else {
            None
        }
    }
}

/// The record's whole pairs as columns: what was really taken, and what was meant to be, as parts of what the flow uses.
struct Experiment<'a> {
    record: &'a ShareRecord,
    /// CPU nanoseconds of a byte, where a stage has measured them.
    costs: &'a [Option<f64>],
    slots: Vec<&'a SlotRecord>,
    usage: Vec<Usage>,
    real: Vec<Vec<f64>>,
    meant: Vec<Vec<f64>>,
}

/// What was taken where what taking costs these pools of CPUs counts as taken from them, too.
struct Corrected {
    real: Vec<Vec<f64>>,
    cpus: Vec<usize>,
}

/// A fit whose columns are each one part's, or like parts' together.
struct Fitted<'c> {
    columns: Vec<Vec<usize>>,
    raw: Fit,
    corrected: Option<(Fit, &'c Corrected)>,
}

impl Fitted<'_> {
    /// The columns of these parts; none where one of them has a column with others.
    fn columns_of(&self, parts: &[usize]) -> Option<Vec<usize>> {
        let is_of = |column: &usize| self.columns[*column].iter().all(|part| parts.contains(part));
        let columns: Vec<usize> = (0..self.columns.len()).filter(is_of).collect();
        let covered: usize = columns.iter().map(|column| self.columns[*column].len()).sum();
        (covered == parts.len()).then_some(columns)
    }
}

impl<'a> Experiment<'a> {
    fn of(record: &'a ShareRecord, costs: &'a [Option<f64>]) -> Self {
        let whole =
            record.slots.chunks_exact(2).filter(|pair| pair.iter().all(|slot| slot.counted.nanos > 0));
        let slots = whole.flatten().collect();
        let (usage, real, meant) = (Vec::new(), Vec::new(), Vec::new());
        let mut experiment = Experiment { record, costs, slots, usage, real, meant };
        for (index, resource) in record.taken.iter().enumerate() {
            let usage = experiment.usage_of(index, resource);
            let column =
                |rates: Vec<f64>| rates.iter().map(|rate| rate / usage.per_second).collect::<Vec<_>>();
            // What did not arrive stays in the fit by its schedule: it may have had an effect all the same.
            let is_known = usage.unknown().is_none();
            let by_mask = experiment.mask_column(index);
            let real = if is_known { column(experiment.taken(index)) } else { by_mask.clone() };
            let meant = if is_known { column(experiment.wanted(index)) } else { by_mask };
            experiment.usage.push(usage);
            experiment.real.push(real);
            experiment.meant.push(meant);
        }
        for index in record.taken.len()..record.taken.len() + record.raised.len() {
            experiment.real.push(experiment.mask_column(index));
            experiment.meant.push(experiment.mask_column(index));
        }
        experiment
    }

    fn rates(&self, amount: impl Fn(&SlotRecord) -> f64) -> Vec<f64> {
        self.slots.iter().map(|slot| amount(slot) / (slot.counted.nanos as f64 / 1e9)).collect()
    }

    fn taken(&self, index: usize) -> Vec<f64> {
        self.rates(|slot| at(&slot.counted.taken, index))
    }

    fn wanted(&self, index: usize) -> Vec<f64> {
        self.rates(|slot| at(&slot.counted.wanted, index))
    }

    fn is_on(slot: &SlotRecord, index: usize) -> bool {
        slot.mask.checked_shr(index as u32).is_some_and(|mask| mask & 1 == 1)
    }

    fn mask_column(&self, index: usize) -> Vec<f64> {
        self.slots.iter().map(|slot| f64::from(u8::from(Self::is_on(slot, index)))).collect()
    }

    fn usage_of(&self, index: usize, resource: &TakenResource) -> Usage {
        // Busy time of CPUs holds what all takers cost, a device's counter what was taken from it.
        let of_takers = |slot: &SlotRecord| match (resource.unit, resource.kind) {
            (TakenUnit::CpuNanos, ResourceKind::Cpu) => {
                slot.counted.own_cpu_nanos.iter().map(|nanos| *nanos as f64).sum()
            }
            _ => at(&slot.counted.taken, index),
        };
        let per_second = mean(&self.rates(|slot| at(&slot.counted.used, index) - of_takers(slot)));
        let on = |rates: Vec<f64>| -> Vec<f64> {
            let slots = rates.iter().zip(&self.slots);
            slots.filter(|(_, slot)| Self::is_on(slot, index)).map(|(rate, _)| *rate).collect()
        };
        let (taken, wanted) = (mean(&on(self.taken(index))), mean(&on(self.wanted(index))));
        let arrived = if wanted > 0.0 { taken / wanted } else { 0.0 };
        Usage { per_second, taken: if per_second > 0.0 { taken / per_second } else { 0.0 }, arrived }
    }

    fn fit(&self, y: &[f64], real: &[Vec<f64>], columns: &[Vec<usize>], pairs: &[usize]) -> Option<Fit> {
        let used = |index: usize| self.usage.get(index).map_or(1.0, |usage| usage.per_second);
        let differences = Differences { columns, pairs, weight: &used };
        Fit::of(
            &differences.of(|slot| y[slot]),
            &differences.by_column(real),
            &differences.by_column(&self.meant),
        )
    }

    fn fitted<'c>(
        &self,
        y: &[f64],
        corrected: Option<&'c Corrected>,
        columns: &[Vec<usize>],
        pairs: &[usize],
    ) -> Option<Fitted<'c>> {
        let raw = self.fit(y, &self.real, columns, pairs)?;
        let corrected = corrected.and_then(|it| Some((self.fit(y, &it.real, columns, pairs)?, it)));
        Some(Fitted { columns: columns.to_vec(), raw, corrected })
    }

    fn report(&self, flow: &[f64]) -> ShareReport {
        let level = mean(flow);
        let y: Vec<f64> = flow.iter().map(|rate| rate / level).collect();
        let pairs: Vec<usize> = (0..if level > 0.0 { self.slots.len() / 2 } else { 0 }).collect();
        let mut pools = self.pools();
        let (alone, joined) = (self.columns(&[]), self.columns(&pools));
        let corrected = self.corrected(&y, &alone, &pairs);
        // One of like parts that gives up late what is taken of it makes the others unsure. It does not where they are taken
        // from together, which says nothing of each.
        let whole: Vec<usize> = pairs.iter().copied().filter(|pair| self.is_whole(*pair, &joined)).collect();
        let mut fits = vec![(&alone, &pairs)];
        fits.extend((!pools.is_empty() && whole.len() >= LEAST_WHOLE_PAIRS).then_some((&joined, &whole)));
        let fitted =
            |(columns, pairs): (&Vec<_>, &Vec<_>)| self.fitted(&y, corrected.as_ref(), columns, pairs);
        let fits: Vec<Fitted<'_>> = fits.into_iter().filter_map(fitted).collect();
        let share = |parts: &[usize]| {
            let shares = fits.iter().filter_map(|fit| self.share(fit, parts));
            shares.min_by(|one, other| one.half_width.total_cmp(&other.half_width))
        };
        pools.retain_mut(|pool| share(&pool.members).map(|all| pool.share = all).is_some());
        let resource = |(index, resource): (usize, &TakenResource)| ResourceShare {
            id: resource.id.clone(),
            members: resource.members.clone(),
            kind: resource.kind,
            share: self.usage[index]
                .unknown()
                .map_or_else(|| share(&[index]).ok_or(NoShare::TooFewSlots), Err),
            taken: self.usage[index].taken,
            arrived: self.usage[index].arrived,
            rise: self.rise(index, resource, &alone, &pairs),
            busy: resource.busy,
        };
        let resources: Vec<ResourceShare> = self.record.taken.iter().enumerate().map(resource).collect();
        let known: Vec<usize> =
            (0..resources.len()).filter(|index| resources[*index].share.is_ok()).collect();
        let sum = if known.is_empty() { None } else { share(&known) };
        let gain = |index: usize| Some(fits.first()?.raw.sum(&[self.usage.len() + index], 1.0));
        let raised = self.record.raised.iter().enumerate();
        ShareReport {
            slots: self.slots.len(),
            // Of the difference of two slots.
            noise: fits.first().map_or(0.0, |fit| fit.raw.noise / std::f64::consts::SQRT_2),
            raised: raised.map(|(index, it)| RaiseEffect { id: it.id.clone(), gain: gain(index) }).collect(),
            less_cpu_costs: corrected.as_ref().and_then(|it| self.cpu_costs(it, &known)),
            carry_over: self.carry_over(&y, sum),
            sum,
            pools,
            resources,
        }
    }

    /// What these have together, less what taking them cost the CPUs; none: the fit does not say.
    fn share(&self, fitted: &Fitted<'_>, parts: &[usize]) -> Option<Estimate> {
        let columns = fitted.columns_of(parts)?;
        let raw = fitted.raw.sum(&columns, -1.0);
        let costs = fitted.corrected.as_ref();
        let costs = costs.and_then(|(fit, corrected)| Some((fit, self.cpu_costs(corrected, parts)?)));
        let Some((fit, costs)) = costs else { return Some(raw) };
        let error = if costs == CpuCosts::Whole { COST_ERROR } else { OWN_COST_ERROR };
        let share = fit.sum(&columns, -1.0);
        let half_width = share.half_width.hypot(error * (raw.value - share.value));
        let share = Estimate { half_width, ..share };
        // It cannot explain more than there is.
        Some(if share.high() < 0.0 { Estimate { value: raw.value.min(0.0), ..raw } } else { share })
    }

    /// Like parts of which each can be taken from; what they have together is not known yet.
    fn pools(&self) -> Vec<PoolShare> {
        let mut pools: Vec<PoolShare> = Vec::new();
        let share = Estimate { value: 0.0, half_width: 0.0 };
        for (index, resource) in self.record.taken.iter().enumerate() {
            let Some(name) = &resource.pool else { continue };
            match pools.iter_mut().find(|pool| pool.name == *name) {
                Some(pool) => pool.members.push(index),
                None => pools.push(PoolShare { name: name.clone(), members: vec![index], share, taken: 0.0 }),
            }
        }
        let is_known = |index: &usize| self.usage[*index].unknown().is_none();
        pools.retain(|pool| pool.members.len() > 1 && pool.members.iter().all(is_known));
        for pool in &mut pools {
            pool.taken = mean(&pool.members.iter().map(|index| self.usage[*index].taken).collect::<Vec<_>>());
        }
        pools
    }

    /// Each part's own, but of like parts one.
    fn columns(&self, pools: &[PoolShare]) -> Vec<Vec<usize>> {
        let of = |index: usize| match pools.iter().find(|pool| pool.members.contains(&index)) {
            Some(pool) => (pool.members[0] == index).then(|| pool.members.clone()),
            None => Some(vec![index]),
        };
        (0..self.real.len()).filter_map(of).collect()
    }

    /// The pair's slots take from all of like parts, or from none.
    fn is_whole(&self, pair: usize, columns: &[Vec<usize>]) -> bool {
        let is_on = |index: &usize| Self::is_on(self.slots[2 * pair], *index);
        columns.iter().all(|parts| parts.iter().all(|index| is_on(index) == is_on(&parts[0])))
    }

    /// Pools of CPUs that the flow uses, here and at its receivers.
    fn cpus(&self) -> impl Iterator<Item = usize> {
        let is_pool = |at: &usize| self.record.taken[*at].unit == TakenUnit::CpuNanos;
        (0..self.usage.len()).filter(is_pool).filter(|at| self.usage[*at].unknown().is_none())
    }

    fn is_receiver(&self, index: usize) -> bool {
        self.record.taken[index].kind == ResourceKind::Receiver
    }

    fn cost(&self, index: usize) -> Option<f64> {
        self.costs.get(index).copied().flatten()
    }

    /// CPU time that a taker of bytes costs, or else its own, as a part of what the flow uses.
    fn side_effect(&self, index: usize, cpu: usize) -> Vec<f64> {
        let per_second = self.usage[cpu].per_second;
        if self.is_receiver(cpu) {
            // What is sent beside the flow is received as the flow is; what is read here costs nothing there.
            let sends = self.record.taken[index].kind == ResourceKind::Nic;
            let flow = mean(&self.rates(|slot| slot.counted.flow.iter().map(|bytes| *bytes as f64).sum()));
            return self.rates(|slot| if sends { at(&slot.counted.taken, index) / flow } else { 0.0 });
        }
        self.rates(|slot| match self.cost(index) {
            Some(nanos_per_byte) => nanos_per_byte * at(&slot.counted.taken, index) / per_second,
            None => at(&slot.counted.own_cpu_nanos, index) / per_second,
        })
    }

    fn has_side_effect(&self, index: usize, cpu: usize) -> bool {
        let is_bytes = self.record.taken[index].unit == TakenUnit::Bytes;
        let on = self.slots.iter().filter(|slot| Self::is_on(slot, index)).count();
        is_bytes && self.side_effect(index, cpu).iter().sum::<f64>() > SIDE_EFFECT * on as f64
    }

    fn cpu_costs(&self, corrected: &Corrected, columns: &[usize]) -> Option<CpuCosts> {
        let pairs = columns.iter().flat_map(|column| corrected.cpus.iter().map(|cpu| (*column, *cpu)));
        let dear = pairs.filter(|(column, cpu)| self.has_side_effect(*column, *cpu));
        let is_whole = |column, cpu| self.is_receiver(cpu) || self.cost(column).is_some();
        let costs = dear.map(|(column, cpu)| match is_whole(column, cpu) {
            true => CpuCosts::Whole,
            false => CpuCosts::OfThreads,
        });
        costs.reduce(|one, other| if one == other { one } else { CpuCosts::OfThreads })
    }

    /// A second reading where CPUs matter: what takers of bytes cost them counts as taken from them, too.
    fn corrected(&self, y: &[f64], columns: &[Vec<usize>], pairs: &[usize]) -> Option<Corrected> {
        let fit = self.fit(y, &self.real, columns, pairs)?;
        let matters = |cpu: &usize| fit.sum(&[*cpu], -1.0).value > SIDE_EFFECT_SHARE;
        let cpus: Vec<usize> = self.cpus().filter(matters).collect();
        let mut real = self.real.clone();
        for cpu in &cpus {
            for index in (0..self.usage.len()).filter(|index| self.has_side_effect(*index, *cpu)) {
                let costs = self.side_effect(index, *cpu);
                real[*cpu].iter_mut().zip(costs).for_each(|(sum, cost)| *sum += cost);
            }
        }
        (!cpus.is_empty()).then_some(Corrected { real, cpus })
    }

    fn rise(
        &self,
        index: usize,
        resource: &TakenResource,
        columns: &[Vec<usize>],
        pairs: &[usize],
    ) -> Option<Estimate> {
        let usage = &self.usage[index];
        if resource.unit != TakenUnit::Bytes || usage.unknown().is_some() {
            return None;
        }
        let used = self.rates(|slot| at(&slot.counted.used, index) / usage.per_second);
        self.fit(&used, &self.real, columns, pairs).map(|fit| fit.sum(&[index], 1.0))
    }

    /// The largest effect on the slot after, where there is one beyond doubt. Pairs would hide it (the second slot of a
    /// pair follows its own complement), so what drifts is a sum of cosines here.
    /// What is felt late is missing in the sum of the shares: where that is all of the flow, there is nothing left to feel.
    fn carry_over(&self, y: &[f64], sum: Option<Estimate>) -> Option<CarryOver> {
        let count = self.slots.len().checked_sub(1)?;
        let seconds: f64 = self.slots.iter().map(|slot| slot.counted.nanos as f64 / 1e9).sum();
        let waves = ((seconds / DRIFT_SECONDS) as usize).clamp(2, count.max(2));
        let wave = |wave: usize| {
            let at = |slot: usize| std::f64::consts::PI * wave as f64 * (slot as f64 + 0.5) / count as f64;
            (0..count).map(|slot| at(slot).cos()).collect::<Vec<f64>>()
        };
        let with_lags = |columns: &[Vec<f64>]| {
            let now = columns.iter().map(|column| column.iter().skip(1).copied().collect());
            let before = columns.iter().map(|column| column[..count].to_vec());
            now.chain(before).chain((0..waves).map(wave)).collect::<Vec<Vec<f64>>>()
        };
        let (real, meant) = (with_lags(&self.real), with_lags(&self.meant));
        let fit = Fit::plain(y.get(1..)?, &real, &meant)?;
        let columns = self.real.len();
        let ids = self.record.taken.iter().map(|it| &it.id).chain(self.record.raised.iter().map(|it| &it.id));
        let lags = ids
            .enumerate()
            .map(|(index, id)| CarryOver { id: id.clone(), lag: fit.share_among(columns + index, columns) });
        let is_left = |lag: Estimate, sum: Estimate| {
            sum.value + lag.value <= 1.0 + sum.half_width.hypot(lag.half_width)
        };
        let too_much = lags
            .filter(|it| it.lag.value.abs() > MOST_LAG.max(SURELY * it.lag.half_width))
            .filter(|it| sum.is_none_or(|sum| is_left(it.lag, sum)));
        too_much.max_by(|a, b| a.lag.value.abs().total_cmp(&b.lag.value.abs()))
    }
}

fn at(amounts: &[u64], index: usize) -> f64 {
    amounts.get(index).map_or(0.0, |amount| *amount as f64)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
