//! One window of flows after another with the members that are left: connections first, then a common moment to begin,
//! then their figures.

use crate::conversation::{Conversation, WindowSettings};
use crate::fabric::FabricLinks;
use crate::predict::{FlowPrediction, limits, predicted};
use crate::protocol::{FlowReport, FlowRequest, MemberReply, MemberRequest, is_possible};
use crate::schedule::{FlowEnds, WindowPlan};
use crate::sums::range;
use linerate_measure::run::fleet::{FleetCell, FleetHost, FleetResult, FleetWindow, HostLoad};
use linerate_system::stop::Stop;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// Between the word to begin and the beginning: the word is there by then.
pub(crate) const LEAD: Duration = Duration::from_millis(60);
/// Connections to the receivers: each step there ends within three seconds.
const PREPARE: Duration = Duration::from_secs(12);
/// After a window, the last question to each receiver.
const AFTER: Duration = Duration::from_secs(5);

impl Conversation {
    /// Begins the flows of a plan together; the window and its cells, with reasons where there is no figure. None where it
    /// was interrupted.
    pub(crate) fn window(
        &mut self,
        number: usize,
        plan: &WindowPlan,
        before: &FleetResult,
        fabric: &FabricLinks,
        stop: &Stop,
    ) -> Option<(FleetWindow, Vec<FleetCell>, Vec<FleetHost>)> {
        let mut figures: HashMap<FlowEnds, FlowReport> = HashMap::new();
        let fail = |figures: &mut HashMap<FlowEnds, FlowReport>, ends: FlowEnds, why: &str| {
            figures.entry(ends).or_insert_with(|| FlowReport::failed(ends.1, why));
        };
        let mut by_sender: BTreeMap<usize, Vec<FlowRequest>> = BTreeMap::new();
        let rate = self.settings.rate_limit.map(|limit| limit / plan.flows.len().max(1) as f64);
        for (from, to) in plan.flows.iter().copied() {
            if let Some(gone) = [from, to].into_iter().find(|end| self.is_lost(*end)) {
                fail(&mut figures, (from, to), &format!("{} was lost before", self.members[gone].name));
                continue;
            }
            by_sender.entry(from).or_default().push(FlowRequest {
                to,
                address: self.members[to].address,
                streams: self.settings.streams,
                bytes_per_second: rate,
                disks: plan.disks,
                asks: self.settings.asks && !plan.alone,
            });
        }
        let window = number as u32;
        for (sender, flows) in &by_sender {
            self.ask(*sender, &MemberRequest::Prepare { window, flows: flows.clone() });
        }
        let mut ready = Vec::new();
        let late = self.collect(by_sender.keys().copied(), PREPARE, stop, |from, reply| match reply {
            MemberReply::Ready { window: of, failures } if of == window => {
                failures.iter().for_each(|failure| fail(&mut figures, (from, failure.to), &failure.why));
                ready.push(from);
                true
            }
            _ => false,
        })?;
        late.into_iter().for_each(|number| self.lose(number, "it did not prepare a window in time".into()));
        let at = self.now_nanos() + LEAD.as_nanos() as i64;
        let WindowSettings { seconds, warm_up_seconds, .. } = self.settings;
        let receives = |to: &usize| !by_sender.contains_key(to) && !self.is_lost(*to);
        let receivers: BTreeSet<usize> = plan.flows.iter().map(|(_, to)| *to).filter(receives).collect();
        ready.extend(receivers);
        for member in ready.iter().copied() {
            let at_nanos = self.member_nanos(member, at);
            self.ask(member, &MemberRequest::Begin { window, at_nanos, warm_up_seconds, seconds });
        }
        let length = LEAD + Duration::from_secs_f64(warm_up_seconds + seconds) + AFTER;
        let (mut begins, mut loads) = (Vec::new(), Vec::new());
        self.collect(ready, length, stop, |from, reply| match reply {
            MemberReply::Done { window: of, began_nanos, flows, load } if of == window => {
                loads.extend(is_possible(&load).then_some((from, load)));
                begins.push((from, began_nanos));
                for flow in flows {
                    figures.entry((from, flow.to)).or_insert(flow.checked());
                }
                true
            }
            _ => false,
        })?;
        let begins = begins.into_iter().map(|(from, nanos)| self.coordinator_nanos(from, nanos, at));
        let begins: Vec<i64> = begins.collect();
        let skew = begins.iter().max().zip(begins.iter().min()).map_or(0, |(last, first)| last - first);
        let predicted = predicted(plan, before, fabric);
        let cells: Vec<FleetCell> = plan
            .flows
            .iter()
            .zip(predicted)
            .map(|(ends, predicted)| self.cell(number, *ends, predicted, figures.remove(ends)))
            .collect();
        let measured = || cells.iter().filter(|cell| cell.figures.bytes_per_second.is_some());
        let rates = || measured().filter_map(|cell| cell.figures.bytes_per_second);
        let predicted: Option<f64> = measured().map(|cell| cell.predicted_bytes_per_second).sum();
        let window = FleetWindow {
            flows: plan.flows.len(),
            bytes_per_second: rates().sum(),
            single_flows: range(rates()),
            predicted_bytes_per_second: predicted.filter(|sum| *sum > 0.0),
            start_skew_seconds: skew as f64 / 1e9,
            alone: plan.alone,
            limits: limits(plan, before, fabric),
            ..FleetWindow::default()
        };
        let host = |(from, load): (usize, HostLoad)| FleetHost {
            member: self.members[from].name.clone(),
            window: number,
            load,
        };
        Some((window, cells, loads.into_iter().map(host).collect()))
    }

    fn cell(
        &self,
        window: usize,
        ends: FlowEnds,
        predicted: FlowPrediction,
        report: Option<FlowReport>,
    ) -> FleetCell {
        let (from, to) = (&self.members[ends.0], &self.members[ends.1]);
        let why = || match (&from.lost, &to.lost) {
            (Some(_), _) => format!("{} was lost in this window", from.name),
            (_, Some(_)) => format!("{} was lost in this window", to.name),
            _ => format!("{} gave no figure in time", from.name),
        };
        let report = report.unwrap_or_else(|| FlowReport::failed(ends.1, why()));
        FleetCell {
            from: from.name.clone(),
            to: to.name.clone(),
            window,
            predicted_bytes_per_second: predicted.bytes_per_second,
            fabric_share: predicted.fabric_share,
            figures: report.figures,
        }
    }
}
